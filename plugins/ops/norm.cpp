// layer_norm and rms_norm over the last dims, batch_norm and group_norm over channels.
#include "compose.h"
#include "derivative.h"

namespace tenon::ops::norm {

// Requires operands from `first` on to have the dims of x from `dim` on.
Status infer_last(const InferQuery& q) {
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C1", dim, q.rank(0)));
  const auto begin = static_cast<uint32_t>(dim);
  for (uint32_t i = 1; i < q.operand_count(); ++i) {
    if (!q.has(i)) continue;
    if (q.rank(i) != q.rank(0) - begin) {
      return q.fail("C2", cat("operand ", i, " has rank ", q.rank(i), ", x has ", q.rank(0) - begin,
                              " dims from dim on"));
    }
    for (uint32_t k = 0; k < q.rank(i); ++k) {
      TENON_TRY(q.require_equal("C2", q.dim(i, k), q.dim(0, begin + k),
                                cat("dim ", k, " of operand ", i, " and of x")));
    }
  }
  return q.result(q.dtype(0), q.dims(0));
}
// Requires operands after x to have one entry per channel.
Status infer_channels(const InferQuery& q) {
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), q.rank(0)));
  for (uint32_t i = 1; i < q.operand_count(); ++i) {
    TENON_TRY(q.require_equal("C2", q.dim(i, 0), q.dim(0, static_cast<uint32_t>(q.i64("dim"))),
                              cat("operand ", i, " and the channels of x")));
  }
  return q.result(q.dtype(0), q.dims(0));
}
Status infer_groups(const InferQuery& q) {
  TENON_TRY(infer_channels(q));
  if (q.i64("groups") < 1) return q.fail("C3", cat("groups is ", q.i64("groups")));
  return q.require("C3", TENON_REL_DIVISIBLE, q.dim(0, static_cast<uint32_t>(q.i64("dim"))),
                   q.constant(q.i64("groups")), "channels and groups");
}

// y scale + bias; both are optional and lie along `axes` of y.
Value scale_and_shift(Builder& b, Value y, const Node& node, std::span<const int64_t> axes) {
  if (const Value scale = node.operand(1)) {
    y = b.build("mul", {y, b.broadcast(b.convert(scale, y.dtype()), y.dims(), axes)});
  }
  if (const Value bias = node.operand(2)) {
    y = b.build("add", {y, b.broadcast(b.convert(bias, y.dtype()), y.dims(), axes)});
  }
  return y;
}
// (x - mean) / sqrt(var + epsilon) over axes.
Value standardise(Builder& b, Value x, std::span<const int64_t> axes, double epsilon) {
  const Value distance = b.build("sub", {x, spread(b, mean_along(b, x, axes), x, axes)});
  const Value var = mean_along(b, b.build("mul", {distance, distance}), axes);
  const Value factor = b.build("rsqrt", {add_number(b, var, epsilon)});
  return b.build("mul", {distance, spread(b, factor, x, axes)});
}

Status decompose_layer(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = widen(b, node.operand(0));
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const Axes axes = range(node.i64("dim"), x.rank());
  const Value y = standardise(b, x, axes, node.f64("epsilon"));
  return b.finish(out, {b.convert(scale_and_shift(b, y, node, axes), dtype)});
}
Status decompose_rms(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = widen(b, node.operand(0));
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const Axes axes = range(node.i64("dim"), x.rank());
  const Value mean = mean_along(b, b.build("mul", {x, x}), axes);
  const Value factor = b.build("rsqrt", {add_number(b, mean, node.f64("epsilon"))});
  const Value y = b.build("mul", {x, spread(b, factor, x, axes)});
  return b.finish(out, {b.convert(scale_and_shift(b, y, node, axes), dtype)});
}
// Factor and offset are computed per channel, so that the large tensor is read once.
Status decompose_batch(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = widen(b, node.operand(0));
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const auto wide = [&](uint32_t i) { return b.convert(node.operand(i), x.dtype()); };
  const Value scale = wide(1), bias = wide(2), mean = wide(3), var = wide(4);
  const Value factor =
      b.build("mul", {scale, b.build("rsqrt", {add_number(b, var, node.f64("epsilon"))})});
  const Value offset = b.build("sub", {bias, b.build("mul", {mean, factor})});
  const int64_t dim = node.i64("dim");
  const Value y =
      b.build("add", {b.build("mul", {x, along(b, factor, x, dim)}), along(b, offset, x, dim)});
  return b.finish(out, {b.convert(y, dtype)});
}
// The dims of x with the channels as groups and channels of a group.
Dims grouped_dims(Builder& b, const Node& node) {
  const int64_t dim = node.i64("dim");
  const Dim groups = b.dim(node.i64("groups"));
  Dims split = node.operand(0).dims();
  const Dim channels = split[static_cast<size_t>(dim)];
  split[static_cast<size_t>(dim)] = groups;
  split.insert(split.begin() + dim + 1, channels / groups);
  return split;
}
Status decompose_group(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = widen(b, node.operand(0));
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const int64_t dim = node.i64("dim");
  const Dims split = grouped_dims(b, node);
  const Value grouped = b.build("reshape", {x}, {{"shape", split}});
  // The channels of a group and all dims after them are normalised together.
  const Axes axes = range(dim + 1, static_cast<int64_t>(split.size()));
  const Value y = standardise(b, grouped, axes, node.f64("epsilon"));
  const Value flat = b.build("reshape", {y}, {{"shape", x.dims()}});
  return b.finish(out, {b.convert(scale_and_shift(b, flat, node, Axes{dim}), dtype)});
}

