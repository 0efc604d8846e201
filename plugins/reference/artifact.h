// The bytes of an artifact: a header with a digest, the list of constants of the compiled graph
// that became arguments, and the graph in binary form.
#ifndef TENON_PLUGINS_REFERENCE_ARTIFACT_H_
#define TENON_PLUGINS_REFERENCE_ARTIFACT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/cpp/status.hpp>

namespace tenon::reference {

struct ArtifactView {
  uint32_t constant_count = 0;  // of the compiled graph
  std::vector<uint32_t>
      ordinals;            // of constants that became arguments, the last ones of the graph below
  std::string_view graph;  // borrowed
};

std::string artifact_head(const std::vector<uint32_t>& ordinals, uint32_t constant_count,
                          std::string_view graph);
// FAILED_PRECONDITION for bytes that are not an artifact of this version, or that are damaged.
Status read_head(const void* bytes, uint64_t size_bytes, ArtifactView* out);

}  // namespace tenon::reference

#endif
