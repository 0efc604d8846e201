#include "runtime.h"

#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"

namespace tenon::cuda {

// ---- The context ----

Status Runtime::make(const Driver& driver, CUdevice device, bool pools,
                     std::unique_ptr<Runtime>* out) {
  std::unique_ptr<Runtime> made(new Runtime(driver, device));
  TENON_TRY(made->retain());
  const stream::Current current(*made);
  TENON_TRY(current.status());
  if (pools && driver.has_pools())
    TENON_TRY(made->check(made->pool_.start(device), "making a memory pool"));
  *out = std::move(made);
  return {};
}

Status Runtime::retain() {
  const ProcessGuard guard;  // a context starts threads
  TENON_TRY(relax());
  const CUresult result = d_.context_retain(&context_, device_);
  restore();
  if (result != kDeviceUnavailable) return check(result, "making a context");
  return fail(TENON_UNAVAILABLE,
              "cuda: another program has the GPU to itself (compute mode exclusive-process); end "
              "it, or let programs share the GPU with `nvidia-smi -c 0`");
}

Runtime::~Runtime() {
  if (context_ == nullptr) return;
  if (pool_.runs()) {
    const stream::Current current(*this);
    pool_.stop();
  }
  const bool relaxed = relax().ok();
  (void)d_.context_release(device_);
  if (relaxed) restore();
}

Status Runtime::enter() {
  TENON_TRY(check(d_.context_push(context_), "making the device current"));
  const Status relaxed = relax();
  if (!relaxed.ok()) pop();
  return relaxed;
}
void Runtime::leave() {
  restore();
  pop();
}
void Runtime::pop() {
  CUcontext popped = nullptr;
  (void)d_.context_pop(&popped);
}

// ---- Memory ----

Status Runtime::alloc(uint64_t size_bytes, stream::Address* out) {
  CUdeviceptr address = 0;
  TENON_TRY(
      check(pool_.runs() ? pool_.alloc(size_bytes, &address) : d_.mem_alloc(&address, size_bytes),
            cat("allocating ", size_bytes, " bytes")));
  *out = address;
  return {};
}
Status Runtime::free(stream::Address address) {
  return check(pool_.runs() ? pool_.free(address) : d_.mem_free(address), "freeing memory");
}

// Access is given once and for good. Without it the driver would copy by way of the host.
Status Runtime::reaches(stream::Runtime& from, bool* out) {
  auto& other = static_cast<Runtime&>(from);
  int can = 0;
  TENON_TRY(check(d_.can_access_peer(&can, device_, other.device_),
                  "asking whether the GPU reaches another one"));
  *out = false;
  if (can == 0) return {};
  const ProcessGuard guard;
  const CUresult result = d_.enable_peer(other.context_, 0);
  if (result == kPeerAccessUnsupported || result == kPeerAccessTooMany) return {};
  if (result != kPeerAccessAlreadyEnabled)
    TENON_TRY(check(result, "reaching the memory of another GPU"));
  if (other.pool_.runs())
    TENON_TRY(check(other.pool_.open_to(device_), "reaching the pool of another GPU"));
  *out = true;
  return {};
}
Status Runtime::copy_across(stream::StreamHandle stream, stream::Address to, stream::Runtime& from,
                            stream::Address address, uint64_t bytes) {
  return check(d_.copy_peer(to, context_, address, static_cast<Runtime&>(from).context_, bytes,
                            stream_of(stream)),
               "copying from another GPU");
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

// 0 is the default stream of the context that is current, which is ours.
Status Runtime::check_stream(stream::StreamHandle stream) {
  TENON_TRY(check_handle(stream));
  CUcontext context = nullptr;
  if (d_.stream_context(stream_of(stream), &context) != kSuccess)
    return fail(TENON_INVALID_ARGUMENT, "cuda: the handle is not one of a stream");
  if (context == context_) return check_records_nothing(stream);
  return fail(TENON_INVALID_ARGUMENT,
              "cuda: the stream is of another context; only the primary one of its GPU is shared");
}

// ---- Kernels ----

Status Runtime::check_groups(const stream::Launch& launch) const {
  constexpr uint64_t kMostGroups = INT32_MAX;
  if (launch.groups <= kMostGroups) return {};
  return fail(TENON_OUT_OF_RANGE, cat("cuda: ", launch.name, " needs ", launch.groups,
                                      " groups, more than ", kMostGroups));
}

Status Runtime::load_module(const std::string& ptx, CUmodule* out) const {
  char log[2048] = "";
  int options[] = {kJitErrorLog, kJitErrorLogBytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
  const CUresult result = d_.module_load(out, ptx.c_str(), 2, options, values);
  if (result == kUnsupportedPtxVersion) {
    return fail(TENON_UNAVAILABLE,
                "cuda: the driver is too old for this code; update it, or compile for an older "
                "target (--target sm_80)");
  }
  return check(result, cat("loading code", log[0] != '\0' ? ": " : "", std::string_view(log)));
}

}  // namespace tenon::cuda
