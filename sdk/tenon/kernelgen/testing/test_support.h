// For tests of kernelgen only: a program's meaning by brute force in double precision, and
// generated C++ run through the system's clang.
#ifndef TENON_KERNELGEN_TESTING_TEST_SUPPORT_H_
#define TENON_KERNELGEN_TESTING_TEST_SUPPORT_H_

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/kernelgen/device/generate.h"
#include "tenon/kernelgen/fuse/fuse.h"
#include "tenon/kernelgen/ir/general.h"
#include "tenon/kernelgen/lower/builder.h"

namespace tenon::kernelgen::testing {

// ---- Half precision ----

inline float half_to_float(uint16_t h) {
  const uint32_t s = (h & 0x8000u) << 16, e = h >> 10 & 31, m = h & 0x3ff;
  if (e == 31) return std::bit_cast<float>(s | 0x7f800000u | m << 13);
  const float v =
      e ? std::ldexp(1 + m / 1024.f, static_cast<int>(e) - 15) : std::ldexp(m / 1024.f, -14);
  return s ? -v : v;
}
inline uint16_t float_to_half(float f) {
  uint16_t best = 0;
  if (std::isnan(f)) return 0x7e00;
  if (std::isinf(f) || std::fabs(f) >= 65520)
    return static_cast<uint16_t>((f < 0 ? 0x8000 : 0) | 0x7c00);
  int e = 0;
  std::frexp(f, &e);
  const int shift = std::max(e, -13) - 11;
  const float q = std::nearbyint(std::ldexp(std::fabs(f), -shift));
  const float r = std::ldexp(q, shift);
  // r is exact in f16: find its bits.
  int re = 0;
  const float m = std::frexp(r, &re);
  if (r == 0) {
    best = 0;
  } else if (re < -13) {
    best = static_cast<uint16_t>(std::ldexp(r, 24));
  } else {
    best = static_cast<uint16_t>(((re + 14) << 10) | (static_cast<int>(std::ldexp(m, 11)) & 0x3ff));
  }
  return static_cast<uint16_t>(best | (std::signbit(f) ? 0x8000 : 0));
}

// ---- Tensors of any type as doubles ----

struct Data {
  DType type = TENON_F32;
  std::vector<uint8_t> bytes;
  size_t size() const { return bytes.size() / size_of(type); }
  Data() = default;
  Data(DType t, size_t n) : type(t), bytes(n * size_of(t)) {}

  template <class T>
  T raw(size_t i) const {
    T v;
    std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
    return v;
  }
  template <class T>
  void put(size_t i, T v) {
    std::memcpy(bytes.data() + i * sizeof(T), &v, sizeof(T));
  }
  double get(size_t i) const {
    switch (type) {
      case TENON_PRED:
      case TENON_U8:
        return raw<uint8_t>(i);
      case TENON_I8:
        return raw<int8_t>(i);
      case TENON_I16:
        return raw<int16_t>(i);
      case TENON_U16:
        return raw<uint16_t>(i);
      case TENON_I32:
        return raw<int32_t>(i);
      case TENON_U32:
        return raw<uint32_t>(i);
      case TENON_I64:
        return static_cast<double>(raw<int64_t>(i));
      case TENON_U64:
        return static_cast<double>(raw<uint64_t>(i));
      case TENON_F16:
        return half_to_float(raw<uint16_t>(i));
      case TENON_BF16:
        return std::bit_cast<float>(uint32_t{raw<uint16_t>(i)} << 16);
      case TENON_F32:
        return raw<float>(i);
      default:
        return raw<double>(i);
    }
  }
  // Integers wrap, as random numbers may be below 0.
  void set(size_t i, double v) {
    switch (type) {
      case TENON_PRED:
        put<uint8_t>(i, v != 0);
        break;
      case TENON_U8:
        put(i, static_cast<uint8_t>(static_cast<int64_t>(v)));
        break;
      case TENON_I8:
        put(i, static_cast<int8_t>(static_cast<int64_t>(v)));
        break;
      case TENON_I16:
        put(i, static_cast<int16_t>(static_cast<int64_t>(v)));
        break;
      case TENON_U16:
        put(i, static_cast<uint16_t>(static_cast<int64_t>(v)));
        break;
      case TENON_I32:
        put(i, static_cast<int32_t>(static_cast<int64_t>(v)));
        break;
      case TENON_U32:
        put(i, static_cast<uint32_t>(static_cast<int64_t>(v)));
        break;
      case TENON_I64:
        put(i, static_cast<int64_t>(v));
        break;
      case TENON_U64:
        put(i, static_cast<uint64_t>(v));
        break;
      case TENON_F16:
        put(i, float_to_half(static_cast<float>(v)));
        break;
      case TENON_BF16: {
        const uint32_t b = std::bit_cast<uint32_t>(static_cast<float>(v));
        put(i, static_cast<uint16_t>(std::isnan(v) ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16));
        break;
      }
      case TENON_F32:
        put(i, static_cast<float>(v));
        break;
      default:
        put(i, v);
    }
  }
};

// ---- Meaning ----

class Oracle {
 public:
  Oracle(const Kernel& k, std::vector<int64_t> ext, std::vector<std::vector<double>>* buffers)
      : k_(k), ext_(std::move(ext)), buffers_(*buffers), axis_(k.pool.axes().size()) {}

