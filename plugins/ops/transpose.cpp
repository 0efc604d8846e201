// transpose: reorders the dims.
#include "common.h"
#include "derivative.h"

namespace tenon::ops::transpose_op {

Status infer(const InferQuery& q) {
  const auto perm = q.i64s("perm");
  TENON_TRY(require_length(q, "C1", "perm", perm.size(), q.rank(0)));
  TENON_TRY(q.require_axes("C2", perm, q.rank(0)));
  Dims dims;
  for (int64_t p : perm) dims.push_back(q.dim(0, static_cast<uint32_t>(p)));
  return q.result(q.dtype(0), dims);
}

Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const auto perm = e.i64s("perm");
  Index from(x.rank());
  each_index(y.dims(), [&](const Index& i) {
    for (size_t k = 0; k < i.size(); ++k) from[static_cast<size_t>(perm[k])] = i[k];
    y.copy_from(i, x, from);
  });
  return {};
}

Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  if (!x) return TENON_NOT_FOUND;
  const auto perm = q.i64s("perm");
  const auto strides = strides_of(x->dims);
  Axes dims;
  for (int64_t p : perm) dims.push_back(x->dims[static_cast<size_t>(p)]);
  std::vector<Dim> values;
  each_index(dims, [&](const Index& i) {
    int64_t offset = 0;
    for (size_t k = 0; k < i.size(); ++k) offset += i[k] * strides[static_cast<size_t>(perm[k])];
    values.push_back(x->values[static_cast<size_t>(offset)]);
  });
  return answer(values, out);
}

// Folds the identity, and a transpose of a transpose. Each leaves one node fewer.
Value fold(Builder& b, const Node& node) {
  const Value x = node.operand(0);
  const Axes perm = node.i64s("perm");
  if (is_identity(perm)) return x;
  const Node inner = x.node();
  if (!inner || !inner.is("transpose")) return {};
  const Axes first = inner.i64s("perm");
  Axes both;
  for (int64_t p : perm) both.push_back(first[static_cast<size_t>(p)]);
  return b.build("transpose", {inner.operand(0)}, {{"perm", both}});
}

Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  return permute(b, cotangents[0], inverse_of(node.i64s("perm")));
}
std::vector<Value> batch(Builder& b, const Node& node, std::span<const Value> operands,
                         std::span<const uint8_t>, Dim) {
  Axes perm = shifted(node.i64s("perm"));
  perm.insert(perm.begin(), 0);
  return {permute(b, operands[0], perm)};
}

constexpr OpDraft declare() {
  OpDraft draft = op("transpose", kPrimitive | TENON_TRAIT_SHAPE_ONLY);
  draft.alias("permute");
  draft.summary("The dims in another order: dim i of the result is dim perm[i] of x.")
      .operand("x", "the input", kWhole)
      .result("y", "element type of x")
      .attr_i64s("perm", "a permutation of the dims of x")
      .constraint("C1", "perm has one entry per dim of x", "transpose(f32[2, 3]) {perm = [0]}")
      .constraint("C2", "perm names every dim once", "transpose(f32[2, 3]) {perm = [1, 1]}")
      .example(
          "transpose(i32[2, 3] [[1, 2, 3], [4, 5, 6]]) {perm = [1, 0]} -> i32[3, 2] [[1, 4], [2, "
          "5], [3, 6]]")
      .infer<infer>()
      .value_of<value_of>()
      .reference<reference>()
      .decompose_complex<by_parts>()
      .fold<fold>()
      .linear({0})
      .transposed<transpose>()
      .batch<batch>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(transpose, declare)

}  // namespace tenon::ops::transpose_op
