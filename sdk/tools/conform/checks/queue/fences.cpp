// Group D: what work waits for and what it signals, and fences.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/queue_fixture.h"

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;

// ---- Waits and signals ----

// Work that waits for `fences` fences, all reached but one.
Outcome waits_for(OpenQueues& d, const QueueFixture& b, size_t fences, size_t last,
                  uint64_t round) {
  std::vector<tenon_fence_point_t> points;
  for (size_t i = 0; i < fences; ++i) {
    tenon_fence_t* fence = nullptr;
    CONFORM_TRY(d.fence(i, &fence));
    points.push_back({fence, i + 5});
    if (i % 3 == 1) points.push_back(kNoPoint);
  }
  Bytes& got = d.keep(Bytes(64));
  CONFORM_TRY(
      d.submit_after(b.first, async_read(got.data(), b.buffer, 0, 64), points, {b.done, round}));
  const std::string what =
      fmt::format("work that waits for {} fences, without the {}.", fences, last + 1);
  size_t number = 0;
  tenon_fence_point_t missing = kNoPoint;
  for (const tenon_fence_point_t& point : points) {
    if (point.fence == nullptr) continue;
    if (number++ == last) {
      missing = point;
      CONFORM_TRY(d.signal(point.fence, point.value - 1));
    } else {
      CONFORM_TRY(d.signal(point.fence, point.value + number % 2));
    }
  }
  CONFORM_TRY(d.stays_below(b.done, round, what));
  CONFORM_TRY(same_bytes(got, Bytes(64, 0), what));
  CONFORM_TRY(d.signal(missing.fence, missing.value));
  CONFORM_TRY(d.reaches(b.done, round, "work whose waits are all reached"));
  Bytes expected = pattern_bytes(kFixtureBytes, 1);
  expected.resize(64);
  return same_bytes(got, expected, "work whose waits are all reached");
}

// Two points of one fence: the higher counts, in either order.
Outcome waits_twice_for_one(OpenQueues& d, const QueueFixture& b, uint64_t* round) {
  for (bool higher_first : {false, true}) {
    tenon_fence_t* fence = nullptr;
    CONFORM_TRY(d.fence(0, &fence));
    tenon_fence_point_t points[] = {{fence, 1}, {fence, 2}};
    if (higher_first) std::swap(points[0], points[1]);
    CONFORM_TRY(
        d.submit_after(b.first, async_fill(b.buffer, 64, 8, 1, 1), points, {b.done, ++*round}));
    CONFORM_TRY(d.signal(fence, 1));
    CONFORM_TRY(
        d.stays_below(b.done, *round, "work that waits for 1 and 2 of one fence, which is at 1"));
    CONFORM_TRY(d.signal(fence, 2));
    CONFORM_TRY(d.reaches(b.done, *round, "work that waits for two values of one fence"));
  }
  return pass();
}

Outcome waits(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  uint64_t round = 0;
  s.step("work that waits for two values of one fence");
  CONFORM_TRY(waits_twice_for_one(d, b, &round));
  for (size_t fences : {1, 2, 3, 17}) {
    for (size_t last : {size_t{0}, fences / 2, fences - 1}) {
      s.step(fmt::format("work that waits for {} fences", fences));
      CONFORM_TRY(waits_for(d, b, fences, last, ++round));
    }
  }
  return pass();
}

Outcome waits_reached_before(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  tenon_fence_t *high = nullptr, *zero = nullptr;
  CONFORM_TRY(d.fence(100, &high));
  CONFORM_TRY(d.fence(0, &zero));
  uint64_t round = 0;
  for (tenon_fence_point_t point : {tenon_fence_point_t{high, 100}, tenon_fence_point_t{high, 7},
                                    tenon_fence_point_t{zero, 0}, kNoPoint}) {
    s.step("work whose wait was reached before");
    CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 8), point, {b.done, ++round}));
    CONFORM_TRY(d.reaches(b.done, round, "work whose wait was reached before"));
  }
  return pass();
}

