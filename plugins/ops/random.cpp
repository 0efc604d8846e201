// uniform, normal, bernoulli, dropout, multinomial, randperm: distributions over rng_bits.
#include "compose.h"

namespace tenon::ops::random_op {

// One draw of random bits. Each op here draws once; the caller advances the counter.
Term bits(Builder& b, Value key, Value counter, const Dims& shape, tenon_dtype_t type) {
  return {b, b.build("rng_bits", {key, counter}, {{"shape", shape}, {"dtype", dtype(type)}})};
}
// In [0, 1), a multiple of the spacing of numbers just below 1 in `type`. With `centred`: in (0,
// 1).
Term unit(Builder& b, Value key, Value counter, const Dims& shape, tenon_dtype_t type,
          bool centred) {
  const bool wide = type == TENON_F64;
  const int digits = (wide                 ? 53
                      : type == TENON_F16  ? 11
                      : type == TENON_BF16 ? 8
                                           : 24) -
                     static_cast<int>(centred);
  const Term raw = bits(b, key, counter, shape, wide ? TENON_U64 : TENON_U32);
  const Term top = apply("shr_logical", raw, raw.same((wide ? 64 : 32) - digits));
  const Term x = as(top, wide ? TENON_F64 : TENON_F32);
  return (centred ? x + 0.5 : x) * std::ldexp(1.0, -digits);
}

Status check_key(const InferQuery& q, uint32_t key) {
  return q.require_equal("C1", q.dim(key, 0), q.constant(2), "words of the key and 2");
}

Status infer_drawn(const InferQuery& q) {
  TENON_TRY(check_key(q, 0));
  if (!is_float(q.dtype("dtype")))
    return q.fail("C2", cat("dtype is ", dtype_name(q.dtype("dtype"))));
  return q.result(q.dtype("dtype"), q.dims("shape"));
}
Status decompose_uniform(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_dtype_t type = node.result().dtype();
  const double low = node.f64("low"), high = node.f64("high");
  const Term u = unit(b, node.operand(0), node.operand(1), node.result().dims(), type, false);
  return b.finish(out, {as(u * (high - low) + low, type)});
}
Status decompose_normal(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_dtype_t type = node.result().dtype();
  const double mean = node.f64("mean"), spread_ = node.f64("std");
  const tenon_dtype_t work = type == TENON_F64 ? TENON_F64 : TENON_F32;
  const Term u = unit(b, node.operand(0), node.operand(1), node.result().dims(), work, true);
  return b.finish(out,
                  {as(apply("erf_inv", u * 2 - 1) * (1.4142135623730951 * spread_) + mean, type)});
}

Status infer_bernoulli(const InferQuery& q) {
  TENON_TRY(check_key(q, 1));
  return q.result(TENON_PRED, q.dims(0));
}
Status decompose_bernoulli(Builder& b, const Node& node, tenon_value_t* out) {
  const Term p = {b, widen(b, node.operand(0))};
  const Term u = unit(b, node.operand(1), node.operand(2), p.dims(), p.dtype(), false);
  return b.finish(out, {compare(u, TENON_CMP_LT, p)});
}

Status infer_dropout(const InferQuery& q) {
  TENON_TRY(check_key(q, 1));
  if (!(q.f64("rate") >= 0 && q.f64("rate") < 1))
    return q.fail("C2", cat("rate is ", q.f64("rate")));
  TENON_TRY(q.result(q.dtype(0), q.dims(0)));
  return q.result(TENON_PRED, q.dims(0));
}
Status decompose_dropout(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)};
  const double rate = node.f64("rate");
  const Term u = unit(b, node.operand(1), node.operand(2), x.dims(), TENON_F32, false);
  const Term keep = compare(u, TENON_CMP_GE, rate);
  return b.finish(out, {where(keep, x * (1 / (1 - rate)), 0), keep});
}

