// What it compiles them to, and how it runs them.
#pragma once
#include "patterns.h"
#include "queues.h"

namespace npu {

struct Artifact {
  Prog p;
};
inline void seal(Prog& p) {
  std::memset(p.digest, 0, 32);
  const std::string h =
      tenon::digest::sha256_hex({reinterpret_cast<const std::byte*>(&p), sizeof p});
  std::memcpy(p.digest, h.data(), 32);
}
inline std::mutex g_cache_mutex;
inline std::map<std::string, Prog> g_cache;

inline Status compile(void*, tenon_str_t target, tenon_graph_t* g, const tenon_compile_options_t*,
                      tenon_artifact_t** out) {
  if (tenon::view(target) != "npu v=1") return fail(TENON_INVALID_ARGUMENT, "npu: unknown target");
  if (tenon::cancelled()) return fail(TENON_CANCELLED, "npu: cancelled");
  const auto region = tenon::main_region(g);
  const auto nodes = region.nodes();
  Found f;
  bool found = false;
  for (const Node& n : nodes) {
    for (Value r : n.operands())
      if (r && !r.type().is_static()) return fail(TENON_UNIMPLEMENTED, "npu: concrete sizes only");
  }
  for (const Node& n : nodes)
    if (!found && seed(n)) {
      found = match_at(n, f);
      if (!found) return fail(TENON_UNIMPLEMENTED, f.why);
    }
  if (!found || f.nodes.size() != nodes.size())
    return fail(TENON_UNIMPLEMENTED, "npu: not one whole chain");
  auto a = std::make_unique<Artifact>();
  Prog& p = a->p;
  p = f.p;
  std::map<tenon_value_t, int32_t> constants;
  const auto gv = tenon::graph_view(g);
  for (tenon_value_t v = 0; v < gv.value_limit; ++v) {
    auto view = Value(g, v).view();
    if (view.kind == TENON_VALUE_CONSTANT) {
      const int32_t i = (int32_t)constants.size();
      constants[v] = i;
    }
  }
  const auto args = region.arguments();
  auto source = [&](Value v) -> Source {
    if (!v) return {};
    for (size_t i = 0; i < args.size(); ++i)
      if (args[i] == v) return {1, (int32_t)i};
    return {2, constants[v.id()]};
  };
  p.x = source(f.x);
  p.w = source(f.w);
  p.b = source(f.b);
  p.constants = (int32_t)constants.size();
  p.arguments = (int32_t)args.size();
  const auto yields = region.yields();
  p.outputs = (int32_t)yields.size();
  if (p.outputs < 1 || p.outputs > 2) return fail(TENON_UNIMPLEMENTED, "npu: odd outputs");
  for (int i = 0; i < p.outputs; ++i) {
    if (yields[i] == f.result)
      p.out_is_zp[i] = 0;
    else if (f.zp && yields[i] == f.zp)
      p.out_is_zp[i] = 1;
    else
      return fail(TENON_UNIMPLEMENTED, "npu: yields the middle of a chain");
  }
  p.rank = (int32_t)f.result.rank();
  for (int32_t i = 0; i < p.rank && i < 8; ++i) p.dims[i] = size_of_dim(f.result, i);
  if (bug("stalecache")) {
    std::lock_guard l(g_cache_mutex);
    const std::string key = cat(p.kind, " ", p.N, " ", p.C, " ", p.H, " ", p.W, " ", p.O, " ", p.M,
                                " ", p.K, " ", p.L);  // forgets act, strides, scale...
    auto [it, fresh] = g_cache.emplace(key, p);
    if (!fresh) p = it->second;
  }
  seal(p);
  *out = reinterpret_cast<tenon_artifact_t*>(a.release());
  return {};
}
inline void artifact_release(void*, tenon_artifact_t* a) {
  delete reinterpret_cast<Artifact*>(a);
}
inline Status artifact_info(void*, tenon_artifact_t*, tenon_artifact_info_t* out) {
  const tenon_artifact_info_t m = {
      .size_bytes = sizeof m, .kernels_compiled = 1, .code_bytes = sizeof(Prog)};
  return tenon::give_record(out, m);
}
inline Status artifact_bytes(void*, tenon_artifact_t* a, const tenon_sink_t* s) {
  return s->write(s->self, &reinterpret_cast<Artifact*>(a)->p, sizeof(Prog));
}
inline Status fits(void*, tenon_str_t target, const void* bytes, uint64_t n) {
  if (tenon::view(target) != "npu v=1")
    return fail(TENON_FAILED_PRECONDITION, "npu: a program for another target");
  if (n != sizeof(Prog)) return fail(TENON_FAILED_PRECONDITION, "npu: not a program");
  Prog p;
  std::memcpy(&p, bytes, n);
  Prog q = p;
  seal(q);
  if (std::memcmp(p.digest, q.digest, 32) != 0)
    return fail(TENON_FAILED_PRECONDITION, "npu: damaged program");
  return {};
}
struct Executable {
  Prog p;
  std::vector<float> wf, bf;
  std::vector<int8_t> w8;
  std::vector<float> scratch;
};
inline Executable* executable_of(tenon_executable_t* e) {
  return reinterpret_cast<Executable*>(e);
}
inline Status load(void*, tenon_device_t*, const void* bytes, uint64_t n, tenon_blob_t* const* cs,
                   uint32_t nc, tenon_executable_t** out) {
  TENON_TRY(fits(nullptr, str("npu v=1"), bytes, n));
  auto e = std::make_unique<Executable>();
  std::memcpy(&e->p, bytes, n);
  const Prog& p = e->p;
  if (nc != (uint32_t)p.constants)
    return fail(TENON_INVALID_ARGUMENT,
                cat("npu: ", nc, " constants for a program of ", p.constants));
  auto bytes_of = [&](Source s) {
    return s.kind == 2 ? tenon::blob_bytes(cs[s.index]) : std::span<const std::byte>();
  };
  const auto w = bytes_of(p.w), b = bytes_of(p.b);
  if (p.w.kind == 2) {
    if (p.kind == kQuant) {
      e->w8.resize(w.size());
      std::memcpy(e->w8.data(), w.data(), w.size());
    } else {
      e->wf.resize(w.size() / 4);
      std::memcpy(e->wf.data(), w.data(), w.size());
    }
  }
  if (p.b.kind == 2) {
    const auto* f = reinterpret_cast<const float*>(b.data());
    const int64_t ch = p.kind == kConv ? p.O : p.L,
                  inner = p.kind == kConv && p.bias_full ? p.OH * p.OW : 1;
    if ((int64_t)b.size() >= 4 * ch * inner)
      for (int64_t i = 0; i < ch; ++i) e->bf.push_back(f[i * inner]);
    else
      e->bf.assign(ch, 0);
  }
  *out = reinterpret_cast<tenon_executable_t*>(e.release());
  return {};
}
inline void executable_release(void*, tenon_executable_t* e) {
  if (bug("leakexe")) {
    executable_of(e)->bf = {};
    return;
  }
  delete executable_of(e);
}
inline Status executable_info(void*, tenon_executable_t* e, tenon_executable_info_t* out) {
  const tenon_executable_info_t m = {sizeof m, 1,
                                     executable_of(e)->wf.size() * 4 + executable_of(e)->w8.size()};
  return tenon::give_record(out, m);
}
inline uint64_t elements(const Prog& p) {
  return p.kind == kConv ? p.N * p.O * p.OH * p.OW : p.M * p.L;
}
inline Status needs(void*, tenon_executable_t* e, tenon_symbols_t s, tenon_needs_t* out) {
  const Prog& p = executable_of(e)->p;
  return tenon::fill_record(out, [&](tenon_needs_t* n) -> Status {
    if (n->output_count != (uint32_t)p.outputs || s.count != 0)
      return fail(TENON_INVALID_ARGUMENT, "npu: other outputs or symbols");
    for (int i = 0; i < p.outputs; ++i) {
      auto* o = tenon_need(n, i);
      o->size_bytes_max = elements(p) * (p.kind == kQuant && !p.out_is_zp[i] ? 1 : 4);
      for (int32_t k = 0; k < p.rank; ++k) o->dims[k] = p.dims[k];
      o->alias_input = TENON_NO_ALIAS;
    }
    n->workspace_bytes = 0;
    n->lower_bound_bytes = 0;
    return {};
  });
}
inline float act(float v, int a) {
  if (a == 1) return v > 0 || std::isnan(v) ? v : 0.0f;
  if (a == 2) return 0.5f * v * (1 + std::erf(v * 0.70710678f));
  if (a == 3) return 0.5f * v * (1 + std::tanh(0.7978845608f * (v + 0.044715f * v * v * v)));
  return v;
}
inline std::vector<float> g_scratch;  // for bug "race"
inline void run_program(Executable& e, const std::vector<unsigned char*>& in,
                        const std::vector<unsigned char*>& outs) {
  const Prog& p = e.p;
  auto at = [&](Source s) { return s.kind == 1 ? in[s.index] : nullptr; };
  const auto* x = reinterpret_cast<const float*>(at(p.x));
  if (bug("align512"))
    x = reinterpret_cast<const float*>(reinterpret_cast<uintptr_t>(x) & ~uintptr_t{511});
  const float* w = p.w.kind == 1 ? reinterpret_cast<const float*>(at(p.w)) : e.wf.data();
  std::vector<float> bias = e.bf;
  const int64_t ch = p.kind == kConv ? p.O : p.L;
  if (p.b.kind == 1) {
    const auto* b = reinterpret_cast<const float*>(at(p.b));
    bias.assign(b, b + ch);
  }
  for (int o = 0; o < p.outputs; ++o) {
    const uint64_t total = elements(p), last = bug("tail") ? total / 8 * 8 : total;
    if (p.out_is_zp[o]) {
      auto* y = reinterpret_cast<float*>(outs[o]);
      for (uint64_t i = 0; i < total; ++i) y[i] = (float)p.zy;
      continue;
    }
    if (p.kind == kConv) {
      auto* y = reinterpret_cast<float*>(outs[o]);
      uint64_t at_out = 0;
      const int64_t pw = bug("stride") && p.sw > 1 && p.W % 2 == 1 ? p.qw - 1 : p.pw;
      std::vector<float> own;
      std::vector<float>& col = bug("race") ? g_scratch : own;
      col.resize(p.C * p.KH * p.KW);
      for (int64_t n = 0; n < p.N; ++n)
        for (int64_t c = 0; c < p.O; ++c)
          for (int64_t i = 0; i < p.OH; ++i)
            for (int64_t j = 0; j < p.OW; ++j, ++at_out) {
              uint64_t t = 0;
              for (int64_t k = 0; k < p.C; ++k)
                for (int64_t a = 0; a < p.KH; ++a)
                  for (int64_t b = 0; b < p.KW; ++b) {
                    const int64_t h = i * p.sh + a - p.ph, v = j * p.sw + b - pw;
                    col[t++] = h >= 0 && h < p.H && v >= 0 && v < p.W
                                   ? x[((n * p.C + k) * p.H + h) * p.W + v]
                                   : 0;
                  }
              float s = 0;
              for (uint64_t q = 0; q < t; ++q) s += col[q] * w[c * t + q];
              if (at_out < last) y[at_out] = act(s + bias[c], p.act);
            }
    } else if (p.kind == kMatmul) {
      auto* y = reinterpret_cast<float*>(outs[o]);
      for (int64_t m = 0; m < p.M; ++m)
        for (int64_t l = 0; l < p.L; ++l) {
          float s = 0;
          for (int64_t k = 0; k < p.K; ++k) s += x[m * p.K + k] * w[k * p.L + l];
          const float bb = bug("biasrow") && p.M == p.L ? bias[m] : bias[l];
          if ((uint64_t)(m * p.L + l) < last) y[m * p.L + l] = act(s + bb, p.act);
        }
    } else {
      const auto* xq = reinterpret_cast<const int8_t*>(x);
      const auto* wq = p.w.kind == 1 ? reinterpret_cast<const int8_t*>(at(p.w)) : e.w8.data();
      auto* y = reinterpret_cast<int8_t*>(outs[o]);
      for (int64_t m = 0; m < p.M; ++m)
        for (int64_t l = 0; l < p.L; ++l) {
          int32_t s = 0;
          for (int64_t k = 0; k < p.K; ++k)
            s += (int16_t)(xq[m * p.K + k] - (int)p.zx) * (int16_t)wq[k * p.L + l];
          const float v = (float)s * (float)p.scale;
          float r = (bug("round") ? std::round(v) : std::nearbyint(v)) + (float)p.zy;
          r = std::max(r, (float)p.lo);
          r = std::min(r, (float)p.hi);
          if ((uint64_t)(m * p.L + l) < last) y[m * p.L + l] = (int8_t)r;
        }
    }
  }
}
inline Status execute(void*, tenon_executable_t* raw, const tenon_call_t* given) {
  tenon_call_t c;
  if (tenon_record_take(&c, sizeof c, given) != TENON_OK)
    return fail(TENON_INVALID_ARGUMENT, "npu: a call without its size");
  Executable* e = executable_of(raw);
  const Prog& p = e->p;
  if (c.input_count != (uint32_t)p.arguments || c.output_count != (uint32_t)p.outputs ||
      c.symbols.count != 0)
    return fail(TENON_INVALID_ARGUMENT, "npu: other inputs, outputs or symbols");
  std::vector<unsigned char*> in, out;
  for (uint32_t i = 0; i < c.input_count; ++i) {
    const auto* s = tenon_call_input(&c, i);
    in.push_back(buffer_of(s->buffer)->data + s->offset_bytes);
  }
  for (uint32_t i = 0; i < c.output_count; ++i) {
    const auto* s = tenon_call_output(&c, i);
    out.push_back(buffer_of(s->buffer)->data + s->offset_bytes);
  }
  if (bug("silentlimit") && p.K > 64) {
    if (c.queue) submit(queue_of(c.queue), c.waits, c.wait_count, c.signal, {});
    return {};
  }  // "the hardware refused": reported as OK
  if (c.queue == nullptr) {
    run_program(*e, in, out);
    return {};
  }
  submit(queue_of(c.queue), c.waits, c.wait_count, c.signal, [e, in, out]() -> Status {
    run_program(*e, in, out);
    return {};
  });
  return {};
}
inline Status properties(void*, tenon_str_t, tenon_compile_properties_t* out) {
  const tenon_compile_properties_t m = {sizeof m, TENON_COMPILE_STATIC | TENON_COMPILE_SAME_BITS};
  return tenon::give_record(out, m);
}

}  // namespace npu
