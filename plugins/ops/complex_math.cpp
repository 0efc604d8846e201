// The formulas of complex_math.h; the ops conj and angle.
//
// Special cases (zeros with signs, infinities, NaN) are those of C99, Annex G, which the array API
// standard repeats; products and quotients are formulas of their parts, as in NumPy. Where a
// formula would overflow on the way to a finite result, or cancel, the comment says what is done
// about it. Trigonometric functions are hyperbolic ones of iz, with the same special cases.
#include "complex_math.h"

#include <numbers>

namespace tenon::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLn2 = std::numbers::ln2, kPi = std::numbers::pi;

// ---- Real helpers ----

Term trig(std::string_view op, Term x) {
  return apply(op, x);
}
Term is(Term x, double number) {
  return compare(x, TENON_CMP_EQ, number);
}
Term is_inf(Term x) {
  return is(abs(x), kInfinity);
}
Term is_finite(Term x) {
  return compare(abs(x), TENON_CMP_LT, kInfinity);
}
Term any_inf(const Complex& z) {
  return is_inf(z.re) | is_inf(z.im);
}
// Whether the sign bit is set, also of -0 and NaN.
Term is_negative(Term x) {
  const tenon_dtype_t bits = x.dtype() == TENON_F32 ? TENON_I32 : TENON_I64;
  const Term pattern = {*x.b, x.b->build("bitcast", {x.v}, {{"dtype", dtype(bits)}})};
  return compare(pattern, TENON_CMP_LT, 0);
}
Term with_sign(Term magnitude, Term sign) {
  const Term positive = abs(magnitude);
  return where(is_negative(sign), -positive, positive);
}
Term with_sign(double magnitude, Term sign) {
  return where(is_negative(sign), sign.same(-magnitude), sign.same(magnitude));
}

// Bounds that depend on the width of the parts.
struct Bounds {
  double exp_max;     // exp of this is finite, and e times more as well
  double huge, tiny;  // beyond these, squares leave the range
  double up;          // brings tiny numbers into the middle of the range; its root is exact
  double large;       // 1 + x x is x x
  double near_1;      // 2 - x is 2, and x x is in range
};
Bounds bounds_of(Term x) {
  if (x.dtype() == TENON_F32) return {80, 0x1p126, 0x1p-100, 0x1p48, 0x1p24, 0x1p-48};
  return {700, 0x1p1022, 0x1p-968, 0x1p108, 0x1p53, 0x1p-450};
}

// exp(x) scale y without overflow while the product is finite: the part of x beyond exp_max is
// split off.
struct Exponential {
  Term start, factor;
  Term times(Term y) const { return start * y * factor; }
};
Exponential exponential(Term x, double scale = 1) {
  const double limit = bounds_of(x).exp_max;
  const Term beyond = compare(x, TENON_CMP_GT, limit);
  return {exp(where(beyond, x - limit, x)) * scale,
          where(beyond, x.same(std::exp(limit)), x.same(1))};
}

// log |z|. Near the unit circle from |z|^2 - 1, elsewhere from the larger side and the ratio of the
// two, so that squares neither overflow nor vanish.
Term log_magnitude(const Complex& z) {
  const Term x = abs(z.re), y = abs(z.im);
  const Term large = max(x, y), small = min(x, y);
  const Term ratio = where(is(large, 0), 0.0, small / large);
  const Term far = log(large) + trig("log1p", ratio * ratio) * 0.5;
  const Term near = trig("log1p", (large - 1) * (large + 1) + small * small) * 0.5;
  const Term middle = compare(large, TENON_CMP_GT, 0.5) & compare(large, TENON_CMP_LT, 2);
  return where(any_inf(z), kInfinity, where(middle, near, far));
}

}  // namespace

// ---- Arithmetic ----

