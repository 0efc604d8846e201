// A plan as a flat array of kernel calls, and the loop that runs it.
//
// Everything that can be known before a run is: sizes, offsets in the arena, ranges, chunk sizes. A
// run fills one table of addresses and then makes one indirect call a step (under 20 ns a step when
// the step itself is empty). A plan holds for one tuple of concrete shapes, is immutable while it
// runs, and may run many times at once, each run with its own slots and scratch.
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
  uint32_t name = 0;          // The owner's number for profiles.
  int64_t range = 1;          // Elements to run; 0: nothing to do.
  int64_t grain = 0;          // Fewest elements worth a chunk; 0: never split over threads.
  uint64_t scratch_bytes = 0;
  double flops = 0, bytes = 0;       // For profiles.
  double estimated_ns = 0;           // On one thread; for steps that run side by side.
  int64_t first_unit = 0, unit = 1;  // In its region: where its units begin, elements of one.
};

// Steps that run at once: none reads or writes what another writes.
struct RegionOfSteps {
  uint32_t first_step = 0, step_count = 1;
  int64_t units =
      0;  // Of all its steps: pieces of about equal work, handed to threads as one range.
};

struct Plan {
  std::vector<Step> steps;
  std::vector<RegionOfSteps> regions;  // In order; together all steps.
  std::vector<uint32_t> slots;         // Of all steps: indices into PlanRun::slots.
  std::vector<int64_t> extents;
  uint64_t scratch_bytes = 0;  // Of the step that needs most; kept by add.

  // Adds a step with its buffers and extents, as a region of its own.
  void add(Step step, std::span<const uint32_t> step_slots, std::span<const int64_t> step_extents);

  // Makes one region of the last `count` steps, which must be regions of their own and independent
  // of each other.
  void side_by_side(uint32_t count);

  // Scratch for one worker: the largest of all steps, rounded up so that workers share no line.
  uint64_t scratch_stride_bytes() const;
};

struct PlanRun {
  // Addresses by slot: inputs, outputs, constants, arena blocks in the owner's numbering.
  std::span<void* const> slots;
  // scratch_stride_bytes() for each worker, aligned to 64; null when the stride is 0.
  void* scratch = nullptr;
  const tenon_host_threads_t* threads = nullptr;  // Null: all on the calling thread.
  // Asked between steps; null: never cancelled.
  uint32_t (*cancelled)(void* context) = nullptr;
  // Told the times of each step (steady clock, ns); null: no clock is read. Steps that run side by
  // side share the time of their region as estimated.
  void (*profile)(void* context, const Step& step, uint64_t begin_ns, uint64_t end_ns) = nullptr;
  void* context = nullptr;
};

// Runs all steps in order. CANCELLED when asked to stop, else the first failure of the pool.
// Threads: safe for any number of runs of one plan.
tenon_code_t run_plan(const Plan& plan, const PlanRun& run);

// Workers that a run may use: what scratch has to be sized for.
uint32_t worker_count(const tenon_host_threads_t* threads);

}  // namespace tenon::plan
#endif
