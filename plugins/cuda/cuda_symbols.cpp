#include "cuda_symbols.h"

#include <unistd.h>

#include <cstdlib>

#include "tenon/cpp/library.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"
#include "tenon/stream/device_files.h"

namespace tenon::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr std::string_view kControl = "nvidiactl";
constexpr int kOldest = 11000;  // PTX 7.0, the first with sm_80

std::string release(int version) {
  return cat(version / 1000, ".", version % 1000 / 10);
}

// "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"
std::string error_text(const Driver& d, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  if (d.error_name(result, &name) != kSuccess || name == nullptr) name = "an unknown error";
  if (d.error_string(result, &text) != kSuccess || text == nullptr)
    text = "the driver says no more";
  return cat(std::string_view(name), " (", result, "): ", std::string_view(text));
}

std::string why_not_there() {
  if (access("/proc/driver/nvidia/version", F_OK) == 0) {
    return cat("NVIDIA's driver runs on this machine, but its library ", kLibrary,
               " is not here. A container needs it mounted (docker: --gpus all, with "
               "NVIDIA_DRIVER_CAPABILITIES=compute,utility)");
  }
  return cat("there is no ", kLibrary,
             ": NVIDIA's driver is not installed, or this container was started without the GPU "
             "(docker: --gpus all)");
}

// WSL 2 and Jetson reach the GPU through device files of other names.
bool has_other_device_files() {
  return stream::exists(stream::device_file("dxg")) || stream::exists(stream::device_file("nvmap"));
}

// What the device files say about a driver that does not start; empty: nothing.
std::string fault_of_device_files() {
  if (has_other_device_files()) return "";
  const std::string control = stream::device_file(kControl);
  if (!stream::exists(control))
    return cat("the driver's library is here, but the device files are not (", control,
               "): no GPU, its kernel module is not loaded (modprobe nvidia), or the container was "
               "started without it. ");
  if (stream::is_closed(control))
    return cat("this user may not open ", control,
               "; add the user to the group that owns it (often video). ");
  return "";
}

std::string why_not_initialised(const Driver& d, CUresult result) {
  const std::string error = error_text(d, result);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (result == kNoDevice && visible != nullptr)
    return cat("CUDA_VISIBLE_DEVICES=", quoted(visible), " leaves no GPU; unset it. ", error);
  if (result == kSystemNotReady)
    return cat(
        "the links between the GPUs of this system are not set up; start nvidia-fabricmanager "
        "(systemctl start nvidia-fabricmanager). ",
        error);
  if (result == kSystemDriverMismatch)
    return cat(
        "the driver's library and its kernel module are of different versions; restart the "
        "machine after the update. ",
        error);
  if (const std::string files = fault_of_device_files(); !files.empty()) return files + error;
  if (result == kOperatingSystem)
    return cat(
        "the operating system refuses what the driver asks of it; a container that has lost its "
        "devices must be started again. ",
        error);
  return cat("the driver cannot be initialised. ", error);
}

std::string look_up(void* library, Driver& d) {
#define TENON_CUDA_REQUIRE(name, symbol, parameters) \
  if (!find_function(library, #symbol, &d.name))     \
    return cat(kLibrary, " has no ", #symbol, ": the driver is too old; CUDA 11 is the oldest");
#define TENON_CUDA_LOOK_UP(name, symbol, parameters) (void)find_function(library, #symbol, &d.name);
  TENON_CUDA_FUNCTIONS(TENON_CUDA_REQUIRE)
  TENON_CUDA_POOL_FUNCTIONS(TENON_CUDA_LOOK_UP)
  TENON_CUDA_GRAPH_FUNCTIONS(TENON_CUDA_LOOK_UP)
  TENON_CUDA_UUID_FUNCTIONS(TENON_CUDA_LOOK_UP)
#undef TENON_CUDA_REQUIRE
#undef TENON_CUDA_LOOK_UP
  return "";
}

std::string load(Driver* d) {
  const ProcessGuard guard;  // the driver starts threads when it is initialised
  const OpenedLibrary library = open_library({kLibrary});
  if (library.handle == nullptr) return library.missing ? why_not_there() : library.why;
  if (std::string why = look_up(library.handle, *d); !why.empty()) return why;
  const CUresult result = d->init(0);
  if (result != kSuccess) return why_not_initialised(*d, result);
  if (d->driver_version(&d->version) == kSuccess && d->version >= kOldest) return "";
  return cat("the driver is for CUDA ", release(d->version), ", and ", release(kOldest),
             " is the oldest that works; update it");
}

// Errors after which every call of the context fails. 711 to 713 are about peers and pinned memory.
bool is_lost(CUresult result) {
  switch (result) {
    case kEccUncorrectable:
    case kNvlinkUncorrectable:
    case kContained:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kContextIsDestroyed:
    case kAssert:
    case kUnknown:
      return true;
    default:
      return result >= kHardwareStackError && result <= kLaunchFailed;
  }
}

}  // namespace

const Driver* driver(std::string* why) {
  return loaded_once<Driver, load>(why);
}

Status check(const Driver& d, CUresult result, std::string_view doing) {
  if (result == kSuccess) return {};
  if (result == kLaunchTimeout)
    return fail(
        TENON_DEVICE_LOST,
        cat("cuda: ", doing,
            ": a kernel ran longer than the driver allows on a GPU that also has a display; "
            "use a GPU without one, or smaller batches. ",
            error_text(d, result)));
  return fail(result == kOutOfMemory ? TENON_RESOURCE_EXHAUSTED
              : is_lost(result)      ? TENON_DEVICE_LOST
                                     : TENON_INTERNAL,
              cat("cuda: ", doing, ": ", error_text(d, result)));
}

}  // namespace tenon::cuda
