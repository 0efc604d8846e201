// tenon.compile/1 of the reference device.
#ifndef TENON_PLUGINS_REFERENCE_COMPILE_H_
#define TENON_PLUGINS_REFERENCE_COMPILE_H_

#include <tenon/abi/compile.h>

namespace tenon::reference {

extern const tenon_compile_api_t kCompileApi;

}  // namespace tenon::reference

#endif