Status infer_multinomial(const InferQuery& q) {
  TENON_TRY(check_key(q, 1));
  const Dims count = q.dims("count");
  TENON_TRY(require_length(q, "C2", "count", count.size(), 1));
  if (!is_in(q.dtype("dtype"), kIndex))
    return q.fail("C3", cat("dtype is ", dtype_name(q.dtype("dtype"))));
  Dims dims = q.dims(0);
  dims.back() = count[0];
  return q.result(q.dtype("dtype"), dims);
}
// The index is the number of running sums that do not exceed a random point below their total.
Status decompose_multinomial(Builder& b, const Node& node, tenon_value_t* out) {
  const Term p = {b, widen(b, node.operand(0))};
  const Dims result = node.result().dims();
  const int64_t last = p.rank() - 1;
  const Term sums = {b, b.build("cumsum", {p.v}, {{"dim", last}})};
  const Term total = cut(sums, last, p.dim(last) - b.dim(1), p.dim(last));
  const Term u = unit(b, node.operand(1), node.operand(2), result, p.dtype(), false);
  const Term place = u * broadcast(total, result, range(0, last + 1));
  Dims grid = result;
  grid.push_back(p.dim(last));
  Axes without_count = range(0, last);
  without_count.push_back(last + 1);
  const Term passed = compare(broadcast(sums, grid, without_count), TENON_CMP_LE,
                              broadcast(place, grid, range(0, last + 1)));
  const tenon_dtype_t type = node.result().dtype();
  const Term index = reduced("reduce_sum", as(passed, type), {last + 1});
  const Term most = extent(b, p.dim(last) - b.dim(1), type);
  return b.finish(out, {min(index, most)});
}

Status infer_randperm(const InferQuery& q) {
  TENON_TRY(check_key(q, 0));
  TENON_TRY(require_length(q, "C2", "length", q.dims("length").size(), 1));
  if (!is_in(q.dtype("dtype"), kIndex))
    return q.fail("C3", cat("dtype is ", dtype_name(q.dtype("dtype"))));
  return q.result(q.dtype("dtype"), q.dims("length"));
}
Status decompose_randperm(Builder& b, const Node& node, tenon_value_t* out) {
  const Dims length = node.result().dims();
  const Term keys = bits(b, node.operand(0), node.operand(1), length, TENON_U64);
  const std::vector<Value> operands = {keys, iota(b, length, 0, node.result().dtype())};
  return b.finish(out, {b.build_node("sort", operands).result(1)});
}

