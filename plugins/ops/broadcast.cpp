// broadcast: repeats a value along new dims and along dims of extent 1.
#include <algorithm>

#include "common.h"
#include "derivative.h"

namespace tenon::ops::broadcast_op {

// The dims of the result that the dims of x become: the attribute, or the last dims.
Axes placement(std::span<const int64_t> dims, size_t rank, size_t result_rank) {
  if (!dims.empty() || rank == 0) return Axes(dims.begin(), dims.end());
  return range(static_cast<int64_t>(result_rank - rank), static_cast<int64_t>(result_rank));
}

Status infer(const InferQuery& q) {
  const Dims shape = q.dims("shape");
  const auto dims = q.i64s("dims");
  const size_t rank = q.rank(0);
  if (rank > shape.size()) {
    return q.fail("C1", cat("x has rank ", rank, ", shape has ", shape.size(), " entries"));
  }
  if (!dims.empty() && dims.size() != rank) {
    return q.fail("C1", cat("dims has ", dims.size(), " entries, x has rank ", rank));
  }
  const Axes to = placement(dims, rank, shape.size());
  for (size_t i = 0; i < rank; ++i) {
    if (to[i] < 0 || to[i] >= static_cast<int64_t>(shape.size()) || (i > 0 && to[i] <= to[i - 1])) {
      return q.fail("C2", cat("dims[", i, "] is ", to[i]));
    }
    const Dim from = q.dim(0, static_cast<uint32_t>(i));
    if (from.is(1)) continue;
    TENON_TRY(q.require_equal("C3", from, shape[static_cast<size_t>(to[i])],
                              cat("dim ", i, " of x and dim ", to[i], " of shape")));
  }
  return q.result(q.dtype(0), shape);
}

Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const Axes to = placement(e.i64s("dims"), x.rank(), y.rank());
  Index from(x.rank());
  each_index(y.dims(), [&](const Index& i) {
    for (size_t k = 0; k < from.size(); ++k)
      from[k] = x.dim(k) == 1 ? 0 : i[static_cast<size_t>(to[k])];
    y.copy_from(i, x, from);
  });
  return {};
}

Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  if (!x) return TENON_NOT_FOUND;
  Axes shape;
  for (Dim d : q.dims("shape")) {
    if (!d.is_constant()) return TENON_NOT_FOUND;
    shape.push_back(d.constant());
  }
  const Axes to = placement(q.i64s("dims"), x->dims.size(), shape.size());
  const auto strides = strides_of(x->dims);
  std::vector<Dim> values;
  each_index(shape, [&](const Index& i) {
    int64_t offset = 0;
    for (size_t k = 0; k < to.size(); ++k)
      offset += x->dims[k] == 1 ? 0 : i[static_cast<size_t>(to[k])] * strides[k];
    values.push_back(x->values[static_cast<size_t>(offset)]);
  });
  return answer(values, out);
}

// Folds a broadcast to the same type, and a broadcast of a broadcast. Each leaves one node fewer.
Value fold(Builder& b, const Node& node) {
  const Value x = node.operand(0);
  const Value y = node.result();
  if (x.type() == y.type()) return x;
  const Node inner = x.node();
  if (!inner || !inner.is("broadcast")) return {};
  const Value source = inner.operand(0);
  const Axes first = placement(inner.i64s("dims"), source.rank(), x.rank());
  const Axes second = placement(node.i64s("dims"), x.rank(), y.rank());
  Axes both;
  for (int64_t d : first) both.push_back(second[static_cast<size_t>(d)]);
  return b.broadcast(source, node.dims("shape"), both);
}

// Sums over the dims that repeat.
Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  const Value g = cotangents[0], x = node.operand(0);
  const Axes to = placement(node.i64s("dims"), x.rank(), g.rank());
  Axes repeated = others(g.rank(), to);
  for (uint32_t i = 0; i < x.rank(); ++i) {
    const auto at = static_cast<uint32_t>(to[i]);
    if (x.dim(i).is(1) && !g.dim(at).is(1)) repeated.push_back(to[i]);
  }
  std::sort(repeated.begin(), repeated.end());
  const Value sum = repeated.empty() ? g : reduce(b, "reduce_sum", g, repeated);
  return sum.rank() == x.rank() ? sum : reshape(b, sum, x.dims());
}
std::vector<Value> batch(Builder& b, const Node& node, std::span<const Value> operands,
                         std::span<const uint8_t>, Dim size) {
  Dims shape = node.dims("shape");
  Axes to = shifted(placement(node.i64s("dims"), node.operand(0).rank(), shape.size()));
  to.insert(to.begin(), 0);
  shape.insert(shape.begin(), size);
  return {b.broadcast(operands[0], shape, to)};
}

constexpr OpDraft declare() {
  OpDraft draft = op("broadcast", kPrimitive | TENON_TRAIT_SHAPE_ONLY);
  draft.alias("expand").alias("broadcast_to");
  draft.summary("Repeats x along new dims, and along its dims of extent 1.")
      .doc(
          "Dim i of x becomes dim dims[i] of the result. It has that extent, or is the constant 1 "
          "and repeats. Without "
          "dims, the dims of x become the last ones. A symbolic dim never repeats.")
      .operand("x", "the input", kWhole)
      .result("y", "element type of x, dims of shape")
      .attr_dims("shape", "the dims of the result")
      .attr_i64s("dims",
                 "for each dim of x its place in the result, increasing; empty: the last ones")
      .constraint("C1", "dims is empty or has one entry per dim of x, and the rank does not fall",
                  "broadcast(f32[2]) {shape = [3, 2], dims = [0, 1]}")
      .constraint("C2", "dims increases and stays within the result",
                  "broadcast(f32[2]) {shape = [3, 2], dims = [2]}")
      .constraint("C3", "every dim of x is 1 or equals its dim of shape",
                  "broadcast(f32[2]) {shape = [3], dims = [0]}")
      .example("broadcast(f32[] 5) {shape = [2]} -> f32[2] [5, 5]")
      .example(
          "broadcast(i32[2] [1, 2]) {shape = [2, 2], dims = [0]} -> i32[2, 2] [[1, 1], [2, 2]]")
      .example("broadcast(i32[1, 2] [[1, 2]]) {shape = [2, 2]} -> i32[2, 2] [[1, 2], [1, 2]]")
      .infer<infer>()
      .value_of<value_of>()
      .reference<reference>()
      .decompose_complex<by_parts>()
      .fold<fold>()
      .linear({0})
      .transposed<transpose>()
      .batch<batch>()
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(broadcast, declare)

}  // namespace tenon::ops::broadcast_op
