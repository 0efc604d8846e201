// Memory of one execution of control flow: the caller's workspace from below, and blocks of its own
// where sizes were not known before. Freed by going back to a mark, as regions end.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_ARENA_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_ARENA_H_

#include <cstdint>
#include <vector>

#include "device.h"
#include "tenon/cpp/status.hpp"

namespace tenon::cpu {

// Memory that grows, keeping what is in it. At least doubles, so that growing by elements costs a
// constant time each.
class GrowingBlock {
 public:
  GrowingBlock() = default;
  GrowingBlock(GrowingBlock&& other) noexcept;
  GrowingBlock& operator=(GrowingBlock&&) = delete;
  ~GrowingBlock();
  // T0609 with the bytes asked for.
  Status reserve(uint64_t bytes);
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  uint64_t capacity_ = 0;
};

class ControlArena {
 public:
  ControlArena(char* base, uint64_t bytes) : base_(base), limit_(bytes) {}
  struct Mark {
    uint64_t used;
    size_t blocks;
  };
  Mark mark() const { return {used_, blocks_.size()}; }
  void release(const Mark& mark) {
    used_ = mark.used;
    while (blocks_.size() > mark.blocks) blocks_.pop_back();
  }
  // Aligned to kAlignmentBytes; at least one byte.
  Status take(uint64_t bytes, char** out) {
    const uint64_t size = (bytes + kAlignmentBytes - 1) & ~(kAlignmentBytes - 1);
    if (size <= limit_ - used_ && size >= bytes) {
      *out = base_ + used_;
      used_ += size;
      return {};
    }
    GrowingBlock* block = nullptr;
    TENON_TRY(take_block(bytes, &block));
    *out = block->data();
    return {};
  }
  // A block that the arena owns; the pointer is good until the next one is taken.
  Status take_block(uint64_t bytes, GrowingBlock** out) {
    TENON_TRY(blocks_.emplace_back().reserve(bytes));
    *out = &blocks_.back();
    return {};
  }

 private:
  char* base_;
  uint64_t limit_, used_ = 0;
  std::vector<GrowingBlock> blocks_;
};

}  // namespace tenon::cpu
#endif