// ---- Derivatives ----

// The sum of what is not zero.
Term added(Term x, Term y) {
  if (!x.v) return y;
  return y.v ? x + y : x;
}
// With y = x normalised by `factor`, an invalid mean left out:
// factor * (t - mean of t - y * mean of y * t).
Term along_norm(Builder& b, Term y, Term factor, Term t, const Axes& axes, bool centred) {
  const auto mean = [&](Term v) { return spread({b, mean_along(b, v, axes)}, y, axes); };
  const Term level = centred ? t - mean(t) : t;
  return spread(factor, y, axes) * (level - y * mean(y * t));
}
// t * scale + y * tangent of scale + tangent of bias. `axes`: where scale and bias lie.
std::vector<Value> with_scale(Builder& b, const Node& node, Term y, Term t,
                              std::span<const Value> tangents, const Axes& axes) {
  const auto wide = [&](Value v) {
    return v ? Term{b, b.broadcast(b.convert(v, y.dtype()), y.dims(), axes)} : Term{};
  };
  const auto of = [&](size_t i) { return i < tangents.size() ? wide(tangents[i]) : Term{}; };
  const Term scale = wide(node.operand(1));
  Term sum = t.v && scale.v ? t * scale : t;
  if (of(1).v) sum = added(sum, y * of(1));
  sum = added(sum, of(2));
  return {sum.v ? b.convert(sum, node.result().dtype()) : Value()};
}
// The factor of normalisation, 1 / sqrt(mean of squares + epsilon), of x without its mean.
Term factor_of(Builder& b, const Node& node, Term distance, const Axes& axes) {
  const Term square = {b, mean_along(b, distance * distance, axes)};
  return apply("rsqrt", square + node.f64("epsilon"));
}
std::vector<Value> jvp_last(Builder& b, const Node& node, std::span<const Value> tangents) {
  Term x = {b, widen(b, node.operand(0))}, t;
  const Axes axes = range(node.i64("dim"), x.rank());
  const bool centred = node.is("layer_norm");
  if (centred) x = x - spread({b, mean_along(b, x, axes)}, x, axes);
  const Term factor = factor_of(b, node, x, axes), y = x * spread(factor, x, axes);
  if (tangents[0]) t = along_norm(b, y, factor, {b, widen(b, tangents[0])}, axes, centred);
  return with_scale(b, node, y, t, tangents, axes);
}
std::vector<Value> jvp_group(Builder& b, const Node& node, std::span<const Value> tangents) {
  const int64_t dim = node.i64("dim");
  const Term whole = {b, widen(b, node.operand(0))};
  const Dims split = grouped_dims(b, node);
  const Axes axes = range(dim + 1, static_cast<int64_t>(split.size()));
  Term x = reshape(whole, split), t;
  x = x - spread({b, mean_along(b, x, axes)}, x, axes);
  const Term factor = factor_of(b, node, x, axes), y = x * spread(factor, x, axes);
  if (tangents[0]) {
    const Term given = reshape(Term{b, widen(b, tangents[0])}, split);
    t = reshape(along_norm(b, y, factor, given, axes, true), whole.dims());
  }
  return with_scale(b, node, reshape(y, whole.dims()), t, tangents, {dim});
}

