#include "core/runtime/run/buffer_pool.h"

#include <algorithm>

namespace tenon::runtime {

// A free buffer serves a smaller request if it wastes no more bytes than were requested, or than
// this. A buffer that leaves may be kept for long, with all that it wastes.
constexpr uint64_t kSlackMin = 4096, kSlackOfLeaving = 8;
// Smaller buffers are not worth a lock.
constexpr uint64_t kOfferedMin = 64 << 10;

// The smallest that fits; null if none does.
BufferPool::Free* BufferPool::best_fit(uint64_t size_bytes, uint64_t slack_bytes) {
  Free* best = nullptr;
  for (Free& free : free_) {
    const uint64_t have = free.buffer->size_bytes();
    if (have < size_bytes || have - size_bytes > slack_bytes) continue;
    if (best == nullptr || have < best->buffer->size_bytes()) best = &free;
  }
  return best;
}

std::shared_ptr<Buffer> BufferPool::remove(Free* free) {
  std::shared_ptr<Buffer> buffer = std::move(free->buffer);
  *free = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

Result<std::shared_ptr<Buffer>> BufferPool::take(uint64_t size_bytes, bool* out_used, bool leaves) {
  if (out_used != nullptr) *out_used = false;
  const uint64_t slack = std::max(leaves ? size_bytes / kSlackOfLeaving : size_bytes, kSlackMin);
  if (Free* const best = best_fit(size_bytes, slack); best != nullptr) {
    if (out_used != nullptr) *out_used = best->used;
    return remove(best);
  }
  if (size_bytes >= kOfferedMin && !leaves) {
    if (auto buffer = take_offered(size_bytes, slack); buffer != nullptr) return buffer;
  }
  auto made = Buffer::allocate(device_, size_bytes);
  if (!made.ok() && made.status().code() == TENON_RESOURCE_EXHAUSTED && !free_.empty()) {
    // Unused buffers may hold the missing memory. Queued work may still use them, since buffers are
    // returned at submission.
    TENON_RETURN_IF_ERROR(wait_());
    for (const Free& free : free_) held_bytes_ -= free.buffer->size_bytes();
    free_.clear();
    made = Buffer::allocate(device_, size_bytes);
  }
  TENON_ASSIGN_OR_RETURN(Buffer buffer, std::move(made));
  held_bytes_ += size_bytes;
  return std::make_shared<Buffer>(std::move(buffer));
}

void BufferPool::give_back(std::shared_ptr<Buffer> buffer) {
  try {
    free_.push_back({buffer, true});
  } catch (const std::bad_alloc&) {  // the end of a call must not throw
    forget(*buffer);
  }
}

void BufferPool::offer() {
  if (device_->has_queue() || offered_) return;
  const auto worth = [](const Free& free) { return free.buffer->size_bytes() >= kOfferedMin; };
  if (std::ranges::none_of(free_, worth)) return;
  const std::lock_guard lock(device_->idle_pools().mutex);
  try {
    device_->idle_pools().pools.push_back(this);
    offered_ = true;
  } catch (const std::bad_alloc&) {  // the end of a call must not throw
  }
}

void BufferPool::withdraw() {
  if (!offered_) return;
  const std::lock_guard lock(device_->idle_pools().mutex);
  std::erase(device_->idle_pools().pools, this);
  offered_ = false;
}

std::shared_ptr<Buffer> BufferPool::take_offered(uint64_t size_bytes, uint64_t slack_bytes) {
  const std::lock_guard lock(device_->idle_pools().mutex);
  BufferPool* from = nullptr;
  Free* best = nullptr;
  for (BufferPool* pool : device_->idle_pools().pools) {
    Free* const fit = pool->best_fit(size_bytes, slack_bytes);
    if (fit == nullptr) continue;
    if (best != nullptr && fit->buffer->size_bytes() >= best->buffer->size_bytes()) continue;
    best = fit;
    from = pool;
  }
  if (best == nullptr) return nullptr;
  std::shared_ptr<Buffer> buffer = from->remove(best);
  from->forget(*buffer);
  adopt(*buffer);
  return buffer;
}

void BufferPool::begin_run() {
  for (Free& free : free_) free.used = false;
}

void BufferPool::end_run() {
  for (size_t i = 0; i < free_.size();) {
    if (free_[i].used) {
      free_[i++].used = false;
      continue;
    }
    held_bytes_ -= free_[i].buffer->size_bytes();
    free_[i] = std::move(free_.back());
    free_.pop_back();
  }
}

// ---- RunMemory ----

RunMemory::RunMemory(const Plan& plan, std::function<Status(uint32_t device)> wait)
    : wait_(std::move(wait)) {
  for (uint32_t d = 0; d < plan.devices.size(); ++d)
    devices_.push_back({BufferPool(plan.devices[d], [this, d] { return wait_(d); })});
}

void RunMemory::begin_run() {
  for (OfDevice& device : devices_) {
    device.pool.begin_run();
    device.last_workspace_bytes = std::exchange(device.workspace_bytes, 0);
  }
}

uint64_t RunMemory::end_run() {
  uint64_t held_bytes = 0;
  for (OfDevice& device : devices_) {
    held_bytes += device.pool.held_bytes();
    device.pool.end_run();
  }
  return held_bytes;
}

void RunMemory::offer() {
  for (OfDevice& device : devices_) device.pool.offer();
}

void RunMemory::withdraw() {
  for (OfDevice& device : devices_) device.pool.withdraw();
}

// Once more if memory was short and others gave some back.
template <class Take>
auto RunMemory::or_reclaimed(Take take) {
  auto taken = take();
  const bool again =
      !taken.ok() && taken.status().code() == TENON_RESOURCE_EXHAUSTED && reclaim_ && reclaim_();
  return again ? take() : std::move(taken);
}

Result<std::shared_ptr<Buffer>> RunMemory::take(uint32_t device, uint64_t size_bytes,
                                                bool* out_used, bool leaves) {
  return or_reclaimed([&] { return pool(device).take(size_bytes, out_used, leaves); });
}

// As much as any step has needed lately, so that one buffer serves all of them; where there is not
// so much memory, such as after a run with larger sizes, what this step needs.
Result<std::shared_ptr<Buffer>> RunMemory::take_workspace(uint32_t device, uint64_t size_bytes) {
  OfDevice& state = devices_[device];
  state.workspace_bytes = std::max(state.workspace_bytes, size_bytes);
  const uint64_t bytes = std::max(state.workspace_bytes, state.last_workspace_bytes);
  Result<std::shared_ptr<Buffer>> taken = take(device, bytes);
  if (bytes == size_bytes || taken.ok() || taken.status().code() != TENON_RESOURCE_EXHAUSTED)
    return taken;
  return take(device, size_bytes);
}

Result<std::shared_ptr<std::byte>> RunMemory::take_host(uint64_t size_bytes, bool zeroed) {
  return or_reclaimed([&] { return host_memory(size_bytes, zeroed); });
}

void RunMemory::release(uint32_t device, SlotPlace& place) {
  if (place.buffer != nullptr && place.pooled) pool(device).give_back(std::move(place.buffer));
  place = {};
}

}  // namespace tenon::runtime
