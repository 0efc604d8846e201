// A compiled subgraph as bytes: a header, kernelgen's record (buffers, kernels, steps), and the
// shared objects with the code.
#ifndef TENON_PLUGINS_CPU_ARTIFACT_H_
#define TENON_PLUGINS_CPU_ARTIFACT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa.h"
#include "tenon/cpp/status.hpp"

namespace tenon::cpu {

struct ArtifactParts {
  Isa isa = Isa::kBaseline;
  std::string_view program;            // DeviceProgram::bytes(), or ControlProgram::bytes()
  std::vector<std::string_view> code;  // Shared objects; none when there is no kernel.
  bool control = false;                // `program` is a ControlProgram, with artifacts inside.
};

std::string artifact_pack(const ArtifactParts& parts);

// Checks the lengths, the digest and the plugin's version, but not the record itself. `out` has
// views into `bytes`. FAILED_PRECONDITION or DATA_LOSS, with the reason recorded.
Status artifact_unpack(std::string_view bytes, ArtifactParts& out);
// The same for code that is to run: FAILED_PRECONDITION unless this processor has its instruction
// set.
Status artifact_unpack_to_run(std::string_view bytes, ArtifactParts& out);

}  // namespace tenon::cpu
#endif
