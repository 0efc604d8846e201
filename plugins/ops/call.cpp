// call: a region in place of the node, kept together until it is inlined.
#include "control.h"

namespace tenon::ops::call_op {

Status infer(const InferQuery& q) {
  if (q.raw().region_count != 1)
    return q.fail("C1", cat("there are ", q.raw().region_count, " regions"));
  const Region callee = region_of(q, 0);
  TENON_TRY(require_arguments(q, "C2", callee, 0, q.operand_count(), false));
  for (const Value& yield : callee.yields()) {
    Dims dims;
    TENON_TRY(require_outside(q, "C3", callee, yield, &dims));
    if (yield.view().type.kind != TENON_KIND_TENSOR) return q.fail("C3", "a yield is not a tensor");
    TENON_TRY(q.result(yield.dtype(), dims));
  }
  return {};
}

Status reference(const Eval& e) {
  Arrays out = rooms_for(e.raw().output_count);
  TENON_TRY(run_region(e, 0, operands_from(e, 0, e.input_count()), &out));
  for (uint32_t i = 0; i < out.size(); ++i) TENON_TRY(give_output(e, i, out[i]));
  return {};
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_node_view_t view = node.view();
  const tenon_region_view_t callee = Region(node.graph(), view.regions[0]).view();
  std::vector<tenon_value_t> values(view.operands, view.operands + view.operand_count);
  values.insert(values.end(), callee.captures, callee.captures + callee.capture_count);
  return graph_api().region_clone(graph_api().self, &b.raw(), node.graph(), view.regions[0],
                                  values.data(), static_cast<uint32_t>(values.size()), out);
}

constexpr OpDraft declare() {
  OpDraft draft = op("call", kComposite | TENON_TRAIT_PRIMITIVE);
  draft.summary("Gives what its region yields for its operands.")
      .doc(
          "The region is the callee, with the operands as arguments. `kind` says why it is kept "
          "together: a function of "
          "the model, a composite that a device may take whole, a part to be computed again in a "
          "backward pass, a "
          "derivative of its own. It is inlined where no device takes it.")
      .variadic("x", "the arguments", kTensor)
      .result("y", "what the callee yields")
      .attr_string("name", "the callee's name, for people", "", "")
      .attr_string("kind", "why it is kept together", "fn", "fn|composite|remat|custom_deriv")
      .constraint("C1", "there is one region", "call(f32[2])")
      .constraint("C2", "the callee takes the operands",
                  "call(f32[2]) regions { (%a: f32[3]) { yield %a } }")
      .constraint("C3", "the callee yields tensors whose sizes are known outside",
                  "call(i32[] 0) regions { (%i: i32[]) { %a, %b = while(%i) regions { (%j: i32[]) "
                  "{ %c = const pred[] 0 yield %c } "
                  "(%k: i32[]) { yield %k, %k } } yield %b } }")
      .example(
          "call(f32[2] [1, 2]) {name = \"twice\"} regions { (%a: f32[2]) { %b = add(%a, %a) yield "
          "%b } } -> f32[2] [2, 4]")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(call, declare)

}  // namespace tenon::ops::call_op
