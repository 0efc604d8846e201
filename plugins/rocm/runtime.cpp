#include "runtime.h"

#include <vector>

#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/process_guard.hpp"

namespace tenon::rocm {
namespace {

// The devices that were current on this thread before each enter().
std::vector<int>& entered() {
  static thread_local std::vector<int> devices;
  return devices;
}

}  // namespace

Status Runtime::make(const Driver& driver, hipDevice_t device, std::unique_ptr<Runtime>* out) {
  std::unique_ptr<Runtime> made(new Runtime(driver, device));
  int pools = 0;  // runtimes without pools do not know the attribute
  if (driver.has_pools()) {
    TENON_TRY(made->check(driver.device_attribute(&pools, kAttributeMemoryPools, device),
                          "asking for a device's properties"));
  }
  if (pools != 0) {
    const stream::Current current(*made);
    TENON_TRY(current.status());
    TENON_TRY(made->check(made->pool_.start(device), "making a memory pool"));
  }
  *out = std::move(made);
  return {};
}

Runtime::~Runtime() {
  if (!pool_.runs()) return;
  const stream::Current current(*this);
  pool_.stop();
}

Status Runtime::enter() {
  int before = 0;
  TENON_TRY(check(d_.device_current(&before), "asking which device is current"));
  if (before != device_)
    TENON_TRY(check(d_.device_make_current(device_), "making the device current"));
  const Status relaxed = relax();
  if (!relaxed.ok()) {
    if (before != device_) (void)d_.device_make_current(before);
    return relaxed;
  }
  entered().push_back(before);
  return {};
}
void Runtime::leave() {
  restore();
  const int before = entered().back();
  entered().pop_back();
  if (before != device_) (void)d_.device_make_current(before);
}

Status Runtime::alloc(uint64_t size_bytes, stream::Address* out) {
  void* data = nullptr;
  TENON_TRY(check(pool_.runs() ? pool_.alloc(size_bytes, &data) : d_.mem_alloc(&data, size_bytes),
                  cat("allocating ", size_bytes, " bytes")));
  *out = reinterpret_cast<stream::Address>(data);
  return {};
}
Status Runtime::free(stream::Address address) {
  return check(pool_.runs() ? pool_.free(pointer(address)) : d_.mem_free(pointer(address)),
               "freeing memory");
}

// Access is given once and for good. Without it the runtime would copy by way of the host.
Status Runtime::reaches(stream::Runtime& from, bool* out) {
  auto& other = static_cast<Runtime&>(from);
  int can = 0;
  *out = false;
  TENON_TRY(check(d_.can_access_peer(&can, device_, other.device_),
                  "asking whether the GPU reaches another one"));
  if (can == 0) return {};
  const ProcessGuard guard;
  const hipError_t result = d_.enable_peer(other.device_, 0);
  if (result == kPeerAccessUnsupported) return {};
  if (result != kPeerAccessAlreadyEnabled)
    TENON_TRY(check(result, "reaching the memory of another GPU"));
  if (other.pool_.runs())
    TENON_TRY(check(other.pool_.open_to(device_), "reaching the pool of another GPU"));
  *out = true;
  return {};
}
Status Runtime::copy_across(stream::StreamHandle stream, stream::Address to, stream::Runtime& from,
                            stream::Address address, uint64_t bytes) {
  return check(d_.copy_peer(pointer(to), device_, pointer(address),
                            static_cast<Runtime&>(from).device_, bytes, stream_of(stream)),
               "copying from another GPU");
}

Status Runtime::check_memory(stream::Address address, uint64_t bytes) {
  int ordinal = -1;
  hipDeviceptr_t begin = nullptr;
  size_t size = 0;
  if (d_.pointer_attribute(&ordinal, kPointerDeviceOrdinal, pointer(address)) != kSuccess ||
      d_.pointer_range(&begin, &size, pointer(address)) != kSuccess)
    return fail(TENON_INVALID_ARGUMENT, "rocm: the pointer is not one of device memory");
  if (ordinal != device_)
    return fail(TENON_INVALID_ARGUMENT,
                cat("rocm: the memory is of device ", ordinal, ", not of device ", device_));
  const uint64_t left = reinterpret_cast<stream::Address>(begin) + size - address;
  if (bytes > left)
    return fail(TENON_OUT_OF_RANGE, cat("rocm: the allocation ends ", left,
                                        " bytes after the pointer, before ", bytes));
  return {};
}

// The runtime counts work items, not groups, in 32 bits.
Status Runtime::check_groups(const stream::Launch& launch) const {
  constexpr uint64_t kMostItems = INT32_MAX;
  if (launch.group != 0 && launch.groups <= kMostItems / launch.group) return {};
  return fail(TENON_OUT_OF_RANGE,
              cat("rocm: ", launch.name, " needs ", launch.groups, " groups of ", launch.group,
                  ", more than ", kMostItems, " work items"));
}

Status Runtime::load_module(const std::string& image, hipModule_t* out) const {
  return check(d_.module_load(out, image.data()), "loading code");
}

}  // namespace tenon::rocm
