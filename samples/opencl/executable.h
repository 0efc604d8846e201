#ifndef OPENCL_SAMPLE_EXECUTABLE_H_
#define OPENCL_SAMPLE_EXECUTABLE_H_

#include "tenon/abi/compile.h"

namespace opencl_sample {
extern const tenon_compile_api_t kCompileTable;
}
#endif