// Passes one value through 50 pieces of work that alternate between two queues; those of the second
// are submitted first.
Outcome across_queues(Session& s, OpenQueues& d) {
  constexpr uint64_t kCount = 50;
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("a chain of work through two queues");
  for (uint64_t half : {uint64_t{1}, uint64_t{0}}) {
    for (uint64_t i = half; i < kCount; i += 2) {
      CONFORM_TRY(d.submit(half == 0 ? b.first : b.second,
                           async_between(b.buffer, (i + 1) * 8, b.buffer, i * 8, 8),
                           {i == 0 ? b.gate : b.done, std::max<uint64_t>(i, 1)}, {b.done, i + 1}));
    }
  }
  CONFORM_TRY(d.stays_below(b.done, 1, "a chain of work that waits"));
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, kCount, "a chain of work through two queues"));
  Bytes expected = pattern_bytes(kFixtureBytes, 1);
  for (size_t i = 8; i < (kCount + 1) * 8; ++i) expected[i] = expected[i - 8];
  return d.memory().holds(b.buffer, expected, "a value that went through two queues");
}

Outcome queues_apart(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("work that waits for work on a queue made later");
  std::vector<tenon_queue_t*> more(3);
  for (tenon_queue_t*& queue : more) CONFORM_TRY(d.queue(&queue));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), {b.gate, 3}, {b.done, 9}));
  // Makes sure that the work waits before the fence is signalled, even on a busy machine.
  CONFORM_TRY(d.stays_below(b.done, 9, "work that waits"));
  for (uint64_t i = 0; i < 3; ++i) {
    CONFORM_TRY(d.submit(more[i], async_fill(b.buffer, 64 * (i + 1), 8, 1, 1), {b.gate, i},
                         {b.gate, i + 1}));
  }
  return d.reaches(b.done, 9, "work that waits for work on another queue, submitted later");
}

Outcome not_signalled_before(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("the signal of work that waits");
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), {b.gate, 1}, {b.done, 1}));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 2, 1), kNoPoint, {b.done, 2}));
  CONFORM_TRY(d.stays_below(b.done, 1, "work that waits"));
  CONFORM_TRY(d.signal(b.gate, 1));
  return d.reaches(b.done, 2, "work whose wait is reached");
}

// Reads the last byte at the moment the signal is seen.
Outcome signalled_when_done(Session& s, OpenQueues& d) {
  constexpr size_t kSize = size_t{32} << 20;
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  tenon_buffer_t* large = nullptr;
  CONFORM_TRY(d.memory().alloc(kSize, &large));
  Bytes& got = d.keep(Bytes(kSize));
  volatile unsigned char* last = got.data() + kSize - 1;
  for (uint64_t round = 1; round <= 12; ++round) {
    s.step("the signal of a large copy");
    const tenon_code_t filled = d.memory().fill(large, 0, kSize, round, 1);
    CONFORM_EXPECT(filled == TENON_OK, "a fill of {} bytes gives {}", kSize, code_text(filled));
    CONFORM_TRY(
        d.submit(b.first, async_read(got.data(), large, 0, kSize), kNoPoint, {b.done, round}));
    uint64_t now = 0;
    const auto begin = Clock::now();
    while (now < round) {
      CONFORM_TRY(d.value_of(b.done, &now));
      CONFORM_EXPECT(Clock::now() - begin < std::chrono::nanoseconds(kPatienceNs),
                     "the signal of a copy of {} bytes does not come", kSize);
    }
    CONFORM_EXPECT(*last == round, "when a copy of {} bytes is signalled, its last byte is missing",
                   kSize);
    CONFORM_EXPECT(all_are(got, static_cast<unsigned char>(round)),
                   "when a copy of {} bytes is signalled, some of them are missing", kSize);
  }
  return pass();
}

