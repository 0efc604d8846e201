// How the cpu plugin calls its compiler: libtenon-clang.so in this process, opened on first use, or
// the separate program tenon-cc for text that may crash the compiler.
#ifndef TENON_PLUGINS_CPU_TOOLCHAIN_COMPILER_CLIENT_H_
#define TENON_PLUGINS_CPU_TOOLCHAIN_COMPILER_CLIENT_H_

#include <span>
#include <string>
#include <string_view>

#include "compiler/compiler.h"
#include "isa.h"
#include "tenon/abi/base.h"
#include "toolchain/gpu_target.h"

namespace tenon::cpu {

struct BuildRequest {
  uint32_t dialect = TENON_CLANG_CXX;
  uint32_t output = TENON_CLANG_OBJECT;
  uint32_t opt_level = 1;
  Isa isa = Isa::kBaseline;
  // Instead of isa, for a GPU: "sm_90" (gpu_target.h). Not isolated.
  const GpuArchitecture* gpu = nullptr;
  bool isolated = false;  // In tenon-cc. Costs a process and the opening of the library: 25 ms.
  std::string_view text;
};

struct BuildResult {
  tenon_code_t code = TENON_OK;
  std::string bytes;  // On OK only.
  std::string
      messages;  // The compiler's diagnostics, or one sentence for a failure of another kind.
};

// Compiles one unit. INVALID_ARGUMENT: the text does not compile. NOT_FOUND: the library or
// tenon-cc is not next to the plugin. ABORTED: the isolated compiler crashed on the text.
// DEADLINE_EXCEEDED: it took longer than a minute. Threads: safe.
BuildResult build_unit(const BuildRequest& request);

// Links objects into the bytes of a shared object. Threads: safe.
BuildResult link_units(std::span<const std::string> objects);

// Links an object of dialect HIP into a code object for AMD's GPUs. Threads: safe.
BuildResult link_code_object(const std::string& object);

// 1 once this process has opened the compiler library.
bool compiler_was_opened();

// The folder that holds libtenon-clang.so and tenon-cc: the parent of the plugin's own.
const std::string& library_folder();

}  // namespace tenon::cpu
#endif
