#include "tenon/plan/flat_plan.h"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "tenon/cpp/generated_code.hpp"

namespace tenon::plan {
namespace {

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

// A unit of a region has this much work; more, if there would be more than kUnitsMax units.
constexpr double kUnitNs = 2000;
constexpr double kUnitsMax = 32;
// Less work than this is done before another thread has started.
constexpr double kRegionNs = 2000;

struct Region {
  const Step* step;
  uint32_t step_count;
  void* const* table;
  const int64_t* extents;
  char* scratch;
  uint64_t scratch_stride;

  bool idle(const Step& s) const {
    return s.copies && table[s.first_buffer] == table[s.first_buffer + 1];
  }
  TENON_CALLS_GENERATED_CODE void run(const Step& s, uint32_t worker, int64_t begin,
                                      int64_t end) const {
    if (idle(s)) return;
    s.kernel(table + s.first_buffer, extents + s.first_extent, begin, end,
             scratch ? scratch + worker * scratch_stride : nullptr);
  }
};

tenon_code_t run_range(void* context, uint32_t worker, int64_t begin, int64_t end) {
  const Region& region = *static_cast<const Region*>(context);
  region.run(*region.step, worker, begin, end);
  return TENON_OK;
}

// Units [begin, end) of steps that run side by side.
tenon_code_t run_units(void* context, uint32_t worker, int64_t begin, int64_t end) {
  const Region& region = *static_cast<const Region*>(context);
  for (uint32_t i = 0; i < region.step_count; ++i) {
    const Step& s = region.step[i];
    const int64_t from = std::max<int64_t>(begin - s.first_unit, 0) * s.unit;
    const int64_t to = std::min((end - s.first_unit) * s.unit, s.range);
    if (end > s.first_unit && from < to) {
      region.run(s, worker, from, to);
    }
  }
  return TENON_OK;
}

bool worth_threads(const Region& region) {
  double ns = 0;
  for (uint32_t i = 0; i < region.step_count; ++i) {
    ns += region.step[i].estimated_ns;
  }
  return ns >= kRegionNs;
}

// The pool is asked for its threads only where there is work for them.
tenon_code_t run_region(Region& region, int64_t units, const PlanRun& run) {
  const tenon_host_threads_t* threads = run.threads;
  if (region.step_count > 1) {
    if (worth_threads(region) && worker_count(threads) > 1) {
      return threads->parallel(threads->self, &run_units, &region, units, 1);
    }
    return run_units(&region, 0, 0, units);
  }
  const Step& step = *region.step;
  if (region.idle(step)) return TENON_OK;
  if (step.grain != 0 && step.range > step.grain && worker_count(threads) > 1) {
    return threads->parallel(threads->self, &run_range, &region, step.range, step.grain);
  }
  return step.range > 0 ? run_range(&region, 0, 0, step.range) : TENON_OK;
}

void report(const Region& region, const PlanRun& run, uint64_t begin_ns, uint64_t end_ns) {
  double all = 0;
  for (uint32_t i = 0; i < region.step_count; ++i) {
    all += region.step[i].estimated_ns;
  }
  for (uint32_t i = 0; i < region.step_count; ++i) {
    const Step& s = region.step[i];
    const double share = region.step_count == 1 ? 1
                         : all > 0              ? s.estimated_ns / all
                                                : 1.0 / region.step_count;
    const uint64_t until =
        i + 1 == region.step_count
            ? end_ns
            : std::min(end_ns, begin_ns + static_cast<uint64_t>(
                                              share * static_cast<double>(end_ns - begin_ns)));
    run.profile(run.context, s, begin_ns, until);
    begin_ns = until;
  }
}

}  // namespace

void Plan::add(Step step, std::span<const uint32_t> step_slots,
               std::span<const int64_t> step_extents) {
  step.first_buffer = static_cast<uint32_t>(slots.size());
  step.buffer_count = static_cast<uint32_t>(step_slots.size());
  step.first_extent = static_cast<uint32_t>(extents.size());
  slots.insert(slots.end(), step_slots.begin(), step_slots.end());
  extents.insert(extents.end(), step_extents.begin(), step_extents.end());
  regions.push_back({static_cast<uint32_t>(steps.size()), 1, 0});
  steps.push_back(step);
  scratch_bytes = std::max(scratch_bytes, step.scratch_bytes);
}

void Plan::side_by_side(uint32_t count) {
  if (count < 2) {
    return;
  }
  regions.resize(regions.size() - count);
  RegionOfSteps region = {static_cast<uint32_t>(steps.size()) - count, count, 0};
  double all = 0;
  for (uint32_t i = 0; i < count; ++i) {
    all += steps[region.first_step + i].estimated_ns;
  }
  const double unit_ns = std::max(kUnitNs, all / kUnitsMax);
  for (uint32_t i = 0; i < count; ++i) {
    Step& s = steps[region.first_step + i];
    const double wanted = std::clamp(s.estimated_ns / unit_ns, 1.0, kUnitsMax);
    const int64_t range = std::max<int64_t>(s.range, 0);
    const int64_t units = std::clamp<int64_t>(std::llround(wanted), 1, std::max<int64_t>(range, 1));
    s.first_unit = region.units;
    s.unit = std::max<int64_t>(1, (range + units - 1) / units);
    region.units += (range + s.unit - 1) / s.unit;
  }
  regions.push_back(region);
}

uint64_t Plan::scratch_stride_bytes() const {
  return (scratch_bytes + 127) & ~uint64_t{127};
}

uint32_t worker_count(const tenon_host_threads_t* threads) {
  return threads ? std::max(1u, threads->count(threads->self)) : 1;
}

static tenon_code_t run_slots(const Plan& plan, PlanRun run) {
  // Small plans keep their table of addresses on the stack.
  void* inline_table[1024];
  std::vector<void*> heap_table;
  void** table = inline_table;
  if (plan.slots.size() > std::size(inline_table)) {
    heap_table.resize(plan.slots.size());
    table = heap_table.data();
  }
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    table[i] = run.slots[plan.slots[i]];
  }
  run.table = table;
  return run_plan(plan, run);
}

tenon_code_t run_plan(const Plan& plan, const PlanRun& run) {
  if (!run.table) {
    return run_slots(plan, run);
  }
  const uint64_t stride = plan.scratch_stride_bytes();
  uint64_t begin_ns = run.profile ? now_ns() : 0;
  for (const RegionOfSteps& steps : plan.regions) {
    if (run.cancelled && run.cancelled(run.context)) {
      return TENON_CANCELLED;
    }
    Region region = {plan.steps.data() + steps.first_step,
                     steps.step_count,
                     run.table,
                     plan.extents.data(),
                     static_cast<char*>(run.scratch),
                     stride};
    if (tenon_code_t code = run_region(region, steps.units, run); code != TENON_OK) {
      return code;
    }
    if (run.profile) {
      const uint64_t end_ns = now_ns();
      report(region, run, begin_ns, end_ns);
      begin_ns = end_ns;
    }
  }
  return TENON_OK;
}

}  // namespace tenon::plan