Outcome no_signal_point(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("work without a signal");
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, kFixtureBytes, 7, 1), kNoPoint, kNoPoint));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 7, 1), kNoPoint, {b.done, 1}));
  CONFORM_TRY(d.reaches(b.done, 1, "work after work without a signal"));
  return d.memory().holds(b.buffer, Bytes(kFixtureBytes, 7), "what work without a signal filled");
}

// ---- Fences ----

// Values that would look reached to signed arithmetic.
Outcome values_of_64_bits(Session& s, OpenQueues& d) {
  constexpr uint64_t kHigh = (uint64_t{1} << 63) + 1;
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step(fmt::format("waits for {} of a fence that is at 5", kHigh));
  CONFORM_TRY(d.signal(b.gate, 5));
  CONFORM_TRY(
      d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), {b.gate, kHigh}, {b.done, kHigh}));
  CONFORM_TRY(d.stays_below(b.gate, kHigh, "a fence that is at 5"));
  CONFORM_TRY(d.stays_below(b.done, kHigh, "work that waits for a value of 64 bits"));
  CONFORM_TRY(d.signal(b.gate, kHigh));
  return d.reaches(b.done, kHigh, "work that waits for a value of 64 bits");
}

Outcome fence_values(Session& s, OpenQueues& d) {
  CONFORM_TRY(values_of_64_bits(s, d));
  for (uint64_t initial : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    s.step(fmt::format("a fence that begins at {}", initial));
    tenon_fence_t* fence = nullptr;
    CONFORM_TRY(d.fence(initial, &fence));
    CONFORM_TRY(stands_at(d, fence, initial, "in the beginning"));
    CONFORM_TRY(d.reaches(fence, initial, "a fence in the beginning"));
    uint64_t value = initial;
    for (uint64_t step : {uint64_t{1}, uint64_t{2}, uint64_t{1000}, uint64_t{1} << 33}) {
      CONFORM_TRY(d.stays_below(fence, value + step, "a fence that was not signalled"));
      value += step;
      CONFORM_TRY(d.signal(fence, value));
      CONFORM_TRY(stands_at(d, fence, value, fmt::format("after a signal of {}", value)));
    }
  }
  return pass();
}

Outcome fence_only_grows(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("signals of lower values");
  CONFORM_TRY(d.signal(b.done, 100));
  for (uint64_t lower : {99, 7, 0}) {
    (void)d.api().fence_signal(d.api().self, b.done, lower);  // refusing it is fine too
    CONFORM_TRY(
        stands_at(d, b.done, 100, fmt::format("after a signal of {} from the host", lower)));
  }
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), kNoPoint, {b.done, 50}));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), kNoPoint, {b.gate, 1}));
  CONFORM_TRY(d.reaches(b.gate, 1, "work after a signal of a lower value"));
  return stands_at(d, b.done, 100, "after work that signals 50");
}

Outcome wait_when_reached(Session& s, OpenQueues& d) {
  tenon_fence_t* fence = nullptr;
  CONFORM_TRY(d.fence(10, &fence));
  s.step("waiting for values that were reached");
  for (uint64_t value : {0, 1, 9, 10}) {
    for (uint64_t timeout : {uint64_t{0}, uint64_t{1000}, UINT64_MAX}) {
      const tenon_code_t code = d.wait_code(fence, value, timeout);
      CONFORM_EXPECT(code == TENON_OK, "the fence is at 10, and a wait for {} gives {}", value,
                     code_text(code));
    }
  }
  return pass();
}

