// The exported functions. A call that releases something does so even if the tests make it fail, as
// a driver does that reports an earlier error. A wait that they make fail has not waited.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "driver.h"

using namespace fake_cuda;

#define EXPORT extern "C" __attribute__((visibility("default"))) int
// Returns from a call that the tests make fail, or of a context that is lost.
#define BEGIN()                                                                     \
  do {                                                                              \
    if (const int code = World::get().begin_call(__func__); code != 0) return code; \
  } while (false)
#define REQUIRE(condition, code)   \
  do {                             \
    if (!(condition)) return code; \
  } while (false)
// For calls that no capture can hold (cuThreadExchangeStreamCaptureMode).
#define REQUIRE_NO_CAPTURE() REQUIRE(!world().breaks_captures(), kCaptureUnsupported)
#define REQUIRE_CURRENT() REQUIRE(!current().empty(), kInvalidContext)
// 0 becomes the default stream of the context that is current.
#define REQUIRE_STREAM(stream) REQUIRE(resolve(stream), kInvalidHandle)
#define REQUIRE_EVENT(event) REQUIRE(world().has(world().events, event), kInvalidHandle)
// Work on a stream is for the context that is current.
#define REQUIRE_CURRENT_STREAM(stream) \
  REQUIRE_CURRENT();                   \
  REQUIRE_STREAM(stream);              \
  REQUIRE(stream_of(stream)->context == current().back(), kInvalidContext)

namespace {

std::atomic<uint64_t> graph_launches{0};

World& world() {
  return World::get();
}
Stream* stream_of(void* handle) {
  return static_cast<Stream*>(handle);
}
Event* event_of(void* handle) {
  return static_cast<Event*>(handle);
}
bool resolve(void*& stream) {
  if (stream == nullptr && !current().empty()) stream = world().default_stream(current().back());
  return stream != nullptr && world().has(world().streams, stream);
}
int device_of(void* stream) {
  return stream_of(stream)->context->device;
}
bool is_device(int ordinal) {
  return ordinal >= 0 && ordinal < settings().devices;
}

// Work that is skipped once the context is lost.
void put(void* stream, std::function<void()> work) {
  stream_of(stream)->put([work = std::move(work)] {
    if (world().lost() == 0) work();
  });
}

// What a call that releases returns: the failure that the tests want, the loss, or its own code.
int after(int wanted, int own) {
  return wanted != 0 ? wanted : own;
}

struct InMemory final : Placement {
  std::vector<uint64_t> places;
  bool short_of_memory = false;
  uint64_t place(uint64_t bytes) override {
    uint64_t at = 0;
    if (world().alloc(std::max<uint64_t>(bytes, 1), &at) != kSuccess) {
      short_of_memory = true;
    } else {
      places.push_back(at);
    }
    return at;
  }
};

int fill(uint64_t to, uint64_t pattern, uint64_t width, uint64_t count, void* stream) {
  BEGIN();
  REQUIRE_CURRENT_STREAM(stream);
  const int device = device_of(stream);
  REQUIRE(to % width == 0 && world().range(device, to, width * count) != nullptr, kInvalidValue);
  put(stream, [=] {
    unsigned char* const data = world().range(device, to, width * count);
    if (data == nullptr) return world().lose(kIllegalAddress, "a fill of memory that was freed");
    for (uint64_t i = 0; i < count; ++i) std::memcpy(data + i * width, &pattern, width);
  });
  return kSuccess;
}

void run_grid(int device, const Kernel* kernel, uint32_t blocks, uint32_t threads,
              const std::vector<unsigned char>& parameters) {
  std::string why;
  const Grid grid{kernel, blocks, threads, parameters.data()};
  DeviceMemory memory(device);
  if (!run(grid, memory, &why))
    world().lose(why.find("alloc") != std::string::npos || why.find("outside") != std::string::npos
                     ? kIllegalAddress
                     : kLaunchFailed,
                 why);
}

}  // namespace

