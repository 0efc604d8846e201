/* AMD's builtins by those of CUDA, so that HIP C++ for 32 lanes becomes PTX, which the tests can
 * run. */
#define amdgpu_flat_work_group_size(least, most) launch_bounds(most)
#define __builtin_amdgcn_workitem_id_x() __nvvm_read_ptx_sreg_tid_x()
#define __builtin_amdgcn_workgroup_id_x() __nvvm_read_ptx_sreg_ctaid_x()
#define __builtin_amdgcn_fence(order, scope) (void)0
#define __builtin_amdgcn_s_barrier() __syncthreads()
#define __builtin_amdgcn_mbcnt_lo(mask, base) (__nvvm_read_ptx_sreg_tid_x() & 31)
#define __builtin_amdgcn_mbcnt_hi(mask, base) (base)
#define __builtin_amdgcn_readlane(x, lane) __nvvm_shfl_sync_idx_i32(~0u, x, lane, 31)
#define __builtin_amdgcn_ds_bpermute(at, x) __nvvm_shfl_sync_idx_i32(~0u, x, ((at) / 4) & 31, 31)
