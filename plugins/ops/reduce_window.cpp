// reduce_window: sum, max or min over a window that slides over every dim.
#include "gather_dims.h"

namespace tenon::ops::reduce_window {

Status infer(const InferQuery& q) {
  const size_t rank = q.rank(0);
  const Window w = window_of(q, rank);
  for (const Axes* list : {&w.window, &w.strides, &w.low, &w.high, &w.base_dilation, &w.dilation}) {
    TENON_TRY(require_length(q, "C1", "a window attribute", list->size(), rank));
  }
  for (const Axes* list : {&w.window, &w.strides, &w.base_dilation, &w.dilation}) {
    for (int64_t v : *list) {
      if (v < 1 || v > kBound) return q.fail("C2", cat("a window, stride or dilation is ", v));
    }
  }
  for (const Axes* list : {&w.low, &w.high}) {
    for (int64_t v : *list) {
      if (v < -kBound || v > kBound) return q.fail("C2", cat("a padding is ", v));
    }
  }
  TENON_TRY(require_acc(q, "C3"));
  Dims dims;
  for (uint32_t i = 0; i < rank; ++i) {
    TENON_TRY(fitting(q, "C2", q.dim(0, i), w, i, &dims.emplace_back()));
  }
  return q.result(q.dtype(0), dims);
}

// The positions of the window at `o` that lie within the ends of x: a window may be mostly padding.
struct Inside {
  Axes first, count;
};
Inside inside(const Window& w, const Index& o, const Array& x) {
  Inside out;
  for (size_t d = 0; d < o.size(); ++d) {
    const int64_t begin = o[d] * w.strides[d] - w.low[d];  // in x with interior gaps
    const int64_t end = x.dim(d) * w.base_dilation[d] - begin;
    const int64_t first = begin < 0 ? (w.dilation[d] - 1 - begin) / w.dilation[d] : 0;
    const int64_t last = end > 0 ? std::min(w.window[d], (end - 1) / w.dilation[d] + 1) : 0;
    out.first.push_back(first);
    out.count.push_back(std::max<int64_t>(last - first, 0));
  }
  return out;
}

Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const Window w = window_of(e, x.rank());
  const std::string_view kind = e.text("kind");
  return with_number(x.dtype(), [&]<class Number>(Number) -> Status {
    const auto values = x.read<Number>();
    const auto strides = strides_of(x.dims());
    std::vector<Number> out;
    each_index(y.dims(), [&](const Index& o) {
      Number result = kind == "sum"   ? Number{0}
                      : kind == "max" ? lowest_of<Number>(x.dtype())
                                      : highest_of<Number>(x.dtype());
      const Inside part = inside(w, o, x);
      each_index(part.count, [&](const Index& k) {
        int64_t at = 0;
        for (size_t d = 0; d < k.size(); ++d) {
          const int64_t place = part.first[d] + k[d];
          const int64_t position = o[d] * w.strides[d] + place * w.dilation[d] - w.low[d];
          if (position < 0 || position % w.base_dilation[d] != 0 ||
              position / w.base_dilation[d] >= x.dim(d))
            return;
          at += position / w.base_dilation[d] * strides[d];
        }
        const Number element = values[static_cast<size_t>(at)];
        // Signed sums wrap, so they are computed as unsigned numbers.
        using Wrapping = std::conditional_t<std::is_same_v<Number, double>, double, uint64_t>;
        result = kind == "sum"   ? static_cast<Number>(static_cast<Wrapping>(result) +
                                                       static_cast<Wrapping>(element))
                 : kind == "max" ? max_of(result, element)
                                 : min_of(result, element);
      });
      out.push_back(result);
    });
    y.write(out);
    return {};
  });
}

// ---- Derivatives ----

// Zeros where a constant extent is 0, whose windows cannot be inverted.
bool is_empty(Value v) {
  for (const Dim d : v.dims()) {
    if (d.is(0)) return true;
  }
  return false;
}
// Element i of x is in window o where o strides + k dilation - low = i base_dilation: a window over
// g, whose elements are `strides` apart, seen from the other end. r is how far the last window ends
// before the end of x.
Value transpose_sum(Builder& b, const Node& node, Value g) {
  const Value x = node.operand(0);
  if (is_empty(x) || is_empty(g)) return b.full_like(x, 0);
  const Window w = window_of(node, x.rank());
  Axes low, high;
  for (uint32_t i = 0; i < x.rank(); ++i) {
    const int64_t reach = (w.window[i] - 1) * w.dilation[i];
    int64_t r = w.strides[i] - 1;  // of a symbolic extent; what is too much is cut
    if (const auto n = constant_of(x.dim(i)))
      r = ((*n - 1) * w.base_dilation[i] + w.low[i] + w.high[i] - reach) % w.strides[i];
    low.push_back(reach - w.low[i]);
    high.push_back(reach - w.high[i] + r);
  }
  const Value sums = b.build("reduce_window", {g},
                             {{"window", w.window},
                              {"strides", w.base_dilation},
                              {"pad_low", low},
                              {"pad_high", high},
                              {"base_dilation", w.strides},
                              {"dilation", w.dilation},
                              {"acc", dtype(node.dtype("acc"))}});
  if (sums.dims() == x.dims()) return sums;
  const Dims start(x.rank(), b.dim(0));
  return b.build("slice", {sums}, {{"start", start}, {"limit", x.dims()}});
}

// Where in x, with its gaps and borders filled, the first largest or smallest element of each
// window is.
struct Extremes {
  Builder& b;
  Window w;
  Value index;  // into the elements of the filled x
  Dims filled;

