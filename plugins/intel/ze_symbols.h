// The functions of Level Zero's loader that this plugin calls, looked up at run time. The types are
// those of its headers (Debian: libze-dev), so the plugin needs them to build, and nothing to load.
#ifndef TENON_PLUGINS_INTEL_ZE_SYMBOLS_H_
#define TENON_PLUGINS_INTEL_ZE_SYMBOLS_H_

#include <level_zero/ze_api.h>

#include <string>

#include "tenon/cpp/status.hpp"

namespace tenon::intel {

// X(function)
#define TENON_ZE_FUNCTIONS(X)                \
  X(zeInit)                                  \
  X(zeDriverGet)                             \
  X(zeDeviceGet)                             \
  X(zeDeviceGetProperties)                   \
  X(zeDeviceGetMemoryProperties)             \
  X(zeDeviceGetComputeProperties)            \
  X(zeDeviceCanAccessPeer)                   \
  X(zeContextCreate)                         \
  X(zeContextDestroy)                        \
  X(zeCommandListCreateImmediate)            \
  X(zeCommandListDestroy)                    \
  X(zeCommandListAppendBarrier)              \
  X(zeCommandListAppendSignalEvent)          \
  X(zeCommandListAppendWaitOnEvents)         \
  X(zeCommandListAppendMemoryCopy)           \
  X(zeCommandListAppendMemoryFill)           \
  X(zeCommandListAppendLaunchKernel)         \
  X(zeCommandListAppendWriteGlobalTimestamp) \
  X(zeEventPoolCreate)                       \
  X(zeEventPoolDestroy)                      \
  X(zeEventCreate)                           \
  X(zeEventDestroy)                          \
  X(zeEventHostReset)                        \
  X(zeEventHostSynchronize)                  \
  X(zeMemAllocDevice)                        \
  X(zeMemAllocHost)                          \
  X(zeMemFree)                               \
  X(zeMemGetAllocProperties)                 \
  X(zeMemGetAddressRange)                    \
  X(zeModuleCreate)                          \
  X(zeModuleDestroy)                         \
  X(zeModuleBuildLogGetString)               \
  X(zeModuleBuildLogDestroy)                 \
  X(zeKernelCreate)                          \
  X(zeKernelDestroy)                         \
  X(zeKernelGetProperties)                   \
  X(zeKernelSetGroupSize)                    \
  X(zeKernelSetArgumentValue)

struct Driver {
#define TENON_ZE_SLOT(function) decltype(&::function) function = nullptr;
  TENON_ZE_FUNCTIONS(TENON_ZE_SLOT)
#undef TENON_ZE_SLOT
};

// The initialised loader. Null, with a sentence that says why and what to do, if this machine has
// no driver for it. Looks once. Threads: safe.
const Driver* driver(std::string* why);

// OK, or a failure that says what was tried and Level Zero's name for the error.
Status check(ze_result_t result, std::string_view doing);

}  // namespace tenon::intel
#endif
