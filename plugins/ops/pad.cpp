// pad: adds elements of one value at the ends and between elements; negative paddings cut.
#include "common.h"
#include "derivative.h"

namespace tenon::ops::pad_op {

Status infer(const InferQuery& q) {
  const size_t rank = q.rank(0);
  const auto low = q.i64s("low"), high = q.i64s("high");
  TENON_TRY(require_length(q, "C1", "low", low.size(), rank));
  TENON_TRY(require_length(q, "C1", "high", high.size(), rank));
  if (!q.i64s("interior").empty())
    TENON_TRY(require_length(q, "C1", "interior", q.i64s("interior").size(), rank));
  const Axes interior = list_or(q.i64s("interior"), rank, 0);
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    if (interior[i] < 0) return q.fail("C2", cat("interior[", i, "] is ", interior[i]));
    Dim extent = q.dim(0, static_cast<uint32_t>(i));
    if (interior[i] > 0) {
      extent = max(extent + max(extent - q.constant(1), q.constant(0)) * q.constant(interior[i]),
                   q.constant(0));
    }
    int64_t border = 0;
    if (__builtin_add_overflow(low[i], high[i], &border) || border > INT64_MAX / 2 ||
        border < -(INT64_MAX / 2)) {
      return q.fail("C3", cat("low and high of dim ", i, " overflow"));
    }
    if (border < 0) {
      TENON_TRY(q.require("C3", TENON_REL_LE, q.constant(-border), extent,
                          cat("what is cut from dim ", i, " and its extent")));
    }
    dims.push_back(border == 0  ? extent
                   : border > 0 ? extent + q.constant(border)
                                : extent - q.constant(-border));
  }
  return q.result(q.dtype(0), dims);
}

Status reference(const Eval& e) {
  const Array x = e.input(0), value = e.input(1), y = e.output();
  const auto low = e.i64s("low");
  const auto interior = e.i64s_or("interior", x.rank(), 0);
  Index from(x.rank());
  each_index(y.dims(), [&](const Index& i) {
    bool inside = true;
    for (size_t k = 0; k < i.size() && inside; ++k) {
      const int64_t position = i[k] - low[k];
      const int64_t step = interior[k] + 1;
      from[k] = position / step;
      inside = position >= 0 && position % step == 0 && from[k] < x.dim(k);
    }
    inside ? y.copy_from(i, x, from) : y.copy_from(i, value, {});
  });
  return {};
}

Value fold(Builder&, const Node& node) {
  const bool nothing = all_equal(node.i64s("low"), 0) && all_equal(node.i64s("high"), 0) &&
                       all_equal(node.i64s("interior"), 0);
  return nothing ? node.operand(0) : Value();
}

// Of x: the elements of x alone; what was added goes, and what was cut off comes back as zeros. Of
// the value: the sum of all others.
Value transpose(Builder& b, const Node& node, uint32_t operand, std::span<const Value> cotangents) {
  const Value g = cotangents[0];
  Axes low = node.i64s("low"), high = node.i64s("high");
  Axes stride = list_or(node.i64s("interior"), low.size(), 0);
  for (Axes* list : {&low, &high}) {
    for (int64_t& border : *list) border = -border;
  }
  for (int64_t& step : stride) ++step;
  Value inner = g;
  if (!all_equal(low, 0) || !all_equal(high, 0))
    inner = b.build("pad", {g, b.scalar(g.dtype(), 0)}, {{"low", low}, {"high", high}});
  if (!all_equal(stride, 1)) {
    const Dims start(g.rank(), b.dim(0));
    inner =
        b.build("slice", {inner}, {{"start", start}, {"limit", inner.dims()}, {"stride", stride}});
  }
  if (operand == 0) return inner;
  const Axes all = range(0, static_cast<int64_t>(g.rank()));
  return minus(b, reduce(b, "reduce_sum", g, all), reduce(b, "reduce_sum", inner, all));
}

constexpr OpDraft declare() {
  OpDraft draft = op("pad", kPrimitive);
  draft.summary("x with a border of one value before, after and between its elements.")
      .doc(
          "Negative low and high cut elements off; interior puts as many values between each two "
          "elements, before the "
          "border is added.")
      .operand("x", "the input", kWhole, 1)
      .operand("value", "what the border holds", kWhole, 1, 0, 0)
      .result("y", "element type of x")
      .attr_i64s("low", "how many before, per dim")
      .role(TENON_ROLE_PER_DIM)
      .attr_i64s("high", "how many after, per dim")
      .role(TENON_ROLE_PER_DIM)
      .attr_i64s("interior", "how many between, per dim; empty: none")
      .role(TENON_ROLE_PER_DIM)
      .constraint("C1", "low, high and interior have one entry per dim of x",
                  "pad(f32[2], f32[]) {low = [1, 1], high = [0]}")
      .constraint("C2", "interior is not negative",
                  "pad(f32[2], f32[]) {low = [0], high = [0], interior = [-1]}")
      .constraint("C3", "no more is cut than there is",
                  "pad(f32[2], f32[]) {low = [-2], high = [-1]}")
      .example("pad(f32[2] [1, 2], f32[] 0) {low = [1], high = [2]} -> f32[5] [0, 1, 2, 0, 0]")
      .example(
          "pad(i32[3] [1, 2, 3], i32[] 9) {low = [-1], high = [0], interior = [1]} -> i32[4] [9, "
          "2, 9, 3]")
      .infer<infer>()
      .reference<reference>()
      .decompose_complex<by_parts>()
      .fold<fold>()
      .linear({0, 1})
      .transposed<transpose>()
      .batched({0})
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(pad, declare)

}  // namespace tenon::ops::pad_op