Outcome ends_ok(const Waiter& waiter, std::string_view what) {
  const auto begin = Clock::now();
  while (!waiter.over) {
    CONFORM_EXPECT(Clock::now() - begin < std::chrono::nanoseconds(kPatienceNs), "{} does not end",
                   what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CONFORM_EXPECT(waiter.code == TENON_OK, "{} gives {}", what, code_text(waiter.code));
  return pass();
}

Outcome long_waits(Session& s, OpenQueues& d) {
  tenon_fence_t* fence = nullptr;
  CONFORM_TRY(d.fence(0, &fence));
  uint64_t value = 0;
  for (uint64_t timeout : {UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63, (uint64_t{1} << 63) - 1,
                           uint64_t{3600} * 1'000'000'000}) {
    const std::string what = fmt::format("a wait of at most {} ns", timeout);
    s.step(what);
    const std::shared_ptr<Waiter> waiter = start_waiter(d, fence, ++value, timeout);
    pause_a_while();
    // Some devices have a limit of their own even if none was given.
    if (timeout == UINT64_MAX) pause_a_while(std::chrono::seconds(1));
    CONFORM_EXPECT(!waiter->over, "{} is over early, with {}", what, code_text(waiter->code));
    CONFORM_TRY(d.signal(fence, value));
    CONFORM_TRY(ends_ok(*waiter, what));
  }
  return pass();
}

// Repeats a wait that times out and judges the shortest: a busy machine makes some longer, but none
// shorter. The waiting thread reads the clock itself, so that its start-up is not counted.
Outcome times_out(OpenQueues& d, tenon_fence_t* fence, uint64_t timeout, int times) {
  auto least = std::chrono::nanoseconds::max();
  for (int time = 0; time < times; ++time) {
    const auto begin = Clock::now();
    const tenon_code_t code = d.wait_code(fence, 4, timeout);
    least = std::min<std::chrono::nanoseconds>(least, Clock::now() - begin);
    CONFORM_EXPECT(code == TENON_DEADLINE_EXCEEDED,
                   "a wait of {} ns for what does not come gives {}", timeout, code_text(code));
  }
  CONFORM_EXPECT(least >= std::chrono::nanoseconds(timeout), "a wait of {} ns gives up after {} ns",
                 timeout, least.count());
  return pass();
}

Outcome timeouts(Session& s, OpenQueues& d) {
  tenon_fence_t* fence = nullptr;
  CONFORM_TRY(d.fence(3, &fence));
  struct Wait {
    uint64_t timeout;
    int times;
  };
  // Some are not whole milliseconds. Rounding errors matter most for short timeouts, so those are
  // tried most often.
  for (const auto [timeout, times] :
       {Wait{0, 1}, Wait{1, 1}, Wait{1'000'000, 10}, Wait{999'999, 20}, Wait{1'900'000, 20},
        Wait{40'000'000, 1}, Wait{40'900'000, 3}, Wait{250'000'000, 1}}) {
    s.step(fmt::format("a wait of {} ns for what does not come", timeout));
    CONFORM_TRY(returns([&d, fence, timeout, times] { return times_out(d, fence, timeout, times); },
                        fmt::format("a wait of {} ns, {} times", timeout, times)));
  }
  CONFORM_TRY(d.signal(fence, 4));
  return d.reaches(fence, 4, "a fence that was waited for in vain");
}

Outcome host_signal(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("signals from the host for threads and work");
  std::vector<std::shared_ptr<Waiter>> waiters;
  for (uint64_t value = 1; value <= 6; ++value)
    waiters.push_back(start_waiter(d, b.gate, (value + 1) / 2, UINT64_MAX));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), {b.gate, 1}, {b.done, 1}));
  CONFORM_TRY(d.submit(b.second, async_fill(b.other, 0, 8, 1, 1), {b.gate, 2}, {b.done, 2}));
  pause_a_while();
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, 1, "work that waits for the value signalled"));
  for (size_t i = 0; i < 2; ++i)
    CONFORM_TRY(ends_ok(*waiters[i], "a wait for the value that the host signals"));
  pause_a_while();
  for (size_t i = 2; i < 6; ++i)
    CONFORM_EXPECT(!waiters[i]->over, "a wait for {} ends when the fence is at 1", i / 2 + 1);
  CONFORM_TRY(d.signal(b.gate, 3));
  for (const auto& waiter : waiters)
    CONFORM_TRY(
        ends_ok(*waiter, "a wait for a value lower than the one signalled, or equal to it"));
  return d.reaches(b.done, 2, "work that waits for a value lower than the one signalled");
}

