// rng_bits: random numbers as a function of a key and a counter.
#include "compose.h"

namespace tenon::ops::rng_bits_op {

struct Words {
  uint32_t w[4];
};

// Philox 4x32 with 10 rounds (Salmon and others, SC 2011).
Words philox(uint64_t counter, uint32_t k0, uint32_t k1) {
  uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};

// Threefry 2x32 with 20 rounds (the same paper).
Words threefry(uint64_t counter, uint32_t k0, uint32_t k1) {
  const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDA};
  uint32_t x = static_cast<uint32_t>(counter) + k0, y = static_cast<uint32_t>(counter >> 32) + k1;
  for (uint32_t round = 0; round < 20; ++round) {
    x += y;
    y = std::rotl(y, kRotations[round % 8]) ^ x;
    if (round % 4 != 3) continue;
    const uint32_t step = round / 4 + 1;
    x += keys[step % 3];
    y += keys[(step + 1) % 3] + step;
  }
  return {{x, y, 0, 0}};
}

Status infer(const InferQuery& q) {
  TENON_TRY(q.require_equal("C1", q.dim(0, 0), q.constant(2), "words of the key and 2"));
  const tenon_dtype_t type = q.dtype("dtype");
  if (type != TENON_U32 && type != TENON_U64)
    return q.fail("C2", cat("dtype is ", dtype_name(type)));
  return q.result(type, q.dims("shape"));
}

Status reference(const Eval& e) {
  const Array key = e.input(0), counter = e.input(1), y = e.output();
  const bool wide = y.dtype() == TENON_U64, is_philox = e.text("algorithm") == "philox4x32_10";
  const auto word = [&](int64_t i) {
    return static_cast<uint32_t>(load_int(TENON_U32, key.at({&i, 1})));
  };
  const auto first = static_cast<uint64_t>(load_int(TENON_U64, counter.at({})));
  const uint64_t per_block = is_philox ? 4 : 2;
  uint64_t n = 0;
  const auto draw = [&] {
    const uint64_t block = first + n / per_block;
    const Words w = is_philox ? philox(block, word(0), word(1)) : threefry(block, word(0), word(1));
    return uint64_t{w.w[n++ % per_block]};
  };
  each_index(y.dims(), [&](const Index& i) {
    uint64_t v = draw();
    if (wide) v |= draw() << 32;
    store_int(y.dtype(), y.at(i), static_cast<int64_t>(v));
  });
  return {};
}

// ---- The same on vectors of blocks ----

Term number(Builder& b, tenon_dtype_t type, uint64_t v, const Dims& shape) {
  return {b, b.splat(b.scalar_int(type, static_cast<int64_t>(v)), shape)};
}
Term shift(std::string_view op, Term x, uint64_t by) {
  return apply(op, x, number(*x.b, x.dtype(), by, x.dims()));
}
Term low(Term x) {
  return as(x, TENON_U32);
}
Term high(Term x) {
  return as(shift("shr_logical", x, 32), TENON_U32);
}

