// The functions of CUDA's driver API that this plugin calls, with declarations of our own, looked
// up at run time in the driver's library. So the plugin builds without CUDA, and loads and explains
// itself on machines without a GPU.
#ifndef TENON_PLUGINS_CUDA_SYMBOLS_H_
#define TENON_PLUGINS_CUDA_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tenon/cpp/status.hpp"
#include "tenon/stream/driver_pool.h"

namespace tenon::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;

enum : CUresult {
  kSuccess = 0,
  kOutOfMemory = 2,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kEccUncorrectable = 214,
  kNvlinkUncorrectable = 220,
  kUnsupportedPtxVersion = 222,
  kContained = 226,
  kOperatingSystem = 304,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kPeerAccessUnsupported = 217,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessTooMany = 711,
  kHardwareStackError = 714,
  kLaunchFailed = 719,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kUnknown = 999,
};
enum : int {
  kAttributeMaxThreads = 1,
  kAttributeMaxShared = 8,
  kAttributeComputeMode = 20,
  kAttributeMajor = 75,
  kAttributeMinor = 76,
  kAttributeMemoryPools = 115,
};
constexpr int kComputeModeProhibited = 2;
enum : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDeviceOrdinal = 9,
  kPointerRangeStart = 11,
  kPointerRangeSize = 12,
  kPointerPool = 17,
};
constexpr unsigned kMemoryTypeDevice = 2;
enum : int { kJitErrorLog = 5, kJitErrorLogBytes = 6 };

// X(name here, symbol, parameters)
#define TENON_CUDA_FUNCTIONS(X)                                                                  \
  X(init, cuInit, (unsigned))                                                                    \
  X(driver_version, cuDriverGetVersion, (int*))                                                  \
  X(error_name, cuGetErrorName, (CUresult, const char**))                                        \
  X(error_string, cuGetErrorString, (CUresult, const char**))                                    \
  X(device_count, cuDeviceGetCount, (int*))                                                      \
  X(device_get, cuDeviceGet, (CUdevice*, int))                                                   \
  X(device_name, cuDeviceGetName, (char*, int, CUdevice))                                        \
  X(device_memory, cuDeviceTotalMem_v2, (size_t*, CUdevice))                                     \
  X(device_attribute, cuDeviceGetAttribute, (int*, int, CUdevice))                               \
  X(context_retain, cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                            \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (CUdevice))                                   \
  X(context_push, cuCtxPushCurrent_v2, (CUcontext))                                              \
  X(context_pop, cuCtxPopCurrent_v2, (CUcontext*))                                               \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (int*))                                     \
  X(capture_state, cuStreamIsCapturing, (CUstream, int*))                                        \
  X(stream_create, cuStreamCreate, (CUstream*, unsigned))                                        \
  X(stream_destroy, cuStreamDestroy_v2, (CUstream))                                              \
  X(stream_synchronize, cuStreamSynchronize, (CUstream))                                         \
  X(stream_context, cuStreamGetCtx, (CUstream, CUcontext*))                                      \
  X(stream_wait, cuStreamWaitEvent, (CUstream, CUevent, unsigned))                               \
  X(event_create, cuEventCreate, (CUevent*, unsigned))                                           \
  X(event_destroy, cuEventDestroy_v2, (CUevent))                                                 \
  X(event_record, cuEventRecord, (CUevent, CUstream))                                            \
  X(event_synchronize, cuEventSynchronize, (CUevent))                                            \
  X(event_query, cuEventQuery, (CUevent))                                                        \
  X(event_elapsed, cuEventElapsedTime, (float*, CUevent, CUevent))                               \
  X(mem_alloc, cuMemAlloc_v2, (CUdeviceptr*, size_t))                                            \
  X(mem_free, cuMemFree_v2, (CUdeviceptr))                                                       \
  X(host_alloc, cuMemHostAlloc, (void**, size_t, unsigned))                                      \
  X(host_free, cuMemFreeHost, (void*))                                                           \
  X(copy_in, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void*, size_t, CUstream))                 \
  X(copy_out, cuMemcpyDtoHAsync_v2, (void*, CUdeviceptr, size_t, CUstream))                      \
  X(copy_within, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))             \
  X(can_access_peer, cuDeviceCanAccessPeer, (int*, CUdevice, CUdevice))                          \
  X(enable_peer, cuCtxEnablePeerAccess, (CUcontext, unsigned))                                   \
  X(copy_peer, cuMemcpyPeerAsync,                                                                \
    (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))                          \
  X(fill_8, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                     \
  X(fill_16, cuMemsetD16Async, (CUdeviceptr, unsigned short, size_t, CUstream))                  \
  X(fill_32, cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream))                        \
  X(pointer_attribute, cuPointerGetAttribute, (void*, int, CUdeviceptr))                         \
  X(module_load, cuModuleLoadDataEx, (CUmodule*, const void*, unsigned, int*, void**))           \
  X(module_unload, cuModuleUnload, (CUmodule))                                                   \
  X(module_function, cuModuleGetFunction, (CUfunction*, CUmodule, const char*))                  \
  X(launch, cuLaunchKernel,                                                                      \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
     void**, void**))

