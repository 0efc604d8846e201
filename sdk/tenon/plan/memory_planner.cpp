#include "tenon/plan/memory_planner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tenon::plan {
namespace {

// Sums of two such values cannot wrap.
constexpr uint64_t kMaxBytes = UINT64_C(1) << 62;

struct Block {
  uint64_t size = 0;  // Rounded up to the alignment.
  uint32_t first = 0;
  uint32_t last = 0;
  uint64_t offset = 0;
};

uint64_t round_up(uint64_t size) {
  return (size + kAlignmentBytes - 1) & ~(kAlignmentBytes - 1);
}

// Joins in-place chains: block_of[i] is the block of buffer i.
MemoryError make_blocks(std::span<const Lifetime> lifetimes, std::vector<Block>& blocks,
                        std::vector<uint32_t>& block_of) {
  block_of.resize(lifetimes.size());
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& life = lifetimes[i];
    if (life.first_step > life.last_step) {
      return MemoryError::kBadLifetime;
    }
    if (life.size_bytes > kMaxBytes) {
      return MemoryError::kOverflow;
    }
    const uint64_t size = round_up(life.size_bytes);
    if (life.in_place_of == kNoAlias) {
      block_of[i] = static_cast<uint32_t>(blocks.size());
      blocks.push_back({size, life.first_step, life.last_step, 0});
      continue;
    }
    // A block that is needed after the step would be overwritten before its reader.
    if (life.in_place_of >= i || blocks[block_of[life.in_place_of]].last != life.first_step ||
        lifetimes[life.in_place_of].last_step != life.first_step) {
      return MemoryError::kBadAlias;
    }
    block_of[i] = block_of[life.in_place_of];
    Block& block = blocks[block_of[i]];
    block.size = std::max(block.size, size);
    block.last = life.last_step;
  }
  return MemoryError::kNone;
}

MemoryError live_bytes(const std::vector<Block>& blocks, uint64_t& out) {
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> changes;  // step -> (added, removed)
  uint64_t total = 0;
  for (const Block& block : blocks) {
    if (block.size > kMaxBytes - total) {
      return MemoryError::kOverflow;  // Also bounds the arena: no plan exceeds the sum.
    }
    total += block.size;
    changes[block.first].first += block.size;
    changes[uint64_t{block.last} + 1].second += block.size;
  }
  uint64_t live = 0;
  out = 0;
  for (const auto& [step, change] : changes) {
    live = live - change.second + change.first;
    out = std::max(out, live);
  }
  return MemoryError::kNone;
}

// Above this many blocks, one pass over time replaces the search of gaps, which is quadratic.
constexpr size_t kSearchedBlocks = 2048;

// Free ranges of the arena, by offset and by size.
class FreeRanges {
 public:
  // The smallest range that holds `size`, or memory at the end.
  uint64_t take(uint64_t size) {
    const auto found = by_size_.lower_bound({size, 0});
    if (found == by_size_.end()) {
      return extend(size);
    }
    const auto [bytes, offset] = *found;
    remove(offset, bytes);
    if (bytes > size) {
      insert(offset + size, bytes - size);
    }
    return offset;
  }
  void give(uint64_t offset, uint64_t size) {
    auto after = by_place_.lower_bound(offset);
    if (after != by_place_.end() && after->first == offset + size) {
      const uint64_t bytes = after->second;
      remove(offset + size, bytes);
      size += bytes;
    }
    after = by_place_.lower_bound(offset);
    if (after != by_place_.begin()) {
      const auto [before, bytes] = *std::prev(after);
      if (before + bytes == offset) {
        remove(before, bytes);
        offset = before;
        size += bytes;
      }
    }
    insert(offset, size);
  }
  uint64_t end() const { return end_; }