// ---- The driver and its devices ----

EXPORT cuInit(unsigned flags) {
  BEGIN();
  REQUIRE(flags == 0, kInvalidValue);
  REQUIRE(settings().devices > 0, kNoDevice);
  world().initialised = true;
  return kSuccess;
}
EXPORT cuDriverGetVersion(int* out) {
  BEGIN();
  *out = settings().version;
  return kSuccess;
}
EXPORT cuGetErrorName(int code, const char** out) {
  *out = name_of(code);
  return *out == nullptr ? kInvalidValue : kSuccess;
}
EXPORT cuGetErrorString(int code, const char** out) {
  *out = name_of(code) == nullptr ? nullptr : "a text of the tests' driver";
  return *out == nullptr ? kInvalidValue : kSuccess;
}
EXPORT cuDeviceGetCount(int* out) {
  BEGIN();
  REQUIRE(world().initialised, kNotInitialised);
  *out = settings().devices;
  return kSuccess;
}
EXPORT cuDeviceGet(int* out, int ordinal) {
  BEGIN();
  REQUIRE(is_device(ordinal), kInvalidDevice);
  *out = ordinal;
  return kSuccess;
}
EXPORT cuDeviceGetName(char* out, int size, int device) {
  BEGIN();
  REQUIRE(is_device(device) && size > 0, kInvalidDevice);
  std::snprintf(out, static_cast<size_t>(size), "the tests' GPU");
  return kSuccess;
}
EXPORT cuDeviceTotalMem_v2(size_t* out, int) {
  BEGIN();
  *out = settings().memory;
  return kSuccess;
}
EXPORT cuDeviceGetUuid_v2(unsigned char* out, int device) {
  BEGIN();
  REQUIRE(is_device(device), kInvalidDevice);
  for (int i = 0; i < 16; ++i) out[i] = static_cast<unsigned char>(i == 15 ? device : 0xa0 + i);
  return kSuccess;
}
EXPORT cuDeviceGetAttribute(int* out, int which, int device) {
  BEGIN();
  if (device < settings().old && (which == 75 || which == 76)) {
    *out = which == 75 ? 6 : 1;
    return kSuccess;
  }
  *out = which == 1     ? settings().threads
         : which == 8   ? std::min(settings().shared, 48 << 10)  // of a block
         : which == 81  ? settings().shared                      // of a multiprocessor
         : which == 75  ? settings().capability / 10
         : which == 76  ? settings().capability % 10
         : which == 115 ? settings().pools
                        : 0;
  return kSuccess;
}

// NVRTC asks for tables that have no declaration, and goes without where there are none.
EXPORT cuGetExportTable(const void** out, const void*) {
  *out = nullptr;
  return kNotFound;
}

// ---- Contexts ----

EXPORT cuDevicePrimaryCtxRetain(void** out, int device) {
  BEGIN();
  REQUIRE(world().initialised, kNotInitialised);
  REQUIRE(is_device(device), kInvalidDevice);
  *out = &world().primary[static_cast<size_t>(device)];
  ++world().contexts;
  return kSuccess;
}
EXPORT cuDevicePrimaryCtxRelease_v2(int) {
  const int wanted = world().begin_call(__func__);
  --world().contexts;
  return wanted;
}
EXPORT cuCtxPushCurrent_v2(void* context) {
  BEGIN();
  REQUIRE(context != nullptr && world().contexts > 0, kInvalidContext);
  current().push_back(static_cast<Context*>(context));
  return kSuccess;
}
EXPORT cuCtxPopCurrent_v2(void** out) {
  const int wanted = world().begin_call(__func__);
  REQUIRE_CURRENT();
  *out = current().back();
  current().pop_back();
  return wanted;
}
// For tests, which are other libraries of the process.
EXPORT cuCtxCreate_v2(void** out, unsigned, int device) {
  BEGIN();
  REQUIRE(is_device(device), kInvalidDevice);
  Context* const made = world().make(world().made_contexts, Context{device});
  current().push_back(made);
  *out = made;
  return kSuccess;
}
EXPORT cuCtxDestroy_v2(void* context) {
  const int wanted = world().begin_call(__func__);
  return after(wanted,
               world().destroy(world().made_contexts, context) ? kSuccess : kInvalidContext);
}

