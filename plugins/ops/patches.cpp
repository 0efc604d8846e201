// im2col, col2im, pixel_shuffle, max_unpool: windows and blocks as rows, and back.
#include "compose.h"
#include "derivative.h"

namespace tenon::ops::patches {

constexpr int64_t kWindowMax = 4096;  // elements of a window: each becomes a node

// C1 and C2.
Status check_window(const InferQuery& q, const Window& w, size_t spatial) {
  for (const Axes* list : {&w.window, &w.strides, &w.low, &w.high, &w.dilation})
    TENON_TRY(require_length(q, "C1", "a window attribute", list->size(), spatial));
  int64_t count = 1;
  for (size_t i = 0; i < spatial; ++i) {
    for (int64_t v : {w.window[i], w.strides[i], w.dilation[i]}) {
      if (v < 1 || v > kBound)
        return q.fail("C2", cat("spatial dim ", i, " has an attribute of ", v));
    }
    for (int64_t v : {w.low[i], w.high[i]}) {
      if (v < 0 || v > kBound) return q.fail("C2", cat("spatial dim ", i, " has a padding of ", v));
    }
    if (w.window[i] > kWindowMax / count)
      return q.fail("C2", cat("the window has more than ", kWindowMax, " elements"));
    count *= w.window[i];
  }
  return {};
}
Dim places(Dim extent_, const Window& w, size_t i) {
  return window_extent(extent_, 1, w.low[i], w.high[i], w.window[i], w.dilation[i], w.strides[i]);
}

// ---- im2col ----

Status infer_im2col(const InferQuery& q) {
  const size_t spatial = q.rank(0) - 2;
  const Window w = window_of(q, spatial);
  TENON_TRY(check_window(q, w, spatial));
  Dim count = q.constant(1);
  for (size_t i = 0; i < spatial; ++i) {
    Dim fits;
    TENON_TRY(fitting(q, "C2", q.dim(0, static_cast<uint32_t>(i + 2)), w, i, &fits));
    count = count * fits;
  }
  return q.result(q.dtype(0), {q.dim(0, 0), q.dim(0, 1) * q.constant(count_of(w.window)), count});
}
Status decompose_im2col(Builder& b, const Node& node, tenon_value_t* out) {
  Term x = {b, node.operand(0)};
  const auto spatial = static_cast<size_t>(x.rank() - 2);
  const Window w = window_of(node, spatial);
  const Dims result = node.result().dims(), from = x.dims();
  if (!all_equal(w.low, 0) || !all_equal(w.high, 0)) {
    const Axes low = with_batch(w.low, 0), high = with_batch(w.high, 0);
    x = {b, b.build("pad", {x.v, constant(b, x.dtype(), 0).v}, {{"low", low}, {"high", high}})};
  }
  std::vector<Value> rows;
  each_index(w.window, [&](const Index& k) {
    Term part = x;
    for (size_t i = 0; i < spatial; ++i) {
      const Dim count = places(from[i + 2], w, i);
      const int64_t start = k[i] * w.dilation[i];
      // One past the last element taken; 0 where there is no position.
      const Dim limit = max((count * b.dim(w.strides[i])) + b.dim(start + 1), b.dim(w.strides[i])) -
                        b.dim(w.strides[i]);
      part = cut(part, static_cast<int64_t>(i) + 2, b.dim(start), max(limit, b.dim(start)),
                 w.strides[i]);
    }
    rows.push_back(reshape(part, {from[0], from[1], b.dim(1), result[2]}));
  });
  return b.finish(out, {reshape(concat(b, rows, 2), result)});
}

// ---- col2im ----

Status infer_col2im(const InferQuery& q) {
  const Dims image = q.dims("image");
  const Window w = window_of(q, image.size());
  TENON_TRY(check_window(q, w, image.size()));
  const Dim size = q.constant(count_of(w.window));
  TENON_TRY(
      q.require("C3", TENON_REL_DIVISIBLE, q.dim(0, 1), size, "rows and elements of the window"));
  Dim count = q.constant(1);
  Dims dims = {q.dim(0, 0), q.dim(0, 1) / size};
  for (size_t i = 0; i < image.size(); ++i) {
    count = count * places(image[i], w, i);
    dims.push_back(image[i]);
  }
  TENON_TRY(q.require_equal("C4", q.dim(0, 2), count, "columns and places of the window"));
  return q.result(q.dtype(0), dims);
}
// Each element of the window contributes a dilated image of its own; their sum is the result.
Status decompose_col2im(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)};
  const Dims result = node.result().dims();
  const size_t spatial = result.size() - 2;
  const Window w = window_of(node, spatial);
  Dims grid = {result[0], result[1]};
  for (size_t i = 0; i < spatial; ++i) grid.push_back(places(result[i + 2], w, i));
  const Term rows = reshape(x, {result[0], result[1], b.dim(count_of(w.window)), x.dim(2)});
  const Term zero = constant(b, x.dtype(), 0);
  int64_t n = 0;
  Term sum;
  each_index(w.window, [&](const Index& k) {
    Term part = reshape(cut(rows, 2, b.dim(n), b.dim(n + 1)), grid);
    ++n;
    // Placed into the padded image with spare room at the end, then cut to the image.
    Axes low(2, 0), high(2, 0), interior(2, 0);
    for (size_t i = 0; i < spatial; ++i) {
      low.push_back(k[i] * w.dilation[i]);
      high.push_back((w.window[i] - 1 - k[i]) * w.dilation[i] + w.strides[i] - 1 + w.low[i]);
      interior.push_back(w.strides[i] - 1);
    }
    part = {b, b.build("pad", {part.v, zero.v},
                       {{"low", low}, {"high", high}, {"interior", interior}})};
    for (size_t i = 0; i < spatial; ++i) {
      part =
          cut(part, static_cast<int64_t>(i) + 2, b.dim(w.low[i]), b.dim(w.low[i]) + result[i + 2]);
    }
    sum = sum.v ? sum + part : part;
  });
  return b.finish(out, {sum});
}

