// Attention, RotaryEmbedding and SwiGLU, the ops of transformers since opset 23.
#include <array>
#include <cmath>
#include <limits>

#include "frontends/onnx/ops/fused.h"

namespace tenon::onnx {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

}  // namespace

Value split_heads(NodeContext& n, Value x, int64_t heads) {
  if (!x.valid() || x.rank() == 4) return x;
  const Dims d = x.dims();
  if (d.size() != 3 || heads < 1) {
    n.fail("T0713", "its inputs need rank 4, or rank 3 with numbers of heads");
    return Value();
  }
  const Dim size = n.quotient({d[2]}, {n.dim(heads)});
  return n.transpose(n.reshape(x, {d[0], d[1], n.dim(heads), size}), {0, 2, 1, 3});
}

Value join_heads(NodeContext& n, Value x) {
  if (!x.valid()) return x;
  const Dims d = x.dims();
  return n.reshape(n.transpose(x, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
}

namespace {

struct Heads {
  Value q, k, v;
  Dim batch, queries, keys;
};

Value iota(NodeContext& n, const Dims& shape, int64_t dim) {
  return n.build("iota", std::vector<Value>(),
                 {{"shape", shape}, {"dim", dim}, {"dtype", dtype(TENON_I64)}});
}
Value compare_to(NodeContext& n, Value x, int64_t direction, Value y) {
  return n.build("compare", {x, y}, {{"direction", direction}});
}
Value both(NodeContext& n, Value x, Value y) {
  if (!x.valid()) return y;
  const std::vector<Value> same = n.broadcast({x, y});
  return same.size() == 2 ? n.build("and", same) : Value();
}

// The keys that each query sees by position: [batch or 1, 1, queries, keys]; invalid if all. A
// query's position is its index plus what comes before: the past, or the filled part of the cache.
Value seen_by_place(NodeContext& n, const Heads& h, bool causal, int64_t left, int64_t right) {
  Value lengths, seen;
  const Dims grid = {h.batch, n.dim(1), h.queries, h.keys};
  if (n.has(6))
    lengths =
        n.build("broadcast", {n.convert(n.value(6), TENON_I64)}, {{"shape", grid}, {"dims", {0}}});
  const Value key = iota(n, grid, 3);
  if (lengths.valid()) seen = compare_to(n, key, 2, lengths);
  if (!causal && left < 0 && right < 0) return seen;
  Value place = iota(n, grid, 2);
  if (n.has(4)) {
    const Value past = n.build("dim_size", {n.value(4)}, {{"dim", 2}});
    place = n.build("add", {place, n.broadcast_to(past, grid)});
  } else if (lengths.valid()) {
    const Value count = n.build("dim_size", {h.q}, {{"dim", 2}});
    place = n.build("add", {place, n.build("sub", {lengths, n.broadcast_to(count, grid)})});
  }
  if (causal) seen = both(n, seen, compare_to(n, key, 3, place));
  const auto shifted = [&](int64_t by) {
    return n.build("add", {place, n.broadcast_to(n.builder().scalar_int(TENON_I64, by), grid)});
  };
  if (left >= 0) seen = both(n, seen, compare_to(n, key, 5, shifted(-left)));
  if (right >= 0) seen = both(n, seen, compare_to(n, key, 3, shifted(right)));
  return seen;
}

// The mask with four dims, padded to the number of keys; missing keys are hidden.
Value whole_mask(NodeContext& n, const Heads& h) {
  Value m = n.value(3);
  if (!m.valid()) return m;
  Dims d = m.dims();
  if (d.empty() || d.size() > 4) {
    n.fail("T0713", "its mask needs a rank of 1 to 4");
    return Value();
  }
  while (d.size() < 4) d.insert(d.begin(), n.dim(1));
  m = n.reshape(m, d);
  if (d[3] == h.keys) return m;
  if (!d[3].is_constant() || !h.keys.is_constant() || d[3].constant() > h.keys.constant()) {
    return n.require_equal(d[3], h.keys, "the keys of its mask and of its inputs") ? m : Value();
  }
  const int64_t lack = h.keys.constant() - d[3].constant();
  const Value other = m.dtype() == TENON_PRED ? n.builder().scalar_int(TENON_PRED, 0)
                                              : n.scalar(m.dtype(), kHidden);
  return n.build("pad", {m, other}, {{"low", {0, 0, 0, 0}}, {"high", {0, 0, 0, lack}}});
}

// The mask and `seen` as one operand of sdpa; invalid if every query sees every key.
Value joined_mask(NodeContext& n, const Heads& h, Value seen) {
  const Value mask = n.has(3) ? whole_mask(n, h) : Value();
  if (!n.ok() || !mask.valid()) return seen;
  if (!seen.valid()) return mask;
  if (mask.dtype() == TENON_PRED) return both(n, mask, seen);
  const std::vector<Value> same = n.broadcast({mask, seen});
  return same.size() == 2 ? n.build("select", {same[1], same[0], n.full_like(same[0], kHidden)})
                          : Value();
}

// The scores after one of their steps, for the output that asks for them.
bool scores(NodeContext& n, const Heads& h, Value mask, double scale, double softcap,
            int64_t step) {
  Value k = h.k;
  const Dims q = h.q.dims();
  if (!(q[1] == k.dims()[1])) {
    const Dims d = k.dims();
    k = n.build("broadcast", {k},
                {{"shape", Dims{d[0], d[1], n.quotient({q[1]}, {d[1]}), d[2], d[3]}},
                 {"dims", {0, 1, 3, 4}}});
    k = n.reshape(k, {d[0], q[1], d[2], d[3]});
  }
  const tenon_dtype_t type = h.q.dtype();
  Value x =
      n.build("dot_general", {h.q, k},
              {{"a_batch", {0, 1}}, {"b_batch", {0, 1}}, {"a_contract", {3}}, {"b_contract", {3}}});
  if (!x.valid()) return n.ok();
  x = n.build("mul", {x, n.full_like(x, scale)});
  if (softcap > 0)
    x = n.build("mul", {n.build("tanh", {n.build("div", {x, n.full_like(x, softcap)})}),
                        n.full_like(x, softcap)});
  if (step >= 2 && mask.valid()) {
    const Value m = n.broadcast_to(mask, x.dims());
    x = m.dtype() == TENON_PRED ? n.build("select", {m, x, n.full_like(x, kHidden)})
                                : n.build("add", {x, n.convert(m, type)});
  }
  if (step == 3 && x.valid()) {
    const Value top = n.build("reduce_max", {x}, {{"dims", {3}}});
    const Value blind = n.build("broadcast", {compare_to(n, top, 0, n.full_like(top, kHidden))},
                                {{"shape", x.dims()}, {"dims", {0, 1, 2}}});
    const Value soft = n.build("softmax", {x}, {{"dim", 3}});
    if (!soft.valid()) return n.ok();
    x = n.build("select", {blind, n.full_like(soft, 0), soft});
  }
  return n.set(3, x);
}

bool attention(NodeContext& n) {
  if (!n.arity(3, n.version() >= 24 ? 7 : 6, 4)) return false;
  const int64_t q_heads = n.integer("q_num_heads", 0), kv_heads = n.integer("kv_num_heads", 0);
  const int64_t step = n.integer("qk_matmul_output_mode", 0);
  const bool causal = n.integer("is_causal", 0) != 0;
  const double softcap = n.number("softcap", 0);
  const int64_t left = n.version() >= 25 ? n.integer("left_window_size", -1) : -1;
  const int64_t right = n.version() >= 25 ? n.integer("right_window_size", -1) : -1;
  // f32 at least, f64 for f64.
  if (n.integer("softmax_precision", kFloat) == kDouble && n.dtype(0) != TENON_F64)
    return n.fail("T0714", "a softmax in f64 is supported for f64 only");
  if (n.has(4) != n.has(5))
    return n.fail("T0713", "it needs both the past keys and values, or none");
  const bool flat = n.rank(0) == 3;
  Heads h;
  h.q = split_heads(n, n.value(0), q_heads);
  h.k = split_heads(n, n.value(1), kv_heads);
  h.v = split_heads(n, n.value(2), kv_heads);
  if (!n.ok() || !h.q.valid() || !h.k.valid() || !h.v.valid()) return n.ok();
  if (n.has(4)) {
    h.k = n.build("concat", std::vector<Value>{n.value(4), h.k}, {{"dim", 2}});
    h.v = n.build("concat", std::vector<Value>{n.value(5), h.v}, {{"dim", 2}});
  }
  if (!n.ok() || !h.k.valid() || !h.v.valid()) return n.ok();
  h.batch = h.q.dims()[0];
  h.queries = h.q.dims()[2];
  h.keys = h.k.dims()[2];
  const double size =
      h.q.dims()[3].is_constant() ? static_cast<double>(h.q.dims()[3].constant()) : 0;
  double scale = n.number("scale", 0);
  if (scale == 0) {
    if (size == 0) return n.fail("T0714", "heads of symbolic size need a scale");
    scale = 1 / std::sqrt(size);
  }
  // Without a past or a cache, sdpa itself handles causality.
  const bool plain = causal && !n.has(4) && !n.has(6) && left < 0 && right < 0;
  const Value places = plain && !n.wants(3) ? Value() : seen_by_place(n, h, causal, left, right);
  const Value mask = joined_mask(n, h, places);
  if (!n.ok()) return false;
  std::vector<Value> operands = {h.q, h.k, h.v};
  if (mask.valid())
    operands.push_back(mask.dtype() == TENON_PRED ? mask : n.convert(mask, h.q.dtype()));
  Value y = n.build("sdpa", operands,
                    {{"scale", scale},
                     {"softcap", softcap},
                     {"causal", plain ? "first" : "none"},
                     {"zero_blind", mask.valid() ? 1 : 0}});
  if (!y.valid()) return n.ok();
  n.set(1, h.k);
  n.set(2, h.v);
  if (n.wants(3) && !scores(n, h, mask, scale, softcap, step)) return false;
  if (!flat) return n.set(0, y);
  return n.set(0, join_heads(n, y));
}

// ---- RotaryEmbedding ----

Value part(NodeContext& n, Value x, Dim start, Dim limit, int64_t stride = 1) {
  if (!x.valid()) return x;
  Dims starts(x.rank(), n.dim(0)), limits = x.dims();
  std::vector<int64_t> strides(x.rank(), 1);
  starts.back() = start;
  limits.back() = limit;
  strides.back() = stride;
  return n.build("slice", {x}, {{"start", starts}, {"limit", limits}, {"stride", strides}});
}

}  // namespace

Value rotated(NodeContext& n, Value x, Value cos, Value sin, int64_t turned, bool interleaved) {
  if (!n.ok() || !x.valid()) return Value();
  const Dims d = x.dims();
  const Value a = interleaved ? part(n, x, n.dim(0), n.dim(turned), 2)
                              : part(n, x, n.dim(0), n.dim(turned / 2));
  const Value c = interleaved ? part(n, x, n.dim(1), n.dim(turned), 2)
                              : part(n, x, n.dim(turned / 2), n.dim(turned));
  const Value real = n.build("sub", {n.build("mul", {cos, a}), n.build("mul", {sin, c})});
  const Value imag = n.build("add", {n.build("mul", {sin, a}), n.build("mul", {cos, c})});
  if (!n.ok() || !real.valid() || !imag.valid()) return Value();
  Value y;
  if (interleaved) {
    Dims pair = real.dims(), whole = d;
    pair.push_back(n.dim(1));
    whole[3] = n.dim(turned);
    y = n.reshape(
        n.build("concat", std::vector<Value>{n.reshape(real, pair), n.reshape(imag, pair)},
                {{"dim", 4}}),
        whole);
  } else {
    y = n.build("concat", std::vector<Value>{real, imag}, {{"dim", 3}});
  }
  if (d[3].is(turned)) return y;
  return n.build("concat", std::vector<Value>{y, part(n, x, n.dim(turned), d[3])}, {{"dim", 3}});
}

namespace {

bool rotary_embedding(NodeContext& n) {
  if (!n.arity(3, 4)) return false;
  const bool interleaved = n.integer("interleaved", 0) != 0;
  int64_t turned = n.integer("rotary_embedding_dim", 0);
  const bool flat = n.rank(0) == 3;
  const Value x = split_heads(n, n.value(0), n.integer("num_heads", 0));
  if (!n.ok() || !x.valid()) return n.ok();
  const Dims d = x.dims();
  if (!d[3].is_constant()) return n.fail("T0714", "heads of symbolic size are not supported");
  if (turned == 0) turned = d[3].constant();
  if (turned < 2 || turned % 2 != 0 || turned > d[3].constant())
    return n.fail("T0713", "the rotated part of a head must be even and within the head");
  const Dims half = {d[0], d[1], d[2], n.dim(turned / 2)};
  // One angle per position: the caches are [positions, half], or [batch, length, half] without
  // position ids.
  const auto cache = [&](size_t i) {
    Value c = n.value(i);
    if (n.has(3)) c = n.build("take", {c, n.value(3)}, {{"dim", 0}, {"mode", "in_bounds"}});
    return c.valid() ? n.build("broadcast", {c}, {{"shape", half}, {"dims", {0, 2, 3}}}) : c;
  };
  const Value y = rotated(n, x, cache(1), cache(2), turned, interleaved);
  return n.set(0, flat ? join_heads(n, y) : y);
}

bool swiglu(NodeContext& n) {
  if (!n.arity(2, 2) || !n.same_types()) return false;
  const double alpha = n.number("alpha", 1);
  const Value a = n.value(0), b = n.value(1);
  if (!n.ok() || !a.valid()) return n.ok();
  if (alpha == 1) return n.set(0, n.build("swiglu", {a, b}));
  const Value gate = n.build("logistic", {n.build("mul", {a, n.full_like(a, alpha)})});
  return n.set(0, n.build("mul", {n.build("mul", {a, gate}), b}));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Attention", 23, attention},
    {"RotaryEmbedding", 23, rotary_embedding},
    {"SwiGLU", 28, swiglu},
});

}  // namespace

std::span<const OpImporter> attention_importers() {
  return kTable;
}

}  // namespace tenon::onnx
