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

// Null without the library, with a sentence that says what to install. Looks once. Threads: safe.
const Nvrtc* nvrtc(std::string* why);

// Compiles kernelgen's CUDA C++ to PTX for an architecture, "sm_120". INVALID_ARGUMENT, with the
// compiler's words, for text that it refuses; RESOURCE_EXHAUSTED; UNAVAILABLE without the library.
// Threads: safe.
Status compile_by_nvrtc(std::string_view architecture, std::string_view text, std::string* out);

}  // namespace tenon::cuda
#endif
