#include "tenon/kernelgen/print/prelude.h"

namespace tenon::kernelgen {
namespace {

bool is_half(DType t) {
  return t == TENON_F16 || t == TENON_BF16;
}

// The type that computes with it: predicates as integers, narrow floats as their patterns.
std::string scalar_name(DType t) {
  if (t == TENON_PRED) return "i32";
  if (is_half(t)) return "u16";
  return std::string(size_of(t) != 0 ? name_of(t) : "f64");
}

DType signed_of(DType t) {
  switch (size_of(t)) {
    case 1:
      return TENON_I8;
    case 2:
      return TENON_I16;
    case 4:
      return TENON_I32;
    default:
      return TENON_I64;
  }
}
DType unsigned_of(DType t) {
  return static_cast<DType>(signed_of(t) + (TENON_U8 - TENON_I8));
}

std::string replace_all(std::string s, std::string_view from, const std::string& to) {
  for (size_t at = 0; (at = s.find(from, at)) != std::string::npos; at += to.size())
    s.replace(at, from.size(), to);
  return s;
}

// Of pointers into buffers.
std::string global_space(const Target& t) {
  return t.dialect == Dialect::kOpenCl  ? "__global "
         : t.dialect == Dialect::kMetal ? "device "
                                        : "";
}

// A vector of a work item. OpenCL C and Metal have such types; elsewhere it is clang's. For CUDA it
// is a word of the header, as not only clang compiles that text.
std::string item_vector(const Target& t, const std::string& element, uint32_t lanes,
                        const std::string& name) {
  const std::string n = std::to_string(lanes);
  if (t.dialect == Dialect::kCuda) return "VECTOR(" + element + ", " + n + ", " + name + ");\n";
  if (t.gpu_cpp())
    return "typedef " + element + " " + name + " __attribute__((ext_vector_type(" + n + ")));\n";
  static constexpr std::string_view kNative[][2] = {
      {"i8", "char"}, {"u8", "uchar"}, {"i16", "short"}, {"u16", "ushort"},
      {"i32", "int"}, {"u32", "uint"}, {"f32", "float"}};
  for (const auto& [ours, native] : kNative) {
    if (ours == element) return "typedef " + std::string(native) + n + " " + name + ";\n";
  }
  return "";
}

// How a function without a result begins.
std::string void_function(const Target& t) {
  return t.gpu_cpp() || t.dialect == Dialect::kMetal ? "OWN void " : "static void ";
}

// Whether vectors of f16 become f32, and back, in one instruction.
bool converts_f16(const Target& t) {
  return t.isa == "avx512" || t.isa == "avx2" || t.isa == "neon";
}

std::string number(int64_t v) {
  return std::to_string(v);
}

}  // namespace

std::string Prelude::suffix(DType t, uint32_t lanes) const {
  std::string s(name_of(t));
  return lanes > 1 ? s + "x" + number(lanes) : s;
}

std::string Prelude::memory_type(DType t) const {
  return t == TENON_PRED ? "u8" : scalar_name(t);
}

std::string Prelude::type(DType t, uint32_t lanes) {
  const std::string element = scalar_name(t);
  if (lanes == 1) return element;
  const std::string name = element + "x" + number(lanes);
  if (target_.items()) {
    if (known_.insert("type " + name).second) types_ += item_vector(target_, element, lanes, name);
    return name;
  }
  if (known_.insert("type " + name).second) {
    types_ += "typedef " + element + " " + name + " __attribute__((ext_vector_type(" +
              number(lanes) + ")));\n";
    types_ += "typedef " + element + " " + name + "_u __attribute__((ext_vector_type(" +
              number(lanes) + "), aligned(" +
              number(size_of(t == TENON_PRED ? DType{TENON_I32} : t)) + "), may_alias));\n";
  }
  return name;
}

namespace {

// C++ for GPUs, with nothing of the vendors' headers: registers and barriers are builtins.
constexpr std::string_view kGpuHeader =
    "typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short "
    "u16;\n"
    "typedef int i32; typedef unsigned u32; typedef long i64; typedef unsigned long u64;\n"
    "typedef float f32; typedef double f64;\n"
    "#define FN static inline __attribute__((device, always_inline, unused))\n"
    "#define OWN static __attribute__((device))\n"
    "#define KERNEL extern \"C\" __attribute__((global))\n"
    "#define SHARED static __attribute__((shared))\n"
    "#define TABLE static __attribute__((device)) const\n#define OWNED\n"
    "#define SEL(T, m, a, b) ((m) ? (T)(a) : (T)(b))\n"
    "#define CVTS(T, x) ((T)(x))\n"
    "#define HOLD(x) (void)0\n"
    "#define BITS(T, x) __builtin_bit_cast(T, x)\n"
    "#define INF_f32 __builtin_inff()\n#define NAN_f32 __builtin_nanf(\"\")\n"
    "#define INF_f64 __builtin_inf()\n#define NAN_f64 __builtin_nan(\"\")\n"
    "FN i64 min(i64 a, i64 b) { return a < b ? a : b; }\n"
    "FN i64 max(i64 a, i64 b) { return a > b ? a : b; }\n";

// Warps exchange words.
constexpr std::string_view kCudaHeader =
    "#define GROUP_OF(n) launch_bounds(n)\n"
    "#ifndef VECTOR\n"
    "#define VECTOR(T, n, name) typedef T name __attribute__((ext_vector_type(n)))\n"
    "#endif\n"
    "FN i64 local_id() { return __nvvm_read_ptx_sreg_tid_x(); }\n"
    "FN i64 group_id() { return __nvvm_read_ptx_sreg_ctaid_x(); }\n"
    "FN void meet() { __syncthreads(); }\n"
    "FN i32 word_from(i32 x, i32 by) { return by == 0 ? __nvvm_shfl_sync_idx_i32(~0u, x, 0, 31) : "
    "__nvvm_shfl_sync_down_i32(~0u, x, by, 31); }\n";

// A permutation of lanes reads across the whole warp, of 32 or 64; its index counts bytes.
constexpr std::string_view kHipHeader =
    "#define GROUP_OF(n) amdgpu_flat_work_group_size(n, n)\n"
    "FN i64 local_id() { return __builtin_amdgcn_workitem_id_x(); }\n"
    "FN i64 group_id() { return __builtin_amdgcn_workgroup_id_x(); }\n"
    "FN void meet() {\n"
    "  __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); __builtin_amdgcn_s_barrier();\n"
    "  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
    "}\n"
    "FN i32 word_from(i32 x, i32 by) {\n"
    "  if (by == 0) return __builtin_amdgcn_readlane(x, 0);\n"
    "  const u32 lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));\n"
    "  return __builtin_amdgcn_ds_bpermute((i32)((lane + by) * 4), x);\n"
    "}\n";

// Metal's language is C++ with the address spaces of OpenCL C; nothing of its library comes in
// unasked.
constexpr std::string_view kMetalHeader =
    "#include <metal_stdlib>\n"
    "#pragma STDC FP_CONTRACT OFF\n"
    "#if defined(__METAL_VERSION__) && __METAL_VERSION__ >= 320\n#pragma METAL fp contract(off)\n"
    "#endif\n"
    "typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short "
    "u16;\n"
    "typedef int i32; typedef unsigned u32; typedef long i64; typedef unsigned long u64;\n"
    "typedef float f32;\n"
    "#define FN static inline\n#define OWN static\n#define TABLE constant\n#define OWNED thread\n"
    "#define SEL(T, m, a, b) ((m) ? (T)(a) : (T)(b))\n"
    "#define CVTS(T, x) ((T)(x))\n"
    "#define HOLD(x) (void)0\n"
    "#define BITS(T, x) as_type<T>(x)\n"
    "#define INF_f32 as_type<f32>(0x7f800000u)\n#define NAN_f32 as_type<f32>(0x7fc00000u)\n"
    "FN i64 min(i64 a, i64 b) { return a < b ? a : b; }\n"
    "FN i64 max(i64 a, i64 b) { return a > b ? a : b; }\n"
    "FN f32 sqrt(f32 x) { return metal::precise::sqrt(x); }\n"
    "FN f32 fma(f32 a, f32 b, f32 c) { return metal::fma(a, b, c); }\n"
    "FN void meet_threads() { metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup); }\n"
    "FN void meet() { metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup | "
    "metal::mem_flags::mem_device); }\n"
    "FN i32 word_from(i32 x, i32 by) { return by == 0 ? metal::simd_broadcast(x, 0) : "
    "metal::simd_shuffle_down(x, (ushort)by); }\n"
    "template <class T> FN T from_lane(T x, i32 by) {\n"
    "  return as_type<T>(word_from(as_type<i32>(x), by));\n}\n"
    "template <> inline i64 from_lane(i64 x, i32 by) {\n"
    "  const u32 low = (u32)word_from((i32)x, by), high = (u32)word_from((i32)(x >> 32), by);\n"
    "  return (i64)((u64)low | (u64)high << 32);\n}\n"
    "template <> inline u64 from_lane(u64 x, i32 by) { return (u64)from_lane((i64)x, by); }\n"
    "template <> inline i16 from_lane(i16 x, i32 by) { return (i16)word_from(x, by); }\n"
    "template <> inline u16 from_lane(u16 x, i32 by) { return (u16)word_from(x, by); }\n"
    "template <> inline i8 from_lane(i8 x, i32 by) { return (i8)word_from(x, by); }\n"
    "template <> inline u8 from_lane(u8 x, i32 by) { return (u8)word_from(x, by); }\n"
    "template <class T> FN T from_first_lane(T x) { return from_lane(x, 0); }\n";

constexpr std::string_view kGpuWarps =
    "FN i64 global_id(i64 group) { return group_id() * group + local_id(); }\n"
    "template <class T> FN T from_lane(T x, i32 by) {\n"
    "  if constexpr (sizeof(T) == 8) {\n"
    "    const u64 b = BITS(u64, x); const u32 low = word_from((i32)b, by), high = "
    "word_from((i32)(b "
    ">> 32), by);\n"
    "    return BITS(T, (u64)low | (u64)high << 32);\n"
    "  } else if constexpr (sizeof(T) == 4) {\n"
    "    return BITS(T, word_from(BITS(i32, x), by));\n"
    "  } else {\n"
    "    return (T)word_from((i32)x, by);\n"
    "  }\n"
    "}\n"
    "template <class T> FN T from_first_lane(T x) { return from_lane(x, 0); }\n";

}  // namespace

std::string Prelude::header() const {
  if (target_.gpu_cpp()) {
    return std::string(kGpuHeader)
        .append(target_.dialect == Dialect::kCuda ? kCudaHeader : kHipHeader)
        .append(kGpuWarps);
  }
  if (target_.dialect == Dialect::kMetal) return std::string(kMetalHeader);
  if (target_.dialect == Dialect::kOpenCl) {
    std::string s =
        "#pragma OPENCL FP_CONTRACT OFF\n"
        "typedef char i8; typedef uchar u8; typedef short i16; typedef ushort u16;\n"
        "typedef int i32; typedef uint u32; typedef long i64; typedef ulong u64; typedef float "
        "f32;\n"
        "#ifndef FN\n#define FN static\n#endif\n#define TABLE __constant\n#define OWNED\n"
        "#define SEL(T, m, a, b) ((m) ? (T)(a) : (T)(b))\n"
        "#define CVTS(T, x) ((T)(x))\n"
        "#define HOLD(x) (void)0\n"
        "#define BITS(T, x) BITS_##T(x)\n"
        "#define BITS_i32(x) as_int(x)\n#define BITS_u32(x) as_uint(x)\n#define BITS_f32(x) "
        "as_float(x)\n"
        "#define BITS_i64(x) as_long(x)\n#define BITS_u64(x) as_ulong(x)\n#define BITS_f64(x) "
        "as_double(x)\n"
        "#define BITS_i16(x) as_short(x)\n#define BITS_u16(x) as_ushort(x)\n"
        "#define BITS_i8(x) as_char(x)\n#define BITS_u8(x) as_uchar(x)\n"
        "#define INF_f32 as_float(0x7f800000)\n#define NAN_f32 as_float(0x7fc00000)\n"
        "#ifdef FP_FAST_FMAF\n#define MAD_f32(a, b, c) fma(a, b, c)\n"
        "#else\n#define MAD_f32(a, b, c) ((a) * (b) + (c))\n#endif\n";
    if (target_.fp64) {
      s = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" + s +
          "typedef double f64;\n"
          "#define INF_f64 as_double(0x7ff0000000000000L)\n#define NAN_f64 "
          "as_double(0x7ff8000000000000L)\n"
          "#ifdef FP_FAST_FMA\n#define MAD_f64(a, b, c) fma(a, b, c)\n"
          "#else\n#define MAD_f64(a, b, c) ((a) * (b) + (c))\n#endif\n";
    }
    return s;
  }
  // See kCopysignAvx512 in prelude_math.cpp.
  const std::string_view hold =
      target_.isa == "avx512"
          ? "template <class T> FN void hold(T& x) { if constexpr (sizeof(T) >= 16 && sizeof(T) <= "
            "64) __asm__(\"\" : \"+v\"(x)); }\n#define HOLD(x) hold(x)\n"
          : "#define HOLD(x) (void)0\n";
  return "typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned "
         "short u16;\n"
         "typedef int i32; typedef unsigned u32; typedef long i64; typedef unsigned long u64;\n"
         "typedef float f32; typedef double f64;\n"
         "#define FN static inline __attribute__((always_inline, unused))\n"
         "#define UNROLL _Pragma(\"clang loop unroll(full)\")\n"
         "#define TABLE static const\n#define OWNED\n"
         "#define SEL(T, m, a, b) ((m) ? (T)(a) : (T)(b))\n"
         "#define CVTV(T, x) __builtin_convertvector(x, T)\n"
         "#define CVTS(T, x) ((T)(x))\n"
         "#define BITS(T, x) __builtin_bit_cast(T, x)\n" +
         std::string(hold) +
         "#define INF_f32 __builtin_inff()\n#define NAN_f32 __builtin_nanf(\"\")\n"
         "#define INF_f64 __builtin_inf()\n#define NAN_f64 __builtin_nan(\"\")\n";
}

void Prelude::add(const std::string&, const std::string& text) {
  functions_ += text;
}

std::string Prelude::expand(std::string_view text, DType t, uint32_t lanes) {
  std::string s(text);
  // Calls first: the functions they need must come before this one.
  for (size_t at = 0; (at = s.find('@', at)) != std::string::npos;) {
    size_t end = at + 1;
    while (end < s.size() && (isalnum(static_cast<unsigned char>(s[end])) || s[end] == '_')) ++end;
    const std::string name = s.substr(at + 1, end - at - 1);
    DType of = t;
    size_t close = end;
    if (s[end] == '<') {
      close = s.find('>', end);
      const std::string other = s.substr(end + 1, close - end - 1);
      if (other == "one") {
        const std::string callee = need(name, t, 1);
        s.replace(at, close + 1 - at, callee);
        at += callee.size();
        continue;
      }
      of = other == "f64"   ? TENON_F64
           : other == "f32" ? TENON_F32
           : other == "i32" ? TENON_I32
                            : TENON_I64;
      ++close;
    }
    const std::string callee = need(name, of, lanes);
    s.replace(at, close - at, callee);
    at += callee.size();
  }
  const bool vector = lanes > 1;
  s = replace_all(s, "$S(", "SEL(" + type(t, lanes) + ", ");
  s = replace_all(s, "$SD(", "SEL(" + type(TENON_F64, lanes) + ", ");
  s = replace_all(s, "$B(", "BITS(");
  s = replace_all(s, "$C(", vector ? "CVTV(" : "CVTS(");
  s = replace_all(s, "$INF", "INF_" + scalar_name(t));
  s = replace_all(s, "$NAN", "NAN_" + scalar_name(t));
  s = replace_all(s, "$F", type(t, lanes));
  s = replace_all(s, "$I", type(signed_of(t), lanes));
  s = replace_all(s, "$U", type(unsigned_of(t), lanes));
  s = replace_all(s, "$M", vector ? type(signed_of(t), lanes) : "i32");
  s = replace_all(s, "$P", type(TENON_PRED, lanes));
  if (s.find("$D") != std::string::npos) s = replace_all(s, "$D", type(TENON_F64, lanes));
  s = replace_all(s, "$N", number(lanes));
  s = replace_all(s, "$E", scalar_name(t));
  s = replace_all(s, "$n", suffix(t, lanes));
  return s;
}

// ---- Integers ----

// A lane at a time only where no instructions are: division of 64 bits, and powers. Loops over
// lanes are unrolled, because a variable lane goes through memory.
std::string Prelude::integer_text(std::string_view f, DType t, uint32_t lanes) {
  const bool v = lanes > 1;
  const std::string T = type(t, lanes), U = type(unsigned_of(t), lanes),
                    name = std::string(f) + "_$n";
  const int bits = static_cast<int>(size_of(t)) * 8;
  const std::string B = number(bits);
  auto two = [&](const std::string& body) {
    return "FN $F " + name + "($F a, $F b) { " + body + " }\n";
  };
  auto one = [&](const std::string& body) { return "FN $F " + name + "($F a) { " + body + " }\n"; };
  auto lanewise2 = [&](const std::string& scalar) {
    if (!v) return two("return " + scalar + "(a, b);");
    return two("$F r; UNROLL for (int l = 0; l < $N; ++l) r[l] = " + scalar +
               "(a[l], b[l]); return r;");
  };
  const std::string as_t = "(" + T + ")", as_u = "(" + U + ")";
  if (f == "add" || f == "sub" || f == "mul") {
    const char* op = f == "add" ? "+" : f == "sub" ? "-" : "*";
    // As int, a product of unsigned shorts would overflow.
    const std::string w = !v && bits < 32 ? "(u32)" : "";
    return two("return " + as_t + "(" + as_u + "(" + w + as_u + "a " + op + " " + w + as_u +
               "b));");
  }
  if (f == "neg") return one("return " + as_t + "(" + as_u + "(" + as_u + "0 - " + as_u + "a));");
  if (f == "abs") {
    if (!is_signed(t)) return one("return a;");
    return one("return $S(a < ($F)0, ($F)(($U)(($U)0 - ($U)a)), a);");
  }
  if (f == "sign") {
    if (!is_signed(t)) return one("return $S(a != ($F)0, ($F)1, ($F)0);");
    return one("return $S(a < ($F)0, ($F)-1, $S(a > ($F)0, ($F)1, ($F)0));");
  }
  if (f == "max") return two("return $S(a > b, a, b);");
  if (f == "min") return two("return $S(a < b, a, b);");
  if (f == "and") return two("$F r = ($F)(a & b); HOLD(r); return r;");
  if (f == "or") return two("$F r = ($F)(a | b); HOLD(r); return r;");
  if (f == "xor") return two("$F r = ($F)(a ^ b); HOLD(r); return r;");
  if (f == "not") return one("$F r = ($F)(~a); HOLD(r); return r;");
  if (f == "floor" || f == "ceil" || f == "trunc" || f == "round_even") return one("return a;");
  if (v && (f == "fdiv" || f == "fmod" || f == "pow")) return lanewise2(need(f, t, 1));
  if (v && (f == "div" || f == "rem")) {
    if (bits == 64) return lanewise2(need(f, t, 1));
    // Quotients of numbers of 16 (32) bits are at least 2^-16 (2^-32) of themselves away from the
    // next integer, so that rounding to 24 (53) bits does not reach it.
    const DType real = bits == 32 ? TENON_F64 : TENON_F32;
    const std::string R = type(real, lanes), as = type(bits == 32 ? t : DType{TENON_I32}, lanes);
    const auto wide = [&](const std::string& x) { return "$C(" + R + ", " + x + ")"; };
    const std::string special = is_signed(t) ? "($M)(b == 0) | ($M)(b == -1)" : "($M)(b == 0)",
                      minus = "($F)(($U)0 - ($U)a)";
    std::string body = "$M z = ($M)(b == 0), s = " + special +
                       "; $F d = $S(s, 1, b); $F q = $C($F, $C(" + as + ", " + wide("a") + " / " +
                       wide("d") + ")); ";
    if (f == "rem")
      return two(body + "$F r = ($F)(($U)a - ($U)(($U)q * ($U)d)); return $S(z, a, r);");
    if (is_signed(t)) body += "q = $S(b == -1, " + minus + ", q); ";
    return two(body + "return $S(z, ($F)-1, q);");
  }
  // Vector shifts of any count, as the instructions of AVX2 and AVX-512 have them.
  if (v && (f == "shl" || f == "shr_l" || f == "shr_a")) {
    const std::string most = number(bits - 1), count = "(($U)b & ($U)" + most + ")";
    if (f == "shr_a" && is_signed(t))
      return two("$U n = ($U)b; n = n >= ($U)" + B + " ? ($U)" + most + " : n; return a >> ($F)n;");
    return two("$U n = ($U)b; $U r = ($U)a " + std::string(f == "shl" ? "<< " : ">> ") + count +
               "; return ($F)(n >= ($U)" + B + " ? ($U)0 : r);");
  }
  // The sums of 2, 4 and 8 bits, then of bytes; all places below the first bit, counted.
  if (v && (f == "popcount" || f == "clz")) {
    const auto byte = [&](const char* c) {
      std::string all = "0x";
      for (int i = 0; i < bits; i += 8) all += c;
      return "($U)" + all + (bits == 64 ? "ul" : "u");
    };
    std::string body = "$U x = ($U)a; ";
    for (int s = 1; f == "clz" && s < bits; s *= 2) body += "x |= x >> " + number(s) + "; ";
    body += "x = x - ((x >> 1) & " + byte("55") + "); x = (x & " + byte("33") + ") + ((x >> 2) & " +
            byte("33") + "); x = (x + (x >> 4)) & " + byte("0f") + "; ";
    for (int s = 8; s < bits; s *= 2) body += "x += x >> " + number(s) + "; ";
    body += "x &= ($U)" + number(2 * bits - 1) + "; ";
    return one(body + (f == "clz" ? "return ($F)(($U)" + B + " - x);" : "return ($F)x;"));
  }
  // Division by a number that the text has, neither 0 nor -1: compilers multiply and shift.
  if (f == "divc") return two("return a / b;");
  if (f == "remc") return two("return a % b;");
  if (f == "fdivc") return two("$F q = a / b; return q - (a - q * b < 0 ? ($F)1 : ($F)0);");
  if (f == "fmodc") return two("$F r = a % b; return r < 0 ? r + b : r;");
  if (f == "div" || f == "rem") {
    const std::string zero = f == "div" ? "($F)-1" : "a",
                      minus = f == "div" ? "($F)(0 - ($U)a)" : "($F)0";
    std::string body = "if (b == 0) return " + zero + "; ";
    if (is_signed(t)) body += "if (b == -1) return " + minus + "; ";
    return two(body + "return ($F)(a " + (f == "div" ? "/" : "%") + " b);");
  }
  if (f == "fdiv") return two("if (b <= 0) return 0; $F q = a / b; return q - (a % b < 0);");
  if (f == "fmod") return two("if (b <= 0) return 0; $F r = a % b; return r < 0 ? r + b : r;");
  if (f == "shl") return two("return ($U)b >= " + B + " ? ($F)0 : ($F)(($U)a << ($U)b);");
  // An unsigned number has no sign bit to shift in.
  if (f == "shr_l" || (f == "shr_a" && !is_signed(t)))
    return two("return ($U)b >= " + B + " ? ($F)0 : ($F)(($U)a >> ($U)b);");
  if (f == "shr_a")
    return two("return ($I)a >> (($U)b >= " + B + " ? " + number(bits - 1) + " : ($I)b);");
  if (f == "popcount") {
    return one("$U x = ($U)a; $F n = 0; while (x) { x &= ($U)(x - 1); ++n; } return n;");
  }
  if (f == "clz") {
    return one("$U x = ($U)a; $F n = " + B + "; while (x) { x >>= 1; --n; } return n;");
  }
  if (f == "pow") {
    // By squaring. A negative exponent gives the truncated value of 1 / a^|b|.
    const std::string negative = is_signed(t) ? "if (b < 0) return a == 1 ? ($F)1 : a == -1 ? ((b "
                                                "& 1) ? ($F)-1 : ($F)1) : a == 0 ? ($F)-1 : ($F)0; "
                                              : "";
    return two(negative +
               "$U r = 1, x = ($U)a, n = ($U)b; while (n) { if (n & 1) r = ($U)((u64)r * x); x = "
               "($U)((u64)x * x); n >>= 1; } "
               "return ($F)r;");
  }
  return "";
}

// ---- Memory ----

namespace {

// Masked builtins by instruction set; empty: lane by lane.
struct Masked {
  std::string load, store, pointer, vector, mask;
};

Masked masked_builtin(const Target& target, DType t, uint32_t lanes) {
  const uint32_t bytes = size_of(t), total = bytes * lanes;
  const bool f = t == TENON_F32 || t == TENON_F64;
  if (target.isa == "avx512" && (total == 64 || total == 32 || total == 16)) {
    const std::string w = std::to_string(total * 8);
    std::string kind;
    if (f) kind = bytes == 4 ? "ups" : "upd";
    if (!f) kind = bytes == 4 ? "dqusi" : bytes == 8 ? "dqudi" : bytes == 2 ? "dquhi" : "dquqi";
    Masked m;
    m.load = "__builtin_ia32_load" + kind + w + "_mask";
    m.store = "__builtin_ia32_store" + kind + w + "_mask";
    const char* element = f ? (bytes == 4 ? "float" : "double")
                            : (bytes == 4   ? "int"
                               : bytes == 8 ? "long long"
                               : bytes == 2 ? "short"
                                            : "char");
    m.pointer = total == 64 && bytes >= 4 ? element : "G";
    m.vector = element;
    // The lane mask is i32 x lanes.
    if (lanes == 16) m.mask = "(unsigned short)__builtin_ia32_cvtd2mask512((gi16)m)";
    if (lanes == 8) m.mask = "(unsigned char)__builtin_ia32_cvtd2mask256((gi8)m)";
    if (lanes == 4) m.mask = "(unsigned char)__builtin_ia32_cvtd2mask128((gi4)m)";
    if (m.mask.empty()) return {};
    return m;
  }
  if (target.isa == "avx2" && total == 32 && bytes >= 4) {
    Masked m;
    const std::string kind = f ? (bytes == 4 ? "ps" : "pd") : (bytes == 4 ? "d" : "q");
    m.load = "__builtin_ia32_maskload" + kind + "256";
    m.store = "__builtin_ia32_maskstore" + kind + "256";
    m.vector = f ? (bytes == 4 ? "float" : "double") : (bytes == 4 ? "int" : "long long");
    m.pointer = m.vector;
    return m;
  }
  return {};
}

}  // namespace

// Lanes that run back from p: a whole vector that ends there, turned around.
std::string Prelude::backwards_text(std::string_view f, DType t, uint32_t lanes) {
  const std::string E = t == TENON_PRED ? "u8" : memory_type(t), T = type(t, lanes),
                    P = type(TENON_PRED, lanes), n = std::string(f) + "_$n",
                    at = "p - " + number(lanes - 1);
  const auto turned = [&](const std::string& x) {
    std::string s = "__builtin_shufflevector(" + x + ", " + x;
    for (uint32_t l = lanes; l-- > 0;) s += ", " + number(l);
    return s + ")";
  };
  const auto forwards = [&](const char* g) { return need(g, t, lanes) + "(" + at; };
  if (f == "ldr") {
    return "FN " + T + " " + n + "(const " + E + "* p) { const " + T + " r = " + forwards("ld") +
           "); return " + turned("r") + "; }\n";
  }
  if (f == "ldrm") {
    return "FN " + T + " " + n + "(const " + E + "* p, " + P + " m, " + T + " o) { const " + T +
           " r = " + forwards("ldm") + ", " + turned("m") + ", " + turned("o") + "); return " +
           turned("r") + "; }\n";
  }
  if (f == "str") {
    return "FN void " + n + "(" + E + "* p, " + T + " v) { " + forwards("st") + ", " + turned("v") +
           "); }\n";
  }
  return "FN void " + n + "(" + E + "* p, " + T + " v, " + P + " m) { " + forwards("stm") + ", " +
         turned("v") + ", " + turned("m") + "); }\n";
}

std::string Prelude::memory_text(std::string_view f, DType t, uint32_t lanes) {
  const std::string E = memory_type(t), T = type(t, lanes), P = type(TENON_PRED, lanes),
                    n = std::string(f) + "_$n";
  const std::string N = number(lanes);
  if (f == "ldr" || f == "ldrm" || f == "str" || f == "strm") return backwards_text(f, t, lanes);
  // pred: bytes in memory, i32 lanes in registers.
  if (t == TENON_PRED) {
    const std::string b = type(TENON_U8, lanes);
    auto u8 = [&](const char* g) { return need(g, TENON_U8, lanes); };
    const std::string in = "(__builtin_convertvector(b, " + T + ") != 0)";
    const std::string out = "__builtin_convertvector(v & 1, " + b + ")";
    if (f == "ld")
      return "FN " + T + " " + n + "(const u8* p) { " + b + " b = " + u8("ld") + "(p); return " +
             in + "; }\n";
    if (f == "lds") {
      return "FN " + T + " " + n + "(const u8* p, i64 s) { " + b + " b = " + u8("lds") +
             "(p, s); return " + in + "; }\n";
    }
    if (f == "ldm" || f == "ldsm" || f == "gam") {
      const std::string extra = f == "ldm"    ? ""
                                : f == "ldsm" ? "i64 s, "
                                              : type(TENON_I64, lanes) + " s, ";
      const std::string pass = f == "ldm" ? "" : "s, ";
      return "FN " + T + " " + n + "(const u8* p, " + extra + P + " m, " + T + " o) { " + b +
             " b = " + u8(std::string(f).c_str()) + "(p, " + pass +
             "m, __builtin_convertvector(o & 1, " + b + ")); return " + in + "; }\n";
    }
    if (f == "st")
      return "FN void " + n + "(u8* p, " + T + " v) { " + u8("st") + "(p, " + out + "); }\n";
    if (f == "stm")
      return "FN void " + n + "(u8* p, " + T + " v, " + P + " m) { " + u8("stm") + "(p, " + out +
             ", m); }\n";
    if (f == "stsm") {
      return "FN void " + n + "(u8* p, i64 s, " + T + " v, " + P + " m) { " + u8("stsm") +
             "(p, s, " + out + ", m); }\n";
    }
    if (f == "scm") {
      return "FN void " + n + "(u8* p, " + type(TENON_I64, lanes) + " s, " + T + " v, " + P +
             " m) { " + u8("scm") + "(p, s, " + out + ", m); }\n";
    }
    return "";
  }
  const std::string each = "UNROLL for (int l = 0; l < " + N + "; ++l) ";
  if (f == "tile") {
    // Exchanges halves of pairs at distance 1, 2, 4...: a square is transposed in log2 steps.
    std::string body = "FN void " + n + "(const " + E + "* p, i64 s, " + E + "* q, i64 d) { ";
    for (uint32_t r = 0; r < lanes; ++r)
      body += T + " r" + number(r) + " = *(const " + T + "_u*)(p + s * " + number(r) + "); ";
    body += T + " t; ";
    for (uint32_t h = 1; h < lanes; h *= 2) {
      for (uint32_t r = 0; r < lanes; ++r) {
        if (r & h) continue;
        std::string low, high;
        for (uint32_t l = 0; l < lanes; ++l) {
          low += ", " + number(l & h ? lanes + l - h : l);
          high += ", " + number(l & h ? lanes + l : l + h);
        }
        const std::string a = "r" + number(r), b = "r" + number(r + h);
        body += "t = __builtin_shufflevector(" + a + ", " + b + low + "); " + b +
                " = __builtin_shufflevector(" + a + ", " + b + high + "); " + a + " = t; ";
      }
      body += "\n  ";
    }
    for (uint32_t r = 0; r < lanes; ++r)
      body += "*(" + T + "_u*)(q + d * " + number(r) + ") = r" + number(r) + "; ";
    return body + "}\n";
  }
  if (f == "ld")
    return "FN " + T + " " + n + "(const " + E + "* p) { return *(const " + T + "_u*)p; }\n";
  if (f == "st") return "FN void " + n + "(" + E + "* p, " + T + " v) { *(" + T + "_u*)p = v; }\n";
  // Past the caches, if the address is aligned.
  if (f == "stn") {
    return "FN void " + n + "(" + E + "* p, " + T + " v, bool s) { if (s && ((u64)p & (sizeof(" +
           T + ") - 1)) == 0) __builtin_nontemporal_store(v, (" + T + "*)p); else *(" + T +
           "_u*)p = v; }\n";
  }
  if (f == "lds")
    return "FN " + T + " " + n + "(const " + E + "* p, i64 s) { " + T + " r; " + each +
           "r[l] = p[l * s]; return r; }\n";
  if (f == "ldsm") {
    // A masked lane reads a harmless place instead of branching.
    return "FN " + T + " " + n + "(const " + E + "* p, i64 s, " + P + " m, " + T + " o) { " + T +
           " r; const " + E + " z = 0; " + each + "{ const " + E +
           "* q = m[l] ? p + l * s : &z; r[l] = *q; } return " + need("sel", t, lanes) +
           "(m, r, o); }\n";
  }
  if (f == "gam") {
    return "FN " + T + " " + n + "(const " + E + "* p, " + type(TENON_I64, lanes) + " i, " + P +
           " m, " + T + " o) { " + T + " r; const " + E + " z = 0; " + each + "{ const " + E +
           "* q = m[l] ? p + i[l] : &z; r[l] = *q; } return " + need("sel", t, lanes) +
           "(m, r, o); }\n";
  }
  if (f == "stsm") {
    return "FN void " + n + "(" + E + "* p, i64 s, " + T + " v, " + P + " m) { " + each +
           "if (m[l]) p[l * s] = v[l]; }\n";
  }
  if (f == "scm") {
    return "FN void " + n + "(" + E + "* p, " + type(TENON_I64, lanes) + " i, " + T + " v, " + P +
           " m) { " + each + "if (m[l]) p[i[l]] = v[l]; }\n";
  }
  if (f == "ldm" || f == "stm") {
    const Masked b = masked_builtin(target_, t, lanes);
    const bool load = f == "ldm";
    const std::string head =
        load ? "FN " + T + " " + n + "(const " + E + "* p, " + P + " m, " + T + " o) { "
             : "FN void " + n + "(" + E + "* p, " + T + " v, " + P + " m) { ";
    if (!b.load.empty() && known_.insert("gnu masks").second) {
      functions_ +=
          "typedef int gi16 __attribute__((vector_size(64))); typedef int gi8 "
          "__attribute__((vector_size(32))); "
          "typedef int gi4 __attribute__((vector_size(16)));\n";
    }
    const std::string gnu = "typedef " + b.vector + " G __attribute__((vector_size(" +
                            number(int64_t{size_of(t)} * lanes) + "))); ";
    if (target_.isa == "avx512" && !b.load.empty()) {
      if (load) {
        return head + gnu + "return (" + T + ")" + b.load + "((const " + b.pointer + "*)p, (G)o, " +
               b.mask + "); }\n";
      }
      return head + gnu + b.store + "((" + b.pointer + "*)p, (G)v, " + b.mask + "); }\n";
    }
    if (target_.isa == "avx2" && !b.load.empty()) {
      const std::string wide =
          size_of(t) == 8 ? "__builtin_convertvector(m, " + type(TENON_I64, lanes) + ")" : "m";
      const std::string mt = std::string("typedef ") + (size_of(t) == 8 ? "long long" : "int") +
                             " GM __attribute__((vector_size(32))); ";
      if (load) {
        return head + gnu + mt + T + " r = (" + T + ")" + b.load + "((const G*)p, (GM)(" + wide +
               ")); return " + need("sel", t, lanes) + "(m, r, o); }\n";
      }
      return head + gnu + mt + b.store + "((G*)p, (GM)(" + wide + "), (G)v); }\n";
    }
    if (load) {
      return head + T + " r = o; " + each + "if (m[l]) r[l] = p[l]; return r; }\n";
    }
    return head + each + "if (m[l]) p[l] = v[l]; }\n";
  }
  return "";
}

// ---- One function ----

void Prelude::need_f64(const std::string& user) {
  if (target_.fp64 || needs_f64_) return;
  needs_f64_ = true;
  why_ = "the device has no f64, which " + user + " needs";
}

std::string Prelude::need(std::string_view f, DType t, uint32_t lanes) {
  const std::string name = std::string(f) + "_" + suffix(t, lanes);
  if (!known_.insert(name).second) return name;
  if (f == "held") {
    const std::string T = type(t, lanes);
    functions_ += "FN " + T + " " + name + "(" + T + " x) { HOLD(x); return x; }\n";
    return name;
  }
  if (f == "sel") {
    const std::string T = type(t, lanes), P = type(TENON_PRED, lanes);
    const uint32_t bytes = size_of(t == TENON_PRED ? DType{TENON_I32} : t);
    std::string m = "m";
    if (lanes > 1 && bytes != 4) {
      m = "__builtin_convertvector(m, " +
          type(bytes == 8   ? TENON_I64
               : bytes == 2 ? TENON_I16
                            : TENON_I8,
               lanes) +
          ")";
    }
    functions_ += "FN " + T + " " + name + "(" + P + " m, " + T + " a, " + T + " b) { return " + m +
                  " ? a : b; }\n";
    return name;
  }
  static constexpr std::string_view kMemory[] = {"ld",   "st",   "stn",  "ldm", "stm",
                                                 "lds",  "ldsm", "stsm", "gam", "scm",
                                                 "tile", "ldr",  "ldrm", "str", "strm"};
  for (std::string_view m : kMemory) {
    if (f == m) {
      functions_ += expand(memory_text(f, t, lanes), t, lanes);
      return name;
    }
  }
  std::string text;
  if (is_integer(t)) text = integer_text(f, t, lanes);
  if (text.empty() && (t == TENON_F32 || t == TENON_F64))
    text = std::string(math_text(f, t, target_, lanes));
  if (text.empty()) {
    if (why_.empty()) why_ = "no " + std::string(f) + " of " + std::string(name_of(t));
    return name;
  }
  if (t == TENON_F64) need_f64(name);
  const std::string expanded = expand(text, t, lanes);
  functions_ += expanded;
  return name;
}

// Many keys are sorted digit by digit, the least significant first; digits that all keys share are
// left out. Fewer keys than buckets would pay for the buckets.
static std::string radix_sort(const std::string& e, uint32_t bytes) {
  const std::string digits = std::to_string(bytes);
  return "  if (n >= 256) {\n    i64 c[" + digits + "][256]; " + e +
         "* from = k; i64* moved = v;\n    for (i64 b = 0; b < " + digits +
         "; ++b) for (i64 d = 0; d < 256; ++d) c[b][d] = 0;\n"
         "    for (i64 i = 0; i < n; ++i) for (i64 b = 0; b < " +
         digits + "; ++b) ++c[b][k[i] >> 8 * b & 255];\n    for (i64 b = 0; b < " + digits +
         "; ++b) {\n      i64* h = c[b]; i64 at = 0;\n"
         "      if (h[from[0] >> 8 * b & 255] == n) continue;\n"
         "      for (i64 d = 0; d < 256; ++d) { const i64 m = h[d]; h[d] = at; at += m; }\n"
         "      for (i64 i = 0; i < n; ++i) {\n        const " +
         e +
         " x = from[i]; const i64 to = h[x >> 8 * b & 255]++;\n"
         "        tk[to] = x; tv[to] = moved[i];\n      }\n      " +
         e +
         "* const l = from; from = tk; tk = l;\n      i64* const w = moved; moved = tv; tv = w;\n"
         "    }\n    for (i64 i = 0; from != k && i < n; ++i) { k[i] = from[i]; v[i] = moved[i]; "
         "}\n"
         "    return;\n  }\n";
}

std::string Prelude::need_sort(DType key) {
  const std::string name = "sort_" + suffix(key, 1);
  if (!known_.insert(name).second) return name;
  const std::string K = global_space(target_) + memory_type(key) + "*", e = memory_type(key);
  const std::string V = global_space(target_) + "i64*";
  functions_ +=
      void_function(target_) + name + "(" + K + " k, " + V + " v, " + K + " tk, " + V +
      " tv, i64 n) {\n" + (target_.dialect == Dialect::kCpp ? radix_sort(e, size_of(key)) : "") +
      "  for (i64 s = 0; s < n; s += 16) {\n    const i64 e = s + 16 < n ? s + 16 : n;\n"
      "    for (i64 i = s + 1; i < e; ++i) {\n      const " +
      e +
      " x = k[i]; const i64 y = v[i]; i64 j = i;\n"
      "      for (; j > s && k[j - 1] > x; --j) { k[j] = k[j - 1]; v[j] = v[j - 1]; }\n      k[j] "
      "= x; v[j] = y;\n    }\n  }\n"
      "  for (i64 w = 16; w < n; w += w) {\n    for (i64 s = 0; s < n; s += w + w) {\n"
      "      const i64 m = s + w < n ? s + w : n, e = m + w < n ? m + w : n; i64 i = s, j = m;\n"
      "      for (i64 o = s; o < e; ++o) {\n        const i64 from = i < m && (j >= e || k[i] <= "
      "k[j]) ? i++ : j++;\n"
      "        tk[o] = k[from]; tv[o] = v[from];\n      }\n    }\n"
      "    for (i64 i = 0; i < n; ++i) { k[i] = tk[i]; v[i] = tv[i]; }\n  }\n}\n";
  return name;
}

std::string Prelude::need_select(DType key) {
  const std::string name = "select_" + suffix(key, 1);
  if (!known_.insert(name).second) return name;
  const std::string space = global_space(target_), e = memory_type(key), K = space + e + "*",
                    V = space + "i64*";
  functions_ +=
      void_function(target_) + name + "(" + K + " k, " + V + " v, " + K + " tk, " + V +
      " tv, i64 n, i64 m) {\n  i64 c = 0;\n  for (i64 i = 0; i < n; ++i) {\n    const " + e +
      " x = k[i];\n    if (c == m && x >= tk[m - 1]) continue;\n    const i64 y = v[i]; i64 j = "
      "c < m ? c++ : m - 1;\n    for (; j > 0 && tk[j - 1] > x; --j) { tk[j] = tk[j - 1]; "
      "tv[j] = tv[j - 1]; }\n    tk[j] = x; tv[j] = y;\n  }\n  for (i64 i = 0; i < c; ++i) { "
      "k[i] = tk[i]; v[i] = tv[i]; }\n}\n";
  return name;
}

std::string sum_block(const std::string& steps) {
  const std::string block = number(kSumBlock), all = "(" + steps + ")";
  return all + " > " + block + " && " + all + " <= 2 * " + block + " ? (" + all +
         " + 1) / 2 : " + block;
}

// The type of a vector whose lanes hold `steps` numbers for each of `lanes` sums, declared with
// what loads and broadcasts it.
std::string Prelude::word_vector(DType acc, uint32_t lanes, uint32_t steps) {
  const std::string name = std::string(is_float(acc) ? "bf16x"
                                       : steps == 4  ? "i8x"
                                                     : "i16x") +
                           number(steps * lanes);
  if (known_.insert("words of " + name).second) {
    const std::string size = "__attribute__((vector_size(" + number(int64_t{lanes} * 4) + ")))";
    if (is_float(acc)) types_ += "typedef __bf16 " + name + " " + size + ";\n";
    types_ += is_float(acc)
                  ? "typedef " + name + " " + name + "_u __attribute__((aligned(1), may_alias));\n"
                  : "";
    if (known_.insert("word").second)
      types_ += "typedef int word_u __attribute__((aligned(1), may_alias));\n";
    if (known_.insert("words " + number(lanes)).second)
      types_ += "typedef int wordsx" + number(lanes) + " " + size + ";\n";
  }
  return is_float(acc) ? name : type(steps == 4 ? TENON_I8 : TENON_I16, steps * lanes);
}

// Adds the products of the words x and b to the sums c.
std::string Prelude::word_product(DType acc, uint32_t lanes, uint32_t steps, const std::string& c,
                                  const std::string& b) {
  if (is_float(acc)) return c + " = __builtin_ia32_dpbf16ps_512(" + c + ", x, " + b + ");";
  const std::string V = type(TENON_U32, lanes), W = "wordsx" + number(lanes);
  if (steps == 4 || (target_.byte_quads && lanes >= 8)) {
    return c + " = (" + V + ")__builtin_ia32_" + (steps == 4 ? "vpdpbusd" : "vpdpwssd") +
           number(int64_t{lanes} * 32) + "((" + W + ")" + c + ", (" + W + ")x, (" + W + ")" + b +
           ");";
  }
  if (lanes >= 4)
    return c + " += (" + V + ")__builtin_ia32_pmaddwd" + number(int64_t{lanes} * 32) + "(x, " + b +
           ");";
  // A panel of two columns has fewer lanes than the narrowest pmaddwd.
  const auto part = [&](const std::string& v, uint32_t first) {
    std::string out = "__builtin_convertvector(__builtin_shufflevector(" + v + ", " + v;
    for (uint32_t i = 0; i < lanes; ++i) out += ", " + number(int64_t{i} * 2 + first);
    return out + "), " + W + ")";
  };
  return c + " += (" + V + ")(" + part("x", 0) + " * " + part(b, 0) + " + " + part("x", 1) + " * " +
         part(b, 1) + ");";
}

// Adds x * y to the sum c.
std::string Prelude::sum_of(DType t, uint32_t lanes, const std::string& c, const std::string& x,
                            const std::string& y) {
  if (!is_float(t)) return c + " += " + x + " * " + y + ";";
  return c + " = " + need("mad", t, lanes) + "(" + x + ", " + y + ", " + c + ");";
}

std::string Prelude::need_mma(DType t, uint32_t lanes, uint32_t rows, uint32_t vectors,
                              uint32_t steps, DType weights) {
  const bool words = steps > 1, widens = weights != TENON_DTYPE_NONE;
  const std::string name = std::string(steps == 4 ? "mmab"
                                       : words    ? "mmah"
                                       : widens   ? "mmaw"
                                                  : "mma") +
                           number(rows) + "x" + number(vectors) + "_" + suffix(t, lanes);
  if (!known_.insert(name).second) return name;
  // Integers wrap.
  const DType u = is_integer(t) ? unsigned_of(t) : t;
  const std::string V = type(u, lanes), C = memory_type(u),
                    E = words ? memory_type(operand_type(t, steps, false)) : C,
                    F = words    ? memory_type(operand_type(t, steps, true))
                        : widens ? memory_type(weights)
                                 : C;
  const std::string B = words ? word_vector(t, lanes, steps) : V,
                    N = widens ? type(weights, lanes) : B,
                    widen = widens ? need_convert(weights, t, lanes, false) : "";
  std::string s = "static __attribute__((noinline)) void " + name + "(";
  for (uint32_t r = 0; r < rows; ++r) s += "const " + E + "* a" + number(r) + ", ";
  s += "i64 as, const " + F + "* b, i64 bs, i64 k, " + C + "* c) {\n ";
  auto acc = [](uint32_t r, uint32_t v) { return "c" + number(r) + "_" + number(v); };
  // Sums are computed in blocks, because the rounding errors of one long chain would grow with its
  // length.
  s += " i64 i = 0; const i64 most = " + sum_block("k") +
       ";\n  do {\n    const i64 e = k - i > most ? i + most : k; const i64 first = i;\n ";
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t v = 0; v < vectors; ++v) s += " " + V + " " + acc(r, v) + " = (" + V + ")0;";
  }
  s += "\n  for (; i < e; ++i) {\n    const i64 o = i * as; " + B + " x;";
  for (uint32_t v = 0; v < vectors; ++v) {
    s += " const " + B + " b" + number(v) + " = " + widen + "(*(const " + N + "_u*)(b + " +
         number(int64_t{v} * lanes * steps) + "));";
  }
  for (uint32_t r = 0; r < rows; ++r) {
    const std::string a = "a" + number(r);
    s += words ? "\n    x = (" + B + ")((wordsx" + number(lanes) + "){} + *(const word_u*)(" + a +
                     " + o));"
               : "\n    x = (" + V + ")(" + a + "[o]);";
    for (uint32_t v = 0; v < vectors; ++v) {
      const std::string c = acc(r, v), b = "b" + number(v);
      s += " " + (words ? word_product(t, lanes, steps, c, b) : sum_of(t, lanes, c, "x", b));
    }
  }
  s += "\n    b += bs;\n  }\n  if (first == 0) {\n ";
  auto store = [&](const char* assign) {
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t v = 0; v < vectors; ++v) {
        s += " *(" + V + "_u*)(c + " + number(int64_t{r * vectors + v} * lanes) + ") " + assign +
             " " + acc(r, v) + ";";
      }
    }
  };
  store("=");
  s += "\n  } else {\n ";
  store("+=");
  functions_ += s + "\n  }\n  } while (i < k);\n}\n";
  return name;
}

