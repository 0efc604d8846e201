// A driver for Level Zero's own loader (ZE_ENABLE_ALT_DRIVERS), over the tests' CUDA driver: a
// command list is a stream there, an event is of our own, and text of the tests' offline compiler
// becomes PTX.
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "../cuda/driver.h"
#include "../cuda/text.h"
#include "../hip/cuda_functions.h"

using namespace fake_cuda;

#define EXPORT extern "C" __attribute__((visibility("default"))) ze_result_t

namespace {

constexpr uint32_t kPciDevice = 0x56a0;  // of dg2
constexpr const char* kMagic = "tests' native code for dg2\n";

struct ZeEvent {
  void set(bool to) {
    const std::lock_guard lock(mutex);
    signalled = to;
    changed.notify_all();
  }
  // False if a thread still waits for it: the specification leaves the outcome open.
  bool reset() {
    const std::lock_guard lock(mutex);
    if (waiters != 0) return false;
    signalled = false;
    return true;
  }
  void will_wait() {
    const std::lock_guard lock(mutex);
    ++waiters;
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return signalled; });
    --waiters;
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool signalled = false;
  uint32_t waiters = 0;
};
// Work that waits for an event keeps it.
using EventRef = std::shared_ptr<ZeEvent>;

struct ZeKernel {
  void* function = nullptr;
  uint32_t group = 1;
  std::vector<uint64_t> arguments;
};

int g_driver = 0;
std::atomic<uint64_t> g_allocations{0};  // of device memory
std::array<int, kMostDevices> g_devices;

int ordinal_of(ze_device_handle_t device) {
  return static_cast<int>(reinterpret_cast<int*>(device) - g_devices.data());
}
fake_cuda::Context* primary(int ordinal) {
  return &World::get().primary[static_cast<size_t>(ordinal)];
}

// Which context memory and command lists were made in: one does not work with another's.
class Owners {
 public:
  void add(const void* what, ze_context_handle_t context) {
    const std::lock_guard lock(mutex_);
    of_[what] = context;
  }
  void remove(const void* what) {
    const std::lock_guard lock(mutex_);
    of_.erase(what);
  }
  // Of what holds the address; null for what is of no context.
  ze_context_handle_t of(const void* what) {
    uint64_t begin = 0;
    const bool held = World::get().holder(reinterpret_cast<uint64_t>(what), &begin) != nullptr;
    const std::lock_guard lock(mutex_);
    const auto it = of_.find(held ? reinterpret_cast<const void*>(begin) : what);
    return it == of_.end() ? nullptr : it->second;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, ze_context_handle_t> of_;
};
Owners& owners() {
  static Owners instance;
  return instance;
}

ze_result_t result_of(int code) {
  switch (code) {
    case kSuccess:
      return ZE_RESULT_SUCCESS;
    case kOutOfMemory:
      return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    case kInvalidValue:
      return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    case kNotFound:
      return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
    case kIllegalAddress:
    case kLaunchFailed:
      return ZE_RESULT_ERROR_DEVICE_LOST;
    default:
      std::fprintf(stderr, "fake ze: CUDA error %d\n", code);
      return ZE_RESULT_ERROR_UNKNOWN;
  }
}

struct Current {
  explicit Current(int ordinal) { current().push_back(primary(ordinal)); }
  ~Current() { current().pop_back(); }
};
template <class F, class... Args>
ze_result_t on_device(int ordinal, F* function, Args... args) {
  const Current in(ordinal);
  return result_of(function(args...));
}

Stream* stream_of(ze_command_list_handle_t list) {
  return reinterpret_cast<Stream*>(list);
}
int ordinal_of(ze_command_list_handle_t list) {
  return stream_of(list)->context->device;
}

// One thread at a time may append to a list. Others get their chance to do it all the same.
class Append {
 public:
  explicit Append(ze_command_list_handle_t list) : list_(list) {
    {
      const std::lock_guard lock(mutex());
      alone_ = busy().insert(list).second;
    }
    if (!alone_) std::fprintf(stderr, "fake ze: two threads append to a command list\n");
    std::this_thread::yield();
  }
  ~Append() {
    const std::lock_guard lock(mutex());
    if (alone_) busy().erase(list_);
  }
  ze_result_t allowed(const char* name) const {
    if (!alone_) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return result_of(World::get().begin_call(name));
  }