  Extremes(Builder& builder, const Node& node)
      : b(builder), w(window_of(node, node.operand(0).rank())) {
    const bool is_max = node.text("kind") == "max";
    Value x = node.operand(0);
    x = fill(is_max ? x : b.build("neg", {x}), -std::numeric_limits<double>::infinity());
    filled = x.dims();
    const std::vector<Attr> attrs = {
        {"window", w.window}, {"strides", w.strides}, {"dilation", w.dilation}};
    index = b.build_node("window_argmax", std::vector<Value>{x}, attrs).result(1);
  }
  Value fill(Value x, double with) const {
    return b.build("pad", {x, b.scalar(x.dtype(), with)},
                   {{"low", w.low}, {"high", w.high}, {"interior", gaps()}});
  }
  Axes gaps() const {
    Axes out = w.base_dilation;
    for (int64_t& distance : out) --distance;
    return out;
  }
};

std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  if (node.text("kind") == "sum") {
    const Window w = window_of(node, node.operand(0).rank());
    return {b.build("reduce_window", {tangents[0]},
                    {{"window", w.window},
                     {"strides", w.strides},
                     {"pad_low", w.low},
                     {"pad_high", w.high},
                     {"base_dilation", w.base_dilation},
                     {"dilation", w.dilation},
                     {"acc", dtype(node.dtype("acc"))}})};
  }
  const Extremes e(b, node);
  const Dims flat = {count_of_elements(b, e.filled)};
  const Value t = reshape(b, e.fill(tangents[0], 0), flat);
  return {
      gathered(b, t, e.index, {one_each(b, flat[0], e.index)}, single_elements(e.index), "fill")};
}
std::vector<Value> pull(Builder& b, const Node& node, std::span<const uint8_t>,
                        std::span<const Value> cotangents) {
  const Value g = cotangents[0], x = node.operand(0);
  if (node.text("kind") == "sum") return {transpose_sum(b, node, g)};
  const Extremes e(b, node);
  const Value sums =
      added_up(b, g, e.index, {count_of_elements(b, e.filled)}, single_elements(e.index), "fill");
  // The border and the gaps go: a slice, after what was cut came back as zeros.
  Axes low, high, step = e.gaps();
  for (int64_t& s : step) ++s;
  Dims start, limit;
  for (uint32_t i = 0; i < x.rank(); ++i) {
    low.push_back(std::max<int64_t>(-e.w.low[i], 0));
    high.push_back(std::max<int64_t>(-e.w.high[i], 0));
    start.push_back(b.dim(std::max<int64_t>(e.w.low[i], 0)));
    limit.push_back(e.filled[i] + b.dim(low[i]) - b.dim(std::max<int64_t>(e.w.high[i], 0)) +
                    b.dim(high[i]));
  }
  Value whole = reshape(b, sums, e.filled);
  if (!all_equal(low, 0) || !all_equal(high, 0))
    whole = b.build("pad", {whole, b.scalar(g.dtype(), 0)}, {{"low", low}, {"high", high}});
  return {b.build("slice", {whole}, {{"start", start}, {"limit", limit}, {"stride", step}})};
}

constexpr OpDraft declare() {
  OpDraft draft = op("reduce_window", kPrimitive);
  draft.summary("The sum, the largest or the smallest element of a window that slides over x.")
      .doc(
          "All lists have one entry per dim of x. What lies outside of x, or between its elements "
          "with base_dilation, "
          "takes no part: 0 for sums, the lowest value for max, the highest for min.")
      .operand("x", "the input", kNumber)
      .result("y", "element type of x")
      .attr_string("kind", "what is computed", "sum", "sum|max|min")
      .attr_i64s("window", "extent of the window; empty: 1")
      .role(TENON_ROLE_PER_DIM, 1)
      .attr_i64s("strides", "step of the window; empty: 1")
      .role(TENON_ROLE_PER_DIM, 1)
      .attr_i64s("pad_low", "border before x, may be negative; empty: 0")
      .role(TENON_ROLE_PER_DIM)
      .attr_i64s("pad_high", "border after x, may be negative; empty: 0")
      .role(TENON_ROLE_PER_DIM)
      .attr_i64s("base_dilation", "distance of the elements of x; empty: 1")
      .role(TENON_ROLE_PER_DIM, 1)
      .attr_i64s("dilation", "distance of the elements of the window; empty: 1")
      .role(TENON_ROLE_PER_DIM, 1)
      .attr_dtype("acc",
                  "the type sums are kept in, or one that holds more; none: f32 for f16 and bf16, "
                  "else the type of x")
      .constraint("C1", "every list is empty or has one entry per dim of x",
                  "reduce_window(f32[4]) {window = [2, 2]}")
      .constraint(
          "C2",
          "windows, strides and dilations are at least 1, all below 2^31, windows of more than "
          "one element no larger than what they slide over",
          "reduce_window(f32[4]) {window = [0]}")
      .constraint("C3", kAccRule, "reduce_window(f32[4]) {window = [2], acc = i64}")
      .example("reduce_window(f32[4] [1, 2, 3, 4]) {window = [2]} -> f32[3] [3, 5, 7]")
      .example(
          "reduce_window(i32[4] [1, 7, 3, 4]) {kind = \"max\", window = [3], strides = [2], "
          "pad_low = [1]} -> "
          "i32[2] [7, 7]")
      .infer<infer>()
      .reference<reference>()
      .jvp<jvp>()
      .pull<pull>()
      .batched({0})
      .cost(TENON_COST_REDUCTION);
  return draft;
}

TENON_OPS(reduce_window, declare)

}  // namespace tenon::ops::reduce_window