// ---- Streams and events ----

EXPORT cuStreamCreate(void** out, unsigned) {
  BEGIN();
  REQUIRE_CURRENT();
  *out = world().make(world().streams, current().back());
  return kSuccess;
}
EXPORT cuStreamDestroy_v2(void* stream) {
  const int wanted = world().begin_call(__func__);
  return after(wanted, world().destroy(world().streams, stream) ? kSuccess : kInvalidHandle);
}
EXPORT cuStreamSynchronize(void* stream) {
  BEGIN();
  REQUIRE_STREAM(stream);
  REQUIRE_NO_CAPTURE();
  REQUIRE(!stream_of(stream)->spoil_capture(), kCaptureUnsupported);
  stream_of(stream)->wait();
  return world().lost();
}
EXPORT cuStreamGetCtx(void* stream, void** out) {
  BEGIN();
  REQUIRE_STREAM(stream);
  *out = stream_of(stream)->context;
  return kSuccess;
}
EXPORT cuStreamWaitEvent(void* stream, void* event, unsigned) {
  BEGIN();
  REQUIRE_STREAM(stream);
  REQUIRE_EVENT(event);
  REQUIRE(!event_of(event)->captured || stream_of(stream)->capturing(), kCaptureIsolation);
  const std::shared_ptr<Progress> progress = event_of(event)->progress;
  const uint64_t until = progress->wanted();
  // Events happen also when the context is lost.
  stream_of(stream)->put([=] { progress->wait(until); });
  return kSuccess;
}
EXPORT cuEventCreate(void** out, unsigned) {
  BEGIN();
  REQUIRE_CURRENT();
  *out = world().make(world().events, current().back());
  return kSuccess;
}
EXPORT cuEventDestroy_v2(void* event) {
  const int wanted = world().begin_call(__func__);
  return after(wanted, world().destroy(world().events, event) ? kSuccess : kInvalidHandle);
}
EXPORT cuEventRecord(void* event, void* stream) {
  BEGIN();
  REQUIRE_STREAM(stream);
  REQUIRE_EVENT(event);
  REQUIRE(event_of(event)->context == stream_of(stream)->context, kInvalidHandle);
  event_of(event)->captured = stream_of(stream)->capturing();
  if (event_of(event)->captured) return kSuccess;
  const std::shared_ptr<Progress> progress = event_of(event)->progress;
  progress->record();
  stream_of(stream)->put([=] { progress->happen(); });
  return kSuccess;
}
EXPORT cuEventSynchronize(void* event) {
  BEGIN();
  REQUIRE_EVENT(event);
  REQUIRE_NO_CAPTURE();
  REQUIRE(!event_of(event)->captured, kCapturedEvent);
  event_of(event)->progress->wait();
  return world().lost();
}
EXPORT cuEventQuery(void* event) {
  BEGIN();
  REQUIRE_EVENT(event);
  REQUIRE_NO_CAPTURE();
  REQUIRE(!event_of(event)->captured, kCapturedEvent);
  return event_of(event)->progress->done() ? kSuccess : kNotReady;
}
EXPORT cuEventElapsedTime(float* out, void* from, void* to) {
  BEGIN();
  REQUIRE_EVENT(from);
  REQUIRE_EVENT(to);
  REQUIRE(event_of(from)->context == event_of(to)->context, kInvalidHandle);
  const int64_t a = event_of(from)->progress->time_ns(), b = event_of(to)->progress->time_ns();
  REQUIRE(a >= 0 && b >= 0, kInvalidHandle);
  *out = static_cast<float>(static_cast<double>(b - a) * 1e-6);
  return kSuccess;
}

// ---- Memory ----

