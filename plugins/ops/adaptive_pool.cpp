// adaptive_pool: divides the spatial dims into a given number of windows and takes the mean or the
// maximum of each.
#include "compose.h"
#include "derivative.h"

namespace tenon::ops::adaptive_pool {

Status infer_adaptive(const InferQuery& q) {
  const size_t rank = q.rank(0);
  TENON_TRY(require_length(q, "C1", "sizes", q.i64s("sizes").size(), rank - 2));
  Dims dims = {q.dim(0, 0), q.dim(0, 1)};
  for (uint32_t i = 2; i < rank; ++i) {
    const int64_t size = q.i64s("sizes")[i - 2];
    if (size < 1 || size > 65536) return q.fail("C2", cat("a size is ", size));
    const auto from = constant_of(q.dim(0, i));
    if (size != 1 && (!from || *from < 1))
      return q.fail("C3", cat("spatial dim ", i - 2, " of x is not a positive constant"));
    dims.push_back(q.constant(size));
  }
  return q.result(q.dtype(0), dims);
}
// Dim by dim: reduces each window by itself, since their lengths differ, then concatenates.
Status decompose_adaptive(Builder& b, const Node& node, tenon_value_t* out) {
  Term x = {b, widen(b, node.operand(0))};
  const bool mean = node.text("kind") == "mean";
  const Axes sizes = node.i64s("sizes");
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const Dim n = x.dim(dim);
    std::vector<Value> parts;
    for (int64_t k = 0; k < sizes[i]; ++k) {
      const bool all = sizes[i] == 1;
      const Dim from = all ? b.dim(0) : b.dim(k * n.constant() / sizes[i]);
      const Dim to = all ? n : b.dim(((k + 1) * n.constant() + sizes[i] - 1) / sizes[i]);
      const Term part = cut(x, dim, from, to);
      const Term one =
          mean ? Term{b, mean_along(b, part, Axes{dim})} : reduced("reduce_max", part, {dim});
      parts.push_back(insert_dim(one, dim));
    }
    x = concat(b, parts, dim);
  }
  return b.finish(out, {b.convert(x, node.result().dtype())});
}

constexpr OpDraft adaptive_pool() {
  OpDraft draft = op("adaptive_pool", kComposite);
  draft.summary("Spatial dims brought to given extents, by the mean or the largest of each part.")
      .doc("Of a dim of n elements, part i of m runs from floor(i n / m) to ceil((i + 1) n / m).")
      .operand("x", "[batch, channels, spatial...]", kFloat, 0, 3)
      .result("y", "element type of x")
      .attr_i64s("sizes", "the spatial dims of the result")
      .required()
      .attr_string("kind", "how a part is summarised", "mean", "mean|max")
      .constraint("C1", "sizes has one entry per spatial dim",
                  "adaptive_pool(f32[1, 1, 4]) {sizes = [2, 2]}")
      .constraint("C2", "sizes are between 1 and 65536",
                  "adaptive_pool(f32[1, 1, 4]) {sizes = [0]}")
      .constraint("C3", "a dim that is cut into several parts is a positive constant",
                  "adaptive_pool(f32[1, 1, n]) {sizes = [2]}")
      .example(
          "adaptive_pool(f32[1, 1, 3] [[[1, 2, 6]]]) {sizes = [2]} -> f32[1, 1, 2] [[[1.5, 4]]]")
      .infer<infer_adaptive>()
      .decompose<decompose_adaptive>()
      .batch<batch_images<1>>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
}

TENON_OPS(adaptive_pool, adaptive_pool)

}  // namespace tenon::ops::adaptive_pool
