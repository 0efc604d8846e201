// argmax and argmin: the index of the largest or smallest element along a dim.
#include "common.h"
#include "flag.h"

namespace tenon::ops::arg_reduce {

Status infer(const InferQuery& q) {
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), q.rank(0)));
  if (!is_in(q.dtype("index_dtype"), kIndex)) {
    return q.fail("C2", cat("index_dtype is ", dtype_name(q.dtype("index_dtype"))));
  }
  const Dim extent = q.dim(0, static_cast<uint32_t>(q.i64("dim")));
  TENON_TRY(q.require("C3", TENON_REL_LT, q.constant(0), extent, "0 and the extent of dim"));
  const int64_t dim = q.i64("dim");
  return q.result(q.dtype("index_dtype"), without(q.dims(0), {&dim, 1}));
}

// Whether `a` comes before `b`: NaN before all numbers.
template <bool kMax, class Number>
bool better(Number a, Number b) {
  if constexpr (std::is_same_v<Number, double>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  }
  return kMax ? a > b : a < b;
}

template <bool kMax>
Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const auto dim = static_cast<size_t>(e.i64("dim"));
  const bool last = e.i64("last_index") != 0;
  return with_number(x.dtype(), [&]<class Number>(Number) -> Status {
    const auto values = x.read<Number>();
    const auto strides = strides_of(x.dims());
    std::vector<int64_t> found;
    each_index(y.dims(), [&](const Index& i) {
      Index at = i;
      at.insert(at.begin() + static_cast<int64_t>(dim), 0);
      const int64_t base = offset_of(at, strides);
      int64_t best = 0;
      for (int64_t k = 1; k < x.dim(dim); ++k) {
        const Number candidate = values[static_cast<size_t>(base + k * strides[dim])];
        const Number holder = values[static_cast<size_t>(base + best * strides[dim])];
        if (better<kMax>(candidate, holder) || (last && !better<kMax>(holder, candidate))) best = k;
      }
      found.push_back(best);
    });
    y.write(found);
    return {};
  });
}

template <bool kMax>
constexpr OpDraft declare() {
  OpDraft draft = op(kMax ? "argmax" : "argmin", kPrimitive);
  draft
      .summary(kMax ? "The index of the largest element along a dim; NaN is largest."
                    : "The index of the smallest element along a dim; NaN is smallest.")
      .operand("x", "the input", kNumber, 0, 1)
      .result("y", "index_dtype, without dim")
      .attr_i64("dim", "the dim that goes away", 0)
      .role(TENON_ROLE_AXIS)
      .batched({0})
      .no_derivative("its result is an index")
      .attr_dtype("index_dtype", "i32 or i64", TENON_I64)
      .attr(flag("last_index", "1: of equal elements the last, 0: the first", 0))
      .constraint("C1", "dim is a dim of x",
                  kMax ? "argmax(f32[2]) {dim = 1}" : "argmin(f32[2]) {dim = 1}")
      .constraint("C2", "index_dtype is i32 or i64",
                  kMax ? "argmax(f32[2]) {dim = 0, index_dtype = f32}"
                       : "argmin(f32[2]) {dim = 0, index_dtype = f32}")
      .constraint("C3", "the dim is not empty",
                  kMax ? "argmax(f32[0]) {dim = 0}" : "argmin(f32[0]) {dim = 0}")
      .infer<infer>()
      .reference<reference<kMax>>()
      .cost(TENON_COST_REDUCTION);
  if (kMax) {
    draft.example("argmax(f32[2, 3] [[1, 5, 5], [7, 2, 3]]) {dim = 1} -> i64[2] [1, 0]")
        .example(
            "argmax(f32[3] [1, 5, 5]) {dim = 0, last_index = 1, index_dtype = i32} -> i32[] 2");
  } else {
    draft.example("argmin(f32[2, 2] [[1, 5], [0, 6]]) {dim = 0} -> i64[2] [1, 0]");
  }
  return draft;
}

TENON_OPS(arg_reduce, declare<true>, declare<false>)

}  // namespace tenon::ops::arg_reduce
