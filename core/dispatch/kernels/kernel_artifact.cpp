// The bytes of a segment of kernels: graph, target, flags, length of the target.
#include <fmt/format.h>

#include "core/base/str.h"
#include "core/dispatch/kernels/kernel_program.h"
#include "core/ir/serial/serial.h"

namespace tenon::dispatch {
namespace {

using Tail = uint64_t;  // the target's length, and above it the flags
constexpr int kFlagsAt = 32;
constexpr Tail kDeterministic = Tail{1} << kFlagsAt;

}  // namespace

Result<std::string> KernelArtifact::pack(std::string graph, std::string_view target,
                                         bool deterministic) {
  if (target.size() > UINT32_MAX)
    return error(TENON_INVALID_ARGUMENT, "T0210", "a target of {} bytes", target.size());
  const Tail tail = target.size() | (deterministic ? kDeterministic : 0);
  graph.append(target);
  for (size_t i = 0; i < sizeof tail; ++i) graph.push_back(static_cast<char>(tail >> (8 * i)));
  return graph;
}

Result<KernelArtifact> KernelArtifact::unpack(std::string_view bytes) {
  Tail tail = 0;
  if (bytes.size() >= sizeof tail) {
    const std::string_view end = bytes.substr(bytes.size() - sizeof tail);
    for (size_t i = 0; i < sizeof tail; ++i)
      tail |= Tail{static_cast<unsigned char>(end[i])} << (8 * i);
    bytes.remove_suffix(sizeof tail);
    const uint64_t length = tail & UINT32_MAX;
    if (length <= bytes.size() && (tail & ~kDeterministic) == length)
      return KernelArtifact{bytes.substr(0, bytes.size() - length),
                            bytes.substr(bytes.size() - length), (tail & kDeterministic) != 0};
  }
  return error(TENON_FAILED_PRECONDITION, "T0210",
               "an artifact of kernels is damaged: its target is not in it");
}

Result<ir::Ref<ir::Graph>> KernelArtifact::read_graph() const {
  TENON_ASSIGN_OR_RETURN(ir::Ref<ir::Blob> blob, ir::blob_bytes(std::as_bytes(std::span(graph))));
  return ir::read_graph(std::move(blob), "", {});
}

}  // namespace tenon::dispatch
