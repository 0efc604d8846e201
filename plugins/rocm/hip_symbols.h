// The functions of HIP's runtime that this plugin calls, with declarations of our own, looked up at
// run time. So the plugin builds without ROCm, and loads and explains itself on machines without a
// GPU.
#ifndef TENON_PLUGINS_ROCM_HIP_SYMBOLS_H_
#define TENON_PLUGINS_ROCM_HIP_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tenon/cpp/status.hpp"
#include "tenon/stream/driver_pool.h"

namespace tenon::rocm {

using hipError_t = int;
using hipDevice_t = int;
using hipDeviceptr_t = void*;
using hipStream_t = struct ihipStream_t*;
using hipEvent_t = struct ihipEvent_t*;
using hipModule_t = struct ihipModule_t*;
using hipFunction_t = struct ihipModuleSymbol_t*;
using hipMemPool_t = struct ihipMemPoolHandle_t*;
using hipGraph_t = struct ihipGraph*;
using hipGraphExec_t = struct hipGraphExec*;

enum : hipError_t {
  kSuccess = 0,
  kOutOfMemory = 2,
  kInsufficientDriver = 35,
  kNoDevice = 100,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kPeerAccessUnsupported = 217,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kPeerAccessAlreadyEnabled = 704,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kLaunchFailure = 719,
  kUnknown = 999,
};
// The same numbers in the headers of ROCm 5.2 and 6 (hip_runtime_api.h), where they count the lines
// of an enum from 0 on.
constexpr int kPointerDeviceOrdinal = 9;
constexpr int kAttributeMaxThreads = 56, kAttributeMaxShared = 74, kAttributeMemoryPools = 88;

// X(name here, symbol, result, parameters)
#define TENON_HIP_FUNCTIONS(X)                                                                     \
  X(init, hipInit, hipError_t, (unsigned))                                                         \
  X(driver_version, hipDriverGetVersion, hipError_t, (int*))                                       \
  X(error_name, hipGetErrorName, const char*, (hipError_t))                                        \
  X(error_string, hipGetErrorString, const char*, (hipError_t))                                    \
  X(device_count, hipGetDeviceCount, hipError_t, (int*))                                           \
  X(device_name, hipDeviceGetName, hipError_t, (char*, int, hipDevice_t))                          \
  X(device_memory, hipDeviceTotalMem, hipError_t, (size_t*, hipDevice_t))                          \
  X(device_attribute, hipDeviceGetAttribute, hipError_t, (int*, int, hipDevice_t))                 \
  X(device_current, hipGetDevice, hipError_t, (int*))                                              \
  X(device_make_current, hipSetDevice, hipError_t, (int))                                          \
  X(stream_create, hipStreamCreateWithFlags, hipError_t, (hipStream_t*, unsigned))                 \
  X(stream_destroy, hipStreamDestroy, hipError_t, (hipStream_t))                                   \
  X(stream_synchronize, hipStreamSynchronize, hipError_t, (hipStream_t))                           \
  X(stream_wait, hipStreamWaitEvent, hipError_t, (hipStream_t, hipEvent_t, unsigned))              \
  X(event_create, hipEventCreateWithFlags, hipError_t, (hipEvent_t*, unsigned))                    \
  X(event_destroy, hipEventDestroy, hipError_t, (hipEvent_t))                                      \
  X(event_record, hipEventRecord, hipError_t, (hipEvent_t, hipStream_t))                           \
  X(event_synchronize, hipEventSynchronize, hipError_t, (hipEvent_t))                              \
  X(event_query, hipEventQuery, hipError_t, (hipEvent_t))                                          \
  X(event_elapsed, hipEventElapsedTime, hipError_t, (float*, hipEvent_t, hipEvent_t))              \
  X(mem_alloc, hipMalloc, hipError_t, (void**, size_t))                                            \
  X(mem_free, hipFree, hipError_t, (void*))                                                        \
  X(host_alloc, hipHostMalloc, hipError_t, (void**, size_t, unsigned))                             \
  X(host_free, hipHostFree, hipError_t, (void*))                                                   \
  X(copy_in, hipMemcpyHtoDAsync, hipError_t, (hipDeviceptr_t, const void*, size_t, hipStream_t))   \
  X(copy_out, hipMemcpyDtoHAsync, hipError_t, (void*, hipDeviceptr_t, size_t, hipStream_t))        \
  X(copy_within, hipMemcpyDtoDAsync, hipError_t,                                                   \
    (hipDeviceptr_t, hipDeviceptr_t, size_t, hipStream_t))                                         \
  X(can_access_peer, hipDeviceCanAccessPeer, hipError_t, (int*, int, int))                         \
  X(enable_peer, hipDeviceEnablePeerAccess, hipError_t, (int, unsigned))                           \
  X(copy_peer, hipMemcpyPeerAsync, hipError_t,                                                     \
    (void*, int, const void*, int, size_t, hipStream_t))                                           \
  X(fill_8, hipMemsetD8Async, hipError_t, (hipDeviceptr_t, unsigned char, size_t, hipStream_t))    \
  X(fill_16, hipMemsetD16Async, hipError_t, (hipDeviceptr_t, unsigned short, size_t, hipStream_t)) \
  X(fill_32, hipMemsetD32Async, hipError_t, (hipDeviceptr_t, int, size_t, hipStream_t))            \
  X(pointer_attribute, hipPointerGetAttribute, hipError_t, (void*, int, hipDeviceptr_t))           \
  X(pointer_range, hipMemGetAddressRange, hipError_t, (hipDeviceptr_t*, size_t*, hipDeviceptr_t))  \
  X(module_load, hipModuleLoadData, hipError_t, (hipModule_t*, const void*))                       \
  X(module_unload, hipModuleUnload, hipError_t, (hipModule_t))                                     \
  X(module_function, hipModuleGetFunction, hipError_t, (hipFunction_t*, hipModule_t, const char*)) \
  X(launch, hipModuleLaunchKernel, hipError_t,                                                     \
    (hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,          \
     hipStream_t, void**, void**))

// From ROCm 5.2 on; null before.
#define TENON_HIP_POOL_FUNCTIONS(X)                                                              \
  X(pool_create, hipMemPoolCreate, hipError_t, (hipMemPool_t*, const stream::PoolProperties*))   \
  X(pool_destroy, hipMemPoolDestroy, hipError_t, (hipMemPool_t))                                 \
  X(pool_set, hipMemPoolSetAttribute, hipError_t, (hipMemPool_t, int, void*))                    \
  X(pool_trim, hipMemPoolTrimTo, hipError_t, (hipMemPool_t, size_t))                             \
  X(pool_access, hipMemPoolSetAccess, hipError_t,                                                \
    (hipMemPool_t, const stream::PoolAccess*, size_t))                                           \
  X(pool_alloc, hipMallocFromPoolAsync, hipError_t, (void**, size_t, hipMemPool_t, hipStream_t)) \
  X(pool_free, hipFreeAsync, hipError_t, (void*, hipStream_t))

// Of ROCm 5 and later, but nothing depends on them.
#define TENON_HIP_GRAPH_FUNCTIONS(X)                                               \
  X(capture_begin, hipStreamBeginCapture, hipError_t, (hipStream_t, int))          \
  X(capture_end, hipStreamEndCapture, hipError_t, (hipStream_t, hipGraph_t*))      \
  X(graph_make, hipGraphInstantiate, hipError_t,                                   \
    (hipGraphExec_t*, hipGraph_t, void** error_node, char* log, size_t log_bytes)) \
  X(graph_launch, hipGraphLaunch, hipError_t, (hipGraphExec_t, hipStream_t))       \
  X(graph_destroy, hipGraphDestroy, hipError_t, (hipGraph_t))                      \
  X(graph_exec_destroy, hipGraphExecDestroy, hipError_t, (hipGraphExec_t))

// Of ROCm 5 and later; null before.
#define TENON_HIP_CAPTURE_FUNCTIONS(X)                                    \
  X(capture_mode, hipThreadExchangeStreamCaptureMode, hipError_t, (int*)) \
  X(capture_state, hipStreamIsCapturing, hipError_t, (hipStream_t, int*))

// Of ROCm 5.2 and later, but nothing depends on it.
struct Uuid {
  unsigned char bytes[16];
};
#define TENON_HIP_UUID_FUNCTIONS(X) \
  X(device_uuid, hipDeviceGetUuid, hipError_t, (Uuid*, hipDevice_t))

struct Driver {
  using Result = hipError_t;
  using Stream = hipStream_t;
  using Event = hipEvent_t;
  using Module = hipModule_t;
  using Function = hipFunction_t;
  using Pointer = hipDeviceptr_t;
  using Word = int;
  using Pool = hipMemPool_t;
  using Graph = hipGraph_t;
  using GraphExec = hipGraphExec_t;

#define TENON_HIP_SLOT(name, symbol, result, parameters) result(*name) parameters = nullptr;
  TENON_HIP_FUNCTIONS(TENON_HIP_SLOT)
  TENON_HIP_POOL_FUNCTIONS(TENON_HIP_SLOT)
  TENON_HIP_GRAPH_FUNCTIONS(TENON_HIP_SLOT)
  TENON_HIP_CAPTURE_FUNCTIONS(TENON_HIP_SLOT)
  TENON_HIP_UUID_FUNCTIONS(TENON_HIP_SLOT)
#undef TENON_HIP_SLOT
  // hipGetDeviceProperties of the release; its record differs between releases.
  hipError_t (*properties)(void*, int) = nullptr;
  int version = 0;

  bool has_pools() const {
    return pool_create && pool_destroy && pool_set && pool_trim && pool_access && pool_alloc &&
           pool_free;
  }
  bool has_graphs() const {
    return capture_begin && capture_end && graph_make && graph_launch && graph_destroy &&
           graph_exec_destroy;
  }
  Result instantiate(GraphExec* out, Graph graph) const {
    return graph_make(out, graph, nullptr, nullptr, 0);
  }
};

// The initialised runtime. Null, with a sentence that says why and what to do, if this machine has
// none that works. Looks once. Threads: safe.
const Driver* driver(std::string* why);

// OK, or a failure that says what was tried and HIP's name for the error: RESOURCE_EXHAUSTED for
// memory, DEVICE_LOST for errors after which the process gets no more results, else INTERNAL.
Status check(const Driver& driver, hipError_t result, std::string_view doing);

}  // namespace tenon::rocm
#endif
