// nonzero and compress: results of data-dependent length.
#include "compose.h"

namespace tenon::ops::nonzero_op {

Status infer(const InferQuery& q) {
  if (!is_in(q.dtype("index_dtype"), kIndex))
    return q.fail("C1", cat("index_dtype is ", dtype_name(q.dtype("index_dtype"))));
  const Dim most = q.type(0).element_count();
  const Dim found = q.fresh_symbol(0, upper_bound(most));
  TENON_TRY(q.require("C2", TENON_REL_LE, found, most, "found elements and elements of x"));
  return q.result(q.dtype("index_dtype"), {q.constant(q.rank(0)), found});
}

bool holds(const Array& x, std::span<const int64_t> i) {
  if (is_float(x.dtype())) return !(load_double(x.dtype(), x.at(i)) == 0);
  return load_int(x.dtype(), x.at(i)) != 0;
}

Status reference(const Eval& e) {
  const Array x = e.input(0);
  std::vector<Index> found;
  each_index(x.dims(), [&](const Index& i) {
    if (holds(x, i)) found.push_back(i);
  });
  const int64_t dims[] = {x.rank(), static_cast<int64_t>(found.size())};
  TENON_TRY(e.alloc(0, dims));
  const Array y = e.output();
  each_index(y.dims(), [&](const Index& to) {
    store_int(y.dtype(), y.at(to), found[static_cast<size_t>(to[1])][static_cast<size_t>(to[0])]);
  });
  return {};
}

constexpr OpDraft nonzero() {
  OpDraft draft = op("nonzero", kPrimitive | TENON_TRAIT_DEFINES_SYMBOL);
  draft.summary("Where x is not 0, in row-major order; NaN is not 0.")
      .operand("x", "the input", kNumber | kPred)
      .result("indices", "index_dtype, [rank of x, a dim of its own]")
      .attr_dtype("index_dtype", "i32 or i64", TENON_I64)
      .constraint("C1", "index_dtype is i32 or i64", "nonzero(f32[2]) {index_dtype = f32}")
      .example("nonzero(f32[2, 2] [[1, 0], [0, 2]]) -> i64[2, 2] [[0, 1], [0, 1]]")
      .infer<infer>()
      .reference<reference>()
      .no_derivative("its result is indices")
      .traits(TENON_TRAIT_NO_RECOMPUTE)
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

Status infer_compress(const InferQuery& q) {
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C1", dim, q.rank(0)));
  const Dim length = q.dim(0, static_cast<uint32_t>(dim));
  TENON_TRY(q.require("C2", TENON_REL_LE, q.dim(1, 0), length, "condition and dim"));
  const Dim found = q.fresh_symbol(0, upper_bound(q.dim(1, 0)));
  TENON_TRY(q.require("C2", TENON_REL_LE, found, q.dim(1, 0), "chosen slices and condition"));
  Dims dims = q.dims(0);
  dims[static_cast<size_t>(dim)] = found;
  return q.result(q.dtype(0), dims);
}

Status reference_compress(const Eval& e) {
  const Array x = e.input(0), condition = e.input(1);
  const auto dim = static_cast<size_t>(e.i64("dim"));
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < condition.dim(0); ++i) {
    if (holds(condition, {&i, 1})) chosen.push_back(i);
  }
  Axes dims(x.dims().begin(), x.dims().end());
  dims[dim] = static_cast<int64_t>(chosen.size());
  TENON_TRY(e.alloc(0, dims));
  const Array y = e.output();
  each_index(y.dims(), [&](const Index& to) {
    Index from = to;
    from[dim] = chosen[static_cast<size_t>(to[dim])];
    y.copy_from(to, x, from);
  });
  return {};
}

// The same slices of the tangent, by their indices: these come first in order, before the others.
std::vector<Value> jvp_compress(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value condition = node.operand(1);
  const int64_t dim = node.i64("dim");
  const Dim found = node.result().dim(static_cast<uint32_t>(dim));
  const Term index = iota(b, condition.dims(), 0);
  const Value last = b.splat(b.scalar_int(TENON_I64, INT64_MAX), condition.dims());
  const Term chosen = where({b, condition}, index, {b, last});
  const Term first = cut({b, b.build("sort", {chosen.v})}, 0, b.dim(0), found);
  return {take({b, tangents[0]}, first, dim, "in_bounds")};
}

constexpr OpDraft compress() {
  OpDraft draft = op("compress", kPure | TENON_TRAIT_DEFINES_SYMBOL);
  draft.summary("The slices of x along a dim for which a condition holds.")
      .doc(
          "A condition that is shorter than the dim leaves out what comes after it. It has no "
          "decomposition, since the extent of its result is its own.")
      .operand("x", "the input", kWhole, 0, 1)
      .operand("condition", "one per slice", kPred, 0, 1, 1)
      .result("y", "element type of x, with a dim of its own")
      .attr_i64("dim", "the dim of the slices", 0)
      .constraint("C1", "dim is a dim of x", "compress(f32[2], pred[2]) {dim = 1}")
      .constraint("C2", "condition is no longer than dim", "compress(f32[2], pred[3])")
      .example("compress(f32[3] [1, 2, 3], pred[3] [1, 0, 1]) -> f32[2] [1, 3]")
      .infer<infer_compress>()
      .reference<reference_compress>()
      .jvp<jvp_compress>()
      .traits(TENON_TRAIT_NO_RECOMPUTE)
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(nonzero, nonzero, compress)

}  // namespace tenon::ops::nonzero_op
