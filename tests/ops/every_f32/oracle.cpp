#include "oracle.h"

#include <cmath>
#include <limits>

namespace tenon::every_f32 {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

template <size_t n>
double polynomial(const double (&c)[n], double x) {
  double y = c[n - 1];
  for (size_t i = n - 1; i-- > 0;) y = y * x + c[i];
  return y;
}

// The quantile of the normal distribution (M. J. Wichura, AS 241, PPND16) at p = 1/2 + q.
double quantile(double q, double tail) {
  static constexpr double kA[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                  1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                  4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                  3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double kB[] = {1,
                                  4.2313330701600911252e+1,
                                  6.8718700749205790830e+2,
                                  5.3941960214247511077e+3,
                                  2.1213794301586595867e+4,
                                  3.9307895800092710610e+4,
                                  2.8729085735721942674e+4,
                                  5.2264952788528545610e+3};
  static constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                  5.76949722146069140550e0,  3.64784832476320460504e0,
                                  1.27045825245236838258e0,  2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kD[] = {1,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  static constexpr double kE[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                  1.78482653991729133580e0,  2.96560571828504891230e-1,
                                  2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double kF[] = {1,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131245613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kA, r) / polynomial(kB, r);
  }
  const double r = std::sqrt(-std::log(tail));
  const double z = r <= 5 ? polynomial(kC, r - 1.6) / polynomial(kD, r - 1.6)
                          : polynomial(kE, r - 5) / polynomial(kF, r - 5);
  return std::copysign(z, q);
}
double erf_inv(double x) {
  if (!(std::fabs(x) < 1)) return std::fabs(x) == 1 ? std::copysign(kInfinity, x) : kNan;
  return quantile(x * 0.5, (1 - std::fabs(x)) * 0.5) * 0.70710678118654752440;
}

// By reflection, recurrence and the asymptotic series.
double digamma(double x) {
  if (x == 0) return -std::copysign(kInfinity, x);
  if (x == kInfinity) return x;
  if (!(x > -kInfinity) || (x < 0 && std::floor(x) == x)) return kNan;
  double sum = 0;
  if (x < 0.5) {
    sum = -kPi / std::tan(kPi * (x - std::nearbyint(x)));
    x = 1 - x;
  }
  for (; x < 16; x += 1) sum -= 1 / x;
  const double w = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x -
         w * (1.0 / 12 - w * (1.0 / 120 - w * (1.0 / 252 - w * (1.0 / 240 - w * (1.0 / 132)))));
}

double logistic(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
// Keeps NaN.
double above_zero(double x) {
  return x > 0 || std::isnan(x) ? x : 0;
}
double softplus(double x) {
  return above_zero(x) + std::log1p(std::exp(-std::fabs(x)));
}
double unit_clamp(double x) {
  return x < 0 ? 0 : x > 1 ? 1 : x;
}
double elu(double x, double alpha) {
  return x > 0 ? x : alpha * std::expm1(x);
}

struct Row {
  std::string_view op;
  Function function;
};

constexpr Row kRows[] = {
    {"neg", [](double x) { return -x; }},
    {"abs", [](double x) { return std::fabs(x); }},
    {"sign", [](double x) { return x > 0   ? 1
                                   : x < 0 ? -1
                                           : x; }},
    {"floor", [](double x) { return std::floor(x); }},
    {"ceil", [](double x) { return std::ceil(x); }},
    {"trunc", [](double x) { return std::trunc(x); }},
    {"round_even", [](double x) { return std::nearbyint(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"expm1", [](double x) { return std::expm1(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"log1p", [](double x) { return std::log1p(x); }},
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"tan", [](double x) { return std::tan(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"asin", [](double x) { return std::asin(x); }},
    {"acos", [](double x) { return std::acos(x); }},
    {"atan", [](double x) { return std::atan(x); }},
    {"sinh", [](double x) { return std::sinh(x); }},
    {"cosh", [](double x) { return std::cosh(x); }},
    {"asinh", [](double x) { return std::asinh(x); }},
    {"acosh", [](double x) { return std::acosh(x); }},
    {"atanh", [](double x) { return std::atanh(x); }},
    {"exp2", [](double x) { return std::exp2(x); }},
    {"log2", [](double x) { return std::log2(x); }},
    {"log10", [](double x) { return std::log10(x); }},
    {"cbrt", [](double x) { return std::cbrt(x); }},
    {"square", [](double x) { return x * x; }},
    {"reciprocal", [](double x) { return 1 / x; }},
    {"logistic", logistic},
    {"erf", [](double x) { return std::erf(x); }},
    {"erfc", [](double x) { return std::erfc(x); }},
    {"erf_inv", erf_inv},
    {"lgamma",
     [](double x) {
       int sign = 0;  // lgamma() writes a global
       return ::lgamma_r(x, &sign);
     }},
    {"digamma", digamma},
    {"relu", above_zero},
    {"elu", [](double x) { return elu(x, 1); }},
    {"selu",
     [](double x) { return 1.05070102214813232421875f * elu(x, 1.67326319217681884765625f); }},
    {"celu", [](double x) { return x == 0 ? 0 : elu(x, 1); }},
    {"gelu",
     [](double x) {
       return std::fabs(x) == 0 ? x : x * 0.5 * std::erfc(x * -0.70710678118654752440);
     }},
    {"gelu_tanh",
     [](double x) {
       return x * logistic(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x));
     }},
    {"silu", [](double x) { return x * logistic(x); }},
    {"mish", [](double x) { return x * std::tanh(softplus(x)); }},
    {"softplus", softplus},
    {"hard_sigmoid", [](double x) { return unit_clamp(x * 0.2f + 0.5); }},
    {"hard_swish", [](double x) { return x * unit_clamp(x * (1.0 / 6) + 0.5); }},
    {"threshold", [](double x) { return above_zero(x); }},
    {"clamp", [](double x) { return x; }},
// The rows of tests/ops/cases; the build runs rows.py.
#include "every_f32_rows.inc"
};

}  // namespace

Function meaning_of(std::string_view op) {
  for (const Row& row : kRows) {
    if (row.op == op) return row.function;
  }
  return nullptr;
}

}  // namespace tenon::every_f32
