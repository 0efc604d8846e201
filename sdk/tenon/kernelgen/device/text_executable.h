// tenon.compile/1 for devices whose runtime accepts text and starts kernels: OpenCL, CUDA, HIP,
// Level Zero, Metal. A vendor derives from TextDevice and implements how text becomes code, how a
// kernel starts and how work is submitted. TextDevice implements claims, artifacts, sizes,
// constants, load steps, checks of a run and profiles.
//
//   struct MyDevice : TextDevice { ... };
//   MyDevice device;
//   const tenon_compile_api_t kCompileTable = device.table();
//
// Buffers come from the device's own tenon.device/1. Threads: an executable may run on several
// threads at once.
//
// Users: samples/opencl, plugins/cuda.
#ifndef TENON_KERNELGEN_DEVICE_TEXT_EXECUTABLE_H_
#define TENON_KERNELGEN_DEVICE_TEXT_EXECUTABLE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tenon/abi/compile.h"
#include "tenon/cpp/status.hpp"
#include "tenon/kernelgen/device/device_program.h"
#include "tenon/kernelgen/device/text_device.h"

namespace tenon::kernelgen {

struct MemoryRange {
  tenon_buffer_t* buffer = nullptr;
  uint64_t offset_bytes = 0, size_bytes = 0;  // offset: a multiple of the device's alignment
};

// One kernel with its arguments in order: memory, extents, and scratch where it has a size.
struct KernelStart {
  uint32_t kernel = 0;  // of DeviceProgram::kernels
  std::string_view name;
  std::span<const MemoryRange> memory;
  std::span<const int64_t> extents;
  MemoryRange scratch;
  uint64_t items = 0;  // global size, at least 1
  uint32_t group = 0;  // 0: the runtime chooses
};

// Code on the device. Destroyed when no work uses it any more.
class LoadedText {
 public:
  virtual ~LoadedText() = default;
};

// When one started kernel ran, in ns of any steady clock of the device.
struct KernelTime {
  uint64_t begin_ns = 0, end_ns = 0;
};
// Moves times from a device's clock to the host's, which profiles use: the last kernel is taken to
// have ended at `now_ns`, when its completion was reported.
void move_to_host_clock(std::span<KernelTime> times, uint64_t now_ns);
// Called once, on any thread, when all work of a submission is done. times is empty unless
// requested. A code other than OK fails the submission's signal with `why`.
using Completion = std::function<tenon_code_t(std::span<const KernelTime> times, std::string* why)>;

// Work being submitted to one queue. Destruction without finish waits for the submitted work and
// signals nothing.
class Submission {
 public:
  virtual ~Submission() = default;
  virtual Status start(LoadedText& code, const KernelStart& start) = 0;
  // Reads into host memory, which stays valid until the completion was called.
  virtual Status read(const MemoryRange& from, void* to) = 0;
  // With a queue: returns at once; `signal` (its fence may be null) is signalled after the
  // completion. Without a queue: returns when all work is done, with the result of the completion.
  // A failing finish has waited, and signals nothing.
  virtual Status finish(tenon_fence_point_t signal, Completion done) = 0;
};

class TextDevice {
 public:
  virtual ~TextDevice() = default;

  virtual std::string_view name() const = 0;  // prefix of reasons
  virtual DeviceRates rates() const = 0;
  // The kernelgen target for tenon_device_info_t::target. That text and `compiler` must contain
  // everything that makes binaries differ.
  virtual Target target(std::string_view text) const = 0;
  // INVALID_ARGUMENT for a text that is no target of this device. Asked before code is made.
  virtual Status check_target(std::string_view) const { return {}; }
  // Whether code compiled for one target runs on a device of another.
  virtual bool runs(std::string_view made_for, std::string_view device) const;
  virtual const tenon_device_api_t& memory() const = 0;
  virtual uint64_t alignment_bytes(tenon_device_t* device) const = 0;
  // The version of what `compile` calls for a target, where the target's text does not say it.
  virtual std::string_view compiler(std::string_view target) const {
    (void)target;
    return {};
  }
  // Whether `compile` gets the text of one kernel at a time. Then each kernel has a binary and an
  // entry in the host's cache of its own, and programs that have a kernel in common compile it
  // once. Otherwise there is one text, and one binary, for all kernels of a program.
  virtual bool compiles_each_kernel() const { return false; }
  // Compiles for that target ahead of loading. The host caches the binary, so that a second start
  // compiles nothing. If it is left empty, `load` compiles.
  virtual Status compile(std::string_view target, std::string_view text,
                         std::string* out_binary) const;
  // binaries: the results of compile, of which any may be empty: one for each kernel of the program
  // if compiles_each_kernel(), else one. text: that of all kernels. A binary that the runtime
  // refuses is not an error if the text compiles.
  virtual Status load(tenon_device_t* device, const DeviceProgram& program,
                      std::span<const std::string_view> binaries, std::string_view text,
                      std::unique_ptr<LoadedText>* out) const = 0;
  // queue null: the device's own queue, and finish waits for it. The work of this submission waits
  // for `waits`.
  virtual Status submit(tenon_device_t* device, tenon_queue_t* queue,
                        std::span<const tenon_fence_point_t> waits, bool timed,
                        std::unique_ptr<Submission>* out) const = 0;

  // For the plugin's list of interfaces. The device must live as long as the process.
  tenon_compile_api_t table();

  // The slots of the table.
  Status claim(tenon_str_t target, tenon_graph_t* graph, const tenon_compile_options_t* options,
               const tenon_claim_sink_t* sink);
  Status properties(tenon_str_t target, tenon_compile_properties_t* out);
  Status compile_graph(tenon_str_t target, tenon_graph_t* graph,
                       const tenon_compile_options_t* options, tenon_artifact_t** out);
  Status fits(tenon_str_t target, const void* bytes, uint64_t size_bytes);
  Status load_bytes(tenon_device_t* device, const void* bytes, uint64_t size_bytes,
                    tenon_blob_t* const* constants, uint32_t constant_count,
                    tenon_executable_t** out);
  // Also "binary": what compile made, one after another.
  Status dump(tenon_artifact_t* artifact, tenon_str_t what, const tenon_sink_t* sink);

 private:
  Status cached_binary(std::string_view target, std::string_view text, std::string* out,
                       bool* found);
  Status compile_all(std::string_view target, TextArtifact* artifact,
                     std::vector<std::string>* out_binaries);
};

}  // namespace tenon::kernelgen
#endif