constexpr OpDraft& key_operands(OpDraft& draft) {
  return draft.operand("key", "two words, as for rng_bits", dtype_bit(TENON_U32), 0, 1, 1)
      .operand("counter", "the first block, as for rng_bits", dtype_bit(TENON_U64), 0, 0, 0);
}
constexpr OpDraft start(std::string_view name, std::string_view summary) {
  OpDraft draft = op(name, kComposite);
  draft.summary(summary).cost(TENON_COST_TRANSCENDENTAL).tolerance(4);
  return draft;
}
constexpr OpDraft uniform() {
  OpDraft draft = start("uniform", "Numbers that are spread evenly over [low, high).");
  draft.doc(
      "One draw of rng_bits with philox4x32_10: the top 24 bits of a word (f32), 53 of two "
      "(f64), 11 (f16) or 8 (bf16), as a fraction. high itself may come out by rounding.");
  return key_operands(draft)
      .result("y", "dtype, dims as in shape")
      .attr_dims("shape", "the dims of the result")
      .attr_dtype("dtype", "a float", TENON_F32)
      .attr_f64("low", "the least number", 0)
      .attr_f64("high", "what numbers stay below", 1)
      .constraint("C1", "the key has two words", "uniform(u32[3], u64[]) {shape = [4]}")
      .constraint("C2", "dtype is a float", "uniform(u32[2], u64[]) {shape = [4], dtype = i32}")
      .example(
          "uniform(u32[2] [0, 0], u64[] 0) {shape = [2], high = 2.0} -> f32[2] [0.79809291, "
          "1.7610412]")
      .infer<infer_drawn>()
      .decompose<decompose_uniform>();
}
constexpr OpDraft normal() {
  OpDraft draft = start("normal", "Numbers with a normal distribution.");
  draft.doc(
      "The inverse of the distribution at (i + 1/2) / 2^23 for the top 23 bits i of a word of "
      "rng_bits (52 of two for f64); so no number is farther out than 5.3 (8.2) times std.");
  return key_operands(draft)
      .result("y", "dtype, dims as in shape")
      .attr_dims("shape", "the dims of the result")
      .attr_dtype("dtype", "a float", TENON_F32)
      .attr_f64("mean", "the mean", 0)
      .attr_f64("std", "the standard deviation", 1)
      .constraint("C1", "the key has two words", "normal(u32[3], u64[]) {shape = [4]}")
      .constraint("C2", "dtype is a float", "normal(u32[2], u64[]) {shape = [4], dtype = i32}")
      .example("normal(u32[2] [0, 0], u64[] 0) {shape = [2]} -> f32[2] [-0.25581594, 1.17759107]")
      .infer<infer_drawn>()
      .decompose<decompose_normal>();
}
constexpr OpDraft bernoulli() {
  OpDraft draft = start("bernoulli", "1 with the probability that p gives, else 0.");
  draft.operand("p", "probabilities", kFloat);
  return key_operands(draft)
      .result("y", "pred, dims of p")
      .constraint("C1", "the key has two words", "bernoulli(f32[2], u32[3], u64[])")
      .example("bernoulli(f32[2] [0.5, 0.5], u32[2] [0, 0], u64[] 0) -> pred[2] [1, 0]")
      .infer<infer_bernoulli>()
      .no_derivative("its results are draws")
      .decompose<decompose_bernoulli>();
}
constexpr OpDraft dropout() {
  OpDraft draft = start("dropout", "x with elements left out at random, the others made larger.");
  draft.operand("x", "the input", kFloat);
  return key_operands(draft)
      .result("y", "x / (1 - rate) where kept, else 0")
      .result("kept", "pred: which elements stay")
      .attr_f64("rate", "the part that is left out", 0.5)
      .constraint("C1", "the key has two words", "dropout(f32[2], u32[3], u64[])")
      .constraint("C2", "rate is in [0, 1)", "dropout(f32[2], u32[2], u64[]) {rate = 1.0}")
      .example("dropout(f32[2] [1, 2], u32[2] [0, 0], u64[] 0) -> f32[2] [0, 4], pred[2] [0, 1]")
      .infer<infer_dropout>()
      .decompose<decompose_dropout>();
}
constexpr OpDraft multinomial() {
  OpDraft draft = start("multinomial", "Classes drawn with the weights that each row of p gives.");
  draft.operand("p", "[..., classes]: weights, at least 0", kFloat, 0, 1);
  return key_operands(draft)
      .result("y", "[..., count]: the classes drawn, each time from all")
      .attr_dims("count", "how many per row, one entry")
      .required()
      .attr_dtype("dtype", "i32 or i64", TENON_I64)
      .constraint("C1", "the key has two words", "multinomial(f32[2], u32[3], u64[]) {count = [1]}")
      .constraint("C2", "count has one entry",
                  "multinomial(f32[2], u32[2], u64[]) {count = [1, 2]}")
      .constraint("C3", "dtype is i32 or i64",
                  "multinomial(f32[2], u32[2], u64[]) {count = [1], dtype = f32}")
      .example(
          "multinomial(f32[2] [1, 1], u32[2] [0, 0], u64[] 0) {count = [3]} -> i64[3] [0, 1, 1]")
      .infer<infer_multinomial>()
      .no_derivative("its results are classes that were drawn")
      .decompose<decompose_multinomial>();
}
constexpr OpDraft randperm() {
  OpDraft draft = start("randperm", "The numbers below a length, in random order.");
  return key_operands(draft)
      .result("y", "dtype, [length]")
      .attr_dims("length", "how many, one entry")
      .required()
      .attr_dtype("dtype", "i32 or i64", TENON_I64)
      .constraint("C1", "the key has two words", "randperm(u32[3], u64[]) {length = [4]}")
      .constraint("C2", "length has one entry", "randperm(u32[2], u64[]) {length = [4, 2]}")
      .constraint("C3", "dtype is i32 or i64",
                  "randperm(u32[2], u64[]) {length = [4], dtype = f32}")
      .example("randperm(u32[2] [0, 0], u64[] 0) {length = [2]} -> i64[2] [1, 0]")
      .infer<infer_randperm>()
      .decompose<decompose_randperm>();
}

TENON_OPS(random, uniform, normal, bernoulli, dropout, multinomial, randperm)

}  // namespace tenon::ops::random_op
