// take, take_along and embedding: the common cases of gather.
#include "gather_dims.h"

namespace tenon::ops::take_op {

Status infer_take(const InferQuery& q) {
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C1", dim, q.rank(0)));
  Dims dims = q.dims(0);
  const Dims indices = q.dims(1);
  dims.erase(dims.begin() + dim);
  dims.insert(dims.begin() + dim, indices.begin(), indices.end());
  return q.result(q.dtype(0), dims);
}
Value take_from(Builder& b, Value x, Value indices, int64_t dim, std::string_view mode) {
  const int64_t index_rank = indices.rank();
  Dims sizes = x.dims();
  sizes[static_cast<size_t>(dim)] = one_each(b, x.dim(static_cast<uint32_t>(dim)), indices);
  Axes offset_dims = range(0, dim);
  for (int64_t i = dim + 1; i < x.rank(); ++i) offset_dims.push_back(i - 1 + index_rank);
  return b.build("gather", {x, indices},
                 {{"sizes", sizes},
                  {"offset_dims", offset_dims},
                  {"collapsed_dims", {dim}},
                  {"index_map", {dim}},
                  {"mode", mode}});
}
Status decompose_take(Builder& b, const Node& node, tenon_value_t* out) {
  const std::string mode = node.text("mode");
  return b.finish(out, {take_from(b, node.operand(0), node.operand(1), node.i64("dim"), mode)});
}
Status value_of_take(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  const auto indices = known(q, 1);
  if (!x || !indices || x->dims.size() != 1 || q.text("mode") == "fill") return TENON_NOT_FOUND;
  std::vector<Dim> values;
  for (Dim d : indices->values) {
    const auto i = constant_of(d);
    if (!i || x->values.empty()) return TENON_NOT_FOUND;
    values.push_back(
        x->values[static_cast<size_t>(std::max<int64_t>(0, std::min(*i, x->dims[0] - 1)))]);
  }
  return answer(values, out);
}

Status infer_along(const InferQuery& q) {
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C1", dim, q.rank(0)));
  TENON_TRY(require_length(q, "C2", "indices's rank", q.rank(1), q.rank(0)));
  for (uint32_t i = 0; i < q.rank(0); ++i) {
    if (i == static_cast<uint32_t>(dim)) continue;
    TENON_TRY(
        q.require_equal("C2", q.dim(0, i), q.dim(1, i), cat("dim ", i, " of x and of indices")));
  }
  return q.result(q.dtype(0), q.dims(1));
}
Status decompose_along(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0), indices = node.operand(1);
  const int64_t dim = node.i64("dim");
  const std::string mode = node.text("mode");
  const Axes batch = others(x.rank(), Axes{dim});
  Dims sizes;
  for (const Dim d : x.dims()) sizes.push_back(one_each(b, d, indices));
  return b.finish(out, {b.build("gather", {x, indices},
                                {{"sizes", sizes},
                                 {"collapsed_dims", {dim}},
                                 {"index_map", {dim}},
                                 {"batch_dims", batch},
                                 {"index_batch_dims", batch},
                                 {"mode", mode}})});
}

// Indices that repeat along dims move windows along these dims.
Value fold_along(Builder& b, const Node& node) {
  const Value x = node.operand(0);
  const auto found = repeated_indices(b, x, node.operand(1), node.i64("dim"));
  if (!found) return {};
  Dims sizes;
  for (const Dim d : x.dims()) sizes.push_back(one_each(b, d, found->indices));
  for (const int64_t d : found->dims.offset_dims)
    sizes[static_cast<size_t>(d)] = x.dim(static_cast<uint32_t>(d));
  return gathered(b, x, found->indices, sizes, found->dims, node.text("mode"));
}

Status infer_embedding(const InferQuery& q) {
  Dims dims = q.dims(1);
  for (uint32_t i = 1; i < q.rank(0); ++i) dims.push_back(q.dim(0, i));
  return q.result(q.dtype(0), dims);
}
Status decompose_embedding(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(out, {take_from(b, node.operand(0), node.operand(1), 0, "clip")});
}

constexpr OpDraft take() {
  OpDraft draft = op("take", kComposite);
  draft
      .summary(
          "Slices of x along a dim, chosen by indices; the dim is replaced by the dims of indices.")
      .operand("x", "what is taken from", kWhole, 0, 1)
      .operand("indices", "which, from 0", kInt)
      .result("y", "element type of x")
      .attr_i64("dim", "the dim that is indexed", 0)
      .role(TENON_ROLE_AXIS)
      .batched({0})
      .attr_string("mode", "what happens outside of x, as for gather", "clip",
                   "clip|fill|in_bounds")
      .constraint("C1", "dim is a dim of x", "take(f32[2], i64[3]) {dim = 1}")
      .example(
          "take(f32[3] [10, 20, 30], i64[2, 2] [[2, 0], [1, 1]]) -> f32[2, 2] [[30, 10], [20, 20]]")
      .example("take(i32[2, 2] [[1, 2], [3, 4]], i32[] 1) {dim = 1} -> i32[2] [2, 4]")
      .infer<infer_take>()
      .value_of<value_of_take>()
      .decompose<decompose_take>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}
constexpr OpDraft take_along() {
  OpDraft draft = op("take_along", kComposite);
  draft.summary("One element of x along a dim per element of indices; the other dims go together.")
      .operand("x", "what is taken from", kWhole, 0, 1)
      .operand("indices", "which, from 0; dims as x but for dim", kInt, 0, 1)
      .result("y", "element type of x, dims of indices")
      .attr_i64("dim", "the dim that is indexed", 0)
      .role(TENON_ROLE_AXIS)
      .batched({0, 1})
      .attr_string("mode", "what happens outside of x, as for gather", "clip",
                   "clip|fill|in_bounds")
      .constraint("C1", "dim is a dim of x", "take_along(f32[2], i64[3]) {dim = 1}")
      .constraint("C2", "indices has the dims of x but for dim",
                  "take_along(f32[2, 3], i64[3, 1]) {dim = 1}")
      .example(
          "take_along(f32[2, 2] [[1, 2], [3, 4]], i64[2, 1] [[1], [0]]) {dim = 1} -> f32[2, 1] "
          "[[2], [3]]")
      .infer<infer_along>()
      .fold<fold_along>()
      .decompose<decompose_along>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}
constexpr OpDraft embedding() {
  OpDraft draft = op("embedding", kComposite);
  draft.summary("Rows of a table, chosen by indices; out of range takes the nearest row.")
      .operand("table", "[rows, ...]", kWhole, 0, 1)
      .operand("indices", "which rows", kInt)
      .result("y", "dims of indices, then those of a row")
      .example(
          "embedding(f32[3, 2] [[1, 2], [3, 4], [5, 6]], i64[2] [2, 0]) -> f32[2, 2] [[5, 6], [1, "
          "2]]")
      .infer<infer_embedding>()
      .decompose<decompose_embedding>()
      .batched({1})
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(take, take, take_along, embedding)

}  // namespace tenon::ops::take_op
