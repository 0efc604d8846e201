// sgd_step, adam_step, adamw_step: update steps of optimisers.
#include "compose.h"
#include "flag.h"

namespace tenon::ops::optimiser {

template <uint32_t kStates>
Status infer(const InferQuery& q) {
  for (uint32_t i = 1; i <= kStates + 1; ++i) TENON_TRY(q.require_same_shape("C1", 0, i));
  for (uint32_t i = 0; i <= kStates; ++i) TENON_TRY(q.result(q.dtype(0), q.dims(0)));
  return {};
}

Status decompose_sgd(Builder& b, const Node& node, tenon_value_t* out) {
  const Term p = {b, node.operand(0)}, rate = {b, node.operand(3)};
  const double momentum = node.f64("momentum"), decay = node.f64("weight_decay");
  const bool nesterov = node.i64("nesterov") != 0;
  Term g = {b, node.operand(1)}, v = {b, node.operand(2)};
  if (decay != 0) g = g + p * decay;
  v = v * momentum + g * (1 - node.f64("dampening"));
  const Term step = nesterov ? g + v * momentum : v;
  return b.finish(out, {p - step * rate, v});
}

template <bool kDecoupled>
Status decompose_adam(Builder& b, const Node& node, tenon_value_t* out) {
  Term p = {b, node.operand(0)}, g = {b, node.operand(1)}, m = {b, node.operand(2)},
       v = {b, node.operand(3)};
  const Term rate = {b, node.operand(4)}, count = as({b, node.operand(5)}, p.dtype());
  const double beta1 = node.f64("beta1"), beta2 = node.f64("beta2"),
               decay = node.f64("weight_decay");
  if (decay != 0 && kDecoupled) p = p - p * (rate * decay);
  if (decay != 0 && !kDecoupled) g = g + p * decay;
  m = m * beta1 + g * (1 - beta1);
  v = v * beta2 + g * g * (1 - beta2);
  // The running means start at 0; this corrects their bias.
  const Term of_mean = 1 - apply("pow", constant(b, p.dtype(), beta1), count);
  const Term of_square = sqrt(1 - apply("pow", constant(b, p.dtype(), beta2), count));
  const Term size = sqrt(v) / of_square + node.f64("epsilon");
  return b.finish(out, {p - m / size * (rate / of_mean), m, v});
}

constexpr tenon_dtypes_t kWide = dtype_bit(TENON_F32) | dtype_bit(TENON_F64);

constexpr OpDraft base(std::string_view name, std::string_view summary) {
  OpDraft draft = op(name, kComposite);
  draft.summary(summary)
      .operand("x", "the parameter", kWide, 1)
      .operand("gradient", "its gradient", kWide, 1)
      .cost(TENON_COST_ELEMENTWISE)
      .tolerance(8);
  return draft;
}
constexpr OpDraft sgd_step() {
  return base("sgd_step", "A step of gradient descent with momentum.")
      .doc(
          "v' = momentum v + (1 - dampening) g with g = gradient + weight_decay x; the parameter "
          "moves by -rate v', or by -rate (g + momentum v') with nesterov.")
      .operand("velocity", "the running sum, 0 at first", kWide, 1)
      .operand("rate", "the learning rate, rank 0", kWide, 1, 0, 0)
      .result("new_x", "the parameter after the step")
      .result("new_velocity", "the running sum after the step")
      .attr_f64("momentum", "how much of the velocity stays", 0)
      .attr_f64("dampening", "what the gradient lacks on its way into the velocity", 0)
      .attr_f64("weight_decay", "how much of x is added to the gradient", 0)
      .attr(flag("nesterov", "1: look ahead by momentum", 0))
      .constraint("C1", "x, gradient and velocity have equal shapes",
                  "sgd_step(f32[2], f32[3], f32[2], f32[])")
      .example(
          "sgd_step(f32[1] [1], f32[1] [2], f32[1] [4], f32[] 0.5) {momentum = 0.5} -> f32[1] "
          "[-1], f32[1] [4]")
      .infer<infer<1>>()
      .decompose<decompose_sgd>();
}
template <bool kDecoupled>
constexpr OpDraft adam() {
  OpDraft draft =
      base(kDecoupled ? "adamw_step" : "adam_step",
           kDecoupled ? "A step of Adam whose weight decay does not go through the means."
                      : "A step of Adam: by the running mean over the root of the running square.");
  return draft.operand("mean", "the running mean of gradients, 0 at first", kWide, 1)
      .operand("square", "the running mean of their squares, 0 at first", kWide, 1)
      .operand("rate", "the learning rate, rank 0", kWide, 1, 0, 0)
      .operand("count", "which step this is, from 1, rank 0", kIndex, 0, 0, 0)
      .result("new_x", "the parameter after the step")
      .result("new_mean", "the running mean after the step")
      .result("new_square", "the running square after the step")
      .attr_f64("beta1", "how much of the mean stays", 0.9)
      .attr_f64("beta2", "how much of the square stays", 0.999)
      .attr_f64("epsilon", "added to the root", 1e-8)
      .attr_f64("weight_decay",
                kDecoupled ? "the part of x that goes away, times the rate"
                           : "how much of x is added to the gradient",
                kDecoupled ? 0.01 : 0)
      .constraint("C1", "x, gradient, mean and square have equal shapes",
                  kDecoupled ? "adamw_step(f32[2], f32[3], f32[2], f32[2], f32[], i64[])"
                             : "adam_step(f32[2], f32[3], f32[2], f32[2], f32[], i64[])")
      .example(kDecoupled
                   ? "adamw_step(f32[1] [1], f32[1] [2], f32[1] [0], f32[1] [0], f32[] 0.5, i64[] "
                     "1) {weight_decay = 0.0} -> f32[1] [0.5], f32[1] [0.2], f32[1] [0.004]"
                   : "adam_step(f32[1] [1], f32[1] [2], f32[1] [0], f32[1] [0], f32[] 0.5, i64[] "
                     "1) -> f32[1] [0.5], f32[1] [0.2], f32[1] [0.004]")
      .tolerance(64)
      .template infer<infer<2>>()
      .template decompose<decompose_adam<kDecoupled>>();
}

TENON_OPS(optimiser, sgd_step, adam<false>, adam<true>)

}  // namespace tenon::ops::optimiser
