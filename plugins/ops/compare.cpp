// compare: six comparisons in one op.
#include "complex_math.h"

namespace tenon::ops::compare_op {

Status infer(const InferQuery& q) {
  TENON_TRY(q.require_same_shape("C1", 0, 1));
  const int64_t direction = q.i64("direction");
  if (direction < TENON_CMP_EQ || direction > TENON_CMP_GE) {
    return q.fail("C2", cat("direction is ", direction, ", but only 0 to 5 have a meaning"));
  }
  if (is_complex(q.dtype(0)) && direction > TENON_CMP_NE)
    return q.fail("C3", cat("direction is ", direction, ", x has ", dtype_name(q.dtype(0))));
  return q.result(TENON_PRED, q.dims(0));
}
Status decompose_complex(Builder& b, const Node& node, tenon_value_t* out) {
  const Complex x = parts_of(b, node.operand(0)), y = parts_of(b, node.operand(1));
  const int64_t direction = node.i64("direction");
  const Term re = ops::compare(x.re, direction, y.re), im = ops::compare(x.im, direction, y.im);
  return b.finish(out, {direction == TENON_CMP_EQ ? re & im : re | im});
}

// Comparisons of sizes that can be decided, so that a choice between shapes is made at build time.
Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  const auto y = known(q, 1);
  if (!x || !y || x->values.size() != y->values.size()) return TENON_NOT_FOUND;
  const int64_t direction = q.i64("direction");
  const bool swap = direction == TENON_CMP_GT || direction == TENON_CMP_GE;
  const bool negate = direction == TENON_CMP_NE;
  const uint32_t rel = direction == TENON_CMP_EQ || direction == TENON_CMP_NE   ? TENON_REL_EQ
                       : direction == TENON_CMP_LT || direction == TENON_CMP_GT ? TENON_REL_LT
                                                                                : TENON_REL_LE;
  for (size_t i = 0; i < x->values.size(); ++i) {
    const uint32_t found =
        swap ? compare(rel, y->values[i], x->values[i]) : compare(rel, x->values[i], y->values[i]);
    if (found == TENON_MAYBE) return TENON_NOT_FOUND;
    *out++ = (found == TENON_YES) != negate ? 1 : 0;
  }
  return {};
}

constexpr OpDraft declare() {
  OpDraft draft = op("compare", kPrimitiveElementwise);
  draft.summary("Compares element by element; NaN is unequal to everything.")
      .doc(
          "direction: 0 equal, 1 not equal, 2 less, 3 less or equal, 4 greater, 5 greater or "
          "equal.")
      .operand("x", "the left side", kNumber | kPred | kComplex, 1)
      .operand("y", "the right side, same type as x", kNumber | kPred | kComplex, 1)
      .result("z", "pred, shape of x")
      .attr_i64("direction", "which comparison", 0)
      .required()
      .constraint("C1", "x and y have equal shapes", "compare(f32[2], f32[3]) {direction = 0}")
      .constraint("C2", "direction is one of 0 to 5", "compare(f32[2], f32[2]) {direction = 6}")
      .constraint("C3", "complex numbers are equal or not, and have no order",
                  "compare(c64[2], c64[2]) {direction = 2}")
      .example(
          "compare(f32[3] [1, 2, nan], f32[3] [2, 2, nan]) {direction = 3} -> pred[3] [1, 1, 0]")
      .example("compare(i32[2] [1, 2], i32[2] [1, 3]) {direction = 1} -> pred[2] [0, 1]")
      .infer<infer>()
      .value_of<value_of>()
      .scalar(scalar::binary(TENON_S_CMP_ATTR, arg(0), arg(1), 0))
      .decompose_complex<decompose_complex>();
  return draft;
}

TENON_OPS(compare, declare)

}  // namespace tenon::ops::compare_op
