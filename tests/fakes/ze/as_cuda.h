/* OpenCL C's functions, and Intel's, by those of CUDA, so that the text becomes PTX, which the
 * tests can run. A sub-group of 16 is half a warp of 32. */
#define get_local_id(d) ((size_t)__nvvm_read_ptx_sreg_tid_x())
#define get_group_id(d) ((size_t)__nvvm_read_ptx_sreg_ctaid_x())
#define get_global_id(d)                                                    \
  ((size_t)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + \
   __nvvm_read_ptx_sreg_tid_x())
#define barrier(flags) __syncthreads()
#define sqrt(x) __builtin_sqrtf(x)
#define fma(a, b, c) __builtin_fmaf(a, b, c)
static inline long fake_min(long a, long b) {
  return a < b ? a : b;
}
static inline long fake_max(long a, long b) {
  return a > b ? a : b;
}
#define min(a, b) fake_min(a, b)
#define max(a, b) fake_max(a, b)
#define intel_reqd_sub_group_size(n) unused
static inline ulong fake_shuffle(ulong x, uint lane) {
  const uint from = (__nvvm_read_ptx_sreg_tid_x() & 16) + (lane & 15);
  const uint low = (uint)__nvvm_shfl_sync_idx_i32(~0u, (int)x, (int)from, 31);
  const uint high = (uint)__nvvm_shfl_sync_idx_i32(~0u, (int)(x >> 32), (int)from, 31);
  return (ulong)low | (ulong)high << 32;
}
#define intel_sub_group_shuffle(x, lane) fake_shuffle(x, lane)
#define intel_sub_group_shuffle_down(x, next, by) \
  fake_shuffle(x, (__nvvm_read_ptx_sreg_tid_x() & 15) + (by))
