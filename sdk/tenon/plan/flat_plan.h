// A plan as a flat array of kernel calls, and the loop that runs it.
//
// Everything that can be computed before a run is in the plan: sizes, offsets in the arena, ranges,
// chunk sizes. A run fills one table of addresses and then makes one indirect call per step (under
// 20 ns for an empty step). A plan is for one tuple of concrete shapes. It is immutable during
// runs, and several runs may use it at once, each with its own slots and scratch.
#ifndef TENON_PLAN_FLAT_PLAN_H_
#define TENON_PLAN_FLAT_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "tenon/abi/compile.h"
#include "tenon/abi/host.h"

namespace tenon::plan {

// The signature of generated kernels. Runs the elements [begin, end) of the kernel's range.
// scratch: at least the step's scratch_bytes, private to the calling worker.
using KernelFn = void (*)(void* const* buffers, const int64_t* extents, int64_t begin, int64_t end,
                          void* scratch);

struct Step {
  KernelFn kernel = nullptr;
  uint32_t first_buffer = 0;  // Into Plan::slots.
  uint32_t buffer_count = 0;
  uint32_t first_extent = 0;  // Into Plan::extents.
  uint32_t name = 0;          // Number for profiles, defined by the owner.
  int64_t range = 1;          // Elements to run; 0: nothing to do.
  int64_t grain = 0;          // Fewest elements worth a chunk; 0: never split over threads.
  uint64_t scratch_bytes = 0;
  double flops = 0, bytes = 0;       // For profiles.
  double estimated_ns = 0;           // On one thread; for steps that run side by side.
  int64_t first_unit = 0, unit = 1;  // In its region: index of its first unit; elements per unit.
  bool copies = false;  // One of its two buffers to the other: nothing to do if both are the same.
};

// Steps that run at once: none accesses what another one writes.
struct RegionOfSteps {
  uint32_t first_step = 0, step_count = 1;
  // Parts of about equal work, for all its steps together. Threads share them as one range.
  int64_t units = 0;
};

struct Plan {
  std::vector<Step> steps;
  std::vector<RegionOfSteps> regions;  // In order; together they contain all steps.
  std::vector<uint32_t> slots;         // Of all steps: indices into PlanRun::slots.
  std::vector<int64_t> extents;
  uint64_t scratch_bytes = 0;  // The maximum over the steps; maintained by add.

  // Adds a step with its buffers and extents, as a region of its own.
  void add(Step step, std::span<const uint32_t> step_slots, std::span<const int64_t> step_extents);

  // Makes one region of the last `count` steps, which must each be a region and be independent of
  // each other.
  void side_by_side(uint32_t count);

  // Scratch for one worker: the largest of all steps, rounded up so that workers share no cache
  // line.
  uint64_t scratch_stride_bytes() const;
};

struct PlanRun {
  // Addresses by slot, in the owner's numbering: inputs, outputs, constants, arena blocks.
  std::span<void* const> slots;
  // The addresses in the order of Plan::slots, if the owner has them so; then `slots` is not read.
  void* const* table = nullptr;
  // scratch_stride_bytes() for each worker, aligned to 64; null when the stride is 0.
  void* scratch = nullptr;
  const tenon_host_threads_t* threads = nullptr;  // Null: run everything on the calling thread.
  // Polled between steps; null: never cancelled.
  uint32_t (*cancelled)(void* context) = nullptr;
  // Receives the times of each step (steady clock, ns); null: no clock is read. Steps that run side
  // by side share the time of their region in proportion to their estimates.
  void (*profile)(void* context, const Step& step, uint64_t begin_ns, uint64_t end_ns) = nullptr;
  void* context = nullptr;
};

// Runs all steps in order. CANCELLED if asked to stop; else the first failure of the pool. Threads:
// safe for any number of runs of one plan.
tenon_code_t run_plan(const Plan& plan, const PlanRun& run);

// Workers that a run may use; scratch must have room for all of them.
uint32_t worker_count(const tenon_host_threads_t* threads);

}  // namespace tenon::plan
#endif
