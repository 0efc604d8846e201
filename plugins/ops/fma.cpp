// fma: a product and a sum, rounded once or twice.
#include "common.h"

namespace tenon::ops::fma {

constexpr OpDraft fma() {
  OpDraft draft = op("fma", kCompositeElementwise);
  draft.summary("x y + z.")
      .doc("An implementation may round once or twice.")
      .operand("x", "a factor", kNumber, 1)
      .operand("y", "a factor, same type as x", kNumber, 1)
      .operand("z", "what is added, same type as x", kNumber, 1)
      .result("r", "same type as x")
      .constraint("C1", "x, y and z have equal shapes", "fma(f32[2], f32[2], f32[3])")
      .example("fma(f32[2] [2, 3], f32[2] [4, 5], f32[2] [1, -1]) -> f32[2] [9, 14]")
      .infer<infer_elementwise>()
      .scalar(arg(0) * arg(1) + arg(2))
      .decompose_scalar()
      .tolerance(2);
  return draft;
}

TENON_OPS(fma, fma)

}  // namespace tenon::ops::fma
