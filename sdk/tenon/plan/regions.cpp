#include "tenon/plan/regions.h"

#include <algorithm>
#include <vector>

namespace tenon::plan {
namespace {

// How far to look ahead for steps: hoisted results live longer. After a step of the same kernel,
// which is hoisted at no cost, as far again.
constexpr uint32_t kWindow = 12;

// Which buffers the steps read and write that a later one must not pass: the region itself, and
// those left out of it. By buffer, as the number of the region for which it was noted.
class Before {
 public:
  explicit Before(std::span<const Work> steps) {
    uint32_t most = 0;
    for (const Work& step : steps) {
      for (const auto list : {step.reads, step.writes}) {
        for (const uint32_t b : list) most = std::max(most, b + 1);
      }
    }
    for (auto* list : {&read_, &written_, &in_part_}) list->assign(most, 0);
  }
  void forget() { ++now_; }
  void add(const Work& step) {
    for (const uint32_t b : step.reads) read_[b] = now_;
    for (const uint32_t b : step.writes) {
      (std::ranges::find(step.parts, b) != step.parts.end() ? in_part_ : written_)[b] = now_;
    }
  }
  // Whether the step must come after one of them. Two that write parts of a buffer need not.
  bool precedes(const Work& step) const {
    const auto reads = [&](uint32_t b) { return written_[b] == now_ || in_part_[b] == now_; };
    const auto writes = [&](uint32_t b) {
      const bool part = std::ranges::find(step.parts, b) != step.parts.end();
      return read_[b] == now_ || written_[b] == now_ || (!part && in_part_[b] == now_);
    };
    return std::ranges::any_of(step.reads, reads) || std::ranges::any_of(step.writes, writes);
  }

 private:
  std::vector<uint32_t> read_, written_, in_part_;
  uint32_t now_ = 1;
};

}  // namespace

Regions find_regions(std::span<const Work> steps, double large_step_ns) {
  Regions out;
  const auto count = static_cast<uint32_t>(steps.size());
  std::vector<bool> taken(count);
  Before before(steps);
  for (uint32_t first = 0; first < count; ++first) {
    if (taken[first]) {
      continue;
    }
    taken[first] = true;
    out.order.push_back(first);
    before.forget();
    before.add(steps[first]);
    const bool small = steps[first].estimated_ns <= large_step_ns;
    const uint32_t kernel = steps[first].kernel;
    const uint32_t near = std::min(count, first + kWindow);
    uint32_t last = near;
    double region_ns = steps[first].estimated_ns;
    for (uint32_t next = first + 1; small && next < last; ++next) {
      if (taken[next]) {
        continue;
      }
      const bool alike = kernel != kNoKernel && steps[next].kernel == kernel;
      const bool joins = (alike || next < near) && steps[next].estimated_ns <= large_step_ns &&
                         !before.precedes(steps[next]);
      before.add(steps[next]);
      if (joins) {
        taken[next] = true;
        out.order.push_back(next);
      }
      region_ns += joins ? steps[next].estimated_ns : 0;
      // What one step makes and a later one reads should still be in the cache.
      if (joins && alike && region_ns <= large_step_ns) {
        last = std::max(last, std::min(count, next + kWindow));
      }
    }
    out.ends.push_back(static_cast<uint32_t>(out.order.size()));
  }
  return out;
}

}  // namespace tenon::plan