constexpr OpDraft base(std::string_view name, std::string_view summary) {
  OpDraft draft = op(name, kComposite);
  draft.summary(summary)
      .operand("x", "the input", kFloat, 1, 1)
      .result("y", "same type as x")
      .batched({0})
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
}
constexpr OpDraft layer_norm() {
  return base("layer_norm",
              "x normalised to mean 0 and variance 1 over the last dims, then scaled and shifted.")
      .optional("scale", "dims of x from dim on", kFloat, 1, 1)
      .optional("bias", "dims of x from dim on", kFloat, 1, 1)
      .attr_i64("dim", "the first dim that is normalised", 0)
      .role(TENON_ROLE_AXIS)
      .required()
      .attr_f64("epsilon", "added to the variance", 1e-5)
      .constraint("C1", "dim is a dim of x", "layer_norm(f32[2, 3]) {dim = 2}")
      .constraint("C2", "scale and bias have the dims of x from dim on",
                  "layer_norm(f32[2, 3], f32[2]) {dim = 1}")
      .example(
          "layer_norm(f32[1, 2] [[1, 3]], f32[2] [1, 2], f32[2] [0, 1]) {dim = 1, epsilon = 0.0} "
          "-> f32[1, 2] [[-1, 3]]")
      .infer<infer_last>()
      .decompose<decompose_layer>()
      .jvp<jvp_last>();
}
constexpr OpDraft rms_norm() {
  return base("rms_norm", "x divided by its root mean square over the last dims, then scaled.")
      .optional("scale", "dims of x from dim on", kFloat, 1, 1)
      .attr_i64("dim", "the first dim that is normalised", 0)
      .role(TENON_ROLE_AXIS)
      .required()
      .attr_f64("epsilon", "added to the mean square", 1e-5)
      .constraint("C1", "dim is a dim of x", "rms_norm(f32[2, 3]) {dim = 2}")
      .constraint("C2", "scale has the dims of x from dim on",
                  "rms_norm(f32[2, 3], f32[2]) {dim = 1}")
      .example("rms_norm(f32[2] [1, 7], f32[2] [5, 10]) {dim = 0, epsilon = 0.0} -> f32[2] [1, 14]")
      .infer<infer_last>()
      .decompose<decompose_rms>()
      .jvp<jvp_last>();
}
constexpr OpDraft batch_norm() {
  return base("batch_norm",
              "(x - mean) / sqrt(var + epsilon) scale + bias, per channel, with given mean and "
              "variance.")
      .operand("scale", "one per channel", kFloat, 1, 1, 1)
      .operand("bias", "one per channel", kFloat, 1, 1, 1)
      .operand("mean", "one per channel", kFloat, 1, 1, 1)
      .operand("var", "one per channel", kFloat, 1, 1, 1)
      .attr_i64("dim", "the dim of channels", 1)
      .role(TENON_ROLE_AXIS)
      .attr_f64("epsilon", "added to the variance", 1e-5)
      .constraint("C1", "dim is a dim of x", "batch_norm(f32[2], f32[2], f32[2], f32[2], f32[2])")
      .constraint("C2", "scale, bias, mean and var have one entry per channel",
                  "batch_norm(f32[1, 2], f32[2], f32[2], f32[2], f32[3])")
      .example(
          "batch_norm(f32[1, 2] [[1, 2]], f32[2] [1, 2], f32[2] [0, 1], f32[2] [3, 0], f32[2] [4, "
          "1]) {epsilon = 0.0} "
          "-> f32[1, 2] [[-1, 5]]")
      .infer<infer_channels>()
      .decompose<decompose_batch>();
}
constexpr OpDraft group_norm() {
  return base("group_norm",
              "x normalised over groups of channels and all later dims, then scaled and shifted "
              "per channel.")
      .operand("scale", "one per channel", kFloat, 1, 1, 1)
      .operand("bias", "one per channel", kFloat, 1, 1, 1)
      .attr_i64("groups", "how many groups; as many as channels: instance norm", 1)
      .attr_i64("dim", "the dim of channels", 1)
      .role(TENON_ROLE_AXIS)
      .attr_f64("epsilon", "added to the variance", 1e-5)
      .constraint("C1", "dim is a dim of x", "group_norm(f32[2], f32[2], f32[2]) {dim = 1}")
      .constraint("C2", "scale and bias have one entry per channel",
                  "group_norm(f32[1, 2], f32[2], f32[3])")
      .constraint("C3", "groups is at least 1 and divides the channels",
                  "group_norm(f32[1, 3], f32[3], f32[3]) {groups = 2}")
      .example(
          "group_norm(f32[1, 2, 2] [[[1, 3], [5, 9]]], f32[2] [1, 2], f32[2] [0, 1]) {groups = 2, "
          "epsilon = 0.0} -> "
          "f32[1, 2, 2] [[[-1, 1], [-1, 3]]]")
      .infer<infer_groups>()
      .decompose<decompose_group>()
      .jvp<jvp_group>();
}

TENON_OPS(norm, layer_norm, rms_norm, batch_norm, group_norm)

}  // namespace tenon::ops::norm
