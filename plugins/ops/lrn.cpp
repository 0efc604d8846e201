// lrn: normalisation by the squares of neighbouring channels.
#include "compose.h"
#include "derivative.h"

namespace tenon::ops::lrn {

Status infer_lrn(const InferQuery& q) {
  if (q.i64("size") < 1 || q.i64("size") > 65536)
    return q.fail("C1", cat("size is ", q.i64("size")));
  return q.result(q.dtype(0), q.dims(0));
}
Status decompose_lrn(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, widen(b, node.operand(0))};
  const int64_t size = node.i64("size");
  const auto rank = static_cast<size_t>(x.rank());
  Axes window(rank, 1), low(rank, 0), high(rank, 0);
  window[1] = size;
  low[1] = (size - 1) / 2;
  high[1] = size / 2;
  const Term sum = {b, b.build("reduce_window", {(x * x).v},
                               {{"window", window}, {"pad_low", low}, {"pad_high", high}})};
  const Term base = sum * (node.f64("alpha") / static_cast<double>(size)) + node.f64("bias");
  return b.finish(out, {b.convert(x / pow(base, node.f64("beta")), node.result().dtype())});
}

constexpr OpDraft lrn() {
  OpDraft draft = op("lrn", kComposite);
  draft.summary("x / (bias + alpha / size times the squares of neighbouring channels)^beta.")
      .operand("x", "[batch, channels, ...]", kFloat, 0, 2)
      .result("y", "same type as x")
      .attr_i64("size", "how many neighbouring channels", 1)
      .required()
      .attr_f64("alpha", "factor of the mean square", 1e-4)
      .attr_f64("beta", "exponent", 0.75)
      .attr_f64("bias", "what is added", 1)
      .constraint("C1", "size is between 1 and 65536", "lrn(f32[1, 2]) {size = 0}")
      .example(
          "lrn(f32[1, 2] [[3, 4]]) {size = 3, alpha = 3.0, beta = 0.5, bias = 0.0} -> f32[1, 2] "
          "[[0.6, 0.8]]")
      .infer<infer_lrn>()
      .decompose<decompose_lrn>()
      .batch<batch_images<1>>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(16);
  return draft;
}

TENON_OPS(lrn, lrn)

}  // namespace tenon::ops::lrn
