// scatter_elements and index_put: write elements at indices.
#include "compose.h"
#include "flag.h"
#include "gather_dims.h"

namespace tenon::ops::scatter_elements_op {

// Scatters single elements. The last dim of `vectors` has one number per dim of x.
Value scatter_at(Builder& b, Term x, Term vectors, Term updates, std::string_view kind,
                 std::string_view mode) {
  const Axes all = range(0, x.rank());
  return b.build("scatter", {x.v, vectors.v, updates.v},
                 {{"kind", kind},
                  {"inserted_dims", all},
                  {"index_map", all},
                  {"index_vector_dim", vectors.rank() - 1},
                  {"mode", mode}});
}
Term vectors_of(Builder& b, const std::vector<Term>& parts) {
  std::vector<Value> columns;
  for (const Term& p : parts) columns.push_back(insert_dim(p, p.rank()));
  return concat(b, columns, parts[0].rank());
}

Status infer_elements(const InferQuery& q) {
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C1", dim, q.rank(0)));
  if (q.rank(1) != q.rank(0)) return q.fail("C2", cat("indices have rank ", q.rank(1)));
  for (uint32_t i = 0; i < q.rank(0); ++i) {
    if (i != static_cast<uint32_t>(dim))
      TENON_TRY(
          q.require("C2", TENON_REL_LE, q.dim(1, i), q.dim(0, i), "dims of indices and of x"));
  }
  TENON_TRY(q.require_same_shape("C3", 1, 2));
  return q.result(q.dtype(0), q.dims(0));
}
// Indices that repeat along dims move windows along these dims.
Value fold_elements(Builder& b, const Node& node) {
  const Value x = node.operand(0), updates = node.operand(2);
  const int64_t dim = node.i64("dim");
  const auto found = repeated_indices(b, x, node.operand(1), dim);
  if (!found) return {};
  return scattered(b, node.text("kind"), x, found->indices, updates, found->dims,
                   node.text("mode"));
}
Status decompose_elements(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)}, indices = {b, node.operand(1)},
             updates = {b, node.operand(2)};
  const int64_t dim = node.i64("dim");
  const std::string kind = node.text("kind"), mode = node.text("mode");
  const Axes lines = others(x.rank(), Axes{dim});
  if (goes_along(x.v, indices.v, lines)) {
    const GatherDims g = {{}, {dim}, {dim}, lines, lines, indices.rank()};
    return b.finish(out, {scattered(b, kind, x.v, indices.v, updates.v, g, mode)});
  }
  std::vector<Term> parts;
  for (int64_t i = 0; i < x.rank(); ++i) {
    parts.push_back(i == dim ? as(indices, TENON_I64) : iota(b, indices.dims(), i));
  }
  return b.finish(out, {scatter_at(b, x, vectors_of(b, parts), updates, kind, mode)});
}

Status infer_put(const InferQuery& q) {
  if (q.operand_count() != 2 + q.rank(0))
    return q.fail("C1", cat(q.operand_count() - 2, " lists of indices for rank ", q.rank(0)));
  for (uint32_t i = 2; i < q.operand_count(); ++i) {
    if (!is_in(q.dtype(i), kInt)) return q.fail("C2", cat("indices have ", dtype_name(q.dtype(i))));
    TENON_TRY(q.require_same_shape("C3", 1, i));
  }
  return q.result(q.dtype(0), q.dims(0));
}
Status decompose_put(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)}, values = {b, node.operand(1)};
  const std::string kind = node.i64("accumulate") != 0 ? "add" : "set", mode = node.text("mode");
  std::vector<Term> parts;
  for (uint32_t i = 2; i < node.operand_count(); ++i)
    parts.push_back(as({b, node.operand(i)}, TENON_I64));
  return b.finish(out, {scatter_at(b, x, vectors_of(b, parts), values, kind, mode)});
}

constexpr OpDraft scatter_elements() {
  OpDraft draft = op("scatter_elements", kComposite);
  draft.summary("x with elements along a dim replaced by updates, or combined with them.")
      .doc(
          "Element i of updates meets the element of x at i, with indices[i] in the place of dim. "
          "Several of one element are applied in their order.")
      .operand("x", "what is written into", kWhole, 1, 1)
      .operand("indices", "where along dim, from 0", kInt, 0, 1)
      .operand("updates", "what is written, dims of indices", kWhole, 1, 1)
      .result("y", "same type as x")
      .attr_i64("dim", "the dim that is indexed", 0)
      .role(TENON_ROLE_AXIS)
      .batched({0, 1, 2})
      .attr_string("kind", "how an update meets the old element", "set", "set|add|mul|min|max")
      .attr_string("mode", "what happens outside of x, as for scatter", "fill",
                   "clip|fill|in_bounds")
      .constraint("C1", "dim is a dim of x", "scatter_elements(f32[2], i64[1], f32[1]) {dim = 1}")
      .constraint("C2", "indices have the rank of x and, but for dim, no larger dims",
                  "scatter_elements(f32[2, 2], i64[3, 1], f32[3, 1]) {dim = 1}")
      .constraint("C3", "updates have the dims of indices",
                  "scatter_elements(f32[2], i64[1], f32[2])")
      .example(
          "scatter_elements(f32[2, 3] [[1, 2, 3], [4, 5, 6]], i64[2, 1] [[2], [0]], f32[2, 1] "
          "[[9], [8]]) {dim = 1} -> f32[2, 3] [[1, 2, 9], [8, 5, 6]]")
      .infer<infer_elements>()
      .fold<fold_elements>()
      .decompose<decompose_elements>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}
constexpr OpDraft index_put() {
  OpDraft draft = op("index_put", kComposite);
  draft.summary("x with the elements at given places replaced by values, or added to.")
      .operand("x", "what is written into", kWhole, 1, 1)
      .operand("values", "what is written", kWhole, 1)
      .variadic("indices", "one list per dim of x, with the dims of values", kWhole)
      .result("y", "same type as x")
      .attr(flag("accumulate", "1: values are added, 0: the last one of a place stays", 0))
      .attr_string("mode", "what happens outside of x, as for scatter", "fill",
                   "clip|fill|in_bounds")
      .constraint("C1", "there is one list of indices per dim of x",
                  "index_put(f32[2, 2], f32[1], i64[1])")
      .constraint("C2", "indices are integers", "index_put(f32[2], f32[1], f32[1])")
      .constraint("C3", "indices have the dims of values", "index_put(f32[2], f32[1], i64[2])")
      .example(
          "index_put(f32[2, 2] [[1, 2], [3, 4]], f32[2] [8, 9], i64[2] [0, 1], i64[2] [1, 1]) -> "
          "f32[2, 2] [[1, 8], [3, 9]]")
      .infer<infer_put>()
      .decompose<decompose_put>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(scatter_elements, scatter_elements, index_put)

}  // namespace tenon::ops::scatter_elements_op
