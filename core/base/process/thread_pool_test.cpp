// The pool: every element once, failures, cancelling, nesting, several callers, fork, float state,
// latency.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "core/base/errors/failure.h"
#include "core/base/file.h"
#include "core/base/process/float_state.h"
#include "core/base/process/operation.h"
#include "core/base/process/thread_pool.h"

namespace tenon {
namespace {

class PoolTest : public testing::Test {
 protected:
  void TearDown() override { set_thread_count(0); }
};

TEST_F(PoolTest, EachElementOnceAndWorkersAreDistinct) {
  for (uint32_t threads : {1u, 2u, 4u, 7u}) {
    set_thread_count(threads);
    EXPECT_EQ(thread_count(), threads);
    for (int64_t n : {0, 1, 5, 1000, 4097}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
      std::atomic<int> inside[16] = {};
      std::atomic<bool> shared{false};
      ASSERT_EQ(parallel_for(n, 3,
                             [&](uint32_t worker, int64_t begin, int64_t end) {
                               if (inside[worker].fetch_add(1) != 0) shared = true;
                               for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)]++;
                               inside[worker].fetch_sub(1);
                             }),
                TENON_OK);
      for (auto& hit : hits) EXPECT_EQ(hit.load(), 1);
      EXPECT_FALSE(shared);
    }
  }
}

// A limit held only where chunks are in shares, so a region with few chunks had every thread.
TEST_F(PoolTest, ALimitBoundsTheThreadsOfARegion) {
  set_thread_count(4);
  for (uint32_t limit : {1u, 2u, 3u, 9u}) {
    const ThreadLimit scope(limit);
    for (int64_t n : {3, 8, 64, 5000}) {
      std::atomic<uint32_t> inside{0}, most{0};
      std::atomic<int64_t> elements{0};
      ASSERT_EQ(parallel_for(n, 1,
                             [&](uint32_t, int64_t begin, int64_t end) {
                               const uint32_t now = inside.fetch_add(1) + 1;
                               for (uint32_t seen = most; seen < now;)
                                 if (most.compare_exchange_weak(seen, now)) break;
                               usleep(50);
                               elements += end - begin;
                               inside.fetch_sub(1);
                             }),
                TENON_OK);
      EXPECT_EQ(elements, n);
      EXPECT_LE(most, limit);
    }
  }
  EXPECT_EQ(thread_limit(), 0u);
}

TEST_F(PoolTest, FirstFailureReachesTheCaller) {
  set_thread_count(4);
  tenon_code_t code =
      parallel_for(1000, 1, [&](uint32_t, int64_t begin, int64_t end) -> tenon_code_t {
        if (begin <= 500 && 500 < end)
          return to_abi(error(TENON_OUT_OF_RANGE, "T0110", "element 500"));
        return TENON_OK;
      });
  EXPECT_EQ(code, TENON_OUT_OF_RANGE);
  EXPECT_EQ(from_abi(code, "").text(), "T0110: element 500");
}

TEST_F(PoolTest, RegionsAfterAFailureAreWhole) {
  set_thread_count(3);
  for (int round = 0; round < 50; ++round) {
    const bool fails = round % 2 == 0;
    std::vector<std::atomic<int>> hits(300);
    tenon_code_t code =
        parallel_for(300, 1, [&](uint32_t, int64_t begin, int64_t end) -> tenon_code_t {
          for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)]++;
          return fails && begin <= 150 && 150 < end
                     ? to_abi(error(TENON_OUT_OF_RANGE, "T0110", "150"))
                     : TENON_OK;
        });
    EXPECT_EQ(code, fails ? TENON_OUT_OF_RANGE : TENON_OK);
    for (auto& hit : hits) {
      if (!fails) EXPECT_EQ(hit.load(), 1);
      EXPECT_LE(hit.load(), 1);
    }
  }
}

TEST_F(PoolTest, OthersDoTheShareOfOneHeldUp) {
  constexpr int64_t kItems = 96;
  for (uint32_t threads : {2u, 3u}) {
    set_thread_count(threads);
    for (uint32_t held_up = 0; held_up < threads; ++held_up) {
      std::atomic<int64_t> done{0};
      int64_t of_held_up = 0;
      ASSERT_EQ(parallel_for(kItems, 1,
                             [&](uint32_t worker, int64_t begin, int64_t end) {
                               if (worker == held_up) {
                                 of_held_up += end - begin;
                                 for (int ms = 0; ms < 60'000 && done < kItems - (end - begin);
                                      ++ms)
                                   usleep(1000);
                               }
                               done += end - begin;
                             }),
                TENON_OK);
      EXPECT_EQ(done.load(), kItems);
      EXPECT_LE(of_held_up, kItems / (16 * threads)) << "one chunk, the one it was held up in";
    }
  }
}