EXPORT cuMemAlloc_v2(unsigned long long* out, size_t bytes) {
  BEGIN();
  REQUIRE_CURRENT();
  REQUIRE_NO_CAPTURE();
  uint64_t at = 0;
  const int code = world().alloc(bytes, &at);
  *out = at;
  return code;
}
EXPORT cuMemFree_v2(unsigned long long address) {
  const int wanted = world().begin_call(__func__);
  REQUIRE_NO_CAPTURE();
  return after(wanted, world().free(address));
}
EXPORT cuMemAllocFromPoolAsync(unsigned long long* out, size_t bytes, void* pool, void* stream) {
  BEGIN();
  REQUIRE_CURRENT_STREAM(stream);
  REQUIRE(settings().pools != 0 && world().has(world().pools, pool), kInvalidHandle);
  World::Allocation made;
  made.pool = static_cast<Pool*>(pool);
  made.device = made.pool->device;
  REQUIRE(made.device == device_of(stream), kInvalidValue);
  uint64_t at = 0;
  const int code = world().alloc(bytes, std::move(made), &at);
  *out = at;
  return code;
}
EXPORT cuMemFreeAsync(unsigned long long address, void* stream) {
  const int wanted = world().begin_call(__func__);
  REQUIRE_STREAM(stream);
  REQUIRE(world().range(device_of(stream), address, 1) != nullptr, kInvalidValue);
  stream_of(stream)->put([=] { (void)world().free(address); });
  return wanted;
}
EXPORT cuMemPoolCreate(void** out, const void* properties) {
  BEGIN();
  struct {
    int allocation, handles, place, device;
    unsigned char rest[72];
  } wanted;
  static_assert(sizeof wanted == 88);
  std::memcpy(&wanted, properties, sizeof wanted);
  REQUIRE(settings().pools != 0 && wanted.allocation == 1 && wanted.handles == 0, kInvalidValue);
  REQUIRE(wanted.place == 1 && is_device(wanted.device), kInvalidValue);
  REQUIRE(std::all_of(std::begin(wanted.rest), std::end(wanted.rest), [](int b) { return b == 0; }),
          kInvalidValue);
  *out = world().make(world().pools, Pool{wanted.device});
  return kSuccess;
}
EXPORT cuMemPoolDestroy(void* pool) {
  const int wanted = world().begin_call(__func__);
  return after(wanted, world().destroy(world().pools, pool) ? kSuccess : kInvalidHandle);
}
EXPORT cuMemPoolSetAttribute(void* pool, int which, void* value) {
  BEGIN();
  REQUIRE(world().has(world().pools, pool), kInvalidHandle);
  REQUIRE(which == 4, kInvalidValue);
  static_cast<Pool*>(pool)->threshold = *static_cast<uint64_t*>(value);
  return kSuccess;
}
EXPORT cuMemPoolTrimTo(void* pool, size_t) {
  BEGIN();
  REQUIRE(world().has(world().pools, pool), kInvalidHandle);
  return kSuccess;
}
// For tests: what other libraries of the process use.
EXPORT cuDeviceGetDefaultMemPool(void** out, int device) {
  BEGIN();
  REQUIRE(is_device(device), kInvalidDevice);
  *out = &world().default_pools[static_cast<size_t>(device)];
  return kSuccess;
}
EXPORT cuMemPoolGetAttribute(void* pool, int which, void* out) {
  BEGIN();
  REQUIRE(world().has(world().pools, pool), kInvalidHandle);
  REQUIRE(which == 4, kInvalidValue);
  *static_cast<uint64_t*>(out) = static_cast<Pool*>(pool)->threshold;
  return kSuccess;
}
EXPORT cuMemHostAlloc(void** out, size_t bytes, unsigned) {
  BEGIN();
  REQUIRE_CURRENT();
  REQUIRE_NO_CAPTURE();
  return world().alloc_pinned(bytes, out);
}
EXPORT cuMemFreeHost(void* data) {
  const int wanted = world().begin_call(__func__);
  REQUIRE_NO_CAPTURE();
  return after(wanted, world().free_pinned(data));
}
EXPORT cuPointerGetAttribute(void* out, int which, unsigned long long address) {
  BEGIN();
  uint64_t begin = 0;
  const World::Allocation* const all = world().holder(address, &begin);
  REQUIRE(all != nullptr, kInvalidValue);
  const uint64_t part = all->mapping == 0 ? all->size : all->mapping;
  const uint64_t skipped = (address - begin) / part * part;
  const uint64_t from = begin + skipped, size = std::min(part, all->size - skipped);
  const unsigned type = 2;
  if (which == 1) std::memcpy(out, &all->context, sizeof all->context);
  if (which == 2) std::memcpy(out, &type, sizeof type);
  if (which == 9) std::memcpy(out, &all->device, sizeof all->device);
  if (which == 11) std::memcpy(out, &from, sizeof from);
  if (which == 12) std::memcpy(out, &size, sizeof size);
  if (which == 17) std::memcpy(out, &all->pool, sizeof all->pool);
  return kSuccess;
}

