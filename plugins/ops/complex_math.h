// Formulas of complex numbers over their parts: what ops declare as decompose_complex. Each is one
// function of z; complex_math.cpp says how it stays accurate and which special cases it keeps.
#ifndef TENON_PLUGINS_OPS_COMPLEX_MATH_H_
#define TENON_PLUGINS_OPS_COMPLEX_MATH_H_

#include "compose.h"
#include "tenon/cpp/rules.hpp"

namespace tenon::ops {

// A complex value as two real ones of equal shape.
struct Complex {
  Term re, im;
};

inline Complex parts_of(Builder& b, Value z) {
  return {{b, b.build("real", {z})}, {b, b.build("imag", {z})}};
}
inline Value joined(Builder& b, const Complex& z) {
  return b.build("complex", {z.re.v, z.im.v});
}

Complex operator+(const Complex& a, const Complex& b);
Complex operator-(const Complex& a, const Complex& b);
Complex operator*(const Complex& a, const Complex& b);
Complex operator/(const Complex& a, const Complex& b);
Complex operator-(const Complex& z);
Term magnitude(const Complex& z);
Term phase(const Complex& z);
// The phase in turns, from -0.5 to 0.5, exact for real numbers. Sums of it lose less than sums of
// angles, and whole turns can be taken away exactly.
Term turns(const Complex& z);
Complex from_polar(const Term& length, const Term& turns);

Complex complex_sign(const Complex& z);
Complex complex_square(const Complex& z);
Complex complex_reciprocal(const Complex& z);
Complex complex_sqrt(const Complex& z);
Complex complex_rsqrt(const Complex& z);
Complex complex_exp(const Complex& z);
Complex complex_exp2(const Complex& z);
Complex complex_expm1(const Complex& z);
Complex complex_log(const Complex& z);
Complex complex_log2(const Complex& z);
Complex complex_log10(const Complex& z);
Complex complex_log1p(const Complex& z);
Complex complex_sin(const Complex& z);
Complex complex_cos(const Complex& z);
Complex complex_tan(const Complex& z);
Complex complex_sinh(const Complex& z);
Complex complex_cosh(const Complex& z);
Complex complex_tanh(const Complex& z);
Complex complex_asin(const Complex& z);
Complex complex_acos(const Complex& z);
Complex complex_atan(const Complex& z);
Complex complex_asinh(const Complex& z);
Complex complex_acosh(const Complex& z);
Complex complex_atanh(const Complex& z);
Complex complex_pow(const Complex& x, const Complex& y);

// Rules for tangents of complex numbers. Where a formula divides by 0, the tangent is 0.
std::vector<Value> jvp_complex_sign(Builder& b, const Node& node, std::span<const Value> tangents);
std::vector<Value> jvp_complex_atan(Builder& b, const Node& node, std::span<const Value> tangents);
std::vector<Value> jvp_complex_asinh(Builder& b, const Node& node, std::span<const Value> tangents);

// decompose_complex of an op with one operand, or two, that gives complex numbers.
template <Complex (*Function)(const Complex&)>
Status decompose_unary(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(out, {joined(b, Function(parts_of(b, node.operand(0))))});
}
template <Complex (*Function)(const Complex&, const Complex&)>
Status decompose_binary(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(
      out, {joined(b, Function(parts_of(b, node.operand(0)), parts_of(b, node.operand(1))))});
}
// The same for a function that gives real numbers.
template <Term (*Function)(const Complex&)>
Status decompose_to_real(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(out, {Function(parts_of(b, node.operand(0)))});
}

}  // namespace tenon::ops

#endif
