// dynamic_slice and dynamic_update_slice: a box at a computed position, clamped so that it fits.
#include "common.h"

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
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(dynamic_slice, dynamic_slice, dynamic_update_slice)

}  // namespace tenon::ops::dynamic_slice_op
