// assert: passes values on, provided that a condition holds.
#include "control.h"

namespace tenon::ops::assert_op {

Status infer(const InferQuery& q) {
  if (q.operand_count() < 2) return q.fail("C1", "nothing is passed on");
  for (uint32_t i = 1; i < q.operand_count(); ++i) TENON_TRY(q.result(q.dtype(i), q.dims(i)));
  return {};
}

Status value_of(const InferQuery& q, uint32_t result, tenon_dim_t* out) {
  const auto x = known(q, result + 1);
  return x ? answer(x->values, out) : Status(TENON_NOT_FOUND);
}

Status reference(const Eval& e) {
  for (int64_t holds : e.input(0).read<int64_t>()) {
    if (holds == 0) return fail(TENON_INVALID_ARGUMENT, cat("T0326: assert: ", e.text("message")));
  }
  for (uint32_t i = 1; i < e.input_count(); ++i)
    TENON_TRY(give_output(e, i - 1, *tenon_array_at(e.raw().inputs, i)));
  return {};
}

// Derivatives pass.
std::vector<Value> jvp(Builder&, const Node&, std::span<const Value> tangents) {
  return {tangents.begin() + 1, tangents.end()};
}
std::vector<Value> pull(Builder&, const Node&, std::span<const uint8_t>,
                        std::span<const Value> cotangents) {
  std::vector<Value> out = {Value()};
  out.insert(out.end(), cotangents.begin(), cotangents.end());
  return out;
}

constexpr OpDraft declare() {
  OpDraft draft = op("assert", kPrimitive | TENON_TRAIT_NO_RECOMPUTE);
  draft.summary("Passes values on where a condition holds, and fails the run where it does not.")
      .doc(
          "What must not run without the condition uses the results instead of x. An assertion "
          "whose results are not used is "
          "removed like any other op.")
      .operand("condition", "every element has to hold", dtype_bit(TENON_PRED))
      .variadic("x", "at least one", kTensor)
      .result("y", "x")
      .attr_string("message", "said where the condition does not hold",
                   "the condition does not hold", "")
      .constraint("C1", "at least one value is passed on", "assert(pred[] 1)")
      .example(
          "assert(pred[2] [1, 1], f32[2] [1, 2]) {message = \"x is not sorted\"} -> f32[2] [1, 2]")
      .infer<infer>()
      .value_of<value_of>()
      .reference<reference>()
      .jvp<jvp>()
      .pull<pull>()
      .batched({0, 1})
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(assert, declare)

}  // namespace tenon::ops::assert_op
