// The dump "report": a program's graph, its segments and their kernels, for viewers.
#include "core/base/errors/guard.h"
#include "core/base/str.h"
#include "core/ir/serial/serial.h"
#include "core/session/compile/program.h"

namespace tenon::session {
namespace {

using ir::Node;

// By node of the segment's own graph, the node of the program's graph: a cut keeps the order of
// nodes. Others are -1.
std::string numbers(const CompiledSegment& segment) {
  const ir::Graph& sub = *segment.subgraph.graph;
  std::vector<int64_t> of(sub.node_limit(), -1);
  size_t i = 0;
  for (Node n : sub.nodes(sub.main())) {
    if (i < segment.nodes.size()) of[n] = segment.nodes[i++];
  }
  std::string text;
  for (size_t n = 0; n < of.size(); ++n) text += fmt::format("{}{}", n == 0 ? "" : ",", of[n]);
  return text;
}

// What the device says of its launches, or why it says nothing.
std::string kernels(const CompiledSegment& segment) {
  const auto none = [](std::string_view why) {
    return fmt::format("\"kernels\":\"\",\"why_not\":{}", json_quoted(why));
  };
  if (segment.by != 0) return none("a kernel set runs it");
  const tenon_compile_api_t* api = segment.compiler();
  if (api->dump == nullptr) return none("the device shows nothing of what it makes");
  std::string text;
  const tenon_sink_t sink = sink_into(text);
  clear_failure();
  const tenon_code_t code = api->dump(api->self, segment.artifact, to_abi_str("kernels"), &sink);
  if (code != TENON_OK) return none(from_abi(code, "dump").message());
  return fmt::format("\"kernels\":{},\"why_not\":\"\"", json_quoted(text));
}

}  // namespace

Result<std::string> Program::report_json() const {
  TENON_ASSIGN_OR_RETURN(const std::string graph, ir::write_json(*graph_));
  std::string segments;
  for (const CompiledSegment& segment : segments_) {
    std::string nodes;
    for (Node n : segment.nodes) nodes += fmt::format("{}{}", nodes.empty() ? "" : ",", n);
    segments += fmt::format("{}\n{{\"device\":{},\"by\":{},\"nodes\":[{}],\"numbers\":[{}],{}}}",
                            segments.empty() ? "" : ",", json_quoted(segment.owner->name()),
                            json_quoted(segment.owner->apis().compiler_plugin(segment.by)), nodes,
                            numbers(segment), kernels(segment));
  }
  return fmt::format("{{\"schema\":1,\"graph\":{},\"segments\":[{}]}}\n", graph, segments);
}

}  // namespace tenon::session
