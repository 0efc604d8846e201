// Horizontal fusion: which steps of a plan run side by side, as one region of the thread pool.
//
// Called for every new tuple of concrete shapes, because only then is it known which steps are
// small. A step joins a region if it depends on nothing in it, even past other steps, unless it is
// large: a large step uses all threads by itself.
//
// Groups of steps that run one kernel, as the step of an optimizer has one per parameter, become
// one region however many there are: one kernel over a list of buffers and sizes.
#ifndef TENON_PLAN_REGIONS_H_
#define TENON_PLAN_REGIONS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::plan {

inline constexpr uint32_t kNoKernel = ~0u;

// The buffers that one step accesses, in the owner's numbering.
struct Work {
  std::span<const uint32_t> reads;
  std::span<const uint32_t> writes;
  // Among the writes: buffers of which other steps write other elements, so the order does not
  // matter.
  std::span<const uint32_t> parts;
  double estimated_ns = 0;  // On one thread.
  // Which kernel it runs, if it may run much earlier than its place says, since its results take no
  // memory that others could use meanwhile. Steps of one kernel join however far apart they are,
  // until a region takes as long as a large step: its results should still be cached when they are
  // read.
  uint32_t kernel = kNoKernel;
};

struct Regions {
  std::vector<uint32_t> order;  // All steps, in an order that respects data dependences.
  std::vector<uint32_t> ends;   // Where each region ends in `order`.
};

// Steps that take longer than this on one thread stay alone.
inline constexpr double kLargeStepNs = 200e3;

Regions find_regions(std::span<const Work> steps, double large_step_ns = kLargeStepNs);

}  // namespace tenon::plan
#endif
