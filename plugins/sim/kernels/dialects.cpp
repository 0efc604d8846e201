#include "plugins/sim/kernels/dialects.h"

#include <algorithm>
#include <charconv>

#include "plugins/sim/kernels/group.h"
#include "tenon/abi/toolchain.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/kernelgen/print/intel.h"

namespace tenon::sim {
namespace {

namespace kg = kernelgen;

// Work items in a group of sim's own text: enough for races to happen, few enough to be quick. The
// vendors' texts have the groups of their plugins.
constexpr uint32_t kGroup = 16, kVendorGroup = 256;

// The hooks of group.h for C++. Names that begin with __tenon are not watched, so they are C's.
constexpr std::string_view kCppHooks = R"CL(
extern "C" {
unsigned long __tenon_sim_hooks[3];
#define SIM_OWN inline __attribute__((always_inline, visibility("hidden")))
SIM_OWN void __tenon_sim_barrier() {
  ((void (*)(unsigned, unsigned))__tenon_sim_hooks[0])(0, 1);
}
SIM_OWN unsigned long __tenon_sim_item(int what) {
  return ((const unsigned long* (*)())__tenon_sim_hooks[1])()[what * 3];
}
SIM_OWN unsigned long __tenon_sim_word(unsigned long x, unsigned by, unsigned warp) {
  return ((unsigned long (*)(unsigned long, unsigned, unsigned, unsigned))__tenon_sim_hooks[2])(x, by, warp, 2);
}
}
)CL";

// Attributes of C++ for GPUs.
constexpr std::string_view kGpuWords = R"CL(
#define device unused
#define global annotate("kernel")
#define shared section("tenon.local")
)CL";

constexpr std::string_view kCudaWords = R"CL(
#define launch_bounds(n) unused
#define __nvvm_read_ptx_sreg_tid_x() ((int)__tenon_sim_item(1))
#define __nvvm_read_ptx_sreg_ctaid_x() ((int)__tenon_sim_item(2))
#define __syncthreads() __tenon_sim_barrier()
#define __nvvm_shfl_sync_idx_i32(mask, x, lane, clamp) ((int)__tenon_sim_word((unsigned)(x), lane, 32))
#define __nvvm_shfl_sync_down_i32(mask, x, by, clamp) ((int)__tenon_sim_word((unsigned)(x), (unsigned)(by), 32))
#line 1
)CL";

// A permutation here gets what lies further on in the warp, as the text asks for it.
constexpr std::string_view kHipWords = R"CL(
#define amdgpu_flat_work_group_size(least, most) unused
#define __builtin_amdgcn_workitem_id_x() ((int)__tenon_sim_item(1))
#define __builtin_amdgcn_workgroup_id_x() ((int)__tenon_sim_item(2))
#define __builtin_amdgcn_fence(order, scope) ((void)0)
#define __builtin_amdgcn_s_barrier() __tenon_sim_barrier()
#define SIM_LANE ((int)(__tenon_sim_item(1) % SIM_WARP))
#define __builtin_amdgcn_mbcnt_lo(mask, base) ((base) + (SIM_LANE < 32 ? SIM_LANE : 32))
#define __builtin_amdgcn_mbcnt_hi(mask, base) ((base) + (SIM_LANE < 32 ? 0 : SIM_LANE - 32))
#define __builtin_amdgcn_readlane(x, lane) ((int)__tenon_sim_word((unsigned)(x), lane, SIM_WARP))
#define __builtin_amdgcn_ds_bpermute(at, x) ((int)__tenon_sim_word((unsigned)(x), (unsigned)((at) / 4 - SIM_LANE), SIM_WARP))
#line 1
)CL";

constexpr std::string_view kMetalWords = R"CL(
typedef unsigned short ushort;
typedef char char4 __attribute__((ext_vector_type(4)));
typedef unsigned char uchar4 __attribute__((ext_vector_type(4)));
typedef short short4 __attribute__((ext_vector_type(4)));
typedef ushort ushort4 __attribute__((ext_vector_type(4)));
typedef int int4 __attribute__((ext_vector_type(4)));
typedef unsigned uint4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));
#define kernel clang::annotate("kernel")
#define max_total_threads_per_threadgroup(n) maybe_unused
#define buffer(n) maybe_unused
#define thread_position_in_threadgroup clang::annotate("= (unsigned)__tenon_sim_item(1)")
#define threadgroup_position_in_grid clang::annotate("= (unsigned)__tenon_sim_item(2)")
#define device
#define thread
#define constant const
#define threadgroup static __attribute__((section("tenon.local")))
template <class T, class F>
static inline __attribute__((always_inline)) T as_type(F x) { return __builtin_bit_cast(T, x); }
namespace metal {
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }
#define SIM_FN static inline __attribute__((always_inline, unused))
SIM_FN void threadgroup_barrier(mem_flags) { __tenon_sim_barrier(); }
SIM_FN int simd_broadcast(int x, ushort lane) { return (int)__tenon_sim_word((unsigned)x, lane, 32); }
SIM_FN int simd_shuffle_down(int x, ushort by) { return (int)__tenon_sim_word((unsigned)x, by, 32); }
SIM_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
namespace precise {
SIM_FN float sqrt(float x) { return __builtin_elementwise_sqrt(x); }
}
}  // namespace metal
#line 1
)CL";

