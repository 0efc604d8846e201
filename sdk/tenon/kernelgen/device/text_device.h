// What devices share that hand kernelgen's text to a compiler of their own: claims, an artifact of
// program and code, and the bytes of both. With it, tenon.compile/1 is left with what is really the
// device's: compiling, memory, launching.
//
// Functions return an ABI code; the reason is with the host. They may throw std::bad_alloc: call
// them under a trampoline.
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

namespace tenon::kernelgen {

// For the partitioner: the order of magnitude decides.
struct DeviceRates {
  double gigabytes_per_second = 10, gigaflops_per_second = 10, launch_ns = 1000;
};

// Claims every node of the main region that can be lowered, one claim a node, and refuses the
// others with reasons.
tenon_code_t claim_nodes(const HostTables& host, tenon_graph_t* graph, const LoweringLimits& limits,
                         const DeviceRates& rates, const tenon_claim_sink_t* sink);

struct TextArtifact {
  TextArtifact() = default;
  ~TextArtifact();
  TextArtifact(const TextArtifact&) = delete;
  TextArtifact& operator=(const TextArtifact&) = delete;

  std::string program;  // DeviceProgram::bytes
  std::string
      code;  // what the device's compiler made; the text itself where the driver compiles at load
  std::string text;                                   // for dumps
  uint32_t kernel_count = 0, kernels_from_cache = 0;  // the second: of the first
  // For dumps of stages and loops, which are made when somebody asks. The graph is retained.
  const tenon_host_graph_t* graphs = nullptr;
  tenon_graph_t* graph = nullptr;
  Target target = Target::generic();
};

// An error if there is any option but the host's own `ops`: for devices that have none.
tenon_code_t refuse_options(const HostTables& host, std::string_view device,
                            const tenon_compile_options_t* options);

// Everything but `code`. UNIMPLEMENTED with a reason that begins with `device`; CANCELLED, also
// when that is only seen at the end.
tenon_code_t build_text(const HostTables& host, std::string_view device, tenon_graph_t* graph,
                        const Target& target, TextArtifact* out);

// Bytes of program and code, and back. FAILED_PRECONDITION for bytes that are not such an artifact.
// *code is a view into bytes.
tenon_code_t write_artifact(const TextArtifact& artifact, const tenon_sink_t* sink);
tenon_code_t read_artifact(const HostTables& host, std::string_view device, const void* bytes,
                           uint64_t size_bytes, DeviceProgram* program, std::string_view* code);

// Answers dump for "stages", "loops" and "source". The first two lower the graph once more. Safe.
tenon_code_t dump_artifact(const HostTables& host, std::string_view device,
                           const TextArtifact& artifact, tenon_str_t what,
                           const tenon_sink_t* sink);

// The constants that kernels read: bytes by ordinal; empty where no kernel does. Borrowed from the
// blobs.
tenon_code_t constant_bytes(const HostTables& host, std::string_view device,
                            const DeviceProgram& program, tenon_blob_t* const* blobs,
                            uint32_t count, std::vector<std::string_view>* out);

}  // namespace tenon::kernelgen
#endif