// From CUDA 11.2 on; null before.
#define TENON_CUDA_POOL_FUNCTIONS(X)                                                     \
  X(pool_create, cuMemPoolCreate, (CUmemoryPool*, const stream::PoolProperties*))        \
  X(pool_destroy, cuMemPoolDestroy, (CUmemoryPool))                                      \
  X(pool_set, cuMemPoolSetAttribute, (CUmemoryPool, int, void*))                         \
  X(pool_trim, cuMemPoolTrimTo, (CUmemoryPool, size_t))                                  \
  X(pool_access, cuMemPoolSetAccess, (CUmemoryPool, const stream::PoolAccess*, size_t))  \
  X(pool_alloc, cuMemAllocFromPoolAsync, (CUdeviceptr*, size_t, CUmemoryPool, CUstream)) \
  X(pool_free, cuMemFreeAsync, (CUdeviceptr, CUstream))

// From CUDA 11.4 on; null before.
#define TENON_CUDA_GRAPH_FUNCTIONS(X)                                                     \
  X(capture_begin, cuStreamBeginCapture_v2, (CUstream, int))                              \
  X(capture_end, cuStreamEndCapture, (CUstream, CUgraph*))                                \
  X(graph_make, cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long)) \
  X(graph_launch, cuGraphLaunch, (CUgraphExec, CUstream))                                 \
  X(graph_destroy, cuGraphDestroy, (CUgraph))                                             \
  X(graph_exec_destroy, cuGraphExecDestroy, (CUgraphExec))

struct Uuid {
  unsigned char bytes[16];
};
// The first of them that is there: from CUDA 11.4 on, parts of a divided GPU have names of their
// own.
#define TENON_CUDA_UUID_FUNCTIONS(X)                            \
  X(device_uuid_of_part, cuDeviceGetUuid_v2, (Uuid*, CUdevice)) \
  X(device_uuid, cuDeviceGetUuid, (Uuid*, CUdevice))

struct Driver {
  using Result = CUresult;
  using Stream = CUstream;
  using Event = CUevent;
  using Module = CUmodule;
  using Function = CUfunction;
  using Pointer = CUdeviceptr;
  using Word = unsigned;
  using Pool = CUmemoryPool;
  using Graph = CUgraph;
  using GraphExec = CUgraphExec;

#define TENON_CUDA_SLOT(name, symbol, parameters) CUresult(*name) parameters = nullptr;
  TENON_CUDA_FUNCTIONS(TENON_CUDA_SLOT)
  TENON_CUDA_POOL_FUNCTIONS(TENON_CUDA_SLOT)
  TENON_CUDA_GRAPH_FUNCTIONS(TENON_CUDA_SLOT)
  TENON_CUDA_UUID_FUNCTIONS(TENON_CUDA_SLOT)
#undef TENON_CUDA_SLOT
  int version = 0;  // 12020 is CUDA 12.2
  bool has_pools() const {
    return pool_create && pool_destroy && pool_set && pool_trim && pool_access && pool_alloc &&
           pool_free;
  }
  bool has_graphs() const {
    return capture_begin && capture_end && graph_make && graph_launch && graph_destroy &&
           graph_exec_destroy;
  }
  Result instantiate(GraphExec* out, Graph graph) const { return graph_make(out, graph, 0); }
};

// The initialised driver. Null, with a sentence that says why and what to do, if this machine has
// none that works. Looks once. Threads: safe.
const Driver* driver(std::string* why);

// OK, or a failure that says what was tried and the driver's name for the error: RESOURCE_EXHAUSTED
// for memory, DEVICE_LOST for errors after which a context returns no results, else INTERNAL.
Status check(const Driver& driver, CUresult result, std::string_view doing);

}  // namespace tenon::cuda
#endif
