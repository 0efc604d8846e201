// max_pool, avg_pool and lp_pool over the spatial dims of [batch, channels, spatial...], and the
// global pools.
#include "compose.h"
#include "derivative.h"
#include "flag.h"

namespace tenon::ops::pool {

// The window with one entry per dim of x, neutral for batch and channels.
template <class Source>
Window whole_window(const Source& q, size_t rank) {
  Window w = window_of(q, rank - 2);
  for (Axes* list : {&w.window, &w.strides, &w.base_dilation, &w.dilation})
    *list = with_batch(*list, 1);
  for (Axes* list : {&w.low, &w.high}) *list = with_batch(*list, 0);
  return w;
}

Status infer(const InferQuery& q) {
  const size_t rank = q.rank(0);
  TENON_TRY(require_length(q, "C1", "window", q.i64s("window").size(), rank - 2));
  for (std::string_view name : {"strides", "pad_low", "pad_high", "dilation"}) {
    if (!q.i64s(name).empty())
      TENON_TRY(require_length(q, "C1", name, q.i64s(name).size(), rank - 2));
    for (int64_t v : q.i64s(name)) {
      if (v > kBound || v < -kBound) return q.fail("C2", cat(name, " holds ", v));
    }
  }
  const Window w = whole_window(q, rank);
  Dims dims;
  for (uint32_t i = 0; i < rank; ++i) {
    if (w.window[i] < 1 || w.window[i] > kBound || w.strides[i] < 1 || w.dilation[i] < 1 ||
        w.low[i] < 0 || w.high[i] < 0) {
      return q.fail(
          "C2", cat("spatial dim ", i - 2, " has window ", w.window[i], ", stride ", w.strides[i],
                    ", dilation ", w.dilation[i], ", paddings ", w.low[i], " and ", w.high[i]));
    }
    dims.push_back(q.dim(0, i));
    if (i < 2) continue;
    TENON_TRY(fitting(q, "C2", q.dim(0, i), w, i, &dims[i]));
  }
  return q.result(q.dtype(0), dims);
}
Status infer_lp(const InferQuery& q) {
  const size_t rank = q.rank(0);
  TENON_TRY(require_length(q, "C1", "window", q.i64s("window").size(), rank - 2));
  TENON_TRY(check_window_lists(q, "C1", rank - 2));
  for (int64_t v : q.i64s("window")) {
    if (v < 1 || v > kBound) return q.fail("C2", cat("window holds ", v));
  }
  if (!(q.f64("p") > 0) || std::isinf(q.f64("p"))) return q.fail("C3", cat("p is ", q.f64("p")));
  const Window w = whole_window(q, rank);
  Dims dims = {q.dim(0, 0), q.dim(0, 1)};
  for (uint32_t i = 2; i < rank; ++i)
    TENON_TRY(fitting(q, "C2", q.dim(0, i), w, i, &dims.emplace_back()));
  return q.result(q.dtype(0), dims);
}
Status infer_global(const InferQuery& q) {
  Dims dims = q.dims(0);
  for (size_t i = 2; i < dims.size(); ++i) dims[i] = q.constant(1);
  return q.result(q.dtype(0), dims);
}

Value slide(Builder& b, const Node& node, Value x, std::string_view kind) {
  const Window w = whole_window(node, x.rank());
  return b.build("reduce_window", {x},
                 {{"kind", kind},
                  {"window", w.window},
                  {"strides", w.strides},
                  {"pad_low", w.low},
                  {"pad_high", w.high},
                  {"dilation", w.dilation}});
}
Status decompose_max(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(out, {slide(b, node, node.operand(0), "max")});
}
Status decompose_avg(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = widen(b, node.operand(0));
  const tenon_dtype_t dtype = node.operand(0).dtype();
  const bool padded = !all_equal(node.i64s("pad_low"), 0) || !all_equal(node.i64s("pad_high"), 0);
  double count = 1;
  for (int64_t w : node.i64s("window")) count *= static_cast<double>(w);
  const bool constant = node.i64("count_pad") != 0 || !padded;
  const Value sum = slide(b, node, x, "sum");
  // If paddings do not count, the divisor is smaller at the edges: the same window summed over
  // ones.
  const Value divisor =
      constant ? b.full_like(sum, count) : slide(b, node, b.full_like(x, 1), "sum");
  return b.finish(out, {b.convert(b.build("div", {sum, divisor}), dtype)});
}
Status decompose_global_avg(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0);
  const Dims shape = node.result().dims();
  const Value mean = b.build("mean", {x}, {{"dims", range(2, x.rank())}});
  return b.finish(out, {b.build("reshape", {mean}, {{"shape", shape}})});
}
Status decompose_global_max(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0);
  const Dims shape = node.result().dims();
  const Value top = b.build("reduce_max", {x}, {{"dims", range(2, x.rank())}});
  return b.finish(out, {b.build("reshape", {top}, {{"shape", shape}})});
}
Term power(Term x, double p) {
  if (p == 1) return x;
  return p == 2 ? x * x : pow(x, p);
}
Term root(Term x, double p) {
  if (p == 1) return x;
  return p == 2 ? sqrt(x) : pow(x, 1 / p);
}
Status decompose_lp(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, widen(b, node.operand(0))};
  const double p = node.f64("p");
  const Term sum = {b, slide(b, node, power(abs(x), p), "sum")};
  return b.finish(out, {b.convert(root(sum, p), node.result().dtype())});
}

