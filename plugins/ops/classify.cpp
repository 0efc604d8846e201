// is_nan, is_inf, is_finite: predicates on floats.
#include "complex_math.h"

namespace tenon::ops::classify {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of complex numbers: whether it holds of both parts, or of one.
template <bool kBoth>
Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const Complex z = parts_of(b, node.operand(0));
  const std::string name(node.op());
  const Term re = ops::apply(name, z.re), im = ops::apply(name, z.im);
  return b.finish(out, {kBoth ? re & im : re | im});
}

template <bool kBoth = false>
constexpr OpDraft base(std::string_view name, std::string_view summary, std::string_view example,
                       const scalar::Expr& program) {
  OpDraft draft = op(name, kPrimitiveElementwise);
  draft.summary(summary)
      .operand("x", "the input", kFloat | kComplex)
      .result("y", "pred, shape of x")
      .example(example)
      .infer<infer_elementwise_pred>()
      .scalar(program)
      .template decompose_complex<&decompose<kBoth>>();
  return draft;
}
constexpr OpDraft is_nan() {
  return base<>("is_nan", "Whether x is not a number.",
                "is_nan(f32[3] [1, nan, inf]) -> pred[3] [0, 1, 0]", scalar::is_nan(arg(0)));
}
constexpr OpDraft is_inf() {
  return base<>("is_inf", "Whether x is infinite.",
                "is_inf(f32[4] [1, nan, inf, -inf]) -> pred[4] [0, 0, 1, 1]",
                abs(arg(0)) == kInfinity);
}
constexpr OpDraft is_finite() {
  return base<true>("is_finite", "Whether x is neither infinite nor NaN.",
                    "is_finite(f32[4] [1, nan, inf, -inf]) -> pred[4] [1, 0, 0, 0]",
                    abs(arg(0)) < kInfinity);
}

TENON_OPS(classify, is_nan, is_inf, is_finite)

}  // namespace tenon::ops::classify
