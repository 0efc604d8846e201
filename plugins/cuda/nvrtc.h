// NVRTC, CUDA's compiler as a library, opened at run time: for architectures that the toolchain's
// clang does not know, and where the user asks for it. It needs no driver and no GPU.
#ifndef TENON_PLUGINS_CUDA_NVRTC_H_
#define TENON_PLUGINS_CUDA_NVRTC_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/cpp/status.hpp"

namespace tenon::cuda {

struct Nvrtc {
  int version = 0;                // 12090 is that of CUDA 12.9, as drivers count theirs
  std::vector<int> capabilities;  // that it compiles for: 90, 100, 120
  std::string name;               // "NVRTC 12.9"
  std::string identity;           // for keys of what it made: the name, and the library's file
  std::string unknown(std::string_view target) const;  // that it does not compile for the target
  bool knows(int capability) const;
};

// Several releases may be installed. A driver takes no PTX of a newer one than itself,
// so this is the newest that is not newer than driver_version (0: no driver, any), of those that
// compile for the capability (0: any). Where each of those is newer, it is the oldest of them;
// where none compiles for it, the newest that is here. Null without one, with a sentence that says
// what to install. Opens what it asks, once. Threads: safe.
const Nvrtc* nvrtc(int capability, int driver_version, std::string* why);

// Compiles kernelgen's CUDA C++ to PTX for an architecture, "sm_120". INVALID_ARGUMENT, with the
// compiler's words, for text that it refuses; RESOURCE_EXHAUSTED; UNAVAILABLE without its parts.
// Threads: safe.
Status compile_by_nvrtc(const Nvrtc& compiler, std::string_view architecture, std::string_view text,
                        std::string* out);

}  // namespace tenon::cuda
#endif