// Memory that is not pinned is read before the call returns, as a driver does.
EXPORT cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void* stream) {
  BEGIN();
  REQUIRE_CURRENT_STREAM(stream);
  const int device = device_of(stream);
  REQUIRE(world().range(device, to, bytes) != nullptr, kInvalidValue);
  auto kept = std::make_shared<std::vector<unsigned char>>();
  const void* source = from;
  if (!world().is_pinned(from, bytes)) {
    const auto* data = static_cast<const unsigned char*>(from);
    kept->assign(data, data + bytes);
    source = kept->data();
  }
  put(stream, [=] {
    unsigned char* const data = world().range(device, to, bytes);
    if (data == nullptr) return world().lose(kIllegalAddress, "a copy to memory that was freed");
    std::memcpy(data, kept->empty() ? source : kept->data(), bytes);
  });
  return kSuccess;
}
EXPORT cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void* stream) {
  BEGIN();
  REQUIRE_CURRENT_STREAM(stream);
  const int device = device_of(stream);
  REQUIRE(world().range(device, from, bytes) != nullptr, kInvalidValue);
  put(stream, [=] {
    const unsigned char* const data = world().range(device, from, bytes);
    if (data == nullptr) return world().lose(kIllegalAddress, "a copy from memory that was freed");
    std::memcpy(to, data, bytes);
  });
  if (!world().is_pinned(to, bytes)) stream_of(stream)->wait();
  return world().lost();
}
EXPORT cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes,
                            void* stream) {
  BEGIN();
  REQUIRE_CURRENT_STREAM(stream);
  const int device = device_of(stream);
  REQUIRE(world().range(device, from, bytes) != nullptr, kInvalidValue);
  REQUIRE(world().range(device, to, bytes) != nullptr, kInvalidValue);
  put(stream, [=] {
    const unsigned char* const source = world().range(device, from, bytes);
    unsigned char* const data = world().range(device, to, bytes);
    if (source == nullptr || data == nullptr)
      return world().lose(kIllegalAddress, "a copy of memory that was freed");
    std::memmove(data, source, bytes);
  });
  return kSuccess;
}
EXPORT cuDeviceCanAccessPeer(int* out, int device, int peer) {
  BEGIN();
  REQUIRE(is_device(device) && is_device(peer), kInvalidDevice);
  *out = device != peer && settings().peers != 0;
  return kSuccess;
}
EXPORT cuCtxEnablePeerAccess(void* peer, unsigned flags) {
  BEGIN();
  REQUIRE_CURRENT();
  auto* const context = static_cast<Context*>(peer);
  REQUIRE(flags == 0 && context != nullptr, kInvalidValue);
  REQUIRE(context->device != current().back()->device && settings().peers != 0,
          kPeerAccessUnsupported);
  const std::lock_guard lock(world().peers_mutex);
  return current().back()->peers.insert(context).second ? kSuccess : kPeerAccessAlreadyEnabled;
}
EXPORT cuMemPoolSetAccess(void* pool, const void* descriptions, size_t count) {
  BEGIN();
  REQUIRE(world().has(world().pools, pool), kInvalidHandle);
  const int* const wanted = static_cast<const int*>(descriptions);
  REQUIRE(count == 1 && wanted[0] == 1 && is_device(wanted[1]) && wanted[2] == 3, kInvalidValue);
  const std::lock_guard lock(world().peers_mutex);
  static_cast<Pool*>(pool)->peers.insert(wanted[1]);
  return kSuccess;
}
// Stricter than a driver, which copies by way of the host where access was not given.
EXPORT cuMemcpyPeerAsync(unsigned long long to, void* to_context, unsigned long long from,
                         void* from_context, size_t bytes, void* stream) {
  BEGIN();
  REQUIRE_CURRENT_STREAM(stream);
  auto* const target = static_cast<Context*>(to_context);
  auto* const source = static_cast<Context*>(from_context);
  REQUIRE(target == current().back() && source != nullptr, kInvalidContext);
  const int here = target->device, there = source->device;
  REQUIRE(world().range(there, from, bytes) != nullptr, kInvalidValue);
  REQUIRE(world().range(here, to, bytes) != nullptr, kInvalidValue);
  uint64_t begin = 0;
  const World::Allocation* const holder = world().holder(from, &begin);
  {
    const std::lock_guard lock(world().peers_mutex);
    REQUIRE(holder->pool != nullptr ? holder->pool->peers.contains(here)
                                    : target->peers.contains(source),
            kInvalidValue);
  }
  put(stream, [=] {
    const unsigned char* const data = world().range(there, from, bytes);
    unsigned char* const into = world().range(here, to, bytes);
    if (data == nullptr || into == nullptr)
      return world().lose(kIllegalAddress, "a copy of memory that was freed");
    std::memcpy(into, data, bytes);
  });
  ++world().peer_copies;
  return kSuccess;
}
extern "C" __attribute__((visibility("default"))) uint64_t fake_cuda_peer_copies() {
  return world().peer_copies;
}
EXPORT cuMemsetD8Async(unsigned long long to, unsigned char value, size_t count, void* stream) {
  return fill(to, value, 1, count, stream);
}
EXPORT cuMemsetD16Async(unsigned long long to, unsigned short value, size_t count, void* stream) {
  return fill(to, value, 2, count, stream);
}
EXPORT cuMemsetD32Async(unsigned long long to, unsigned value, size_t count, void* stream) {
  return fill(to, value, 4, count, stream);
}

