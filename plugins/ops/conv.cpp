// conv: cross-correlation over any number of spatial dims.
#include "conv_derivative.h"

namespace tenon::ops::conv_op {

Status infer(const InferQuery& q) {
  Dims dims;
  TENON_TRY(infer_conv(q, &dims));
  for (std::string_view name : {"acc", "dtype"}) {
    const tenon_dtype_t chosen = q.dtype(name);
    if (chosen != TENON_DTYPE_NONE &&
        (!is_in(chosen, kNumber) || is_float(chosen) != is_float(q.dtype(0)))) {
      return q.fail("C7", cat(name, " is ", dtype_name(chosen), ", the operands have ",
                              dtype_name(q.dtype(0))));
    }
  }
  return q.result(q.dtype("dtype") != TENON_DTYPE_NONE ? q.dtype("dtype") : q.dtype(0), dims);
}

// Strides (or extents) of an array in the order batch or out feature, feature, spatial...
Axes by_role(const Array& x, const Axes& dims, bool extents) {
  const auto strides = strides_of(x.dims());
  Axes out;
  for (int64_t d : dims)
    out.push_back(extents ? x.dim(static_cast<size_t>(d)) : strides[static_cast<size_t>(d)]);
  return out;
}

template <class Number>
void convolve(const ConvShape& c, const Array& x, const Array& w, const Array& y) {
  const std::vector<Number> in = x.read<Number>(), weights = w.read<Number>();
  std::vector<Number> out(static_cast<size_t>(y.count()), Number{0});
  const Axes xe = by_role(x, c.x_dims, true), xs = by_role(x, c.x_dims, false);
  const Axes we = by_role(w, c.w_dims, true), ws = by_role(w, c.w_dims, false);
  const Axes ye = by_role(y, c.out_dims, true), ys = by_role(y, c.out_dims, false);
  const int64_t out_per_group = we[0] / c.groups, out_per_batch_group = we[0] / c.batch_groups;
  const std::span<const int64_t> window(we.data() + 2, we.size() - 2);
  each_index(ye, [&](const Index& o) {
    const int64_t feature = (o[1] / out_per_group) * we[1];
    const int64_t batch = (o[1] / out_per_batch_group) * (c.batch_groups == 1 ? 0 : ye[0]) + o[0];
    Number sum = 0;
    each_index(window, [&](const Index& k) {
      int64_t x_at = batch * xs[0] + feature * xs[1], w_at = o[1] * ws[0];
      for (size_t d = 0; d < k.size(); ++d) {
        const int64_t position = o[d + 2] * c.strides[d] + k[d] * c.w_dilation[d] - c.pad_low[d];
        if (position < 0 || position % c.x_dilation[d] != 0 ||
            position / c.x_dilation[d] >= xe[d + 2])
          return;
        x_at += position / c.x_dilation[d] * xs[d + 2];
        w_at += (c.reversal[d] != 0 ? we[d + 2] - 1 - k[d] : k[d]) * ws[d + 2];
      }
      for (int64_t i = 0; i < we[1]; ++i) {
        sum += in[static_cast<size_t>(x_at + i * xs[1])] *
               weights[static_cast<size_t>(w_at + i * ws[1])];
      }
    });
    out[static_cast<size_t>(offset_of(o, ys))] = sum;
  });
  y.write(out);
}

Status reference(const Eval& e) {
  const Array x = e.input(0), w = e.input(1), y = e.output();
  const ConvShape c = conv_shape(e, x.rank());
  is_float(x.dtype()) ? convolve<double>(c, x, w, y) : convolve<uint64_t>(c, x, w, y);
  return {};
}

constexpr std::string_view kNegatives[6] = {
    "conv(f32[1, 1, 4], f32[1, 1, 2, 2])",
    "conv(f32[1, 1, 4], f32[1, 1, 2]) {x_dims = [0, 1, 1]}",
    "conv(f32[1, 1, 4], f32[1, 1, 2]) {strides = [1, 1]}",
    "conv(f32[1, 1, 4], f32[1, 1, 2]) {strides = [0]}",
    "conv(f32[1, 1, 4], f32[1, 1, 2]) {groups = 0}",
    "conv(f32[1, 3, 4], f32[1, 2, 2])",
};

constexpr OpDraft declare() {
  OpDraft draft = op("conv", kPrimitive);
  draft.summary("Cross-correlation of x with w over the spatial dims.")
      .doc(
          "Each spatial dim of the result has floor((dilated x + pad_low + pad_high - dilated w) / "
          "stride) + 1 entries. "
          "With groups, out feature f sees the in features of group f / (out features / groups). "
          "With batch_groups, out "
          "feature f sees the part f / (out features / batch_groups) of the batch. Where a zero of "
          "a border, or of dilation, meets a w that is infinite or NaN, that term is NaN or left "
          "out, as the device does it.")
      .operand("x", "the input", kNumber, 1, 2)
      .operand("w", "the window, same element type as x", kNumber, 1, 2)
      .result("y", "element type dtype, or that of x");
  conv_attrs(draft)
      .attr_dtype("acc",
                  "the type sums are kept in, or one that holds more; none: f32 for f16 and bf16, "
                  "i32 for 8 and 16 bit "
                  "integers, else as x")
      .attr_dtype("dtype", "the element type of the result; none: as x");
  conv_constraints(draft, kNegatives)
      .constraint("C7", "acc and dtype are floats for floats, integers for integers",
                  "conv(f32[1, 1, 4], f32[1, 1, 2]) {acc = i32}")
      .example(
          "conv(f32[1, 1, 4] [[[1, 2, 3, 4]]], f32[1, 1, 2] [[[1, 10]]]) -> f32[1, 1, 3] [[[21, "
          "32, 43]]]")
      .example(
          "conv(f32[1, 2, 3] [[[1, 2, 3], [4, 5, 6]]], f32[2, 1, 1] [[[10]], [[1]]]) {groups = 2, "
          "pad_low = [1], "
          "strides = [2]} -> f32[1, 2, 2] [[[0, 20], [0, 5]]]")
      .infer<infer>()
      .reference<reference>()
      .bilinear({0, 1})
      .transposed<transpose>()
      .batch<batch>()
      .cost(TENON_COST_CONTRACTION)
      .traits(TENON_TRAIT_NO_RECOMPUTE)
      .tolerance(4);
  return draft;
}

TENON_OPS(conv, declare)

}  // namespace tenon::ops::conv_op