// The sum over windows of sign(x) * |x|^(p - 1) * t, over y^(p - 1); 0 where y is 0
std::vector<Value> jvp_lp(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Term x = {b, widen(b, node.operand(0))}, y = {b, widen(b, node.result())};
  const double p = node.f64("p");
  const auto regular = [&](Term v, Term otherwise) {
    return pow(where(compare(v, TENON_CMP_EQ, 0), 1, otherwise), p - 1);
  };
  Term slope = p == 2 ? x : apply("sign", x);
  if (p != 1 && p != 2) slope = slope * regular(x, abs(x));
  const Term t = {b, widen(b, tangents[0])};
  Term sum = {b, slide(b, node, slope * t, "sum")};
  if (p != 1) sum = sum / (p == 2 ? where(compare(y, TENON_CMP_EQ, 0), 1, y) : regular(y, y));
  return {b.convert(sum, node.result().dtype())};
}

constexpr OpDraft base(std::string_view name, std::string_view summary, tenon_dtypes_t dtypes) {
  OpDraft draft = op(name, kComposite);
  draft.summary(summary)
      .operand("x", "[batch, channels, spatial...]", dtypes, 0, 2)
      .result("y", "element type of x")
      .batch<batch_images<1>>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(4);
  return draft;
}
constexpr OpDraft& window_attrs(OpDraft& draft) {
  return draft.attr_i64s("window", "extent of the window per spatial dim")
      .required()
      .attr_i64s("strides", "step of the window per spatial dim; empty: 1")
      .attr_i64s("pad_low", "border before x per spatial dim; empty: 0")
      .attr_i64s("pad_high", "border after x per spatial dim; empty: 0")
      .attr_i64s("dilation", "distance of the elements of the window; empty: 1")
      .infer<infer>();
}
constexpr OpDraft max_pool() {
  OpDraft draft = base(
      "max_pool",
      "The largest element of a window that slides over the spatial dims; borders take no part.",
      kNumber);
  return window_attrs(draft)
      .constraint("C1", "every list has one entry per spatial dim",
                  "max_pool(f32[1, 1, 4]) {window = [2, 2]}")
      .constraint(
          "C2",
          "windows, strides and dilations are at least 1, paddings at least 0, all below 2^31, "
          "windows of more than one element no larger than what they slide over",
          "max_pool(f32[1, 1, 4]) {window = [0]}")
      .example(
          "max_pool(f32[1, 1, 4] [[[1, 5, 2, 3]]]) {window = [2], strides = [2]} -> f32[1, 1, 2] "
          "[[[5, 3]]]")
      .decompose<decompose_max>();
}
constexpr OpDraft avg_pool() {
  OpDraft draft =
      base("avg_pool", "The mean of a window that slides over the spatial dims.", kFloat);
  return window_attrs(draft)
      .attr(flag("count_pad", "1: borders count as zeros, 0: they take no part", 0))
      .constraint("C1", "every list has one entry per spatial dim",
                  "avg_pool(f32[1, 1, 4]) {window = [2, 2]}")
      .constraint(
          "C2",
          "windows, strides and dilations are at least 1, paddings at least 0, all below 2^31, "
          "windows of more than one element no larger than what they slide over",
          "avg_pool(f32[1, 1, 4]) {window = [2], strides = [0]}")
      .example(
          "avg_pool(f32[1, 1, 3] [[[2, 4, 6]]]) {window = [2], pad_low = [1]} -> f32[1, 1, 3] "
          "[[[2, 3, 5]]]")
      .example(
          "avg_pool(f32[1, 1, 3] [[[2, 4, 6]]]) {window = [2], pad_low = [1], count_pad = 1} -> "
          "f32[1, 1, 3] [[[1, 3, 5]]]")
      .decompose<decompose_avg>();
}
constexpr OpDraft lp_pool() {
  OpDraft draft = op("lp_pool", kComposite);
  draft.summary("The p-norm of a window that slides over the spatial dims; borders are 0.")
      .operand("x", "[batch, channels, spatial...]", kFloat, 0, 3)
      .result("y", "element type of x")
      .attr_f64("p", "which norm", 2)
      .attr_i64s("window", "extent of the window per spatial dim")
      .required()
      .attr_i64s("strides", "step of the window; empty: 1")
      .attr_i64s("pad_low", "border before x; empty: 0")
      .attr_i64s("pad_high", "border after x; empty: 0")
      .attr_i64s("dilation", "distance of the elements of the window; empty: 1")
      .constraint("C1", "every list has one entry per spatial dim",
                  "lp_pool(f32[1, 1, 4]) {window = [2, 2]}")
      .constraint(
          "C2",
          "windows, strides and dilations are at least 1, paddings at least 0, all below 2^31, "
          "windows of more than one element no larger than what they slide over",
          "lp_pool(f32[1, 1, 4]) {window = [0]}")
      .constraint("C3", "p is positive and finite", "lp_pool(f32[1, 1, 4]) {window = [2], p = 0.0}")
      .example("lp_pool(f32[1, 1, 3] [[[3, 4, 0]]]) {window = [2]} -> f32[1, 1, 2] [[[5, 4]]]")
      .infer<infer_lp>()
      .decompose<decompose_lp>()
      .jvp<jvp_lp>()
      .batch<batch_images<1>>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
}
constexpr OpDraft global_avg_pool() {
  return base("global_avg_pool", "The mean over all spatial dims, which become 1.", kFloat)
      .example("global_avg_pool(f32[1, 2, 2] [[[1, 3], [5, 8]]]) -> f32[1, 2, 1] [[[2], [6.5]]]")
      .infer<infer_global>()
      .decompose<decompose_global_avg>();
}
constexpr OpDraft global_max_pool() {
  return base("global_max_pool", "The largest element over all spatial dims, which become 1.",
              kNumber)
      .example("global_max_pool(f32[1, 2, 2] [[[1, 3], [5, 8]]]) -> f32[1, 2, 1] [[[3], [8]]]")
      .infer<infer_global>()
      .decompose<decompose_global_max>();
}

TENON_OPS(pool, max_pool, avg_pool, lp_pool, global_avg_pool, global_max_pool)

}  // namespace tenon::ops::pool