// One of several threads that signal, query and wait on two fences.
Outcome one_of_several(OpenQueues& d, tenon_fence_t* shared, tenon_fence_t* turns, uint64_t thread,
                       uint64_t threads) {
  constexpr uint64_t kRounds = 300;
  uint64_t before = 0;
  for (uint64_t i = 0; i < kRounds; ++i) {
    const uint64_t turn = i * threads + thread;
    CONFORM_TRY(d.reaches(turns, turn, "a wait for another thread's signal"));
    CONFORM_TRY(d.signal(shared, i * 3 + thread));
    CONFORM_TRY(d.signal(turns, turn + 1));
    uint64_t now = 0;
    CONFORM_TRY(d.value_of(shared, &now));
    CONFORM_EXPECT(now >= before && now >= i * 3 + thread,
                   "the fence was at {} and {}, and is at {}", before, i * 3 + thread, now);
    before = now;
  }
  return pass();
}

// All at once: the highest value must remain.
Outcome signals_at_once(OpenQueues& d, uint64_t threads) {
  for (uint64_t round = 0; round < 50; ++round) {
    tenon_fence_t* fence = nullptr;
    CONFORM_TRY(d.fence(0, &fence));
    std::atomic<uint64_t> ready{0};
    {
      std::vector<std::jthread> running;
      for (uint64_t t = 0; t < threads; ++t) {
        running.emplace_back([&, t] {
          ++ready;
          while (ready < threads) std::this_thread::yield();
          (void)d.api().fence_signal(d.api().self, fence, (threads - t) * 10);
        });
      }
    }
    CONFORM_TRY(stands_at(d, fence, threads * 10, "after signals from several threads at once"));
    CONFORM_TRY(d.destroy(fence));
  }
  return pass();
}

Outcome fences_in_threads(Session& s, OpenQueues& d) {
  constexpr uint64_t kThreads = 4;
  tenon_fence_t *shared = nullptr, *turns = nullptr;
  CONFORM_TRY(d.fence(0, &shared));
  CONFORM_TRY(d.fence(0, &turns));
  s.step("waiting in 40 threads");
  tenon_fence_t* crowd = nullptr;
  CONFORM_TRY(d.fence(0, &crowd));
  std::vector<std::shared_ptr<Waiter>> waiters;
  for (uint64_t t = 1; t <= 40; ++t) waiters.push_back(start_waiter(d, crowd, t, UINT64_MAX));
  s.step("signalling, querying and waiting in four threads");
  CONFORM_TRY(signals_at_once(d, kThreads));
  Outcome outcomes[kThreads];
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] { outcomes[t] = one_of_several(d, shared, turns, t, kThreads); });
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  CONFORM_TRY(d.signal(crowd, 40));
  for (const auto& waiter : waiters) CONFORM_TRY(ends_ok(*waiter, "a wait in one of 40 threads"));
  return pass();
}

constexpr Check kChecks[] = {
    {"R-D03", "waits", with_queues<waits>},
    {"R-D03", "waits-reached", with_queues<waits_reached_before>},
    {"R-D03", "across-queues", with_queues<across_queues>},
    {"R-D04", "not-signalled-before", with_queues<not_signalled_before>},
    {"R-D04", "signalled-when-done", with_queues<signalled_when_done>},
    {"R-D05", "fence-values", with_queues<fence_values>},
    {"R-D05", "fence-grows", with_queues<fence_only_grows>},
    {"R-D07", "wait-reached", with_queues<wait_when_reached>},
    {"R-D07", "wait-long", with_queues<long_waits>},
    {"R-D08", "timeout", with_queues<timeouts>},
    {"R-D09", "host-signal", with_queues<host_signal>},
    {"R-D14", "fences-in-threads", with_queues<fences_in_threads>},
    {"R-D16", "queues-apart", with_queues<queues_apart>},
    {"R-D22", "no-signal", with_queues<no_signal_point>},
};

}  // namespace

std::span<const Check> fence_checks() {
  return kChecks;
}

}  // namespace tenon::conform
