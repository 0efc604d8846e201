// hypot: the length of the vector (x, y), without intermediate overflow.
#include "common.h"

namespace tenon::ops::hypot {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The larger side is factored out of the root. An infinite side wins over NaN, as in C.
constexpr scalar::Expr length() {
  const scalar::Expr a = abs(arg(0)), b = abs(arg(1));
  const scalar::Expr large = max(a, b), ratio = min(a, b) / large;
  const scalar::Expr finite = scalar::select(large == 0, large, large * sqrt(1 + ratio * ratio));
  return scalar::select((a == kInfinity) | (b == kInfinity), kInfinity, finite);
}

// The side over the length; 0 where both sides are 0.
constexpr scalar::Expr slope(uint32_t side) {
  const scalar::Expr length = scalar::result();
  return arg(side) / scalar::select(length == 0, 1, length);
}

constexpr OpDraft declare() {
  OpDraft draft = op("hypot", kCompositeElementwise);
  draft.summary("sqrt(x x + y y) without overflow or underflow on the way.")
      .operand("x", "one side", kFloat, 1)
      .operand("y", "the other side, same type as x", kFloat, 1)
      .result("z", "same type as x")
      .constraint("C1", "x and y have equal shapes", "hypot(f32[2], f32[3])")
      .example("hypot(f32[2] [3, 1e30], f32[2] [4, 0]) -> f32[2] [5, 1e30]")
      .infer<infer_elementwise>()
      .scalar(length())
      .decompose_scalar()
      .accuracy(2.5, 2.5)
      .partial(0, slope(0))
      .partial(1, slope(1))
      .tolerance(2);
  return draft;
}

TENON_OPS(hypot, declare)

}  // namespace tenon::ops::hypot
