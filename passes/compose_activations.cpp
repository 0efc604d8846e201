#include "compose.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("product"), str("quotient")};

constexpr double kSqrtHalf = 0.70710678118654752440;   // 1 / sqrt(2)
constexpr double kTanhScale = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kTanhCube = 0.044715;

Value add_one(Value v) {
  return v.node().is("add") ? other_than(v.node(), 1) : Value();
}

// erf(x / sqrt(2)) + 1
bool is_gauss(Value v, Value x) {
  const Node erf = add_one(v).node();
  return erf.is("erf") && product_of(erf.operand(0)).is(kSqrtHalf, {x}, x.dtype());
}

// tanh(sqrt(2/pi) (x + 0.044715 x^3)) + 1, the cubic also in the form x (1 + 0.044715 x^2).
bool is_tanh_gauss(Value v, Value x) {
  const Node tanh = add_one(v).node();
  if (!tanh.is("tanh")) return false;
  const Product scaled = product_of(tanh.operand(0));
  if (!is_about(scaled.number, kTanhScale, x.dtype())) return false;
  const auto is_cubic = [&](Value sum, Value rest, std::vector<Value> powers) {
    const Node add = sum.node();
    for (uint32_t i = 0; add.is("add") && i < 2; ++i) {
      const bool first = rest.valid()
                             ? add.operand(i) == rest
                             : is_about(splat_of(add.operand(i)).value_or(0), 1, x.dtype());
      if (first && product_of(add.operand(1 - i)).is(kTanhCube, powers, x.dtype())) return true;
    }
    return false;
  };
  if (scaled.values.size() == 1) return is_cubic(scaled.values[0], x, {x, x, x});
  if (scaled.values.size() != 2) return false;
  const Value other = scaled.values[scaled.values[0] == x ? 1 : 0];
  return (scaled.values[0] == x || scaled.values[1] == x) && is_cubic(other, Value(), {x, x});
}

// The x of clamp(x + 3, 0, 6); invalid for other values.
Value below_relu6(Value v) {
  const Node clamp = v.node();
  if (!clamp.is("clamp") || clamp.f64("min") != 0 || clamp.f64("max") != 6) return Value();
  const Node add = clamp.operand(0).node();
  return add.is("add") ? other_than(add, 3) : Value();
}

// The name of the activation that number * x * gate is; empty if none.
std::string_view named(double number, Value x, Value gate) {
  const tenon_dtype_t type = x.dtype();
  const Node node = gate.node();
  if (is_about(number, 0.5, type))
    return is_gauss(gate, x) ? "gelu" : is_tanh_gauss(gate, x) ? "gelu_tanh" : "";
  if (is_about(number, 1.0 / 6, type))
    return below_relu6(gate) == x && x.valid() ? "hard_swish" : "";
  if (!is_about(number, 1, type) || !node) return "";
  if (node.is("logistic") && node.operand(0) == x) return "silu";
  if (node.is("hard_sigmoid") && node.operand(0) == x) {
    const bool standard = is_about(node.f64("alpha"), 1.0 / 6, type) && node.f64("beta") == 0.5;
    return standard ? "hard_swish" : "";
  }
  const Node inner = node.is("tanh") ? node.operand(0).node() : Node();
  return inner.is("softplus") && inner.operand(0) == x ? "mish" : "";
}

// Ends: each application removes one product.
Status compose(Builder& builder, const Node& node, std::vector<Value>* out) {
  const Value y = node.result();
  if (!is_float(y.dtype())) return {};
  const Product product = product_of(y);
  if (product.values.size() == 1) {
    const Value x = below_relu6(product.values[0]);
    if (!x.valid() || !is_about(product.number, 1.0 / 6, x.dtype())) return {};
    *out = {builder.build("hard_sigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}})};
    return {};
  }
  if (product.values.size() != 2) return {};
  for (size_t i = 0; i < 2; ++i) {
    const Value x = product.values[i];
    const std::string_view name = named(product.number, x, product.values[1 - i]);
    if (name.empty()) continue;
    *out = {builder.build(name, {x})};
    return {};
  }
  return {};
}

constexpr tenon_rewrite_t kRewrites[] = {rewrite<compose>("product", "mul"),
                                         rewrite<compose>("quotient", "div")};

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2], z: f32[2]) {
  %0 = const f32[2] splat 3
  %1 = const f32[2] splat 6
  %2 = logistic(%x) : f32[2]
  %3 = mul(%x, %2) : f32[2]
  %4 = add(%x, %0) : f32[2]
  %5 = clamp(%4) {min = 0.0, max = 6.0} : f32[2]
  %6 = div(%5, %1) : f32[2]
  yield %3, %6
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2], z: f32[2]) {
  %0 = silu(%x) : f32[2]
  %1 = hard_sigmoid(%x) {alpha = 0.16666666666666666} : f32[2]
  yield %0, %1
}
)";

constexpr auto kPass =
    pass("compose-activations", "Recognises activations that exporters decomposed.")
        .describe(
            "Products that are gelu (by erf or tanh), silu, mish, hard_swish or "
            "hard_sigmoid become that op, with their factors in any order. Numbers "
            "are compared up to the precision of the element type.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .rewrites(kRewrites);

}  // namespace
}  // namespace tenon::passes

TENON_PASS(compose_activations, tenon::passes::kPass)
