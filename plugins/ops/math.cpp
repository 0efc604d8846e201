// Scalar functions that are formulas of primitives: inverse and hyperbolic ones, other bases,
// clamp, floor division. The formulas are chosen to stay accurate near 0 and for large arguments.
#include "common.h"

namespace tenon::ops::math {

using scalar::Expr;
using scalar::select;

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kInvLn2 = 1.44269504088896340736, kInvLn10 = 0.43429448190325182765;

constexpr OpDraft base(std::string_view name, std::string_view summary, const Expr& program,
                       std::string_view example, uint32_t dtypes = kFloat,
                       uint32_t cost = TENON_COST_TRANSCENDENTAL) {
  OpDraft draft = op(name, kCompositeElementwise);
  draft.summary(summary)
      .operand("x", "the input", dtypes)
      .result("y", "same type as x")
      .example(example)
      .infer<infer_same>()
      .scalar(program)
      .decompose_scalar()
      .cost(cost)
      .tolerance(4);
  return draft;
}
constexpr OpDraft tan() {
  return base("tan", "The tangent of an angle in radians.", sin(arg(0)) / cos(arg(0)),
              "tan(f32[2] [0, 1]) -> f32[2] [0, 1.5574077]");
}
constexpr OpDraft asin() {
  return base("asin", "The angle with that sine; NaN outside of [-1, 1].",
              atan2(arg(0), sqrt((1 - arg(0)) * (1 + arg(0)))),
              "asin(f32[2] [0, 1]) -> f32[2] [0, 1.5707964]");
}
constexpr OpDraft acos() {
  return base("acos", "The angle with that cosine; NaN outside of [-1, 1].",
              atan2(sqrt((1 - arg(0)) * (1 + arg(0))), arg(0)),
              "acos(f32[2] [1, 0]) -> f32[2] [0, 1.5707964]");
}
constexpr OpDraft atan() {
  return base("atan", "The angle with that tangent.", atan2(arg(0), 1),
              "atan(f32[2] [0, 1]) -> f32[2] [0, 0.78539819]");
}
// (e + e / (e + 1)) / 2 with e = exp(|x|) - 1 is exact near 0; where e overflows, half of exp(x -
// ln 2) twice is not.
constexpr OpDraft sinh() {
  const Expr e = expm1(abs(arg(0)));
  return base("sinh", "The hyperbolic sine.",
              scalar::sign(arg(0)) *
                  select(abs(arg(0)) < 20, (e + e / (e + 1)) * 0.5, exp(abs(arg(0)) - kLn2)),
              "sinh(f32[2] [0, 1]) -> f32[2] [0, 1.1752012]");
}
constexpr OpDraft cosh() {
  return base("cosh", "The hyperbolic cosine.", exp(abs(arg(0)) - kLn2) + exp(-abs(arg(0)) - kLn2),
              "cosh(f32[2] [0, 1]) -> f32[2] [1, 1.5430807]");
}
// For large |x| the square would overflow; there asinh(x) = log(2 |x|).
constexpr OpDraft asinh() {
  const Expr a = abs(arg(0));
  return base("asinh", "The inverse of sinh.",
              scalar::sign(arg(0)) *
                  select(a > 1e9, log(a) + kLn2, log1p(a + a * a / (1 + sqrt(a * a + 1)))),
              "asinh(f32[2] [0, 1]) -> f32[2] [0, 0.8813736]");
}
constexpr OpDraft acosh() {
  const Expr t = arg(0) - 1;
  return base("acosh", "The inverse of cosh; NaN below 1.",
              select(arg(0) > 1e9, log(arg(0)) + kLn2, log1p(t + sqrt(t * (arg(0) + 1)))),
              "acosh(f32[2] [1, 2]) -> f32[2] [0, 1.316958]");
}
constexpr OpDraft atanh() {
  return base("atanh", "The inverse of tanh; infinite at -1 and 1, NaN beyond.",
              (log1p(arg(0)) - log1p(-arg(0))) * 0.5,
              "atanh(f32[2] [0, 0.5]) -> f32[2] [0, 0.54930615]");
}
constexpr OpDraft exp2() {
  return base("exp2", "2 to the power of x.", exp(arg(0) * kLn2),
              "exp2(f32[2] [0, 3]) -> f32[2] [1, 8]");
}
constexpr OpDraft log2() {
  return base("log2", "The logarithm to base 2.", log(arg(0)) * kInvLn2,
              "log2(f32[2] [1, 8]) -> f32[2] [0, 3]");
}
constexpr OpDraft log10() {
  return base("log10", "The logarithm to base 10.", log(arg(0)) * kInvLn10,
              "log10(f32[2] [1, 1000]) -> f32[2] [0, 3]");
}
constexpr OpDraft square() {
  return base("square", "x times x.", arg(0) * arg(0), "square(i32[2] [3, -4]) -> i32[2] [9, 16]",
              kNumber, TENON_COST_ELEMENTWISE);
}
constexpr OpDraft reciprocal() {
  return base("reciprocal", "1 / x.", 1 / arg(0),
              "reciprocal(f32[2] [2, -4]) -> f32[2] [0.5, -0.25]", kFloat, TENON_COST_ELEMENTWISE);
}
constexpr OpDraft clamp() {
  return base("clamp", "x kept in [min, max]: min(max(x, min), max); NaN stays.",
              min(max(arg(0), attr(0)), attr(1)),
              "clamp(f32[3] [-1, 0.5, 2]) {min = 0.0, max = 1.0} -> f32[3] [0, 0.5, 1]", kNumber,
              TENON_COST_ELEMENTWISE)
      .attr_f64("min", "the lower bound, converted to the type of x",
                -std::numeric_limits<double>::infinity())
      .attr_f64("max", "the upper bound, converted to the type of x",
                std::numeric_limits<double>::infinity());
}

// The rest with the sign of y; the truncating rest is one y off where the signs differ and it is
// not 0.
constexpr Expr floor_rest() {
  const Expr rest = arg(0) % arg(1);
  return select((rest != 0) & ((rest < 0) != (arg(1) < 0)), rest + arg(1), rest);
}
Status infer_pair(const InferQuery& q) {
  return infer_elementwise(q);
}
Status floor_div_value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  const auto y = known(q, 1);
  if (!x || !y || x->values.size() != y->values.size()) return TENON_NOT_FOUND;
  std::vector<Dim> values;
  for (size_t i = 0; i < x->values.size(); ++i) {
    const auto divisor = constant_of(y->values[i]);
    if (!divisor || *divisor <= 0) return TENON_NOT_FOUND;
    values.push_back(view(q.raw().op->name) == "floor_div" ? x->values[i] / y->values[i]
                                                           : x->values[i] % y->values[i]);
  }
  return answer_in(q.dtype(0), values, out);
}
constexpr OpDraft pair(std::string_view name, std::string_view summary, const Expr& program,
                       std::string_view example, std::string_view negative) {
  OpDraft draft = op(name, kCompositeElementwise);
  draft.summary(summary)
      .operand("x", "the dividend", kNumber, 1)
      .operand("y", "the divisor, same type as x", kNumber, 1)
      .result("z", "same type as x")
      .constraint("C1", "x and y have equal shapes", negative)
      .example(example)
      .infer<infer_pair>()
      .value_of<floor_div_value_of>()
      .scalar(program)
      .decompose_scalar();
  return draft;
}
// For floats (x - rest) / y is whole but for rounding; FLOOR is not an integer instruction, so the
// rest is used for both.
constexpr OpDraft floor_div() {
  return pair("floor_div", "x / y rounded to minus infinity.", (arg(0) - floor_rest()) / arg(1),
              "floor_div(i32[4] [7, -7, 7, -7], i32[4] [2, 2, -2, -2]) -> i32[4] [3, -4, -4, 3]",
              "floor_div(f32[2], f32[3])");
}
constexpr OpDraft floor_mod() {
  return pair("floor_mod", "The rest of floor_div, with the sign of y.", floor_rest(),
              "floor_mod(i32[4] [7, -7, 7, -7], i32[4] [3, 3, -3, -3]) -> i32[4] [1, 2, -2, -1]",
              "floor_mod(f32[2], f32[3])");
}

TENON_OPS(math, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh, exp2, log2, log10, square,
          reciprocal, clamp, floor_div, floor_mod)

}  // namespace tenon::ops::math
