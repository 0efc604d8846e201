#include "tenon/plan/flat_plan.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tenon::plan {
namespace {

void add_scalar(void* const* buffers, const int64_t* extents, int64_t begin, int64_t end, void*) {
  const float* x = static_cast<const float*>(buffers[0]);
  float* y = static_cast<float*>(buffers[1]);
  for (int64_t i = begin; i < end; ++i) {
    y[i] = x[i] + static_cast<float>(extents[0]);
  }
}

void count_into_scratch(void* const* buffers, const int64_t*, int64_t begin, int64_t end,
                        void* scratch) {
  static_cast<char*>(scratch)[0] = 1;
  for (int64_t i = begin; i < end; ++i) {
    static_cast<int*>(buffers[0])[i] += 1;
  }
}

// A pool of two that really uses two threads.
tenon_code_t parallel_two(void*, tenon_range_fn_t fn, void* context, int64_t n, int64_t) {
  std::thread other([&] { fn(context, 1, n / 2, n); });
  const tenon_code_t code = fn(context, 0, 0, n / 2);
  other.join();
  return code;
}
uint32_t two(void*) {
  return 2;
}

TEST(FlatPlan, RunsStepsInOrderOnSlots) {
  Plan plan;
  Step step;
  step.kernel = &add_scalar;
  step.range = 4;
  const uint32_t first[] = {0, 1}, second[] = {1, 2};
  const int64_t one[] = {1}, ten[] = {10};
  plan.add(step, first, one);
  plan.add(step, second, ten);
  float x[4] = {0, 1, 2, 3}, t[4], y[4];
  void* slots[] = {x, t, y};
  PlanRun run;
  run.slots = slots;
  ASSERT_EQ(run_plan(plan, run), TENON_OK);
  EXPECT_EQ(y[3], 14.0f);
}

#ifdef __x86_64__
// Once a crash under -fsanitize=function, which reads the bytes before what is called.
TEST(FlatPlan, RunsAKernelAtTheStartOfMappedMemory) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapped = mmap(nullptr, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  char* code = static_cast<char*>(mapped) + page;
  ASSERT_EQ(mprotect(code, page, PROT_READ | PROT_WRITE), 0);
  // mov rax, [rdi]; mov dword ptr [rax], 7; ret
  const unsigned char bytes[] = {0x48, 0x8b, 0x07, 0xc7, 0x00, 7, 0, 0, 0, 0xc3};
  std::copy(std::begin(bytes), std::end(bytes), reinterpret_cast<unsigned char*>(code));
  ASSERT_EQ(mprotect(code, page, PROT_READ | PROT_EXEC), 0);
  Plan plan;
  Step step;
  step.kernel = reinterpret_cast<KernelFn>(code);
  const uint32_t slot[] = {0};
  plan.add(step, slot, {});
  int result = 0;
  void* slots[] = {&result};
  PlanRun run;
  run.slots = slots;
  EXPECT_EQ(run_plan(plan, run), TENON_OK);
  EXPECT_EQ(result, 7);
  munmap(mapped, 2 * page);
}
#endif

TEST(FlatPlan, SplitsLongRangesOverThePool) {
  Plan plan;
  Step step;
  step.kernel = &count_into_scratch;
  step.range = 1000;
  step.grain = 100;
  step.scratch_bytes = 65;
  const uint32_t slot[] = {0};
  plan.add(step, slot, {});
  ASSERT_EQ(plan.scratch_stride_bytes(), 128u);
  std::vector<int> counts(1000);
  std::vector<char> scratch(256);
  void* slots[] = {counts.data()};
  tenon_host_threads_t threads = {sizeof(threads), nullptr, &parallel_two, &two};
  PlanRun run;
  run.slots = slots;
  run.scratch = scratch.data();
  run.threads = &threads;
  ASSERT_EQ(run_plan(plan, run), TENON_OK);
  EXPECT_EQ(counts, std::vector<int>(1000, 1));
  EXPECT_EQ(scratch[0] + scratch[128], 2);
}

// Three steps of different sizes, one of them empty, as one range of units: each element runs once,
// and both threads work.
TEST(FlatPlan, StepsSideBySideRunEachElementOnce) {
  for (bool pool : {false, true}) {
    for (double ns : {0.0, 1e3, 1e5}) {
      Plan plan;
      const int64_t ranges[] = {1, 1001, 0, 77};
      std::vector<std::vector<int>> counts;
      std::vector<void*> slots;
      for (uint32_t i = 0; i < 4; ++i) {
        Step step;
        step.kernel = &count_into_scratch;
        step.range = ranges[i];
        step.grain = 1000000;
        step.estimated_ns = ns * (i + 1);
        step.scratch_bytes = 1;
        const uint32_t slot[] = {i};
        plan.add(step, slot, {});
        counts.emplace_back(ranges[i] + 1);
      }
      for (std::vector<int>& c : counts) {
        slots.push_back(c.data());
      }
      plan.side_by_side(3);
      ASSERT_EQ(plan.regions.size(), 2u);
      std::vector<char> scratch(256);
      tenon_host_threads_t threads = {sizeof(threads), nullptr, &parallel_two, &two};
      PlanRun run;
      run.slots = slots;
      run.scratch = scratch.data();
      run.threads = pool ? &threads : nullptr;
      int profiled = 0;
      run.context = &profiled;
      run.profile = [](void* context, const Step&, uint64_t begin, uint64_t end) {
        *static_cast<int*>(context) += begin <= end;
      };
      ASSERT_EQ(run_plan(plan, run), TENON_OK);
      EXPECT_EQ(profiled, 4);
      for (uint32_t i = 0; i < 4; ++i) {
        std::vector<int> want(ranges[i] + 1, 1);
        want.back() = 0;
        EXPECT_EQ(counts[i], want) << i << " " << ns;
      }
    }
  }
}

TEST(FlatPlan, StopsWhenCancelled) {
  Plan plan;
  Step step;
  step.kernel = [](void* const* b, const int64_t*, int64_t, int64_t, void*) {
    ++*static_cast<int*>(b[0]);
  };
  const uint32_t slot[] = {0};
  plan.add(step, slot, {});
  plan.add(step, slot, {});
  int runs = 0;
  void* slots[] = {&runs};
  PlanRun run;
  run.slots = slots;
  run.context = &runs;
  run.cancelled = [](void* context) { return uint32_t(*static_cast<int*>(context) >= 1); };
  EXPECT_EQ(run_plan(plan, run), TENON_CANCELLED);
  EXPECT_EQ(runs, 1);
}

TEST(FlatPlan, CostOfAStep) {
  Plan plan;
  Step step;
  step.kernel = [](void* const*, const int64_t*, int64_t, int64_t, void*) {};
  const uint32_t slots_of_step[] = {0, 0, 0};
  for (int i = 0; i < 1000; ++i) {
    plan.add(step, slots_of_step, {});
  }
  int x = 0;
  void* slots[] = {&x};
  PlanRun run;
  run.slots = slots;
  double best = 1e9;
  for (int round = 0; round < 50; ++round) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(run_plan(plan, run), TENON_OK);
    best = std::min(
        best,
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() /
            1000);
  }
  std::printf("one empty step: %.1f ns\n", best);
  RecordProperty("ns_per_step", std::to_string(best));
}

}  // namespace
}  // namespace tenon::plan
