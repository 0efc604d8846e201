// matmul_nbits: products with weights of 4 or 8 bits, scaled in groups.
#include "compose.h"

namespace tenon::ops::matmul_nbits {

Status infer_nbits(const InferQuery& q) {
  const int64_t bits = q.i64("bits"), group = q.i64("group");
  if (bits != 4 && bits != 8) return q.fail("C1", cat("bits is ", bits));
  if (group < 1 || group > 65536 || group % 2 != 0) return q.fail("C1", cat("group is ", group));
  const Dim k = q.dim(0, q.rank(0) - 1), n = q.dim(1, 0);
  TENON_TRY(q.require("C2", TENON_REL_DIVISIBLE, k, q.constant(group), "features of x and group"));
  TENON_TRY(q.require_equal("C2", q.dim(1, 1) * q.constant(8 / bits), k,
                            "packed weights of a row and features of x"));
  for (uint32_t i = 2; i < 4; ++i) {
    if (!q.has(i)) continue;
    TENON_TRY(q.require_equal("C3", q.dim(i, 0), n, "rows of scales or zeros and of w"));
    TENON_TRY(q.require_equal("C3", q.dim(i, 1), k / q.constant(group),
                              "groups of scales or zeros and of w"));
  }
  Dims dims = q.dims(0);
  dims.back() = n;
  return q.result(q.dtype(0), dims);
}
Status decompose_nbits(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)};
  Term w = {b, node.operand(1)};
  const Value given = node.operand(3);
  const int64_t bits = node.i64("bits");
  const Dim group = b.dim(node.i64("group"));
  const Dim n = w.dim(0), k = x.dim(x.rank() - 1), groups = k / group;
  if (bits == 4) {
    const Dims pair = {n, w.dim(1), b.dim(1)};
    const Term low = w & w.same(15), high = apply("shr_logical", w, w.same(4));
    w = concat(b, {reshape(low, pair), reshape(high, pair)}, 2);
  }
  w = as(reshape(w, {n, groups, group}), x.dtype());
  const auto per_group = [&](Value v) {
    return broadcast(as({b, v}, x.dtype()), w.dims(), {0, 1});
  };
  w = given ? w - per_group(given) : w - (bits == 4 ? 8.0 : 128.0);
  w = w * per_group(node.operand(2));
  return b.finish(out, {b.build("linear", {x.v, reshape(w, {n, k}).v}, {{"transpose_w", 1}})});
}

constexpr OpDraft matmul_nbits() {
  OpDraft draft = op("matmul_nbits", kComposite);
  draft.summary("x times a transposed matrix of 4 or 8 bits, with a scale per group of weights.")
      .doc(
          "A weight is (its bits - zero) scale, with the scale and zero of its row and group. Of "
          "4 bits, two weights share a byte, the first in its low half.")
      .operand("x", "[..., features]", kFloat, 1, 1)
      .operand("w", "[rows, features bits / 8]", dtype_bit(TENON_U8), 0, 2, 2)
      .operand("scales", "[rows, features / group]", kFloat, 0, 2, 2)
      .optional("zeros", "[rows, features / group]; absent: 8 or 128", dtype_bit(TENON_U8), 0, 2, 2)
      .result("y", "[..., rows]")
      .attr_i64("bits", "4 or 8", 4)
      .attr_i64("group", "how many features share a scale, an even number", 32)
      .constraint("C1", "bits is 4 or 8, group positive and even",
                  "matmul_nbits(f32[1, 4], u8[2, 2], f32[2, 1]) {group = 4, bits = 3}")
      .constraint("C2", "groups divide the features, and a row of w holds them all",
                  "matmul_nbits(f32[1, 4], u8[2, 3], f32[2, 1]) {group = 4}")
      .constraint("C3", "scales and zeros have one entry per row and group",
                  "matmul_nbits(f32[1, 4], u8[2, 2], f32[2, 2]) {group = 4}")
      .example(
          "matmul_nbits(f32[1, 2] [[1, 10]], u8[1, 1] [[169]], f32[1, 1] [[0.5]]) {group = 2} -> "
          "f32[1, 1] [[10.5]]")
      .infer<infer_nbits>()
      .decompose<decompose_nbits>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(8);
  return draft;
}

TENON_OPS(matmul_nbits, matmul_nbits)

}  // namespace tenon::ops::matmul_nbits
