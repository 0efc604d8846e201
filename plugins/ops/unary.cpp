// Element-wise primitives with one operand: each is one scalar instruction.
#include "complex_math.h"

namespace tenon::ops::unary {

struct Row {
  std::string_view name, summary, example;
  uint32_t instruction;
  tenon_dtypes_t dtypes;
  uint32_t cost;
  double ulp_f32 = 0, ulp_f64 = 0;
  uint32_t ulp_of = TENON_ULP_OF_RESULT;
};

inline Complex complex_neg(const Complex& z) {
  return -z;
}
// What an instruction means for complex numbers; null: nothing.
constexpr DecomposeFunction complex_meaning(uint32_t instruction) {
  switch (instruction) {
    case TENON_S_NEG:
      return decompose_unary<complex_neg>;
    case TENON_S_ABS:
      return decompose_to_real<magnitude>;
    case TENON_S_SIGN:
      return decompose_unary<complex_sign>;
    case TENON_S_SQRT:
      return decompose_unary<complex_sqrt>;
    case TENON_S_RSQRT:
      return decompose_unary<complex_rsqrt>;
    case TENON_S_EXP:
      return decompose_unary<complex_exp>;
    case TENON_S_EXPM1:
      return decompose_unary<complex_expm1>;
    case TENON_S_LOG:
      return decompose_unary<complex_log>;
    case TENON_S_LOG1P:
      return decompose_unary<complex_log1p>;
    case TENON_S_SIN:
      return decompose_unary<complex_sin>;
    case TENON_S_COS:
      return decompose_unary<complex_cos>;
    case TENON_S_TANH:
      return decompose_unary<complex_tanh>;
    default:
      return nullptr;
  }
}
Status infer_abs(const InferQuery& q) {
  return q.result(is_complex(q.dtype(0)) ? part_of(q.dtype(0)) : q.dtype(0), q.dims(0));
}

constexpr uint32_t kE = TENON_COST_ELEMENTWISE, kT = TENON_COST_TRANSCENDENTAL;
constexpr Row kRows[] = {
    {"neg", "-x; integers wrap.", "neg(f32[2] [1, -2]) -> f32[2] [-1, 2]", TENON_S_NEG, kNumber, kE,
     0.5, 0.5},
    {"abs", "The magnitude of x; the lowest integer stays.", "abs(i32[2] [-3, 4]) -> i32[2] [3, 4]",
     TENON_S_ABS, kNumber, kE, 0.5, 0.5},
    {"sign", "-1, 0 or 1; keeps NaN and -0.", "sign(f32[3] [-2, 0, 5]) -> f32[3] [-1, 0, 1]",
     TENON_S_SIGN, kNumber, kE, 0.5, 0.5},
    {"floor", "The next whole number towards minus infinity.",
     "floor(f32[2] [1.5, -1.5]) -> f32[2] [1, -2]", TENON_S_FLOOR, kFloat, kE, 0.5, 0.5},
    {"ceil", "The next whole number towards infinity.",
     "ceil(f32[2] [1.5, -1.5]) -> f32[2] [2, -1]", TENON_S_CEIL, kFloat, kE, 0.5, 0.5},
    {"trunc", "The next whole number towards zero.", "trunc(f32[2] [1.5, -1.5]) -> f32[2] [1, -1]",
     TENON_S_TRUNC, kFloat, kE, 0.5, 0.5},
    {"round_even", "The nearest whole number, halves to the even one.",
     "round_even(f32[3] [0.5, 1.5, 2.5]) -> f32[3] [0, 2, 2]", TENON_S_ROUND_EVEN, kFloat, kE, 0.5,
     0.5},
    {"sqrt", "The square root; NaN below 0.", "sqrt(f32[2] [4, 9]) -> f32[2] [2, 3]", TENON_S_SQRT,
     kFloat, kE, 0.5, 0.5},
    {"rsqrt", "1 / sqrt(x).", "rsqrt(f32[2] [4, 16]) -> f32[2] [0.5, 0.25]", TENON_S_RSQRT, kFloat,
     kE, 1.5, 1.5},
    {"exp", "e to the power of x.", "exp(f32[2] [0, 1]) -> f32[2] [1, 2.7182817]", TENON_S_EXP,
     kFloat, kT, 1.5, 2},
    {"expm1", "exp(x) - 1, accurate near 0.", "expm1(f32[2] [0, 1]) -> f32[2] [0, 1.7182818]",
     TENON_S_EXPM1, kFloat, kT, 2, 4},
    {"log", "The natural logarithm; -inf at 0, NaN below.",
     "log(f32[2] [1, 10]) -> f32[2] [0, 2.3025851]", TENON_S_LOG, kFloat, kT, 1.5, 1.5},
    {"log1p", "log(1 + x), accurate near 0.", "log1p(f32[2] [0, 1]) -> f32[2] [0, 0.6931472]",
     TENON_S_LOG1P, kFloat, kT, 2, 2},
    {"sin", "The sine of an angle in radians.", "sin(f32[2] [0, 1]) -> f32[2] [0, 0.84147098]",
     TENON_S_SIN, kFloat, kT, 1.5, 2},
    {"cos", "The cosine of an angle in radians.", "cos(f32[2] [0, 1]) -> f32[2] [1, 0.54030231]",
     TENON_S_COS, kFloat, kT, 1.5, 2},
    {"tanh", "The hyperbolic tangent.", "tanh(f32[2] [0, 1]) -> f32[2] [0, 0.76159416]",
     TENON_S_TANH, kFloat, kT, 3, 5},
    {"logistic", "1 / (1 + exp(-x)).", "logistic(f32[2] [0, 1]) -> f32[2] [0.5, 0.73105858]",
     TENON_S_LOGISTIC, kFloat, kT, 3, 3},
    {"erf", "The error function.", "erf(f32[2] [0, 1]) -> f32[2] [0, 0.84270079]", TENON_S_ERF,
     kFloat, kT, 2, 2},
    {"erfc", "1 - erf(x), accurate for large x.", "erfc(f32[2] [0, 1]) -> f32[2] [1, 0.15729921]",
     TENON_S_ERFC, kFloat, kT, 4.5, 8},
    {"erf_inv", "The inverse of erf; infinite at -1 and 1, NaN beyond.",
     "erf_inv(f32[2] [0, 0.5]) -> f32[2] [0, 0.47693628]", TENON_S_ERF_INV, kFloat, kT, 4, 3},
    {"lgamma", "log |gamma(x)|.", "lgamma(f32[2] [1, 5]) -> f32[2] [0, 3.1780539]", TENON_S_LGAMMA,
     kFloat, kT, 2, 32, TENON_ULP_OF_ONE},
    {"digamma", "The derivative of lgamma.",
     "digamma(f32[2] [1, 2]) -> f32[2] [-0.57721567, 0.42278434]", TENON_S_DIGAMMA, kFloat, kT, 1,
     32, TENON_ULP_OF_ONE},
    {"not", "Logical for pred, bitwise for integers.", "not(i8[2] [0, 5]) -> i8[2] [-1, -6]",
     TENON_S_NOT, kPred | kInt, kE},
    {"popcount", "The number of bits that are set.",
     "popcount(u8[3] [0, 7, 255]) -> u8[3] [0, 3, 8]", TENON_S_POPCOUNT, kInt, kE},
    {"clz", "The number of leading zero bits; the width for 0.",
     "clz(u8[3] [0, 1, 128]) -> u8[3] [8, 7, 0]", TENON_S_CLZ, kInt, kE},
};

// The inner operand when `outer(inner(x))` gives x.
Value fold_involution(Builder&, const Node& node) {
  const Node inner = node.operand(0).node();
  return inner && inner.is(node.op()) ? inner.operand(0) : Value();
}
// For idempotent ops: applying it twice is applying it once.
Value fold_idempotent(Builder&, const Node& node) {
  const Node inner = node.operand(0).node();
  return inner && inner.is(node.op()) ? node.operand(0) : Value();
}
Status neg_value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  if (!x) return TENON_NOT_FOUND;
  std::vector<Dim> values;
  for (Dim d : x->values) values.push_back(q.constant(0) - d);
  return answer_in(q.dtype(0), values, out);
}

