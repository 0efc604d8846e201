// batch_norm_train: batch_norm with the statistics of x, for training.
#include "compose.h"
#include "derivative.h"
#include "flag.h"

namespace tenon::ops::batch_norm_train {

Status infer_train(const InferQuery& q) {
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), q.rank(0)));
  const Dim channels = q.dim(0, static_cast<uint32_t>(q.i64("dim")));
  for (uint32_t i = 1; i < 5; ++i)
    TENON_TRY(
        q.require_equal("C2", q.dim(i, 0), channels, cat("operand ", i, " and the channels of x")));
  TENON_TRY(q.result(q.dtype(0), q.dims(0)));
  TENON_TRY(q.result(q.dtype(3), {channels}));
  return q.result(q.dtype(4), {channels});
}
Status decompose_train(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, widen(b, node.operand(0))};
  const tenon_dtype_t wide = x.dtype();
  const auto operand = [&](uint32_t i) { return as({b, node.operand(i)}, wide); };
  const int64_t dim = node.i64("dim");
  const Axes rest = others(x.rank(), Axes{dim});
  const double keep = node.f64("momentum");
  const Term mean = {b, mean_along(b, x, rest)};
  const Term distance = x - spread(mean, x, rest);
  const Term var = {b, mean_along(b, distance * distance, rest)};
  const Term factor = apply("rsqrt", var + node.f64("epsilon")) * operand(1);
  const Term y = distance * spread(factor, x, rest) + spread(operand(2), x, rest);
  Term kept_var = var;
  if (node.i64("correction") != 0) {
    const Term n = {b, count_along(b, x, rest, wide)};
    kept_var = var * (n / (n - 1));
  }
  const Term new_mean = operand(3) * keep + mean * (1 - keep),
             new_var = operand(4) * keep + kept_var * (1 - keep);
  return b.finish(out, {as(y, node.result(0).dtype()), as(new_mean, node.result(1).dtype()),
                        as(new_var, node.result(2).dtype())});
}

// With y the normalised x before scale and bias, and f = 1 / sqrt(var + epsilon):
// f * scale * (t - mean of t - y * mean of y * t) + y * tangent of scale + tangent of bias; the
// mean of t; 2 * the mean of (x - mean) * t. All come from x again: nothing else is kept for them.
std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Term x = {b, widen(b, node.operand(0))};
  const auto wide = [&](Value v) { return v ? as({b, v}, x.dtype()) : Term{}; };
  const auto added = [](Term p, Term q) { return !p.v ? q : q.v ? p + q : p; };
  const Axes rest = others(x.rank(), Axes{node.i64("dim")});
  const auto mean = [&](Term v) { return Term{b, mean_along(b, v, rest)}; };
  const Term distance = x - spread(mean(x), x, rest);
  const Term factor = apply("rsqrt", mean(distance * distance) + node.f64("epsilon"));
  const Term y = distance * spread(factor, x, rest), t = wide(tangents[0]);
  const double keep = node.f64("momentum");
  Term sums[3];
  if (t.v) {
    const Term level = mean(t), moment = mean(distance * t);
    const Term inner = t - spread(level, x, rest) - y * spread(moment * factor, x, rest);
    sums[0] = spread(factor * wide(node.operand(1)), x, rest) * inner;
    sums[1] = level * (1 - keep);
    sums[2] = moment * (2 * (1 - keep));
    if (node.i64("correction") != 0) {
      const Term n = {b, count_along(b, x, rest, x.dtype())};
      sums[2] = sums[2] * (n / (n - 1));
    }
  }
  if (tangents[1]) sums[0] = added(sums[0], y * spread(wide(tangents[1]), x, rest));
  if (tangents[2]) sums[0] = added(sums[0], spread(wide(tangents[2]), x, rest));
  if (tangents[3]) sums[1] = added(sums[1], wide(tangents[3]) * keep);
  if (tangents[4]) sums[2] = added(sums[2], wide(tangents[4]) * keep);
  std::vector<Value> out;
  for (uint32_t i = 0; i < 3; ++i)
    out.push_back(sums[i].v ? b.convert(sums[i], node.result(i).dtype()) : Value());
  return out;
}

constexpr OpDraft batch_norm_train() {
  OpDraft draft = op("batch_norm_train", kComposite);
  draft.summary("batch_norm with the mean and variance of x itself, and running ones brought on.")
      .operand("x", "the input", kFloat, 0, 1)
      .operand("scale", "one per channel", kFloat, 0, 1, 1)
      .operand("bias", "one per channel", kFloat, 0, 1, 1)
      .operand("mean", "the running mean, one per channel", kFloat, 0, 1, 1)
      .operand("var", "the running variance, one per channel", kFloat, 0, 1, 1)
      .result("y", "same type as x")
      .result("new_mean", "momentum mean + (1 - momentum) times the mean of x")
      .result("new_var", "likewise for the variance")
      .attr_i64("dim", "the dim of channels", 1)
      .attr_f64("epsilon", "added to the variance", 1e-5)
      .attr_f64("momentum", "how much of the running statistics stays", 0.9)
      .attr(flag("correction",
                 "1: the running variance divides by one less than the number of elements", 0))
      .constraint("C1", "dim is a dim of x",
                  "batch_norm_train(f32[2], f32[2], f32[2], f32[2], f32[2])")
      .constraint("C2", "scale, bias, mean and var have one entry per channel",
                  "batch_norm_train(f32[1, 2], f32[2], f32[2], f32[2], f32[3])")
      .example(
          "batch_norm_train(f32[2, 1] [[1], [5]], f32[1] [2], f32[1] [1], f32[1] [0], f32[1] [1]) "
          "{epsilon = 0.0, momentum = 0.5} -> f32[2, 1] [[-1], [3]], f32[1] [1.5], f32[1] [2.5]")
      .infer<infer_train>()
      .decompose<decompose_train>()
      .jvp<jvp>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
}

TENON_OPS(batch_norm_train, batch_norm_train)

}  // namespace tenon::ops::batch_norm_train
