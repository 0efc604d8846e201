// What it claims: whole chains of a convolution or a product with a bias, and of quantised
// products.
#pragma once
#include "device.h"

namespace npu {

enum Kind : int32_t { kConv = 1, kMatmul = 2, kQuant = 3 };
struct Source {
  int32_t kind = 0, index = 0;
};  // 0 none, 1 argument, 2 constant
struct Prog {  // plain old data: the artifact
  char magic[4] = {'N', 'P', 'U', '1'};
  int32_t kind = 0, act = 0;  // act: 0 none 1 relu 2 gelu 3 gelu_tanh
  int64_t N = 0, C = 0, H = 0, W = 0, O = 0, KH = 0, KW = 0, OH = 0, OW = 0, sh = 1, sw = 1, ph = 0,
          pw = 0, qh = 0, qw = 0;  // conv
  int64_t M = 0, K = 0, L = 0;     // matmul: M x K, K x L
  double scale = 1, zx = 0, zy = 0, lo = -128, hi = 127;
  int32_t rank = 0, bias_full = 0, constants = 0, arguments = 0, outputs = 0, out_is_zp[2] = {0, 0},
          narrow = 0, w_elements = 0;
  int64_t dims[8] = {};
  Source x, w, b;
  unsigned char digest[32] = {};
};
struct Found {
  std::vector<tenon_node_t> nodes;
  Prog p;
  Value x, w, b, result, zp;
  std::string why;
};

inline Node only_user(Value v) {
  const auto u = v.uses();
  return v.use_count() == 1 && u.size() == 1 && u[0].node != TENON_NONE ? Node(v.graph(), u[0].node)
                                                                        : Node();
}
inline bool is_splat(Value v, double* out) {
  const auto s = tenon::splat_of(v);
  if (s) *out = *s;
  return s.has_value();
}
// node `n` = op(v, other): the other operand
inline Value other(const Node& n, Value v) {
  return n.operand(0) == v ? n.operand(1) : n.operand(0);
}
inline bool all_static(const Node& n) {
  for (Value v : n.operands())
    if (v && !v.type().is_static()) return false;
  return n.result().type().is_static();
}
inline int64_t size_of_dim(Value v, uint32_t i) {
  return v.dim(i).constant();
}
inline std::vector<int64_t> pick(const Node& n, const char* a, int64_t fill, size_t k) {
  auto v = n.i64s(a);
  if (v.empty()) v.assign(k, fill);
  return v;
}

// Whether a full-size constant is a broadcast of one number per entry of dim `axis`.
inline bool channelwise(Value c, uint32_t axis) {
  if (!c.is_constant() || c.dtype() != TENON_F32) return false;
  const auto bytes = tenon::blob_bytes(c.blob());
  const auto* f = reinterpret_cast<const float*>(bytes.data());
  uint64_t inner = 1, n = 1;
  for (uint32_t i = 0; i < c.rank(); ++i) n *= size_of_dim(c, i);
  for (uint32_t i = axis + 1; i < c.rank(); ++i) inner *= size_of_dim(c, i);
  const uint64_t ch = size_of_dim(c, axis);
  if (bytes.size() != n * 4) return false;
  for (uint64_t i = 0; i < n; ++i)
    if (std::memcmp(&f[i], &f[(i / inner) % ch * inner], 4) != 0) return false;
  return true;
}
// bias: broadcast(b, dims=[axis]) or a folded constant
inline bool take_bias(Found& f, const Node& add, Value v, uint32_t axis) {
  Value o = other(add, v);
  const Node b = o.node();
  if (b && b.is("broadcast") && o.use_count() == 1 && b.operand(0).rank() == 1) {
    auto d = b.i64s("dims");
    if (d.empty()) d = {static_cast<int64_t>(o.rank()) - 1};
    if (d[0] != axis || !(size_of_dim(b.operand(0), 0) == size_of_dim(o, axis))) return false;
    f.b = b.operand(0);
    f.nodes.push_back(b.id());
    f.p.bias_full = 0;
  } else if (channelwise(o, axis)) {
    f.b = o;
    f.p.bias_full = 1;
  } else
    return false;
  f.nodes.push_back(add.id());
  return true;
}
inline void take_activation(Found& f, Value v) {
  f.result = v;
  const Node n = only_user(v);
  if (!n) return;
  double z = 1;
  if (n.is("relu") && f.p.kind == kConv) {
    f.p.act = 1;
    f.nodes.push_back(n.id());
  } else if (n.is("max") && f.p.kind == kConv && is_splat(other(n, v), &z) && z == 0 &&
             !std::signbit(z)) {
    const Node b = other(n, v).node();
    if (b) {
      if (other(n, v).use_count() != 1) return;
      f.nodes.push_back(b.id());
    }
    f.p.act = 1;
    f.nodes.push_back(n.id());
  } else if (f.p.kind == kMatmul && n.is("gelu")) {
    f.p.act = 2;
    f.nodes.push_back(n.id());
  } else if (f.p.kind == kMatmul && n.is("gelu_tanh")) {
    f.p.act = 3;
    f.nodes.push_back(n.id());
  } else
    return;
  f.result = n.result();
}
inline bool match_conv(const Node& n, Found& f) {
  Prog& p = f.p;
  const Value x = n.operand(0), w = n.operand(1);
  const bool f64 = bug("dtype") && x.dtype() == TENON_F64;
  if (x.dtype() != TENON_F32 && !f64)
    return f.why = cat("npu: conv of ",
                       n.result().dtype() == TENON_F16 ? "f16" : "another type than f32"),
           false;
  if (!all_static(n)) return f.why = "npu: conv with symbolic sizes", false;
  if (x.rank() != 4) return f.why = "npu: conv of rank other than 4", false;
  if (n.i64("groups") != 1 || n.i64("batch_groups") != 1)
    return f.why = "npu: conv in groups", false;
  for (auto a : {"x_dims", "w_dims", "out_dims"}) {
    const auto v = n.i64s(a);
    for (size_t i = 0; i < v.size(); ++i)
      if (v[i] != (int64_t)i) return f.why = cat("npu: conv with other ", a), false;
  }
  for (auto a : {"x_dilation", "w_dilation"})
    for (auto v : n.i64s(a))
      if (v != 1) return f.why = "npu: dilated conv", false;
  for (auto v : n.i64s("reversal"))
    if (v) return f.why = "npu: reversed conv", false;
  if (n.dtype("dtype") != TENON_DTYPE_NONE && n.dtype("dtype") != TENON_F32)
    return f.why = "npu: conv to another type", false;
  if (n.dtype("acc") != TENON_DTYPE_NONE && n.dtype("acc") != TENON_F32)
    return f.why = "npu: conv with other sums", false;
  const auto s = pick(n, "strides", 1, 2), lo = pick(n, "pad_low", 0, 2),
             hi = pick(n, "pad_high", 0, 2);
  const Value y = n.result();
  p.kind = kConv;
  p.N = size_of_dim(x, 0);
  p.C = size_of_dim(x, 1);
  p.H = size_of_dim(x, 2);
  p.W = size_of_dim(x, 3);
  p.O = size_of_dim(w, 0);
  p.KH = size_of_dim(w, 2);
  p.KW = size_of_dim(w, 3);
  p.OH = size_of_dim(y, 2);
  p.OW = size_of_dim(y, 3);
  p.sh = s[0];
  p.sw = s[1];
  p.ph = lo[0];
  p.pw = lo[1];
  p.qh = hi[0];
  p.qw = hi[1];
  f.x = x;
  f.w = w;
  f.nodes.push_back(n.id());
  const Node add = only_user(y);
  if (!add || !add.is("add") || !take_bias(f, add, y, 1))
    return f.why = "npu: conv only with a bias", false;
  take_activation(f, add.result());
  return true;
}
inline bool match_quant(const Node& n, Found& f) {
  Prog& p = f.p;
  const Value a = n.operand(0), b = n.operand(1);
  auto load = [&](Value v, double* zero) -> Value {  // sub(convert(q), zp) or convert(q)
    *zero = 0;
    Node s = v.node();
    if (!s || v.use_count() != 1) return {};
    if (s.is("sub")) {
      if (!is_splat(s.operand(1), zero) || !s.operand(1).is_constant()) return {};
      f.nodes.push_back(s.id());
      v = s.operand(0);
      s = v.node();
      if (!s || v.use_count() != 1) return {};
    }
    const tenon_dtype_t t = s.is("convert") ? s.operand(0).dtype() : TENON_DTYPE_NONE;
    if (t != TENON_I8 && !(bug("dtype8") && t == TENON_U8)) return {};
    f.nodes.push_back(s.id());
    return s.operand(0);
  };
  double zw;
  f.x = load(a, &p.zx);
  if (!f.x) return f.why = "npu: product of i16 that is not of i8", false;
  f.w = load(b, &zw);
  if (!f.w || zw != 0) return f.why = "npu: weights that are not symmetric i8", false;
  f.nodes.push_back(n.id());
  p.kind = kQuant;
  Value v = n.result();
  Node c = only_user(v);
  if (!c || !c.is("convert") || c.result().dtype() != TENON_F32)
    return f.why = "npu: i32 product that is not scaled", false;
  f.nodes.push_back(c.id());
  v = c.result();
  Node m = only_user(v);
  if (!m || !m.is("mul") || !is_splat(other(m, v), &p.scale) || !other(m, v).is_constant())
    return f.why = "npu: product without one scale", false;
  f.nodes.push_back(m.id());
  v = m.result();
  Node r = only_user(v);
  if (!r || !r.is("round_even")) return f.why = "npu: product that is not rounded", false;
  f.nodes.push_back(r.id());
  v = r.result();
  Node z = only_user(v);
  if (z && z.is("add")) {
    Value zz = other(z, v);
    Node zc = zz.node();
    if (zc && zc.is("convert") && is_splat(zc.operand(0), &p.zy)) {
      f.nodes.push_back(zc.id());
      if (zz.use_count() > 1) f.zp = zz;
    } else if (!is_splat(zz, &p.zy) || !zz.is_constant())
      return f.why = "npu: zero point that is not constant", false;
    f.nodes.push_back(z.id());
    v = z.result();
    z = only_user(v);
  }
  if (!z || !z.is("max") || !is_splat(other(z, v), &p.lo)) return f.why = "npu: no clamp", false;
  f.nodes.push_back(z.id());
  v = z.result();
  z = only_user(v);
  if (!z || !z.is("min") || !is_splat(other(z, v), &p.hi)) return f.why = "npu: no clamp", false;
  f.nodes.push_back(z.id());
  v = z.result();
  z = only_user(v);
  if (!z || !z.is("convert") || z.result().dtype() != TENON_I8)
    return f.why = "npu: not to i8", false;
  f.nodes.push_back(z.id());
  f.result = z.result();
  return true;
}
inline bool match_matmul(const Node& n, Found& f) {
  Prog& p = f.p;
  const Value a = n.operand(0), b = n.operand(1);
  if (!all_static(n)) return f.why = "npu: product with symbolic sizes", false;
  if (n.is("dot_general")) {
    if (!n.i64s("a_batch").empty()) return f.why = "npu: product with batch dims", false;
    const auto ca = n.i64s("a_contract"), cb = n.i64s("b_contract");
    if (ca.size() != 1 || b.rank() != 2 || a.rank() < 1 || ca[0] != (int64_t)a.rank() - 1 ||
        cb[0] != 0)
      return f.why = "npu: product of another form than [..., k] x [k, n]", false;
  } else if (b.rank() != 2 || a.rank() < 2)
    return f.why = "npu: matmul with batch dims", false;
  p.K = size_of_dim(b, 0);
  p.L = size_of_dim(b, 1);
  p.M = 1;
  for (uint32_t i = 0; i + 1 < a.rank(); ++i) p.M *= size_of_dim(a, i);
  if (a.dtype() == TENON_I16) return match_quant(n, f);
  if (a.dtype() != TENON_F32) return f.why = "npu: product of another type than f32 or i8", false;
  if ((n.dtype("dtype") != TENON_DTYPE_NONE && n.dtype("dtype") != TENON_F32) ||
      (n.dtype("acc") != TENON_DTYPE_NONE && n.dtype("acc") != TENON_F32))
    return f.why = "npu: product with other sums", false;
  p.kind = kMatmul;
  f.x = a;
  f.w = b;
  f.nodes.push_back(n.id());
  const Node add = only_user(n.result());
  if (!add || !add.is("add") || !take_bias(f, add, n.result(), n.result().rank() - 1))
    return f.why = "npu: product only with a bias", false;
  take_activation(f, add.result());
  return true;
}
inline bool match_at(const Node& n, Found& f) {
  return n.is("conv") ? match_conv(n, f) : match_matmul(n, f);
}
inline bool seed(const Node& n) {
  return n.is("conv") || n.is("dot_general") || n.is("matmul");
}

inline Status claim(void*, tenon_str_t, tenon_graph_t* g, const tenon_compile_options_t*,
                    const tenon_claim_sink_t* sink) {
  for (const Node& n : tenon::main_region(g).nodes()) {
    Found f;
    if (!seed(n)) {
      if (n.is("softmax") || n.is("layer_norm") || n.is("conv_bias") || n.is("linear")) continue;
      TENON_TRY(sink->refuse(sink->self, n.id(), TENON_UNIMPLEMENTED,
                             str("npu: compiles whole chains of conv or matmul only")));
      continue;
    }
    if (!match_at(n, f)) {
      TENON_TRY(sink->refuse(sink->self, n.id(), TENON_UNIMPLEMENTED, str(f.why)));
      continue;
    }
    tenon_claim_t c = {sizeof(tenon_claim_t),
                       TENON_CLAIM_ATOMIC,
                       f.nodes.data(),
                       (uint32_t)f.nodes.size(),
                       0,
                       2000};
    TENON_TRY(sink->claim(sink->self, &c));
  }
  return {};
}

}  // namespace npu