template <size_t I>
constexpr OpDraft declare() {
  constexpr Row row = kRows[I];
  OpDraft draft = op(row.name, kPrimitiveElementwise);
  draft.summary(row.summary)
      .operand("x", "the input", row.dtypes)
      .result("y", "same type as x")
      .example(row.example)
      .infer<infer_same>()
      .scalar(scalar::unary(row.instruction, arg(0)))
      .cost(row.cost)
      .accuracy(row.ulp_f32, row.ulp_f64, row.ulp_of);
  constexpr uint32_t s = row.instruction;
  constexpr DecomposeFunction of_complex = complex_meaning(s);
  if constexpr (of_complex != nullptr) {
    draft.operands[0].dtypes |= kComplex;
    draft.decompose_complex<of_complex>();
    if constexpr (s != TENON_S_ABS && s != TENON_S_SIGN) draft.traits(TENON_TRAIT_HOLOMORPHIC);
    if constexpr (s == TENON_S_SIGN) draft.jvp<jvp_complex_sign>();
  }
  if constexpr (s == TENON_S_ABS) {
    draft.infer<infer_abs>();
    draft.results[0].doc = str("same type as x; f32 of c64, f64 of c128");
  }
  if constexpr (s == TENON_S_NEG || s == TENON_S_NOT) draft.fold<fold_involution>();
  if constexpr (s == TENON_S_NEG) draft.alias("negate").value_of<neg_value_of>();
  if constexpr (s == TENON_S_LOGISTIC) draft.alias("sigmoid");
  if constexpr (s == TENON_S_ABS || s == TENON_S_SIGN ||
                (s >= TENON_S_FLOOR && s <= TENON_S_ROUND_EVEN)) {
    draft.fold<fold_idempotent>().traits(TENON_TRAIT_IDEMPOTENT);
  }
  // Their library functions are off by a few units in the last place on either side.
  if constexpr (s == TENON_S_LGAMMA || s == TENON_S_DIGAMMA || s == TENON_S_ERF_INV)
    draft.tolerance(10);
  return draft;
}

TENON_OPS(unary, declare<0>, declare<1>, declare<2>, declare<3>, declare<4>, declare<5>, declare<6>,
          declare<7>, declare<8>, declare<9>, declare<10>, declare<11>, declare<12>, declare<13>,
          declare<14>, declare<15>, declare<16>, declare<17>, declare<18>, declare<19>, declare<20>,
          declare<21>, declare<22>, declare<23>, declare<24>)

}  // namespace tenon::ops::unary
