#include "toolchain/cuda_target.h"

#include "tenon/cpp/status.hpp"

namespace tenon::cpu {
namespace {

struct Architecture {
  std::string_view name, features;
};
// Before sm_70, the lanes of a warp could not wait for one another.
constexpr Architecture kArchitectures[] = {
    {"sm_70", "+ptx60"}, {"sm_72", "+ptx61"}, {"sm_75", "+ptx63"},
    {"sm_80", "+ptx70"}, {"sm_86", "+ptx71"}, {"sm_87", "+ptx74"},
    {"sm_89", "+ptx78"}, {"sm_90", "+ptx78"}, {"sm_90a", "+ptx80"}};
constexpr std::string_view kPrefix = "cuda ";

}  // namespace

std::string_view cuda_architecture(std::string_view target) {
  if (!target.starts_with(kPrefix)) return {};
  for (const Architecture& a : kArchitectures) {
    if (target.substr(kPrefix.size()) == a.name) return a.name;
  }
  return {};
}

std::string_view cuda_features(std::string_view architecture) {
  for (const Architecture& a : kArchitectures) {
    if (a.name == architecture) return a.features;
  }
  return {};
}

std::string cuda_architectures() {
  std::string out;
  for (const Architecture& a : kArchitectures) out += cat(out.empty() ? "" : ", ", a.name);
  return out;
}

}  // namespace tenon::cpu
