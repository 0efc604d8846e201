// What an OpenCL C unit can call. Other builtins give clang's plain "undeclared function" error:
// nothing is declared that would fail later, at link or load time.
//
// Mathematical functions are overloaded for scalars and vectors. They use LLVM's intrinsic if there
// is one, else the C mathematics library, lane by lane. Both are accurate rather than fast: fast
// kernels bring their own polynomials.
#include "clang_build.h"

namespace tenon::cpu::compiler {

const std::string_view kOpenclPrelude = R"CL(
#include "opencl-c-base.h"
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef struct { ulong global_size[3], id[3]; } __tenon_item_t;
static __global __tenon_item_t __tenon_item;
#define __TENON_FN static inline __attribute__((overloadable, always_inline))
static inline __attribute__((always_inline)) void __tenon_enter(const __private ulong* g) {
  for (int i = 0; i < 3; ++i) __tenon_item.global_size[i] = g[i];
}
static inline __attribute__((always_inline)) void __tenon_at(ulong x, ulong y, ulong z) {
  __tenon_item.id[0] = x; __tenon_item.id[1] = y; __tenon_item.id[2] = z;
}
__TENON_FN uint get_work_dim(void) { return 3; }
__TENON_FN size_t get_global_size(uint d) { return d < 3 ? __tenon_item.global_size[d] : 1; }
__TENON_FN size_t get_global_id(uint d) { return d < 3 ? __tenon_item.id[d] : 0; }
__TENON_FN size_t get_global_offset(uint d) { return 0; }
__TENON_FN size_t get_local_size(uint d) { return 1; }
__TENON_FN size_t get_local_id(uint d) { return 0; }
__TENON_FN size_t get_group_id(uint d) { return get_global_id(d); }
__TENON_FN size_t get_num_groups(uint d) { return get_global_size(d); }
void __attribute__((unavailable("work items run one after another here, so they cannot meet at a "
                                "barrier; write the kernel without one"))) barrier(uint flags);
__TENON_FN void mem_fence(uint flags) {}
__TENON_FN void read_mem_fence(uint flags) {}
__TENON_FN void write_mem_fence(uint flags) {}

#define __TENON_VECTORS(M, T, ...) \
  M(T, 1, __VA_ARGS__) M(T##2, 2, __VA_ARGS__) M(T##4, 4, __VA_ARGS__) M(T##8, 8, __VA_ARGS__)
#define __TENON_FLOATS(M, ...) \
  __TENON_VECTORS(M, float, __VA_ARGS__) M(float16, 16, __VA_ARGS__) M(double, 1, __VA_ARGS__) \
  M(double2, 2, __VA_ARGS__) M(double4, 4, __VA_ARGS__)
#define __TENON_INTS(M, ...) \
  M(char, 1, __VA_ARGS__) M(uchar, 1, __VA_ARGS__) M(short, 1, __VA_ARGS__) \
  M(ushort, 1, __VA_ARGS__) __TENON_VECTORS(M, int, __VA_ARGS__) \
  __TENON_VECTORS(M, uint, __VA_ARGS__) M(long, 1, __VA_ARGS__) M(ulong, 1, __VA_ARGS__)

#define __TENON_UNARY(T, n, f, b) __TENON_FN T f(T x) { return b(x); }
__TENON_FLOATS(__TENON_UNARY, exp, __builtin_elementwise_exp)
__TENON_FLOATS(__TENON_UNARY, exp2, __builtin_elementwise_exp2)
__TENON_FLOATS(__TENON_UNARY, log, __builtin_elementwise_log)
__TENON_FLOATS(__TENON_UNARY, log2, __builtin_elementwise_log2)
__TENON_FLOATS(__TENON_UNARY, log10, __builtin_elementwise_log10)
__TENON_FLOATS(__TENON_UNARY, sin, __builtin_elementwise_sin)
__TENON_FLOATS(__TENON_UNARY, cos, __builtin_elementwise_cos)
__TENON_FLOATS(__TENON_UNARY, sqrt, __builtin_elementwise_sqrt)
__TENON_FLOATS(__TENON_UNARY, fabs, __builtin_elementwise_abs)
__TENON_FLOATS(__TENON_UNARY, floor, __builtin_elementwise_floor)
__TENON_FLOATS(__TENON_UNARY, ceil, __builtin_elementwise_ceil)
__TENON_FLOATS(__TENON_UNARY, trunc, __builtin_elementwise_trunc)
__TENON_FLOATS(__TENON_UNARY, rint, __builtin_elementwise_rint)
__TENON_FLOATS(__TENON_UNARY, round, __builtin_elementwise_round)
#define __TENON_RECIPROCAL(T, n, f) __TENON_FN T f(T x) { return (T)1 / __builtin_elementwise_sqrt(x); }
__TENON_FLOATS(__TENON_RECIPROCAL, rsqrt)
#define __TENON_BINARY(T, n, f, b) __TENON_FN T f(T x, T y) { return b(x, y); }
__TENON_FLOATS(__TENON_BINARY, pow, __builtin_elementwise_pow)
__TENON_FLOATS(__TENON_BINARY, copysign, __builtin_elementwise_copysign)
__TENON_FLOATS(__TENON_BINARY, fmin, __builtin_elementwise_min)
__TENON_FLOATS(__TENON_BINARY, fmax, __builtin_elementwise_max)
__TENON_FLOATS(__TENON_BINARY, min, __builtin_elementwise_min)
__TENON_FLOATS(__TENON_BINARY, max, __builtin_elementwise_max)
__TENON_INTS(__TENON_BINARY, min, __builtin_elementwise_min)
__TENON_INTS(__TENON_BINARY, max, __builtin_elementwise_max)
#define __TENON_FMA(T, n, f) __TENON_FN T f(T x, T y, T z) { return __builtin_elementwise_fma(x, y, z); }
__TENON_FLOATS(__TENON_FMA, fma)
#define __TENON_MAD(T, n, f) __TENON_FN T f(T x, T y, T z) { _Pragma("clang fp contract(on)") return x * y + z; }
__TENON_FLOATS(__TENON_MAD, mad)
#define __TENON_CLAMP(T, n, f) __TENON_FN T f(T x, T lo, T hi) { return min(max(x, lo), hi); }
__TENON_FLOATS(__TENON_CLAMP, clamp)
__TENON_INTS(__TENON_CLAMP, clamp)

#define __TENON_LIBM(f, ff) \
  float ff(float); \
  __TENON_FN float f(float x) { return ff(x); } \
  double __tenon_##f(double) __asm__(#f); \
  __TENON_FN double f(double x) { return __tenon_##f(x); }
__TENON_LIBM(erf, erff)
__TENON_LIBM(erfc, erfcf)
__TENON_LIBM(tan, tanf)
__TENON_LIBM(tanh, tanhf)
__TENON_LIBM(sinh, sinhf)
__TENON_LIBM(cosh, coshf)
__TENON_LIBM(asin, asinf)
__TENON_LIBM(acos, acosf)
__TENON_LIBM(atan, atanf)
__TENON_LIBM(asinh, asinhf)
__TENON_LIBM(acosh, acoshf)
__TENON_LIBM(atanh, atanhf)
__TENON_LIBM(expm1, expm1f)
__TENON_LIBM(log1p, log1pf)
__TENON_LIBM(cbrt, cbrtf)
__TENON_LIBM(tgamma, tgammaf)
__TENON_LIBM(lgamma, lgammaf)
#define __TENON_LIBM2(f, ff) \
  float ff(float, float); \
  __TENON_FN float f(float x, float y) { return ff(x, y); } \
  double __tenon_##f(double, double) __asm__(#f); \
  __TENON_FN double f(double x, double y) { return __tenon_##f(x, y); }
__TENON_LIBM2(fmod, fmodf)
__TENON_LIBM2(remainder, remainderf)
__TENON_LIBM2(atan2, atan2f)
__TENON_LIBM2(hypot, hypotf)
__TENON_LIBM2(nextafter, nextafterf)

__TENON_FN int isnan(float x) { return x != x; }
__TENON_FN int isnan(double x) { return x != x; }
__TENON_FN int isinf(float x) { return __builtin_isinf(x); }
__TENON_FN int isinf(double x) { return __builtin_isinf(x); }
__TENON_FN int isfinite(float x) { return __builtin_isfinite(x); }
__TENON_FN int isfinite(double x) { return __builtin_isfinite(x); }
__TENON_FN int signbit(float x) { return as_int(x) < 0; }
__TENON_FN int signbit(double x) { return as_long(x) < 0; }
#define __TENON_ABS(T, U) __TENON_FN U abs(T x) { return x < 0 ? (U)0 - (U)x : (U)x; }
__TENON_ABS(char, uchar) __TENON_ABS(short, ushort) __TENON_ABS(int, uint) __TENON_ABS(long, ulong)
#define __TENON_BITS(T) \
  __TENON_FN T popcount(T x) { return (T)__builtin_popcountg((ulong)(x)); } \
  __TENON_FN T rotate(T x, T n) { return (x << (n & (sizeof(T) * 8 - 1))) | (x >> (-n & (sizeof(T) * 8 - 1))); }
__TENON_BITS(uint) __TENON_BITS(ulong)
#define __TENON_SELECT(T, I) __TENON_FN T select(T a, T b, I c) { return c ? b : a; }
__TENON_SELECT(float, int) __TENON_SELECT(double, long) __TENON_SELECT(int, int)
__TENON_SELECT(uint, int) __TENON_SELECT(long, long) __TENON_SELECT(ulong, long)
#define __TENON_VLOAD(T, n, S) \
  __TENON_FN T vload##n(size_t i, const __global S* p) { \
    T v; for (int k = 0; k < n; ++k) v[k] = p[i * n + k]; return v; } \
  __TENON_FN void vstore##n(T v, size_t i, __global S* p) { \
    for (int k = 0; k < n; ++k) p[i * n + k] = v[k]; }
#define __TENON_VMEMORY(S) __TENON_VLOAD(S##2, 2, S) __TENON_VLOAD(S##4, 4, S) \
  __TENON_VLOAD(S##8, 8, S) __TENON_VLOAD(S##16, 16, S)
__TENON_VMEMORY(float) __TENON_VMEMORY(double) __TENON_VMEMORY(int) __TENON_VMEMORY(uint)
)CL"
                                        R"CL(
__TENON_FN float vload_half(size_t i, const __global half* p) { return (float)p[i]; }
__TENON_FN void vstore_half(float v, size_t i, __global half* p) { p[i] = (half)v; }
#line 1
)CL";

// Names that begin with __tenon are not watched, so that they must not be mangled.
const std::string_view kItemsPrelude = R"CL(
extern "C" {
struct __tenon_item_t { unsigned long global_size[3], id[3]; };
__attribute__((visibility("hidden"))) __tenon_item_t __tenon_item = {{1, 1, 1}, {0, 0, 0}};
#define __TENON_OWN inline __attribute__((always_inline, visibility("hidden")))
__TENON_OWN void __tenon_enter(const unsigned long* g) {
  for (int i = 0; i < 3; ++i) __tenon_item.global_size[i] = g[i];
}
__TENON_OWN void __tenon_at(unsigned long x, unsigned long y, unsigned long z) {
  __tenon_item.id[0] = x; __tenon_item.id[1] = y; __tenon_item.id[2] = z;
}
__TENON_OWN unsigned long __tenon_global_id(int d) { return __tenon_item.id[d]; }
}
#line 1
)CL";

}  // namespace tenon::cpu::compiler
