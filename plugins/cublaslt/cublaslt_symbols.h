// The functions of cuBLASLt and of CUDA's driver, looked up at run time. So the plugin builds
// without CUDA, and says why it has no kernels on machines without it.
#ifndef TENON_PLUGINS_CUBLASLT_SYMBOLS_H_
#define TENON_PLUGINS_CUBLASLT_SYMBOLS_H_

#include <string>
#include <tenon/cpp/status.hpp>

#include "declarations.h"

namespace tenon::cublaslt {

struct Library {
#define TENON_CUBLASLT_SLOT(name, symbol, parameters) int(*name) parameters = nullptr;
  TENON_CUBLASLT_FUNCTIONS(TENON_CUBLASLT_SLOT)
  TENON_CUBLASLT_DRIVER_FUNCTIONS(TENON_CUBLASLT_SLOT)
#undef TENON_CUBLASLT_SLOT
};

// Opens the libraries on first use. Null if they cannot be used: *why says why not. Threads: safe.
const Library* library(std::string* why);

// OK, or a failure that says what was tried and the library's name for the error.
Status check(Result result, std::string_view doing);
Status check_driver(CUresult result, std::string_view doing);

}  // namespace tenon::cublaslt

#endif
