// window_argmax: the largest element of a sliding window, and its position.
#include "gather_dims.h"

namespace tenon::ops::window_argmax_op {

Status infer(const InferQuery& q) {
  const size_t rank = q.rank(0);
  const Window w = window_of(q, rank);
  for (const Axes* list : {&w.window, &w.strides, &w.low, &w.high, &w.dilation})
    TENON_TRY(require_length(q, "C1", "a window attribute", list->size(), rank));
  Dims dims;
  for (uint32_t i = 0; i < rank; ++i) {
    for (int64_t v : {w.window[i], w.strides[i], w.dilation[i]}) {
      if (v < 1 || v > kBound)
        return q.fail("C2", cat("dim ", i, " has a window attribute of ", v));
    }
    // A window that lies entirely in the padding would have no element.
    const int64_t reach = window_span(w.window[i], w.dilation[i]) - 1;
    if (w.low[i] < 0 || w.high[i] < 0 || w.low[i] > reach || w.high[i] > reach)
      return q.fail("C3", cat("dim ", i, " has paddings ", w.low[i], " and ", w.high[i]));
    TENON_TRY(fitting(q, "C3", q.dim(0, i), w, i, &dims.emplace_back()));
  }
  if (!is_in(q.dtype("index_dtype"), kIndex))
    return q.fail("C4", cat("index_dtype is ", dtype_name(q.dtype("index_dtype"))));
  TENON_TRY(q.result(q.dtype(0), dims));
  return q.result(q.dtype("index_dtype"), dims);
}

Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output(0), index = e.output(1);
  const Window w = window_of(e, x.rank());
  return with_number(x.dtype(), [&]<class Number>(Number) -> Status {
    const auto values = x.read<Number>();
    const auto strides = strides_of(x.dims());
    Index from(x.rank());
    each_index(y.dims(), [&](const Index& o) {
      int64_t best = -1;
      each_index(w.window, [&](const Index& k) {
        for (size_t d = 0; d < k.size(); ++d) {
          const int64_t at = o[d] * w.strides[d] + k[d] * w.dilation[d] - w.low[d];
          if (at < 0 || at >= x.dim(d)) return;
          from[d] = at;
        }
        const int64_t at = offset_of(from, strides);
        const auto value = [&](int64_t i) { return values[static_cast<size_t>(i)]; };
        if constexpr (std::is_same_v<Number, double>) {
          if (best >= 0 && std::isnan(value(best))) return;
          if (std::isnan(value(at))) best = at;
        }
        if (best < 0 || value(best) < value(at)) best = at;
      });
      store_int(index.dtype(), index.at(o), best);
      if (best < 0) {  // dilation skips over a small x
        if constexpr (std::is_same_v<Number, double>) {
          store_double(y.dtype(), y.at(o), lowest_of<double>(x.dtype()));
        } else {
          store_int(y.dtype(), y.at(o), static_cast<int64_t>(lowest_of<Number>(x.dtype())));
        }
        return;
      }
      Index place(x.rank());
      for (size_t d = 0; d < place.size(); ++d) place[d] = best / strides[d] % x.dim(d);
      y.copy_from(o, x, place);
    });
    return {};
  });
}

// The tangents of the elements that were found; 0 where there was none.
std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value index = node.result(1);
  const Dims flat = {count_of_elements(b, tangents[0].dims())};
  const Value t = reshape(b, tangents[0], flat);
  return {gathered(b, t, index, {one_each(b, flat[0], index)}, single_elements(index), "fill"),
          Value()};
}
// Indices count from the beginning of a sample, and -1 stays.
std::vector<Value> batch(Builder& b, const Node& node, std::span<const Value> operands,
                         std::span<const uint8_t>, Dim) {
  Window w = window_of(node, node.operand(0).rank());
  for (Axes* list : {&w.window, &w.strides, &w.dilation}) list->insert(list->begin(), 1);
  for (Axes* list : {&w.low, &w.high}) list->insert(list->begin(), 0);
  const std::vector<Attr> attrs = {
      {"window", w.window},     {"strides", w.strides},
      {"pad_low", w.low},       {"pad_high", w.high},
      {"dilation", w.dilation}, {"index_dtype", dtype(node.dtype("index_dtype"))}};
  const Node made = b.build_node("window_argmax", operands, attrs);
  const Value index = made.result(1);
  const tenon_dtype_t type = index.dtype();
  const Value sample =
      b.build("iota", {}, {{"shape", index.dims()}, {"dim", 0}, {"dtype", dtype(type)}});
  const Value count = count_along(b, node.operand(0), range(0, node.operand(0).rank()), type);
  const Value begin = times(b, sample, b.splat(count, index.dims()));
  const Value none = b.splat(b.scalar_int(type, -1), index.dims());
  return {made.result(0), b.build("select", {equal(b, index, none), none, minus(b, index, begin)})};
}

constexpr OpDraft declare() {
  OpDraft draft = op("window_argmax", kPrimitive);
  draft.summary("The largest element of a window that slides over x, and where in x it is.")
      .doc(
          "Lists have one entry per dim of x. Borders take no part. NaN is largest; of equal "
          "elements the first in row-major order is taken. A window without any element gives the "
          "lowest value and the index -1.")
      .operand("x", "the input", kNumber)
      .result("values", "element type of x")
      .result("indices", "index_dtype: the place in x, counted in row-major order over all dims")
      .attr_i64s("window", "extent of the window; empty: 1")
      .attr_i64s("strides", "step of the window; empty: 1")
      .attr_i64s("pad_low", "border before x; empty: 0")
      .attr_i64s("pad_high", "border after x; empty: 0")
      .attr_i64s("dilation", "distance of the elements of the window; empty: 1")
      .attr_dtype("index_dtype", "i32 or i64", TENON_I64)
      .constraint("C1", "every list is empty or has one entry per dim of x",
                  "window_argmax(f32[4]) {window = [2, 2]}")
      .constraint("C2", "windows, strides and dilations are at least 1, all below 2^31",
                  "window_argmax(f32[4]) {window = [0]}")
      .constraint(
          "C3",
          "paddings are at least 0 and less than the window spans, which are no larger than what "
          "they slide over",
          "window_argmax(f32[4]) {window = [2], pad_low = [2]}")
      .constraint("C4", "index_dtype is i32 or i64",
                  "window_argmax(f32[4]) {window = [2], index_dtype = f32}")
      .example(
          "window_argmax(f32[1, 4] [[1, 7, 7, 3]]) {window = [1, 2], strides = [1, 2]} -> f32[1, "
          "2] [[7, 7]], i64[1, 2] [[1, 2]]")
      .infer<infer>()
      .reference<reference>()
      .jvp<jvp>()
      .batch<batch>()
      .cost(TENON_COST_REDUCTION);
  return draft;
}

TENON_OPS(window_argmax, declare)

}  // namespace tenon::ops::window_argmax_op
