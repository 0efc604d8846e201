#include "core/runtime/device/pinned.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <utility>

#include "core/base/errors/failure.h"
#include "core/runtime/device/device.h"

namespace tenon::runtime {
namespace {

// Lent by all devices of a process: pinned pages are lost to the rest of the system. Kept by one.
constexpr uint64_t kLentMaxBytes = uint64_t{256} << 20, kKeptMaxBytes = uint64_t{64} << 20;
constexpr uint64_t kSmallestBytes = 4096, kStepBytes = uint64_t{1} << 20;
std::atomic<uint64_t> g_lent_bytes{0};

// Sizes are rounded, so that calls of changing sizes find memory that was kept.
uint64_t rounded(uint64_t size_bytes) {
  if (size_bytes >= kStepBytes) return (size_bytes + kStepBytes - 1) / kStepBytes * kStepBytes;
  return std::bit_ceil(std::max(size_bytes, kSmallestBytes));
}

// Counts the bytes, or gives false if they may not be lent.
bool reserve(uint64_t size_bytes) {
  if (g_lent_bytes.fetch_add(size_bytes, std::memory_order_relaxed) <= kLentMaxBytes - size_bytes &&
      memory_reserve(size_bytes, "pinned memory").ok())
    return true;
  g_lent_bytes.fetch_sub(size_bytes, std::memory_order_relaxed);
  clear_failure();
  return false;
}

void unreserve(uint64_t size_bytes) {
  g_lent_bytes.fetch_sub(size_bytes, std::memory_order_relaxed);
  memory_return(size_bytes);
}

}  // namespace

void PinnedMemory::end() {
  for (const Block& block : std::exchange(kept_, {})) free(block);
}

std::shared_ptr<std::byte> PinnedMemory::take(uint64_t size_bytes) {
  const tenon_device_api_t* api = device_.apis().device;
  if (api->alloc_pinned == nullptr || api->free_pinned == nullptr || size_bytes > kLentMaxBytes)
    return nullptr;
  const uint64_t size = rounded(size_bytes);
  if (size > kLentMaxBytes || !reserve(size)) return nullptr;
  std::byte* data = kept(size);
  if (data == nullptr) data = allocate(size);
  if (data == nullptr) {
    unreserve(size);
    return nullptr;
  }
  return {data, [device = device_.shared_from_this(), size](std::byte* memory) {
            unreserve(size);
            device->pinned().give_back({memory, size});
          }};
}

std::byte* PinnedMemory::kept(uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(kept_, size_bytes, &Block::size_bytes);
  if (at == kept_.end()) return nullptr;
  std::byte* const data = at->data;
  *at = kept_.back();
  kept_.pop_back();
  kept_bytes_ -= size_bytes;
  return data;
}

std::byte* PinnedMemory::allocate(uint64_t size_bytes) {
  const tenon_device_api_t* api = device_.apis().device;
  void* data = nullptr;
  auto guard = device_.serialise();
  clear_failure();
  if (api->alloc_pinned(api->self, device_.handle(), size_bytes, &data) != TENON_OK) data = nullptr;
  clear_failure();
  return static_cast<std::byte*>(data);
}

void PinnedMemory::give_back(Block block) {
  if (!device_.abandoned() && !plugins_shut_down()) {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + block.size_bytes <= kKeptMaxBytes) {
      try {
        kept_.push_back(block);
        kept_bytes_ += block.size_bytes;
        return;
      } catch (const std::bad_alloc&) {  // it is freed
      }
    }
  }
  free(block);
}

void PinnedMemory::free(Block block) {
  if (device_.abandoned()) {
    device_.leave_behind(block.data);
  } else if (!plugins_shut_down()) {
    const tenon_device_api_t* api = device_.apis().device;
    auto guard = device_.serialise();
    (void)api->free_pinned(api->self, device_.handle(), block.data);
  }
}

}  // namespace tenon::runtime
