// Shared by devices that pass kernelgen's text to their own compiler: claims, an artifact of
// program and code, and its bytes. Such a device implements only the rest of tenon.compile/1:
// compiling, memory, launching.
//
// Functions return an ABI code; the host has the reason. They may throw std::bad_alloc: call them
// under a trampoline.
//
// Users: plugins/sim, samples/opencl; plugins/cpu uses claim_nodes.
#ifndef TENON_KERNELGEN_DEVICE_TEXT_DEVICE_H_
#define TENON_KERNELGEN_DEVICE_TEXT_DEVICE_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/abi/compile.h"
#include "tenon/kernelgen/device/device_program.h"
#include "tenon/kernelgen/lower/lower_graph.h"
#include "tenon/kernelgen/lower/node_cost.h"

namespace tenon::kernelgen {

// Claims every node of the main region that can be lowered, one claim per node, and refuses the
// others with reasons. A barrier is an atomic claim: a program of its own, between those before and
// after it.
tenon_code_t claim_nodes(const HostTables& host, tenon_graph_t* graph, const LoweringLimits& limits,
                         const DeviceRates& rates, const tenon_claim_sink_t* sink);

struct TextArtifact {
  TextArtifact() = default;
  ~TextArtifact();
  TextArtifact(const TextArtifact&) = delete;
  TextArtifact& operator=(const TextArtifact&) = delete;

  std::string program;  // DeviceProgram::bytes
  // What the device's compiler made, or the text itself if the driver compiles at load.
  std::string code;
  std::string text;                                   // for dumps
  std::vector<std::string> kernel_texts;              // each kernel's alone; only if asked for
  uint32_t kernel_count = 0, kernels_from_cache = 0;  // kernels_from_cache: of kernel_count
  // For dumps of stages and loops, which are made on demand. The graph is retained.
  const tenon_host_graph_t* graphs = nullptr;
  tenon_graph_t* graph = nullptr;
  Target target = Target::generic();
};

// An error if there is any option besides the host's own `ops`. For devices without options.
tenon_code_t refuse_options(const HostTables& host, std::string_view device,
                            const tenon_compile_options_t* options);

// Makes everything but `code`. Errors: UNIMPLEMENTED with a reason that begins with `device`;
// CANCELLED, also if cancellation is only noticed at the end. each_kernel: makes kernel_texts too.
tenon_code_t build_text(const HostTables& host, std::string_view device, tenon_graph_t* graph,
                        const Target& target, TextArtifact* out, bool each_kernel = false);

// Converts program and code to bytes and back. FAILED_PRECONDITION for bytes that are not such an
// artifact. *code is a view into bytes.
tenon_code_t write_artifact(const TextArtifact& artifact, const tenon_sink_t* sink);
tenon_code_t read_artifact(const HostTables& host, std::string_view device, const void* bytes,
                           uint64_t size_bytes, DeviceProgram* program, std::string_view* code);

// Implements dump for "stages", "loops" and "source". The first two lower the graph again. Threads:
// safe.
tenon_code_t dump_artifact(const HostTables& host, std::string_view device,
                           const TextArtifact& artifact, tenon_str_t what,
                           const tenon_sink_t* sink);

// The bytes of constants, by ordinal; empty for those that no kernel reads. Borrowed from the
// blobs.
tenon_code_t constant_bytes(const HostTables& host, std::string_view device,
                            const DeviceProgram& program, tenon_blob_t* const* blobs,
                            uint32_t count, std::vector<std::string_view>* out);

}  // namespace tenon::kernelgen
#endif