// ---- Code ----

EXPORT cuModuleLoadDataEx(void** out, const void* image, unsigned options, int* names,
                          void** values) {
  BEGIN();
  REQUIRE_CURRENT();
  REQUIRE_NO_CAPTURE();
  auto made = std::make_unique<LoadedModule>();
  made->context = current().back();
  InMemory placement;
  std::string why;
  const bool known = parse(static_cast<const char*>(image), placement, &made->module, &why);
  made->places = placement.places;
  const auto give_up = [&](int code) {
    for (uint64_t at : made->places) (void)world().free(at);
    char* log = nullptr;
    size_t size = 0;
    for (unsigned i = 0; i < options; ++i) {
      if (names[i] == 5) log = static_cast<char*>(values[i]);
      if (names[i] == 6) size = reinterpret_cast<size_t>(values[i]);
    }
    if (log != nullptr) std::snprintf(log, size, "%s", why.c_str());
    return code;
  };
  if (!known) return give_up(kInvalidPtx);
  if (placement.short_of_memory) return give_up(kOutOfMemory);
  // PTX 7.8 came with CUDA 11.8, 8.0 with 12.0, 9.0 with 13.0.
  const int newest = (settings().version / 1000 - 4) * 10 + settings().version % 1000 / 10;
  if (made->module.version > newest) return give_up(kUnsupportedPtx);
  for (const auto& [name, variable] : made->module.globals) {
    unsigned char* const data =
        world().range(made->context->device, variable.address, variable.bytes.size());
    if (!variable.bytes.empty()) std::memcpy(data, variable.bytes.data(), variable.bytes.size());
  }
  LoadedModule* const module = world().make(world().modules);
  *module = std::move(*made);
  *out = module;
  return kSuccess;
}
EXPORT cuModuleUnload(void* handle) {
  const int wanted = world().begin_call(__func__);
  REQUIRE_NO_CAPTURE();
  REQUIRE(world().has(world().modules, handle), kInvalidHandle);
  for (uint64_t at : static_cast<LoadedModule*>(handle)->places) (void)world().free(at);
  world().destroy(world().modules, handle);
  return wanted;
}
EXPORT cuModuleGetFunction(void** out, void* handle, const char* name) {
  BEGIN();
  REQUIRE(world().has(world().modules, handle), kInvalidHandle);
  auto* module = static_cast<LoadedModule*>(handle);
  const auto it = module->module.kernels.find(name);
  REQUIRE(it != module->module.kernels.end(), kNotFound);
  auto& function = module->functions[name];
  if (function == nullptr) function.reset(new Function{module, it->second.get()});
  *out = function.get();
  return kSuccess;
}
EXPORT cuLaunchKernel(void* handle, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
                      unsigned tz, unsigned shared, void* stream, void** parameters, void** extra) {
  BEGIN();
  REQUIRE_CURRENT_STREAM(stream);
  REQUIRE(handle != nullptr, kInvalidHandle);
  REQUIRE(static_cast<Function*>(handle)->module->context == current().back(), kInvalidContext);
  const Kernel* kernel = static_cast<Function*>(handle)->kernel;
  REQUIRE(x > 0 && y == 1 && z == 1 && ty == 1 && tz == 1 && shared == 0 && extra == nullptr,
          kInvalidValue);
  REQUIRE(tx > 0 && tx <= kernel->max_threads && tx <= static_cast<unsigned>(settings().threads),
          kInvalidValue);
  REQUIRE(kernel->shared_bytes <= static_cast<unsigned>(settings().shared), kInvalidValue);
  std::vector<unsigned char> values(kernel->parameter_bytes);
  for (size_t i = 0; i < kernel->parameter_offsets.size(); ++i) {
    const uint32_t at = kernel->parameter_offsets[i];
    const uint32_t end = i + 1 < kernel->parameter_offsets.size() ? kernel->parameter_offsets[i + 1]
                                                                  : kernel->parameter_bytes;
    std::memcpy(values.data() + at, parameters[i], end - at);
  }
  const int device = device_of(stream);
  put(stream, [=, values = std::move(values)] { run_grid(device, kernel, x, tx, values); });
  return kSuccess;
}

