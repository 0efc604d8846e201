// diagonal, tril_triu, roll: movement and masking by index alone.
#include "compose.h"
#include "flag.h"

namespace tenon::ops::diagonal_op {

Status infer_diagonal(const InferQuery& q) {
  const int64_t a = q.i64("dim1"), c = q.i64("dim2"), offset = q.i64("offset");
  const int64_t both[] = {a, c};
  TENON_TRY(q.require_axes("C1", both, q.rank(0)));
  if (offset > kBound || offset < -kBound) return q.fail("C2", cat("offset is ", offset));
  const Dim rows = q.dim(0, static_cast<uint32_t>(a)), columns = q.dim(0, static_cast<uint32_t>(c));
  const Dim skip = q.constant(std::abs(offset));
  Dims dims = without(q.dims(0), both);
  dims.push_back(offset >= 0 ? min(rows, max(columns, skip) - skip)
                             : min(max(rows, skip) - skip, columns));
  return q.result(q.dtype(0), dims);
}
Status decompose_diagonal(Builder& b, const Node& node, tenon_value_t* out) {
  if (node.result().dims().back().is(0))  // nothing to gather from
    return b.finish(out, {b.full(node.result().dtype(), node.result().dims(), 0)});
  const Term x = {b, node.operand(0)};
  const int64_t a = node.i64("dim1"), c = node.i64("dim2"), offset = node.i64("offset");
  const Dims result = node.result().dims();
  const Term at = iota(b, {result.back()}, 0);
  const std::vector<Value> pair = {
      insert_dim(offset < 0 ? at - static_cast<double>(offset) : at, 1),
      insert_dim(offset > 0 ? at + static_cast<double>(offset) : at, 1)};
  Dims sizes = x.dims();
  sizes[static_cast<size_t>(a)] = sizes[static_cast<size_t>(c)] = b.dim(1);
  Axes collapsed = {a, c}, map = {a, c};
  std::sort(collapsed.begin(), collapsed.end());
  return b.finish(out, {b.build("gather", {x.v, concat(b, pair, 1).v},
                                {{"sizes", sizes},
                                 {"offset_dims", range(0, x.rank() - 2)},
                                 {"collapsed_dims", collapsed},
                                 {"index_map", map},
                                 {"index_vector_dim", 1}})});
}

Status infer_triangle(const InferQuery& q) {
  const int64_t d = q.i64("diagonal");
  if (d > kBound || d < -kBound) return q.fail("C1", cat("diagonal is ", d));
  return q.result(q.dtype(0), q.dims(0));
}
Status decompose_triangle(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)};
  const int64_t rank = x.rank();
  const Dims dims = x.dims(), grid = {dims[dims.size() - 2], dims.back()};
  const Term edge = iota(b, grid, 0) + static_cast<double>(node.i64("diagonal"));
  const Term keep =
      compare(iota(b, grid, 1), node.i64("upper") != 0 ? TENON_CMP_GE : TENON_CMP_LE, edge);
  return b.finish(out, {where(broadcast(keep, dims, {rank - 2, rank - 1}), x, 0)});
}

Status infer_roll(const InferQuery& q) {
  TENON_TRY(q.require_axes("C1", q.i64s("dims"), q.rank(0)));
  TENON_TRY(require_length(q, "C2", "shifts", q.i64s("shifts").size(), q.i64s("dims").size()));
  for (int64_t s : q.i64s("shifts")) {
    if (s > kBound || s < -kBound) return q.fail("C3", cat("a shift is ", s));
  }
  return q.result(q.dtype(0), q.dims(0));
}
// A constant dim is cut in two; a symbolic dim is indexed modulo its extent.
Status decompose_roll(Builder& b, const Node& node, tenon_value_t* out) {
  Term x = {b, node.operand(0)};
  const Axes dims = node.i64s("dims"), shifts = node.i64s("shifts");
  for (size_t i = 0; i < dims.size(); ++i) {
    const Dim extent_ = x.dim(dims[i]);
    if (!extent_.is_constant()) {
      const Term from = iota(b, {extent_}, 0) - static_cast<double>(shifts[i]);
      x = take(x, apply("floor_mod", from, extent(b, extent_)), dims[i]);
      continue;
    }
    const int64_t n = extent_.constant();
    const int64_t cut_at = n == 0 ? 0 : ((-shifts[i]) % n + n) % n;
    if (cut_at == 0) continue;
    const std::vector<Value> parts = {cut(x, dims[i], b.dim(cut_at), extent_),
                                      cut(x, dims[i], b.dim(0), b.dim(cut_at))};
    x = concat(b, parts, dims[i]);
  }
  return b.finish(out, {x});
}