std::string Prelude::need_narrowing(DType to, uint32_t lanes) {
  const uint32_t bits = lanes * 32;
  const bool native = (target_.isa == "avx512" && bits == 512) ||
                      (target_.isa == "avx2" && bits == 256) ||
                      (target_.isa == "baseline" && bits == 128);
  if (!native) return need_convert(TENON_F32, to, lanes, false);
  const std::string name = "narrow_f32_" + suffix(to, lanes);
  if (!known_.insert(name).second) return name;
  // The instruction gives NaN the pattern 0x80000000, whose low bits are 0. In C++ the conversion
  // would be undefined.
  const std::string A = type(TENON_F32, lanes), R = type(to, lanes), I = type(TENON_I32, lanes),
                    w = number(bits);
  const std::string instruction =
      bits == 512   ? "__builtin_ia32_cvttps2dq512_mask((G)a, (W){}, (unsigned short)-1, 4)"
      : bits == 256 ? "__builtin_ia32_cvttps2dq256((G)a)"
                    : "__builtin_ia32_cvttps2dq((G)a)";
  functions_ +=
      "FN " + R + " " + name + "(" + A + " a) { typedef float G " + "__attribute__((vector_size(" +
      number(bits / 8) + "))); typedef int W " + "__attribute__((vector_size(" + number(bits / 8) +
      "))); return __builtin_convertvector((" + I + ")" + instruction + ", " + R + "); }\n";
  return name;
}

