// Scalar programs (abi/scalar.h) written as C++ expressions, which the compiler turns into words:
//
//     using namespace tenon::scalar;
//     op("leaky_relu").scalar(select(arg(0) > 0, arg(0), arg(0) * attr(0)))
//
// Numbers have the working type (see abi/scalar.h). A sub-expression that is used twice is written
// twice; readers share equal ones.
#ifndef TENON_CPP_SCALAR_HPP_
#define TENON_CPP_SCALAR_HPP_

#include <bit>

#include "tenon/abi/scalar.h"

namespace tenon::inline sdk::scalar {

inline constexpr uint32_t kWordsMax = 192;

// A program that leaves one value on the stack. A program that is too long does not compile.
struct Expr {
  uint32_t words[kWordsMax] = {};
  uint32_t count = 0;

  constexpr Expr() = default;
  constexpr Expr(double number) {
    const auto bits = std::bit_cast<uint64_t>(number);
    push(TENON_S_CONST_F);
    push(static_cast<uint32_t>(bits));
    push(static_cast<uint32_t>(bits >> 32));
  }
  constexpr Expr(int number) : Expr(static_cast<double>(number)) {}

  constexpr void push(uint32_t word) { words[count++] = word; }
  constexpr void push(const Expr& other) {
    for (uint32_t i = 0; i < other.count; ++i) push(other.words[i]);
  }
};

constexpr Expr leaf(uint32_t op, uint32_t a) {
  Expr out;
  out.push(TENON_SCALAR_WORD(op, a));
  return out;
}
constexpr Expr arg(uint32_t ordinal) {
  return leaf(TENON_S_ARG, ordinal);
}
constexpr Expr attr(uint32_t ordinal) {
  return leaf(TENON_S_ATTR, ordinal);
}
// Result `ordinal` of the op; only in partial derivatives.
constexpr Expr result(uint32_t ordinal = 0) {
  return leaf(TENON_S_RESULT, ordinal);
}
constexpr Expr lowest() {
  return leaf(TENON_S_CONST_MIN, 0);
}
constexpr Expr highest() {
  return leaf(TENON_S_CONST_MAX, 0);
}
constexpr Expr integer(int64_t number) {
  Expr out;
  out.push(TENON_S_CONST_I);
  out.push(static_cast<uint32_t>(static_cast<uint64_t>(number)));
  out.push(static_cast<uint32_t>(static_cast<uint64_t>(number) >> 32));
  return out;
}
// Sets the working type to that of operand `ordinal` before `x` is computed.
constexpr Expr work(uint32_t ordinal, const Expr& x) {
  Expr out = leaf(TENON_S_WORK, ordinal);
  out.push(x);
  return out;
}

constexpr Expr unary(uint32_t op, const Expr& x, uint32_t a = 0) {
  Expr out = x;
  out.push(TENON_SCALAR_WORD(op, a));
  return out;
}
constexpr Expr binary(uint32_t op, const Expr& x, const Expr& y, uint32_t a = 0) {
  Expr out = x;
  out.push(y);
  out.push(TENON_SCALAR_WORD(op, a));
  return out;
}
constexpr Expr select(const Expr& predicate, const Expr& x, const Expr& y) {
  Expr out = predicate;
  out.push(x);
  out.push(y);
  out.push(TENON_S_SELECT);
  return out;
}

constexpr Expr operator-(const Expr& x) {
  return unary(TENON_S_NEG, x);
}
constexpr Expr operator!(const Expr& x) {
  return unary(TENON_S_NOT, x);
}
constexpr Expr abs(const Expr& x) {
  return unary(TENON_S_ABS, x);
}
constexpr Expr sign(const Expr& x) {
  return unary(TENON_S_SIGN, x);
}
constexpr Expr floor(const Expr& x) {
  return unary(TENON_S_FLOOR, x);
}
constexpr Expr round_even(const Expr& x) {
  return unary(TENON_S_ROUND_EVEN, x);
}
constexpr Expr sqrt(const Expr& x) {
  return unary(TENON_S_SQRT, x);
}
constexpr Expr rsqrt(const Expr& x) {
  return unary(TENON_S_RSQRT, x);
}
constexpr Expr exp(const Expr& x) {
  return unary(TENON_S_EXP, x);
}
constexpr Expr expm1(const Expr& x) {
  return unary(TENON_S_EXPM1, x);
}
constexpr Expr log(const Expr& x) {
  return unary(TENON_S_LOG, x);
}
constexpr Expr log1p(const Expr& x) {
  return unary(TENON_S_LOG1P, x);
}
constexpr Expr sin(const Expr& x) {
  return unary(TENON_S_SIN, x);
}
constexpr Expr cos(const Expr& x) {
  return unary(TENON_S_COS, x);
}
constexpr Expr tanh(const Expr& x) {
  return unary(TENON_S_TANH, x);
}
constexpr Expr logistic(const Expr& x) {
  return unary(TENON_S_LOGISTIC, x);
}
constexpr Expr erf(const Expr& x) {
  return unary(TENON_S_ERF, x);
}
constexpr Expr is_nan(const Expr& x) {
  return unary(TENON_S_IS_NAN, x);
}
constexpr Expr convert_to(const Expr& x, tenon_dtype_t dtype) {
  return unary(TENON_S_CONVERT, x, dtype);
}
constexpr Expr convert_result(const Expr& x, uint32_t result = 0) {
  return unary(TENON_S_CONVERT_RESULT, x, result);
}

constexpr Expr operator+(const Expr& x, const Expr& y) {
  return binary(TENON_S_ADD, x, y);
}
constexpr Expr operator-(const Expr& x, const Expr& y) {
  return binary(TENON_S_SUB, x, y);
}
constexpr Expr operator*(const Expr& x, const Expr& y) {
  return binary(TENON_S_MUL, x, y);
}
constexpr Expr operator/(const Expr& x, const Expr& y) {
  return binary(TENON_S_DIV, x, y);
}
constexpr Expr operator%(const Expr& x, const Expr& y) {
  return binary(TENON_S_REM, x, y);
}
constexpr Expr operator&(const Expr& x, const Expr& y) {
  return binary(TENON_S_AND, x, y);
}
constexpr Expr operator|(const Expr& x, const Expr& y) {
  return binary(TENON_S_OR, x, y);
}
constexpr Expr operator^(const Expr& x, const Expr& y) {
  return binary(TENON_S_XOR, x, y);
}
constexpr Expr pow(const Expr& x, const Expr& y) {
  return binary(TENON_S_POW, x, y);
}
constexpr Expr atan2(const Expr& y, const Expr& x) {
  return binary(TENON_S_ATAN2, y, x);
}
constexpr Expr max(const Expr& x, const Expr& y) {
  return binary(TENON_S_MAX, x, y);
}
constexpr Expr min(const Expr& x, const Expr& y) {
  return binary(TENON_S_MIN, x, y);
}
// Comparisons return pred.
constexpr Expr operator==(const Expr& x, const Expr& y) {
  return binary(TENON_S_CMP, x, y, TENON_CMP_EQ);
}
constexpr Expr operator!=(const Expr& x, const Expr& y) {
  return binary(TENON_S_CMP, x, y, TENON_CMP_NE);
}
constexpr Expr operator<(const Expr& x, const Expr& y) {
  return binary(TENON_S_CMP, x, y, TENON_CMP_LT);
}
constexpr Expr operator<=(const Expr& x, const Expr& y) {
  return binary(TENON_S_CMP, x, y, TENON_CMP_LE);
}
constexpr Expr operator>(const Expr& x, const Expr& y) {
  return binary(TENON_S_CMP, x, y, TENON_CMP_GT);
}
constexpr Expr operator>=(const Expr& x, const Expr& y) {
  return binary(TENON_S_CMP, x, y, TENON_CMP_GE);
}

}  // namespace tenon::inline sdk::scalar

#endif
