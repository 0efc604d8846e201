// Attention as ONNX Runtime's optimiser fuses it: Attention, MultiHeadAttention,
// GroupQueryAttention and their RotaryEmbedding. Each becomes one sdpa, with masks as values that
// are added to the scores, or as predicates.
#include <array>
#include <cmath>
#include <functional>

#include "frontends/onnx/ops/fused.h"

namespace tenon::onnx {
namespace {

struct Heads {
  Value q, k, v;  // [batch, heads, length, size]
  Dim batch() const { return q.dims()[0]; }
  Dim queries() const { return q.dims()[2]; }
  Dim keys() const { return k.dims()[2]; }
  bool valid() const { return q.valid() && k.valid() && v.valid(); }
};

Value part(NodeContext& n, Value x, size_t dim, Dim start, Dim limit) {
  if (!n.ok() || !x.valid()) return Value();
  Dims starts(x.rank(), n.dim(0)), limits = x.dims();
  starts[dim] = start;
  limits[dim] = limit;
  return n.build("slice", {x}, {{"start", starts}, {"limit", limits}});
}

// Entry i of a dim, which goes away.
Value entry(NodeContext& n, Value x, size_t dim, int64_t i) {
  if (!n.ok() || !x.valid()) return Value();
  Dims shape = x.dims();
  shape.erase(shape.begin() + static_cast<int64_t>(dim));
  return n.reshape(part(n, x, dim, n.dim(i), n.dim(i + 1)), shape);
}

Value iota(NodeContext& n, const Dims& shape, int64_t dim) {
  return n.build("iota", std::vector<Value>(),
                 {{"shape", shape}, {"dim", dim}, {"dtype", dtype(TENON_I64)}});
}

Value compared(NodeContext& n, Value a, int64_t direction, Value b) {
  return n.build("compare", {a, b}, {{"direction", direction}});
}

Value joined(NodeContext& n, Value past, Value now) {
  return past.valid() ? n.build("concat", std::vector<Value>{past, now}, {{"dim", 2}}) : now;
}

// ---- Masks ----

// [batch] as [batch, 1, 1, keys], each the number of its sample.
Value for_each_key(NodeContext& n, Value per_sample, const Heads& h) {
  const Dims grid = {h.batch(), n.dim(1), n.dim(1), h.keys()};
  return n.build("broadcast", {n.convert(per_sample, TENON_I64)}, {{"shape", grid}, {"dims", {0}}});
}

// A mask of rank 1: the number of keys of each sample, or ends followed by starts, or lengths
// followed by running sums, which say nothing more.
Value seen_by_length(NodeContext& n, Value mask, const Heads& h) {
  const Dim count = mask.dims()[0], batch = h.batch();
  const Value place = iota(n, {h.batch(), n.dim(1), n.dim(1), h.keys()}, 3);
  const Value ends = count == batch ? mask : part(n, mask, 0, n.dim(0), batch);
  const Value seen = compared(n, place, TENON_CMP_LT, for_each_key(n, ends, h));
  if (!(count == batch * n.dim(2))) {
    if (count == batch || count == batch * n.dim(3) + n.dim(2)) return seen;
    return n.require_equal(count, batch, "the lengths of its mask and the batch") ? seen : Value();
  }
  const Value starts = part(n, mask, 0, batch, count);
  return n.build("and", {seen, compared(n, place, TENON_CMP_GE, for_each_key(n, starts, h))});
}

// Which keys a mask keeps, in a form with the dims of the scores or 1.
Value seen(NodeContext& n, Value mask, const Heads& h) {
  if (mask.rank() == 1) return seen_by_length(n, mask, h);
  if (mask.rank() == 4) {  // [batch, 1, most, most], whose rows begin after the past
    mask = part(n, mask, 2, h.keys() - h.queries(), h.keys());
    mask = part(n, mask, 3, n.dim(0), h.keys());
  }
  if (!n.ok() || !mask.valid()) return Value();
  Dims d = mask.dims();
  if (d.size() != 4) d.insert(d.begin() + 1, d.size() == 2 ? 2 : 1, n.dim(1));
  if (d.size() != 4) return refuse(n, "its mask needs a rank of 1 to 4");
  mask = n.reshape(mask, d);
  if (mask.valid() && mask.dtype() == TENON_PRED) return mask;
  return mask.valid() ? compared(n, mask, TENON_CMP_GT, n.full_like(mask, 0)) : mask;
}

// What is added to the scores: `filter` where the mask keeps no key, and the bias. ONNX Runtime
// adds a number rather than minus infinity, so that a query that sees no key sees all.
Value added(NodeContext& n, const Heads& h, size_t mask, size_t bias, double filter) {
  Value out = n.has(bias) ? n.value(bias) : Value();
  if (!n.has(mask) || !n.ok()) return out;
  const Value kept = seen(n, n.value(mask), h);
  if (!n.ok() || !kept.valid()) return Value();
  const tenon_dtype_t type = h.q.dtype();
  const Value zero = n.builder().full(type, kept.dims(), 0);
  const Value hidden = n.build("select", {kept, zero, n.full_like(zero, filter)});
  return out.valid() ? sum_of(n, hidden, out) : hidden;
}

struct Form {
  double scale = 0, softcap = 0;
  std::string_view causal = "none";
};

Value attend(NodeContext& n, const Heads& h, Value mask, const Form& form) {
  if (!n.ok() || !h.valid()) return Value();
  std::vector<Value> operands = {h.q, h.k, h.v};
  if (mask.valid())
    operands.push_back(mask.dtype() == TENON_PRED ? mask : n.convert(mask, h.q.dtype()));
  return n.build("sdpa", operands,
                 {{"scale", form.scale}, {"softcap", form.softcap}, {"causal", form.causal}});
}

std::string_view causality(bool causal, bool past) {
  return !causal ? "none" : past ? "last" : "first";
}

// ---- Attention ----

// The sizes of q, k and v among the columns of the weights.
bool widths(NodeContext& n, Dim columns, std::array<Dim, 3>* out) {
  const std::vector<int64_t> given = n.integers("qkv_hidden_sizes");
  if (!given.empty()) {
    if (given.size() != 3 || given[0] != given[1] || given[0] < 1 || given[2] < 1)
      return n.fail("T0708", "attribute 'qkv_hidden_sizes' needs three positive sizes, two equal");
    for (size_t i = 0; i < 3; ++i) (*out)[i] = n.dim(given[i]);
    return n.require_equal(columns, n.dim(given[0] * 2) + n.dim(given[2]),
                           "the columns of its weights and qkv_hidden_sizes");
  }
  out->fill(n.quotient({columns}, {n.dim(3)}));
  return n.ok();
}

bool attention(NodeContext& n) {
  if (!n.arity(2, 7, 2)) return false;
  const int64_t heads = n.integer("num_heads", 0);
  Form form;
  form.scale = n.number("scale", 0);
  const bool causal = n.integer("unidirectional", 0) != 0;
  const double filter = n.number("mask_filter_value", -10000);
  if (n.integer("do_rotary", 0) != 0 || n.integer("past_present_share_buffer", 0) != 0 || n.has(6))
    return n.fail("T0714", "rotation and shared buffers are not supported in Attention");
  n.integer("rotary_embedding_dim", 0);
  if (n.rank(0) != 3 || n.rank(1) != 2) return n.fail("T0713", "its first inputs need ranks 3, 2");
  std::array<Dim, 3> width;
  if (!widths(n, n.dims(1)[1], &width)) return false;
  if (!n.require_equal(n.dims(0)[2], n.dims(1)[0], "the inner dims")) return false;
  Value all = n.build("matmul", {n.value(0), n.value(1)});
  if (n.has(2)) all = sum_of(n, all, n.value(2));
  std::array<Value, 3> qkv;
  Dim start = n.dim(0);
  for (size_t i = 0; i < 3; ++i) {
    qkv[i] = split_heads(n, part(n, all, 2, start, start + width[i]), heads);
    start = start + width[i];
  }
  Heads h = {qkv[0], qkv[1], qkv[2]};
  if (n.has(4)) {
    h.k = joined(n, entry(n, n.value(4), 0, 0), h.k);
    h.v = joined(n, entry(n, n.value(4), 0, 1), h.v);
  }
  if (!n.ok() || !h.valid()) return n.ok();
  form.causal = causality(causal, n.has(4));
  if (n.wants(1)) {
    Dims one = h.k.dims();
    one.insert(one.begin(), n.dim(1));
    n.set(1, n.build("concat", std::vector<Value>{n.reshape(h.k, one), n.reshape(h.v, one)},
                     {{"dim", 0}}));
  }
  return n.set(0, join_heads(n, attend(n, h, added(n, h, 3, 5, filter), form)));
}

// ---- MultiHeadAttention ----

// [batch, length, heads, several, size]: the i-th of several, as [batch, heads, length, size].
Value packed(NodeContext& n, Value x, int64_t i) {
  const Value one = entry(n, x, 3, i);
  return one.valid() ? n.transpose(one, {0, 2, 1, 3}) : one;
}

// The operand with its part of the bias, in heads.
Value biased_heads(NodeContext& n, Value x, Value bias, Dim start, int64_t heads) {
  if (!n.ok() || !x.valid() || x.rank() == 4) return x;
  if (bias.valid()) x = sum_of(n, x, part(n, bias, 0, start, start + x.dims()[2]));
  return split_heads(n, x, heads);
}

Heads operands_of(NodeContext& n, int64_t heads) {
  const Value q = n.value(0), k = n.value(1), v = n.value(2), bias = n.value(3);
  if (q.valid() && q.rank() == 5) {
    if (n.has(1) || n.has(2) || n.has(3)) {
      n.fail("T0714", "packed queries, keys and values take no other keys, values or bias");
      return {};
    }
    return {packed(n, q, 0), packed(n, q, 1), packed(n, q, 2)};
  }
  if (!n.has(1)) {
    n.fail("T0709", "its keys are missing, and its queries are not packed with them");
    return {};
  }
  const bool both = k.valid() && k.rank() == 5;
  if (!both && !n.has(2)) {
    n.fail("T0709", "its values are missing, and its keys are not packed with them");
    return {};
  }
  if (n.rank(0) != 3) {
    n.fail("T0713", "its queries need rank 3 or 5");
    return {};
  }
  const Dim width = n.dims(0)[2];
  Heads h;
  h.q = biased_heads(n, q, bias, n.dim(0), heads);
  h.k = both ? packed(n, k, 0) : biased_heads(n, k, bias, width, heads);
  h.v = both ? packed(n, k, 1) : biased_heads(n, v, bias, width + width, heads);
  return h;
}

bool multi_head_attention(NodeContext& n) {
  if (!n.arity(1, 10, 4)) return false;
  const int64_t heads = n.integer("num_heads", 0);
  Form form;
  form.scale = n.number("scale", 0);
  const double filter = n.number("mask_filter_value", -10000);
  const bool causal = n.integer("unidirectional", 0) != 0;
  if (n.has(8) || n.has(9))
    return n.fail("T0714", "shared buffers and beam search are not supported");
  if (n.has(6) != n.has(7))
    return n.fail("T0713", "it needs both the past keys and values, or none");
  Heads h = operands_of(n, heads);
  if (!n.ok() || !h.valid()) return n.ok();
  h.k = joined(n, n.value(6), h.k);
  h.v = joined(n, n.value(7), h.v);
  if (!n.ok() || !h.valid()) return n.ok();
  form.causal = causality(causal, n.has(6));
  n.set(1, h.k);
  n.set(2, h.v);
  return n.set(0, join_heads(n, attend(n, h, added(n, h, 4, 5, filter), form)));
}

// ---- RotaryEmbedding ----

// Angles of each position: rows of a cache [positions, half], as [batch, heads, length, half].
Value angles(NodeContext& n, size_t cache, Value positions, const Dims& heads) {
  const Value rows =
      n.build("take", {n.value(cache), positions}, {{"dim", 0}, {"mode", "in_bounds"}});
  if (!n.ok() || !rows.valid()) return Value();
  const Dims shape = {heads[0], heads[1], heads[2], n.dims(cache).back()};
  return n.build("broadcast", {rows}, {{"shape", shape}, {"dims", {0, 2, 3}}});
}

Value rotated_by(NodeContext& n, Value x, size_t cos, Value positions, bool interleaved) {
  if (!n.ok() || !x.valid()) return Value();
  const Dim half = n.rank(cos) == 2 ? n.dims(cos)[1] : Dim::invalid();
  if (!half.valid() || !half.is_constant() || !x.dims()[3].is_constant() ||
      half.constant() * 2 > x.dims()[3].constant() || half.constant() < 1)
    return refuse(n, "its caches need [positions, half of what is rotated in a head]");
  const Dims d = x.dims();
  return rotated(n, x, angles(n, cos, positions, d), angles(n, cos + 1, positions, d),
                 half.constant() * 2, interleaved);
}

// input, position ids ([1]: of the first token; [batch, length]), caches of cos and sin.
bool rotary_embedding(NodeContext& n) {
  if (!n.arity(4, 4)) return false;
  const bool interleaved = n.integer("interleaved", 0) != 0, flat = n.rank(0) == 3;
  int64_t heads = n.integer("num_heads", 0);
  const int64_t turned = n.integer("rotary_embedding_dim", 0);
  if (turned != 0 && n.rank(2) == 2 && !n.dims(2)[1].is(turned / 2))
    return n.fail("T0713", cat("attribute 'rotary_embedding_dim' is ", turned,
                               ", and its caches have another width than half of it"));
  if (n.number("scale", 1) != 1 || n.integer("is_packed_batching", 0) != 0)
    return n.fail("T0714", "scales and packed batches are not supported");
  if (flat && heads == 0) {
    const Dim width = n.dims(0)[2], half = n.rank(2) == 2 ? n.dims(2)[1] : n.dim(1);
    if (!width.is_constant() || !half.is_constant() || half.constant() < 1)
      return n.fail("T0714", "heads of symbolic size are not supported");
    heads = width.constant() / (half.constant() * 2);
  }
  const Value x = split_heads(n, n.value(0), heads);
  if (!n.ok() || !x.valid()) return n.ok();
  Value positions = n.value(1);
  if (positions.valid() && positions.rank() < 2) {
    const Dims grid = {x.dims()[0], x.dims()[2]};
    const Value first = n.convert(n.reshape(positions, {}), TENON_I64);
    positions = n.build("add", {iota(n, grid, 1), n.broadcast_to(first, grid)});
  }
  const Value y = rotated_by(n, x, 2, positions, interleaved);
  return n.set(0, flat ? join_heads(n, y) : y);
}

// ---- GroupQueryAttention ----

// How many keys each sample has before its queries: [batch], i64. A first prompt has none, whatever
// the length of the samples in it.
Value past_lengths(NodeContext& n, const Heads& h) {
  const Dims batch = {h.batch()};
  const auto spread = [&](Value scalar) { return n.builder().splat(scalar, batch); };
  const Value length = n.number_of(Extent::of(h.queries()));
  const Value last = n.reshape(n.convert(n.value(5), TENON_I64), batch);
  const Value total = n.reshape(n.convert(n.value(6), TENON_I64), {});
  if (!n.ok() || !last.valid() || !total.valid() || !length.valid()) return Value();
  const Value before =
      n.build("sub", {n.build("add", {last, n.full_like(last, 1)}), spread(length)});
  const Value prompt = spread(compared(n, total, TENON_CMP_EQ, length));
  return n.build("select", {prompt, n.full_like(before, 0), before});
}

struct Places {
  Value past;       // [batch]: keys before the queries
  Value positions;  // [batch, queries]
};

// The keys that each query sees: those up to itself, at most `window`. Keys of the past that are
// not filled are hidden.
Value seen_keys(NodeContext& n, const Heads& h, const Places& at, Dim before, int64_t window) {
  const Dims grid = {h.batch(), n.dim(1), h.queries(), h.keys()};
  const auto spread = [&](Value x, std::vector<int64_t> dims) {
    return n.build("broadcast", {x}, {{"shape", grid}, {"dims", dims}});
  };
  const auto number = [&](Dim d) { return n.builder().splat(n.number_of(Extent::of(d)), grid); };
  const Value index = iota(n, grid, 3), past = spread(at.past, {0}),
              query = spread(at.positions, {0, 2});
  if (!n.ok() || !index.valid() || !past.valid() || !query.valid()) return Value();
  // The place of a key of this call is that of its query.
  const Value old = compared(n, index, TENON_CMP_LT, number(before));
  const Value moved = n.build("add", {n.build("sub", {index, number(before)}), past});
  const Value place = n.build("select", {old, index, moved});
  const Value filled = n.build("select", {old, compared(n, index, TENON_CMP_LT, past),
                                          compared(n, index, TENON_CMP_GE, number(before))});
  Value out = n.build("and", {filled, compared(n, place, TENON_CMP_LE, query)});
  if (window < 0) return out;
  const Value first = n.build("sub", {query, n.full_like(query, static_cast<double>(window))});
  return n.build("and", {out, compared(n, place, TENON_CMP_GT, first)});
}

// Queries, keys and values of one operand or of three.
Heads grouped(NodeContext& n, int64_t heads, int64_t key_heads) {
  if (n.rank(0) != 3 || heads < 1 || key_heads < 1 || heads % key_heads != 0) {
    n.fail("T0713", "it needs queries of rank 3, and num_heads a multiple of kv_num_heads");
    return {};
  }
  if (n.has(1) != n.has(2)) {
    n.fail("T0709", "it needs both keys and values, or none");
    return {};
  }
  if (n.has(1))
    return {split_heads(n, n.value(0), heads), split_heads(n, n.value(1), key_heads),
            split_heads(n, n.value(2), key_heads)};
  const Dim size = n.quotient({n.dims(0)[2]}, {n.dim(heads + 2 * key_heads)});
  if (!n.ok()) return {};
  const Dim q = size * n.dim(heads), k = size * n.dim(key_heads);
  return {split_heads(n, part(n, n.value(0), 2, n.dim(0), q), heads),
          split_heads(n, part(n, n.value(0), 2, q, q + k), key_heads),
          split_heads(n, part(n, n.value(0), 2, q + k, q + k + k), key_heads)};
}

// Keys or values [batch, heads, keys, size] of the past and then of this call, with those of this
// call moved to the end of each sample's past. What is after them is 0.
Value closed_up(NodeContext& n, Value x, const Places& at, Dim before) {
  const Dims grid = x.dims();
  const auto number = [&](Dim d) { return n.builder().splat(n.number_of(Extent::of(d)), grid); };
  const Value index = iota(n, grid, 2);
  const Value past = n.build("broadcast", {at.past}, {{"shape", grid}, {"dims", {0}}});
  if (!n.ok() || !index.valid() || !past.valid()) return Value();
  const Value gap = n.build("sub", {number(before), past});
  const Value moved = n.build("add", {index, gap});
  const Value old = compared(n, index, TENON_CMP_LT, past);
  const Value there = compared(n, moved, TENON_CMP_LT, number(grid[2]));
  const Value from =
      n.build("select", {n.build("and", {there, n.build("not", {old})}), moved, index});
  const Value taken = n.build("take_along", {x, from}, {{"dim", 2}, {"mode", "in_bounds"}});
  return n.build("select", {n.build("or", {old, there}), taken, n.full_like(x, 0)});
}

// `plain` where the condition holds, else what `other` builds, which then costs nothing.
Value unless(NodeContext& n, Value holds, Value plain, const std::function<Value()>& other) {
  const GraphProto empty;
  const auto bind = [](std::vector<Item>*) { return true; };
  std::vector<Region> regions(2);
  const auto give_other = [&](std::vector<Value>* yields) {
    yields->push_back(other());
    return n.ok();
  };
  const auto give_plain = [&](std::vector<Value>* yields) {
    yields->push_back(plain);
    return true;
  };
  if (!n.ok() || !holds.valid() || !plain.valid() ||
      !n.region(empty, bind, give_other, &regions[0]) ||
      !n.region(empty, bind, give_plain, &regions[1]))
    return Value();
  const Value operands[] = {holds};
  return n.builder().build_node("switch", operands, {}, regions).result(0);
}

// The new past: the old one of each sample, followed by what this call adds. ONNX Runtime makes it
// as long as the longest sample, which is the old one and what this call adds unless the caller's
// buffers have room for more.
void set_present(NodeContext& n, const Heads& h, const Places& at, Dim before) {
  if (!n.has(3)) {
    n.set(1, h.k);
    n.set(2, h.v);
    return;
  }
  if (!n.wants(1) && !n.wants(2)) return;
  const bool one = h.batch().is(1);
  const Value total = n.reshape(n.convert(n.value(6), TENON_I64), {});
  const Value length = n.number_of(Extent::of(h.keys())), old = n.number_of(Extent::of(before));
  if (!n.ok() || !total.valid() || !length.valid() || !old.valid()) return;
  const Value full = compared(n, at.past, TENON_CMP_EQ, n.builder().splat(old, {h.batch()}));
  const Value all_full = n.build("reduce_and", {full}, {{"dims", {0}}});
  const Value fits = one ? all_full : compared(n, total, TENON_CMP_EQ, length);
  const auto present = [&](Value x) {
    const Value made =
        one ? x : unless(n, all_full, x, [&] { return closed_up(n, x, at, before); });
    return n.checked(made, fits,
                     "the past has room for more keys than total_sequence_length says; buffers "
                     "that past and present share are not supported");
  };
  n.set(1, present(h.k));
  n.set(2, present(h.v));
}

// A key of zeros adds 1 to the sum of weights, and nothing to the result.
Heads with_sink(NodeContext& n, Heads h) {
  const auto longer = [&](Value x) {
    if (!x.valid()) return x;
    const std::vector<int64_t> none(4, 0), one = {0, 0, 1, 0};
    return n.build("pad", {x, n.scalar(x.dtype(), 0)}, {{"low", one}, {"high", none}});
  };
  return {h.q, longer(h.k), longer(h.v)};
}

bool group_query_attention(NodeContext& n) {
  if (n.input_count() < 7 || n.input_count() > 12 || !n.has(0) || !n.has(5) || !n.has(6))
    return n.fail("T0709", "it takes 7 to 12 inputs, queries, seqlens_k and the total among them");
  const int64_t heads = n.integer("num_heads", 0), key_heads = n.integer("kv_num_heads", 0);
  const int64_t window = n.integer("local_window_size", -1);
  const bool rotary = n.integer("do_rotary", 0) != 0,
             interleaved = n.integer("rotary_interleaved", 0) != 0,
             smooth = n.integer("smooth_softmax", 0) == 1;
  Form form;
  form.scale = n.number("scale", 0);
  form.softcap = n.number("softcap", 0);
  if (n.has(11)) return n.fail("T0714", "the input head_sink is not supported");
  if (n.has(3) != n.has(4))
    return n.fail("T0713", "it needs both the past keys and values, or none");
  if (rotary && (!n.has(7) || !n.has(8)))
    return n.fail("T0709", "do_rotary needs the caches of cos and sin");
  Heads h = grouped(n, heads, key_heads);
  if (!n.ok() || !h.valid()) return n.ok();
  Places at;
  const Dims grid = {h.batch(), h.queries()};
  at.past = n.has(3) ? past_lengths(n, h)
                     : n.builder().splat(n.builder().scalar_int(TENON_I64, 0), {h.batch()});
  if (!n.ok() || !at.past.valid()) return n.ok();
  at.positions = n.build(
      "add", {iota(n, grid, 1), n.build("broadcast", {at.past}, {{"shape", grid}, {"dims", {0}}})});
  if (rotary) {
    const Value turns = n.has(9) ? n.value(9) : at.positions;
    h.q = rotated_by(n, h.q, 7, turns, interleaved);
    h.k = rotated_by(n, h.k, 7, turns, interleaved);
  }
  const Dim before = n.has(3) ? n.dims(3)[2] : n.dim(0);
  h.k = joined(n, n.value(3), h.k);
  h.v = joined(n, n.value(4), h.v);
  if (!n.ok() || !h.valid()) return n.ok();
  set_present(n, h, at, before);
  const bool plain = !n.has(3) && window < 0 && !smooth;
  Value mask = plain ? Value() : seen_keys(n, h, at, before, window);
  if (n.has(10) && mask.valid()) {
    const std::vector<Value> same = n.broadcast({mask, n.value(10)});
    if (same.size() != 2) return n.ok();
    mask = n.build("select", {same[0], same[1], n.full_like(same[1], -INFINITY)});
  } else if (n.has(10)) {
    mask = n.value(10);
  }
  if (plain) form.causal = "first";
  if (!smooth) return n.set(0, join_heads(n, attend(n, h, mask, form)));
  if (mask.valid()) {
    const Value open = mask.dtype() == TENON_PRED ? n.builder().scalar_int(TENON_PRED, 1)
                                                  : n.scalar(mask.dtype(), 0);
    const std::vector<int64_t> none(4, 0), one = {0, 0, 0, 1};
    mask = n.build("pad", {mask, open}, {{"low", one}, {"high", none}});
  }
  return n.set(0, join_heads(n, attend(n, with_sink(n, h), mask, form)));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Attention", 1, attention, kMicrosoft},
    {"MultiHeadAttention", 1, multi_head_attention, kMicrosoft},
    {"RotaryEmbedding", 1, rotary_embedding, kMicrosoft},
    {"GroupQueryAttention", 1, group_query_attention, kMicrosoft},
});

}  // namespace

std::span<const OpImporter> fused_attention_importers() {
  return kTable;
}

}  // namespace tenon::onnx
