// What NVRTC knows without a header, for clang: as far as kernelgen's words for NVRTC use it.
#define __device__ __attribute__((device))
struct IndexX {
  unsigned x;
};
static inline __device__ IndexX thread_index() {
  return {(unsigned)__nvvm_read_ptx_sreg_tid_x()};
}
static inline __device__ IndexX block_index() {
  return {(unsigned)__nvvm_read_ptx_sreg_ctaid_x()};
}
#define threadIdx thread_index()
#define blockIdx block_index()
static inline __device__ int __shfl_sync(unsigned lanes, int x, int from) {
  return __nvvm_shfl_sync_idx_i32(lanes, x, from, 31);
}
static inline __device__ int __shfl_down_sync(unsigned lanes, int x, unsigned by) {
  return __nvvm_shfl_sync_down_i32(lanes, x, (int)by, 31);
}
static inline __device__ float __int_as_float(int x) {
  return __builtin_bit_cast(float, x);
}
static inline __device__ double __longlong_as_double(long long x) {
  return __builtin_bit_cast(double, x);
}
static inline __device__ float __fsqrt_rn(float x) {
  return __builtin_elementwise_sqrt(x);
}
static inline __device__ double __dsqrt_rn(double x) {
  return __builtin_elementwise_sqrt(x);
}
static inline __device__ float __fmaf_rn(float x, float y, float z) {
  return __builtin_elementwise_fma(x, y, z);
}
static inline __device__ double __fma_rn(double x, double y, double z) {
  return __builtin_elementwise_fma(x, y, z);
}
#define FOR_FLOAT(name, builtin)                    \
  static inline __device__ float name##f(float x) { \
    return builtin(x);                              \
  }                                                 \
  static inline __device__ double name(double x) {  \
    return builtin(x);                              \
  }
FOR_FLOAT(rint, __builtin_elementwise_roundeven)
FOR_FLOAT(floor, __builtin_elementwise_floor)
FOR_FLOAT(ceil, __builtin_elementwise_ceil)
FOR_FLOAT(trunc, __builtin_elementwise_trunc)
#undef FOR_FLOAT
