#include "runtime.h"

#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"

namespace tenon::cuda {
namespace {

CUstream stream_of(stream::StreamHandle s) {
  return static_cast<CUstream>(s);
}
CUevent event_of(stream::EventHandle e) {
  return static_cast<CUevent>(e);
}

}  // namespace

Module::~Module() {
  const stream::Current current(runtime);
  if (module != nullptr) (void)driver.module_unload(module);
}

// ---- The context ----

Status Runtime::make(const Driver& driver, CUdevice device, bool pools,
                     std::unique_ptr<Runtime>* out) {
  std::unique_ptr<Runtime> made(new Runtime(driver, device));
  TENON_TRY(made->retain());
  const stream::Current current(*made);
  TENON_TRY(current.status());
  if (pools && driver.has_pools()) TENON_TRY(made->start_pool());
  *out = std::move(made);
  return {};
}

Status Runtime::retain() {
  const ProcessGuard guard;  // a context starts threads
  const CUresult result = d_.context_retain(&context_, device_);
  if (result != kDeviceUnavailable) return check(result, "making a context");
  return fail(TENON_UNAVAILABLE,
              "cuda: another program has the GPU to itself (compute mode exclusive-process); end "
              "it, or let programs share the GPU with `nvidia-smi -c 0`");
}

// The device's default pool serves other libraries of the process, so it is left as it is.
Status Runtime::start_pool() {
  PoolProperties properties;
  properties.device = device_;
  TENON_TRY(check(d_.pool_create(&pool_, &properties), "making a memory pool"));
  uint64_t keep = UINT64_MAX;
  TENON_TRY(check(d_.pool_set(pool_, kPoolReleaseThreshold, &keep), "setting up the memory pool"));
  stream::StreamHandle made = nullptr;
  TENON_TRY(stream_create(&made));
  pool_stream_ = stream_of(made);
  return {};
}

Runtime::~Runtime() {
  if (context_ == nullptr) return;
  if (pool_ != nullptr) {
    const stream::Current current(*this);
    if (pool_stream_ != nullptr) (void)d_.stream_synchronize(pool_stream_);
    (void)d_.pool_destroy(pool_);
    if (pool_stream_ != nullptr) (void)d_.stream_destroy(pool_stream_);
  }
  (void)d_.context_release(device_);
}

Status Runtime::enter() {
  return check(d_.context_push(context_), "making the device current");
}
void Runtime::leave() {
  CUcontext popped = nullptr;
  (void)d_.context_pop(&popped);
}

// ---- Streams and events ----

Status Runtime::stream_create(stream::StreamHandle* out) {
  const ProcessGuard guard;  // a stream may start a thread
  CUstream stream = nullptr;
  TENON_TRY(check(d_.stream_create(&stream, kStreamNonBlocking), "making a stream"));
  *out = stream;
  return {};
}
Status Runtime::stream_destroy(stream::StreamHandle stream) {
  return check(d_.stream_destroy(stream_of(stream)), "destroying a stream");
}
Status Runtime::stream_synchronize(stream::StreamHandle stream) {
  return check(d_.stream_synchronize(stream_of(stream)), "waiting for a stream");
}
Status Runtime::stream_wait(stream::StreamHandle stream, stream::EventHandle event) {
  return check(d_.stream_wait(stream_of(stream), event_of(event), 0), "waiting for an event");
}

Status Runtime::event_create(bool timed, stream::EventHandle* out) {
  CUevent event = nullptr;
  const unsigned flags = timed ? kEventBlockingSync : kEventBlockingSync | kEventDisableTiming;
  TENON_TRY(check(d_.event_create(&event, flags), "making an event"));
  *out = event;
  return {};
}
void Runtime::event_destroy(stream::EventHandle event) {
  (void)d_.event_destroy(event_of(event));
}
Status Runtime::event_record(stream::EventHandle event, stream::StreamHandle stream) {
  return check(d_.event_record(event_of(event), stream_of(stream)), "recording an event");
}
Status Runtime::event_synchronize(stream::EventHandle event) {
  return check(d_.event_synchronize(event_of(event)), "waiting for work on the device");
}
Status Runtime::event_elapsed(stream::EventHandle from, stream::EventHandle to, float* out_ms) {
  return check(d_.event_elapsed(out_ms, event_of(from), event_of(to)), "reading a kernel's time");
}

// ---- Memory ----

CUresult Runtime::alloc_from_pool(uint64_t size_bytes, CUdeviceptr* out) {
  CUresult result = d_.pool_alloc(out, size_bytes, pool_, pool_stream_);
  if (result != kSuccess) return result;
  result = d_.stream_synchronize(pool_stream_);
  if (result != kSuccess) (void)d_.pool_free(*out, pool_stream_);
  return result;
}

Status Runtime::alloc(uint64_t size_bytes, stream::Address* out) {
  CUdeviceptr address = 0;
  CUresult result =
      pool_ != nullptr ? alloc_from_pool(size_bytes, &address) : d_.mem_alloc(&address, size_bytes);
  if (result == kOutOfMemory && pool_ != nullptr) {
    // What other libraries use is not of this pool: give back what it keeps, and try again.
    (void)d_.stream_synchronize(pool_stream_);
    (void)d_.pool_trim(pool_, 0);
    result = alloc_from_pool(size_bytes, &address);
  }
  TENON_TRY(check(result, cat("allocating ", size_bytes, " bytes")));
  *out = address;
  return {};
}
Status Runtime::free(stream::Address address) {
  return check(pool_ != nullptr ? d_.pool_free(address, pool_stream_) : d_.mem_free(address),
               "freeing memory");
}

Status Runtime::alloc_pinned(uint64_t size_bytes, void** out) {
  return check(d_.host_alloc(out, size_bytes, kHostAllocPortable),
               cat("allocating ", size_bytes, " bytes of pinned memory"));
}
Status Runtime::free_pinned(void* data) {
  return check(d_.host_free(data), "freeing pinned memory");
}

Status Runtime::copy_in(stream::StreamHandle stream, stream::Address to, const void* from,
                        uint64_t bytes) {
  return check(d_.copy_in(to, from, bytes, stream_of(stream)), "copying to the device");
}
Status Runtime::copy_out(stream::StreamHandle stream, void* to, stream::Address from,
                         uint64_t bytes) {
  return check(d_.copy_out(to, from, bytes, stream_of(stream)), "copying from the device");
}
Status Runtime::copy_within(stream::StreamHandle stream, stream::Address to, stream::Address from,
                            uint64_t bytes) {
  return check(d_.copy_within(to, from, bytes, stream_of(stream)), "copying on the device");
}

Status Runtime::fill(stream::StreamHandle stream, stream::Address to, uint32_t pattern,
                     uint32_t width, uint64_t count) {
  const CUstream s = stream_of(stream);
  const CUresult result = width == 1 ? d_.fill_8(to, static_cast<unsigned char>(pattern), count, s)
                          : width == 2
                              ? d_.fill_16(to, static_cast<unsigned short>(pattern), count, s)
                              : d_.fill_32(to, pattern, count, s);
  return check(result, "filling memory");
}

Status Runtime::allocation_at(CUdeviceptr address, CUdeviceptr* out_end, bool* out_joins) {
  unsigned type = 0;
  int ordinal = -1;
  CUdeviceptr begin = 0;
  size_t size = 0;
  if (d_.pointer_attribute(&type, kPointerMemoryType, address) != kSuccess ||
      type != kMemoryTypeDevice)
    return fail(TENON_INVALID_ARGUMENT, "cuda: the pointer is not one of device memory");
  TENON_TRY(check(d_.pointer_attribute(&ordinal, kPointerDeviceOrdinal, address),
                  "asking for a pointer's device"));
  if (ordinal != device_)
    return fail(TENON_INVALID_ARGUMENT,
                cat("cuda: the memory is of device ", ordinal, ", not of device ", device_));
  // Memory of pools, and mapped memory, belong to the device; drivers answer null or not at all.
  CUcontext context = nullptr;
  CUmemoryPool pool = nullptr;
  if (d_.pointer_attribute(&context, kPointerContext, address) != kSuccess) context = nullptr;
  if (d_.pointer_attribute(&pool, kPointerPool, address) != kSuccess) pool = nullptr;
  if (context != nullptr && context != context_)
    return fail(
        TENON_INVALID_ARGUMENT,
        "cuda: the memory is of another context of this GPU; only the primary one is shared");
  TENON_TRY(check(d_.pointer_attribute(&begin, kPointerRangeStart, address),
                  "asking for a pointer's allocation"));
  TENON_TRY(check(d_.pointer_attribute(&size, kPointerRangeSize, address),
                  "asking for a pointer's allocation"));
  *out_end = begin + size;
  *out_joins = context == nullptr && pool == nullptr;
  return {};
}

// Libraries that map memory piece by piece (PyTorch's expandable segments) have allocations across
// several mappings, and the driver knows only the mappings.
Status Runtime::check_memory(stream::Address address, uint64_t bytes) {
  CUdeviceptr end = 0;
  bool joins = false;
  TENON_TRY(allocation_at(address, &end, &joins));
  while (end - address < bytes) {
    const CUdeviceptr next = end;
    if (!joins || !allocation_at(next, &end, &joins).ok() || !joins || end <= next)
      return fail(TENON_OUT_OF_RANGE, cat("cuda: the allocation ends ", next - address,
                                          " bytes after the pointer, before ", bytes));
  }
  return {};
}

// ---- Kernels ----

Status Runtime::launch(stream::StreamHandle stream, kernelgen::LoadedText& code,
                       const stream::Launch& launch) {
  constexpr uint64_t kMostGroups = INT32_MAX;
  if (launch.groups > kMostGroups)
    return fail(TENON_OUT_OF_RANGE, cat("cuda: ", launch.name, " needs ", launch.groups,
                                        " groups, more than ", kMostGroups));
  std::vector<void*> parameters;
  for (uint64_t& argument : launch.arguments) parameters.push_back(&argument);
  const CUfunction function = static_cast<Module&>(code).functions[launch.kernel];
  return check(d_.launch(function, static_cast<unsigned>(launch.groups), 1, 1, launch.group, 1, 1,
                         0, stream_of(stream), parameters.data(), nullptr),
               cat("starting ", launch.name));
}

}  // namespace tenon::cuda