  void run() {
    for (const Stage& s : k_.stages) {
      stage_ = &s;
      points(s.space, 0, [&] { s.ordered() ? in_order(s) : one(s); });
    }
  }

 private:
  template <class F>
  void points(const std::vector<uint32_t>& axes, size_t at, F f) {
    if (at == axes.size()) return f();
    const int64_t n = k_.pool.evaluate(k_.pool.axes()[axes[at]].extent, ext_);
    for (int64_t i = 0; i < n; ++i) {
      axis_[axes[at]] = i;
      points(axes, at + 1, f);
    }
  }

  void one(const Stage& s) {
    std::vector<double> values;
    if (s.kind == StageKind::kMap) {
      for (ExprId e : s.value) values.push_back(eval(e));
    } else if (s.kind == StageKind::kReduce) {
      states_.clear();
      for (ExprId e : s.init) states_.push_back(eval(e));
      points(s.reduce, 0, [&] {
        std::vector<double> next;
        for (ExprId e : s.step) next.push_back(eval(e));
        states_ = next;
      });
      for (ExprId e : s.final) values.push_back(eval(e));
    } else {
      double sum = 0;
      points(s.reduce, 0, [&] { sum += eval(s.a) * eval(s.b); });
      states_ = {sum};
      for (ExprId e : s.final) values.push_back(eval(e));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      buffers_[s.store[i].buffer][offset(s.store[i].buffer, s.store[i].index)] = values[i];
    }
  }

  void put(const View& v, double value) {
    if (v.guard == kNone || eval(v.guard)) buffers_[v.buffer][offset(v.buffer, v.index)] = value;
  }