// ---- Graphs ----

EXPORT cuThreadExchangeStreamCaptureMode(int* mode) {
  const int wanted = world().begin_call(__func__);
  REQUIRE(*mode >= kGlobal && *mode <= kRelaxed, kInvalidValue);
  std::swap(*mode, capture_mode());
  return wanted;
}

EXPORT cuStreamIsCapturing(void* stream, int* out) {
  BEGIN();
  REQUIRE_STREAM(stream);
  *out = stream_of(stream)->capture_state();
  return kSuccess;
}
EXPORT cuStreamBeginCapture_v2(void* stream, int mode) {
  BEGIN();
  REQUIRE(stream != nullptr, kCaptureUnsupported);  // the default one
  REQUIRE_STREAM(stream);
  REQUIRE(mode >= kGlobal && mode <= kRelaxed, kInvalidValue);
  REQUIRE(stream_of(stream)->begin_capture(mode), kCaptureUnsupported);
  ++world().captures;
  return kSuccess;
}
EXPORT cuStreamEndCapture(void* stream, void** out) {
  const int wanted = world().begin_call(__func__);
  REQUIRE_STREAM(stream);
  std::vector<Stream::Work> work;
  const int ended = stream_of(stream)->end_capture(&work);
  REQUIRE(ended != kInvalidValue, kInvalidValue);
  --world().captures;
  *out = nullptr;
  REQUIRE(ended == kSuccess, ended);
  if (wanted == kSuccess)
    *out = world().make(world().graphs, Graph{stream_of(stream)->context, std::move(work)});
  return wanted;
}
EXPORT cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long flags) {
  BEGIN();
  REQUIRE(world().has(world().graphs, graph) && flags == 0, kInvalidValue);
  *out = world().make(world().runnable_graphs, *static_cast<Graph*>(graph));
  return kSuccess;
}
EXPORT cuGraphLaunch(void* graph, void* stream) {
  BEGIN();
  REQUIRE_CURRENT_STREAM(stream);
  REQUIRE(world().has(world().runnable_graphs, graph), kInvalidValue);
  const auto* const made = static_cast<Graph*>(graph);
  REQUIRE(made->context == stream_of(stream)->context, kInvalidContext);
  ++graph_launches;
  // The graph must live until it has run.
  put(stream, [made] {
    if (!world().has(world().runnable_graphs, const_cast<Graph*>(made)))
      return world().lose(kIllegalAddress, "a graph was destroyed before it ran");
    for (const Stream::Work& work : made->work) work();
  });
  return kSuccess;
}
EXPORT cuGraphDestroy(void* graph) {
  const int wanted = world().begin_call(__func__);
  return after(wanted, world().destroy(world().graphs, graph) ? kSuccess : kInvalidValue);
}
EXPORT cuGraphExecDestroy(void* graph) {
  const int wanted = world().begin_call(__func__);
  return after(wanted, world().destroy(world().runnable_graphs, graph) ? kSuccess : kInvalidValue);
}

