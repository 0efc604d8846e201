// select: one of two values, by a predicate.
#include "common.h"
#include "derivative.h"

namespace tenon::ops::select_op {

Status infer(const InferQuery& q) {
  TENON_TRY(q.require_same_shape("C1", 1, 2));
  if (q.rank(0) != 0) TENON_TRY(q.require_same_shape("C2", 0, 1));
  return q.result(q.dtype(1), q.dims(1));
}

Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto p = known(q, 0);
  const auto x = known(q, 1);
  const auto y = known(q, 2);
  if (!p || !x || !y || x->values.size() != y->values.size()) return TENON_NOT_FOUND;
  std::vector<Dim> values;
  for (size_t i = 0; i < x->values.size(); ++i) {
    const auto chosen = constant_of(p->values[p->values.size() == 1 ? 0 : i]);
    if (!chosen) return TENON_NOT_FOUND;
    values.push_back(*chosen != 0 ? x->values[i] : y->values[i]);
  }
  return answer(values, out);
}

Value fold(Builder&, const Node& node) {
  if (node.operand(1) == node.operand(2)) return node.operand(1);
  const auto p = splat_of(node.operand(0));
  return p ? node.operand(*p != 0 ? 1 : 2) : Value();
}

Value transpose(Builder& b, const Node& node, uint32_t operand, std::span<const Value> cotangents) {
  const Value g = cotangents[0], zero = b.full_like(g, 0);
  return operand == 1 ? b.build("select", {node.operand(0), g, zero})
                      : b.build("select", {node.operand(0), zero, g});
}

constexpr OpDraft declare() {
  OpDraft draft = op("select", kPrimitiveElementwise);
  draft.alias("where");
  draft.summary("x where the predicate holds, else y.")
      .operand("predicate", "of the shape of x, or of rank 0", kPred)
      .operand("x", "taken where true", kNumber | kPred | kComplex, 1)
      .operand("y", "taken where false, same type as x", kNumber | kPred | kComplex, 1)
      .result("z", "same type as x")
      .constraint("C1", "x and y have equal shapes", "select(pred[2], f32[2], f32[3])")
      .constraint("C2", "the predicate has the shape of x or rank 0",
                  "select(pred[3], f32[2], f32[2])")
      .example("select(pred[2] [1, 0], f32[2] [1, 2], f32[2] [3, 4]) -> f32[2] [1, 4]")
      .example("select(pred[] 0, i32[2] [1, 2], i32[2] [3, 4]) -> i32[2] [3, 4]")
      .infer<infer>()
      .value_of<value_of>()
      .fold<fold>()
      .linear({1, 2})
      .transposed<transpose>()
      .scalar(scalar::select(arg(0), arg(1), arg(2)))
      .accuracy(0.5, 0.5)
      .decompose_complex<by_parts>();
  return draft;
}

TENON_OPS(select, declare)

}  // namespace tenon::ops::select_op
