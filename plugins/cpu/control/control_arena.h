// Memory of one execution of control flow: the caller's workspace first, then blocks allocated for
// data-dependent sizes. Releasing a mark, at the end of a region, frees everything taken since.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_ARENA_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_ARENA_H_

#include <cstdint>
#include <vector>

#include "device.h"
#include "tenon/cpp/status.hpp"

namespace tenon::cpu {

// Memory that grows and keeps its contents. Capacity at least doubles, so appending an element
// takes amortised constant time.
class GrowingBlock {
 public:
  GrowingBlock() = default;
  GrowingBlock(GrowingBlock&& other) noexcept;
  GrowingBlock& operator=(GrowingBlock&&) = delete;
  ~GrowingBlock();
  // T0609, with the size, when there is not enough memory.
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
  // Aligned to kAlignmentBytes.
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
  // A block that the arena owns. `out` is valid until the next block is taken.
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
