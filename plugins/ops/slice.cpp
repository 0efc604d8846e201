// slice: a box of x, with strides.
#include "common.h"
#include "derivative.h"

namespace tenon::ops::slice_op {

Status infer(const InferQuery& q) {
  const Dims start = q.dims("start"), limit = q.dims("limit");
  const size_t rank = q.rank(0);
  TENON_TRY(require_length(q, "C1", "start", start.size(), rank));
  TENON_TRY(require_length(q, "C1", "limit", limit.size(), rank));
  if (!q.i64s("stride").empty())
    TENON_TRY(require_length(q, "C1", "stride", q.i64s("stride").size(), rank));
  const Axes stride = list_or(q.i64s("stride"), rank, 1);
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    const Dim extent = q.dim(0, static_cast<uint32_t>(i));
    if (stride[i] < 1) return q.fail("C2", cat("stride[", i, "] is ", stride[i]));
    TENON_TRY(
        q.require("C3", TENON_REL_LE, q.constant(0), start[i], cat("0 and start of dim ", i)));
    TENON_TRY(q.require("C3", TENON_REL_LE, start[i], limit[i], cat("start and limit of dim ", i)));
    TENON_TRY(q.require("C4", TENON_REL_LE, limit[i], extent, cat("limit and extent of dim ", i)));
    const Dim length =
        limit[i] == extent && start[i].is(0) ? extent : q.constant(0) + limit[i] - start[i];
    dims.push_back(stride[i] == 1 ? length
                                  : (length + q.constant(stride[i] - 1)) / q.constant(stride[i]));
  }
  return q.result(q.dtype(0), dims);
}

Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const auto start = e.i64s("start");
  const auto stride = e.i64s_or("stride", x.rank(), 1);
  Index from(x.rank());
  each_index(y.dims(), [&](const Index& i) {
    for (size_t k = 0; k < i.size(); ++k) from[k] = start[k] + i[k] * stride[k];
    y.copy_from(i, x, from);
  });
  return {};
}

Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  if (!x) return TENON_NOT_FOUND;
  const Dims start = q.dims("start"), limit = q.dims("limit");
  const Axes stride = list_or(q.i64s("stride"), start.size(), 1);
  Axes dims;
  for (size_t i = 0; i < start.size(); ++i) {
    if (!start[i].is_constant() || !limit[i].is_constant()) return TENON_NOT_FOUND;
    dims.push_back((limit[i].constant() - start[i].constant() + stride[i] - 1) / stride[i]);
  }
  const auto strides = strides_of(x->dims);
  std::vector<Dim> values;
  each_index(dims, [&](const Index& i) {
    int64_t offset = 0;
    for (size_t k = 0; k < i.size(); ++k)
      offset += (start[k].constant() + i[k] * stride[k]) * strides[k];
    values.push_back(x->values[static_cast<size_t>(offset)]);
  });
  return answer(values, out);
}

// Folds a slice of everything, and a slice of a slice with unit strides. Each leaves one node
// fewer.
Value fold(Builder& b, const Node& node) {
  const Value x = node.operand(0);
  const Axes stride = node.i64s("stride");
  if (x.type() == node.result().type() && all_equal(stride, 1)) return x;
  const Node inner = x.node();
  if (!inner || !inner.is("slice") || !all_equal(stride, 1) || !all_equal(inner.i64s("stride"), 1))
    return {};
  const Dims offset = inner.dims("start");
  Dims start = node.dims("start"), limit = node.dims("limit");
  for (size_t i = 0; i < start.size(); ++i) {
    start[i] = b.dim(0) + start[i] + offset[i];
    limit[i] = b.dim(0) + limit[i] + offset[i];
  }
  return b.build("slice", {inner.operand(0)}, {{"start", start}, {"limit", limit}});
}

// The elements go back to their places, with zeros between and around them.
Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  const Value x = node.operand(0);
  Value g = cotangents[0];
  Axes between = list_or(node.i64s("stride"), x.rank(), 1);
  for (int64_t& step : between) --step;
  if (!all_equal(between, 0)) {
    const Axes none(x.rank(), 0);
    g = b.build("pad", {g, b.scalar(g.dtype(), 0)},
                {{"low", none}, {"high", none}, {"interior", between}});
  }
  return placed(b, g, node.dims("start"), x.dims());
}

constexpr OpDraft declare() {
  OpDraft draft = op("slice", kPrimitive | TENON_TRAIT_SHAPE_ONLY);
  draft.summary("The box [start, limit) of x, every stride-th element.")
      .operand("x", "the input", kWhole)
      .result("y", "element type of x")
      .attr_dims("start", "first index per dim")
      .role(TENON_ROLE_PER_DIM)
      .attr_dims("limit", "one past the last index per dim")
      .role(TENON_ROLE_SHAPE)
      .attr_i64s("stride", "step per dim; empty: 1 everywhere")
      .role(TENON_ROLE_PER_DIM, 1)
      .constraint("C1", "start, limit and stride have one entry per dim of x",
                  "slice(f32[5]) {start = [1, 0], limit = [4]}")
      .constraint("C2", "every stride is at least 1",
                  "slice(f32[5]) {start = [1], limit = [4], stride = [0]}")
      .constraint("C3", "0 <= start <= limit", "slice(f32[5]) {start = [4], limit = [1]}")
      .constraint("C4", "limit <= the extent of the dim",
                  "slice(f32[5]) {start = [1], limit = [6]}")
      .example("slice(f32[5] [0, 1, 2, 3, 4]) {start = [1], limit = [4]} -> f32[3] [1, 2, 3]")
      .example(
          "slice(i32[5] [0, 1, 2, 3, 4]) {start = [0], limit = [5], stride = [2]} -> i32[3] [0, 2, "
          "4]")
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

TENON_OPS(slice, declare)

}  // namespace tenon::ops::slice_op
