// Places buffers with known lifetimes in one arena.
//
// Called when a new tuple of concrete shapes arrives, so it has to be fast: greedy by size, each
// buffer into the tightest gap among those that live at the same time (arXiv 2001.03288 compares
// the orders; by size is within a few per cent of the bound on networks). 1,000 buffers: under 1
// ms. Above some thousand buffers one pass over time, the tightest free range for each, keeps the
// time proportional to their number.
#ifndef TENON_PLAN_MEMORY_PLANNER_H_
#define TENON_PLAN_MEMORY_PLANNER_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::plan {

inline constexpr uint32_t kNoAlias = UINT32_MAX;
inline constexpr uint64_t kAlignmentBytes = 64;  // A cache line, and the widest vector.

// One buffer, alive from the step that writes it to the last that reads it, both included.
struct Lifetime {
  uint64_t size_bytes = 0;
  uint32_t first_step = 0;
  uint32_t last_step = 0;
  // Index of an earlier buffer whose memory this one takes over: the step that writes this one is
  // the last to read that one, and reads an element before it writes the same element. The sizes
  // may differ; the group gets the largest.
  uint32_t in_place_of = kNoAlias;
};

struct MemoryPlan {
  std::vector<uint64_t> offsets;   // One per lifetime, multiples of kAlignmentBytes.
  uint64_t arena_bytes = 0;        // A multiple of kAlignmentBytes.
  uint64_t lower_bound_bytes = 0;  // The most bytes alive at one step, after aliasing.
};

enum class MemoryError {
  kNone,
  kOverflow,     // Sizes add up to more than 2^63 bytes.
  kBadLifetime,  // first_step after last_step.
  kBadAlias,     // in_place_of names itself, a later buffer, or one that lives on.
};

// Fills `out`. On an error `out` is untouched. Safe.
MemoryError plan_memory(std::span<const Lifetime> lifetimes, MemoryPlan& out);

}  // namespace tenon::plan
#endif
