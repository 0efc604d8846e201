// matmul as in NumPy, and linear: the layer x w + bias with an activation.
#include "common.h"
#include "derivative.h"
#include "flag.h"

namespace tenon::ops::matmul_op {

// Joins the leading dims of two matrices, aligned at the end. A constant 1 or a missing dim
// repeats.
template <class Require>
Status join_batch(const Dims& a, const Dims& b, Require&& require, Dims* out) {
  const size_t rank = std::max(a.size(), b.size());
  for (size_t i = 0; i < rank; ++i) {
    const bool in_a = i + a.size() >= rank, in_b = i + b.size() >= rank;
    const Dim x = in_a ? a[i + a.size() - rank] : Dim(1),
              y = in_b ? b[i + b.size() - rank] : Dim(1);
    if (!in_a || x.is(1)) {
      out->push_back(y);
    } else {
      out->push_back(x);
      if (in_b && !y.is(1)) TENON_TRY(require(x, y));
    }
  }
  return {};
}
Dims leading(const Dims& dims) {
  return Dims(dims.begin(),
              dims.end() - std::min<ptrdiff_t>(2, static_cast<ptrdiff_t>(dims.size())));
}

Status infer_matmul(const InferQuery& q) {
  const Dims a = q.dims(0), b = q.dims(1);
  TENON_TRY(q.require_equal("C1", a.back(), b.size() == 1 ? b[0] : b[b.size() - 2],
                            "the last dim of a and that of b it meets"));
  Dims dims;
  TENON_TRY(join_batch(
      leading(a), leading(b),
      [&](Dim x, Dim y) { return q.require_equal("C2", x, y, "leading dims of a and b"); }, &dims));
  TENON_TRY(require_sum_types(q, "C3"));
  if (a.size() > 1) dims.push_back(a[a.size() - 2]);
  if (b.size() > 1) dims.push_back(b.back());
  return q.result(q.dtype("dtype") != TENON_DTYPE_NONE ? q.dtype("dtype") : q.dtype(0), dims);
}

// Broadcasts the leading dims of x to `batch`.
Value expand(Builder& b, Value x, const Dims& batch) {
  if (x.rank() < 2) return x;
  Dims shape = batch;
  shape.push_back(x.dim(x.rank() - 2));
  shape.push_back(x.dim(x.rank() - 1));
  bool same = shape.size() == x.rank();
  for (uint32_t i = 0; same && i < x.rank(); ++i) same = surely_equal(shape[i], x.dim(i));
  return same ? x : b.build("broadcast", {x}, {{"shape", shape}});
}
Status decompose_matmul(Builder& b, const Node& node, tenon_value_t* out) {
  Value x = node.operand(0), y = node.operand(1);
  const DType acc = dtype(node.dtype("acc")), result = dtype(node.dtype("dtype"));
  // A right operand without leading dims needs no batch: every row of the left one uses it.
  Axes batch;
  if (y.rank() > 2) {
    Dims joined;
    TENON_TRY(join_batch(
        leading(x.dims()), leading(y.dims()), [](Dim, Dim) { return Status(); }, &joined));
    x = x.rank() < 2 ? b.build("broadcast", {x},
                               {{"shape",
                                 [&] {
                                   Dims shape = joined;
                                   shape.push_back(x.dim(0));
                                   return shape;
                                 }()}})
                     : expand(b, x, joined);
    y = expand(b, y, joined);
    batch = range(0, static_cast<int64_t>(joined.size()));
  }
  const int64_t x_last = x.rank() - 1;
  const int64_t y_sum = y.rank() == 1 ? 0 : y.rank() - 2;
  return b.finish(out, {b.build("dot_general", {x, y},
                                {{"a_batch", batch},
                                 {"b_batch", batch},
                                 {"a_contract", {x_last}},
                                 {"b_contract", {y_sum}},
                                 {"acc", acc},
                                 {"dtype", result}})});
}

// A new dim of both sides, or of the left one alone, is one more batch dim; of the right one alone
// the decomposition makes the better product.
std::vector<Value> batch_matmul(Builder& b, const Node& node, std::span<const Value> operands,
                                std::span<const uint8_t> is_batched, Dim) {
  std::vector<Value> given(operands.begin(), operands.end());
  if (is_batched[0] == 0) return {};
  // Both sides as matrices with as many leading dims; a vector gets a dim that the result drops.
  const uint32_t ranks[] = {node.operand(0).rank(), node.operand(1).rank()};
  const uint32_t most = std::max({ranks[0], ranks[1], 2u});
  if (is_batched[1] == 0 && ranks[1] <= 2 && ranks[0] >= 2)
    return {b.build_node("matmul", given, attributes_of(node)).result()};
  for (uint32_t i = 0; i < 2; ++i) {
    Dims shape = node.operand(i).dims();
    if (ranks[i] == 1) shape.insert(i == 0 ? shape.begin() : shape.end(), b.dim(1));
    shape.insert(shape.begin(), most - static_cast<uint32_t>(shape.size()), b.dim(1));
    shape.insert(shape.begin(), is_batched[i] != 0 ? given[i].dim(0) : b.dim(1));
    given[i] = reshape(b, given[i], shape);
  }
  const Value y = b.build_node("matmul", given, attributes_of(node)).result();
  Dims whole = node.result().dims();
  whole.insert(whole.begin(), operands[0].dim(0));
  return {reshape(b, y, whole)};
}

constexpr OpDraft matmul() {
  OpDraft draft = op("matmul", kComposite);
  draft.summary("The matrix product with NumPy's rules.")
      .doc(
          "The last dim of a meets the last but one of b (its only one for rank 1). Dims before "
          "the last two are batch dims: "
          "aligned at the end, equal, or absent or the constant 1 on one side, which then repeats.")
      .operand("a", "the left side", kNumber | kComplex, 1, 1)
      .operand("b", "the right side, same element type as a", kNumber | kComplex, 1, 1)
      .result("y", "element type dtype, or that of a")
      .attr_dtype("acc", "the type sums are kept in; none: as dot_general")
      .attr_dtype("dtype", "the element type of the result; none: as a")
      .constraint("C1", "the dims that meet are equal", "matmul(f32[2, 3], f32[2, 3])")
      .constraint("C2", "leading dims are equal, 1, or absent on one side",
                  "matmul(f32[2, 2, 3], f32[3, 3, 2])")
      .constraint("C3", "acc and dtype are floats for floats, integers for integers",
                  "matmul(f32[2], f32[2]) {dtype = i8}")
      .example(
          "matmul(f32[2, 2] [[1, 2], [3, 4]], f32[2, 2] [[5, 6], [7, 8]]) -> f32[2, 2] [[19, 22], "
          "[43, 50]]")
      .example("matmul(f32[2] [1, 2], f32[2] [3, 4]) -> f32[] 11")
      .example(
          "matmul(i32[2, 1, 2] [[[1, 2]], [[3, 4]]], i32[1, 2, 1] [[[1], [10]]]) -> i32[2, 1, 1] "
          "[[[21]], [[43]]]")
      .infer<infer_matmul>()
      .decompose<decompose_matmul>()
      .batch<batch_matmul>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(4);
  return draft;
}

Status infer_linear(const InferQuery& q) {
  const bool transposed = q.i64("transpose_w") != 0;
  const Dim in = q.dim(1, transposed ? 1 : 0), features = q.dim(1, transposed ? 0 : 1);
  Dims dims = q.dims(0);
  TENON_TRY(q.require_equal("C1", dims.back(), in, "the last dim of x and the in features of w"));
  if (q.has(2))
    TENON_TRY(q.require_equal("C2", q.dim(2, 0), features, "bias and the out features of w"));
  if (q.text("activation") != "none" && !is_float(q.dtype(0)) && q.text("activation") != "relu") {
    return q.fail("C3",
                  cat("activation is ", q.text("activation"), ", x has ", dtype_name(q.dtype(0))));
  }
  dims.back() = features;
  return q.result(q.dtype(0), dims);
}
Status decompose_linear(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0), w = node.operand(1), bias = node.operand(2);
  const std::string activation = node.text("activation");
  const int64_t last = x.rank() - 1, in = node.i64("transpose_w") != 0 ? 1 : 0;
  Value y =
      b.build("dot_general", {x, w},
              {{"a_contract", {last}}, {"b_contract", {in}}, {"acc", dtype(node.dtype("acc"))}});
  if (bias) y = b.build("add", {y, along(b, bias, y, last)});
  return b.finish(out, {activate(b, y, activation)});
}
constexpr OpDraft linear() {
  OpDraft draft = op("linear", kComposite);
  draft.summary("x w + bias, then an activation.")
      .operand("x", "any leading dims, features last", kNumber, 1, 1)
      .operand("w", "[in, out], or [out, in] with transpose_w", kNumber, 1, 2, 2)
      .optional("bias", "one per out feature", kNumber, 1, 1, 1)
      .result("y", "x with the out features as last dim")
      .attr(flag("transpose_w", "1: w is [out, in]", 0))
      .attr_string("activation", "what is applied last", "none", kActivations)
      .attr_dtype("acc", "the type sums are kept in; none: as dot_general")
      .constraint("C1", "the last dim of x is the in features of w", "linear(f32[2, 3], f32[2, 4])")
      .constraint("C2", "bias has one entry per out feature",
                  "linear(f32[2, 3], f32[3, 4], f32[3])")
      .constraint("C3", "integers allow no activation but relu",
                  "linear(i32[2], i32[2, 1]) {activation = \"gelu\"}")
      .example(
          "linear(f32[1, 2] [[1, 2]], f32[2, 2] [[1, 3], [2, -4]], f32[2] [10, 0]) {activation = "
          "\"relu\"} -> "
          "f32[1, 2] [[15, 0]]")
      .example("linear(f32[2] [1, 2], f32[1, 2] [[3, 4]]) {transpose_w = 1} -> f32[1] [11]")
      .infer<infer_linear>()
      .decompose<decompose_linear>()
      .batched({0})
      .cost(TENON_COST_CONTRACTION)
      .tolerance(4);
  return draft;
}

TENON_OPS(matmul, matmul, linear)

}  // namespace tenon::ops::matmul_op
