// Put before kernelgen's OpenCL C, this turns it into CUDA C++: for NVRTC, and for clang without
// CUDA's headers, which the test of this sample uses. One dimension, as in kernelgen's kernels.
#ifndef __CUDACC_RTC__
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
struct Place {
  int x;
};
#define threadIdx (Place{__nvvm_read_ptx_sreg_tid_x()})
#define blockIdx (Place{__nvvm_read_ptx_sreg_ctaid_x()})
#define blockDim (Place{__nvvm_read_ptx_sreg_ntid_x()})
#define VECTOR(element, name) typedef element name __attribute__((ext_vector_type(4)))
VECTOR(char, char4);
VECTOR(unsigned char, uchar4);
VECTOR(short, short4);
VECTOR(unsigned short, ushort4);
VECTOR(int, int4);
VECTOR(unsigned, uint4);
VECTOR(float, float4);
static __device__ float sqrt(float x) {
  return __nvvm_sqrt_rn_f(x);
}
static __device__ double sqrt(double x) {
  return __nvvm_sqrt_rn_d(x);
}
static __device__ long min(long a, long b) {
  return a < b ? a : b;
}
static __device__ long max(long a, long b) {
  return a > b ? a : b;
}
#endif
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define __kernel extern "C" __global__
#define reqd_work_group_size(x, y, z) launch_bounds(x)
#define __global
#define __local __shared__
#define __constant static __device__ const
#define FN static __device__

#define get_local_id(d) threadIdx.x
#define get_group_id(d) blockIdx.x
#define get_global_id(d) ((long)blockIdx.x * blockDim.x + threadIdx.x)
#define barrier(fences) __syncthreads()

template <class To, class From>
static __device__ To bits_of(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
#define as_char(x) bits_of<signed char>(x)
#define as_uchar(x) bits_of<uchar>(x)
#define as_short(x) bits_of<short>(x)
#define as_ushort(x) bits_of<ushort>(x)
#define as_int(x) bits_of<int>(x)
#define as_uint(x) bits_of<uint>(x)
#define as_float(x) bits_of<float>(x)
#define as_long(x) bits_of<long>(x)
#define as_ulong(x) bits_of<ulong>(x)
#define as_double(x) bits_of<double>(x)
