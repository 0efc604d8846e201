#include "core/runtime/pinned.h"

#include <algorithm>
#include <utility>

#include "core/base/errors/failure.h"

namespace tenon::runtime {
namespace {

// Of all pools of a process. Pinned pages are lost to the rest of the system.
constexpr uint64_t kPinnedMaxBytes = uint64_t{256} << 20;
std::atomic<uint64_t> g_pinned_bytes{0};

void release(const std::shared_ptr<Device>& device, std::byte* data, uint64_t size_bytes) {
  if (device->abandoned()) {
    device->leave_behind(data);
  } else if (!plugins_shut_down()) {
    const tenon_device_api_t* api = device->apis().device;
    auto guard = device->serialise();
    (void)api->free_pinned(api->self, device->handle(), data);
  }
  g_pinned_bytes.fetch_sub(size_bytes, std::memory_order_relaxed);
  memory_return(size_bytes);
}

// Counts the bytes, or gives false if they may not be taken.
bool reserve(uint64_t size_bytes) {
  if (size_bytes > kPinnedMaxBytes ||
      g_pinned_bytes.fetch_add(size_bytes, std::memory_order_relaxed) >
          kPinnedMaxBytes - size_bytes) {
    if (size_bytes <= kPinnedMaxBytes)
      g_pinned_bytes.fetch_sub(size_bytes, std::memory_order_relaxed);
    return false;
  }
  if (memory_reserve(size_bytes, "pinned memory").ok()) return true;
  g_pinned_bytes.fetch_sub(size_bytes, std::memory_order_relaxed);
  clear_failure();
  return false;
}

std::shared_ptr<std::byte> allocate(const std::shared_ptr<Device>& device, uint64_t size_bytes) {
  const tenon_device_api_t* api = device->apis().device;
  if (api->alloc_pinned == nullptr || api->free_pinned == nullptr || !reserve(size_bytes))
    return nullptr;
  void* data = nullptr;
  {
    auto guard = device->serialise();
    clear_failure();
    if (api->alloc_pinned(api->self, device->handle(), size_bytes, &data) != TENON_OK)
      data = nullptr;
    clear_failure();
  }
  if (data == nullptr) {
    g_pinned_bytes.fetch_sub(size_bytes, std::memory_order_relaxed);
    memory_return(size_bytes);
    return nullptr;
  }
  return {static_cast<std::byte*>(data),
          [device, size_bytes](std::byte* memory) { release(device, memory, size_bytes); }};
}

}  // namespace

std::shared_ptr<std::byte> PinnedPool::take(uint64_t size_bytes) {
  for (Block& block : blocks_) {
    if (block.lent || block.size_bytes != size_bytes) continue;
    block.lent = block.used = true;
    return block.memory;
  }
  std::shared_ptr<std::byte> memory = allocate(device_, size_bytes);
  if (memory != nullptr) blocks_.push_back({memory, size_bytes, true, true});
  return memory;
}

void PinnedPool::give_back(const void* memory) {
  for (Block& block : blocks_) {
    if (block.memory.get() == memory) block.lent = false;
  }
}

void PinnedPool::forget() {
  std::erase_if(blocks_, [](const Block& block) { return block.lent; });
}

void PinnedPool::end_run() {
  std::erase_if(blocks_, [](Block& block) {
    const bool used = std::exchange(block.used, false);
    return !used && !block.lent;
  });
}

}  // namespace tenon::runtime
