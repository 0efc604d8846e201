// A compiled subgraph as data: buffers, kernels and steps, with every size as a program over the
// subgraph's symbols. What code-generating devices keep in their artifacts beside the object code;
// it holds no pointer and no constant.
//
// build_program() makes it of a graph, generate_batch() makes the text of its kernels. bytes() and
// read() keep it; read() trusts no count, index or length. layout_program() (program_layout.h)
// gives it concrete sizes.
// At load the load steps run once, in order, and fill the persistent buffers. Then constants and
// persistent buffers that no step of a run reads can go (used_at_run).
//
// Users: plugins/cpu, plugins/sim, samples/opencl.
#ifndef TENON_KERNELGEN_DEVICE_DEVICE_PROGRAM_H_
#define TENON_KERNELGEN_DEVICE_DEVICE_PROGRAM_H_

#include <span>
#include <string>
#include <vector>

#include "tenon/kernelgen/device/generate.h"
#include "tenon/kernelgen/ir/general.h"
#include "tenon/kernelgen/lower/lower_graph.h"
#include "tenon/kernelgen/verify/verify_memory.h"

namespace tenon::kernelgen {

// kPersistent: written by the load steps, of a size that no symbol changes, read by every run.
enum class BufferKind : uint8_t { kInput, kOutput, kConstant, kTemp, kPersistent };

struct ProgramBuffer {
  BufferKind kind = BufferKind::kTemp;
  uint32_t index = 0;  // which input, output or constant
  DType type = TENON_DTYPE_NONE;
  SizeProgram bytes;              // over the symbols
  std::vector<SizeProgram> dims;  // outputs only
};

struct ProgramKernel {
  std::string entry;
  Hash128 hash;
  uint32_t buffer_count = 0, extent_count = 0;
  SizeProgram range, scratch_bytes;  // over the kernel's extents
  int64_t grain = 1;
  uint32_t group = 0;  // Launch::group and ::together
  bool together = false;
  // Over the kernel's extents: operations, and bytes that have to move at least once. For profiles.
  SizeProgram flops, bytes;
};

// One launch. Buffers and extents are in the order of the kernel's arguments.
struct ProgramStep {
  uint32_t kernel = 0;
  std::vector<uint32_t> buffers;  // ordinals in DeviceProgram::buffers
  std::vector<bool> written;
  std::vector<SizeProgram> extents;  // over the symbols
  std::string name;                  // "softmax+add", for profiles
  std::string origins;               // the user's nodes
  // Pairs (written, read) of buffers that may be one memory: the kernel reads an element before it
  // writes it, and never again.
  std::vector<uint32_t> in_place;
  // Buffers of which this step writes elements of its own while other steps write the rest, in any
  // order.
  std::vector<uint32_t> parts;
};

// What a run is to be asked when its steps are done: the u64 that `buffer` holds is below `limit`,
// unless `count` is 0. Else the run fails, for the user's node `origins`; `text` says what does not
// hold, empty: an index is outside of [0, limit).
struct ProgramCheck {
  uint32_t buffer = 0;
  SizeProgram limit, count;  // over the symbols
  std::string origins, text;
};

struct DeviceProgram {
  uint32_t symbol_count = 0, input_count = 0, output_count = 0, constant_count = 0;
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramKernel> kernels;
  std::vector<ProgramStep> load_steps;  // read constants and persistent buffers, write persistent
                                        // buffers; need no symbol
  std::vector<ProgramStep> steps;

  std::vector<ProgramCheck> checks;

  std::string bytes() const;
  static bool read(const void* data, uint64_t size_bytes, DeviceProgram* out, std::string* why);
};

// By buffer: some step of a run reads or writes it.
std::vector<bool> used_at_run(const DeviceProgram& program);

// Distinct kernels of a program, to be printed in batches of the caller's choice.
struct BuiltProgram {
  DeviceProgram program;
  std::vector<Kernel> kernels;  // one per DeviceProgram::kernels
  bool broken = false;  // not built, since kernelgen broke a rule of its own: an INTERNAL error,
                        // where the others are UNIMPLEMENTED
  std::vector<std::vector<uint32_t>> steps_of,
      load_steps_of;  // by kernel: the steps that launch it
};

// Lowers, fuses and schedules. Fills everything of DeviceProgram but entry, range, scratch_bytes
// and grain, which generate() decides: record them with set_launches. A step's order of buffers is
// the Launch's.
bool build_program(const HostTables& host, tenon_graph_t* graph, const Target& target,
                   BuiltProgram* out, std::string* why);

// Its second half: from a program after move_to_load() to kernels and steps. The verifier may be
// null.
bool build_kernels(const HostTables& host, tenon_graph_t* graph, Lowered lowered,
                   const Target& target, Verifier* verifier, BuiltProgram* out, std::string* why);

// The kernel of a program gives way to its general form. Before generate_batch.
void take_general(BuiltProgram* built, uint32_t kernel, General general);

// Prints kernels [begin, end) into one text and records their launches in the program. The steps of
// those kernels get their buffers in argument order. Batches may be generated by several threads at
// once: each touches its own kernels.
bool generate_batch(BuiltProgram* built, uint32_t begin, uint32_t end, const Target& target,
                    std::string* out_text, std::string* why);

// Explanations for people: all kernels' stages, schedules and loops in order of steps.
bool explain_program(BuiltProgram* built, const Target& target, std::string* out, std::string* why);

}  // namespace tenon::kernelgen
#endif
