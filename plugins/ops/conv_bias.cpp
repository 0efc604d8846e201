// conv_bias: a convolution with bias, residual and activation, kept whole for backends that fuse
// them.
#include "conv_shape.h"

namespace tenon::ops::conv_bias {

Status infer(const InferQuery& q) {
  Dims dims;
  TENON_TRY(infer_conv(q, &dims));
  const ConvShape c = conv_shape(q, q.rank(0));
  if (q.has(2)) {
    TENON_TRY(q.require_equal("C7", q.dim(2, 0), dims[static_cast<size_t>(c.out_dims[1])],
                              "bias and the out features"));
  }
  if (q.has(3)) {
    TENON_TRY(require_length(q, "C8", "residual's rank", q.rank(3), dims.size()));
    for (uint32_t i = 0; i < dims.size(); ++i) {
      TENON_TRY(q.require_equal("C8", q.dim(3, i), dims[i],
                                cat("dim ", i, " of residual and of the result")));
    }
  }
  return q.result(q.dtype(0), dims);
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const Value bias = node.operand(2), residual = node.operand(3);
  const std::string activation = node.text("activation");
  const Axes out_dims = node.i64s("out_dims");
  const Axes w = node.i64s("w_dims"), x = node.i64s("x_dims"), strides = node.i64s("strides"),
             low = node.i64s("pad_low"), high = node.i64s("pad_high"), xd = node.i64s("x_dilation"),
             wd = node.i64s("w_dilation"), reversal = node.i64s("reversal");
  Value y = b.build("conv", {node.operand(0), node.operand(1)},
                    {{"strides", strides},
                     {"pad_low", low},
                     {"pad_high", high},
                     {"x_dilation", xd},
                     {"w_dilation", wd},
                     {"reversal", reversal},
                     {"groups", node.i64("groups")},
                     {"batch_groups", node.i64("batch_groups")},
                     {"x_dims", x},
                     {"w_dims", w},
                     {"out_dims", out_dims},
                     {"acc", dtype(node.dtype("acc"))}});
  if (bias) y = b.build("add", {y, along(b, bias, y, out_dims.empty() ? 1 : out_dims[1])});
  if (residual) y = b.build("add", {y, residual});
  return b.finish(out, {activate(b, y, activation)});
}

constexpr std::string_view kNegatives[6] = {
    "conv_bias(f32[1, 1, 4], f32[1, 1, 2, 2])",
    "conv_bias(f32[1, 1, 4], f32[1, 1, 2]) {x_dims = [0, 1, 1]}",
    "conv_bias(f32[1, 1, 4], f32[1, 1, 2]) {strides = [1, 1]}",
    "conv_bias(f32[1, 1, 4], f32[1, 1, 2]) {strides = [0]}",
    "conv_bias(f32[1, 1, 4], f32[1, 1, 2]) {groups = 0}",
    "conv_bias(f32[1, 3, 4], f32[1, 2, 2])",
};

constexpr OpDraft declare() {
  OpDraft draft = op("conv_bias", kComposite);
  draft.summary("activation(conv(x, w) + bias + residual).")
      .operand("x", "the input", kFloat, 1, 2)
      .operand("w", "the window, same element type as x", kFloat, 1, 2)
      .optional("bias", "one per out feature", kFloat, 1, 1, 1)
      .optional("residual", "same shape as the result", kFloat, 1, 2)
      .result("y", "element type of x");
  conv_attrs(draft)
      .attr_string("activation", "what is applied last", "none", kActivations)
      .attr_dtype("acc", "the type sums are kept in; none: as conv");
  conv_constraints(draft, kNegatives)
      .constraint("C7", "bias has one entry per out feature",
                  "conv_bias(f32[1, 1, 4], f32[1, 1, 2], f32[2])")
      .constraint("C8", "residual has the result's shape",
                  "conv_bias(f32[1, 1, 4], f32[1, 1, 2], f32[1], f32[1, 1, 4])")
      .example(
          "conv_bias(f32[1, 1, 3] [[[1, 2, 3]]], f32[1, 1, 2] [[[1, -1]]], f32[1] [0.5], f32[1, 1, "
          "2] [[[0, 2]]]) "
          "{activation = \"relu\"} -> f32[1, 1, 2] [[[0, 1.5]]]")
      .infer<infer>()
      .decompose<decompose>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(4);
  return draft;
}

TENON_OPS(conv_bias, declare)

}  // namespace tenon::ops::conv_bias
