#include "hip_symbols.h"

#include <cstdlib>

#include "tenon/cpp/library.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"
#include "tenon/stream/device_files.h"

namespace tenon::rocm {
namespace {

constexpr std::string_view kControl = "kfd";

std::string_view text_or(const char* text, std::string_view otherwise) {
  return text == nullptr ? otherwise : std::string_view(text);
}

// "hipErrorNoDevice (100): no ROCm-capable device is detected"
std::string error_text(const Driver& d, hipError_t result) {
  return cat(text_or(d.error_name(result), "an unknown error"), " (", result,
             "): ", text_or(d.error_string(result), "the runtime says no more"));
}

std::string why_not_there() {
  const std::string control = stream::device_file(kControl);
  if (stream::exists(control))
    return cat(
        "AMD's kernel driver runs on this machine (", control,
        "), but HIP's library libamdhip64.so is not here: install ROCm's HIP runtime (Debian: "
        "libamdhip64-5), or add its folder to LD_LIBRARY_PATH (often /opt/rocm/lib)");
  return "there is no libamdhip64.so: ROCm is not installed, and this machine has no AMD GPU that "
         "its kernel driver knows";
}

// What the device files say about a runtime that does not start; empty: nothing.
std::string fault_of_device_files() {
  const std::string control = stream::device_file(kControl);
  if (!stream::exists(control))
    return cat(
        "HIP's library is here, but ", control,
        " is not: no GPU, its kernel module is not loaded (modprobe amdgpu), or the container "
        "was started without it (docker: --device=/dev/kfd --device=/dev/dri). ");
  if (stream::is_closed(control))
    return cat("this user may not open ", control,
               "; add the user to the groups render and video, and log in again. ");
  return "";
}

std::string why_not_initialised(const Driver& d, hipError_t result) {
  const std::string error = error_text(d, result);
  if (result == kNoDevice) {
    for (const char* name :
         {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
      if (const char* value = std::getenv(name))
        return cat(name, "=", quoted(value), " leaves no GPU; unset it. ", error);
    }
  }
  if (result == kInsufficientDriver)
    return cat("the kernel driver is older than HIP's library; update amdgpu. ", error);
  return cat(fault_of_device_files(), "the runtime cannot be initialised. ", error);
}

std::string look_up(void* library, Driver& d) {
#define TENON_HIP_REQUIRE(name, symbol, result, parameters) \
  if (!find_function(library, #symbol, &d.name))            \
    return cat("libamdhip64.so has no ", #symbol, ": ROCm is too old; 5.0 is the oldest");
#define TENON_HIP_LOOK_UP(name, symbol, result, parameters) \
  (void)find_function(library, #symbol, &d.name);
  TENON_HIP_FUNCTIONS(TENON_HIP_REQUIRE)
  TENON_HIP_POOL_FUNCTIONS(TENON_HIP_LOOK_UP)
  TENON_HIP_GRAPH_FUNCTIONS(TENON_HIP_LOOK_UP)
  TENON_HIP_CAPTURE_FUNCTIONS(TENON_HIP_LOOK_UP)
  TENON_HIP_UUID_FUNCTIONS(TENON_HIP_LOOK_UP)
#undef TENON_HIP_REQUIRE
#undef TENON_HIP_LOOK_UP
  // From ROCm 6 on, the plain name is that of the old record.
  for (const char* symbol : {"hipGetDevicePropertiesR0600", "hipGetDeviceProperties"}) {
    if (find_function(library, symbol, &d.properties)) return "";
  }
  return "libamdhip64.so has no hipGetDeviceProperties: it is not a HIP runtime";
}

std::string load(Driver* d) {
  const ProcessGuard guard;  // the runtime starts threads when it is initialised
  const OpenedLibrary library =
      open_library({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"});
  if (library.handle == nullptr) return library.missing ? why_not_there() : library.why;
  if (std::string why = look_up(library.handle, *d); !why.empty()) return why;
  const hipError_t result = d->init(0);
  if (result != kSuccess) return why_not_initialised(*d, result);
  if (const hipError_t asked = d->driver_version(&d->version); asked != kSuccess)
    return cat("the runtime does not say its version. ", error_text(*d, asked));
  return "";
}

// Errors after which every call of the process fails.
bool is_lost(hipError_t result) {
  switch (result) {
    case kEccUncorrectable:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kContextIsDestroyed:
    case kAssert:
    case kLaunchFailure:
    case kUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

const Driver* driver(std::string* why) {
  return loaded_once<Driver, load>(why);
}

Status check(const Driver& d, hipError_t result, std::string_view doing) {
  if (result == kSuccess) return {};
  if (result == kNoBinaryForGpu)
    return fail(TENON_UNAVAILABLE,
                cat("rocm: ", doing,
                    ": the code is for another GPU; compile for this one (--target "
                    "gfx...). ",
                    error_text(d, result)));
  return fail(result == kOutOfMemory ? TENON_RESOURCE_EXHAUSTED
              : is_lost(result)      ? TENON_DEVICE_LOST
                                     : TENON_INTERNAL,
              cat("rocm: ", doing, ": ", error_text(d, result)));
}

}  // namespace tenon::rocm