  void in_order(const Stage& s) {
    if (s.kind == StageKind::kScan) {
      std::vector<double> now;
      states_.clear();
      for (ExprId e : s.init) now.push_back(eval(e));
      points(s.reduce, 0, [&] {
        states_ = now;
        std::vector<double> next;
        for (ExprId e : s.step) next.push_back(eval(e));
        states_.insert(states_.end(), next.begin(), next.end());
        for (size_t i = 0; i < s.store.size(); ++i) put(s.store[i], eval(s.final[i]));
        now = next;
      });
    } else if (s.kind == StageKind::kScatter) {
      points(s.fill, 0, [&] { put(s.store[0], eval(s.init[0])); });
      points(s.reduce, 0, [&] {
        const View& v = s.store[1];
        if (v.guard != kNone && !eval(v.guard)) return;
        states_ = {buffers_[v.buffer][offset(v.buffer, v.index)]};
        put(v, eval(s.step[0]));
      });
    } else if (s.kind == StageKind::kAttention) {
      double top = -INFINITY, sum = 0, all = 0;
      std::vector<double> scores;
      points(s.reduce, 0, [&] {
        double dot = 0;
        points(s.fill, 0, [&] { dot += eval(s.a) * eval(s.b); });
        states_ = {dot};
        scores.push_back(eval(s.step[0]));
        top = std::isnan(scores.back()) || std::isnan(top) ? NAN : std::fmax(top, scores.back());
      });
      if (top == -INFINITY) top = 0;  // no key is seen: all weights are 0
      size_t n = 0;
      points(s.reduce, 0, [&] {
        const double w = std::exp(scores[n++] - top);
        sum += w;
        all += w * eval(s.value[0]);
      });
      states_ = {all / sum, sum};
      put(s.store[0], eval(s.final[0]));
    } else {
      std::vector<int64_t> order;
      std::vector<std::vector<double>> keys;
      points(s.reduce, 0, [&] {
        order.push_back(axis_[s.reduce[0]]);
        keys.emplace_back();
        for (ExprId e : s.step) keys.back().push_back(eval(e));
      });
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return keys[size_t(a)] != keys[size_t(b)] ? keys[size_t(a)] < keys[size_t(b)] : a < b;
      });
      points(s.fill, 0, [&] {
        axis_[s.reduce[0]] = order[static_cast<size_t>(axis_[s.fill[0]])];
        for (size_t i = 0; i < s.store.size(); ++i) put(s.store[i], eval(s.value[i]));
      });
    }
  }

  size_t offset(uint32_t b, std::span<const ExprId> index) {
    const Buffer& x = k_.buffers[b];
    double at = x.offset == kNone ? 0 : eval(x.offset);
    for (size_t d = 0; d < index.size(); ++d) at += eval(index[d]) * eval(x.strides[d]);
    return static_cast<size_t>(at);
  }

  double eval(ExprId e) {
    const Pool& p = k_.pool;
    const Expr& x = p.at(e);
    switch (x.kind) {
      case X::kConst:
        return p.number_value(e);
      case X::kExtent:
        return static_cast<double>(ext_[x.ref]);
      case X::kAxis:
        return static_cast<double>(axis_[x.ref]);
      case X::kState:
        return states_[x.ref];
      case X::kLoad: {
        if (p.arg(e, 0) != kNone && !eval(p.arg(e, 0))) return eval(p.arg(e, 1));
        return buffers_[x.ref][offset(x.ref, p.args(e).subspan(2))];
      }
      case X::kOp:
        break;
    }
    const double a = eval(p.arg(e, 0)), b = x.args_count > 1 ? eval(p.arg(e, 1)) : 0;
    switch (x.op) {
      case TENON_S_ADD:
        return a + b;
      case TENON_S_SUB:
        return a - b;
      case TENON_S_MUL:
        return a * b;
      case TENON_S_DIV:
        return is_float(x.type) ? a / b : b == 0 ? -1 : std::trunc(a / b);
      case kMulPair: {
        const auto x_ = static_cast<float>(a), lo = static_cast<float>(eval(p.arg(e, 2)));
        return std::fma(x_, static_cast<float>(b), x_ * lo);
      }
      case kExp2:
        return std::exp2(a);
      case kMulAdd:
        return std::fma(a, b, eval(p.arg(e, 2)));
      case kFloorDiv:
        return std::floor(a / b);
      case kMod:
        return a - b * std::floor(a / b);
      case TENON_S_NEG:
        return -a;
      case TENON_S_ABS:
        return std::fabs(a);
      case TENON_S_EXP:
        return std::exp(a);
      case TENON_S_LOG:
        return std::log(a);
      case TENON_S_TANH:
        return std::tanh(a);
      case TENON_S_ERF:
        return std::erf(a);
      case TENON_S_SQRT:
        return std::sqrt(a);
      case TENON_S_RSQRT:
        return 1 / std::sqrt(a);
      case TENON_S_LOGISTIC:
        return 1 / (1 + std::exp(-a));
      case TENON_S_MAX:
        return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b);
      case TENON_S_MIN:
        return std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b);
      case TENON_S_AND:
        return static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b));
      case TENON_S_OR:
        return static_cast<double>(static_cast<int64_t>(a) | static_cast<int64_t>(b));
      case TENON_S_XOR:
        return static_cast<double>(static_cast<uint32_t>(static_cast<int64_t>(a)) ^
                                   static_cast<uint32_t>(static_cast<int64_t>(b)));
      case TENON_S_BITCAST_RESULT: {  // of 32 bits
        const DType from = p.type(p.arg(e, 0));
        const uint32_t bits = from == TENON_F32 ? std::bit_cast<uint32_t>(static_cast<float>(a))
                                                : static_cast<uint32_t>(static_cast<int64_t>(a));
        return x.type == TENON_F32   ? std::bit_cast<float>(bits)
               : x.type == TENON_I32 ? static_cast<int32_t>(bits)
                                     : double(bits);
      }
      case TENON_S_NOT:
        if (x.type == TENON_U32) return ~static_cast<uint32_t>(static_cast<int64_t>(a));
        return x.type == TENON_PRED ? !a : static_cast<double>(~static_cast<int64_t>(a));
      case TENON_S_IS_NAN:
        return std::isnan(a);
      case TENON_S_CMP: {
        const bool r[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
        return r[x.ref];
      }
      case TENON_S_SELECT:
        return a ? b : eval(p.arg(e, 2));
      case TENON_S_CONVERT:
      case kRound:
        if (is_float(x.type)) return a;
        if (x.type == TENON_PRED) return a != 0;
        return std::isnan(a) ? 0 : std::trunc(a);
      default:
        std::fprintf(stderr, "oracle: no %s\n", std::string(name_of_op(x.op)).c_str());
        std::abort();
    }
  }

  const Kernel& k_;
  std::vector<int64_t> ext_;
  std::vector<std::vector<double>>& buffers_;
  std::vector<int64_t> axis_;
  std::vector<double> states_;
  const Stage* stage_ = nullptr;
};