std::string Prelude::need_convert(DType from, DType to, uint32_t lanes, bool wrap) {
  const std::string name =
      std::string(wrap ? "wrap_" : "cvt_") + std::string(name_of(from)) + "_" + suffix(to, lanes);
  if (!known_.insert(name).second) return name;
  if (from == TENON_F64 || to == TENON_F64) need_f64(name);
  const bool v = lanes > 1;
  const std::string A = type(from, lanes), R = type(to, lanes);
  auto cast = [&](const std::string& T, const std::string& x) {
    return v ? "__builtin_convertvector(" + x + ", " + T + ")" : "((" + T + ")(" + x + "))";
  };
  auto emit = [&](const std::string& body) {
    functions_ += "FN " + R + " " + name + "(" + A + " a) { " + body + " }\n";
  };
  const std::string F = type(TENON_F32, lanes), U = type(TENON_U32, lanes),
                    I = type(TENON_I32, lanes), H = type(TENON_U16, lanes);
  if (from == TENON_PRED) {
    const std::string bit = v ? "(a & 1)" : "(a != 0)";
    if (is_half(to)) {
      emit("return " + need_convert(TENON_F32, to, lanes, false) + "(" + cast(F, bit) + ");");
    } else {
      emit("return " + cast(R, bit) + ";");
    }
    return name;
  }
  if (is_half(from)) {
    const bool native = from == TENON_F16 && v && converts_f16(target_) &&
                        (lanes == 8 || lanes == 16 || lanes == 4);
    if (to != TENON_F32) {
      const std::string widen = need_convert(from, TENON_F32, lanes, false);
      emit("return " + need_convert(TENON_F32, to, lanes, wrap) + "(" + widen + "(a));");
    } else if (from == TENON_BF16) {
      emit("return BITS(" + F + ", (" + U + ")(" + cast(U, "a") + " << 16));");
    } else if (native) {
      emit("typedef _Float16 HF __attribute__((ext_vector_type(" + number(lanes) +
           "))); return __builtin_convertvector(BITS(HF, a), " + F + ");");
    } else {
      // Shift into place; then a multiplication corrects the exponent, also for denormals.
      emit(U + " s = (" + U + ")(" + cast(U, "a") + " & 0x8000u) << 16; " + U + " m = (" + U +
           ")(" + cast(U, "a") + " & 0x7fffu) << 13; " + F + " f = BITS(" + F +
           ", m) * 0x1p112f; " + U + " r = BITS(" + U + ", f); r = SEL(" + U + ", m >= (" + U +
           ")0x0f800000u, m | 0x7f800000u, r); return BITS(" + F + ", (" + U + ")(r | s));");
    }
    return name;
  }
  if (is_half(to)) {
    if (from != TENON_F32) {
      // Rounds once: the bits lost in the step to f32 set its lowest bit (round to odd).
      const std::string narrow = need_convert(TENON_F32, to, lanes, false),
                        step = need_convert(from, TENON_F32, lanes, false);
      if (from == TENON_F64) {
        auto mask = [&](const std::string& c) {
          return v ? "__builtin_convertvector(" + c + ", " + I + ")" : "(" + c + ")";
        };
        emit(F + " f = " + step + "(a); " + A + " b = " + cast(A, "f") + "; b = SEL(" + A +
             ", b < (" + A + ")0, -b, b); " + A + " m = SEL(" + A + ", a < (" + A + ")0, -a, a); " +
             U + " x = BITS(" + U + ", f); " + U + " y = SEL(" + U + ", " + mask("m > b") +
             ", x + 1u, x); y = SEL(" + U + ", " + mask("m < b") + ", x - 1u, y); x = SEL(" + U +
             ", (x & 1u) != (" + U + ")0, x, y); return " + narrow + "(BITS(" + F + ", x));");
        return name;
      }
      // An integer of more than t bits keeps its bits from g on; the lowest of these is set if any
      // bit below was set. f32 holds the result exactly.
      std::string odd;
      const int bits = static_cast<int>(size_of(from)) * 8;
      for (int t = 24, g = 11; bits >= 32 && t < bits; t += 11, g += 11) {
        const std::string T = "(" + A + ")" + number(int64_t{1} << t) + "L",
                          low = "(" + A + ")" + number((int64_t{1} << g) - 1) + "L",
                          one = "(" + A + ")" + number(int64_t{1} << g) + "L",
                          zero = "(" + A + ")0";
        const std::string beyond =
            is_signed(from) ? "(a >= " + T + ") | (a <= -" + T + ")" : "a >= " + T;
        odd += "a = SEL(" + A + ", " + beyond + ", (a & ~" + low + ") | SEL(" + A + ", (a & " +
               low + ") != " + zero + ", " + one + ", " + zero + "), a); ";
      }
      emit(odd + "return " + narrow + "(" + step + "(a));");
    } else if (to == TENON_BF16) {
      emit(U + " x = BITS(" + U + ", a); " + U + " r = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16; " +
           U + " q = (x >> 16) | 0x40u; r = SEL(" + U + ", (x & 0x7fffffffu) > (" + U +
           ")0x7f800000u, q, r); return " + cast(H, "r") + ";");
    } else if (v && converts_f16(target_)) {
      emit("typedef _Float16 HF __attribute__((ext_vector_type(" + number(lanes) +
           "))); return BITS(" + R + ", __builtin_convertvector(a, HF));");
    } else {
      // Normal results by rounding bits; denormal ones by adding a number whose last place is
      // theirs.
      emit(U + " x = BITS(" + U + ", a); " + U + " s = (x >> 16) & 0x8000u; x = x & 0x7fffffffu; " +
           U + " n = (x - 0x38000000u + 0xfffu + ((x >> 13) & 1u)) >> 13; " + U + " d = BITS(" + U +
           ", (" + F + ")(BITS(" + F + ", x) + 0.5f)) - 0x3f000000u; " + U + " r = SEL(" + U +
           ", x < (" + U + ")0x38800000u, d, n); r = SEL(" + U + ", x >= (" + U +
           ")0x477ff000u, (" + U + ")0x7c00u, r); r = SEL(" + U + ", x > (" + U +
           ")0x7f800000u, 0x7e00u | ((x >> 13) & 0x3ffu), r); return " + cast(H, "(r | s)") + ";");
    }
    return name;
  }
  if (to == TENON_PRED) {
    const std::string nonzero = "(a != (" + A + ")0)";
    emit(v && size_of(from) != 4 ? "return __builtin_convertvector(" + nonzero + ", " + R + ");"
                                 : "return " + nonzero + ";");
    return name;
  }
  if (!is_float(from) || is_float(to)) {
    emit("return " + cast(R, "a") + ";");
    return name;
  }
  // Float to integer: saturate, NaN gives 0.
  const int bits = static_cast<int>(size_of(to)) * 8;
  const std::string M = type(from, lanes);
  if (wrap) {
    // Modulo 2^n: the remainder after whole multiples of 2^64.
    const std::string D = type(TENON_F64, lanes);
    // Truncated, so that the remainder of a small negative number is itself and is not rounded to
    // 2^64.
    const std::string tr = need("trunc", TENON_F64, lanes);
    emit(D + " d = " + tr + "(" + cast(D, "a") + "); " + D + " q = " + tr +
         "(d * 0x1p-64); d = d - q * 0x1p64; " + D + " z = SEL(" + D + ", d - d == (" + D +
         ")0.0, d, (" + D + ")0.0); z = SEL(" + D + ", z >= (" + D +
         ")0x1p63, z - 0x1p64, z); z = SEL(" + D + ", z < (" + D +
         ")-0x1p63, z + 0x1p64, z); return " + cast(R, cast(type(TENON_I64, lanes), "z")) + ";");
    return name;
  }
  const bool s = is_signed(to);
  const std::string top = "0x1p" + number(s ? bits - 1 : bits) + (from == TENON_F32 ? "f" : "");
  const std::string low = s ? "-" + top : "0";
  const std::string max_value =
      s ? "(" + scalar_name(to) + ")((((u64)1) << " + number(bits - 1) + ") - 1)"
        : "(" + scalar_name(to) + ")~(u64)0";
  const std::string min_value =
      s ? "(" + scalar_name(to) + ")(((u64)1) << " + number(bits - 1) + ")"
        : "(" + scalar_name(to) + ")0";
  const std::string sel = need("sel", to, lanes);
  auto mask = [&](const std::string& c) {
    return v && size_of(from) != 4
               ? "__builtin_convertvector(" + c + ", " + type(TENON_PRED, lanes) + ")"
               : "(" + c + ")";
  };
  // Via the wider integer where the narrow conversion would be undefined.
  const DType via = bits < 32 ? TENON_I32 : to;
  const std::string inside = "SEL(" + M + ", (a > (" + M + ")" + low + (s ? "" : " - 1") +
                             ") & (a < (" + M + ")" + top + "), a, (" + M + ")0)";
  emit(M + " x = " + inside + "; " + R + " r = " +
       (via == to ? cast(R, "x") : cast(R, cast(type(via, lanes), "x"))) + "; r = " + sel + "(" +
       mask("a >= (" + M + ")" + top) + ", (" + R + ")(" + max_value + "), r); return " + sel +
       "(" + mask("a <= (" + M + ")" + low) + ", (" + R + ")(" + min_value + "), r);");
  return name;
}

}  // namespace tenon::kernelgen
