// call: a region in place of the node, kept together until it is inlined.
#include <iterator>

#include "control.h"

namespace tenon::ops::call_op {

bool is_differentiable(const TypeView& type) {
  return type.kind() == TENON_KIND_TENSOR && (is_float(type.dtype()) || is_complex(type.dtype()));
}

// Requires equal types.
Status require_type(const InferQuery& q, std::string_view label, const TypeView& a,
                    const TypeView& b, const std::string& what) {
  TENON_TRY(require_form(q, label, a, b, what));
  for (uint32_t d = 0; d < a.rank(); ++d)
    TENON_TRY(q.require_equal(label, a.dim(d), b.dim(d), cat("dim ", d, " of ", what)));
  return {};
}
Status require_types(const InferQuery& q, std::string_view label, const std::vector<Value>& given,
                     const std::vector<TypeView>& wanted, std::string_view what) {
  if (given.size() != wanted.size())
    return q.fail(
        label, cat("there are ", given.size(), " ", what, ", and ", wanted.size(), " are needed"));
  for (size_t i = 0; i < given.size(); ++i)
    TENON_TRY(require_type(q, label, given[i].type(), wanted[i], cat(i, " of the ", what)));
  return {};
}

std::vector<TypeView> types_of(std::span<const Value> values) {
  std::vector<TypeView> out;
  for (const Value& v : values) out.push_back(v.type());
  return out;
}
std::vector<TypeView> differentiable(const std::vector<TypeView>& types) {
  std::vector<TypeView> out;
  std::copy_if(types.begin(), types.end(), std::back_inserter(out), is_differentiable);
  return out;
}

uint32_t regions_for(std::string_view rules) {
  return rules == "none" || rules == "refused" ? 1 : rules == "jvp" ? 2 : rules == "pull" ? 3 : 4;
}

// Region 1 gives the results and what region 2 needs to make cotangents of the operands.
Status check_pull(const InferQuery& q, const std::vector<TypeView>& operands,
                  const std::vector<TypeView>& results) {
  const Region forward = region_of(q, 1), pull = region_of(q, 2);
  TENON_TRY(require_arguments(q, "C5", forward, 0, q.operand_count(), false));
  const std::vector<Value> yields = forward.yields();
  if (yields.size() < results.size()) {
    return q.fail("C5", cat("region 1 yields ", yields.size(), " values, and there are ",
                            results.size(), " results"));
  }
  const auto count = static_cast<int64_t>(results.size());
  TENON_TRY(require_types(q, "C5", {yields.begin(), yields.begin() + count}, results,
                          "results of region 1"));
  std::vector<TypeView> wanted = types_of(std::span(yields).subspan(results.size()));
  for (const Value& v : std::span(yields).subspan(results.size())) {
    Dims dims;
    TENON_TRY(require_outside(q, "C5", forward, v, &dims));
  }
  for (const TypeView& type : differentiable(results)) wanted.push_back(type);
  TENON_TRY(require_types(q, "C6", pull.arguments(), wanted, "arguments of region 2"));
  return require_types(q, "C6", pull.yields(), differentiable(operands), "cotangents of region 2");
}

Status check_jvp(const InferQuery& q, const std::vector<TypeView>& operands,
                 const std::vector<TypeView>& results) {
  const Region jvp = region_of(q, q.raw().region_count - 1);
  std::vector<TypeView> wanted = operands;
  for (const TypeView& type : differentiable(operands)) wanted.push_back(type);
  TENON_TRY(require_types(q, "C7", jvp.arguments(), wanted, "arguments of the last region"));
  return require_types(q, "C7", jvp.yields(), differentiable(results),
                       "tangents of the last region");
}

Status infer(const InferQuery& q) {
  const std::string_view rules = q.text("rules");
  if ((rules == "none") == (q.text("kind") == "custom_deriv"))
    return q.fail("C4", cat("rules is ", rules, " and kind is ", q.text("kind")));
  if (q.raw().region_count != regions_for(rules))
    return q.fail("C1", cat("there are ", q.raw().region_count, " regions"));
  const Region callee = region_of(q, 0);
  TENON_TRY(require_arguments(q, "C2", callee, 0, q.operand_count(), false));
  for (const Value& yield : callee.yields()) {
    Dims dims;
    TENON_TRY(require_outside(q, "C3", callee, yield, &dims));
    if (yield.view().type.kind != TENON_KIND_TENSOR) return q.fail("C3", "a yield is not a tensor");
    TENON_TRY(q.result(yield.dtype(), dims));
  }
  std::vector<TypeView> operands;
  for (uint32_t i = 0; i < q.operand_count(); ++i) operands.push_back(q.type(i));
  const std::vector<Value> yields = callee.yields();
  if (rules == "pull" || rules == "both") TENON_TRY(check_pull(q, operands, types_of(yields)));
  if (rules == "jvp" || rules == "both") TENON_TRY(check_jvp(q, operands, types_of(yields)));
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
          "together: a function of the model, a composite that a device may take whole, a part to "
          "be computed again in a backward pass, a function with derivatives of its own. It is "
          "inlined where no device takes it.\n\n"
          "With rules \"pull\" or \"both\" regions 1 and 2 are its reverse mode: region 1 takes "
          "the operands and yields the results, then any values that region 2 needs; region 2 "
          "takes these and the cotangents of the results, and yields those of the operands. With "
          "\"jvp\" or \"both\" the last region is its forward mode: it takes the operands and "
          "their tangents, and yields the tangents of the results. Operands and results that are "
          "not floats have neither. With \"refused\" a derivative of it is an error. Only region 0 "
          "is "
          "ever run as the call.")
      .variadic("x", "the arguments", kTensor)
      .result("y", "what the callee yields")
      .attr_string("name", "the callee's name, for people", "", "")
      .attr_string("kind", "why it is kept together", "fn", "fn|composite|remat|custom_deriv")
      .attr_string("rules", "which derivatives of its own it has", "none",
                   "none|pull|jvp|both|refused")
      .constraint("C1", "there is one region, and those of the rules", "call(f32[2])")
      .constraint("C2", "the callee takes the operands",
                  "call(f32[2]) regions { (%a: f32[3]) { yield %a } }")
      .constraint("C3", "the callee yields tensors whose sizes are known outside",
                  "call(i32[] 0) regions { (%i: i32[]) { %a, %b = while(%i) regions { (%j: i32[]) "
                  "{ %c = const pred[] 0 yield %c } "
                  "(%k: i32[]) { yield %k, %k } } yield %b } }")
      .constraint("C4", "rules go with the kind custom_deriv, and only with it",
                  "call(f32[2]) {kind = \"custom_deriv\"} regions { (%a: f32[2]) { yield %a } }")
      .constraint("C5", "region 1 takes the operands and yields the results first",
                  "call(f32[2]) {kind = \"custom_deriv\", rules = \"pull\"} regions { (%a: "
                  "f32[2]) { yield %a } (%b: f32[3]) { yield %b } (%c: f32[2]) { yield %c } }")
      .constraint("C6",
                  "region 2 takes what else region 1 yields and cotangents of float results, and "
                  "yields those of float operands",
                  "call(f32[2]) {kind = \"custom_deriv\", rules = \"pull\"} regions { (%a: "
                  "f32[2]) { yield %a } (%b: f32[2]) { yield %b } (%c: f32[3]) { yield %c } }")
      .constraint("C7",
                  "the region of jvp takes the operands and tangents of float ones, and yields "
                  "those of float results",
                  "call(f32[2]) {kind = \"custom_deriv\", rules = \"jvp\"} regions { (%a: f32[2]) "
                  "{ yield %a } (%b: f32[2]) { yield %b } }")
      .example(
          "call(f32[2] [1, 2]) {name = \"twice\"} regions { (%a: f32[2]) { %b = add(%a, %a) yield "
          "%b } } -> f32[2] [2, 4]")
      .example(
          "call(f32[2] [1, 2]) {kind = \"custom_deriv\", rules = \"jvp\"} regions { (%a: f32[2]) "
          "{ yield %a } (%c: f32[2], %t: f32[2]) { %b = neg(%t) yield %b } } -> f32[2] [1, 2]")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(call, declare)

}  // namespace tenon::ops::call_op
