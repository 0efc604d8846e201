// Scalar functions that are formulas of primitives: inverse and hyperbolic functions, other bases,
// the cube root, clamp, floor division. The formulas are accurate near 0 and for large arguments.
#include "complex_math.h"

namespace tenon::ops::math {

using scalar::Expr;
using scalar::select;

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kInvLn2 = 1.44269504088896340736, kInvLn10 = 0.43429448190325182765;

constexpr OpDraft base(std::string_view name, std::string_view summary, const Expr& program,
                       std::string_view example, tenon_dtypes_t dtypes = kFloat,
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

// ---- Derivatives that do not follow from the programs: at points where a formula divides by 0,
// takes the sign of 0 or overflows, or where it loses digits ----

constexpr Expr cosh_of(const Expr& x) {
  return (exp(x * 0.5) * 0.5) * exp(x * 0.5) + (exp(x * -0.5) * 0.5) * exp(x * -0.5);
}
// 2 sinh(x / 2) cosh(x / 2). The terms of the first factor have different signs.
constexpr Expr sinh_of(const Expr& x) {
  const Expr half = x * 0.5;
  return ((expm1(half) - expm1(-half)) * 0.5) * (exp(half) + exp(-half));
}
// 1 / sqrt(1 - x x)
constexpr Expr asin_slope() {
  return rsqrt(1 - arg(0)) * rsqrt(1 + arg(0));
}
// 1 / sqrt(1 + x x). Where the square could overflow it is 1 / |x|.
constexpr Expr asinh_slope() {
  const Expr a = abs(arg(0));
  return select(a > 1e9, 1 / max(a, 1e9), rsqrt(1 + arg(0) * arg(0)));
}

// Adds the complex types. The partial derivatives hold for them, or `Jvp` is their rule.
template <Complex (*Function)(const Complex&), JvpFunction Jvp = nullptr>
constexpr OpDraft with_complex(OpDraft draft) {
  draft.operands[0].dtypes |= kComplex;
  draft.decompose_complex<&decompose_unary<Function>>();
  if constexpr (Jvp == nullptr) {
    draft.traits(TENON_TRAIT_HOLOMORPHIC);
  } else {
    draft.jvp<Jvp>();
  }
  return draft;
}
constexpr OpDraft tan() {
  return with_complex<complex_tan>(base("tan", "The tangent of an angle in radians.",
                                        sin(arg(0)) / cos(arg(0)),
                                        "tan(f32[2] [0, 1]) -> f32[2] [0, 1.5574077]"))
      .accuracy(3, 3)
      .partial(0, 1 + scalar::result() * scalar::result());
}
constexpr OpDraft asin() {
  return with_complex<complex_asin>(base("asin",
                                         "The angle with that sine; NaN outside of [-1, 1].",
                                         atan2(arg(0), sqrt((1 - arg(0)) * (1 + arg(0)))),
                                         "asin(f32[2] [0, 1]) -> f32[2] [0, 1.5707964]"))
      .accuracy(3.5, 2)
      .partial(0, asin_slope());
}
constexpr OpDraft acos() {
  return with_complex<complex_acos>(base("acos",
                                         "The angle with that cosine; NaN outside of [-1, 1].",
                                         atan2(sqrt((1 - arg(0)) * (1 + arg(0))), arg(0)),
                                         "acos(f32[2] [1, 0]) -> f32[2] [0, 1.5707964]"))
      .accuracy(3.5, 2)
      .partial(0, -asin_slope());
}
constexpr OpDraft atan() {
  return with_complex<complex_atan, jvp_complex_atan>(
             base("atan", "The angle with that tangent.", atan2(arg(0), 1),
                  "atan(f32[2] [0, 1]) -> f32[2] [0, 0.78539819]"))
      .accuracy(3, 1.5)
      .partial(0, 1 / (1 + arg(0) * arg(0)));
}
// With e = exp(|x|) - 1, (e + e / (e + 1)) / 2 is accurate near 0. For larger x, h h / 2 with h =
// exp(|x| / 2) has an exact argument and overflows no sooner than the result.
constexpr OpDraft sinh() {
  const Expr a = abs(arg(0)), e = expm1(a), h = exp(a * 0.5);
  return with_complex<complex_sinh>(
             base("sinh", "The hyperbolic sine.",
                  scalar::sign(arg(0)) * select(a < 20, (e + e / (e + 1)) * 0.5, (h * 0.5) * h),
                  "sinh(f32[2] [0, 1]) -> f32[2] [0, 1.1752012]"))
      .accuracy(3.5, 4)
      .partial(0, cosh_of(arg(0)));
}
constexpr OpDraft cosh() {
  const Expr h = exp(abs(arg(0)) * 0.5), r = 1 / h;
  return with_complex<complex_cosh>(base("cosh", "The hyperbolic cosine.",
                                         (h * 0.5) * h + (r * 0.5) * r,
                                         "cosh(f32[2] [0, 1]) -> f32[2] [1, 1.5430807]"))
      .accuracy(3.5, 4)
      .partial(0, sinh_of(arg(0)));
}
// For large |x| the square would overflow; there asinh(x) = log(2 |x|).
constexpr OpDraft asinh() {
  const Expr a = abs(arg(0));
  return with_complex<complex_asinh, jvp_complex_asinh>(
             base("asinh", "The inverse of sinh.",
                  scalar::sign(arg(0)) *
                      select(a > 1e9, log(a) + kLn2, log1p(a + a * a / (1 + sqrt(a * a + 1)))),
                  "asinh(f32[2] [0, 1]) -> f32[2] [0, 0.8813736]"))
      .accuracy(3.5, 3)
      .partial(0, asinh_slope());
}
constexpr OpDraft acosh() {
  // Below -1 the product of the two factors is positive again, but the root of a negative t is NaN.
  const Expr t = arg(0) - 1, square = select(t < 0, t, t * (arg(0) + 1));
  return with_complex<complex_acosh>(
             base("acosh", "The inverse of cosh; NaN below 1.",
                  select(arg(0) > 1e9, log(arg(0)) + kLn2, log1p(t + sqrt(square))),
                  "acosh(f32[2] [1, 2]) -> f32[2] [0, 1.316958]"))
      .accuracy(3.5, 4)
      .partial(0, rsqrt(arg(0) - 1) * rsqrt(arg(0) + 1));
}
constexpr OpDraft atanh() {
  return with_complex<complex_atanh>(base("atanh",
                                          "The inverse of tanh; infinite at -1 and 1, NaN beyond.",
                                          (log1p(arg(0)) - log1p(-arg(0))) * 0.5,
                                          "atanh(f32[2] [0, 0.5]) -> f32[2] [0, 0.54930615]"))
      .accuracy(3, 3)
      .partial(0, 1 / (1 - arg(0)) / (1 + arg(0)));
}
// Uses pow: rounding x ln 2 would cost up to 60 units in the last place of the result.
constexpr OpDraft exp2() {
  return with_complex<complex_exp2>(base("exp2", "2 to the power of x.", pow(2, arg(0)),
                                         "exp2(f32[2] [0, 3]) -> f32[2] [1, 8]"))
      .accuracy(1, 3)
      .partial(0, scalar::result() * kLn2);
}
constexpr OpDraft log2() {
  return with_complex<complex_log2>(base("log2", "The logarithm to base 2.", log(arg(0)) * kInvLn2,
                                         "log2(f32[2] [1, 8]) -> f32[2] [0, 3]"))
      .accuracy(2.5, 2.5);
}
constexpr OpDraft log10() {
  return with_complex<complex_log10>(base("log10", "The logarithm to base 10.",
                                          log(arg(0)) * kInvLn10,
                                          "log10(f32[2] [1, 1000]) -> f32[2] [0, 3]"))
      .accuracy(3, 3);
}
// pow, with one Newton step for the last bits. The step uses a / (y y) rather than y y y, because
// the cube of the root of a very large or tiny number would leave the normal range.
constexpr Expr cube_root() {
  const Expr x = arg(0), a = abs(x);
  const Expr y = pow(a, 1.0 / 3.0);
  const Expr better = y - (y - a / (y * y)) * (1.0 / 3.0);
  const Expr plain = select((a == 0) | (a == std::numeric_limits<double>::infinity()), a, better);
  return select(x < 0, -plain, select(a == 0, x, plain));
}
constexpr OpDraft cbrt() {
  return base("cbrt", "The cube root, also of negative numbers.", cube_root(),
              "cbrt(f32[3] [-8, 0, 27]) -> f32[3] [-2, 0, 3]")
      .accuracy(1, 1)
      .partial(0, (1.0 / 3) / (scalar::result() * scalar::result()));
}
constexpr OpDraft square() {
  return with_complex<complex_square>(base("square", "x times x.", arg(0) * arg(0),
                                           "square(i32[2] [3, -4]) -> i32[2] [9, 16]", kNumber,
                                           TENON_COST_ELEMENTWISE))
      .accuracy(0.5, 0.5);
}
constexpr OpDraft reciprocal() {
  return with_complex<complex_reciprocal>(base("reciprocal", "1 / x.", 1 / arg(0),
                                               "reciprocal(f32[2] [2, -4]) -> f32[2] [0.5, -0.25]",
                                               kFloat, TENON_COST_ELEMENTWISE))
      .accuracy(0.5, 0.5);
}
constexpr OpDraft clamp() {
  return base("clamp", "x kept in [min, max]: min(max(x, min), max); NaN stays.",
              min(max(arg(0), attr(0)), attr(1)),
              "clamp(f32[3] [-1, 0.5, 2]) {min = 0.0, max = 1.0} -> f32[3] [0, 0.5, 1]", kNumber,
              TENON_COST_ELEMENTWISE)
      .attr_f64("min", "the lower bound, converted to the type of x",
                -std::numeric_limits<double>::infinity())
      .attr_f64("max", "the upper bound, converted to the type of x",
                std::numeric_limits<double>::infinity())
      .accuracy(0.5, 0.5)
      .partial(0, select((arg(0) >= attr(0)) & (arg(0) <= attr(1)), 1, 0));
}

// Whether the truncated quotient of x and y, which leaves this remainder, is one above the floor.
constexpr Expr is_above(const Expr& rest) {
  return (rest != 0) & ((rest < 0) != (arg(1) < 0));
}
// The remainder with the sign of y, also where it is 0.
constexpr Expr floor_rest() {
  const Expr rest = arg(0) % arg(1);
  return select(is_above(rest), rest + arg(1),
                select(rest == 0, select(arg(1) < 0, -0.0, 0), rest));
}
// x minus its truncated remainder is a multiple of y, and no integer type is too small for it; for
// floats the quotient is a whole number up to rounding. A quotient of 0 has the sign of x / y.
// Division by 0 gives what `div` gives.
constexpr Expr floor_quotient() {
  const Expr rest = arg(0) % arg(1), whole = scalar::round_even((arg(0) - rest) / arg(1));
  const Expr down = select(is_above(rest), whole - 1, whole);
  const Expr quotient = arg(0) / arg(1);
  return select(arg(1) == 0, quotient, select(down == 0, quotient * 0, down));
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
constexpr OpDraft floor_div() {
  return pair("floor_div", "x / y rounded to minus infinity; by 0 as `div`.", floor_quotient(),
              "floor_div(i32[4] [7, -7, 7, -7], i32[4] [2, 2, -2, -2]) -> i32[4] [3, -4, -4, 3]",
              "floor_div(f32[2], f32[3])")
      .example("floor_div(i8[2] [-128, 127], i8[2] [127, -2]) -> i8[2] [-2, -64]")
      .accuracy(2, 2)
      .partial(0, 0)
      .partial(1, 0);
}
constexpr OpDraft floor_mod() {
  return pair("floor_mod", "The rest of floor_div, with the sign of y; x mod 0 = x for integers.",
              floor_rest(),
              "floor_mod(i32[4] [7, -7, 7, -7], i32[4] [3, 3, -3, -3]) -> i32[4] [1, 2, -2, -1]",
              "floor_mod(f32[2], f32[3])")
      .accuracy(0.5, 0.5)
      .partial(0, 1)
      .partial(1, scalar::round_even((scalar::result() - arg(0)) / arg(1)));
}

TENON_OPS(math, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh, exp2, log2, log10, cbrt,
          square, reciprocal, clamp, floor_div, floor_mod)

}  // namespace tenon::ops::math
