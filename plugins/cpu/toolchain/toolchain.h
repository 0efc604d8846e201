// tenon.toolchain/1 of the cpu: clang for "c++", "opencl-c", "items-c++", "cuda-c++" and "hip-c++".
#ifndef TENON_PLUGINS_CPU_TOOLCHAIN_TOOLCHAIN_H_
#define TENON_PLUGINS_CPU_TOOLCHAIN_TOOLCHAIN_H_

#include "tenon/abi/toolchain.h"

namespace tenon::cpu {
extern const tenon_toolchain_api_t kToolchainTable;
}
#endif
