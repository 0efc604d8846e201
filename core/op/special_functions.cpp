#include "core/op/special_functions.h"

#include <cmath>
#include <initializer_list>
#include <limits>

namespace tenon::op {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

}  // namespace

// A first guess by Giles' polynomial for single precision, beyond its range by the first terms of
// erfc's expansion; then Halley's steps on erf, which triple the digits.
double erf_inv(double x) {
  if (std::isnan(x) || std::fabs(x) > 1) return kNan;
  if (std::fabs(x) == 1) return std::copysign(kInfinity, x);
  const double w = -std::log((1 - x) * (1 + x));
  double y;
  if (w < 5) {
    const double v = w - 2.5;
    y = 2.81022636e-08;
    for (double c : {3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                     -0.00417768164, 0.246640727, 1.50140941}) {
      y = y * v + c;
    }
  } else if (w > 16) {
    const double l = w + 0.6931471805599453;  // -log(1 - |x|)
    y = std::sqrt(l - 0.5 * std::log(kPi * l)) / std::fabs(x);
  } else {
    const double v = std::sqrt(w) - 3;
    y = -0.000200214257;
    for (double c : {0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
                     0.00943887047, 1.00167406, 2.83297682}) {
      y = y * v + c;
    }
  }
  y *= x;
  for (int i = 0; i < 3; ++i) {
    // erfc keeps the digits that erf loses near 1.
    const double miss = x > 0.5    ? (1 - x) - std::erfc(y)
                        : x < -0.5 ? std::erfc(-y) - (1 + x)
                                   : std::erf(y) - x;
    const double slope = 2 / std::sqrt(kPi) * std::exp(-y * y);
    if (slope == 0) break;
    const double step = miss / slope;
    y -= step / (1 + y * step);
  }
  return y;
}

// Up to 10 by the recurrence, from there by the asymptotic series; below 0 by reflection.
double digamma(double x) {
  if (std::isnan(x) || x == -kInfinity) return kNan;
  if (x == kInfinity) return x;
  if (x == 0) return std::copysign(kInfinity, -x);  // a pole with a sign, as in NumPy's and torch's
  if (x <= 0) {
    if (x == std::floor(x)) return kNan;
    return digamma(1 - x) - kPi / std::tan(kPi * (x - std::nearbyint(x)));
  }
  double shift = 0;
  for (; x < 10; x += 1) shift -= 1 / x;
  const double r = 1 / (x * x);
  const double series =
      r * (1.0 / 12 - r * (1.0 / 120 -
                           r * (1.0 / 252 -
                                r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760 - r / 12))))));
  return shift + std::log(x) - 0.5 / x - series;
}

double log_gamma(double x) {
  int sign = 0;  // lgamma() writes a global, which is no good between threads
  return ::lgamma_r(x, &sign);
}

}  // namespace tenon::op
