// stop_gradient: x, as a constant to derivatives.
#include "common.h"

namespace tenon::ops::stop_gradient_op {

constexpr OpDraft stop_gradient() {
  OpDraft draft = op("stop_gradient", kCompositeElementwise);
  draft.summary("x itself; its derivative is 0.")
      .operand("x", "the input", kFloat)
      .result("y", "same type as x")
      .example("stop_gradient(f32[2] [1, -2]) -> f32[2] [1, -2]")
      .infer<infer_same>()
      .scalar(arg(0))
      .decompose_scalar()
      .partial(0, 0)
      .traits(TENON_TRAIT_IDEMPOTENT)
      .accuracy(0.5, 0.5)
      .alias("detach");
  return draft;
}

TENON_OPS(stop_gradient, stop_gradient)

}  // namespace tenon::ops::stop_gradient_op
