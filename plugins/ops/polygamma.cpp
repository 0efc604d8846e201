// polygamma: derivatives of the logarithm of gamma, of any order.
#include <numbers>

#include "compose.h"

namespace tenon::ops::polygamma_op {

constexpr int64_t kMost = 30;

Status infer(const InferQuery& q) {
  const int64_t order = q.i64("order");
  if (order < 1 || order > kMost) return q.fail("C1", cat("order is ", order));
  return q.result(q.dtype(0), q.dims(0));
}

// The sign of the values above 0.
double sign_of(int64_t order) {
  return order % 2 == 0 ? -1 : 1;
}
double factorial(int64_t n) {
  double out = 1;
  for (int64_t i = 2; i <= n; ++i) out *= static_cast<double>(i);
  return out;
}
// How many terms the sum has before the formula of Euler and Maclaurin takes over: so many that the
// terms of this, which grow with the order, fall by a factor of 10 at least.
int64_t terms_before(int64_t order) {
  return 10 + order;
}
// B(2j) / (2j)! for j = 1, 2, ...
constexpr double kBernoulli[] = {1.0 / 12,
                                 -1.0 / 720,
                                 1.0 / 30240,
                                 -1.0 / 1209600,
                                 1.0 / 47900160,
                                 -691.0 / 1307674368000,
                                 1.0 / 74724249600,
                                 -3617.0 / 10670622842880000,
                                 43867.0 / 5109094217170944000};

// The derivative of cot of this order, as a polynomial in cot: factors of its powers, the lowest
// first. All have one sign.
std::vector<double> cotangent_derivative(int64_t order) {
  std::vector<double> out = {0, 1};
  for (int64_t n = 0; n < order; ++n) {
    std::vector<double> next(out.size() + 1, 0);
    for (size_t i = 1; i < out.size(); ++i) {
      next[i - 1] -= static_cast<double>(i) * out[i];
      next[i + 1] -= static_cast<double>(i) * out[i];
    }
    out = next;
  }
  return out;
}

// The sum of (q + k)^-s over all k from 0, for q of at least 1/2. Number: double or Term.
template <class Number>
Number zeta(int64_t s, Number q) {
  using std::pow;
  const auto power = [](Number x, int64_t n) { return pow(x, -static_cast<double>(n)); };
  const int64_t count = terms_before(s - 1);
  const Number far = q + static_cast<double>(count);
  Number sum = power(far, s - 1) / static_cast<double>(s - 1) + power(far, s) / 2.0;
  double rising = static_cast<double>(s);
  int64_t n = s + 1;
  for (const double b : kBernoulli) {
    sum = sum + power(far, n) * (b * rising);
    rising *= static_cast<double>(n) * static_cast<double>(n + 1);
    n += 2;
  }
  for (int64_t k = count; k-- > 0;) sum = sum + power(q + static_cast<double>(k), s);
  return sum;
}
// The derivative of pi cot(pi x), where `c` is the cotangent.
template <class Number>
Number reflected(int64_t order, Number c) {
  const std::vector<double> factors = cotangent_derivative(order);
  Number out = c * factors.back();
  for (size_t i = factors.size() - 1; i-- > 1;) out = (out + factors[i]) * c;
  return (out + factors[0]) * std::pow(std::numbers::pi, static_cast<double>(order + 1));
}

double polygamma(int64_t order, double x) {
  const double away = x - std::nearbyint(x), sign = sign_of(order);
  if (x <= 0 && away == 0) return sign * std::numeric_limits<double>::infinity();
  const auto plain = [&](double at) { return sign * factorial(order) * zeta(order + 1, at); };
  if (!(x < 0.5)) return plain(x);
  const double angle = std::numbers::pi * away;
  return -sign * plain(1 - x) - reflected(order, std::cos(angle) / std::sin(angle));
}

Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const int64_t order = e.i64("order");
  each_index(y.dims(), [&](const Index& i) {
    store_double(y.dtype(), y.at(i), polygamma(order, load_double(x.dtype(), x.at(i))));
  });
  return {};
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const int64_t order = node.i64("order");
  const Term x = {b, widen(b, node.operand(0))};
  const tenon_dtype_t type = node.result().dtype();
  const double sign = sign_of(order);
  const Term away = x - apply("round_even", x);
  const Term below = compare(x, TENON_CMP_LT, 0.5);
  const Term plain = zeta(order + 1, where(below, 1 - x, x)) * (sign * factorial(order));
  const Term angle = away * std::numbers::pi;
  const Term outer = reflected(order, apply("cos", angle) / apply("sin", angle));
  const Term made = where(below, plain * -sign - outer, plain);
  const Term pole = compare(away, TENON_CMP_EQ, 0) & compare(x, TENON_CMP_LE, 0);
  const Term ends = where(pole, sign * std::numeric_limits<double>::infinity(), made);
  return b.finish(out, {b.convert(ends, type)});
}

std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value slope = b.build("polygamma", {node.operand(0)}, {{"order", node.i64("order") + 1}});
  return {b.build("mul", {tangents[0], slope})};
}

constexpr OpDraft declare() {
  OpDraft draft = op("polygamma", kComposite);
  draft.summary("The derivative of digamma of an order.")
      .doc(
          "Order n is the derivative n + 1 of the logarithm of gamma. At 0 and at negative whole "
          "numbers it is infinite, with the sign that it has just above.")
      .operand("x", "the input", kFloat)
      .result("y", "same type as x")
      .attr_i64("order", "how often digamma is differentiated", 1)
      .constraint("C1", "order is between 1 and 30", "polygamma(f32[2]) {order = 0}")
      .example("polygamma(f32[2] [1, 0.5]) -> f32[2] [1.6449341, 4.934802]")
      .example("polygamma(f32[2] [1, 2]) {order = 2} -> f32[2] [-2.4041138, -0.4041138]")
      .alias("trigamma")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .jvp<jvp>()
      .batched({0})
      .cost(TENON_COST_TRANSCENDENTAL)
      .tolerance(64);
  return draft;
}

TENON_OPS(polygamma, declare)

}  // namespace tenon::ops::polygamma_op
