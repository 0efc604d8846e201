#include "ze_symbols.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tenon/cpp/library.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"
#include "tenon/stream/device_files.h"

namespace tenon::intel {
namespace {

constexpr const char* kLibrary = "libze_loader.so.1";

std::string error_text(ze_result_t result) {
  struct Named {
    ze_result_t result;
    const char* name;
  };
  static constexpr Named kNames[] = {
      {ZE_RESULT_NOT_READY, "not ready"},
      {ZE_RESULT_ERROR_DEVICE_LOST, "device lost"},
      {ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"},
      {ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory"},
      {ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, "module build failure"},
      {ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS, "insufficient permissions"},
      {ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE, "dependency unavailable"},
      {ZE_RESULT_ERROR_UNINITIALIZED, "uninitialised"},
      {ZE_RESULT_ERROR_UNSUPPORTED_VERSION, "unsupported version"},
      {ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "unsupported feature"},
      {ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "unsupported size"},
      {ZE_RESULT_ERROR_INVALID_ARGUMENT, "invalid argument"},
      {ZE_RESULT_ERROR_INVALID_NATIVE_BINARY, "invalid native binary"},
      {ZE_RESULT_ERROR_INVALID_KERNEL_NAME, "invalid kernel name"},
      {ZE_RESULT_ERROR_UNKNOWN, "unknown error"}};
  for (const Named& n : kNames) {
    if (n.result == result)
      return cat("Level Zero: ", n.name, " (", static_cast<uint32_t>(result), ")");
  }
  return cat("Level Zero: error ", static_cast<uint32_t>(result));
}

std::string why_not_there() {
  constexpr const char* kDebian = "(Debian: libze1, and Intel's compute runtime)";
  return access("/sys/module/i915", F_OK) == 0 || access("/sys/module/xe", F_OK) == 0
             ? cat("Intel's kernel driver runs on this machine, but the loader ", kLibrary,
                   " is not here: install it ", kDebian)
             : cat("there is no ", kLibrary, ": Level Zero is not installed ", kDebian,
                   ", and this machine has no GPU that Intel's kernel driver knows");
}

// The device files of GPUs, of which there is one for each.
std::vector<std::string> render_files() {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(stream::device_file("dri"), none)) {
    if (entry.path().filename().string().starts_with("renderD")) out.push_back(entry.path());
  }
  return out;
}

std::string why_not_initialised(ze_result_t result) {
  const std::string error = error_text(result);
  const std::vector<std::string> files = render_files();
  if (files.empty())
    return cat("Level Zero's loader is here, but no GPU under ", stream::device_file("dri"),
               " (renderD*): its kernel "
               "module is not loaded (modprobe i915), or the container was started without it "
               "(docker: --device=/dev/dri). ",
               error);
  if (std::all_of(files.begin(), files.end(), stream::is_closed))
    return cat("this user may not open ", files[0],
               "; add the user to the group render, and log in "
               "again. ",
               error);
  if (const char* mask = std::getenv("ZE_AFFINITY_MASK"))
    return cat("ZE_AFFINITY_MASK=", quoted(mask), " may leave no GPU; unset it. ", error);
  return cat(
      "no driver behind Level Zero's loader starts; install Intel's compute runtime "
      "(libze-intel-gpu1). ",
      error);
}

// Drivers take their time where there is no GPU, and some crash. So nothing is opened unless there
// is a device file of a GPU (also that of WSL), or a driver that the user names.
bool may_have_gpu() {
  return stream::exists(stream::device_file("dri")) || stream::exists(stream::device_file("dxg")) ||
         std::getenv("ZE_ENABLE_ALT_DRIVERS") != nullptr;
}

std::string load(Driver* d) {
  const ProcessGuard guard;  // drivers start threads when they are initialised
  if (!may_have_gpu())
    return cat("there is no ", stream::device_file("dri"),
               ": this machine has no GPU whose kernel module is loaded, or the container was "
               "started without it (docker: --device=/dev/dri)");
  const OpenedLibrary library = open_library({kLibrary});
  if (library.handle == nullptr) return library.missing ? why_not_there() : library.why;
#define TENON_ZE_REQUIRE(function)                             \
  if (!find_function(library.handle, #function, &d->function)) \
    return cat(kLibrary, " has no " #function ": the loader is too old; 1.2 is the oldest");
  TENON_ZE_FUNCTIONS(TENON_ZE_REQUIRE)
#undef TENON_ZE_REQUIRE
  const ze_result_t result = d->zeInit(ZE_INIT_FLAG_GPU_ONLY);
  return result == ZE_RESULT_SUCCESS ? "" : why_not_initialised(result);
}

}  // namespace

const Driver* driver(std::string* why) {
  return loaded_once<Driver, load>(why);
}

Status check(ze_result_t result, std::string_view doing) {
  if (result == ZE_RESULT_SUCCESS) return {};
  const bool memory = result == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY ||
                      result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY ||
                      result == ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  return fail(memory                                  ? TENON_RESOURCE_EXHAUSTED
              : result == ZE_RESULT_ERROR_DEVICE_LOST ? TENON_DEVICE_LOST
                                                      : TENON_INTERNAL,
              cat("intel: ", doing, ": ", error_text(result)));
}

}  // namespace tenon::intel