// ---- For tests ----

extern "C" __attribute__((visibility("default"))) uint64_t fake_cuda_graph_launches() {
  return graph_launches;
}
extern "C" __attribute__((visibility("default"))) void fake_cuda_fail_in(uint64_t n, int code) {
  world().fail_in(n, code);
}
extern "C" __attribute__((visibility("default"))) void fake_cuda_fail_calls(const char* name,
                                                                            int code) {
  world().fail_calls(name, code);
}
extern "C" __attribute__((visibility("default"))) uint64_t fake_cuda_calls_of(const char* name) {
  return world().calls_of(name);
}
// Memory of the first device put together of mappings, as cuMemMap does.
extern "C" __attribute__((visibility("default"))) uint64_t fake_cuda_map(uint64_t mapping,
                                                                         uint64_t count) {
  World::Allocation made;
  made.mapping = mapping;
  uint64_t at = 0;
  (void)world().alloc(mapping * count, std::move(made), &at);
  return at;
}
// For stand-ins of the vendor's libraries: work on a stream of the context that is current, and the
// bytes of its device's memory. Work of a lost context is done, so that what it owns is freed; null
// are bytes that are none.
extern "C" __attribute__((visibility("default"))) void fake_cuda_put(
    void* stream, void (*work)(void* stream, void* data), void* data) {
  if (resolve(stream)) stream_of(stream)->put([=] { work(stream, data); });
}
extern "C" __attribute__((visibility("default"))) unsigned char* fake_cuda_memory(void* stream,
                                                                                  uint64_t address,
                                                                                  uint64_t bytes) {
  return resolve(stream) ? world().range(device_of(stream), address, bytes) : nullptr;
}
extern "C" __attribute__((visibility("default"))) uint64_t fake_cuda_calls() {
  return world().calls();
}
// Allocations, pinned blocks and modules, once all streams are idle.
extern "C" __attribute__((visibility("default"))) uint64_t fake_cuda_in_use() {
  for (Stream* stream : world().streams) stream->wait();
  return world().memory_in_use();
}
