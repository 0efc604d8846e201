// dynamic_slice and dynamic_update_slice: a box at a computed position, clamped so that it fits.
#include "gather_dims.h"

namespace tenon::ops::dynamic_slice_op {

Status require_starts(const InferQuery& q, uint32_t operand) {
  return q.require_equal("C1", q.dim(operand, 0), q.constant(q.rank(0)),
                         "the number of starts and the rank of x");
}

Status infer_slice(const InferQuery& q) {
  TENON_TRY(require_starts(q, 1));
  const Dims sizes = q.dims("sizes");
  TENON_TRY(require_length(q, "C2", "sizes", sizes.size(), q.rank(0)));
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    TENON_TRY(
        q.require("C3", TENON_REL_LE, sizes[i], q.dim(0, i), cat("size and extent of dim ", i)));
  }
  return q.result(q.dtype(0), sizes);
}
Status infer_update(const InferQuery& q) {
  TENON_TRY(require_starts(q, 2));
  if (q.rank(1) != q.rank(0))
    return q.fail("C2", cat("update has rank ", q.rank(1), ", x has ", q.rank(0)));
  for (uint32_t i = 0; i < q.rank(0); ++i) {
    TENON_TRY(q.require("C3", TENON_REL_LE, q.dim(1, i), q.dim(0, i),
                        cat("dim ", i, " of update and of x")));
  }
  return q.result(q.dtype(0), q.dims(0));
}

Index clamped_starts(const Array& starts, std::span<const int64_t> dims,
                     std::span<const int64_t> sizes) {
  Index out = starts.read<int64_t>();
  for (size_t k = 0; k < out.size(); ++k)
    out[k] = std::max<int64_t>(0, std::min(out[k], dims[k] - sizes[k]));
  return out;
}

Status reference_slice(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const Index start = clamped_starts(e.input(1), x.dims(), y.dims());
  Index from(x.rank());
  each_index(y.dims(), [&](const Index& i) {
    for (size_t k = 0; k < i.size(); ++k) from[k] = start[k] + i[k];
    y.copy_from(i, x, from);
  });
  return {};
}
Status reference_update(const Eval& e) {
  const Array x = e.input(0), update = e.input(1), y = e.output();
  const Index start = clamped_starts(e.input(2), x.dims(), update.dims());
  each_index(y.dims(), [&](const Index& i) { y.copy_from(i, x, i); });
  Index to(x.rank());
  each_index(update.dims(), [&](const Index& i) {
    for (size_t k = 0; k < i.size(); ++k) to[k] = start[k] + i[k];
    y.copy_from(to, update, i);
  });
  return {};
}

// ---- Derivatives and batches ----

Value transpose_slice(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  const Value zero = b.full(cotangents[0].dtype(), node.operand(0).dims(), 0);
  return b.build("dynamic_update_slice", {zero, cotangents[0], node.operand(1)});
}
Value transpose_update(Builder& b, const Node& node, uint32_t operand,
                       std::span<const Value> cotangents) {
  const Value g = cotangents[0], starts = node.operand(2);
  const Dims sizes = node.operand(1).dims();
  if (operand == 1) return b.build("dynamic_slice", {g, starts}, {{"sizes", sizes}});
  return b.build("dynamic_update_slice", {g, b.full(g.dtype(), sizes, 0), starts});
}
// The same box in every sample begins at 0 along the new dim.
Value common_starts(Builder& b, Value starts) {
  const Value zero = b.splat(b.scalar_int(starts.dtype(), 0), {b.dim(1)});
  return b.build("concat", {zero, starts}, {{"dim", 0}});
}
// A box for each sample is a window of gather or scatter.
GatherDims boxes(int64_t rank, bool of_x) {
  return with_samples({range(0, rank), {}, range(0, rank), {}, {}, 0}, of_x, true);
}
std::vector<Value> batch_slice(Builder& b, const Node& node, std::span<const Value> operands,
                               std::span<const uint8_t> is_batched, Dim size) {
  const bool of_x = is_batched[0] != 0, of_starts = is_batched[1] != 0;
  Dims sizes = node.dims("sizes");
  if (of_x) sizes.insert(sizes.begin(), of_starts ? min(size, b.dim(1)) : size);
  if (!of_starts) {
    const Value starts = common_starts(b, operands[1]);
    return {b.build("dynamic_slice", {operands[0], starts}, {{"sizes", sizes}})};
  }
  const GatherDims g = boxes(node.operand(0).rank(), of_x);
  return {gathered(b, operands[0], operands[1], sizes, g, "clip")};
}
std::vector<Value> batch_update(Builder& b, const Node& node, std::span<const Value> operands,
                                std::span<const uint8_t> is_batched, Dim size) {
  const Value x = repeated(b, operands[0], is_batched[0] != 0, size);
  const Value update = repeated(b, operands[1], is_batched[1] != 0, size);
  if (is_batched[2] == 0)
    return {b.build("dynamic_update_slice", {x, update, common_starts(b, operands[2])})};
  const GatherDims g = boxes(node.operand(0).rank(), true);
  return {scattered(b, "set", x, operands[2], update, g, "clip")};
}

