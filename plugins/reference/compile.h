// tenon.compile/1 of the reference device.
#ifndef TENON_PLUGINS_REFERENCE_COMPILE_H_
#define TENON_PLUGINS_REFERENCE_COMPILE_H_

#include <tenon/abi/compile.h>

#include <string_view>

namespace tenon::reference {

extern const tenon_compile_api_t kCompileApi;
// The target that device.cpp reports and that artifacts are made for.
inline constexpr std::string_view kTarget = "reference";

}  // namespace tenon::reference

#endif