std::vector<Term> philox(Term counter, Term k0, Term k1) {
  Builder& b = *counter.b;
  const Dims shape = counter.dims();
  const Term zero = number(b, TENON_U32, 0, shape);
  std::vector<Term> c = {low(counter), high(counter), zero, zero};
  for (int round = 0; round < 10; ++round) {
    const Term x = as(c[0], TENON_U64) * number(b, TENON_U64, 0xD2511F53, shape);
    const Term y = as(c[2], TENON_U64) * number(b, TENON_U64, 0xCD9E8D57, shape);
    c = {high(y) ^ c[1] ^ k0, low(y), high(x) ^ c[3] ^ k1, low(x)};
    k0 = k0 + number(b, TENON_U32, 0x9E3779B9, {});
    k1 = k1 + number(b, TENON_U32, 0xBB67AE85, {});
  }
  return c;
}
std::vector<Term> threefry(Term counter, Term k0, Term k1) {
  Builder& b = *counter.b;
  const Term keys[3] = {k0, k1, k0 ^ k1 ^ number(b, TENON_U32, 0x1BD11BDA, {})};
  Term x = low(counter) + k0, y = high(counter) + k1;
  for (uint32_t round = 0; round < 20; ++round) {
    x = x + y;
    const auto by = static_cast<uint64_t>(kRotations[round % 8]);
    y = (shift("shl", y, by) | shift("shr_logical", y, 32 - by)) ^ x;
    if (round % 4 != 3) continue;
    const uint32_t step = round / 4 + 1;
    x = x + keys[step % 3];
    y = y + (keys[(step + 1) % 3] + number(b, TENON_U32, step, {}));
  }
  return {x, y};
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const Term key = {b, node.operand(0)}, counter = {b, node.operand(1)};
  const Dims result = node.result().dims();
  const bool wide = node.result().dtype() == TENON_U64;
  const bool is_philox = node.text("algorithm") == "philox4x32_10";
  const int64_t per_block = (is_philox ? 4 : 2) / (wide ? 2 : 1);
  const Dim count = product(b, result, 0, result.size());
  const Dim blocks = (count + b.dim(per_block - 1)) / b.dim(per_block);
  const auto word = [&](int64_t i) { return reshape(cut(key, 0, b.dim(i), b.dim(i + 1)), {}); };
  const Term at = as(iota(b, {blocks}, 0), TENON_U64) + counter;
  const std::vector<Term> words =
      is_philox ? philox(at, word(0), word(1)) : threefry(at, word(0), word(1));
  std::vector<Value> columns;
  for (size_t i = 0; i < words.size(); i += wide ? 2 : 1) {
    Term column = words[i];
    if (wide) column = as(column, TENON_U64) | shift("shl", as(words[i + 1], TENON_U64), 32);
    columns.push_back(insert_dim(column, 1));
  }
  const Term all = reshape(concat(b, columns, 1), {blocks * b.dim(per_block)});
  return b.finish(out, {reshape(cut(all, 0, b.dim(0), count), result)});
}

constexpr OpDraft declare() {
  OpDraft draft = op("rng_bits", kComposite);
  draft.summary("Random bits that a key and a counter decide.")
      .doc(
          "The generator turns block i, counted from `counter` modulo 2^64, into 4 (philox) or 2 "
          "(threefry) words of 32 bits; the result takes them in row-major order, two for u64 "
          "with the low one first. The upper half of philox's counter is 0. Equal operands give "
          "equal bits everywhere; who draws again moves the counter on by the blocks it used.")
      .operand("key", "two words", dtype_bit(TENON_U32), 0, 1, 1)
      .operand("counter", "the first block", dtype_bit(TENON_U64), 0, 0, 0)
      .result("bits", "dtype, dims as in shape")
      .attr_dims("shape", "the dims of the result")
      .attr_dtype("dtype", "u32 or u64", TENON_U32)
      .attr_string("algorithm", "the generator", "philox4x32_10", "philox4x32_10|threefry2x32")
      .constraint("C1", "the key has two words", "rng_bits(u32[3], u64[]) {shape = [4]}")
      .constraint("C2", "dtype is u32 or u64", "rng_bits(u32[2], u64[]) {shape = [4], dtype = f32}")
      .example(
          "rng_bits(u32[2] [0, 0], u64[] 0) {shape = [5]} -> u32[5] [1713891541, 3781805453, "
          "3159862348, 2600524760, 4175744164]")
      .example(
          "rng_bits(u32[2] [0, 0], u64[] 0) {shape = [2], algorithm = \"threefry2x32\"} -> u32[2] "
          "[1797259609, 2579123966]")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .cost(TENON_COST_ELEMENTWISE);
  return draft;
}

TENON_OPS(rng_bits, declare)

}  // namespace tenon::ops::rng_bits_op
