#include "tenon/plan/flat_plan.h"

#include <time.h>

#include <algorithm>

namespace tenon::plan {
namespace {

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

struct Region {
  const Step* step;
  void* const* buffers;
  const int64_t* extents;
  char* scratch;
  uint64_t scratch_stride;
};

tenon_code_t run_range(void* context, uint32_t worker, int64_t begin, int64_t end) {
  const Region& region = *static_cast<const Region*>(context);
  region.step->kernel(region.buffers, region.extents, begin, end,
                      region.scratch ? region.scratch + worker * region.scratch_stride : nullptr);
  return TENON_OK;
}

}  // namespace

void Plan::add(Step step, std::span<const uint32_t> step_slots,
               std::span<const int64_t> step_extents) {
  step.first_buffer = static_cast<uint32_t>(slots.size());
  step.buffer_count = static_cast<uint32_t>(step_slots.size());
  step.first_extent = static_cast<uint32_t>(extents.size());
  slots.insert(slots.end(), step_slots.begin(), step_slots.end());
  extents.insert(extents.end(), step_extents.begin(), step_extents.end());
  steps.push_back(step);
}

uint64_t Plan::scratch_stride_bytes() const {
  uint64_t most = 0;
  for (const Step& step : steps) {
    most = std::max(most, step.scratch_bytes);
  }
  return (most + 127) & ~uint64_t{127};
}

uint32_t worker_count(const tenon_host_threads_t* threads) {
  return threads ? std::max(1u, threads->count(threads->self)) : 1;
}

tenon_code_t run_plan(const Plan& plan, const PlanRun& run) {
  // Small plans keep their table of addresses on the stack.
  void* inline_table[256];
  std::vector<void*> heap_table;
  void** table = inline_table;
  if (plan.slots.size() > std::size(inline_table)) {
    heap_table.resize(plan.slots.size());
    table = heap_table.data();
  }
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    table[i] = run.slots[plan.slots[i]];
  }
  const uint64_t stride = plan.scratch_stride_bytes();
  const uint32_t workers = worker_count(run.threads);
  uint64_t begin_ns = run.profile ? now_ns() : 0;
  for (const Step& step : plan.steps) {
    if (run.cancelled && run.cancelled(run.context)) {
      return TENON_CANCELLED;
    }
    if (step.range <= 0) {
      continue;
    }
    Region region = {&step, table + step.first_buffer, plan.extents.data() + step.first_extent,
                     static_cast<char*>(run.scratch), stride};
    if (workers == 1 || step.grain == 0 || step.range <= step.grain) {
      run_range(&region, 0, 0, step.range);
    } else if (tenon_code_t code = run.threads->parallel(run.threads->self, &run_range, &region,
                                                         step.range, step.grain);
               code != TENON_OK) {
      return code;
    }
    if (run.profile) {
      const uint64_t end_ns = now_ns();
      run.profile(run.context, step, begin_ns, end_ns);
      begin_ns = end_ns;
    }
  }
  return TENON_OK;
}

}  // namespace tenon::plan
