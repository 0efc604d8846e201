// std, norm, l2_normalize, batch_norm_train: statistics that norm.cpp and moments.cpp have not.
#include "compose.h"

namespace tenon::ops::norm_more {

Status infer_reduce(const InferQuery& q) {
  TENON_TRY(q.require_axes("C1", q.i64s("dims"), q.rank(0)));
  return q.result(q.dtype(0), without(q.dims(0), q.i64s("dims")));
}
Status infer_norm(const InferQuery& q) {
  const double p = q.f64("p");
  if (!(p >= 0)) return q.fail("C2", cat("p is ", p));
  return infer_reduce(q);
}
Status decompose_std(Builder& b, const Node& node, tenon_value_t* out) {
  const Axes dims = node.i64s("dims");
  const Term x = {b, widen(b, node.operand(0))};
  const Term var = {
      b, b.build("var", {x.v}, {{"dims", dims}, {"correction", node.i64("correction")}})};
  return b.finish(out, {as(sqrt(var), node.result().dtype())});
}
Term norm_of(Term x, const Axes& dims, double p) {
  if (std::isinf(p)) return max(reduced("reduce_max", abs(x), dims), 0);
  if (p == 0) return reduced("reduce_sum", as(compare(x, TENON_CMP_NE, 0), x.dtype()), dims);
  if (p == 1) return reduced("reduce_sum", abs(x), dims);
  if (p == 2) return sqrt(reduced("reduce_sum", x * x, dims));
  return pow(reduced("reduce_sum", pow(abs(x), p), dims), 1 / p);
}
Status decompose_norm(Builder& b, const Node& node, tenon_value_t* out) {
  const Axes dims = node.i64s("dims");
  return b.finish(out, {as(norm_of({b, widen(b, node.operand(0))}, dims, node.f64("p")),
                           node.result().dtype())});
}
Status infer_l2(const InferQuery& q) {
  TENON_TRY(q.require_axes("C1", q.i64s("dims"), q.rank(0)));
  return q.result(q.dtype(0), q.dims(0));
}
Status decompose_l2(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, widen(b, node.operand(0))};
  const Axes dims = node.i64s("dims");
  const Term length = max(norm_of(x, dims, 2), node.f64("epsilon"));
  return b.finish(out, {as(x / spread(length, x, dims), node.result().dtype())});
}

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

constexpr OpDraft reduction(std::string_view name, std::string_view summary) {
  OpDraft draft = op(name, kComposite);
  draft.summary(summary)
      .operand("x", "the input", kFloat)
      .result("y", "element type of x")
      .attr_i64s("dims", "the dims that are taken together")
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
}
constexpr OpDraft std_() {
  return reduction("std", "The root of var: how far elements are from their mean.")
      .attr_i64("correction", "what is taken from the number of elements", 0)
      .constraint("C1", "dims are distinct dims of x", "std(f32[2]) {dims = [1]}")
      .example("std(f32[2] [1, 5]) {dims = [0]} -> f32[] 2")
      .infer<infer_reduce>()
      .decompose<decompose_std>();
}
constexpr OpDraft norm_p() {
  return reduction(
             "norm",
             "The p-norm over some dims; 0 counts what is not 0, inf is the largest magnitude.")
      .attr_f64("p", "which norm", 2)
      .constraint("C1", "dims are distinct dims of x", "norm(f32[2]) {dims = [1]}")
      .constraint("C2", "p is at least 0", "norm(f32[2]) {dims = [0], p = -1.0}")
      .example("norm(f32[2] [3, -4]) {dims = [0]} -> f32[] 5")
      .example("norm(f32[2] [3, -4]) {dims = [0], p = inf} -> f32[] 4")
      .infer<infer_norm>()
      .decompose<decompose_norm>();
}
constexpr OpDraft l2_normalize() {
  return reduction("l2_normalize", "x divided by its 2-norm over some dims.")
      .attr_f64("epsilon", "the least that is divided by", 1e-12)
      .constraint("C1", "dims are distinct dims of x", "l2_normalize(f32[2]) {dims = [1]}")
      .example("l2_normalize(f32[2] [3, -4]) {dims = [0]} -> f32[2] [0.6, -0.8]")
      .infer<infer_l2>()
      .decompose<decompose_l2>();
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
      .attr_i64("correction",
                "1: the running variance divides by one less than the number of elements", 0)
      .constraint("C1", "dim is a dim of x",
                  "batch_norm_train(f32[2], f32[2], f32[2], f32[2], f32[2])")
      .constraint("C2", "scale, bias, mean and var have one entry per channel",
                  "batch_norm_train(f32[1, 2], f32[2], f32[2], f32[2], f32[3])")
      .example(
          "batch_norm_train(f32[2, 1] [[1], [5]], f32[1] [2], f32[1] [1], f32[1] [0], f32[1] [1]) "
          "{epsilon = 0.0, momentum = 0.5} -> f32[2, 1] [[-1], [3]], f32[1] [1.5], f32[1] [2.5]")
      .infer<infer_train>()
      .decompose<decompose_train>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
}

TENON_OPS(norm_more, std_, norm_p, l2_normalize, batch_norm_train)

}  // namespace tenon::ops::norm_more
