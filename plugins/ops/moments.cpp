// mean, var, std, logsumexp: composite reductions over some dims.
#include "compose.h"
#include "derivative.h"

namespace tenon::ops::moments {

Status infer(const InferQuery& q) {
  TENON_TRY(q.require_axes("C1", q.i64s("dims"), q.rank(0)));
  return q.result(q.dtype(0), without(q.dims(0), q.i64s("dims")));
}

Status decompose_mean(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0);
  const Axes axes = node.i64s("dims");
  return b.finish(out, {b.convert(mean_along(b, widen(b, x), axes), x.dtype())});
}
Status decompose_var(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = widen(b, node.operand(0));
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const Axes axes = node.i64s("dims");
  const double correction = static_cast<double>(node.i64("correction"));
  const Value distance = b.build("sub", {x, spread(b, mean_along(b, x, axes), x, axes)});
  const Value sum = reduce(b, "reduce_sum", b.build("mul", {distance, distance}), axes);
  Value count = count_along(b, x, axes, x.dtype());
  if (correction != 0) count = b.build("sub", {count, b.scalar(x.dtype(), correction)});
  return b.finish(out, {b.convert(b.build("div", {sum, b.splat(count, sum.dims())}), dtype)});
}
Status decompose_std(Builder& b, const Node& node, tenon_value_t* out) {
  const Axes dims = node.i64s("dims");
  const Value x = widen(b, node.operand(0));
  const Value var = b.build("var", {x}, {{"dims", dims}, {"correction", node.i64("correction")}});
  return b.finish(out, {b.convert(b.build("sqrt", {var}), node.result().dtype())});
}
Status decompose_logsumexp(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = widen(b, node.operand(0));
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const Axes axes = node.i64s("dims");
  const Value top = reduce(b, "reduce_max", x, axes);
  // An infinite maximum would give inf - inf.
  const Value shift = b.build("select", {b.build("is_finite", {top}), top, b.full_like(top, 0)});
  const Value powers = b.build("exp", {b.build("sub", {x, spread(b, shift, x, axes)})});
  const Value log = b.build("log", {reduce(b, "reduce_sum", powers, axes)});
  return b.finish(out, {b.convert(b.build("add", {log, shift}), dtype)});
}

// ---- Derivatives ----

Term widened(Builder& b, Value v) {
  return {b, widen(b, v)};
}
// x minus its mean; its sum is 0, so that the mean of a tangent drops out.
Term distance_of(Builder& b, Term x, const Axes& axes) {
  return x - spread({b, mean_along(b, x, axes)}, x, axes);
}
// The sum of (x - mean) * t over count - correction.
Term comoment(Builder& b, const Node& node, Value tangent) {
  const Term x = widened(b, node.operand(0));
  const Axes axes = node.i64s("dims");
  const Term sum = reduced("reduce_sum", distance_of(b, x, axes) * widened(b, tangent), axes);
  const Term count = {b, count_along(b, x, axes, x.dtype())};
  return sum / (count - static_cast<double>(node.i64("correction")));
}
// 2 * comoment
std::vector<Value> jvp_var(Builder& b, const Node& node, std::span<const Value> tangents) {
  return {as(comoment(b, node, tangents[0]) * 2, node.result().dtype())};
}
// comoment / y; 0 where all elements are equal
std::vector<Value> jvp_std(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Term y = widened(b, node.result());
  const Term divisor = where(compare(y, TENON_CMP_EQ, 0), 1, y);
  return {as(comoment(b, node, tangents[0]) / divisor, node.result().dtype())};
}
// The sum of t * exp(x - y); 0 where all elements are -inf
std::vector<Value> jvp_logsumexp(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Term x = widened(b, node.operand(0)), y = widened(b, node.result());
  const Axes axes = node.i64s("dims");
  const Term shift = where(apply("is_finite", y), y, 0);
  const Term weights = exp(x - spread(shift, x, axes));
  return {
      as(reduced("reduce_sum", weights * widened(b, tangents[0]), axes), node.result().dtype())};
}

constexpr OpDraft base(std::string_view name, std::string_view summary, std::string_view example,
                       std::string_view negative) {
  OpDraft draft = op(name, kComposite);
  draft.summary(summary)
      .operand("x", "the input", kFloat)
      .result("y", "element type of x, without dims")
      .attr_i64s("dims", "the dims that go away")
      .role(TENON_ROLE_AXES)
      .batched({0})
      .constraint("C1", "dims are distinct dims of x", negative)
      .example(example)
      .infer<infer>()
      .cost(TENON_COST_REDUCTION);
  return draft;
}
constexpr OpDraft with_complex(OpDraft draft) {
  draft.operands[0].dtypes |= kComplex;
  return draft;
}
constexpr OpDraft mean() {
  return with_complex(base("mean", "The mean over some dims; NaN over none.",
                           "mean(f32[2, 2] [[1, 2], [3, 5]]) {dims = [1]} -> f32[2] [1.5, 4]",
                           "mean(f32[2]) {dims = [1]}"))
      .decompose<decompose_mean>()
      .decompose_complex<by_parts>();
}
constexpr OpDraft var() {
  return base("var", "The mean squared distance from the mean, in two passes.",
              "var(f32[4] [1, 2, 3, 4]) {dims = [0]} -> f32[] 1.25", "var(f32[2]) {dims = [1]}")
      .attr_i64("correction", "taken off the count: 1 for a sample", 0)
      .decompose<decompose_var>()
      .jvp<jvp_var>()
      .tolerance(4);
}
constexpr OpDraft std_() {
  return base("std", "The root of var: how far elements are from their mean.",
              "std(f32[2] [1, 5]) {dims = [0]} -> f32[] 2", "std(f32[2]) {dims = [1]}")
      .attr_i64("correction", "taken off the count: 1 for a sample", 0)
      .decompose<decompose_std>()
      .jvp<jvp_std>()
      .tolerance(8);
}
constexpr OpDraft logsumexp() {
  return base("logsumexp", "log of the sum of exp, without overflow.",
              "logsumexp(f32[2] [1000, 1000]) {dims = [0]} -> f32[] 1000.6931",
              "logsumexp(f32[2]) {dims = [1]}")
      .decompose<decompose_logsumexp>()
      .jvp<jvp_logsumexp>()
      .tolerance(4);
}

TENON_OPS(moments, mean, var, std_, logsumexp)

}  // namespace tenon::ops::moments
