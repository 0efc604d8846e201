// com.microsoft's QAttention: one integer product gives queries, keys and values; attention over
// them is in floats.
#include <array>
#include <cmath>
#include <limits>

#include "frontends/onnx/ops/quantise/quantise.h"

namespace tenon::onnx {
namespace {

enum Operand : size_t {
  kInput,
  kWeight,
  kBias,
  kInputScale,
  kWeightScale,
  kMask,
  kInputZero,
  kWeightZero,
  kPast
};

struct Shape {
  Dim batch, queries, past, keys;
  int64_t heads = 1, size = 1;  // of a head
};

bool read_shape(NodeContext& n, Shape* out) {
  out->heads = n.integer("num_heads", 0);
  if (n.rank(kInput) != 3 || n.rank(kWeight) != 2)
    return n.fail("T0713", "its input needs rank 3, its weights rank 2");
  const Dim columns = n.dims(kWeight)[1];
  if (!columns.is_constant()) return n.fail("T0714", "weights of symbolic size are not supported");
  if (out->heads < 1 || columns.constant() % 3 != 0 || columns.constant() / 3 % out->heads != 0)
    return n.fail("T0708", cat("attribute 'num_heads' is ", out->heads, ", and its weights have ",
                               columns.constant(), " columns"));
  out->size = columns.constant() / 3 / out->heads;
  out->batch = n.dims(kInput)[0];
  out->queries = n.dims(kInput)[1];
  out->past = n.dim(0);
  if (n.has(kPast)) {
    if (n.rank(kPast) != 5) return n.fail("T0713", "its past needs rank 5");
    out->past = n.dims(kPast)[3];
  }
  out->keys = out->past + out->queries;
  return n.ok();
}

// Part `i` of three, [batch, heads, queries, size].
Value part(NodeContext& n, Value all, const Shape& s, int64_t i) {
  const int64_t wide = s.heads * s.size;
  Dims start(3, n.dim(0)), limit = {s.batch, s.queries, n.dim((i + 1) * wide)};
  start[2] = n.dim(i * wide);
  const Value one = n.build("slice", {all}, {{"start", start}, {"limit", limit}});
  return n.transpose(n.reshape(one, {s.batch, s.queries, n.dim(s.heads), n.dim(s.size)}),
                     {0, 2, 1, 3});
}

// Keys (0) or values (1), after those of the past.
Value with_past(NodeContext& n, Value fresh, const Shape& s, int64_t which) {
  if (!n.has(kPast) || !fresh.valid()) return fresh;
  Dims start(5, n.dim(0)), limit = n.dims(kPast);
  start[0] = n.dim(which);
  limit[0] = n.dim(which + 1);
  const Value old = n.build("slice", {n.value(kPast)}, {{"start", start}, {"limit", limit}});
  const Dims shape = {s.batch, n.dim(s.heads), s.past, n.dim(s.size)};
  const std::vector<Value> both = {n.reshape(old, shape), fresh};
  return n.build("concat", both, {{"dim", 2}});
}

Value iota(NodeContext& n, const Dims& shape, int64_t dim) {
  return n.build("iota", std::vector<Value>(),
                 {{"shape", shape}, {"dim", dim}, {"dtype", dtype(TENON_I64)}});
}

// What is added to the scores of keys that the mask hides: [batch, 1, queries or 1, keys].
Value of_mask(NodeContext& n, const Shape& s) {
  const double filter = n.number("mask_filter_value", -10000);
  if (!n.has(kMask)) return Value();
  const Value given = n.convert(n.value(kMask), TENON_I64);
  if (!given.valid()) return Value();
  Value seen;
  if (n.rank(kMask) == 1) {
    if (!n.require_equal(n.dims(kMask)[0], s.batch, "the lengths in its mask and its batch"))
      return Value();
    const Dims shape = {s.batch, n.dim(1), n.dim(1), s.keys};
    const Value lengths = n.build("broadcast", {given}, {{"shape", shape}, {"dims", {0}}});
    seen = n.build("compare", {iota(n, shape, 3), lengths}, {{"direction", 2}});
  } else if (n.rank(kMask) == 2 || n.rank(kMask) == 3) {
    Dims shape = n.dims(kMask);
    if (shape.size() == 2) shape.insert(shape.begin() + 1, n.dim(1));
    shape.insert(shape.begin() + 1, n.dim(1));
    if (!n.require_equal(shape.back(), s.keys, "the keys of its mask and of its inputs"))
      return Value();
    seen = n.convert(n.reshape(given, shape), TENON_PRED);
  } else {
    n.fail("T0714", cat("a mask of rank ", n.rank(kMask), " is not supported"));
    return Value();
  }
  if (!seen.valid()) return Value();
  const Value zero = n.builder().full(TENON_F32, seen.dims(), 0);
  return n.build("select", {seen, zero, n.full_like(zero, filter)});
}

// Keys after a query are hidden: [1, 1, queries, keys].
Value of_order(NodeContext& n, const Shape& s) {
  if (n.integer("unidirectional", 0) == 0) return Value();
  const Dims shape = {n.dim(1), n.dim(1), s.queries, s.keys};
  const Value past = n.broadcast_to(n.number_of(Extent::of(s.past)), shape);
  const Value place = n.build("add", {iota(n, shape, 2), past});
  const Value seen = n.build("compare", {iota(n, shape, 3), place}, {{"direction", 3}});
  const Value zero = n.builder().full(TENON_F32, shape, 0);
  return n.build("select",
                 {seen, zero, n.full_like(zero, -std::numeric_limits<double>::infinity())});
}

Value joined_mask(NodeContext& n, const Shape& s) {
  const Value mask = of_mask(n, s), order = of_order(n, s);
  if (!mask.valid() || !order.valid()) return mask.valid() ? mask : order;
  const auto both = n.broadcast({mask, order});
  return both.size() == 2 ? n.build("add", both) : Value();
}

bool set_present(NodeContext& n, Value k, Value v) {
  if (!n.wants(1) || !k.valid() || !v.valid()) return n.ok();
  Dims one = k.dims();
  one.insert(one.begin(), n.dim(1));
  const std::vector<Value> both = {n.reshape(k, one), n.reshape(v, one)};
  return n.set(1, n.build("concat", both, {{"dim", 0}}));
}

bool qattention(NodeContext& n) {
  Shape s;
  if (!n.arity(5, 9, 2) || !read_shape(n, &s)) return false;
  if (n.integer("do_rotary", 0) != 0 || n.integer("past_present_share_buffer", 0) != 0)
    return n.fail("T0714", "rotary embeddings and shared buffers are not supported");
  std::vector<Item> operands;
  for (const size_t i :
       {kInput, kWeight, kInputScale, kWeightScale, kInputZero, kWeightZero, kBias})
    operands.push_back(n.has(i) ? n.item(i) : Item());
  const std::vector<Item> projected =
      n.as("MatMulIntegerToFloat", 1, std::move(operands), matmul_integer_to_float);
  if (projected.empty()) return n.ok();
  const Value all = n.convert(projected[0].value(), TENON_F32);
  const Value k = with_past(n, part(n, all, s, 1), s, 0),
              v = with_past(n, part(n, all, s, 2), s, 1);
  std::vector<Value> factors = {part(n, all, s, 0), k, v};
  if (const Value mask = joined_mask(n, s); mask.valid()) factors.push_back(mask);
  const double scale = n.number("scale", 0);
  const Value y =
      n.build("sdpa", factors,
              {{"scale", scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(s.size))}});
  const Dims flat = {s.batch, s.queries, n.dim(s.heads * s.size)};
  return n.set(0, n.reshape(n.transpose(y, {0, 2, 1, 3}), flat)) && set_present(n, k, v);
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"QAttention", 1, qattention, "com.microsoft"},
});

}  // namespace

std::span<const OpImporter> quantised_attention_importers() {
  return kTable;
}

}  // namespace tenon::onnx
