#include "runtime.h"

#include <vector>

namespace tenon::rocm {
namespace {

// The devices that were current on this thread before each enter().
std::vector<int>& entered() {
  static thread_local std::vector<int> devices;
  return devices;
}

}  // namespace

Status Runtime::enter() {
  int before = 0;
  TENON_TRY(check(d_.device_current(&before), "asking which device is current"));
  if (before != device_)
    TENON_TRY(check(d_.device_make_current(device_), "making the device current"));
  entered().push_back(before);
  return {};
}
void Runtime::leave() {
  const int before = entered().back();
  entered().pop_back();
  if (before != device_) (void)d_.device_make_current(before);
}

Status Runtime::alloc(uint64_t size_bytes, stream::Address* out) {
  void* data = nullptr;
  TENON_TRY(check(d_.mem_alloc(&data, size_bytes), cat("allocating ", size_bytes, " bytes")));
  *out = reinterpret_cast<stream::Address>(data);
  return {};
}
Status Runtime::free(stream::Address address) {
  return check(d_.mem_free(pointer(address)), "freeing memory");
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
