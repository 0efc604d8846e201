// jvp: forward mode over the main region.
#include "loops.h"
#include "regions.h"
#include "transform.h"

namespace tenon::passes {
namespace {

constexpr tenon_pass_option_def_t kOptions[] = {kWrtOption};

Status run(tenon_graph_t* graph, const PassContext& context) {
  Ports ports(graph);
  std::vector<Value> wrt;
  TENON_TRY(ports.inputs(context.text(0), "wrt", &wrt));
  const std::vector<Node> nodes = ports.nodes();
  const tenon_node_t first = next_node(graph);
  ValueMap tangents;
  for (const Value v : wrt) {
    const std::string name(sym_text(v.view().name));
    TENON_TRY(require_variable(v, name));
    Value tangent;
    TENON_TRY(ports.add_input(name + "_t", {v.dtype(), v.dims()}, &tangent));
    tangents[v.id()] = tangent;
  }
  Builder b(graph, ports.main().id());
  TENON_TRY(push_nodes(b, nodes, ports.yields(), &tangents));
  const std::vector<Value> outputs = ports.main().yields();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_differentiable(outputs[i])) continue;
    const Value found = tangent_of(tangents, outputs[i]);
    const Value tangent = found.valid() ? found : zeros_like(b, outputs[i]);
    TENON_TRY(b.status());
    ports.add_output(ports.name(i) + "_t", tangent);
  }
  return ports.finish(first);
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = sin(%x) : f32[2]
  yield %0
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2], %x_t: f32[2]) -> (y: f32[2], y_t: f32[2]) {
  %0 = sin(%x) : f32[2]
  %1 = cos(%x) : f32[2]
  %2 = mul(%x_t, %1) : f32[2]
  yield %0, %2
}
)";

constexpr auto kPass =
    pass("jvp", "Adds the product of the graph's Jacobian with a vector: forward mode.")
        .describe(
            "For each input x in `wrt` the graph gets an input x_t, a tangent, and for each output "
            "y of floats or complex numbers an output y_t: the derivative of y along the tangents. "
            "It runs before legalize, so that composites differentiate by rules of their own.")
        .example(kBefore, kAfter)
        .options(kOptions)
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(jvp, tenon::passes::kPass)
