// conv_transpose: the transpose of conv; spreads every element of x through a window.
#include "compose.h"
#include "derivative.h"

namespace tenon::ops::conv_transpose_op {

struct Window {
  Axes strides, low, high, dilation, more;
  int64_t groups;
};
template <class Source>
Window window_of(const Source& q, size_t spatial) {
  return {list_or(q.i64s("strides"), spatial, 1),        list_or(q.i64s("pad_low"), spatial, 0),
          list_or(q.i64s("pad_high"), spatial, 0),       list_or(q.i64s("dilation"), spatial, 1),
          list_or(q.i64s("output_padding"), spatial, 0), q.i64("groups")};
}

// (x - 1) stride + (w - 1) dilation + 1 with paddings. C7 requires elements in x and in the result,
// so a plain sum is enough: with no elements in x the number of strides would be negative.
Status spread(const InferQuery& q, Dim x, const Window& w, uint32_t i, int64_t window, Dim* out) {
  const int64_t shift =
      window_span(window, w.dilation[i]) - w.strides[i] - w.low[i] - w.high[i] + w.more[i];
  const int64_t least =
      shift >= 1 ? 1 : std::max<int64_t>(1, (w.strides[i] - shift) / w.strides[i]);
  TENON_TRY(q.require("C7", TENON_REL_LE, q.constant(least), x,
                      "the fewest elements that leave some of the result, and those of x"));
  const Dim whole = x * q.constant(w.strides[i]);
  *out = shift >= 0 ? whole + q.constant(shift) : whole - q.constant(-shift);
  return {};
}

Status infer(const InferQuery& q) {
  const size_t rank = q.rank(0);
  if (q.rank(1) != rank) return q.fail("C1", cat("x has rank ", rank, ", w has rank ", q.rank(1)));
  const Window w = window_of(q, rank - 2);
  for (const Axes* list : {&w.strides, &w.low, &w.high, &w.dilation, &w.more}) {
    TENON_TRY(require_length(q, "C2", "a window attribute", list->size(), rank - 2));
    for (int64_t v : *list) {
      if (v > kBound || v < -kBound) return q.fail("C3", cat("a window attribute is ", v));
    }
  }
  if (w.groups < 1 || w.groups > kBound) return q.fail("C4", cat("groups is ", w.groups));
  TENON_TRY(q.require_equal("C5", q.dim(0, 1), q.dim(1, 0), "features of x and of w"));
  TENON_TRY(q.require("C4", TENON_REL_DIVISIBLE, q.dim(1, 0), q.constant(w.groups),
                      "features of x and groups"));
  Dims dims = {q.dim(0, 0), q.dim(1, 1) * q.constant(w.groups)};
  if (q.has(2)) TENON_TRY(q.require_equal("C6", q.dim(2, 0), dims[1], "bias and the out features"));
  for (uint32_t i = 0; i + 2 < rank; ++i) {
    const auto k = constant_of(q.dim(1, i + 2));
    if (!k || *k < 1 || *k > kBound)
      return q.fail("C3", cat("spatial dim ", i, " of w is not a usable constant"));
    if (w.strides[i] < 1 || w.dilation[i] < 1 || w.more[i] < 0)
      return q.fail("C3", cat("spatial dim ", i, " has stride ", w.strides[i], ", dilation ",
                              w.dilation[i], ", output_padding ", w.more[i]));
    TENON_TRY(spread(q, q.dim(0, i + 2), w, i, *k, &dims.emplace_back()));
  }
  return q.result(q.dtype(0), dims);
}

// Plain loops: adds every element of x times the window where it falls.
Status reference(const Eval& e) {
  const Array x = e.input(0), w = e.input(1), y = e.output();
  const size_t rank = x.rank();
  const Window win = window_of(e, rank - 2);
  const auto xs = x.read<double>(), ws = w.read<double>();
  std::vector<double> sums(static_cast<size_t>(y.count()), 0);
  const auto y_strides = strides_of(y.dims()), w_strides = strides_of(w.dims());
  const int64_t in = x.dim(1) / win.groups, per_group = w.dim(1);
  Axes window = {per_group};
  window.insert(window.end(), w.dims().begin() + 2, w.dims().end());
  size_t n = 0;
  each_index(x.dims(), [&](const Index& i) {
    const double element = xs[n++];
    each_index(window, [&](const Index& k) {
      int64_t from = i[1] * w_strides[0] + k[0] * w_strides[1];
      int64_t to = i[0] * y_strides[0] + (i[1] / in * per_group + k[0]) * y_strides[1];
      for (size_t d = 2; d < rank; ++d) {
        const int64_t at =
            i[d] * win.strides[d - 2] + k[d - 1] * win.dilation[d - 2] - win.low[d - 2];
        if (at < 0 || at >= y.dim(d)) return;
        from += k[d - 1] * w_strides[d];
        to += at * y_strides[d];
      }
      sums[static_cast<size_t>(to)] += element * ws[static_cast<size_t>(from)];
    });
  });
  if (e.has(2)) {
    const auto bias = e.input(2).read<double>();
    size_t at = 0;
    each_index(y.dims(), [&](const Index& i) { sums[at++] += bias[static_cast<size_t>(i[1])]; });
  }
  y.write(sums);
  return {};
}

// Whether windows lie side by side: each element of x makes a block of its own, so the op is a
// matrix product.
bool tiles(const Window& w, const Dims& window) {
  for (size_t i = 2; i < window.size(); ++i) {
    if (!window[i].is(w.strides[i - 2])) return false;
  }
  return w.groups == 1 && all_equal(w.low, 0) && all_equal(w.high, 0) && all_equal(w.dilation, 1) &&
         all_equal(w.more, 0);
}
Term by_blocks(Term x, Term w, const Dims& result) {
  const int64_t spatial = x.rank() - 2;
  // [batch, spatial..., out, window...]
  const Term product = {*x.b, x.b->build("dot_general", {x.v, w.v},
                                         {{"a_contract", Axes{1}}, {"b_contract", Axes{0}}})};
  Axes perm = {0, spatial + 1};
  for (int64_t i = 0; i < spatial; ++i) {
    perm.push_back(1 + i);
    perm.push_back(spatial + 2 + i);
  }
  return reshape(transpose(product, perm), result);
}

Term by_conv(Term x, Term w, const Window& win) {
  Builder& b = *x.b;
  const Dims shape = w.dims();
  const Dim groups = b.dim(win.groups), in = shape[0] / groups;
  Dims split = shape, merged = shape;
  split[0] = in;
  split.insert(split.begin(), groups);
  merged[0] = shape[1] * groups;
  merged[1] = in;
  Axes perm = range(0, static_cast<int64_t>(split.size()));
  std::swap(perm[1], perm[2]);
  const Term turned = reshape(transpose(reshape(w, split), perm), merged);
  Axes low, high;
  for (size_t i = 0; i + 2 < shape.size(); ++i) {
    const int64_t reach = (shape[i + 2].constant() - 1) * win.dilation[i];
    low.push_back(reach - win.low[i]);
    high.push_back(reach - win.high[i] + win.more[i]);
  }
  return {b, b.build("conv", {x.v, turned.v},
                     {{"x_dilation", win.strides},
                      {"w_dilation", win.dilation},
                      {"pad_low", low},
                      {"pad_high", high},
                      {"reversal", Axes(low.size(), 1)},
                      {"groups", win.groups}})};
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)}, w = {b, node.operand(1)};
  const Dims result = node.result().dims();
  const Window win = window_of(node, result.size() - 2);
  const Value bias = node.operand(2);
  Term y = tiles(win, w.dims()) ? by_blocks(x, w, result) : by_conv(x, w, win);
  if (bias) y = y + Term{b, along(b, bias, y, 1)};
  return b.finish(out, {y});
}