// ---- Running generated C++ ----

using Entry = void (*)(void* const*, const int64_t*, int64_t, int64_t, void*);

inline std::string isa_flags(const Target& t) {
  if (t.bf16)
    return "-mavx512f -mavx512vl -mavx512bw -mavx512dq -mavx512bf16 -mavx512vnni -mfma "
           "-mprefer-vector-width=512";
  if (t.byte_quads && t.isa == "avx2") return "-mavx2 -mfma -mf16c -mavxvnni";
  if (t.byte_quads)
    return "-mavx512f -mavx512vl -mavx512bw -mavx512dq -mavx512vnni -mfma "
           "-mprefer-vector-width=512";
  if (t.isa == "avx512")
    return "-mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mprefer-vector-width=512";
  if (t.isa == "avx2") return "-mavx2 -mfma -mf16c";
  return "";
}

inline bool machine_has(const Target& t) {
  if (t.bf16 && !__builtin_cpu_supports("avx512bf16")) return false;
  if (t.byte_quads && t.isa == "avx512" && !__builtin_cpu_supports("avx512vnni")) return false;
  if (t.byte_quads && t.isa == "avx2" && !__builtin_cpu_supports("avxvnni")) return false;
  if (t.isa == "avx512")
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
  if (t.isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return true;
}

// What a case of a test runs on: with CHECK_FULL=1 all of these targets, else the first and, in
// turn, one of the others. Each target is a compilation.
inline std::vector<Target> in_this_run(std::vector<Target> all) {
  const char* full = std::getenv("CHECK_FULL");
  if ((full != nullptr && std::string_view(full) == "1") || all.size() <= 2) return all;
  static size_t turn = 0;
  const Target other = all[1 + turn++ % (all.size() - 1)];
  return {all.front(), other};
}

struct Library {
  void* handle = nullptr;
  std::string log;
};

#ifndef TENON_TEST_CCACHE
#define TENON_TEST_CCACHE ""
#endif

// Compiles to a shared object that may use nothing outside itself, and opens it. Compiling and
// linking in two steps starts one process less than the compiler's driver would. File names have no
// folder, so that ccache finds equal text.
inline Library compile(const std::string& text, const Target& t, const char* level = "-O1") {
  char dir[] = "/tmp/kernelgen_testXXXXXX";
  Library lib;
  if (!mkdtemp(dir)) return lib;
  const std::string base = std::string(dir) + "/k";
  std::ofstream(base + ".cpp") << text;
  const std::string command =
      "cd " + std::string(dir) +
      " && exec > k.log 2>&1 && " TENON_TEST_CCACHE " clang++-19 -std=c++20 " + level +
      " -ffreestanding -fwrapv -fno-math-errno -fno-trapping-math -ffp-contract=off "
      "-Wall -Werror -Wno-unused-but-set-variable -Wno-unused-variable -Wno-unused-function "
      "-Wno-psabi -Wno-bitwise-instead-of-logical -Wno-literal-range -fPIC " +
      isa_flags(t) + " -MD -c k.cpp -o k.o && ld.lld-19 -shared -z defs k.o -o k.so";
  const int rc = std::system(command.c_str());
  std::ifstream log(base + ".log");
  lib.log.assign(std::istreambuf_iterator<char>(log), {});
  if (rc == 0) {
    lib.handle = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!lib.handle) lib.log = dlerror();
  }
  if (const char* keep = std::getenv("KERNELGEN_KEEP"); !keep)
    (void)!std::system(("rm -rf " + std::string(dir)).c_str());
  else
    std::fprintf(stderr, "kept %s\n", dir);
  return lib;
}

