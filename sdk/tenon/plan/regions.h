// Horizontal fusion: which steps of a plan run side by side, as one region of the pool.
//
// Called when a new tuple of concrete shapes arrives, since what is small and what is large is
// known only then. Steps that depend on nothing in a region join it, also past others, unless they
// are large: a large step fills all threads by itself. Linear in the number of steps.
#ifndef TENON_PLAN_REGIONS_H_
#define TENON_PLAN_REGIONS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::plan {

// What one step does to which buffers (in the owner's numbering).
struct Work {
  std::span<const uint32_t> reads;
  std::span<const uint32_t> writes;
  // Of the writes: buffers of which other steps write other elements, so that the order does not
  // matter.
  std::span<const uint32_t> parts;
  double estimated_ns = 0;  // On one thread.
};

struct Regions {
  std::vector<uint32_t> order;  // All steps, in an order that respects their data.
  std::vector<uint32_t> ends;   // Of each region, in `order`.
};

// Steps of which one alone takes longer than this stay alone.
inline constexpr double kLargeStepNs = 200e3;

Regions find_regions(std::span<const Work> steps, double large_step_ns = kLargeStepNs);

}  // namespace tenon::plan
#endif
