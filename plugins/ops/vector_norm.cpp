// norm and l2_normalize: lengths of vectors, and vectors scaled to length 1.
#include "compose.h"

namespace tenon::ops::vector_norm {

Status infer_reduce(const InferQuery& q) {
  TENON_TRY(q.require_axes("C1", q.i64s("dims"), q.rank(0)));
  return q.result(q.dtype(0), without(q.dims(0), q.i64s("dims")));
}
Status infer_norm(const InferQuery& q) {
  const double p = q.f64("p");
  if (!(p >= 0)) return q.fail("C2", cat("p is ", p));
  return infer_reduce(q);
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
// With r = |x| / y: the sum of sign(x) * r^(p - 1) * t; of infinity, the mean of sign(x) * t over
// the largest; 0 where y is 0.
std::vector<Value> jvp_norm(Builder& b, const Node& node, std::span<const Value> tangents) {
  const double p = node.f64("p");
  if (p == 0) return {};
  const Axes dims = node.i64s("dims");
  const Term x = {b, widen(b, node.operand(0))}, y = {b, widen(b, node.result())};
  const Term length = spread(where(compare(y, TENON_CMP_EQ, 0), 1, y), x, dims);
  Term slope = apply("sign", x);
  if (p == 2) {
    slope = x / length;
  } else if (std::isinf(p)) {
    const Term most = as(compare(abs(x), TENON_CMP_EQ, spread(y, x, dims)), x.dtype());
    slope = slope * most / spread(reduced("reduce_sum", most, dims), x, dims);
  } else if (p != 1) {
    // Another base at 0, where the sign is 0, keeps infinity out.
    slope = slope * pow(where(compare(x, TENON_CMP_EQ, 0), 1, abs(x) / length), p - 1);
  }
  const Term t = {b, widen(b, tangents[0])};
  return {as(reduced("reduce_sum", slope * t, dims), node.result().dtype())};
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

// (t - y * sum of y * t) / length; t / epsilon where the length is below epsilon; 0 where both are
// 0
std::vector<Value> jvp_l2(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Term x = {b, widen(b, node.operand(0))}, t = {b, widen(b, tangents[0])};
  const Axes dims = node.i64s("dims");
  const double epsilon = node.f64("epsilon");
  const Term own = norm_of(x, dims, 2), length = max(own, epsilon);
  const Term nothing = compare(length, TENON_CMP_EQ, 0);
  const Term factor = where(nothing, 0, 1 / where(nothing, 1, length));
  const Term y = x * spread(factor, x, dims);
  const Term is_free = as(compare(own, TENON_CMP_GT, epsilon), x.dtype());
  const Term along = reduced("reduce_sum", y * t, dims) * is_free;
  return {as((t - y * spread(along, x, dims)) * spread(factor, x, dims), node.result().dtype())};
}

constexpr OpDraft reduction(std::string_view name, std::string_view summary) {
  OpDraft draft = op(name, kComposite);
  draft.summary(summary)
      .operand("x", "the input", kFloat)
      .result("y", "element type of x")
      .attr_i64s("dims", "the dims that are taken together")
      .role(TENON_ROLE_AXES)
      .batched({0})
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
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
      .decompose<decompose_norm>()
      .jvp<jvp_norm>();
}
constexpr OpDraft l2_normalize() {
  return reduction("l2_normalize", "x divided by its 2-norm over some dims.")
      .attr_f64("epsilon", "the least that is divided by", 1e-12)
      .constraint("C1", "dims are distinct dims of x", "l2_normalize(f32[2]) {dims = [1]}")
      .example("l2_normalize(f32[2] [3, -4]) {dims = [0]} -> f32[2] [0.6, -0.8]")
      .infer<infer_l2>()
      .decompose<decompose_l2>()
      .jvp<jvp_l2>();
}

TENON_OPS(vector_norm, norm_p, l2_normalize)

}  // namespace tenon::ops::vector_norm
