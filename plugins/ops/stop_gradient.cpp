// stop_gradient: x, as a constant to derivatives.
#include "common.h"

namespace tenon::ops::stop_gradient_op {

Status decompose_complex(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(out, {node.operand(0)});
}

constexpr OpDraft stop_gradient() {
  OpDraft draft = op("stop_gradient", kCompositeElementwise);
  draft.summary("x itself; its derivative is 0.")
      .operand("x", "the input", kFloat | kComplex)
      .result("y", "same type as x")
      .example("stop_gradient(f32[2] [1, -2]) -> f32[2] [1, -2]")
      .infer<infer_same>()
      .scalar(arg(0))
      .decompose_scalar()
      .decompose_complex<decompose_complex>()
      .partial(0, 0)
      .traits(TENON_TRAIT_IDEMPOTENT | TENON_TRAIT_HOLOMORPHIC)
      .accuracy(0.5, 0.5)
      .alias("detach");
  return draft;
}

TENON_OPS(stop_gradient, stop_gradient)

}  // namespace tenon::ops::stop_gradient_op
