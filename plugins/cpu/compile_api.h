// tenon.compile/1 of the cpu.
#ifndef TENON_PLUGINS_CPU_COMPILE_API_H_
#define TENON_PLUGINS_CPU_COMPILE_API_H_

#include "tenon/abi/compile.h"

namespace tenon::cpu {
extern const tenon_compile_api_t kCompileTable;
}
#endif
