// Host memory that a device copies to by itself (tenon_device_api_t::alloc_pinned), for results on
// their way to the host, and for what is uploaded. Pinning costs more than most copies, so memory
// that comes back is kept.
//
// Threads: safe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tenon::runtime {

class Device;

// That of one device.
class PinnedMemory {
 public:
  explicit PinnedMemory(Device& device) : device_(device) {}
  // Frees what was kept. Nothing is lent any more, because what is lent keeps the device.
  void end();
  // Null if the device has none, or no more: other memory serves as well. Counts against
  // TENON_MEMORY_LIMIT. It comes back when the last owner is gone, on any thread.
  std::shared_ptr<std::byte> take(uint64_t size_bytes);

 private:
  struct Block {
    std::byte* data = nullptr;
    uint64_t size_bytes = 0;
  };
  std::byte* kept(uint64_t size_bytes);
  std::byte* allocate(uint64_t size_bytes);
  void give_back(Block block);
  void free(Block block);

  Device& device_;
  std::mutex mutex_;  // never held while the plugin is called
  std::vector<Block> kept_;
  uint64_t kept_bytes_ = 0;
};

}  // namespace tenon::runtime
