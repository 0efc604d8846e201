// grad: vjp of one number, with 1 as its cotangent.
#include "vjp.h"

namespace tenon::passes {
namespace {

constexpr tenon_pass_option_def_t kOptions[] = {
    kWrtOption,
    {str("of"), str("the name of the output; empty: the first one"), TENON_ATTR_STRING, 0, {}}};

Status run(tenon_graph_t* graph, const PassContext& context) {
  Ports ports(graph);
  std::vector<Value> wrt;
  std::vector<size_t> of;
  TENON_TRY(ports.inputs(context.text(0), "wrt", &wrt));
  TENON_TRY(ports.outputs(context.text(1), "of", &of));
  for (const Value v : wrt) TENON_TRY(require_variable(v, sym_text(v.view().name)));
  const Value y = ports.yields()[of[0]];
  TENON_TRY(require_variable(y, ports.name(of[0])));
  if (is_complex(y.dtype())) {
    return fail(TENON_INVALID_ARGUMENT,
                cat("T0405: grad differentiates one real number, and ", ports.name(of[0]),
                    " is complex: take its real part or its magnitude, or use vjp, which takes a "
                    "cotangent"));
  }
  if (of.size() != 1 || y.rank() != 0) {
    return fail(TENON_INVALID_ARGUMENT,
                cat("T0405: grad differentiates one number, and `of` names ", of.size(),
                    " outputs, the first of rank ", y.rank(),
                    ": sum it to a number, or use vjp, which takes a cotangent"));
  }
  Builder b(graph, ports.main().id());
  const Value one = b.scalar(y.dtype(), 1);
  TENON_TRY(b.status());
  return add_cotangents(ports, wrt, {{of[0], one}});
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[]) {
  %0 = mul(%x, %x) : f32[2]
  %1 = reduce_sum(%0) {dims = [0]} : f32[]
  yield %1
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[], d_x: f32[2]) {
  %0 = const f32[] [1]
  %1 = mul(%x, %x) : f32[2]
  %2 = reduce_sum(%1) {dims = [0]} : f32[]
  %3 = broadcast(%0) {shape = dims [2]} : f32[2]
  %4 = mul(%3, %x) : f32[2]
  %5 = mul(%3, %x) : f32[2]
  %6 = add(%4, %5) : f32[2]
  yield %2, %6
}
)";

constexpr auto kPass =
    pass("grad", "Adds the gradient of a number with respect to some inputs: reverse mode.")
        .describe(
            "For each input x in `wrt` the graph gets an output d_x, the derivative of the output "
            "`of`, which is one real number. For complex x it is dof/dre + i dof/dim. The nodes of "
            "the graph stay as they are. It runs before legalize, so that composites differentiate "
            "by rules of their own.")
        .example(kBefore, kAfter)
        .options(kOptions)
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(grad, tenon::passes::kPass)