 private:
  // Uses a free range at the end first.
  uint64_t extend(uint64_t size) {
    uint64_t offset = end_;
    if (!by_place_.empty()) {
      const auto [last, bytes] = *std::prev(by_place_.end());
      if (last + bytes == end_) {
        remove(last, bytes);
        offset = last;
      }
    }
    end_ = offset + size;
    return offset;
  }
  void insert(uint64_t offset, uint64_t size) {
    by_place_[offset] = size;
    by_size_.insert({size, offset});
  }
  void remove(uint64_t offset, uint64_t size) {
    by_place_.erase(offset);
    by_size_.erase({size, offset});
  }
  std::map<uint64_t, uint64_t> by_place_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;
  uint64_t end_ = 0;
};

// In order of first step; of blocks that begin together, the larger first.
uint64_t place_by_time(std::vector<Block>& blocks) {
  std::vector<uint32_t> begin(blocks.size());
  std::iota(begin.begin(), begin.end(), 0u);
  std::vector<uint32_t> end = begin;
  std::sort(begin.begin(), begin.end(), [&](uint32_t a, uint32_t b) {
    if (blocks[a].first != blocks[b].first) return blocks[a].first < blocks[b].first;
    return blocks[a].size != blocks[b].size ? blocks[a].size > blocks[b].size : a < b;
  });
  std::sort(end.begin(), end.end(), [&](uint32_t a, uint32_t b) {
    return blocks[a].last != blocks[b].last ? blocks[a].last < blocks[b].last : a < b;
  });
  FreeRanges free;
  size_t ended = 0;
  for (uint32_t index : begin) {
    Block& block = blocks[index];
    for (; ended < end.size() && blocks[end[ended]].last < block.first; ++ended) {
      const Block& over = blocks[end[ended]];
      if (over.size != 0) {
        free.give(over.offset, over.size);
      }
    }
    if (block.size != 0) {
      block.offset = free.take(block.size);
    }
  }
  return free.end();
}

// The tightest gap between blocks that live at the same time, else the end of the last one.
// `placed` is in order of offset.
uint64_t best_offset(const std::vector<const Block*>& placed, const Block& block) {
  uint64_t best = UINT64_MAX;
  uint64_t best_gap = UINT64_MAX;
  uint64_t end = 0;
  for (const Block* other : placed) {
    if (other->last < block.first || block.last < other->first) {
      continue;
    }
    if (other->offset > end) {
      const uint64_t gap = other->offset - end;
      if (gap >= block.size && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
    }
    end = std::max(end, other->offset + other->size);
  }
  return best == UINT64_MAX ? end : best;
}

// Greedy by size, each into the tightest gap.
uint64_t place_by_size(std::vector<Block>& blocks) {
  uint64_t arena_bytes = 0;
  std::vector<uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return blocks[a].size != blocks[b].size ? blocks[a].size > blocks[b].size : a < b;
  });
  std::vector<const Block*> placed;
  placed.reserve(blocks.size());
  for (uint32_t index : order) {
    Block& block = blocks[index];
    if (block.size == 0) {
      continue;
    }
    block.offset = best_offset(placed, block);
    arena_bytes = std::max(arena_bytes, block.offset + block.size);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &block,
                         [](const Block* a, const Block* b) { return a->offset < b->offset; }),
        &block);
  }
  return arena_bytes;
}

}  // namespace

MemoryError plan_memory(std::span<const Lifetime> lifetimes, MemoryPlan& out) {
  std::vector<Block> blocks;
  std::vector<uint32_t> block_of;
  MemoryPlan plan;
  if (MemoryError error = make_blocks(lifetimes, blocks, block_of); error != MemoryError::kNone) {
    return error;
  }
  if (MemoryError error = live_bytes(blocks, plan.lower_bound_bytes); error != MemoryError::kNone) {
    return error;
  }
  plan.arena_bytes =
      blocks.size() > kSearchedBlocks ? place_by_time(blocks) : place_by_size(blocks);
  plan.offsets.reserve(lifetimes.size());
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    plan.offsets.push_back(blocks[block_of[i]].offset);
  }
  out = std::move(plan);
  return MemoryError::kNone;
}

}  // namespace tenon::plan