constexpr OpDraft dynamic_slice() {
  OpDraft draft = op("dynamic_slice", kPrimitive);
  draft.summary("A box of given sizes at a computed place, which is clamped so that the box fits.")
      .operand("x", "the input", kWhole, 1, 1)
      .operand("starts", "the first index per dim of x", kIndex, 0, 1, 1)
      .result("y", "element type of x, dims of sizes")
      .attr_dims("sizes", "the extents of the box")
      .constraint("C1", "there is one start per dim of x",
                  "dynamic_slice(f32[4], i64[2]) {sizes = [2]}")
      .constraint("C2", "there is one size per dim of x",
                  "dynamic_slice(f32[4], i64[1]) {sizes = [2, 2]}")
      .constraint("C3", "the box is not larger than x",
                  "dynamic_slice(f32[4], i64[1]) {sizes = [5]}")
      .example("dynamic_slice(f32[4] [1, 2, 3, 4], i64[1] [1]) {sizes = [2]} -> f32[2] [2, 3]")
      .example("dynamic_slice(f32[4] [1, 2, 3, 4], i64[1] [9]) {sizes = [2]} -> f32[2] [3, 4]")
      .infer<infer_slice>()
      .reference<reference_slice>()
      .decompose_complex<by_parts>()
      .linear({0})
      .transposed<transpose_slice>()
      .batch<batch_slice>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}
constexpr OpDraft dynamic_update_slice() {
  OpDraft draft = op("dynamic_update_slice", kPrimitive);
  draft
      .summary(
          "x with a box at a computed place replaced; the place is clamped so that the box fits.")
      .operand("x", "the input", kWhole, 1, 1)
      .operand("update", "the box's new elements", kWhole, 1, 1)
      .operand("starts", "the first index per dim of x", kIndex, 0, 1, 1)
      .result("y", "same type as x")
      .constraint("C1", "there is one start per dim of x",
                  "dynamic_update_slice(f32[4], f32[2], i64[2])")
      .constraint("C2", "update has the rank of x",
                  "dynamic_update_slice(f32[4], f32[2, 1], i64[1])")
      .constraint("C3", "update is not larger than x",
                  "dynamic_update_slice(f32[4], f32[5], i64[1])")
      .example(
          "dynamic_update_slice(f32[4] [1, 2, 3, 4], f32[2] [8, 9], i64[1] [1]) -> f32[4] [1, 8, "
          "9, 4]")
      .example(
          "dynamic_update_slice(f32[3] [1, 2, 3], f32[2] [8, 9], i32[1] [-4]) -> f32[3] [8, 9, 3]")
      .infer<infer_update>()
      .reference<reference_update>()
      .decompose_complex<by_parts>()
      .linear({0, 1})
      .transposed<transpose_update>()
      .batch<batch_update>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(dynamic_slice, dynamic_slice, dynamic_update_slice)

}  // namespace tenon::ops::dynamic_slice_op
