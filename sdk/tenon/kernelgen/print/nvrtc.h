// Kernelgen's CUDA C++ is written with clang's builtins and vectors. These are the same for NVRTC,
// put before the text; what it calls is CUDA's and needs no header.
//
// Users: plugins/cuda.
#ifndef TENON_KERNELGEN_PRINT_NVRTC_H_
#define TENON_KERNELGEN_PRINT_NVRTC_H_

#include <string_view>

namespace tenon::kernelgen {

// Vectors are aligned as a whole, which makes a load of one a single instruction. The text has its
// own min and max, and NVRTC has others of that name. The casts of bits are missing before CUDA 12.
inline constexpr std::string_view kNvrtcWords =
    "template <class T, int N> struct vector_of;\n"
    "template <class T> struct alignas(2 * sizeof(T)) vector_of<T, 2> { T x, y; };\n"
    "template <class T> struct alignas(4 * sizeof(T)) vector_of<T, 4> { T x, y, z, w; };\n"
    "#define VECTOR(T, n, name) typedef vector_of<T, n> name\n"
    "#if __CUDACC_VER_MAJOR__ < 12\n"
    "template <class T, class F> static inline __device__ T same_bits(F x) {\n"
    "  static_assert(sizeof(T) == sizeof(F)); T r; memcpy(&r, &x, sizeof r); return r;\n}\n"
    "#define __builtin_bit_cast(T, x) same_bits<T>(x)\n#endif\n"
    "#define min own_min\n#define max own_max\n"
    "#define __nvvm_read_ptx_sreg_tid_x() threadIdx.x\n"
    "#define __nvvm_read_ptx_sreg_ctaid_x() blockIdx.x\n"
    "#define __nvvm_shfl_sync_idx_i32(lanes, x, from, clamp) __shfl_sync(lanes, x, from)\n"
    "#define __nvvm_shfl_sync_down_i32(lanes, x, by, clamp) __shfl_down_sync(lanes, x, by)\n"
    "#define __builtin_inff() __int_as_float(0x7f800000)\n"
    "#define __builtin_nanf(text) __int_as_float(0x7fc00000)\n"
    "#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)\n"
    "#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)\n"
    "#define FOR_FLOATS(ours, of_f32, of_f64) \\\n"
    "  static inline __device__ float ours(float x) { return of_f32(x); } \\\n"
    "  static inline __device__ double ours(double x) { return of_f64(x); }\n"
    "FOR_FLOATS(nearest, rintf, rint)\nFOR_FLOATS(down, floorf, floor)\n"
    "FOR_FLOATS(up, ceilf, ceil)\nFOR_FLOATS(toward_0, truncf, trunc)\n"
    "FOR_FLOATS(root, __fsqrt_rn, __dsqrt_rn)\n"
    "static inline __device__ float joined(float x, float y, float z) {\n"
    "  return __fmaf_rn(x, y, z);\n}\n"
    "static inline __device__ double joined(double x, double y, double z) {\n"
    "  return __fma_rn(x, y, z);\n}\n"
    "#define __builtin_elementwise_fma(x, y, z) joined(x, y, z)\n"
    "#define __builtin_elementwise_roundeven(x) nearest(x)\n"
    "#define __builtin_elementwise_floor(x) down(x)\n"
    "#define __builtin_elementwise_ceil(x) up(x)\n"
    "#define __builtin_elementwise_trunc(x) toward_0(x)\n"
    "#define __builtin_elementwise_sqrt(x) root(x)\n"
    "#line 1 \"kernel\"\n";

}  // namespace tenon::kernelgen
#endif