// ---- pixel_shuffle ----

Status infer_shuffle(const InferQuery& q) {
  const int64_t f = q.i64("factor");
  if (f < 1 || f > 65536) return q.fail("C1", cat("factor is ", f));
  const Dim square = q.constant(f * f);
  TENON_TRY(
      q.require("C2", TENON_REL_DIVISIBLE, q.dim(0, 1), square, "channels and factor squared"));
  return q.result(q.dtype(0), {q.dim(0, 0), q.dim(0, 1) / square, q.dim(0, 2) * q.constant(f),
                               q.dim(0, 3) * q.constant(f)});
}
Status decompose_shuffle(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)};
  const Dims d = x.dims(), result = node.result().dims();
  const Dim f = b.dim(node.i64("factor"));
  const bool channels_first = node.text("order") == "channels_first";
  const Dims split = channels_first ? Dims{d[0], result[1], f, f, d[2], d[3]}
                                    : Dims{d[0], f, f, result[1], d[2], d[3]};
  const Axes perm = channels_first ? Axes{0, 1, 4, 2, 5, 3} : Axes{0, 3, 4, 1, 5, 2};
  return b.finish(out, {reshape(transpose(reshape(x, split), perm), result)});
}

// ---- max_unpool ----

Status infer_unpool(const InferQuery& q) {
  TENON_TRY(q.require_same_shape("C1", 0, 1));
  return q.result(q.dtype(0), q.dims("shape"));
}
Status decompose_unpool(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)}, indices = {b, node.operand(1)};
  const Dims result = node.result().dims();
  const Dim count = product(b, result, 0, result.size());
  const Term zeros = {b, b.splat(constant(b, x.dtype(), 0), {count})};
  const Term filled = {b, b.build("scatter", {zeros.v, flat(indices).v, flat(x).v},
                                  {{"inserted_dims", {0}}, {"index_map", {0}}})};
  return b.finish(out, {reshape(filled, result)});
}

