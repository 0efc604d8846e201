// The targets of code: "cuda sm_90", with what group_limits.h adds for GPUs that allow less.
//
// Code is PTX, which runs on its architecture and all later ones, except for those with a letter,
// "sm_90a", which run on their own alone. A GPU that no compiler here knows runs the code of an
// older architecture, and its target names both: "cuda sm_90 on sm_130". So packages that were
// made for it elsewhere still fit.
#ifndef TENON_PLUGINS_CUDA_TARGET_H_
#define TENON_PLUGINS_CUDA_TARGET_H_

#include <string>
#include <string_view>

#include "tenon/cpp/status.hpp"
#include "tenon/stream/group_limits.h"

namespace tenon::cuda {

struct Nvrtc;

// What each architecture allows kernels that ask for nothing. A device may allow less, and says so
// in its target.
constexpr stream::GroupLimits kLimits = {1024, 48 << 10};
constexpr int kOldestCapability = 70;

// Which compiler makes the code of a target, by TENON_CUDA_COMPILER: clang (the toolchain), nvrtc,
// or auto, which is clang for the architectures that it knows, and NVRTC for newer ones.
// *by_nvrtc: which NVRTC, by the driver that is here; null: clang. *architecture: "sm_90".
// INVALID_ARGUMENT for a target that there is no compiler for, or whose GPU does not run its code,
// UNAVAILABLE where NVRTC is asked for and is not there; each with what to do.
Status compiler_of(std::string_view target, const Nvrtc** by_nvrtc, std::string* architecture);

// The target of a GPU without its limits, "cuda sm_90"; empty: it is too old. driver_version: 12020
// is CUDA 12.2, whose driver takes no PTX of a newer NVRTC. *note: what a user may want to know of
// code for a GPU that clang does not know, or that NVRTC is asked for, for its description.
std::string target_of(int capability, int driver_version, std::string* note);

// Whether code for one target runs on a device of another.
bool runs_on(std::string_view made_for, std::string_view device);

}  // namespace tenon::cuda
#endif