Complex operator+(const Complex& a, const Complex& b) {
  return {a.re + b.re, a.im + b.im};
}
Complex operator-(const Complex& a, const Complex& b) {
  return {a.re - b.re, a.im - b.im};
}
Complex operator*(const Complex& a, const Complex& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// Smith's method: dividing by the larger part first keeps the squares in range.
Complex operator/(const Complex& a, const Complex& b) {
  const Term swap = compare(abs(b.re), TENON_CMP_LT, abs(b.im));
  const Term p = where(swap, b.im, b.re), q = where(swap, b.re, b.im);
  const Term zero = is(p, 0) & is(q, 0);
  const Term ratio = where(zero, 0.0, q / p);
  const Term below = where(zero, abs(p), p + q * ratio);
  const Term u = where(swap, a.im, a.re), v = where(swap, a.re, a.im);
  const Term cross = v - u * ratio;
  return {(u + v * ratio) / below, where(swap, -cross, cross) / below};
}
Complex operator-(const Complex& z) {
  return {-z.re, -z.im};
}
Term magnitude(const Complex& z) {
  return apply("hypot", z.re, z.im);
}
Term phase(const Complex& z) {
  return apply("atan2", z.im, z.re);
}
// Twice pi rounds to twice what pi rounds to, so the quotient for negative numbers is 0.5.
constexpr double kTurn = 2 * std::numbers::pi;
Term turns(const Complex& z) {
  return phase(z) / kTurn;
}
Complex from_polar(const Term& length, const Term& turns) {
  const Term angle = (turns - apply("round_even", turns)) * kTurn;
  return {length * apply("cos", angle), length * apply("sin", angle)};
}
// Of z over its larger part, whose magnitude stays in range. An infinite z counts as the corner or
// the axis in its direction.
Complex complex_sign(const Complex& z) {
  const Term larger = max(abs(z.re), abs(z.im)), zero = is(larger, 0), far = is_inf(larger);
  const auto scaled = [&](Term x) {
    return where(far, where(is_inf(x), with_sign(1, x), with_sign(0, x)), x / larger);
  };
  const Complex near = {scaled(z.re), scaled(z.im)};
  const Term length = magnitude(near);
  return {where(zero, z.re, near.re / length), where(zero, z.im, near.im / length)};
}
Complex complex_square(const Complex& z) {
  return {(z.re - z.im) * (z.re + z.im), z.re * z.im * 2};
}
Complex complex_reciprocal(const Complex& z) {
  return Complex{z.re.same(1), z.re.same(0)} / z;
}

// ---- Roots, powers, logarithms ----

// With t = sqrt((|x| + |z|) / 2) the larger part is t and the other one y / 2t: no cancellation.
// Numbers at the ends of the range are scaled by a power of 4.
Complex complex_sqrt(const Complex& z) {
  const Bounds at = bounds_of(z.re);
  const Term larger = max(abs(z.re), abs(z.im));
  const Term high = compare(larger, TENON_CMP_GT, at.huge);
  const Term low = compare(larger, TENON_CMP_LT, at.tiny);
  const auto pick = [&](double if_high, double if_low) {
    return where(high, z.re.same(if_high), where(low, z.re.same(if_low), z.re.same(1)));
  };
  const Term scale = pick(0.25, at.up), back = pick(2, 1 / std::sqrt(at.up));
  const Complex s = {z.re * scale, z.im * scale};
  const Term t = sqrt((abs(s.re) + magnitude(s)) * 0.5);
  const Term other = abs(s.im) / (t * 2);
  const Term negative = is_negative(z.re);
  Term re = where(negative, other, t) * back;
  Term im = with_sign(where(negative, t, other) * back, z.im);
  const Term zero = is(z.re, 0) & is(z.im, 0);
  re = where(zero, 0.0, re);
  im = where(zero, z.im, im);
  // inf: an infinite y wins over everything; else an infinite x decides.
  const Term x_inf = is_inf(z.re), y_inf = is_inf(z.im);
  const Term y_nan = {*z.im.b, z.im.b->build("is_nan", {z.im.v})};
  re = where(x_inf, where(negative, where(y_nan, z.im, z.im.same(0)), z.re.same(kInfinity)), re);
  im = where(x_inf,
             where(negative, with_sign(kInfinity, z.im), where(y_nan, z.im, with_sign(0, z.im))),
             im);
  return {where(y_inf, kInfinity, re), where(y_inf, z.im, im)};
}
Complex complex_rsqrt(const Complex& z) {
  return complex_reciprocal(complex_sqrt(z));
}

Complex complex_exp(const Complex& z) {
  const Exponential e = exponential(z.re);
  const Term finite = is_finite(z.im);
  const Term vanishes = is(z.re, -kInfinity) & !finite;
  const Term overflows = is(z.re, kInfinity) & !finite;
  Term re = where(is(z.im, 0), exp(z.re), e.times(trig("cos", z.im)));
  re = where(vanishes, 0.0, where(overflows, kInfinity, re));
  const Term im = where(is(z.im, 0), z.im, e.times(trig("sin", z.im)));
  return {re, where(vanishes, 0.0, im)};
}
Complex complex_exp2(const Complex& z) {
  return complex_exp({z.re * kLn2, z.im * kLn2});
}
// exp(x) cos y - 1 = expm1(x) cos y - 2 sin(y / 2)^2, which does not cancel near 0.
Complex complex_expm1(const Complex& z) {
  const Complex whole = complex_exp(z);
  const Term half = trig("sin", z.im * 0.5);
  const Term near = trig("expm1", z.re) * trig("cos", z.im) - half * half * 2;
  const Term small = compare(abs(z.re), TENON_CMP_LT, 1);
  return {where(is(z.im, 0), trig("expm1", z.re), where(small, near, whole.re - 1)), whole.im};
}
Complex complex_log(const Complex& z) {
  return {log_magnitude(z), phase(z)};
}
Complex complex_log2(const Complex& z) {
  const Complex l = complex_log(z);
  return {l.re / kLn2, l.im / kLn2};
}
Complex complex_log10(const Complex& z) {
  const Complex l = complex_log(z);
  return {l.re / std::numbers::ln10, l.im / std::numbers::ln10};
}
// Near 0, |1 + z|^2 - 1 = x (2 + x) + y y.
Complex complex_log1p(const Complex& z) {
  const Complex moved = {z.re + 1, z.im};
  const Term near = trig("log1p", z.re * (z.re + 2) + z.im * z.im) * 0.5;
  const Term small = compare(abs(z.re), TENON_CMP_LT, 0.5) & compare(abs(z.im), TENON_CMP_LT, 0.5);
  return {where(small, near, log_magnitude(moved)), phase(moved)};
}
namespace {

constexpr int kProductBits = 4;  // exponents below 2 to the power of this are products

Complex where(Term p, const Complex& x, const Complex& y) {
  return {ops::where(p, x.re, y.re), ops::where(p, x.im, y.im)};
}
// x to the power of n, from 0 to 15, by squares. Nothing is multiplied by 1, which would be NaN at
// infinity.
Complex small_power(const Complex& x, Term n) {
  const Term count = as(n, TENON_I32);
  const auto has_bit = [&](int k) { return compare(count & count.same(1 << k), TENON_CMP_NE, 0); };
  Term started = has_bit(0);
  Complex power = where(started, x, {x.re.same(1), x.re.same(0)}), square = x;
  for (int k = 1; k < kProductBits; ++k) {
    square = complex_square(square);
    const Term taken = has_bit(k);
    power = where(taken, where(started, power * square, square), power);
    started = started | taken;
  }
  return power;
}

// exp(y log x). A real y scales both parts, also of an infinite logarithm.
Complex general_power(const Complex& x, const Complex& y) {
  const Complex l = complex_log(x), scaled = {l.re * y.re, l.im * y.re};
  return complex_exp(where(is(y.im, 0), scaled, y * l));
}

}  // namespace

// Small integers by products, and 1/2 as the root, which are exact where they can be. A product
// that leaves the range would be NaN in parts. The powers of 0 are 1, 0 and NaN, by y.
Complex complex_pow(const Complex& x, const Complex& y) {
  const Term size = abs(y.re), real = is(y.im, 0);
  const Term whole = real & compare(size, TENON_CMP_LT, 1 << kProductBits) &
                     compare(floor(size), TENON_CMP_EQ, size);
  const Complex product = small_power(x, where(whole, size, 0.0));
  const Term larger = max(abs(product.re), abs(product.im));
  const Term in_range = is_finite(larger) & compare(larger, TENON_CMP_GT, 0);
  const Complex by_product =
      where(compare(y.re, TENON_CMP_LT, 0), complex_reciprocal(product), product);
  const Complex other = where(real & is(y.re, 0.5), complex_sqrt(x), general_power(x, y));
  const Complex power = where(whole & (in_range | is(size, 1)), by_product, other);
  const Term base_zero = is(x.re, 0) & is(x.im, 0);
  const Term one = is(y.re, 0) & is(y.im, 0);
  const Term positive = compare(y.re, TENON_CMP_GT, 0);
  const Term nan = x.re.same(std::numeric_limits<double>::quiet_NaN());
  const Term of_zero = where(positive, 0.0, nan);
  return {where(one, 1.0, where(base_zero, of_zero, power.re)),
          where(one, 0.0, where(base_zero, of_zero, power.im))};
}

// ---- Hyperbolic functions ----

namespace {

// sinh and cosh of a real number, with the factor that is split off where they would overflow.
struct Hyperbolic {
  Term sinh, cosh, factor;
};
Hyperbolic hyperbolic(Term x) {
  const double limit = bounds_of(x).exp_max;
  const Term size = abs(x), beyond = compare(size, TENON_CMP_GT, limit);
  const Term half = exp(size - limit) * 0.5;
  return {where(beyond, with_sign(half, x), trig("sinh", x)), where(beyond, half, trig("cosh", x)),
          where(beyond, x.same(std::exp(limit)), x.same(1))};
}

}  // namespace

// A zero times the sine or cosine of a finite number has the right sign already.
Complex complex_sinh(const Complex& z) {
  const Hyperbolic h = hyperbolic(z.re);
  const Term turns = is_finite(z.im);
  const Term kept = (is(z.re, 0) | is_inf(z.re)) & !turns;
  const Term re = h.sinh * trig("cos", z.im) * h.factor;
  const Term im = h.cosh * trig("sin", z.im) * h.factor;
  const Term real = where(is(z.im, 0), trig("sinh", z.re), re);
  return {where(kept, z.re, real), where(is(z.im, 0), z.im, im)};
}
Complex complex_cosh(const Complex& z) {
  const Hyperbolic h = hyperbolic(z.re);
  const Term lost = is_inf(z.re) & !is_finite(z.im);
  const Term re = where(is(z.im, 0), trig("cosh", z.re), h.cosh * trig("cos", z.im) * h.factor);
  const Term im = h.sinh * trig("sin", z.im) * h.factor;
  const Term signed_zero = where(is_negative(z.re), -z.im, z.im);
  const Term of_zero = is(z.re, 0) & !is_finite(z.im);
  return {where(lost, kInfinity, re),
          where(is(z.im, 0), signed_zero, where(of_zero, with_sign(0, z.im), im))};
}
// Kahan's form of sinh / cosh; beyond 20 the real part is +-1 and the other one decays.
Complex complex_tanh(const Complex& z) {
  const Term size = abs(z.re), saturated = compare(size, TENON_CMP_GT, 20);
  const Term t = trig("tan", z.im), beta = t * t + 1;
  const Term s = trig("sinh", where(saturated, 0.0, z.re));
  const Term below = beta * s * s + 1;
  const Term re = beta * sqrt(s * s + 1) * s / below, im = t / below;
  const Term decay = exp(size * -2) * 4;
  const Term far = where(is_inf(z.re) & !is_finite(z.im), with_sign(0, z.im),
                         trig("sin", z.im) * trig("cos", z.im) * decay);
  const Term at_end = where(is_inf(z.re) | is_finite(z.im), with_sign(1, z.re),
                            z.re.same(std::numeric_limits<double>::quiet_NaN()));
  return {where(saturated, at_end, where(is(z.re, 0), z.re, re)),
          where(is(z.im, 0), z.im, where(saturated, far, im))};
}

// f(iz) / i of an odd hyperbolic function is the trigonometric one.
Complex complex_sin(const Complex& z) {
  const Complex h = complex_sinh({-z.im, z.re});
  return {h.im, -h.re};
}
Complex complex_cos(const Complex& z) {
  return complex_cosh({-z.im, z.re});
}
Complex complex_tan(const Complex& z) {
  const Complex h = complex_tanh({-z.im, z.re});
  return {h.im, -h.re};
}

// ---- Inverse functions ----
// Kahan's formulas over the roots of 1 - z and 1 + z, whose signed zeros put every branch cut where
// it belongs. For large |z| the functions are log 2|z| and an angle. Where the real part is 0, so
// is that of the result (of acos: a quarter turn), also next to NaN.

namespace {

struct Inverse {
  Complex below, above;  // the roots of 1 - z and 1 + z
  Term is_large, size;   // size: log 2|z|
};
Inverse inverse(const Complex& z) {
  const double large = bounds_of(z.re).large;
  const Term is_large = compare(max(abs(z.re), abs(z.im)), TENON_CMP_GT, large) | any_inf(z);
  const Complex near = {where(is_large, 0.0, z.re), where(is_large, 0.0, z.im)};
  return {complex_sqrt({1 - near.re, -near.im}), complex_sqrt({near.re + 1, near.im}), is_large,
          log_magnitude(z) + kLn2};
}
Term asinh(Term x) {
  return trig("asinh", x);
}

}  // namespace

Complex complex_asin(const Complex& z) {
  const Inverse at = inverse(z);
  const Complex &p = at.below, &q = at.above;
  const Term re = apply("atan2", z.re, p.re * q.re - p.im * q.im);
  const Term im = asinh(p.re * q.im - p.im * q.re);
  const Term turned = where(at.is_large, apply("atan2", z.re, abs(z.im)), re);
  return {where(is(z.re, 0), z.re, turned), where(at.is_large, with_sign(at.size, z.im), im)};
}
Complex complex_acos(const Complex& z) {
  const Inverse at = inverse(z);
  const Complex &p = at.below, &q = at.above;
  const Term re = apply("atan2", p.re, q.re) * 2;
  const Term im = asinh(q.re * p.im - q.im * p.re);
  const Term far = where(is_negative(z.im), at.size, -at.size);
  const Term turned = where(at.is_large, apply("atan2", abs(z.im), z.re), re);
  return {where(is(z.re, 0), kPi / 2, turned), where(at.is_large, far, im)};
}
Complex complex_asinh(const Complex& z) {
  const Complex a = complex_asin({-z.im, z.re});
  return {a.im, -a.re};
}
// i acos(z) or -i acos(z), whichever has a real part of at least 0.
Complex complex_acosh(const Complex& z) {
  const Complex a = complex_acos(z);
  return {abs(a.im), with_sign(a.re, z.im)};
}
// For large |z| the real part is that of 1 / z, and the angle a quarter turn.
Complex complex_atanh(const Complex& z) {
  const Bounds at = bounds_of(z.re);
  const Term is_large = compare(max(abs(z.re), abs(z.im)), TENON_CMP_GT, at.large) | any_inf(z);
  const Complex near = {where(is_large, 0.0, z.re), where(is_large, 0.0, z.im)};
  const Term x = abs(near.re), y = near.im, distance = 1 - x;
  // At 1 the squares would vanish: there, |1 + z| is 2.
  const Term near_1 = compare(max(abs(distance), abs(y)), TENON_CMP_LT, at.near_1);
  const Term at_pole = (kLn2 - log(magnitude({distance, y}))) * 0.5;
  const Term off_pole = trig("log1p", x * 4 / (distance * distance + y * y)) * 0.25;
  const Term re = where(near_1, at_pole, off_pole);
  const Term im = apply("atan2", y * 2, distance * (x + 1) - y * y) * 0.5;
  const Term far_re = where(any_inf(z), 0.0, z.re / magnitude(z) / magnitude(z));
  const Term y_nan = {*z.im.b, z.im.b->build("is_nan", {z.im.v})};
  return {where(is(z.re, 0), z.re, with_sign(where(is_large, far_re, re), z.re)),
          where(is_large, where(y_nan, z.im, with_sign(kPi / 2, z.im)), im)};
}
Complex complex_atan(const Complex& z) {
  const Complex a = complex_atanh({-z.im, z.re});
  return {a.im, -a.re};
}

// ---- Derivatives ----

namespace {

Complex conjugate(const Complex& z) {
  return {z.re, -z.im};
}
Complex times_i(const Complex& z) {
  return {-z.im, z.re};
}
Complex divided(const Complex& z, Term by) {
  return {z.re / by, z.im / by};
}
// |z|, and 1 for 0.
Term divisor(const Complex& z) {
  const Term length = magnitude(z);
  return where(is(length, 0), 1.0, length);
}
// The derivatives of atan and asinh are those of log(1 - iz) and log(1 + iz), or of their roots,
// without the square of z, which could overflow.
struct Sides {
  Value below, above;  // 1 - iz, 1 + iz
};
Sides sides_of(Builder& b, Value z) {
  const Complex turned = times_i(parts_of(b, z));
  return {joined(b, {1 - turned.re, -turned.im}), joined(b, {turned.re + 1, turned.im})};
}

}  // namespace

// The part of the tangent across z: i s im(conj(s) t) / |z|, s the sign.
std::vector<Value> jvp_complex_sign(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Complex sign = parts_of(b, node.result()), t = parts_of(b, tangents[0]);
  const Term across = (conjugate(sign) * t).im / divisor(parts_of(b, node.operand(0)));
  return {joined(b, times_i({sign.re * across, sign.im * across}))};
}
// t / ((1 - iz) (1 + iz))
std::vector<Value> jvp_complex_atan(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Sides at = sides_of(b, node.operand(0));
  return {b.build("div", {b.build("div", {tangents[0], at.below}), at.above})};
}
// t / (sqrt(1 - iz) sqrt(1 + iz))
std::vector<Value> jvp_complex_asinh(Builder& b, const Node& node,
                                     std::span<const Value> tangents) {
  const Sides at = sides_of(b, node.operand(0));
  const Value half = b.build("mul", {tangents[0], b.build("rsqrt", {at.below})});
  return {b.build("mul", {half, b.build("rsqrt", {at.above})})};
}

// ---- conj, angle ----

namespace complex_math {

Value transpose_conj(Builder& b, const Node&, uint32_t, std::span<const Value> cotangents) {
  return b.build("conj", {cotangents[0]});
}
// im(conj(z) t) / |z|^2
std::vector<Value> jvp_angle(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Complex z = parts_of(b, node.operand(0)), t = parts_of(b, tangents[0]);
  const Term length = divisor(z);
  return {(conjugate(divided(z, length)) * divided(t, length)).im};
}

Status decompose_conj(Builder& b, const Node& node, tenon_value_t* out) {
  const Complex z = parts_of(b, node.operand(0));
  return b.finish(out, {joined(b, {z.re, -z.im})});
}
Value fold_conj(Builder&, const Node& node) {
  const Node inner = node.operand(0).node();
  return inner && inner.is("conj") ? inner.operand(0) : Value();
}
Status infer_angle(const InferQuery& q) {
  return q.result(part_of(q.dtype(0)), q.dims(0));
}
Status decompose_angle(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(out, {phase(parts_of(b, node.operand(0)))});
}

constexpr OpDraft conj() {
  OpDraft draft = op("conj", kComposite);
  draft.summary("The complex conjugate: the imaginary part changes its sign.")
      .operand("x", "complex numbers", kComplex)
      .result("y", "same type as x")
      .example("conj(c64[2] [(1, 3), (2, -4)]) -> c64[2] [(1, -3), (2, 4)]")
      .infer<infer_same>()
      .decompose<decompose_conj>()
      .decompose_complex<decompose_conj>()
      .linear({0})
      .transposed<transpose_conj>()
      .fold<fold_conj>();
  return draft;
}
constexpr OpDraft angle() {
  OpDraft draft = op("angle", kComposite);
  draft.summary("The angle of complex numbers in radians, from -pi to pi.")
      .operand("x", "complex numbers", kComplex)
      .result("y", "f32 of c64, f64 of c128")
      .example("angle(c64[3] [(1, 0), (0, 2), (-1, 0)]) -> f32[3] [0, 1.5707964, 3.1415927]")
      .infer<infer_angle>()
      .decompose<decompose_angle>()
      .decompose_complex<decompose_angle>()
      .jvp<jvp_angle>()
      .cost(TENON_COST_TRANSCENDENTAL)
      .tolerance(2);
  return draft;
}

TENON_OPS(complex_math, conj, angle)

}  // namespace complex_math
}  // namespace tenon::ops
