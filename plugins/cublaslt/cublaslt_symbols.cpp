#include "cublaslt_symbols.h"

#include <tenon/cpp/library.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/process_guard.hpp>

namespace tenon::cublaslt {
namespace {

std::string version_text(int version) {
  return cat(version / 1000, ".", version % 1000 / 10);
}

std::string load_driver(Library* out, int* version) {
  const OpenedLibrary driver = open_library({"libcuda.so.1"});
  if (driver.handle == nullptr)
    return driver.missing ? "there is no libcuda.so.1: NVIDIA's driver is not installed"
                          : driver.why;
#define TENON_CUBLASLT_DRIVER_REQUIRE(name, symbol, parameters) \
  if (!find_function(driver.handle, #symbol, &out->name))       \
    return "libcuda.so.1 has no " #symbol ": the driver is too old";
  TENON_CUBLASLT_DRIVER_FUNCTIONS(TENON_CUBLASLT_DRIVER_REQUIRE)
#undef TENON_CUBLASLT_DRIVER_REQUIRE
  const int result = out->driver_version(version);
  return result == 0 ? "" : cat("the driver does not say its version: error ", result);
}

// A driver runs libraries of its own release of CUDA and of older ones, whatever their minor
// numbers. A newer one would be opened for nothing, and stay in the process next to the one that
// works.
OpenedLibrary open_for(int driver_version, std::string* names) {
  if (driver_version >= 13000) {
    *names = "libcublasLt.so.13, 12 or 11";
    return open_library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"});
  }
  if (driver_version >= 12000) {
    *names = "libcublasLt.so.12 or 11";
    return open_library({"libcublasLt.so.12", "libcublasLt.so.11"});
  }
  *names = "libcublasLt.so.11";
  return open_library({"libcublasLt.so.11"});
}

std::string load(Library* out) {
  const ProcessGuard guard;  // libraries of CUDA start threads when they are opened
  int driver_version = 0;
  if (std::string why = load_driver(out, &driver_version); !why.empty()) return why;
  std::string names;
  const OpenedLibrary opened = open_for(driver_version, &names);
  if (opened.handle == nullptr)
    return opened.missing
               ? cat("cuBLASLt is not there: install CUDA's ", names, ", which the driver (CUDA ",
                     version_text(driver_version),
                     ") runs, or add its folder to LD_LIBRARY_PATH (pip's nvidia-cublas has it in "
                     "site-packages/nvidia)")
               : opened.why;
#define TENON_CUBLASLT_REQUIRE(name, symbol, parameters)  \
  if (!find_function(opened.handle, #symbol, &out->name)) \
    return "libcublasLt has no " #symbol ": CUDA 11 is the oldest that works";
  TENON_CUBLASLT_FUNCTIONS(TENON_CUBLASLT_REQUIRE)
#undef TENON_CUBLASLT_REQUIRE
#define TENON_CUBLASLT_TEXT_OF(symbol) #symbol
#define TENON_CUBLASLT_TEXT(symbol) TENON_CUBLASLT_TEXT_OF(symbol)
  VersionFunction version_of = nullptr;
  if (!find_function(opened.handle, TENON_CUBLASLT_TEXT(TENON_CUBLASLT_VERSION_FUNCTION),
                     &version_of))
    return "libcublasLt does not say its version: CUDA 11 is the oldest that works";
#undef TENON_CUBLASLT_TEXT
#undef TENON_CUBLASLT_TEXT_OF
  const int version = static_cast<int>(version_of());
  if (version / 1000 > driver_version / 1000)
    return cat("libcublasLt is of CUDA ", version_text(version), ", and the driver runs CUDA ",
               version_text(driver_version), ": update the driver, or install ", names);
  return "";
}

std::string_view name_of(Result result) {
  switch (result) {
    case kNotInitialised:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kArchMismatch:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case kMappingError:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kInternalError:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "an unknown error";
  }
}

}  // namespace

const Library* library(std::string* why) {
  return loaded_once<Library, load>(why);
}

Status check(Result result, std::string_view doing) {
  if (result == kSuccess) return {};
  return fail(result == kAllocFailed ? TENON_RESOURCE_EXHAUSTED : TENON_INTERNAL,
              cat("cublaslt: ", doing, ": ", name_of(result), " (", result, ")"));
}

// The device's own plugin names the driver's errors, and meets those that last by itself.
Status check_driver(CUresult result, std::string_view doing) {
  constexpr CUresult kOutOfMemory = 2;
  if (result == 0) return {};
  return fail(result == kOutOfMemory ? TENON_RESOURCE_EXHAUSTED : TENON_INTERNAL,
              cat("cublaslt: ", doing, ": error ", result, " of CUDA's driver"));
}

}  // namespace tenon::cublaslt