// A program bound to sizes and memory.
struct Session {
  Kernel laid_out;  // the program, with the buffers that layout added
  std::vector<Kernel> kernels;
  std::vector<std::vector<SizeProgram>> sizes;  // by kernel and extent: over those of the program
  Module module;
  Library library;
  std::vector<int64_t> ext;
  std::string why;

  // `any_sizes`: uses the general form of kernels that have one.
  bool build(const Kernel& program, const Target& target, std::vector<int64_t> ext_values,
             const char* level = "-O1", bool any_sizes = false) {
    Verifier verifier(Verifier::kThorough);
    return build(program, target, std::move(ext_values), level, any_sizes, &verifier) &&
           (why = join(verifier.notes)).empty();
  }
  static std::string join(const std::vector<std::string>& notes) {
    std::string all;
    for (const std::string& n : notes) all += n + "\n";
    return all;
  }
  bool build(const Kernel& program, const Target& target, std::vector<int64_t> ext_values,
             const char* level, bool any_sizes, Verifier* verifier) {
    ext = std::move(ext_values);
    laid_out = program;
    lay_out(laid_out, target, verifier);
    kernels = split(laid_out, target, verifier);
    for (Kernel& k : kernels) {
      sizes.emplace_back();
      for (uint32_t x : k.extent_origin) sizes.back().push_back(SizeProgram::extent(x));
      General general;
      if (!any_sizes || !generalise(k, &general)) continue;
      for (SizeProgram& size : general.sizes) size = size.over(sizes.back());
      for (uint32_t& origin : general.kernel.buffer_origin) origin = k.buffer_origin[origin];
      sizes.back() = std::move(general.sizes);
      k = std::move(general.kernel);
    }
    if (!generate(kernels, target, &module, &why)) return false;
    library = compile(module.text, target, level);
    why = library.log;
    return library.handle != nullptr;
  }

  // Runs kernel by kernel over `memory` (by program buffer). pieces: into how many calls each range
  // is cut.
  void run(std::vector<Data>* memory, int64_t pieces) const {
    for (size_t b = memory->size(); b < laid_out.buffers.size(); ++b) {
      int64_t n = 1;
      for (ExprId d : laid_out.buffers[b].dims) n *= laid_out.pool.evaluate(d, ext);
      memory->emplace_back(laid_out.buffers[b].type, static_cast<size_t>(n));
    }
    for (size_t i = 0; i < kernels.size(); ++i) {
      const Launch& l = module.launches[i];
      std::vector<void*> buf;
      for (uint32_t b : l.buffers)
        buf.push_back((*memory)[kernels[i].buffer_origin[b]].bytes.data());
      std::vector<int64_t> e;
      for (const SizeProgram& size : sizes[i]) e.push_back(size.evaluate(ext));
      const int64_t n = l.range.evaluate(e);
      void* scratch =
          std::aligned_alloc(64, static_cast<size_t>(l.scratch_bytes.evaluate(e) + 64) / 64 * 64);
      const auto entry = reinterpret_cast<Entry>(dlsym(library.handle, l.entry.c_str()));
      // Last piece first: order must not matter.
      for (int64_t p = pieces; p-- > 0;)
        entry(buf.data(), e.data(), n * p / pieces, n * (p + 1) / pieces, scratch);
      std::free(scratch);
    }
  }
};

}  // namespace tenon::kernelgen::testing
#endif