constexpr OpDraft declare() {
  OpDraft draft = op("conv_transpose", kComposite);
  draft.summary("The transpose of conv: every element of x, times the window, added to the result.")
      .operand("x", "[batch, features, spatial...]", kFloat, 1, 2)
      .operand("w", "[features, out features of a group, spatial...]", kFloat, 1, 2)
      .optional("bias", "one per out feature", kFloat, 1, 1, 1)
      .result("y",
              "element type of x; a spatial dim is (x - 1) stride + (w - 1) dilation + 1 "
              "without paddings, with output_padding")
      .attr_i64s("strides", "distance of the windows per spatial dim; empty: 1")
      .attr_i64s("pad_low", "what is cut before, per spatial dim; empty: 0")
      .attr_i64s("pad_high", "what is cut after, per spatial dim; empty: 0")
      .attr_i64s("dilation", "distance of the elements of w; empty: 1")
      .attr_i64s("output_padding", "further elements after, per spatial dim; empty: 0")
      .attr_i64("groups", "features are split into that many groups that do not mix", 1)
      .constraint("C1", "x and w have equal rank of at least 2",
                  "conv_transpose(f32[1, 1, 4], f32[1, 1, 2, 2])")
      .constraint("C2", "window attributes have one entry per spatial dim",
                  "conv_transpose(f32[1, 1, 4], f32[1, 1, 2]) {strides = [1, 1]}")
      .constraint("C3",
                  "strides and dilations are at least 1, output_padding at least 0, the spatial "
                  "dims of w constant, all below 2^31",
                  "conv_transpose(f32[1, 1, 4], f32[1, 1, 2]) {strides = [0]}")
      .constraint("C4", "groups is at least 1 and divides the features",
                  "conv_transpose(f32[1, 3, 4], f32[3, 1, 2]) {groups = 2}")
      .constraint("C5", "x and w have equal features", "conv_transpose(f32[1, 2, 4], f32[3, 1, 2])")
      .constraint("C6", "bias has one entry per out feature",
                  "conv_transpose(f32[1, 1, 4], f32[1, 1, 2], f32[2])")
      .constraint("C7", "spatial dims of x and of the result are at least 1",
                  "conv_transpose(f32[1, 1, 0], f32[1, 1, 2])")
      .example(
          "conv_transpose(f32[1, 1, 2] [[[1, 2]]], f32[1, 1, 3] [[[1, 10, 100]]]) -> f32[1, 1, 4] "
          "[[[1, 12, 120, 200]]]")
      .example(
          "conv_transpose(f32[1, 1, 2] [[[1, 2]]], f32[1, 1, 2] [[[1, 10]]], f32[1] [0.5]) "
          "{strides = [2]} -> f32[1, 1, 4] [[[1.5, 10.5, 2.5, 20.5]]]")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .batch<batch_images<1>>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(4);
  return draft;
}

TENON_OPS(conv_transpose, declare)

}  // namespace tenon::ops::conv_transpose_op
