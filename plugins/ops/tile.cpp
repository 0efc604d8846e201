// tile and split: composites of data movement.
#include "common.h"

namespace tenon::ops::tile_op {

Status infer_tile(const InferQuery& q) {
  const Dims repeats = q.dims("repeats");
  TENON_TRY(require_length(q, "C1", "repeats", repeats.size(), q.rank(0)));
  Dims dims;
  for (uint32_t i = 0; i < repeats.size(); ++i) dims.push_back(q.dim(0, i) * repeats[i]);
  return q.result(q.dtype(0), dims);
}
// Inserts a dim for the repeats before each dim; together they become the dim of the result.
Status decompose_tile(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0);
  const Dims repeats = node.dims("repeats"), result = node.result().dims();
  Dims pairs;
  Axes places;
  for (uint32_t i = 0; i < repeats.size(); ++i) {
    pairs.push_back(repeats[i]);
    places.push_back(static_cast<int64_t>(pairs.size()));
    pairs.push_back(x.dim(i));
  }
  return b.finish(out, {b.build("reshape", {b.broadcast(x, pairs, places)}, {{"shape", result}})});
}

Status infer_split(const InferQuery& q) {
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C1", dim, q.rank(0)));
  const Dims sizes = q.dims("sizes");
  Dim total = q.constant(0);
  for (Dim d : sizes) total = total + d;
  TENON_TRY(q.require_equal("C2", total, q.dim(0, static_cast<uint32_t>(dim)),
                            "the sum of sizes and the extent of dim"));
  for (Dim d : sizes) {
    Dims dims = q.dims(0);
    dims[static_cast<size_t>(dim)] = d;
    TENON_TRY(q.result(q.dtype(0), dims));
  }
  return {};
}
Status decompose_split(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0);
  const auto dim = static_cast<size_t>(node.i64("dim"));
  std::vector<Value> parts;
  Dims start(x.rank(), b.dim(0)), limit = x.dims();
  for (Dim size : node.dims("sizes")) {
    limit[dim] = start[dim] + size;
    parts.push_back(b.build("slice", {x}, {{"start", start}, {"limit", limit}}));
    start[dim] = limit[dim];
  }
  return b.finish(out, parts);
}

constexpr OpDraft tile() {
  OpDraft draft = op("tile", kComposite);
  draft.summary("x repeated as a whole along every dim.")
      .operand("x", "the input", kWhole)
      .result("y", "every dim times its repeats")
      .attr_dims("repeats", "how often, per dim")
      .role(TENON_ROLE_PER_DIM, 1)
      .batched({0})
      .constraint("C1", "repeats has one entry per dim of x", "tile(f32[2]) {repeats = [2, 2]}")
      .example(
          "tile(f32[1, 2] [[1, 2]]) {repeats = [2, 2]} -> f32[2, 4] [[1, 2, 1, 2], [1, 2, 1, 2]]")
      .infer<infer_tile>()
      .decompose<decompose_tile>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}
constexpr OpDraft split() {
  OpDraft draft = op("split", kComposite);
  draft.summary("x cut into parts along a dim, one result per part.")
      .operand("x", "the input", kWhole, 0, 1)
      .result("parts", "as many as there are sizes")
      .attr_i64("dim", "the dim that is cut", 0)
      .role(TENON_ROLE_AXIS)
      .batched({0})
      .attr_dims("sizes", "the extents of the parts")
      .constraint("C1", "dim is a dim of x", "split(f32[4]) {dim = 1, sizes = [4]}")
      .constraint("C2", "sizes add up to the extent", "split(f32[4]) {sizes = [1, 2]}")
      .example("split(f32[3] [1, 2, 3]) {sizes = [1, 2]} -> f32[1] [1], f32[2] [2, 3]")
      .infer<infer_split>()
      .decompose<decompose_split>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(tile, tile, split)

}  // namespace tenon::ops::tile_op
