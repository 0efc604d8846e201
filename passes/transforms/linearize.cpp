// linearize: the two halves of forward mode.
#include "linearized.h"

namespace tenon::passes {
namespace {

constexpr tenon_pass_option_def_t kOptions[] = {
    kWrtOption,
    {str("of"),
     str("names of outputs, separated by spaces; empty: all floats and complex numbers"),
     TENON_ATTR_STRING,
     0,
     {}},
    {str("part"), str("map: the linear map of tangents; point: the graph, and values for the map"),
     TENON_ATTR_STRING, 0, str("map")}};

Status run(tenon_graph_t* graph, const PassContext& context) {
  const std::string_view part = context.text(2);
  if (part != "map" && part != "point") {
    return fail(TENON_INVALID_ARGUMENT, cat("T0404: linearize: part is map or point, not ", part));
  }
  Linearized linearized(graph);
  TENON_TRY(linearized.choose(context));
  TENON_TRY(linearized.push(part == "point"));
  return part == "point" ? linearized.set_point(context) : linearized.set_map(context);
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = sin(%x) : f32[2]
  yield %0
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%saved0: f32[2], %x_t: f32[2]) -> (y_t: f32[2]) {
  %0 = mul(%x_t, %saved0) : f32[2]
  yield %0
}
)";

constexpr auto kPass =
    pass("linearize", "Makes the graph the linear map that is its derivative at a point.")
        .describe(
            "Forward mode in two halves. With `part=point` the graph keeps its inputs and outputs, "
            "and gets the outputs saved0, saved1, ...: the values that the derivative needs. "
            "With `part=map` it becomes the linear map: its inputs are these values and a tangent "
            "x_t for each x in `wrt`, its outputs the tangent y_t for each y in `of`. Both halves "
            "of one graph fit together. So the point is computed once for any number of tangents; "
            "only a loop that carries tangents runs again, from what it began with. It runs before "
            "legalize, so that composites differentiate by rules of their own.")
        .example(kBefore, kAfter)
        .options(kOptions)
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(linearize, tenon::passes::kPass)
