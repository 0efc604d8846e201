// softmax and log_softmax along one dim.
#include "common.h"
#include "derivative.h"

namespace tenon::ops::softmax_op {

Status infer(const InferQuery& q) {
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), q.rank(0)));
  return q.result(q.dtype(0), q.dims(0));
}

// x minus its maximum along the dim, in f32 for narrow types.
Value shifted(Builder& b, const Node& node, const Axes& axes) {
  const Value x = widen(b, node.operand(0));
  return b.build("sub", {x, spread(b, reduce(b, "reduce_max", x, axes), x, axes)});
}
Status decompose_softmax(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const Axes axes = {node.i64("dim")};
  const Value powers = b.build("exp", {shifted(b, node, axes)});
  const Value sum = spread(b, reduce(b, "reduce_sum", powers, axes), powers, axes);
  return b.finish(out, {b.convert(b.build("div", {powers, sum}), dtype)});
}
Status decompose_log_softmax(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const Axes axes = {node.i64("dim")};
  const Value x = shifted(b, node, axes);
  const Value log = b.build("log", {reduce(b, "reduce_sum", b.build("exp", {x}), axes)});
  return b.finish(out, {b.convert(b.build("sub", {x, spread(b, log, x, axes)}), dtype)});
}

// y * (t - sum of t * y)
std::vector<Value> jvp_softmax(Builder& b, const Node& node, std::span<const Value> tangents) {
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const Axes axes = {node.i64("dim")};
  const Value y = widen(b, node.result());
  const Value product = times(b, widen(b, tangents[0]), y);
  const Value sum = spread(b, reduce(b, "reduce_sum", product, axes), y, axes);
  return {b.convert(minus(b, product, times(b, sum, y)), dtype)};
}
// t - sum of t * exp(y)
std::vector<Value> jvp_log_softmax(Builder& b, const Node& node, std::span<const Value> tangents) {
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const Axes axes = {node.i64("dim")};
  const Value y = widen(b, node.result()), t = widen(b, tangents[0]);
  const Value sum = reduce(b, "reduce_sum", times(b, t, b.build("exp", {y})), axes);
  return {b.convert(minus(b, t, spread(b, sum, y, axes)), dtype)};
}

constexpr OpDraft base(std::string_view name, std::string_view summary, std::string_view example,
                       std::string_view negative) {
  OpDraft draft = op(name, kComposite);
  draft.summary(summary)
      .operand("x", "the input", kFloat, 0, 1)
      .result("y", "same type as x")
      .attr_i64("dim", "the dim that sums to 1", 0)
      .role(TENON_ROLE_AXIS)
      .batched({0})
      .constraint("C1", "dim is a dim of x", negative)
      .example(example)
      .infer<infer>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(4);
  return draft;
}
constexpr OpDraft softmax() {
  return base("softmax", "exp(x) over its sum along a dim, without overflow.",
              "softmax(f32[2, 2] [[0, 0], [0, 1000]]) {dim = 1} -> f32[2, 2] [[0.5, 0.5], [0, 1]]",
              "softmax(f32[2]) {dim = 1}")
      .decompose<decompose_softmax>()
      .jvp<jvp_softmax>();
}
constexpr OpDraft log_softmax() {
  return base("log_softmax", "The logarithm of softmax, accurate where softmax is 0.",
              "log_softmax(f32[2] [0, 1000]) {dim = 0} -> f32[2] [-1000, 0]",
              "log_softmax(f32[2]) {dim = 1}")
      .decompose<decompose_log_softmax>()
      .jvp<jvp_log_softmax>();
}

TENON_OPS(softmax, softmax, log_softmax)

}  // namespace tenon::ops::softmax_op