constexpr OpDraft diagonal() {
  OpDraft draft = op("diagonal", kComposite);
  draft.summary("The diagonal of two dims of x, as a new last dim.")
      .operand("x", "the input", kWhole, 0, 2)
      .result("y", "the other dims of x, then the diagonal")
      .attr_i64("offset", "which diagonal: element i is at (i, i + offset)", 0)
      .attr_i64("dim1", "the dim of rows", 0)
      .role(TENON_ROLE_AXIS)
      .attr_i64("dim2", "the dim of columns", 1)
      .role(TENON_ROLE_AXIS)
      .batched({0})
      .constraint("C1", "dim1 and dim2 are different dims of x", "diagonal(f32[2, 2]) {dim2 = 0}")
      .constraint("C2", "offset is below 2^31", "diagonal(f32[2, 2]) {offset = 9000000000}")
      .example("diagonal(f32[2, 3] [[1, 2, 3], [4, 5, 6]]) {offset = 1} -> f32[2] [2, 6]")
      .infer<infer_diagonal>()
      .decompose<decompose_diagonal>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}
constexpr OpDraft tril_triu() {
  OpDraft draft = op("tril_triu", kComposite);
  draft.summary("x with 0 above a diagonal of its last two dims, or below it.")
      .operand("x", "the input", kNumber | kPred | kComplex, 0, 2)
      .result("y", "same type as x")
      .attr(flag("upper", "1: what is below becomes 0, 0: what is above", 0))
      .attr_i64("diagonal", "which diagonal: column minus row", 0)
      .constraint("C1", "diagonal is below 2^31", "tril_triu(f32[2, 2]) {diagonal = 9000000000}")
      .example("tril_triu(f32[2, 2] [[1, 2], [3, 4]]) -> f32[2, 2] [[1, 0], [3, 4]]")
      .example(
          "tril_triu(f32[2, 2] [[1, 2], [3, 4]]) {upper = 1, diagonal = 1} -> f32[2, 2] [[0, 2], "
          "[0, 0]]")
      .infer<infer_triangle>()
      .decompose<decompose_triangle>()
      .batched({0})
      .cost(TENON_COST_ELEMENTWISE);
  return draft;
}
constexpr OpDraft roll() {
  OpDraft draft = op("roll", kComposite);
  draft.summary("x moved along some dims, with what leaves at the end coming in at the front.")
      .operand("x", "the input", kWhole)
      .result("y", "same type as x")
      .attr_i64s("dims", "the dims that move")
      .role(TENON_ROLE_AXES)
      .batched({0})
      .attr_i64s("shifts", "how far, per dim; may be negative")
      .constraint("C1", "dims are distinct dims of x", "roll(f32[2]) {dims = [1], shifts = [1]}")
      .constraint("C2", "shifts has one entry per dim",
                  "roll(f32[2]) {dims = [0], shifts = [1, 2]}")
      .constraint("C3", "shifts are below 2^31", "roll(f32[2]) {dims = [0], shifts = [9000000000]}")
      .example("roll(f32[3] [1, 2, 3]) {dims = [0], shifts = [1]} -> f32[3] [3, 1, 2]")
      .infer<infer_roll>()
      .decompose<decompose_roll>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(diagonal, diagonal, tril_triu, roll)

}  // namespace tenon::ops::diagonal_op