TEST_F(PoolTest, CancelStopsBetweenChunks) {
  set_thread_count(4);
  Operation operation;
  OperationScope scope(&operation);
  std::atomic<int64_t> done{0};
  tenon_code_t code = parallel_for(1 << 20, 1, [&](uint32_t, int64_t begin, int64_t end) {
    EXPECT_EQ(current_operation(), &operation);
    done += end - begin;
    operation.cancel_requested = true;
  });
  EXPECT_EQ(code, TENON_CANCELLED);
  EXPECT_LT(done.load(), 1 << 20);
}

TEST_F(PoolTest, NestedRunsInline) {
  set_thread_count(4);
  std::atomic<int64_t> sum{0};
  EXPECT_FALSE(in_parallel_region());
  ASSERT_EQ(parallel_for(64, 1,
                         [&](uint32_t, int64_t begin, int64_t end) {
                           EXPECT_TRUE(in_parallel_region());
                           std::thread::id self = std::this_thread::get_id();
                           (void)parallel_for(10 * (end - begin), 1,
                                              [&](uint32_t worker, int64_t b, int64_t e) {
                                                EXPECT_EQ(worker, 0u);
                                                EXPECT_EQ(std::this_thread::get_id(), self);
                                                sum += e - b;
                                              });
                         }),
            TENON_OK);
  EXPECT_EQ(sum.load(), 640);
}

TEST_F(PoolTest, ManyCallersAtOnce) {
  set_thread_count(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int c = 0; c < 12; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<int64_t> sum{0};
        EXPECT_EQ(parallel_for(100, 1,
                               [&](uint32_t, int64_t begin, int64_t end) {
                                 for (int64_t i = begin; i < end; ++i) sum += i;
                               }),
                  TENON_OK);
        EXPECT_EQ(sum.load(), 4950);
        total += sum;
      }
    });
  }
  for (int i = 0; i < 20; ++i) set_thread_count(2 + i % 3);  // resizing while regions run
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 12 * 200 * 4950);
}

TEST_F(PoolTest, ForkedChildHasItsOwnPool) {
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts threads";
#endif
  set_thread_count(3);
  (void)parallel_for(100, 1, [](uint32_t, int64_t, int64_t) {});
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(10);
    std::atomic<int64_t> sum{0};
    tenon_code_t code =
        parallel_for(100, 1, [&](uint32_t, int64_t begin, int64_t end) { sum += end - begin; });
    _exit(code == TENON_OK && sum == 100 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(PoolTest, FloatStateIsTheRegionsAndThenRestored) {
  set_thread_count(3);
  const FloatControl before = float_control();
  const FloatControl odd = kFloatDefault | kFloatFlushDenormals;
  set_float_control(odd);
  (void)parallel_for(64, 1, [&](uint32_t, int64_t, int64_t) {
    EXPECT_EQ(float_control() & ~kFloatStickyFlags, kFloatDefault);
    set_float_control(odd);  // a kernel that does not restore the float state
    volatile float tiny = 1e-40f;
    volatile float half = tiny * 0.5f;
    (void)half;
    set_float_control(kFloatDefault);
  });
  EXPECT_EQ(float_control() & ~kFloatStickyFlags, odd);
  set_float_control(before);
  FlushDenormalsScope flush(true);
  (void)parallel_for(64, 1, [&](uint32_t, int64_t, int64_t) {
    EXPECT_EQ(float_control() & ~kFloatStickyFlags, kFloatDefault | kFloatFlushDenormals);
  });
  EXPECT_EQ(float_control() & ~kFloatStickyFlags, kFloatDefault);
}

TEST_F(PoolTest, CgroupQuota) {
  char pattern[] = "/tmp/tenon_cgroup_test.XXXXXX";
  std::string root = mkdtemp(pattern);
  ASSERT_TRUE(make_folders(root + "/a/b").ok());
  ASSERT_TRUE(write_file(root + "/a/b/cpu.max", "max 100000\n").ok());
  ASSERT_TRUE(write_file(root + "/a/cpu.max", "150000 100000\n").ok());
  EXPECT_EQ(cgroup_cpu_quota("0::/a/b\n", root), 2u);
  ASSERT_TRUE(make_folders(root + "/cpu/x").ok());
  ASSERT_TRUE(write_file(root + "/cpu/x/cpu.cfs_quota_us", "100000\n").ok());
  ASSERT_TRUE(write_file(root + "/cpu/x/cpu.cfs_period_us", "100000\n").ok());
  EXPECT_EQ(cgroup_cpu_quota("0::/a/b\n3:cpu:/x\n", root), 1u);
  EXPECT_EQ(cgroup_cpu_quota("0::/\n", root), 0u);
  EXPECT_EQ(cgroup_cpu_quota("nonsense", root), 0u);
  EXPECT_GE(available_cpus(), 1u);
  ASSERT_EQ(system(("rm -rf " + root).c_str()), 0);
}

// Threads of another library, made for each region.
struct Team {
  std::atomic<uint32_t> runs{0}, threads{3};
  tenon_team_t table = {sizeof(tenon_team_t), 0, this, run, count};

  static void run(void* self, uint32_t count, void (*work)(void*, uint32_t), void* context) {
    Team& team = *static_cast<Team*>(self);
    team.runs++;
    std::vector<std::thread> others;
    for (uint32_t worker = 1; worker < std::min(count, team.threads.load()); ++worker)
      others.emplace_back(work, context, worker);
    work(context, 0);
    for (std::thread& other : others) other.join();
  }
  static uint32_t count(void* self) { return static_cast<Team*>(self)->threads; }
};

// The number of threads is not stated in these tests, so that a team is used.
class TeamTest : public PoolTest {
 protected:
  void SetUp() override {
    PoolTest::SetUp();
    unsetenv("TENON_NUM_THREADS");
    use_team(&team_.table);
  }
  void TearDown() override {
    use_team(nullptr);
    PoolTest::TearDown();
  }
  // Whether a region ran each element once, with workers of its own.
  static bool all_once(int64_t n, int64_t grain) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
    (void)parallel_for(n, grain, [&](uint32_t worker, int64_t begin, int64_t end) {
      EXPECT_LT(worker, thread_count());
      for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)]++;
    });
    return std::all_of(seen.begin(), seen.end(), [](const auto& x) { return x == 1; });
  }
  Team team_;
};

