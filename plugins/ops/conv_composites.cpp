// depthwise_conv and conv_bn_act: conv_bias with one group per channel, and conv_bias with batch
// norm and activation.
#include "compose.h"
#include "derivative.h"

namespace tenon::ops::conv_composites {

Status check_window(const InferQuery& q, Dims* spatial) {
  const size_t rank = q.rank(0);
  if (q.rank(1) != rank) return q.fail("C1", cat("x has rank ", rank, ", w has rank ", q.rank(1)));
  TENON_TRY(check_window_lists(q, "C2", rank - 2));
  const Window window = window_of(q, rank - 2);
  for (uint32_t i = 0; i + 2 < rank; ++i) {
    const auto k = constant_of(q.dim(1, i + 2));
    if (!k || *k < 1 || *k > kBound)
      return q.fail("C2", cat("spatial dim ", i, " of w is not a usable constant"));
    TENON_TRY(fitting(q, "C2", q.dim(0, i + 2), window, i, *k, &spatial->emplace_back()));
  }
  return {};
}
Value convolve(Builder& b, const Node& node, Value bias, int64_t groups) {
  const Axes strides = node.i64s("strides"), low = node.i64s("pad_low"),
             high = node.i64s("pad_high"), dilation = node.i64s("dilation");
  std::vector<Value> operands = {node.operand(0), node.operand(1)};
  if (bias) operands.push_back(bias);
  return b.build("conv_bias", operands,
                 {{"strides", strides},
                  {"pad_low", low},
                  {"pad_high", high},
                  {"w_dilation", dilation},
                  {"groups", groups}});
}
Status infer_depthwise(const InferQuery& q) {
  Dims spatial;
  TENON_TRY(check_window(q, &spatial));
  const auto channels = constant_of(q.dim(0, 1));
  if (!channels || *channels < 1)
    return q.fail("C3", "the channels of x are not a positive constant");
  TENON_TRY(q.require("C3", TENON_REL_DIVISIBLE, q.dim(1, 0), q.constant(*channels),
                      "windows and channels of x"));
  TENON_TRY(q.require_equal("C3", q.dim(1, 1), q.constant(1), "dim 1 of w and 1"));
  if (q.has(2)) TENON_TRY(q.require_equal("C4", q.dim(2, 0), q.dim(1, 0), "bias and windows"));
  Dims dims = {q.dim(0, 0), q.dim(1, 0)};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return q.result(q.dtype(0), dims);
}
Status decompose_depthwise(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(out, {convolve(b, node, node.operand(2), node.operand(0).dim(1).constant())});
}
Status infer_bn(const InferQuery& q) {
  Dims spatial;
  TENON_TRY(check_window(q, &spatial));
  const int64_t groups = q.i64("groups");
  if (groups < 1 || groups > kBound) return q.fail("C3", cat("groups is ", groups));
  TENON_TRY(q.require_equal("C3", q.dim(0, 1), q.dim(1, 1) * q.constant(groups),
                            "features of x and of w times groups"));
  TENON_TRY(q.require("C3", TENON_REL_DIVISIBLE, q.dim(1, 0), q.constant(groups),
                      "out features and groups"));
  for (uint32_t i = 2; i < 6; ++i)
    TENON_TRY(q.require_equal("C4", q.dim(i, 0), q.dim(1, 0),
                              cat("operand ", i, " and the out features")));
  Dims dims = {q.dim(0, 0), q.dim(1, 0)};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return q.result(q.dtype(0), dims);
}
Status decompose_bn(Builder& b, const Node& node, tenon_value_t* out) {
  const std::string activation = node.text("activation");
  const double epsilon = node.f64("epsilon");
  const Value y = convolve(b, node, Value(), node.i64("groups"));
  const Value n =
      b.build("batch_norm", {y, node.operand(2), node.operand(3), node.operand(4), node.operand(5)},
              {{"epsilon", epsilon}});
  return b.finish(out, {activate(b, n, activation)});
}
constexpr OpDraft& window_attrs(OpDraft& draft) {
  return draft.attr_i64s("strides", "step of the window per spatial dim; empty: 1")
      .attr_i64s("pad_low", "zeros before x; empty: 0")
      .attr_i64s("pad_high", "zeros after x; empty: 0")
      .attr_i64s("dilation", "distance of the elements of w; empty: 1");
}

constexpr OpDraft depthwise_conv() {
  OpDraft draft = op("depthwise_conv", kComposite);
  draft.summary("A convolution in which every channel has windows of its own.")
      .operand("x", "[batch, channels, spatial...]", kFloat, 1, 2)
      .operand("w", "[windows, 1, spatial...], channel by channel", kFloat, 1, 2)
      .optional("bias", "one per window", kFloat, 1, 1, 1)
      .result("y", "[batch, windows, spatial...]");
  return window_attrs(draft)
      .constraint("C1", "x and w have equal rank", "depthwise_conv(f32[1, 1, 4], f32[1, 1, 2, 2])")
      .constraint("C2",
                  "lists have one entry per spatial dim, at least 1 (paddings 0), and w has "
                  "constant spatial dims, no larger than what they slide over",
                  "depthwise_conv(f32[1, 1, 4], f32[1, 1, 2]) {strides = [0]}")
      .constraint("C3", "channels are constant and divide the windows, dim 1 of w is 1",
                  "depthwise_conv(f32[1, 2, 4], f32[3, 1, 2])")
      .constraint("C4", "bias has one entry per window",
                  "depthwise_conv(f32[1, 1, 4], f32[1, 1, 2], f32[2])")
      .example(
          "depthwise_conv(f32[1, 2, 2] [[[1, 2], [3, 4]]], f32[2, 1, 1] [[[10]], [[100]]]) -> "
          "f32[1, 2, 2] [[[10, 20], [300, 400]]]")
      .infer<infer_depthwise>()
      .decompose<decompose_depthwise>()
      .batch<batch_images<1>>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(4);
}
constexpr OpDraft conv_bn_act() {
  OpDraft draft = op("conv_bn_act", kComposite);
  draft.summary("A convolution, then batch_norm, then an activation.")
      .operand("x", "[batch, features, spatial...]", kFloat, 1, 2)
      .operand("w", "[out features, features / groups, spatial...]", kFloat, 1, 2)
      .operand("scale", "one per out feature", kFloat, 1, 1, 1)
      .operand("bias", "one per out feature", kFloat, 1, 1, 1)
      .operand("mean", "one per out feature", kFloat, 1, 1, 1)
      .operand("var", "one per out feature", kFloat, 1, 1, 1)
      .result("y", "[batch, out features, spatial...]");
  return window_attrs(draft)
      .attr_i64("groups", "features are split into that many groups that do not mix", 1)
      .attr_f64("epsilon", "added to the variance", 1e-5)
      .attr_string("activation", "what is applied last", "none", kActivations)
      .constraint("C1", "x and w have equal rank",
                  "conv_bn_act(f32[1, 1, 4], f32[1, 1, 2, 2], f32[1], f32[1], f32[1], f32[1])")
      .constraint(
          "C2",
          "lists have one entry per spatial dim, at least 1 (paddings 0), and w has constant "
          "spatial dims, no larger than what they slide over",
          "conv_bn_act(f32[1, 1, 4], f32[1, 1, 2], f32[1], f32[1], f32[1], f32[1]) {strides = [0]}")
      .constraint("C3", "features of x are those of w times groups, which divide the out features",
                  "conv_bn_act(f32[1, 3, 4], f32[1, 1, 2], f32[1], f32[1], f32[1], f32[1])")
      .constraint("C4", "scale, bias, mean and var have one entry per out feature",
                  "conv_bn_act(f32[1, 1, 4], f32[1, 1, 2], f32[1], f32[1], f32[1], f32[2])")
      .example(
          "conv_bn_act(f32[1, 1, 2] [[[1, 2]]], f32[1, 1, 1] [[[2]]], f32[1] [1], f32[1] [-3], "
          "f32[1] [0], f32[1] [1]) {epsilon = 0.0, activation = \"relu\"} -> f32[1, 1, 2] [[[0, "
          "1]]]")
      .infer<infer_bn>()
      .decompose<decompose_bn>()
      .batch<batch_images<1>>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(8);
}

TENON_OPS(conv_composites, depthwise_conv, conv_bn_act)

}  // namespace tenon::ops::conv_composites
