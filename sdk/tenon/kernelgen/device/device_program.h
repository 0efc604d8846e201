// A compiled subgraph as data: buffers, kernels and steps, with every size as a program over the
// subgraph's symbols. Devices that generate code store it in their artifacts beside the object
// code. It holds no pointers and no constants.
//
//   build:       graph -> lower -> partition -> distinct kernels -> text, and this record.
//   bytes/read:  The record as bytes. read() treats them as hostile and checks counts, indices and
//                lengths, so that a record it accepts can be trusted.
//   layout:      Concrete sizes for a tuple of symbols (program_layout.h).
//
// At load the load steps run once, in order, and fill the persistent buffers. Then constants and
// persistent buffers that no step of a run reads can be freed (used_at_run).
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

// kPersistent: written by the load steps, read by every run; its size depends on no symbol.
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
  // Operations, and the least bytes to move, over the kernel's extents. For profiles.
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
  std::vector<tenon_node_t> nodes;   // the graph's, for dumps; not in bytes()
  // Pairs (written, read) of buffers that may share memory: the kernel reads each element before it
  // writes it, and never again. A buffer may be in several pairs, of which one can be chosen.
  std::vector<uint32_t> in_place;
  // It only copies in_place[1] to in_place[0]: nothing to do where both are the same memory.
  bool copies = false;
  // Buffers that this step shares with other writers: it writes its own elements and other steps
  // the rest, in any order.
  std::vector<uint32_t> parts;
};

// A check after the last step of a run: the u64 in `buffer` must be below `limit`, unless `count`
// is 0. Otherwise the run fails at the user's node `origins`; `text` is the condition that failed,
// and empty if an index is outside of [0, limit).
struct ProgramCheck {
  uint32_t buffer = 0;
  SizeProgram limit, count;  // over the symbols
  std::string origins, text;
};

struct DeviceProgram {
  uint32_t symbol_count = 0, input_count = 0, output_count = 0, constant_count = 0;
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramKernel> kernels;
  // They read constants and persistent buffers, write persistent buffers, and need no symbols.
  std::vector<ProgramStep> load_steps;
  std::vector<ProgramStep> steps;

  std::vector<ProgramCheck> checks;

  std::string bytes() const;
  static bool read(const void* data, uint64_t size_bytes, DeviceProgram* out, std::string* why);
};

// The launches as one line of JSON, as the dump "kernels" of tenon_compile_api_t.
std::string kernels_json(const DeviceProgram& program);

// By buffer: whether a step of a run reads or writes it.
std::vector<bool> used_at_run(const DeviceProgram& program);
// By buffer: whether any step uses it, at load or at run. Temps that were fused away are in no
// step.
std::vector<bool> used_by_steps(const DeviceProgram& program);

// The distinct kernels of a program, to print in batches of the caller's choice.
struct BuiltProgram {
  DeviceProgram program;
  std::vector<Kernel> kernels;  // one per DeviceProgram::kernels
  // Not built because kernelgen broke a rule of its own: INTERNAL, where other failures are
  // UNIMPLEMENTED.
  bool broken = false;
  // By kernel: the steps that launch it.
  std::vector<std::vector<uint32_t>> steps_of, load_steps_of;
};

// Lowers, fuses and schedules. Fills everything in DeviceProgram except entry, range, scratch_bytes
// and grain, which generate_batch() decides.
bool build_program(const HostTables& host, tenon_graph_t* graph, const Target& target,
                   BuiltProgram* out, std::string* why);

// The second half of build_program: from a program after move_to_load() to kernels and steps. The
// verifier may be null.
bool build_kernels(const HostTables& host, tenon_graph_t* graph, Lowered lowered,
                   const Target& target, Verifier* verifier, BuiltProgram* out, std::string* why);

// Replaces a kernel of a program by its general form. Call before generate_batch.
void take_general(BuiltProgram* built, uint32_t kernel, General general);

// Prints kernels [begin, end) into one text, records their launches in the program, and puts the
// buffers of their steps in argument order. Threads: different batches may run at once, since each
// changes only its own kernels. texts: as in generate().
bool generate_batch(BuiltProgram* built, uint32_t begin, uint32_t end, const Target& target,
                    std::string* out_text, std::string* why,
                    std::vector<std::string>* texts = nullptr);

// An explanation for people: stages, schedules and loops of all kernels, in order of steps.
bool explain_program(BuiltProgram* built, const Target& target, std::string* out, std::string* why);

}  // namespace tenon::kernelgen
#endif
