#ifndef TENON_PLUGINS_SIM_EXECUTABLE_H_
#define TENON_PLUGINS_SIM_EXECUTABLE_H_

#include "tenon/abi/compile.h"

namespace tenon::sim {
extern const tenon_compile_api_t kCompileTable;
}
#endif
