// Compiles one unit of text with clang in this process. The contract is in compiler.h.
#ifndef TENON_PLUGINS_CPU_COMPILER_CLANG_BUILD_H_
#define TENON_PLUGINS_CPU_COMPILER_CLANG_BUILD_H_

#include <string>
#include <string_view>

#include "compiler.h"

namespace tenon::cpu::compiler {

// Registers the targets once. Every entry of the library calls it first.
void initialize_targets();

int32_t build_text(std::string_view text, const tenon_clang_options_t& options, std::string& output,
                   std::string& diagnostics);

// Put before an OpenCL C unit: work-item functions and the builtins that this compiler provides.
extern const std::string_view kOpenclPrelude;
// The same before a unit of C++ for work items: what NAME__run calls.
extern const std::string_view kItemsPrelude;

// clang's opencl-c-base.h (types and constants of the language), embedded at build time.
extern const std::string_view kOpenclBaseHeader;

}  // namespace tenon::cpu::compiler
#endif