 private:
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }
  static std::set<ze_command_list_handle_t>& busy() {
    static std::set<ze_command_list_handle_t> instance;
    return instance;
  }
  ze_command_list_handle_t list_;
  bool alone_ = false;
};
EventRef& event_of(ze_event_handle_t event) {
  return *reinterpret_cast<EventRef*>(event);
}
bool is_device_memory(const void* data) {
  uint64_t begin = 0;
  return World::get().holder(reinterpret_cast<uint64_t>(data), &begin) != nullptr;
}
unsigned long long address(const void* data) {
  return reinterpret_cast<unsigned long long>(data);
}
ze_result_t begin(const char* name) {
  return result_of(World::get().begin_call(name));
}

// ---- Drivers, devices, contexts ----

ze_result_t init(ze_init_flags_t) {
  const int code = cuInit(0);
  if (code == kNoDevice) return ZE_RESULT_ERROR_UNINITIALIZED;
  World::get().contexts = 1;
  return result_of(code);
}
template <class Handle>
ze_result_t one(uint32_t* count, Handle* out, void* handle) {
  if (*count == 0) {
    *count = 1;
  } else if (out != nullptr) {
    *count = 1;
    *out = static_cast<Handle>(handle);
  }
  return ZE_RESULT_SUCCESS;
}
ze_result_t driver_get(uint32_t* count, ze_driver_handle_t* out) {
  return one(count, out, &g_driver);
}
ze_result_t device_get(ze_driver_handle_t, uint32_t* count, ze_device_handle_t* out) {
  const auto devices = static_cast<uint32_t>(settings().devices);
  *count = *count == 0 ? devices : std::min(*count, devices);
  for (uint32_t i = 0; out != nullptr && i < *count; ++i)
    out[i] = reinterpret_cast<ze_device_handle_t>(&g_devices[i]);
  return ZE_RESULT_SUCCESS;
}
ze_result_t can_access(ze_device_handle_t device, ze_device_handle_t peer, ze_bool_t* out) {
  *out = device == peer || settings().peers != 0;
  return begin(__func__);
}
ze_result_t device_properties(ze_device_handle_t device, ze_device_properties_t* out) {
  out->type = ZE_DEVICE_TYPE_GPU;
  out->vendorId = 0x8086;
  const char* id = std::getenv("FAKE_ZE_PCI_DEVICE");
  out->deviceId = id == nullptr ? kPciDevice : static_cast<uint32_t>(std::strtoul(id, nullptr, 0));
  for (uint8_t i = 0; i < sizeof out->uuid.id; ++i)
    out->uuid.id[i] = static_cast<uint8_t>(0xc0 + i);
  out->uuid.id[0] = static_cast<uint8_t>(0xc0 + ordinal_of(device));
  if (std::getenv("FAKE_ZE_INTEGRATED") != nullptr)
    out->flags |= ZE_DEVICE_PROPERTY_FLAG_INTEGRATED;
  out->timerResolution = 1;
  out->timestampValidBits = 64;
  std::snprintf(out->name, sizeof out->name, "the tests' Intel GPU");
  return begin(__func__);
}
ze_result_t device_compute(ze_device_handle_t device, ze_device_compute_properties_t* out) {
  int threads = 0, shared = 0;
  if (const int code = cuDeviceGetAttribute(&threads, 1, ordinal_of(device)); code != 0)
    return result_of(code);
  if (const int code = cuDeviceGetAttribute(&shared, 81, ordinal_of(device)); code != 0)
    return result_of(code);
  out->maxTotalGroupSize = static_cast<uint32_t>(threads);
  out->maxSharedLocalMemory = static_cast<uint32_t>(shared);
  return ZE_RESULT_SUCCESS;
}
ze_result_t device_memory(ze_device_handle_t, uint32_t* count, ze_device_memory_properties_t* out) {
  *count = 1;
  if (out != nullptr) out->totalSize = settings().memory;
  return begin(__func__);
}
ze_result_t context_create(ze_driver_handle_t, const ze_context_desc_t*, ze_context_handle_t* out) {
  if (const ze_result_t r = begin(__func__); r != ZE_RESULT_SUCCESS) return r;
  *out = reinterpret_cast<ze_context_handle_t>(new int);
  return ZE_RESULT_SUCCESS;
}
ze_result_t context_destroy(ze_context_handle_t context) {
  delete reinterpret_cast<int*>(context);
  return begin(__func__);
}

