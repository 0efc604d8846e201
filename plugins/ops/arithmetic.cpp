// Element-wise primitives with two operands of one type. Each is one scalar instruction, with folds
// of its identities, and with shape arithmetic where sizes are computed with it.
#include <cmath>

#include "complex_math.h"

namespace tenon::ops::arithmetic {

using Combine = Dim (*)(Dim, Dim);

template <Combine Function>
Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  const auto y = known(q, 1);
  if (!x || !y || x->values.size() != y->values.size()) return TENON_NOT_FOUND;
  std::vector<Dim> values;
  for (size_t i = 0; i < x->values.size(); ++i)
    values.push_back(Function(x->values[i], y->values[i]));
  return answer_in(q.dtype(0), values, out);
}
inline Dim dim_add(Dim a, Dim b) {
  return a + b;
}
inline Dim dim_sub(Dim a, Dim b) {
  return a - b;
}
inline Dim dim_mul(Dim a, Dim b) {
  return a * b;
}
inline Dim dim_max(Dim a, Dim b) {
  return max(a, b);
}
inline Dim dim_min(Dim a, Dim b) {
  return min(a, b);
}
// Truncating and floor division agree where the dividend is known not to be negative.
inline Dim dim_div(Dim a, Dim b) {
  const auto divisor = constant_of(b);
  if (!divisor || *divisor <= 0 || compare(TENON_REL_LE, Dim(a.graph(), 0), a) != TENON_YES)
    return Dim::invalid();
  return a / b;
}
inline Dim dim_rem(Dim a, Dim b) {
  const auto divisor = constant_of(b);
  if (!divisor || *divisor <= 0 || compare(TENON_REL_LE, Dim(a.graph(), 0), a) != TENON_YES)
    return Dim::invalid();
  return a % b;
}

// Folds to x when y is the neutral element on the right or, if commutative, on either side.
template <int kNeutral, bool kEitherSide>
Value fold_neutral(Builder&, const Node& node) {
  const auto right = splat_of(node.operand(1));
  if (right && *right == kNeutral) return node.operand(0);
  if (kEitherSide) {
    const auto left = splat_of(node.operand(0));
    if (left && *left == kNeutral) return node.operand(1);
  }
  return {};
}
// Whether x + value is x for every x: -0 + 0 is 0, so of floats only -0 changes nothing.
bool is_nothing(Value value, bool is_negated) {
  const auto number = splat_of(value);
  if (!number || *number != 0) return false;
  const tenon_dtype_t dtype = value.dtype();
  if (is_complex(dtype)) return false;
  return is_int(dtype) || std::signbit(*number) != is_negated;
}
Value fold_add(Builder&, const Node& node) {
  if (is_nothing(node.operand(1), false)) return node.operand(0);
  return is_nothing(node.operand(0), false) ? node.operand(1) : Value();
}
Value fold_mul(Builder& b, const Node& node) {
  if (const Value same = fold_neutral<1, true>(b, node)) return same;
  if (!is_int(node.operand(0).dtype())) return {};  // 0 * inf and 0 * nan are NaN
  for (uint32_t i = 0; i < 2; ++i) {
    const auto number = splat_of(node.operand(i));
    if (number && *number == 0) return node.operand(i);
  }
  return {};
}
Value fold_same(Builder&, const Node& node) {
  return node.operand(0) == node.operand(1) ? node.operand(0) : Value();
}
Value fold_sub(Builder& b, const Node& node) {
  if (node.operand(0) == node.operand(1) && is_int(node.operand(0).dtype()))
    return b.full_like(node.operand(0), 0);
  return is_nothing(node.operand(1), true) ? node.operand(0) : Value();
}

// Adds the complex types, with their meaning.
template <Complex (*Function)(const Complex&, const Complex&)>
constexpr OpDraft with_complex(OpDraft draft) {
  draft.operands[0].dtypes |= kComplex;
  draft.operands[1].dtypes |= kComplex;
  draft.decompose_complex<&decompose_binary<Function>>().traits(TENON_TRAIT_HOLOMORPHIC);
  return draft;
}
inline Complex complex_add(const Complex& x, const Complex& y) {
  return x + y;
}
inline Complex complex_sub(const Complex& x, const Complex& y) {
  return x - y;
}
inline Complex complex_mul(const Complex& x, const Complex& y) {
  return x * y;
}
inline Complex complex_div(const Complex& x, const Complex& y) {
  return x / y;
}