constexpr std::string_view kIntelWords = R"CL(
#undef warp_word
#define intel_reqd_sub_group_size(n) unused
#define intel_sub_group_shuffle(x, lane) __tenon_sim_word(x, lane, SIM_WARP, __LINE__)
#define intel_sub_group_shuffle_down(x, next, by) __tenon_sim_word(x, by, SIM_WARP, __LINE__)
#line 1
)CL";

constexpr std::string_view kMetalInclude = "#include <metal_stdlib>\n";

struct Kind {
  std::string_view name;
  std::vector<uint32_t> warps;  // the first is the default; 0: none
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"opencl", {0, 8, 16, 32, 64}},
                                        {"cuda", {32}},
                                        {"hip", {32, 64}},
                                        {"intel", {16, 8, 32}},
                                        {"metal", {32}}};
  return all;
}

kg::Target target_of(std::string_view name, uint32_t warp) {
  if (name == "cuda") return kg::Target::cuda(kVendorGroup);
  if (name == "hip") return kg::Target::hip(warp, kVendorGroup);
  if (name == "metal") return kg::Target::metal(kVendorGroup);
  const bool intel = name == "intel";
  kg::Target out = kg::Target::opencl(!intel, intel ? kVendorGroup : std::max(kGroup, 2 * warp));
  out.warp = warp;
  return out;
}

std::string widths(const Kind& kind) {
  std::string out;
  for (uint32_t w : kind.warps) {
    if (w != 0) out += cat(out.empty() ? "" : w == kind.warps.back() ? " or " : ", ", w);
  }
  return out;
}

Status width_of(const Kind& kind, uint32_t* out) {
  const std::string_view text = setting("TENON_SIM_WARP");
  *out = kind.warps.front();
  if (text.empty()) return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (error == std::errc() && end == text.data() + text.size() && *out != 0 &&
      std::ranges::find(kind.warps, *out) != kind.warps.end())
    return {};
  return fail(TENON_INVALID_ARGUMENT,
              cat("sim: TENON_SIM_WARP is ", widths(kind),
                  kind.name == "opencl" ? "" : cat(" for ", kind.name), ", not ", quoted(text)));
}

}  // namespace

std::string Text::unit(std::string_view text) const {
  const std::string warp = cat("#define SIM_WARP ", target.warp, "\n");
  if (name == "cuda") return cat(kCppHooks, kGpuWords, kCudaWords, text);
  if (name == "hip") return cat(kCppHooks, kGpuWords, warp, kHipWords, text);
  if (name == "metal") {
    if (text.starts_with(kMetalInclude)) text.remove_prefix(kMetalInclude.size());
    return cat(kCppHooks, kMetalWords, text);
  }
  if (name == "intel")
    return cat(kDialectPrelude, warp, kIntelWords, kg::intel_sub_groups(target.warp), text);
  return cat(kDialectPrelude, text);
}

Status text_of_settings(Text* out) {
  const std::string_view name = setting("TENON_SIM_DIALECT");
  for (const Kind& kind : kinds()) {
    if (kind.name != (name.empty() ? "opencl" : name)) continue;
    uint32_t warp = 0;
    TENON_TRY(width_of(kind, &warp));
    const bool cpp = kind.name != "opencl" && kind.name != "intel";
    *out = {kind.name, cpp ? TENON_DIALECT_ITEMS_CPP : TENON_DIALECT_OPENCL_C,
            target_of(kind.name, warp)};
    return {};
  }
  return fail(
      TENON_INVALID_ARGUMENT,
      cat("sim: TENON_SIM_DIALECT is opencl, cuda, hip, intel or metal, not ", quoted(name)));
}

}  // namespace tenon::sim
