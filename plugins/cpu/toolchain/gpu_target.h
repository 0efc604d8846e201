// Dialects for GPUs, and the architectures that clang 19 compiles them for.
#ifndef TENON_PLUGINS_CPU_TOOLCHAIN_GPU_TARGET_H_
#define TENON_PLUGINS_CPU_TOOLCHAIN_GPU_TARGET_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon::cpu {

struct GpuArchitecture {
  std::string_view name;      // "sm_90", "gfx942"
  std::string_view features;  // of clang: "+ptx78"
};

struct GpuDialect {
  std::string_view name;           // "cuda-c++"
  std::string_view prefix;         // of its targets: "cuda "
  uint32_t clang = 0, output = 0;  // TENON_CLANG_CUDA, TENON_CLANG_ASSEMBLY
  std::span<const GpuArchitecture> architectures;
};

// Null for a dialect that is none of a GPU.
const GpuDialect* gpu_dialect(std::string_view name);

// Null for a target that clang does not compile the dialect for.
const GpuArchitecture* gpu_architecture(const GpuDialect& dialect, std::string_view target);

// "sm_70, sm_75, ...", for messages.
std::string names_of_architectures(const GpuDialect& dialect);

}  // namespace tenon::cpu
#endif
