// The targets of the dialect "cuda-c++": architectures of NVIDIA's GPUs that clang 19 knows.
#ifndef TENON_PLUGINS_CPU_TOOLCHAIN_CUDA_TARGET_H_
#define TENON_PLUGINS_CPU_TOOLCHAIN_CUDA_TARGET_H_

#include <string>
#include <string_view>

namespace tenon::cpu {

// The architecture of a target text, "sm_90" of "cuda sm_90"; empty if clang does not know it.
std::string_view cuda_architecture(std::string_view target);

// The lowest version of PTX that has the architecture, as a feature of clang: "+ptx78". Old drivers
// then load the code too.
std::string_view cuda_features(std::string_view architecture);

// "sm_70, sm_75, ...", for messages.
std::string cuda_architectures();

}  // namespace tenon::cpu
#endif
