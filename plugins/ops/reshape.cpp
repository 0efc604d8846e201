// reshape: the same elements, in row-major order, with other dims.
#include "common.h"
#include "derivative.h"

namespace tenon::ops::reshape_op {

Status infer(const InferQuery& q) {
  const Dims shape = q.dims("shape");
  Dim count = q.constant(1);
  for (Dim d : shape) count = count * d;
  TENON_TRY(q.require_equal("C1", q.type(0).element_count(), count,
                            "the number of elements of x and of shape"));
  return q.result(q.dtype(0), shape);
}

Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  Index to(y.rank(), 0);
  each_index(x.dims(), [&](const Index& from) {
    y.copy_from(to, x, from);
    next(to, y.dims());
  });
  return {};
}

Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  return x ? answer(x->values, out) : Status(TENON_NOT_FOUND);
}

// Folds a reshape to the same shape, and a reshape of a reshape. Each leaves one node fewer.
Value fold(Builder& b, const Node& node) {
  const Value x = node.operand(0);
  if (x.type() == node.result().type()) return x;
  const Node inner = x.node();
  if (!inner || !inner.is("reshape")) return {};
  return b.build("reshape", {inner.operand(0)}, {{"shape", node.dims("shape")}});
}

Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  return reshape(b, cotangents[0], node.operand(0).dims());
}

constexpr OpDraft declare() {
  OpDraft draft = op("reshape", kPrimitive | TENON_TRAIT_SHAPE_ONLY);
  draft.summary("The same elements, in row-major order, under other dims.")
      .operand("x", "the input", kWhole)
      .result("y", "element type of x, dims of shape")
      .attr_dims("shape", "the dims of the result")
      .role(TENON_ROLE_SHAPE)
      .constraint("C1", "x and shape have the same number of elements",
                  "reshape(f32[2, 3]) {shape = [5]}")
      .example("reshape(i32[2, 2] [[1, 2], [3, 4]]) {shape = [4]} -> i32[4] [1, 2, 3, 4]")
      .example("reshape(f32[1] [7]) {shape = []} -> f32[] 7")
      .infer<infer>()
      .value_of<value_of>()
      .reference<reference>()
      .decompose_complex<by_parts>()
      .fold<fold>()
      .linear({0})
      .transposed<transpose>()
      .batched({0})
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(reshape, declare)

}  // namespace tenon::ops::reshape_op
