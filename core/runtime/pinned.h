// Host memory that a device copies to by itself (tenon_device_api_t::alloc_pinned), for results on
// their way to the host.
#pragma once
#include <memory>
#include <vector>

#include "core/runtime/device.h"

namespace tenon::runtime {

// The memory of one device for one Runner, reused by later runs.
class PinnedPool {
 public:
  explicit PinnedPool(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  // Null if the device has none, or no more: other memory serves as well. The memory may outlive
  // the pool. It counts against TENON_MEMORY_LIMIT.
  std::shared_ptr<std::byte> take(uint64_t size_bytes);
  // Memory of take() that nobody else has, and that no copy is on its way to; others are ignored.
  void give_back(const void* memory);
  // What was taken and not given back belongs to others now.
  void forget();
  // Frees memory that the run just ended did not use.
  void end_run();

 private:
  struct Block {
    std::shared_ptr<std::byte> memory;
    uint64_t size_bytes = 0;
    bool lent = false, used = false;  // used: in this run
  };
  std::shared_ptr<Device> device_;
  std::vector<Block> blocks_;
};

}  // namespace tenon::runtime