constexpr std::string_view kC1 = "x and y have equal shapes";

constexpr OpDraft base(std::string_view name, std::string_view summary, tenon_dtypes_t dtypes,
                       uint32_t instruction, std::string_view example, std::string_view negative) {
  OpDraft draft = op(name, kPrimitiveElementwise);
  draft.summary(summary)
      .operand("x", "the left side", dtypes, 1)
      .operand("y", "the right side, same type as x", dtypes, 1)
      .result("z", "same type as x")
      .constraint("C1", kC1, negative)
      .example(example)
      .infer<infer_elementwise>()
      .scalar(scalar::binary(instruction, arg(0), arg(1)))
      .accuracy(0.5, 0.5);
  return draft;
}

constexpr OpDraft add() {
  return with_complex<complex_add>(base("add", "x + y; integers wrap.", kNumber, TENON_S_ADD,
                                        "add(f32[2] [1, 2], f32[2] [3, 4]) -> f32[2] [4, 6]",
                                        "add(f32[2], f32[3])"))
      .traits(TENON_TRAIT_COMMUTATIVE)
      .example("add(u8[1] [200], u8[1] [100]) -> u8[1] [44]")
      .value_of<value_of<dim_add>>()
      .fold<fold_add>();
}
constexpr OpDraft sub() {
  return with_complex<complex_sub>(base("sub", "x - y; integers wrap.", kNumber, TENON_S_SUB,
                                        "sub(i32[2] [1, 2], i32[2] [3, 4]) -> i32[2] [-2, -2]",
                                        "sub(f32[2], f32[2, 1])"))
      .value_of<value_of<dim_sub>>()
      .fold<fold_sub>()
      .alias("subtract");
}
constexpr OpDraft mul() {
  return with_complex<complex_mul>(base("mul", "x times y; integers wrap.", kNumber, TENON_S_MUL,
                                        "mul(f32[2] [2, 3], f32[2] [4, -5]) -> f32[2] [8, -15]",
                                        "mul(f32[2], f32[3])"))
      .traits(TENON_TRAIT_COMMUTATIVE)
      .value_of<value_of<dim_mul>>()
      .fold<fold_mul>()
      .alias("multiply");
}
constexpr OpDraft div() {
  return with_complex<complex_div>(
             base("div", "x / y; integers truncate, x / 0 = -1.", kNumber, TENON_S_DIV,
                  "div(i32[3] [7, -7, 1], i32[3] [2, 2, 0]) -> i32[3] [3, -3, -1]",
                  "div(f32[2], f32[3])"))
      .example("div(f32[2] [1, 3], f32[2] [4, 2]) -> f32[2] [0.25, 1.5]")
      .value_of<value_of<dim_div>>()
      .fold<fold_neutral<1, false>>()
      .alias("divide");
}
constexpr OpDraft rem() {
  return base("rem",
              "The rest of the truncating division, with the sign of x (C fmod); x rem 0 = x for "
              "integers.",
              kNumber, TENON_S_REM, "rem(i32[2] [7, -7], i32[2] [3, 3]) -> i32[2] [1, -1]",
              "rem(f32[2], f32[3])")
      .value_of<value_of<dim_rem>>();
}
constexpr OpDraft pow() {
  return with_complex<complex_pow>(base("pow", "x to the power of y.", kNumber, TENON_S_POW,
                                        "pow(f32[2] [2, 9], f32[2] [3, 0.5]) -> f32[2] [8, 3]",
                                        "pow(f32[2], f32[3])"))
      .doc(
          "Integers wrap. An integer to a negative power is 1 / x^|y|, truncated: 0 but for x of "
          "-1, "
          "0 and 1, and -1 for 0, as of a division by 0.")
      .example("pow(i32[3] [2, -1, 0], i32[3] [-31, -3, -1]) -> i32[3] [0, -1, -1]")
      .fold<fold_neutral<1, false>>()
      .cost(TENON_COST_TRANSCENDENTAL)
      .accuracy(0.51, 2)
      .tolerance(4)
      .alias("power");
}
constexpr OpDraft atan2() {
  return base("atan2", "The angle of the point (y, x), where operand 0 is the ordinate.", kFloat,
              TENON_S_ATAN2, "atan2(f32[2] [0, 1], f32[2] [1, 0]) -> f32[2] [0, 1.5707964]",
              "atan2(f32[2], f32[3])")
      .accuracy(3.5, 2)
      .cost(TENON_COST_TRANSCENDENTAL);
}
constexpr OpDraft max() {
  return base("max", "The larger one; NaN wins, -0 is below +0.", kNumber | kPred, TENON_S_MAX,
              "max(f32[2] [1, nan], f32[2] [2, 3]) -> f32[2] [2, nan]", "max(f32[2], f32[3])")
      .traits(TENON_TRAIT_COMMUTATIVE)
      .value_of<value_of<dim_max>>()
      .fold<fold_same>();
}
constexpr OpDraft min() {
  return base("min", "The smaller one; NaN wins, -0 is below +0.", kNumber | kPred, TENON_S_MIN,
              "min(f32[2] [1, nan], f32[2] [2, 3]) -> f32[2] [1, nan]", "min(f32[2], f32[3])")
      .traits(TENON_TRAIT_COMMUTATIVE)
      .value_of<value_of<dim_min>>()
      .fold<fold_same>();
}
constexpr OpDraft and_() {
  return base("and", "Logical for pred, bitwise for integers.", kPred | kInt, TENON_S_AND,
              "and(i8[2] [6, 5], i8[2] [3, 4]) -> i8[2] [2, 4]", "and(pred[2], pred[3])")
      .traits(TENON_TRAIT_COMMUTATIVE)
      .fold<fold_same>();
}
constexpr OpDraft or_() {
  return base("or", "Logical for pred, bitwise for integers.", kPred | kInt, TENON_S_OR,
              "or(pred[3] [0, 0, 1], pred[3] [0, 1, 1]) -> pred[3] [0, 1, 1]",
              "or(pred[2], pred[3])")
      .traits(TENON_TRAIT_COMMUTATIVE)
      .fold<fold_same>();
}
constexpr OpDraft xor_() {
  return base("xor", "Logical for pred, bitwise for integers.", kPred | kInt, TENON_S_XOR,
              "xor(i8[2] [6, 5], i8[2] [3, 5]) -> i8[2] [5, 0]", "xor(pred[2], pred[3])")
      .traits(TENON_TRAIT_COMMUTATIVE);
}
constexpr OpDraft shl() {
  return base("shl", "x shifted left by y bits; 0 for y beyond the width or below 0.", kInt,
              TENON_S_SHL, "shl(i32[3] [1, 3, 1], i32[3] [4, 1, 32]) -> i32[3] [16, 6, 0]",
              "shl(i32[2], i32[3])")
      .fold<fold_neutral<0, false>>();
}
constexpr OpDraft shr_arith() {
  return base("shr_arith", "x shifted right, the sign moves in; the sign for y beyond the width.",
              kInt, TENON_S_SHR_A,
              "shr_arith(i8[3] [-8, 8, -1], i8[3] [1, 2, 9]) -> i8[3] [-4, 2, -1]",
              "shr_arith(i32[2], i32[3])")
      .fold<fold_neutral<0, false>>();
}
constexpr OpDraft shr_logical() {
  return base("shr_logical", "x shifted right, zeros move in; 0 for y beyond the width.", kInt,
              TENON_S_SHR_L, "shr_logical(i8[2] [-8, 8], i8[2] [1, 2]) -> i8[2] [124, 2]",
              "shr_logical(i32[2], i32[3])")
      .fold<fold_neutral<0, false>>();
}

TENON_OPS(arithmetic, add, sub, mul, div, rem, pow, atan2, max, min, and_, or_, xor_, shl,
          shr_arith, shr_logical)

}  // namespace tenon::ops::arithmetic
