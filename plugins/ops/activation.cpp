// Activations: element-wise composites, each one scalar program. Decomposition writes out the same
// program as nodes.
#include "common.h"

namespace tenon::ops::activation {

using scalar::Expr;
using scalar::select;

constexpr double kInvSqrt2 = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
// As in other frameworks, the formula decides, not its limit.
constexpr std::string_view kProduct = "NaN at -inf, which the formula multiplies by 0.";

constexpr OpDraft base(std::string_view name, std::string_view summary, const Expr& program,
                       std::string_view example, uint32_t cost = TENON_COST_TRANSCENDENTAL) {
  OpDraft draft = op(name, kCompositeElementwise);
  draft.summary(summary)
      .operand("x", "the input", kFloat)
      .result("y", "same type as x")
      .example(example)
      .infer<infer_same>()
      .scalar(program)
      .decompose_scalar()
      .cost(cost);
  return draft;
}

constexpr Expr softplus_of(const Expr& x) {
  return max(x, 0) + log1p(exp(-abs(x)));
}
constexpr Expr unit_clamp(const Expr& x) {
  return min(max(x, 0), 1);
}

// ---- Derivatives that do not follow from the programs: at kinks, which are decided as in PyTorch,
// and where an intermediate result overflows or loses digits ----

// x below 0, 0 above: so that exp does not overflow on the side that is not taken.
constexpr Expr below_zero() {
  return select(arg(0) > 0, 0, arg(0));
}
// With s = logistic(2 u), (1 + tanh u) / 2: s (1 + 2 x (1 - s) u'). Beyond 20 s is 0 or 1, and x
// cubed could overflow.
constexpr Expr gelu_tanh_slope() {
  const Expr x = min(max(arg(0), -20), 20);
  const Expr s = logistic(2 * kSqrt2OverPi * x * (1 + 0.044715 * x * x));
  return s * (1 + 2 * kSqrt2OverPi * x * (1 - s) * (1 + 3 * 0.044715 * x * x));
}
// With w = n (n + 2) for n = exp(x), tanh(softplus(x)) is w / (w + 2), which is 1 beyond 20.
constexpr Expr mish_slope() {
  const Expr x = min(arg(0), 20), n = exp(x), w = n * (n + 2);
  return w / (w + 2) + x * logistic(x) * (4 * (w + 1) / (w + 2) / (w + 2));
}

constexpr OpDraft relu() {
  OpDraft draft = base("relu", "max(x, 0); NaN stays.", max(arg(0), 0),
                       "relu(f32[3] [-1, 0, 2]) -> f32[3] [0, 0, 2]", TENON_COST_ELEMENTWISE);
  draft.operands[0].dtypes = kNumber;
  return draft.traits(TENON_TRAIT_IDEMPOTENT)
      .accuracy(0.5, 0.5)
      .partial(0, select(arg(0) <= 0, 0, 1));
}
constexpr OpDraft leaky_relu() {
  return base("leaky_relu", "x from 0 on, alpha x below.",
              select(arg(0) >= 0, arg(0), arg(0) * attr(0)),
              "leaky_relu(f32[2] [-2, 3]) {alpha = 0.5} -> f32[2] [-1, 3]", TENON_COST_ELEMENTWISE)
      .attr_f64("alpha", "the slope below 0", 0.01)
      .accuracy(0.5, 0.5)
      .partial(0, select(arg(0) > 0, 1, attr(0)));
}
constexpr OpDraft elu() {
  return base("elu", "x above 0, alpha (exp(x) - 1) below.",
              select(arg(0) > 0, arg(0), attr(0) * expm1(arg(0))),
              "elu(f32[2] [-1, 3]) {alpha = 2.0} -> f32[2] [-1.2642411, 3]")
      .attr_f64("alpha", "the factor below 0", 1)
      .accuracy(3, 4)
      .partial(0, select(arg(0) > 0, 1, attr(0) * exp(below_zero())));
}
constexpr OpDraft selu() {
  return base("selu", "gamma times elu(x) with alpha; the defaults normalise themselves.",
              attr(1) * select(arg(0) > 0, arg(0), attr(0) * expm1(arg(0))),
              "selu(f32[2] [-1, 1]) -> f32[2] [-1.1113307, 1.0507009]")
      .attr_f64("alpha", "the factor below 0", 1.67326319217681884765625)
      .attr_f64("gamma", "the factor of all", 1.05070102214813232421875)
      .accuracy(4, 5)
      .partial(0, attr(1) * select(arg(0) > 0, 1, attr(0) * exp(below_zero())));
}
constexpr OpDraft celu() {
  return base("celu", "max(x, 0) + min(alpha (exp(x / alpha) - 1), 0).",
              max(arg(0), 0) + min(attr(0) * expm1(arg(0) / attr(0)), 0),
              "celu(f32[2] [-2, 3]) {alpha = 2.0} -> f32[2] [-1.2642411, 3]")
      .attr_f64("alpha", "the scale below 0", 1)
      .accuracy(4, 5)
      .partial(0, select(arg(0) > 0, 1, exp(below_zero() / attr(0))));
}
constexpr OpDraft gelu() {
  return base("gelu",
              "x times the share of a normal distribution below x: x (1 + erf(x / sqrt 2)) / 2.",
              arg(0) * 0.5 * (1 + erf(arg(0) * kInvSqrt2)),
              "gelu(f32[3] [-1, 0, 1]) -> f32[3] [-0.15865526, 0, 0.84134471]")
      .doc(kProduct)
      .accuracy(3, 3, TENON_ULP_OF_OPERANDS);
}
constexpr OpDraft gelu_tanh() {
  return base("gelu_tanh", "gelu by its tanh approximation.",
              arg(0) * 0.5 *
                  (1 + tanh(kSqrt2OverPi * (arg(0) + 0.044715 * arg(0) * arg(0) * arg(0)))),
              "gelu_tanh(f32[3] [-1, 0, 1]) -> f32[3] [-0.158808, 0, 0.841192]")
      .doc(kProduct)
      .accuracy(4, 4, TENON_ULP_OF_OPERANDS)
      .partial(0, gelu_tanh_slope());
}
constexpr OpDraft silu() {
  return base("silu", "x times logistic(x).", arg(0) * logistic(arg(0)),
              "silu(f32[2] [0, 1]) -> f32[2] [0, 0.73105858]")
      .doc(kProduct)
      .accuracy(4, 3);
}
constexpr OpDraft mish() {
  return base("mish", "x times tanh(softplus(x)).", arg(0) * tanh(softplus_of(arg(0))),
              "mish(f32[2] [0, 1]) -> f32[2] [0, 0.86509839]")
      .doc(kProduct)
      .accuracy(4.5, 5)
      .partial(0, mish_slope());
}
constexpr OpDraft softplus() {
  return base("softplus", "log(1 + exp(x)), without overflow.", softplus_of(arg(0)),
              "softplus(f32[2] [0, 100]) -> f32[2] [0.6931472, 100]")
      .accuracy(3, 3)
      .partial(0, logistic(arg(0)));
}
constexpr OpDraft softsign() {
  return base("softsign", "x / (1 + |x|).", arg(0) / (1 + abs(arg(0))),
              "softsign(f32[2] [1, -3]) -> f32[2] [0.5, -0.75]", TENON_COST_ELEMENTWISE)
      .doc("NaN at -inf and inf, where the formula divides infinities.")
      .accuracy(2, 2)
      .partial(0, 1 / (1 + abs(arg(0))) / (1 + abs(arg(0))));
}
constexpr OpDraft hard_sigmoid() {
  const Expr line = attr(0) * arg(0) + attr(1);
  return base("hard_sigmoid", "alpha x + beta, kept in [0, 1].", unit_clamp(line),
              "hard_sigmoid(f32[3] [-5, 0, 1]) -> f32[3] [0, 0.5, 0.7]", TENON_COST_ELEMENTWISE)
      .attr_f64("alpha", "the slope", 0.2)
      .attr_f64("beta", "the value at 0", 0.5)
      .accuracy(1, 1, TENON_ULP_OF_OPERANDS)
      .partial(0, select((line > 0) & (line < 1), attr(0), 0));
}
constexpr OpDraft hard_swish() {
  return base("hard_swish", "x times x / 6 + 1/2 kept in [0, 1].",
              arg(0) * unit_clamp(arg(0) * (1.0 / 6) + 0.5),
              "hard_swish(f32[3] [-4, 3, 1]) -> f32[3] [0, 3, 0.6666667]", TENON_COST_ELEMENTWISE)
      .doc(kProduct)
      .accuracy(2, 2, TENON_ULP_OF_OPERANDS)
      .partial(0, select(arg(0) <= -3, 0, select(arg(0) >= 3, 1, arg(0) * (1.0 / 3) + 0.5)));
}
constexpr OpDraft threshold() {
  return base("threshold", "x where it is above a threshold, else a given value; NaN stays.",
              select(arg(0) <= attr(0), attr(1), arg(0)),
              "threshold(f32[3] [1, 2, 3]) {threshold = 2.0, value = 9.0} -> f32[3] [9, 9, 3]",
              TENON_COST_ELEMENTWISE)
      .attr_f64("threshold", "what x has to exceed", 0)
      .attr_f64("value", "what is given instead", 0)
      .accuracy(0.5, 0.5);
}
constexpr OpDraft prelu() {
  OpDraft draft =
      base("prelu", "x from 0 on, slope x below.", select(arg(0) >= 0, arg(0), arg(0) * arg(1)),
           "prelu(f32[2] [-2, 3], f32[2] [0.5, 0.5]) -> f32[2] [-1, 3]", TENON_COST_ELEMENTWISE);
  draft.operands[0].dtype_group = 1;
  return draft.operand("slope", "the slopes below 0, same type as x", kFloat, 1)
      .constraint("C1", "x and slope have equal shapes", "prelu(f32[2], f32[1])")
      .infer<infer_elementwise>()
      .accuracy(0.5, 0.5)
      .partial(0, select(arg(0) > 0, 1, arg(1)))
      .partial(1, select(arg(0) > 0, 0, arg(0)));
}

TENON_OPS(activation, relu, leaky_relu, elu, selu, celu, gelu, gelu_tanh, silu, mish, softplus,
          softsign, hard_sigmoid, hard_swish, threshold, prelu)

}  // namespace tenon::ops::activation