TEST_F(TeamTest, RegionsRunOnIt) {
  if (thread_count() < 2) GTEST_SKIP() << "one processor: every region runs inline";
  for (const int64_t n : {2, 7, 64, 1000}) EXPECT_TRUE(all_once(n, 1));
  EXPECT_EQ(team_.runs, 4u);
  team_.threads = 1;  // it has no more for this thread
  EXPECT_TRUE(all_once(64, 1));
  EXPECT_EQ(team_.runs, 4u);
  use_team(nullptr);
  team_.threads = 3;
  EXPECT_TRUE(all_once(64, 1));
  EXPECT_EQ(team_.runs, 4u);
}

TEST_F(TeamTest, RegionsAtOnceInsideAndFailing) {
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([] {
      for (int round = 0; round < 50; ++round) EXPECT_TRUE(all_once(40, 1));
    });
  for (std::thread& caller : callers) caller.join();
  (void)parallel_for(8, 1, [](uint32_t, int64_t, int64_t) { EXPECT_TRUE(all_once(9, 1)); });
  EXPECT_EQ(parallel_for(64, 1,
                         [](uint32_t, int64_t begin, int64_t end) -> tenon_code_t {
                           return begin <= 5 && 5 < end ? TENON_DATA_LOSS : TENON_OK;
                         }),
            TENON_DATA_LOSS);
  EXPECT_TRUE(all_once(64, 1));
}

TEST_F(TeamTest, AStatedNumberHasThePool) {
  set_thread_count(2);
  use_team(&team_.table);
  EXPECT_TRUE(all_once(64, 1));
  EXPECT_EQ(team_.runs, 0u);
}

TEST_F(TeamTest, TheDefaultNumberHasTheTeamAgain) {
  use_team(&team_.table);
  set_thread_count(2);
  EXPECT_TRUE(all_once(64, 1));
  EXPECT_EQ(team_.runs, 0u);
  set_thread_count(0);
  EXPECT_TRUE(all_once(64, 1));
  EXPECT_EQ(team_.runs, thread_count() > 1 ? 1u : 0u);
}

TEST_F(TeamTest, AForkedChildHasThePool) {
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts threads";
#endif
  const pid_t child = fork();
  if (child == 0) {
    const bool good = all_once(64, 1) && team_.runs == 0;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Not a gate: printed for maintainers of the pool. Each chunk works for about a microsecond; the
// figure is the time that a region takes beyond half of its work.
TEST_F(PoolTest, HotRegionLatency) {
  set_thread_count(2);
  auto now = [] {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
  };
  std::atomic<int64_t> helped{0};
  auto work = [&](uint32_t worker, int64_t, int64_t) {
    if (worker == 1) helped++;
    volatile int x = 0;
    for (int i = 0; i < 1000; ++i) x = x + 1;
  };
  (void)parallel_for(2, 1, work);
  usleep(20000);
  int64_t begin = now();
  for (int i = 0; i < 2000; ++i) work(0, 0, 1);
  const double chunk_ns = static_cast<double>(now() - begin) / 2000;
  helped = 0;
  std::vector<double> ns;
  for (int round = 0; round < 4000; ++round) {
    begin = now();
    (void)parallel_for(2, 1, work);
    ns.push_back(static_cast<double>(now() - begin));
  }
  std::sort(ns.begin(), ns.end());
  std::printf(
      "two chunks of %.0f ns on 2 threads: median %.0f ns, 90 %% %.0f ns; the worker took part in "
      "%.0f %%\n",
      chunk_ns, ns[2000], ns[3600], static_cast<double>(helped.load()) / 40);
}

}  // namespace
}  // namespace tenon