// ---- Command lists and events ----

ze_result_t list_create(ze_context_handle_t context, ze_device_handle_t device,
                        const ze_command_queue_desc_t*, ze_command_list_handle_t* out) {
  const ze_result_t r =
      on_device(ordinal_of(device), cuStreamCreate, reinterpret_cast<void**>(out), 1u);
  if (r == ZE_RESULT_SUCCESS) owners().add(*out, context);
  return r;
}
ze_result_t list_destroy(ze_command_list_handle_t list) {
  owners().remove(list);
  return result_of(cuStreamDestroy_v2(list));
}
ze_result_t append_barrier(ze_command_list_handle_t list, ze_event_handle_t, uint32_t,
                           ze_event_handle_t*) {
  return Append(list).allowed(__func__);  // streams are in order
}
ze_result_t append_signal(ze_command_list_handle_t list, ze_event_handle_t event) {
  const Append append(list);
  if (const ze_result_t r = append.allowed(__func__); r != ZE_RESULT_SUCCESS) return r;
  stream_of(list)->put([e = event_of(event)] { e->set(true); });
  return ZE_RESULT_SUCCESS;
}
ze_result_t append_wait(ze_command_list_handle_t list, uint32_t count, ze_event_handle_t* events) {
  const Append append(list);
  if (const ze_result_t r = append.allowed(__func__); r != ZE_RESULT_SUCCESS) return r;
  for (uint32_t i = 0; i < count; ++i) {
    event_of(events[i])->will_wait();
    stream_of(list)->put([e = event_of(events[i])] { e->wait(); });
  }
  return ZE_RESULT_SUCCESS;
}
ze_result_t append_timestamp(ze_command_list_handle_t list, uint64_t* to, ze_event_handle_t,
                             uint32_t, ze_event_handle_t*) {
  const Append append(list);
  if (const ze_result_t r = append.allowed(__func__); r != ZE_RESULT_SUCCESS) return r;
  stream_of(list)->put([to] {
    *to = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                std::chrono::nanoseconds(1));
  });
  return ZE_RESULT_SUCCESS;
}
ze_result_t pool_create(ze_context_handle_t, const ze_event_pool_desc_t*, uint32_t,
                        ze_device_handle_t*, ze_event_pool_handle_t* out) {
  if (const ze_result_t r = begin(__func__); r != ZE_RESULT_SUCCESS) return r;
  *out = reinterpret_cast<ze_event_pool_handle_t>(new int);
  return ZE_RESULT_SUCCESS;
}
ze_result_t pool_destroy(ze_event_pool_handle_t pool) {
  delete reinterpret_cast<int*>(pool);
  return begin(__func__);
}
ze_result_t event_create(ze_event_pool_handle_t, const ze_event_desc_t*, ze_event_handle_t* out) {
  if (const ze_result_t r = begin(__func__); r != ZE_RESULT_SUCCESS) return r;
  *out = reinterpret_cast<ze_event_handle_t>(new EventRef(std::make_shared<ZeEvent>()));
  return ZE_RESULT_SUCCESS;
}
ze_result_t event_destroy(ze_event_handle_t event) {
  delete &event_of(event);
  return begin(__func__);
}
ze_result_t event_reset(ze_event_handle_t event) {
  if (const ze_result_t r = begin(__func__); r != ZE_RESULT_SUCCESS) return r;
  if (event_of(event)->reset()) return ZE_RESULT_SUCCESS;
  std::fprintf(stderr, "fake ze: an event is reset while a command list waits for it\n");
  return ZE_RESULT_ERROR_INVALID_ARGUMENT;
}
ze_result_t event_synchronize(ze_event_handle_t event, uint64_t) {
  event_of(event)->will_wait();
  event_of(event)->wait();
  const ze_result_t r = begin(__func__);
  return World::get().lost() != 0 ? ZE_RESULT_ERROR_DEVICE_LOST : r;
}

