// Intel's offline compiler, libocloc, opened at run time.
#ifndef TENON_PLUGINS_INTEL_OCLOC_H_
#define TENON_PLUGINS_INTEL_OCLOC_H_

#include <string>
#include <string_view>

#include "tenon/cpp/status.hpp"

namespace tenon::intel {

// Compiles OpenCL C into a native binary for an architecture. UNAVAILABLE without the compiler,
// with what to install; INVALID_ARGUMENT, with its words, for text that it refuses. Threads: safe.
Status compile_native(std::string_view architecture, std::string_view text, std::string* out);

// Where the compiler was found and how long it is, for keys of what it made; empty without one.
std::string_view compiler_identity();

}  // namespace tenon::intel
#endif
