#include "toolchain/gpu_target.h"

#include "compiler/compiler.h"
#include "tenon/abi/toolchain.h"
#include "tenon/cpp/status.hpp"

namespace tenon::cpu {
namespace {

// With the lowest version of PTX that has the architecture, so that old drivers load the code too.
// Before sm_70, the lanes of a warp could not wait for one another.
constexpr GpuArchitecture kCuda[] = {
    {"sm_70", "+ptx60"}, {"sm_72", "+ptx61"}, {"sm_75", "+ptx63"},
    {"sm_80", "+ptx70"}, {"sm_86", "+ptx71"}, {"sm_87", "+ptx74"},
    {"sm_89", "+ptx78"}, {"sm_90", "+ptx78"}, {"sm_90a", "+ptx80"}};

// Those of gfx9 run 64 lanes in step, the later ones 32.
constexpr GpuArchitecture kHip[] = {
    {"gfx906", ""},  {"gfx908", ""},  {"gfx90a", ""},  {"gfx942", ""},  {"gfx1030", ""},
    {"gfx1100", ""}, {"gfx1101", ""}, {"gfx1102", ""}, {"gfx1200", ""}, {"gfx1201", ""}};

constexpr GpuDialect kDialects[] = {
    {TENON_DIALECT_CUDA_CPP, "cuda ", TENON_CLANG_CUDA, TENON_CLANG_ASSEMBLY, kCuda},
    {TENON_DIALECT_HIP_CPP, "rocm ", TENON_CLANG_HIP, TENON_CLANG_OBJECT, kHip}};

}  // namespace

const GpuDialect* gpu_dialect(std::string_view name) {
  for (const GpuDialect& d : kDialects) {
    if (d.name == name) return &d;
  }
  return nullptr;
}

const GpuArchitecture* gpu_architecture(const GpuDialect& dialect, std::string_view target) {
  if (!target.starts_with(dialect.prefix)) return nullptr;
  for (const GpuArchitecture& a : dialect.architectures) {
    if (target.substr(dialect.prefix.size()) == a.name) return &a;
  }
  return nullptr;
}

std::string names_of_architectures(const GpuDialect& dialect) {
  std::string out;
  for (const GpuArchitecture& a : dialect.architectures)
    out += cat(out.empty() ? "" : ", ", a.name);
  return out;
}

}  // namespace tenon::cpu
