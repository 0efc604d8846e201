#include "tenon/plan/regions.h"

#include <algorithm>

namespace tenon::plan {
namespace {

// How far to look ahead for steps: hoisted results live longer.
constexpr uint32_t kWindow = 12;

bool meet(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  return std::ranges::any_of(a, [&](uint32_t x) { return std::ranges::find(b, x) != b.end(); });
}

// Whether both write a buffer, and not disjoint elements of it.
bool collide(const Work& a, const Work& b) {
  return std::ranges::any_of(a.writes, [&](uint32_t x) {
    const bool own = std::ranges::find(a.parts, x) != a.parts.end() &&
                     std::ranges::find(b.parts, x) != b.parts.end();
    return !own && std::ranges::find(b.writes, x) != b.writes.end();
  });
}

bool depends(const Work& later, const Work& earlier) {
  return meet(later.reads, earlier.writes) || meet(later.writes, earlier.reads) ||
         collide(later, earlier);
}

}  // namespace

Regions find_regions(std::span<const Work> steps, double large_step_ns) {
  Regions out;
  const auto count = static_cast<uint32_t>(steps.size());
  std::vector<bool> taken(count);
  for (uint32_t first = 0; first < count; ++first) {
    if (taken[first]) {
      continue;
    }
    taken[first] = true;
    out.order.push_back(first);
    // Steps that a later one must not pass: the region itself, and those left out of it.
    std::vector<uint32_t> before = {first};
    const bool small = steps[first].estimated_ns <= large_step_ns;
    const uint32_t last = std::min(count, first + kWindow);
    for (uint32_t next = first + 1; small && next < last; ++next) {
      if (taken[next]) {
        continue;
      }
      const bool joins =
          steps[next].estimated_ns <= large_step_ns &&
          std::ranges::none_of(before, [&](uint32_t b) { return depends(steps[next], steps[b]); });
      before.push_back(next);
      if (joins) {
        taken[next] = true;
        out.order.push_back(next);
      }
    }
    out.ends.push_back(static_cast<uint32_t>(out.order.size()));
  }
  return out;
}

}  // namespace tenon::plan
