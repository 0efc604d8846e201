// What kernelgen's OpenCL C leaves to Intel's GPUs: the width of its warps, which are sub-groups,
// their shuffles, and that a product and a sum take one instruction. Put before the text.
//
// Users: plugins/intel, for which it is compiled; plugins/sim and samples/opencl, which run it.
#ifndef TENON_KERNELGEN_PRINT_INTEL_H_
#define TENON_KERNELGEN_PRINT_INTEL_H_

#include <cstdint>
#include <string>

namespace tenon::kernelgen {

// width: 8, 16 or 32.
inline std::string intel_sub_groups(uint32_t width) {
  return "#ifndef FP_FAST_FMAF\n#define FP_FAST_FMAF\n#endif\n"
         "#define __kernel __attribute__((intel_reqd_sub_group_size(" +
         std::to_string(width) +
         "))) kernel\n"
         "static inline ulong warp_word(ulong x, uint by, uint warp) {\n"
         "  return by == 0 ? intel_sub_group_shuffle(x, 0) : intel_sub_group_shuffle_down(x, x, "
         "by);\n"
         "}\n";
}

}  // namespace tenon::kernelgen
#endif
