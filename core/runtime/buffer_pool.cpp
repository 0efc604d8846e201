#include <algorithm>

#include "core/runtime/run.h"

namespace tenon::runtime {

// A free buffer serves a smaller request if it wastes no more bytes than were requested, or than
// this.
constexpr uint64_t kSlackMin = 4096;

Result<std::shared_ptr<Buffer>> BufferPool::take(uint64_t size_bytes, bool* out_used) {
  if (out_used != nullptr) *out_used = false;
  Free* best = nullptr;
  for (Free& free : free_) {
    const uint64_t have = free.buffer->size_bytes();
    if (have < size_bytes || have - size_bytes > std::max(size_bytes, kSlackMin)) continue;
    if (best == nullptr || have < best->buffer->size_bytes()) best = &free;
  }
  if (best != nullptr) {
    std::shared_ptr<Buffer> buffer = std::move(best->buffer);
    if (out_used != nullptr) *out_used = best->used;
    *best = std::move(free_.back());
    free_.pop_back();
    return buffer;
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

}  // namespace tenon::runtime
