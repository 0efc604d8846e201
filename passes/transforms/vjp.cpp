#include "vjp.h"

namespace tenon::passes {

Status add_cotangents(Ports& ports, const std::vector<Value>& wrt,
                      const std::vector<std::pair<size_t, Value>>& seeds) {
  const Region main = ports.main();
  const std::vector<Node> nodes = ports.nodes();
  const tenon_node_t first = next_node(main.graph());
  ValueSet varied;
  for (const Value v : wrt) varied.insert(v.id());
  mark_varied(nodes, &varied);
  Builder b(main.graph(), main.id());
  Cotangents sums(b);
  for (const auto& [output, seed] : seeds) sums.add(ports.yields()[output], seed);
  TENON_TRY(sums.walk(nodes, varied));
  for (const Value v : wrt) {
    const Value sum = sums.of(v);
    const Value gradient = sum.valid() ? sum : zeros_like(b, v);
    TENON_TRY(b.status());
    ports.add_output(cat("d_", sym_text(v.view().name)), gradient);
  }
  return ports.finish(first);
}

namespace {

constexpr tenon_pass_option_def_t kOptions[] = {
    kWrtOption,
    {str("of"),
     str("names of outputs, separated by spaces; empty: the first one"),
     TENON_ATTR_STRING,
     0,
     {}}};

Status run(tenon_graph_t* graph, const PassContext& context) {
  Ports ports(graph);
  std::vector<Value> wrt;
  std::vector<size_t> of;
  TENON_TRY(ports.inputs(context.text(0), "wrt", &wrt));
  TENON_TRY(ports.outputs(context.text(1), "of", &of));
  for (const Value v : wrt) TENON_TRY(require_variable(v, sym_text(v.view().name)));
  std::vector<std::pair<size_t, Value>> seeds;
  for (const size_t output : of) {
    const Value y = ports.yields()[output];
    TENON_TRY(require_variable(y, ports.name(output)));
    Value seed;
    TENON_TRY(ports.add_input(cat("ct_", ports.name(output)), {y.dtype(), y.dims()}, &seed));
    seeds.emplace_back(output, seed);
  }
  return add_cotangents(ports, wrt, seeds);
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = sin(%x) : f32[2]
  yield %0
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2], %ct_y: f32[2]) -> (y: f32[2], d_x: f32[2]) {
  %0 = sin(%x) : f32[2]
  %1 = cos(%x) : f32[2]
  %2 = mul(%ct_y, %1) : f32[2]
  yield %0, %2
}
)";

constexpr auto kPass =
    pass("vjp", "Adds the product of a vector with the graph's Jacobian: reverse mode.")
        .describe(
            "For each output y in `of` the graph gets an input ct_y, a cotangent, and for each "
            "input x in `wrt` an output d_x: the sum of the cotangents times the derivatives of "
            "the outputs with respect to x. The nodes of the graph stay as they are. It runs "
            "before legalize, so that composites differentiate by rules of their own.")
        .example(kBefore, kAfter)
        .options(kOptions)
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(vjp, tenon::passes::kPass)
