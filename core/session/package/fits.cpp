// Whether a compiled program can run elsewhere, and code here.
#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/str.h"
#include "core/op/registry.h"
#include "core/session/package/package.h"

namespace tenon::session {
namespace {

// Devices that interpret a graph look its ops up by number where they load it.
Status check_ops(const ir::Graph& graph) {
  for (ir::Node n = 0; n < graph.node_limit(); ++n) {
    if (!graph.node_live(n)) continue;
    const ir::NodeData& node = graph.node(n);
    const op::OpRecord* record = op::Registry::instance().record(node.op, node.op_version);
    if (record == nullptr || !op::of_this_process(*record)) continue;
    return error(TENON_UNIMPLEMENTED, "T0520",
                 "the op {} was registered by this program and is defined by functions, which "
                 "another process does not have; an op with a scalar program, or of a plugin in a "
                 "file, can be put in a package",
                 quoted(sym_text(node.op)));
  }
  return {};
}

}  // namespace

Result<std::optional<std::string>> refusal_of(runtime::Device& device,
                                              const tenon_compile_api_t& api,
                                              std::string_view code) {
  auto guard = device.serialise();
  clear_failure();
  const tenon_code_t answer = api.fits(api.self, device.target(), code.data(), code.size());
  if (answer == TENON_FAILED_PRECONDITION || answer == TENON_UNIMPLEMENTED)
    return std::optional<std::string>(from_abi(answer, "fits").message());
  TENON_RETURN_IF_ERROR(device.check(answer, "fits"));
  return std::optional<std::string>();
}

Status check_portable(const Program& program) {
  TENON_RETURN_IF_ERROR(check_ops(program.graph()));
  for (const CompiledSegment& segment : program.segments()) {
    TENON_ASSIGN_OR_RETURN(const std::optional<std::string> refusal,
                           refusal_of(*segment.owner, *segment.compiler(), segment.bytes));
    if (!refusal) continue;
    return error(TENON_FAILED_PRECONDITION, "T0520",
                 "device {} does not take the code that it compiled for {}: {}",
                 quoted(segment.owner->name()), quoted(from_abi_str(segment.owner->target())),
                 *refusal);
  }
  return {};
}

}  // namespace tenon::session