// ---- Memory ----

ze_result_t alloc_device(ze_context_handle_t context, const ze_device_mem_alloc_desc_t*,
                         size_t bytes, size_t, ze_device_handle_t device, void** out) {
  unsigned long long at = 0;
  const ze_result_t r = on_device(ordinal_of(device), cuMemAlloc_v2, &at, bytes);
  *out = reinterpret_cast<void*>(at);
  if (r == ZE_RESULT_SUCCESS) owners().add(*out, context);
  ++g_allocations;
  return r;
}
ze_result_t alloc_host(ze_context_handle_t, const ze_host_mem_alloc_desc_t*, size_t bytes, size_t,
                       void** out) {
  return on_device(0, cuMemHostAlloc, out, bytes, 1u);
}
ze_result_t mem_free(ze_context_handle_t, void* data) {
  if (!is_device_memory(data)) return result_of(cuMemFreeHost(data));
  const ze_result_t r = result_of(cuMemFree_v2(address(data)));
  if (r == ZE_RESULT_SUCCESS) owners().remove(data);
  return r;
}
ze_result_t alloc_properties(ze_context_handle_t, const void* data,
                             ze_memory_allocation_properties_t* out, ze_device_handle_t* device) {
  uint64_t begins = 0;
  const World::Allocation* held = World::get().holder(reinterpret_cast<uint64_t>(data), &begins);
  out->type = held != nullptr ? ZE_MEMORY_TYPE_DEVICE : ZE_MEMORY_TYPE_UNKNOWN;
  const int ordinal = held != nullptr ? held->device : 0;
  *device = reinterpret_cast<ze_device_handle_t>(&g_devices[static_cast<size_t>(ordinal)]);
  return begin(__func__);
}
ze_result_t address_range(ze_context_handle_t, const void* data, void** from, size_t* size) {
  if (const int code = cuPointerGetAttribute(from, 11, address(data)); code != 0)
    return result_of(code);
  return result_of(cuPointerGetAttribute(size, 12, address(data)));
}
// Whether the list may work with device memory: that of its context.
bool knows(ze_command_list_handle_t list, const void* data) {
  if (!is_device_memory(data) || owners().of(data) == owners().of(list)) return true;
  std::fprintf(stderr, "fake ze: memory of another context\n");
  return false;
}
int device_of(const void* data) {
  uint64_t begins = 0;
  return World::get().holder(reinterpret_cast<uint64_t>(data), &begins)->device;
}
// The devices must be able to access each other; nothing has to be asked for.
ze_result_t copy_across(ze_command_list_handle_t list, void* to, const void* from, size_t bytes) {
  const int here = ordinal_of(list), there = device_of(from);
  if (settings().peers == 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  {
    const std::lock_guard lock(World::get().peers_mutex);
    primary(here)->peers.insert(primary(there));
  }
  return on_device(here, cuMemcpyPeerAsync, address(to), (void*)primary(here), address(from),
                   (void*)primary(there), bytes, (void*)list);
}
ze_result_t append_copy(ze_command_list_handle_t list, void* to, const void* from, size_t bytes,
                        ze_event_handle_t, uint32_t, ze_event_handle_t*) {
  const int here = ordinal_of(list);
  if (!knows(list, to) || !knows(list, from)) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (!is_device_memory(to))
    return on_device(here, cuMemcpyDtoHAsync_v2, to, address(from), bytes, (void*)list);
  if (!is_device_memory(from))
    return on_device(here, cuMemcpyHtoDAsync_v2, address(to), from, bytes, (void*)list);
  if (device_of(from) != here) return copy_across(list, to, from, bytes);
  return on_device(here, cuMemcpyDtoDAsync_v2, address(to), address(from), bytes, (void*)list);
}
ze_result_t append_fill(ze_command_list_handle_t list, void* to, const void* pattern, size_t width,
                        size_t bytes, ze_event_handle_t, uint32_t, ze_event_handle_t*) {
  uint32_t value = 0;
  std::memcpy(&value, pattern, std::min<size_t>(width, 4));
  const size_t count = bytes / width;
  if (width == 1)
    return on_device(ordinal_of(list), cuMemsetD8Async, address(to),
                     static_cast<unsigned char>(value), count, (void*)list);
  if (width == 2)
    return on_device(ordinal_of(list), cuMemsetD16Async, address(to),
                     static_cast<unsigned short>(value), count, (void*)list);
  return on_device(ordinal_of(list), cuMemsetD32Async, address(to), value, count, (void*)list);
}

// ---- Code ----

ze_result_t module_create(ze_context_handle_t, ze_device_handle_t device,
                          const ze_module_desc_t* wanted, ze_module_handle_t* out,
                          ze_module_build_log_handle_t*) {
  if (const ze_result_t r = begin(__func__); r != ZE_RESULT_SUCCESS) return r;
  const std::string binary(reinterpret_cast<const char*>(wanted->pInputModule), wanted->inputSize);
  if (wanted->format != ZE_MODULE_FORMAT_NATIVE || !binary.starts_with(kMagic))
    return ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
  static std::map<std::string, std::string> known;
  static std::mutex mutex;
  std::string ptx, why;
  {
    const std::lock_guard lock(mutex);
    std::string& made = known[binary];
    if (made.empty() &&
        !to_ptx(binary.substr(std::strlen(kMagic)),
                {"-x", "cl", "-cl-std=CL2.0", "-target", "nvptx64-nvidia-cuda", "-march=sm_80",
                 "-nogpulib", "-Wno-unused", "-ffp-contract=fast-honor-pragmas",
                 "-Wno-unknown-attributes", "-include", FAKE_ZE_AS_CUDA},
                &made, &why)) {
      std::fprintf(stderr, "fake ze: the text does not compile: %s\n", why.c_str());
      return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    }
    ptx = made;
  }
  char log[2048] = "";
  int names[] = {5, 6};  // the log and its size
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  const ze_result_t loaded =
      on_device(ordinal_of(device), cuModuleLoadDataEx, reinterpret_cast<void**>(out),
                (const void*)ptx.c_str(), 2u, (int*)names, (void**)values);
  if (log[0] != '\0') std::fprintf(stderr, "fake ze: %s\n", log);
  return loaded;
}
ze_result_t module_destroy(ze_module_handle_t module) {
  return result_of(cuModuleUnload(module));
}
ze_result_t kernel_create(ze_module_handle_t module, const ze_kernel_desc_t* wanted,
                          ze_kernel_handle_t* out) {
  auto kernel = std::make_unique<ZeKernel>();
  if (const int code = cuModuleGetFunction(&kernel->function, module, wanted->pKernelName);
      code != 0)
    return result_of(code);
  kernel->arguments.resize(
      static_cast<Function*>(kernel->function)->kernel->parameter_offsets.size());
  *out = reinterpret_cast<ze_kernel_handle_t>(kernel.release());
  return ZE_RESULT_SUCCESS;
}
ze_result_t kernel_destroy(ze_kernel_handle_t kernel) {
  delete reinterpret_cast<ZeKernel*>(kernel);
  return begin(__func__);
}
ze_result_t kernel_properties(ze_kernel_handle_t kernel, ze_kernel_properties_t* out) {
  out->numKernelArgs = static_cast<uint32_t>(reinterpret_cast<ZeKernel*>(kernel)->arguments.size());
  return begin(__func__);
}
ze_result_t kernel_group(ze_kernel_handle_t kernel, uint32_t x, uint32_t y, uint32_t z) {
  if (y != 1 || z != 1) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  reinterpret_cast<ZeKernel*>(kernel)->group = x;
  return begin(__func__);
}
ze_result_t kernel_argument(ze_kernel_handle_t kernel, uint32_t index, size_t bytes,
                            const void* value) {
  auto& arguments = reinterpret_cast<ZeKernel*>(kernel)->arguments;
  if (index >= arguments.size() || bytes != sizeof arguments[0])
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  std::memcpy(&arguments[index], value, bytes);
  return begin(__func__);
}
ze_result_t append_launch(ze_command_list_handle_t list, ze_kernel_handle_t handle,
                          const ze_group_count_t* groups, ze_event_handle_t, uint32_t,
                          ze_event_handle_t*) {
  auto* kernel = reinterpret_cast<ZeKernel*>(handle);
  std::vector<void*> parameters;
  for (uint64_t& a : kernel->arguments) parameters.push_back(&a);
  return on_device(ordinal_of(list), cuLaunchKernel, kernel->function, groups->groupCountX, 1u, 1u,
                   kernel->group, 1u, 1u, 0u, (void*)list, parameters.data(), (void**)nullptr);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) uint64_t fake_ze_allocations() {
  return g_allocations;
}
extern "C" __attribute__((visibility("default"))) uint64_t fake_ze_peer_copies() {
  return World::get().peer_copies;
}

// ---- What the loader asks for ----

EXPORT zeGetGlobalProcAddrTable(ze_api_version_t, ze_global_dditable_t* out) {
  out->pfnInit = init;
  return ZE_RESULT_SUCCESS;
}
EXPORT zeGetDriverProcAddrTable(ze_api_version_t, ze_driver_dditable_t* out) {
  out->pfnGet = driver_get;
  return ZE_RESULT_SUCCESS;
}
EXPORT zeGetDeviceProcAddrTable(ze_api_version_t, ze_device_dditable_t* out) {
  out->pfnGet = device_get;
  out->pfnGetProperties = device_properties;
  out->pfnGetMemoryProperties = device_memory;
  out->pfnGetComputeProperties = device_compute;
  out->pfnCanAccessPeer = can_access;
  return ZE_RESULT_SUCCESS;
}
EXPORT zeGetContextProcAddrTable(ze_api_version_t, ze_context_dditable_t* out) {
  out->pfnCreate = context_create;
  out->pfnDestroy = context_destroy;
  return ZE_RESULT_SUCCESS;
}
EXPORT zeGetCommandListProcAddrTable(ze_api_version_t, ze_command_list_dditable_t* out) {
  out->pfnCreateImmediate = list_create;
  out->pfnDestroy = list_destroy;
  out->pfnAppendBarrier = append_barrier;
  out->pfnAppendSignalEvent = append_signal;
  out->pfnAppendWaitOnEvents = append_wait;
  out->pfnAppendWriteGlobalTimestamp = append_timestamp;
  out->pfnAppendMemoryCopy = append_copy;
  out->pfnAppendMemoryFill = append_fill;
  out->pfnAppendLaunchKernel = append_launch;
  return ZE_RESULT_SUCCESS;
}
EXPORT zeGetEventPoolProcAddrTable(ze_api_version_t, ze_event_pool_dditable_t* out) {
  out->pfnCreate = pool_create;
  out->pfnDestroy = pool_destroy;
  return ZE_RESULT_SUCCESS;
}
EXPORT zeGetEventProcAddrTable(ze_api_version_t, ze_event_dditable_t* out) {
  out->pfnCreate = event_create;
  out->pfnDestroy = event_destroy;
  out->pfnHostReset = event_reset;
  out->pfnHostSynchronize = event_synchronize;
  return ZE_RESULT_SUCCESS;
}
EXPORT zeGetMemProcAddrTable(ze_api_version_t, ze_mem_dditable_t* out) {
  out->pfnAllocDevice = alloc_device;
  out->pfnAllocHost = alloc_host;
  out->pfnFree = mem_free;
  out->pfnGetAllocProperties = alloc_properties;
  out->pfnGetAddressRange = address_range;
  return ZE_RESULT_SUCCESS;
}
EXPORT zeGetModuleProcAddrTable(ze_api_version_t, ze_module_dditable_t* out) {
  out->pfnCreate = module_create;
  out->pfnDestroy = module_destroy;
  return ZE_RESULT_SUCCESS;
}
EXPORT zeGetKernelProcAddrTable(ze_api_version_t, ze_kernel_dditable_t* out) {
  out->pfnCreate = kernel_create;
  out->pfnDestroy = kernel_destroy;
  out->pfnGetProperties = kernel_properties;
  out->pfnSetGroupSize = kernel_group;
  out->pfnSetArgumentValue = kernel_argument;
  return ZE_RESULT_SUCCESS;
}
// Tables that stay empty: their functions are never called.
#define EMPTY(name, table)                \
  EXPORT name(ze_api_version_t, table*) { \
    return ZE_RESULT_SUCCESS;             \
  }
EMPTY(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t)
EMPTY(zeGetImageProcAddrTable, ze_image_dditable_t)
EMPTY(zeGetFenceProcAddrTable, ze_fence_dditable_t)
EMPTY(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t)
EMPTY(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
EMPTY(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t)
EMPTY(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t)
EMPTY(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t)
EMPTY(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t)
EMPTY(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t)
EMPTY(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t)
EMPTY(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t)
EMPTY(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t)
// The loader does not start without these either.
EMPTY(zetGetDeviceProcAddrTable, zet_device_dditable_t)
EMPTY(zetGetContextProcAddrTable, zet_context_dditable_t)
EMPTY(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
EMPTY(zetGetModuleProcAddrTable, zet_module_dditable_t)
EMPTY(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
EMPTY(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
EMPTY(zetGetMetricGroupExpProcAddrTable, zet_metric_group_exp_dditable_t)
EMPTY(zetGetMetricProcAddrTable, zet_metric_dditable_t)
EMPTY(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
EMPTY(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
EMPTY(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
EMPTY(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)
EMPTY(zetGetDebugProcAddrTable, zet_debug_dditable_t)
EMPTY(zesGetDriverProcAddrTable, zes_driver_dditable_t)
EMPTY(zesGetDeviceProcAddrTable, zes_device_dditable_t)
EMPTY(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
EMPTY(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
EMPTY(zesGetPowerProcAddrTable, zes_power_dditable_t)
EMPTY(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
EMPTY(zesGetEngineProcAddrTable, zes_engine_dditable_t)
EMPTY(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
EMPTY(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
EMPTY(zesGetMemoryProcAddrTable, zes_memory_dditable_t)
EMPTY(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
EMPTY(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)
EMPTY(zesGetPsuProcAddrTable, zes_psu_dditable_t)
EMPTY(zesGetFanProcAddrTable, zes_fan_dditable_t)
EMPTY(zesGetLedProcAddrTable, zes_led_dditable_t)
EMPTY(zesGetRasProcAddrTable, zes_ras_dditable_t)
EMPTY(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
