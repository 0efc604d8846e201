// concat: values one after another along a dim.
#include "common.h"
#include "derivative.h"

namespace tenon::ops::concat_op {

Status infer(const InferQuery& q) {
  if (q.operand_count() == 0) return q.fail("C1", "there are no operands");
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C2", dim, q.rank(0)));
  Dims dims = q.dims(0);
  const auto along = static_cast<uint32_t>(dim);
  for (uint32_t i = 1; i < q.operand_count(); ++i) {
    if (q.rank(i) != q.rank(0)) {
      return q.fail(
          "C3", cat("operand ", i, " has rank ", q.rank(i), ", operand 0 has rank ", q.rank(0)));
    }
    for (uint32_t k = 0; k < q.rank(0); ++k) {
      if (k == along) continue;
      TENON_TRY(q.require_equal("C3", q.dim(0, k), q.dim(i, k),
                                cat("dim ", k, " of operands 0 and ", i)));
    }
    dims[along] = dims[along] + q.dim(i, along);
  }
  return q.result(q.dtype(0), dims);
}

Status reference(const Eval& e) {
  const Array y = e.output();
  const auto along = static_cast<size_t>(e.i64("dim"));
  int64_t offset = 0;
  for (uint32_t k = 0; k < e.input_count(); ++k) {
    const Array x = e.input(k);
    Index to;
    each_index(x.dims(), [&](const Index& from) {
      to = from;
      to[along] += offset;
      y.copy_from(to, x, from);
    });
    offset += x.dim(along);
  }
  return {};
}

Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  if (q.rank(0) != 1) return TENON_NOT_FOUND;
  std::vector<Dim> values;
  for (uint32_t i = 0; i < q.operand_count(); ++i) {
    const auto x = known(q, i);
    if (!x) return TENON_NOT_FOUND;
    values.insert(values.end(), x->values.begin(), x->values.end());
  }
  return answer(values, out);
}

// Folds a single operand, and drops empty operands. Each leaves less to do.
Value fold(Builder& b, const Node& node) {
  if (node.operand_count() == 1) return node.operand(0);
  const auto along = static_cast<uint32_t>(node.i64("dim"));
  std::vector<Value> kept;
  for (Value v : node.operands()) {
    if (!v.dim(along).is(0)) kept.push_back(v);
  }
  if (kept.size() == node.operand_count() || kept.empty()) return {};
  return b.build("concat", kept, {{"dim", along}});
}

Value transpose(Builder& b, const Node& node, uint32_t operand, std::span<const Value> cotangents) {
  const Value g = cotangents[0];
  const auto dim = static_cast<size_t>(node.i64("dim"));
  Dims start(g.rank(), b.dim(0)), limit = g.dims();
  for (uint32_t i = 0; i < operand; ++i)
    start[dim] = start[dim] + node.operand(i).dim(static_cast<uint32_t>(dim));
  limit[dim] = start[dim] + node.operand(operand).dim(static_cast<uint32_t>(dim));
  return b.build("slice", {g}, {{"start", start}, {"limit", limit}});
}

constexpr OpDraft declare() {
  OpDraft draft = op("concat", kPrimitive | TENON_TRAIT_SHAPE_ONLY);
  draft.alias("cat").alias("concatenate");
  draft.summary("The operands one after another along a dim.")
      .variadic("x", "at least one; equal but for the dim", kWhole, 1, 1)
      .result("y", "the dim is the sum of the operands'")
      .attr_i64("dim", "the dim along which they are joined", 0)
      .role(TENON_ROLE_AXIS)
      .constraint("C1", "there is at least one operand", "concat() {dim = 0}")
      .constraint("C2", "dim is a dim of the operands", "concat(f32[2]) {dim = 1}")
      .constraint("C3", "ranks and the other dims are equal",
                  "concat(f32[2, 3], f32[2, 4]) {dim = 0}")
      .example("concat(f32[2] [1, 2], f32[1] [3]) {dim = 0} -> f32[3] [1, 2, 3]")
      .example("concat(i32[1, 2] [[1, 2]], i32[1, 1] [[3]]) {dim = 1} -> i32[1, 3] [[1, 2, 3]]")
      .infer<infer>()
      .value_of<value_of>()
      .reference<reference>()
      .decompose_complex<by_parts>()
      .fold<fold>()
      .linear({0})
      .transposed<transpose>()
      .batched({0})
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(concat, declare)

}  // namespace tenon::ops::concat_op
