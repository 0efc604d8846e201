// dim_from_scalar: a data-dependent number as an extent.
#include "common.h"

namespace tenon::ops::dim_from_scalar_op {

Status infer(const InferQuery& q) {
  const int64_t lo = q.i64("lo"), hi = q.i64("hi");
  if (lo < 0 || hi < lo) return q.fail("C1", cat("lo is ", lo, ", hi is ", hi));
  return q.result(TENON_PRED, {q.fresh_symbol(lo, hi), q.constant(0)});
}

Status reference(const Eval& e) {
  const Array x = e.input(0);
  const int64_t value = load_int(x.dtype(), x.at({}));
  const bool wraps = x.dtype() == TENON_U64 && value < 0;
  if (wraps || value < e.i64("lo") || value > e.i64("hi")) {
    return fail(TENON_OUT_OF_RANGE, cat("dim_from_scalar: the extent ", value, " is not in [",
                                        e.i64("lo"), ", ", e.i64("hi"), "]."));
  }
  const int64_t dims[] = {value, 0};
  return e.alloc(0, dims);
}

constexpr OpDraft declare() {
  OpDraft draft = op("dim_from_scalar", kPrimitive | TENON_TRAIT_DEFINES_SYMBOL);
  draft.summary("A computed number as an extent: the first dim of a result without elements.")
      .doc(
          "Types made with the result's first dim have that extent. A number outside of [lo, hi] "
          "is an error when it runs.")
      .operand("x", "the number", kInt, 0, 0, 0)
      .result("shape", "pred[the extent, 0]")
      .attr_i64("lo", "the least extent", 0)
      .attr_i64("hi", "the greatest extent; it bounds the memory of what has this extent",
                INT64_MAX)
      .constraint("C1", "0 <= lo <= hi", "dim_from_scalar(i64[]) {lo = 3, hi = 2}")
      .example("dim_from_scalar(i64[] 3) {hi = 8} -> pred[3, 0] []")
      .infer<infer>()
      .reference<reference>()
      .traits(TENON_TRAIT_NO_RECOMPUTE)
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(dim_from_scalar, declare)

}  // namespace tenon::ops::dim_from_scalar_op
