// fmax and fmin: maximum and minimum where NaN counts as missing.
#include "common.h"

namespace tenon::ops::fmax {

constexpr OpDraft two(std::string_view name, std::string_view summary, std::string_view negative,
                      std::string_view example) {
  OpDraft draft = op(name, kCompositeElementwise);
  draft.summary(summary)
      .operand("x", "the first operand", kFloat, 1)
      .operand("y", "the second operand, same type as x", kFloat, 1)
      .result("z", "same type as x")
      .constraint("C1", "x and y have equal shapes", negative)
      .example(example)
      .infer<infer_elementwise>()
      .decompose_scalar();
  return draft;
}
constexpr OpDraft fmax() {
  return two("fmax", "The larger one; NaN only where both are.", "fmax(f32[2], f32[3])",
             "fmax(f32[3] [1, nan, 2], f32[3] [nan, nan, 3]) -> f32[3] [1, nan, 3]")
      .scalar(scalar::select(is_nan(arg(0)), arg(1),
                             scalar::select(is_nan(arg(1)), arg(0), max(arg(0), arg(1)))))
      .accuracy(0.5, 0.5);
}
constexpr OpDraft fmin() {
  return two("fmin", "The smaller one; NaN only where both are.", "fmin(f32[2], f32[3])",
             "fmin(f32[3] [1, nan, 2], f32[3] [nan, nan, 3]) -> f32[3] [1, nan, 2]")
      .scalar(scalar::select(is_nan(arg(0)), arg(1),
                             scalar::select(is_nan(arg(1)), arg(0), min(arg(0), arg(1)))))
      .accuracy(0.5, 0.5);
}

TENON_OPS(fmax, fmax, fmin)

}  // namespace tenon::ops::fmax