constexpr OpDraft& window_attrs(OpDraft& draft) {
  return draft.attr_i64s("window", "extent of the window per spatial dim")
      .required()
      .attr_i64s("strides", "step of the window; empty: 1")
      .attr_i64s("pad_low", "zeros before the image; empty: 0")
      .attr_i64s("pad_high", "zeros after the image; empty: 0")
      .attr_i64s("dilation", "distance of the elements of the window; empty: 1");
}
constexpr OpDraft im2col() {
  OpDraft draft = op("im2col", kComposite);
  draft.summary("The windows of an image as columns.")
      .operand("x", "[batch, channels, spatial...]", kNumber, 0, 3)
      .result("y", "[batch, channels times elements of the window, places of the window]");
  return window_attrs(draft)
      .constraint("C1", "every list has one entry per spatial dim",
                  "im2col(f32[1, 1, 4]) {window = [2, 2]}")
      .constraint("C2",
                  "windows, strides and dilations are at least 1, paddings at least 0; a window "
                  "has at most 4096 elements and is no larger than what it slides over",
                  "im2col(f32[1, 1, 4]) {window = [0]}")
      .example(
          "im2col(f32[1, 1, 4] [[[1, 2, 3, 4]]]) {window = [2]} -> f32[1, 2, 3] [[[1, 2, 3], [2, "
          "3, 4]]]")
      .example(
          "im2col(f32[1, 1, 4] [[[1, 2, 3, 4]]]) {window = [2], strides = [3], pad_low = [1]} -> "
          "f32[1, 2, 2] [[[0, 3], [1, 4]]]")
      .infer<infer_im2col>()
      .decompose<decompose_im2col>()
      .batch<batch_images<1>>()
      .cost(TENON_COST_DATA_MOVEMENT);
}
constexpr OpDraft col2im() {
  OpDraft draft = op("col2im", kComposite);
  draft.summary("The transpose of im2col: columns added where their elements lie in the image.")
      .operand("x", "[batch, channels times elements of the window, places of the window]", kNumber,
               0, 3, 3)
      .result("y", "[batch, channels, image...]")
      .attr_dims("image", "the spatial dims of the result")
      .required();
  return window_attrs(draft)
      .constraint("C1", "every list has one entry per spatial dim",
                  "col2im(f32[1, 2, 3]) {image = [4], window = [2, 1]}")
      .constraint("C2",
                  "windows, strides and dilations are at least 1, paddings at least 0; a window "
                  "has at most 4096 elements",
                  "col2im(f32[1, 2, 3]) {image = [4], window = [2], strides = [0]}")
      .constraint("C3", "the elements of the window divide the rows",
                  "col2im(f32[1, 3, 3]) {image = [4], window = [2]}")
      .constraint("C4", "there are as many columns as places of the window",
                  "col2im(f32[1, 2, 2]) {image = [4], window = [2]}")
      .example(
          "col2im(f32[1, 2, 3] [[[1, 2, 3], [2, 3, 4]]]) {image = [4], window = [2]} -> f32[1, 1, "
          "4] [[[1, 4, 6, 4]]]")
      .infer<infer_col2im>()
      .decompose<decompose_col2im>()
      .batch<batch_images<1>>()
      .cost(TENON_COST_DATA_MOVEMENT)
      .tolerance(4);
}
constexpr OpDraft pixel_shuffle() {
  OpDraft draft = op("pixel_shuffle", kComposite);
  draft.summary("Channels spread into blocks of the image.")
      .operand("x", "[batch, channels, height, width]", kWhole, 0, 4, 4)
      .result("y", "[batch, channels / factor^2, height factor, width factor]")
      .attr_i64("factor", "the extent of a block", 1)
      .required()
      .attr_string(
          "order",
          "whether the result's channels or the places in a block come first in those of x",
          "channels_first", "channels_first|blocks_first")
      .constraint("C1", "factor is between 1 and 65536",
                  "pixel_shuffle(f32[1, 4, 1, 1]) {factor = 0}")
      .constraint("C2", "factor squared divides the channels",
                  "pixel_shuffle(f32[1, 3, 1, 1]) {factor = 2}")
      .example(
          "pixel_shuffle(f32[1, 4, 1, 1] [[[[1]], [[2]], [[3]], [[4]]]]) {factor = 2} -> f32[1, 1, "
          "2, 2] [[[[1, 2], [3, 4]]]]")
      .infer<infer_shuffle>()
      .decompose<decompose_shuffle>()
      .batch<batch_images<1>>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}
constexpr OpDraft max_unpool() {
  OpDraft draft = op("max_unpool", kComposite);
  draft.summary("Elements put back where window_argmax found them, with 0 elsewhere.")
      .operand("x", "the elements", kNumber)
      .operand("indices", "the place of each in the result, counted in row-major order", kIndex)
      .result("y", "element type of x, dims as in shape")
      .attr_dims("shape", "the dims of the result")
      .required()
      .constraint("C1", "x and indices have equal shapes",
                  "max_unpool(f32[1], i64[2]) {shape = [4]}")
      .example(
          "max_unpool(f32[2] [7, 9], i64[2] [2, 0]) {shape = [2, 2]} -> f32[2, 2] [[9, 0], [7, 0]]")
      .infer<infer_unpool>()
      .decompose<decompose_unpool>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(patches, im2col, col2im, pixel_shuffle, max_unpool)

}  // namespace tenon::ops::patches
