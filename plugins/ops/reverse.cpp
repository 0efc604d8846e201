// reverse: reverses some dims.
#include "common.h"
#include "derivative.h"

namespace tenon::ops::reverse_op {

Status infer(const InferQuery& q) {
  TENON_TRY(q.require_axes("C1", q.i64s("dims"), q.rank(0)));
  return q.result(q.dtype(0), q.dims(0));
}

Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  Index from;
  each_index(y.dims(), [&](const Index& i) {
    from = i;
    for (int64_t axis : e.i64s("dims")) {
      const auto k = static_cast<size_t>(axis);
      from[k] = x.dim(k) - 1 - i[k];
    }
    y.copy_from(i, x, from);
  });
  return {};
}

Value fold(Builder&, const Node& node) {
  const Axes dims = node.i64s("dims");
  bool nothing = true;
  for (int64_t axis : dims) nothing &= node.operand(0).dim(static_cast<uint32_t>(axis)).is(1);
  if (nothing) return node.operand(0);
  const Node inner = node.operand(0).node();
  return inner && inner.is("reverse") && inner.i64s("dims") == dims ? inner.operand(0) : Value();
}

Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  return b.build("reverse", {cotangents[0]}, {{"dims", node.i64s("dims")}});
}

constexpr OpDraft declare() {
  OpDraft draft = op("reverse", kPrimitive | TENON_TRAIT_SHAPE_ONLY);
  draft.summary("x with some dims back to front.")
      .operand("x", "the input", kWhole)
      .result("y", "same type as x")
      .attr_i64s("dims", "the dims to reverse")
      .role(TENON_ROLE_AXES)
      .constraint("C1", "dims are distinct dims of x", "reverse(f32[2, 3]) {dims = [0, 0]}")
      .example("reverse(f32[3] [1, 2, 3]) {dims = [0]} -> f32[3] [3, 2, 1]")
      .infer<infer>()
      .reference<reference>()
      .decompose_complex<by_parts>()
      .fold<fold>()
      .linear({0})
      .transposed<transpose>()
      .batched({0})
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(reverse, declare)

}  // namespace tenon::ops::reverse_op
