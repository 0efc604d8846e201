// glu and swiglu: one half of a dim, or one operand, gates the other.
#include "compose.h"

namespace tenon::ops::gated {

Status infer_glu(const InferQuery& q) {
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C1", dim, q.rank(0)));
  Dims dims = q.dims(0);
  Dim& halved = dims[static_cast<size_t>(dim)];
  TENON_TRY(q.require("C2", TENON_REL_DIVISIBLE, halved, q.constant(2), "the extent of dim and 2"));
  halved = halved / q.constant(2);
  return q.result(q.dtype(0), dims);
}
Status decompose_glu(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)};
  const int64_t dim = node.i64("dim");
  const Dim half = node.result().dim(static_cast<uint32_t>(dim)), whole = x.dim(dim);
  return b.finish(out, {cut(x, dim, b.dim(0), half) * apply("logistic", cut(x, dim, half, whole))});
}
constexpr OpDraft glu() {
  OpDraft draft = op("glu", kComposite);
  draft.summary("The first half of a dim times logistic of the second half.")
      .operand("x", "the input", kFloat, 0, 1)
      .result("y", "element type of x, dim halved")
      .attr_i64("dim", "the dim that is halved", 0)
      .role(TENON_ROLE_AXIS)
      .batched({0})
      .constraint("C1", "dim is a dim of x", "glu(f32[2]) {dim = 1}")
      .constraint("C2", "the extent of dim is even", "glu(f32[3])")
      .example("glu(f32[2] [4, 0]) -> f32[1] [2]")
      .infer<infer_glu>()
      .decompose<decompose_glu>()
      .cost(TENON_COST_TRANSCENDENTAL)
      .tolerance(4);
  return draft;
}
constexpr OpDraft swiglu() {
  OpDraft draft = op("swiglu", kCompositeElementwise);
  draft.summary("silu(x) y: a gate of a transformer's inner layer.")
      .operand("x", "the first operand", kFloat, 1)
      .operand("y", "the second operand, same type as x", kFloat, 1)
      .result("z", "same type as x")
      .constraint("C1", "x and y have equal shapes", "swiglu(f32[2], f32[3])")
      .example("swiglu(f32[2] [0, 1], f32[2] [5, 2]) -> f32[2] [0, 1.4621172]")
      .infer<infer_elementwise>()
      .scalar(arg(0) * logistic(arg(0)) * arg(1))
      .decompose_scalar()
      .cost(TENON_COST_TRANSCENDENTAL)
      .accuracy(4, 4, TENON_ULP_OF_OPERANDS)
      .tolerance(4);
  return draft;
}

TENON_OPS(gated, glu, swiglu)

}  // namespace tenon::ops::gated
