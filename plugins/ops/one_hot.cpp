// one_hot: an index as a row with a single 1.
#include "common.h"

namespace tenon::ops::one_hot {

Status infer(const InferQuery& q) {
  const Dims depth = q.dims("depth");
  TENON_TRY(require_length(q, "C1", "depth", depth.size(), 1));
  if (!is_in(q.dtype("dtype"), kNumber | kPred))
    return q.fail("C2", cat("dtype is ", dtype_name(q.dtype("dtype"))));
  Dims dims = q.dims(0);
  dims.push_back(depth[0]);
  return q.result(q.dtype("dtype"), dims);
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  // Narrow types cannot count all classes, and would meet an index twice.
  const Value given = node.operand(0);
  const bool narrow = dtype_bits(given.dtype()) < 32;
  const Value indices = narrow ? b.convert(given, TENON_I32) : given;
  const Dims shape = node.result().dims();
  const tenon_dtype_t result = node.result().dtype();
  const int64_t last = indices.rank();
  const Value classes =
      b.build("iota", {}, {{"shape", shape}, {"dim", last}, {"dtype", dtype(indices.dtype())}});
  const Value wanted = b.broadcast(indices, shape, range(0, last));
  return b.finish(
      out,
      {b.convert(b.build("compare", {wanted, classes}, {{"direction", TENON_CMP_EQ}}), result)});
}

constexpr OpDraft declare() {
  OpDraft draft = op("one_hot", kComposite);
  draft
      .summary(
          "A new last dim that is 1 at the index and 0 elsewhere; all 0 for an index out of range.")
      .operand("indices", "which entry is 1", kInt)
      .result("y", "dims of indices, then depth")
      .attr_dims("depth", "the extent of the new dim, one entry")
      .required()
      .attr_dtype("dtype", "the element type of the result", TENON_F32)
      .constraint("C1", "depth has one entry", "one_hot(i64[2]) {depth = [2, 3]}")
      .constraint("C2", "dtype is pred, an integer or a float of 16 bits or more",
                  "one_hot(i64[2]) {depth = [3], dtype = f8e5m2}")
      .example(
          "one_hot(i64[3] [2, 0, 9]) {depth = [3]} -> f32[3, 3] [[0, 0, 1], [1, 0, 0], [0, 0, 0]]")
      .infer<infer>()
      .decompose<decompose>()
      .batched({0});
  return draft;
}

TENON_OPS(one_hot, declare)

}  // namespace tenon::ops::one_hot
