// Group D: queues and fences. Nothing here is judged by how fast it is: work is held back by fences
// that the host signals, and what has not happened before cannot have happened by then.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <thread>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/conform/group_tables.h"
#include "core/conform/open_queue.h"
#include "core/conform/process_state.h"
#include "core/conform/session.h"

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;
using QueueCheck = Outcome (*)(Session&, OpenQueues&);

constexpr tenon_fence_point_t kNoPoint = {nullptr, 0};

// A check of the first device, with its queues. What it made is left alone when it does not pass.
template <QueueCheck kCheck>
Outcome with_queues(Session& s) {
  const tenon_device_api_t* api = nullptr;
  const tenon_queue_api_t* queues = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_queues(s, &queues));
  CONFORM_TRY(find_devices(s, &api, &count));
  auto* device = new OpenQueues(api, queues, 0);
  CONFORM_TRY(device->open());
  CONFORM_TRY(kCheck(s, *device));
  s.step("destroying queues and fences, and closing");
  CONFORM_TRY(device->end());
  delete device;
  return pass();
}

// What a check works with: queues, a fence that the host opens as a gate, and one that work
// signals.
struct Bench {
  tenon_queue_t *first = nullptr, *second = nullptr;
  tenon_fence_t *gate = nullptr, *done = nullptr;
  tenon_buffer_t *buffer = nullptr, *other = nullptr;
};
constexpr size_t kBenchBytes = 4096;

Outcome make_bench(OpenQueues& d, Bench* b) {
  CONFORM_TRY(d.queue(&b->first));
  CONFORM_TRY(d.queue(&b->second));
  CONFORM_TRY(d.fence(0, &b->gate));
  CONFORM_TRY(d.fence(0, &b->done));
  CONFORM_TRY(d.memory().alloc(kBenchBytes, &b->buffer));
  CONFORM_TRY(d.memory().alloc(kBenchBytes, &b->other));
  CONFORM_TRY(d.memory().write(b->buffer, pattern_bytes(kBenchBytes, 1)));
  return d.memory().write(b->other, pattern_bytes(kBenchBytes, 2));
}

Outcome same_bytes(const Bytes& got, const Bytes& expected, std::string_view what) {
  const std::string difference = first_difference(got, expected);
  CONFORM_EXPECT(difference.empty(), "{}: {}", what, difference);
  return pass();
}

// Runs `call` in a thread of its own; failed unless it returns while the check has patience.
template <typename Call>
Outcome returns(Call call, std::string_view what) {
  auto promise = std::make_shared<std::promise<Outcome>>();
  std::future<Outcome> future = promise->get_future();
  std::thread([promise, call] { promise->set_value(call()); }).detach();
  if (future.wait_for(std::chrono::nanoseconds(kPatienceNs)) != std::future_status::ready)
    return failed("{} has not returned after {} s", what, kPatienceNs / 1'000'000'000);
  return future.get();
}

// ---- Queues
// ---------------------------------------------------------------------------------------------

Outcome creates(Session& s, OpenQueues& d) {
  constexpr uint32_t kQueues = 8;
  tenon_fence_t* done = nullptr;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.fence(0, &done));
  CONFORM_TRY(d.memory().alloc(kQueues * 64, &buffer));
  Bytes expected;
  for (uint32_t i = 0; i < kQueues; ++i) {
    s.step(fmt::format("work on the {}. queue", i + 1));
    tenon_queue_t* queue = nullptr;
    CONFORM_TRY(d.queue(&queue));
    CONFORM_TRY(d.submit(queue, async_fill(buffer, i * 64, 64, i + 1, 1), kNoPoint, {done, i + 1}));
    CONFORM_TRY(d.reaches(done, i + 1, "work on a queue"));
    expected.insert(expected.end(), 64, static_cast<unsigned char>(i + 1));
  }
  return d.memory().holds(buffer, expected, "what each queue filled");
}

Outcome destroy_waits(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  Bytes got(kBenchBytes, 0);
  CONFORM_TRY(
      d.submit(b.first, async_read(got.data(), b.buffer, 0, 2048), {b.gate, 1}, {b.done, 1}));
  CONFORM_TRY(d.submit(b.first, async_read(got.data() + 2048, b.buffer, 2048, 2048), kNoPoint,
                       {b.done, 2}));
  s.step("destroying a queue whose work waits");
  d.forget(b.first);
  auto returned = std::make_shared<std::atomic<bool>>(false);
  std::thread([&d, q = b.first, returned] {
    (void)d.api().queue_destroy(d.api().self, q);
    *returned = true;
  }).detach();
  pause_a_while();
  CONFORM_EXPECT(!*returned, "queue_destroy returns while work of the queue waits for a fence");
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, 2, "work of a queue that is destroyed"));
  const auto begin = Clock::now();
  while (!*returned && Clock::now() - begin < std::chrono::nanoseconds(kPatienceNs))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CONFORM_EXPECT(*returned, "queue_destroy does not return when the work of the queue is done");
  return same_bytes(got, pattern_bytes(kBenchBytes, 1), "what work of a destroyed queue read");
}

// A copy without a signal, so that only destroying tells when it is done. Its end is looked at
// first.
Outcome destroy_finishes(Session& s, OpenQueues& d) {
  constexpr size_t kSize = size_t{32} << 20;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.memory().alloc(kSize, &buffer));
  Bytes got(kSize, 0);
  for (unsigned char round = 1; round <= 8; ++round) {
    s.step("destroying a queue with a large copy under way");
    tenon_queue_t* queue = nullptr;
    CONFORM_EXPECT(d.memory().fill(buffer, 0, kSize, round, 1) == TENON_OK, "a fill fails");
    CONFORM_TRY(d.queue(&queue));
    CONFORM_TRY(d.submit(queue, async_read(got.data(), buffer, 0, kSize), kNoPoint, kNoPoint));
    CONFORM_TRY(d.destroy(queue));
    CONFORM_EXPECT(got.back() == round,
                   "when queue_destroy returns, the last byte of a copy of the queue is missing");
    CONFORM_EXPECT(std::count(got.begin(), got.end(), round) == static_cast<ptrdiff_t>(kSize),
                   "when queue_destroy returns, bytes of a copy of the queue are missing");
  }
  return pass();
}

Outcome submit_returns(Session& s, OpenQueues& d) {
  constexpr uint64_t kCount = 1000;
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("submitting work that waits");
  auto* got = new Bytes(kCount, 0);  // stays, since the thread may
  CONFORM_TRY(returns(
      [&d, b, got]() -> Outcome {
        for (uint64_t i = 0; i < kCount; ++i)
          CONFORM_TRY(d.submit(b.first, async_read(got->data() + i, b.buffer, i, 1), {b.gate, 1},
                               {b.done, i + 1}));
        return pass();
      },
      fmt::format("copy_async of {} copies that wait for a fence", kCount)));
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, kCount, "a thousand copies on one queue"));
  Bytes expected = pattern_bytes(kBenchBytes, 1);
  expected.resize(kCount);
  return same_bytes(*got, expected, "a thousand copies of one byte");
}

Outcome in_order(Session& s, OpenQueues& d) {
  constexpr uint64_t kCount = 300;
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("fills and reads of one place, in turn");
  std::vector<uint32_t> got(kCount, 0);
  for (uint64_t i = 0; i < kCount; ++i) {
    const tenon_fence_point_t wait = i == 0 ? tenon_fence_point_t{b.gate, 1} : kNoPoint;
    CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 4, i + 1, 4), wait, kNoPoint));
    CONFORM_TRY(d.submit(b.first, async_read(&got[i], b.buffer, 0, 4), kNoPoint, {b.done, i + 1}));
  }
  CONFORM_TRY(d.stays_below(b.done, 1, "work behind work that waits"));
  CONFORM_TRY(d.signal(b.gate, 1));
  for (uint64_t i : {uint64_t{0}, kCount / 2, kCount - 1}) {
    CONFORM_TRY(d.reaches(b.done, i + 1, "fills and reads of one place, in turn"));
    for (uint64_t k = 0; k <= i; ++k)
      CONFORM_EXPECT(got[k] == k + 1, "read {} of one place saw fill {}, in a queue that ran to {}",
                     k + 1, got[k], i + 1);
  }
  return pass();
}

// Work that takes long before work that takes no time.
Outcome large_then_small(Session& s, OpenQueues& d) {
  constexpr size_t kSize = size_t{8} << 20;
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  tenon_buffer_t* large = nullptr;
  CONFORM_TRY(d.memory().alloc(kSize, &large));
  for (uint64_t round = 1; round <= 16; ++round) {
    s.step("a large fill and a read of its last byte");
    unsigned char last = 0;
    CONFORM_TRY(d.submit(b.first, async_fill(large, 0, kSize, round, 1), kNoPoint, kNoPoint));
    CONFORM_TRY(
        d.submit(b.first, async_read(&last, large, kSize - 1, 1), kNoPoint, {b.done, round}));
    CONFORM_TRY(d.reaches(b.done, round, "a read behind a large fill"));
    CONFORM_EXPECT(last == round, "a read behind a large fill with {} sees {}", round, last);
  }
  return pass();
}

// ---- Waits and signals
// ---------------------------------------------------------------------------------------------

// Work that waits for `fences`, all reached but one.
Outcome waits_for(OpenQueues& d, const Bench& b, size_t fences, size_t last, uint64_t round) {
  std::vector<tenon_fence_point_t> points;
  for (size_t i = 0; i < fences; ++i) {
    tenon_fence_t* fence = nullptr;
    CONFORM_TRY(d.fence(i, &fence));
    points.push_back({fence, i + 5});
    if (i % 3 == 1) points.push_back(kNoPoint);
  }
  Bytes got(64, 0);
  CONFORM_TRY(
      d.submit_behind(b.first, async_read(got.data(), b.buffer, 0, 64), points, {b.done, round}));
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
  Bytes expected = pattern_bytes(kBenchBytes, 1);
  expected.resize(64);
  return same_bytes(got, expected, "work whose waits are all reached");
}

Outcome waits(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  uint64_t round = 0;
  for (size_t fences : {1, 2, 3, 17}) {
    for (size_t last : {size_t{0}, fences / 2, fences - 1}) {
      s.step(fmt::format("work that waits for {} fences", fences));
      CONFORM_TRY(waits_for(d, b, fences, last, ++round));
    }
  }
  return pass();
}

Outcome waits_reached_before(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
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

// One value handed on through 50 pieces of work, in turn on two queues; those of the second are
// submitted first.
Outcome across_queues(Session& s, OpenQueues& d) {
  constexpr uint64_t kCount = 50;
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
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
  Bytes expected = pattern_bytes(kBenchBytes, 1);
  for (size_t i = 8; i < (kCount + 1) * 8; ++i) expected[i] = expected[i - 8];
  return d.memory().holds(b.buffer, expected, "a value that went through two queues");
}

Outcome queues_apart(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("work that waits for work on a queue made later");
  std::vector<tenon_queue_t*> more(3);
  for (tenon_queue_t*& queue : more) CONFORM_TRY(d.queue(&queue));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), {b.gate, 3}, {b.done, 9}));
  for (uint64_t i = 0; i < 3; ++i) {
    CONFORM_TRY(d.submit(more[i], async_fill(b.buffer, 64 * (i + 1), 8, 1, 1), {b.gate, i},
                         {b.gate, i + 1}));
  }
  return d.reaches(b.done, 9, "work that waits for work on another queue, submitted later");
}

Outcome not_signalled_before(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("the signal of work that waits");
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), {b.gate, 1}, {b.done, 1}));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 2, 1), kNoPoint, {b.done, 2}));
  CONFORM_TRY(d.stays_below(b.done, 1, "work that waits"));
  CONFORM_TRY(d.signal(b.gate, 1));
  return d.reaches(b.done, 2, "work whose wait is reached");
}

// Looks at the last byte in the moment in which the signal is seen.
Outcome signalled_when_done(Session& s, OpenQueues& d) {
  constexpr size_t kSize = size_t{32} << 20;
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  tenon_buffer_t* large = nullptr;
  CONFORM_TRY(d.memory().alloc(kSize, &large));
  Bytes got(kSize, 0);
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
    CONFORM_EXPECT(std::all_of(got.begin(), got.end(), [&](unsigned char c) { return c == round; }),
                   "when a copy of {} bytes is signalled, some of them are missing", kSize);
  }
  return pass();
}

Outcome no_signal_point(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("work without a signal");
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, kBenchBytes, 7, 1), kNoPoint, kNoPoint));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 7, 1), kNoPoint, {b.done, 1}));
  CONFORM_TRY(d.reaches(b.done, 1, "work behind work without a signal"));
  return d.memory().holds(b.buffer, Bytes(kBenchBytes, 7), "what work without a signal filled");
}

// ---- Fences
// ---------------------------------------------------------------------------------------------

Outcome stands_at(OpenQueues& d, tenon_fence_t* fence, uint64_t value, std::string_view when) {
  uint64_t now = 0;
  CONFORM_TRY(d.value_of(fence, &now));
  CONFORM_EXPECT(now == value, "{} the fence stands at {} and not at {}", when, now, value);
  return pass();
}

Outcome fence_values(Session& s, OpenQueues& d) {
  for (uint64_t initial : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    s.step(fmt::format("a fence that begins at {}", initial));
    tenon_fence_t* fence = nullptr;
    CONFORM_TRY(d.fence(initial, &fence));
    CONFORM_TRY(stands_at(d, fence, initial, "in the beginning"));
    CONFORM_TRY(d.reaches(fence, initial, "a fence in the beginning"));
    uint64_t value = initial;
    for (uint64_t step : {uint64_t{1}, uint64_t{2}, uint64_t{1000}, uint64_t{1} << 33}) {
      CONFORM_TRY(d.stays_below(fence, value + step, "a fence that nobody signalled"));
      value += step;
      CONFORM_TRY(d.signal(fence, value));
      CONFORM_TRY(stands_at(d, fence, value, fmt::format("after a signal of {}", value)));
    }
  }
  return pass();
}

Outcome fence_only_grows(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("signals of lower values");
  CONFORM_TRY(d.signal(b.done, 100));
  for (uint64_t lower : {99, 7, 0}) {
    (void)d.api().fence_signal(d.api().self, b.done, lower);  // a refusal is as good
    CONFORM_TRY(
        stands_at(d, b.done, 100, fmt::format("after a signal of {} from the host", lower)));
  }
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), kNoPoint, {b.done, 50}));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), kNoPoint, {b.gate, 1}));
  CONFORM_TRY(d.reaches(b.gate, 1, "work behind a signal of a lower value"));
  return stands_at(d, b.done, 100, "after work that signals 50");
}

Outcome wait_when_reached(Session& s, OpenQueues& d) {
  tenon_fence_t* fence = nullptr;
  CONFORM_TRY(d.fence(10, &fence));
  s.step("waiting for values that were reached");
  for (uint64_t value : {0, 1, 9, 10}) {
    for (uint64_t timeout : {uint64_t{0}, uint64_t{1000}, UINT64_MAX}) {
      const tenon_code_t code = d.wait_code(fence, value, timeout);
      CONFORM_EXPECT(code == TENON_OK, "the fence stands at 10, and a wait for {} gives {}", value,
                     code_text(code));
    }
  }
  return pass();
}

// A wait in a thread of its own. Left alone when it does not end.
struct Waiter {
  std::atomic<bool> over{false};
  std::atomic<tenon_code_t> code{TENON_OK};
};
std::shared_ptr<Waiter> start_waiter(OpenQueues& d, tenon_fence_t* fence, uint64_t value,
                                     uint64_t timeout) {
  auto waiter = std::make_shared<Waiter>();
  std::thread([&d, fence, value, timeout, waiter] {
    waiter->code = d.api().fence_wait(d.api().self, fence, value, timeout);
    waiter->over = true;
  }).detach();
  return waiter;
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
    // Some have a limit of their own where none was asked for.
    if (timeout == UINT64_MAX) std::this_thread::sleep_for(std::chrono::seconds(1));
    CONFORM_EXPECT(!waiter->over, "{} is over early, with {}", what, code_text(waiter->code));
    CONFORM_TRY(d.signal(fence, value));
    CONFORM_TRY(ends_ok(*waiter, what));
  }
  return pass();
}

Outcome timeouts(Session& s, OpenQueues& d) {
  tenon_fence_t* fence = nullptr;
  CONFORM_TRY(d.fence(3, &fence));
  for (uint64_t timeout : {0, 1, 1'000'000, 40'000'000, 250'000'000}) {
    s.step(fmt::format("a wait of {} ns for what does not come", timeout));
    const auto begin = Clock::now();
    CONFORM_TRY(returns(
        [&d, fence, timeout]() -> Outcome {
          const tenon_code_t code = d.wait_code(fence, 4, timeout);
          CONFORM_EXPECT(code == TENON_DEADLINE_EXCEEDED,
                         "a wait of {} ns for what does not come gives {}", timeout,
                         code_text(code));
          return pass();
        },
        fmt::format("a wait of {} ns", timeout)));
    const auto took = static_cast<uint64_t>((Clock::now() - begin) / std::chrono::nanoseconds(1));
    CONFORM_EXPECT(took >= timeout, "a wait of {} ns gives up after {} ns", timeout, took);
  }
  CONFORM_TRY(d.signal(fence, 4));
  return d.reaches(fence, 4, "a fence that was waited for in vain");
}

Outcome host_signal(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
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
    CONFORM_EXPECT(!waiters[i]->over, "a wait for {} ends when the fence stands at 1", i / 2 + 1);
  CONFORM_TRY(d.signal(b.gate, 3));
  for (const auto& waiter : waiters)
    CONFORM_TRY(
        ends_ok(*waiter, "a wait for a value lower than the one signalled, or equal to it"));
  return d.reaches(b.done, 2, "work that waits for a value lower than the one signalled");
}

// One of several threads that signal, query and wait for two fences.
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
                   "the fence stood at {} and {}, and stands at {}", before, i * 3 + thread, now);
    before = now;
  }
  return pass();
}

// All at once: the highest has to stay.
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
  s.step("signalling, querying and waiting in four threads");
  CONFORM_TRY(signals_at_once(d, kThreads));
  Outcome outcomes[kThreads];
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] { outcomes[t] = one_of_several(d, shared, turns, t, kThreads); });
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

// ---- Copies
// ---------------------------------------------------------------------------------------------

Outcome all_directions(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  const Bytes source = pattern_bytes(kBenchBytes, 5);
  Bytes first = pattern_bytes(kBenchBytes, 1), second = pattern_bytes(kBenchBytes, 2);
  uint64_t value = 0;
  for (size_t size : {1, 3, 8, 31, 64, 100, 1000}) {
    s.step(fmt::format("copies of {} bytes on a queue", size));
    const size_t to = (size * 29) % (kBenchBytes - size), from = (size * 13) % (kBenchBytes - size);
    Bytes got(size + 2, 0x5a), got_expected = got;
    CONFORM_TRY(
        d.submit(b.first, async_write(b.buffer, to, source.data() + 1, size), kNoPoint, kNoPoint));
    std::copy_n(source.begin() + 1, size, first.begin() + static_cast<ptrdiff_t>(to));
    CONFORM_TRY(
        d.submit(b.first, async_between(b.other, from, b.buffer, to, size), kNoPoint, kNoPoint));
    std::copy_n(first.begin() + static_cast<ptrdiff_t>(to), size,
                second.begin() + static_cast<ptrdiff_t>(from));
    const size_t filled = size / 4 * 4, fill_at = (size * 7) % (kBenchBytes - size) / 8 * 8;
    CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, fill_at, filled, 0x99887766, 4), kNoPoint,
                         kNoPoint));
    for (size_t i = 0; i < filled; ++i)
      first[fill_at + i] = static_cast<unsigned char>(0x99887766u >> 8 * (i % 4));
    CONFORM_TRY(d.submit(b.first, async_read(got.data() + 1, b.other, from, size), kNoPoint,
                         {b.done, ++value}));
    std::copy_n(second.begin() + static_cast<ptrdiff_t>(from), size, got_expected.begin() + 1);
    CONFORM_TRY(d.reaches(b.done, value, "copies on a queue"));
    CONFORM_TRY(same_bytes(got, got_expected, fmt::format("{} bytes read on a queue", size)));
  }
  CONFORM_TRY(d.memory().holds(b.buffer, first, "what copies on a queue wrote and filled"));
  return d.memory().holds(b.other, second, "what copies on a queue wrote between buffers");
}

Outcome empty_work(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("copies of 0 bytes on a queue");
  const tenon_copy_t copies[] = {
      async_write(b.buffer, 0, nullptr, 0), async_read(nullptr, b.buffer, kBenchBytes, 0),
      async_between(b.other, 0, b.buffer, 0, 0), async_fill(b.buffer, 0, 0, 1, 4)};
  uint64_t value = 0;
  for (const tenon_copy_t& copy : copies) {
    ++value;
    CONFORM_TRY(d.submit(b.first, copy, {b.gate, value}, {b.done, value}));
    CONFORM_TRY(d.stays_below(b.done, value, "a copy of 0 bytes that waits"));
    CONFORM_TRY(d.signal(b.gate, value));
    CONFORM_TRY(d.reaches(b.done, value, "a copy of 0 bytes"));
  }
  return pass();
}

Outcome host_memory(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  const Bytes late = pattern_bytes(kBenchBytes, 6);
  Bytes source = pattern_bytes(kBenchBytes, 7), got(kBenchBytes, 0x33);
  s.step("host memory of copies that wait");
  CONFORM_TRY(d.submit(b.first, async_write(b.buffer, 0, source.data(), kBenchBytes), {b.gate, 1},
                       {b.done, 1}));
  CONFORM_TRY(d.submit(b.first, async_read(got.data(), b.buffer, 0, kBenchBytes), {b.gate, 2},
                       {b.done, 2}));
  pause_a_while();
  source = late;  // what stands there when the wait is reached
  CONFORM_TRY(same_bytes(got, Bytes(kBenchBytes, 0x33), "the target of a copy that waits"));
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, 1, "a copy to the device"));
  std::fill(source.begin(), source.end(), static_cast<unsigned char>(0x44));
  pause_a_while();
  CONFORM_TRY(same_bytes(got, Bytes(kBenchBytes, 0x33), "the target of a copy that waits"));
  CONFORM_TRY(d.signal(b.gate, 2));
  CONFORM_TRY(d.reaches(b.done, 2, "a copy to the host"));
  CONFORM_TRY(same_bytes(got, late, "what stood in host memory when the wait was reached"));
  std::fill(got.begin(), got.end(), static_cast<unsigned char>(0x55));
  pause_a_while();
  return same_bytes(got, Bytes(kBenchBytes, 0x55), "host memory after the signal");
}

Outcome borrowed_records(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("changing the records of copy_async after it returned");
  Bytes got(64, 0), wrong(64, 0);
  auto points = std::make_unique<tenon_fence_point_t[]>(2);
  points[0] = {b.gate, 1};
  points[1] = {b.gate, 2};
  auto copy = std::make_unique<tenon_copy_t>(async_read(got.data(), b.buffer, 0, 64));
  CONFORM_TRY(d.submit_behind(b.first, *copy, {points.get(), 2}, {b.done, 1}));
  *copy = async_read(wrong.data(), b.other, 0, 64);
  points[0] = points[1] = kNoPoint;
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.stays_below(b.done, 1, "work whose points changed after its submission"));
  CONFORM_TRY(d.signal(b.gate, 2));
  CONFORM_TRY(d.reaches(b.done, 1, "work whose records changed after its submission"));
  Bytes expected = pattern_bytes(kBenchBytes, 1);
  expected.resize(64);
  return same_bytes(got, expected, "a copy whose record changed after its submission");
}

// A call in a thread, while work on two queues that it has to come after waits for two gates, of
// which `last` is opened last.
template <typename Call>
Outcome comes_after_work(OpenQueues& d, const Bench& b, uint64_t last, std::string_view what,
                         Call call) {
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, kBenchBytes, 9, 1), {b.gate, last},
                       {b.done, last}));
  CONFORM_TRY(d.submit(b.second, async_fill(b.other, 0, kBenchBytes, 8, 1), {b.gate, 3 - last},
                       {b.done, 3 - last}));
  auto over = std::make_shared<std::atomic<int>>(0);
  auto outcome = std::make_shared<Outcome>();
  std::thread([call, over, outcome] {
    *outcome = call();
    *over = 1;
  }).detach();
  for (uint64_t value : {1, 2}) {
    pause_a_while();
    CONFORM_EXPECT(*over == 0, "{} returns while work submitted before it waits", what);
    CONFORM_TRY(d.signal(b.gate, value));
  }
  const auto begin = Clock::now();
  while (*over == 0) {
    CONFORM_EXPECT(Clock::now() - begin < std::chrono::nanoseconds(kPatienceNs),
                   "{} does not return", what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return *outcome;
}

Outcome copy_after_work(Session& s, OpenQueues& d) {
  for (uint64_t last : {1, 2}) {
    Bench b;
    CONFORM_TRY(make_bench(d, &b));
    s.step("copy while work waits");
    auto got = std::make_shared<Bytes>(kBenchBytes, 0);
    CONFORM_TRY(comes_after_work(d, b, last, "copy", [&d, b, got]() -> Outcome {
      const tenon_code_t code = d.memory().to_host(got->data(), b.buffer, 0, kBenchBytes);
      CONFORM_EXPECT(code == TENON_OK, "copy gives {}", code_text(code));
      return pass();
    }));
    CONFORM_TRY(same_bytes(*got, Bytes(kBenchBytes, 9), "a copy behind work of a queue"));
    CONFORM_TRY(
        d.memory().holds(b.other, Bytes(kBenchBytes, 8), "a copy behind work of another queue"));
  }
  return pass();
}

Outcome sync_after_work(Session& s, OpenQueues& d) {
  for (uint64_t last : {1, 2}) {
    Bench b;
    CONFORM_TRY(make_bench(d, &b));
    s.step("sync while work waits");
    CONFORM_TRY(comes_after_work(d, b, last, "sync", [&d, b]() -> Outcome {
      const tenon_device_api_t& api = d.memory().api();
      const tenon_code_t code = api.sync(api.self, d.memory().device());
      CONFORM_EXPECT(code == TENON_OK, "sync gives {}", code_text(code));
      const tenon_code_t reached = d.wait_code(b.done, 2, 0);
      CONFORM_EXPECT(reached == TENON_OK,
                     "sync returns, and a wait for the last signal before it gives {}",
                     code_text(reached));
      return pass();
    }));
  }
  return pass();
}

// What the queues wrote is seen at the address that map gave, once the signal is there.
Outcome mapped(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  const tenon_device_api_t& api = d.memory().api();
  if (api.map == nullptr) return not_offered("map");
  void* address = nullptr;
  const tenon_code_t code = api.map(api.self, d.memory().device(), b.buffer, &address);
  if (code != TENON_OK) return not_offered("map of its buffers");
  for (uint64_t value = 1; value <= 3; ++value) {
    s.step("work on a mapped buffer");
    const Bytes bytes = pattern_bytes(kBenchBytes, static_cast<uint32_t>(value) + 20);
    CONFORM_TRY(d.submit(b.first, async_write(b.buffer, 0, bytes.data(), kBenchBytes), kNoPoint,
                         {b.done, value}));
    CONFORM_TRY(d.reaches(b.done, value, "work on a mapped buffer"));
    const auto* seen = static_cast<const unsigned char*>(address);
    CONFORM_TRY(same_bytes(Bytes(seen, seen + kBenchBytes), bytes, "a mapped buffer after a wait"));
  }
  return pass();
}

// ---- Failures
// ---------------------------------------------------------------------------------------------

// Copies that cannot work.
std::vector<tenon_copy_t> bad_copies(const Bench& b, Bytes& host) {
  tenon_copy_t odd = async_fill(b.buffer, 0, 240, 1, 1);
  odd.direction = 77;
  return {async_fill(b.buffer, 0, 240, 1, 3),
          odd,
          async_write(b.buffer, kBenchBytes - 8, host.data(), 16),
          async_read(host.data(), b.buffer, kBenchBytes, 1),
          async_between(b.other, UINT64_MAX - 3, b.buffer, 0, 8),
          async_fill(b.buffer, 8, UINT64_MAX - 7, 1, 1)};
}

Outcome failing_submit(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  Bytes host(64, 0x5a);
  size_t refused = 0;
  for (const tenon_copy_t& copy : bad_copies(b, host)) {
    s.step("submitting a copy that cannot work");
    tenon_fence_t* signal = nullptr;
    CONFORM_TRY(d.fence(4, &signal));
    const tenon_fence_point_t point = {signal, 5};
    const tenon_code_t code = d.submit_code(b.first, copy, {}, point);
    if (code == TENON_OK) {  // found later
      (void)d.wait_code(signal, 5, kPatienceNs);
      (void)d.memory().api().sync(d.memory().api().self, d.memory().device());
      continue;
    }
    ++refused;
    CONFORM_EXPECT(heard_failure().any, "copy_async gives {} without a reason", code_text(code));
    CONFORM_TRY(d.submit(b.first, async_fill(b.other, 0, 8, 1, 1), kNoPoint, {b.done, refused}));
    CONFORM_TRY(d.reaches(b.done, refused, "work behind a copy that was refused"));
    uint64_t value = 0;
    CONFORM_TRY(d.value_of(signal, &value));
    CONFORM_EXPECT(value == 4, "the signal of a refused copy stands at {} and stood at 4", value);
    const tenon_code_t waited = d.wait_code(signal, 5, 0);
    CONFORM_EXPECT(waited == TENON_DEADLINE_EXCEEDED,
                   "a wait for the signal of a refused copy gives {}", code_text(waited));
    const tenon_code_t synced = d.memory().api().sync(d.memory().api().self, d.memory().device());
    CONFORM_EXPECT(synced == TENON_OK, "sync after a refused copy gives {}", code_text(synced));
  }
  CONFORM_TRY(same_bytes(host, Bytes(64, 0x5a), "host memory of refused copies"));
  CONFORM_TRY(
      d.memory().holds(b.buffer, pattern_bytes(kBenchBytes, 1), "a buffer, after refused copies"));
  return refused == 0 ? skipped("it refuses no copy at its submission") : pass();
}

// Submits work that fails later. Skipped where the device finds it at once.
Outcome submit_failing(OpenQueues& d, const Bench& b, tenon_fence_point_t wait,
                       tenon_fence_point_t signal) {
  const tenon_code_t code = d.submit_code(
      b.first, async_between(b.other, kBenchBytes - 8, b.buffer, 0, 16), {&wait, 1}, signal);
  return code == TENON_OK ? pass()
                          : skipped("it finds copies that leave a buffer at their submission");
}

Outcome failed_work(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("work that fails");
  CONFORM_TRY(d.submit(b.first, async_fill(b.other, 0, 8, 1, 1), {b.gate, 1}, {b.done, 1}));
  CONFORM_TRY(submit_failing(d, b, {b.gate, 1}, {b.done, 2}));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), kNoPoint, {b.done, 3}));
  const std::shared_ptr<Waiter> waiter = start_waiter(d, b.done, 2, UINT64_MAX);
  CONFORM_TRY(d.stays_below(b.done, 1, "work that waits before it fails"));
  CONFORM_TRY(d.signal(b.gate, 1));
  const tenon_code_t first = d.wait_code(b.done, 2, kPatienceNs);
  CONFORM_EXPECT(first == TENON_OUT_OF_RANGE,
                 "a wait for the signal of a copy that leaves a buffer gives {}", code_text(first));
  CONFORM_EXPECT(heard_failure().any && heard_failure().code == first,
                 "a wait for the signal of failed work gives {} without a reason",
                 code_text(first));
  const tenon_code_t before = d.wait_code(b.done, 1, kPatienceNs);
  CONFORM_EXPECT(before == TENON_OK, "a wait for a signal before that of failed work gives {}",
                 code_text(before));
  const tenon_code_t later = d.wait_code(b.done, 3, kPatienceNs);
  CONFORM_EXPECT(later == first, "a wait for a value later than that of failed work gives {}",
                 code_text(later));
  for (const auto begin = Clock::now(); !waiter->over;)
    CONFORM_EXPECT(Clock::now() - begin < std::chrono::nanoseconds(kPatienceNs),
                   "a thread that waits for failed work goes on waiting");
  CONFORM_EXPECT(waiter->code == first, "a thread that waits for failed work gets {}",
                 code_text(waiter->code));
  (void)d.memory().api().sync(d.memory().api().self, d.memory().device());
  return d.memory().holds(
      b.buffer,
      [] {
        Bytes expected = pattern_bytes(kBenchBytes, 1);
        std::fill_n(expected.begin(), 8, static_cast<unsigned char>(1));
        return expected;
      }(),
      "a buffer that work behind failed work filled");
}

Outcome query_of_failed(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  uint64_t value = 0;
  for (uint64_t i = 1; i <= 20; ++i) {
    s.step("querying while work runs");
    CONFORM_TRY(
        d.submit(b.first, async_fill(b.other, 0, kBenchBytes, i, 1), {b.gate, i}, {b.done, i}));
    CONFORM_TRY(stands_at(d, b.done, i - 1, fmt::format("before the {}. signal", i)));
    CONFORM_TRY(d.signal(b.gate, i));
    CONFORM_TRY(d.reaches(b.done, i, "work"));
    CONFORM_TRY(stands_at(d, b.done, i, fmt::format("after the {}. signal", i)));
  }
  tenon_fence_t* failing = nullptr;
  CONFORM_TRY(d.fence(0, &failing));
  if (submit_failing(d, b, kNoPoint, {failing, 1}).verdict != Verdict::kPass) return pass();
  (void)d.wait_code(failing, 1, kPatienceNs);
  const tenon_code_t code = d.api().fence_query(d.api().self, failing, &value);
  (void)d.memory().api().sync(d.memory().api().self, d.memory().device());
  CONFORM_EXPECT(code == TENON_OUT_OF_RANGE, "fence_query of a fence whose work failed gives {}",
                 code_text(code));
  return pass();
}

Outcome waits_for_failed(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  tenon_fence_t* last = nullptr;
  CONFORM_TRY(d.fence(0, &last));
  s.step("work that waits for failed work");
  CONFORM_TRY(submit_failing(d, b, {b.gate, 1}, {b.done, 1}));
  CONFORM_TRY(
      d.submit(b.second, async_fill(b.other, 0, kBenchBytes, 3, 1), {b.done, 1}, {last, 1}));
  CONFORM_TRY(d.signal(b.gate, 1));
  const tenon_code_t code = d.wait_code(last, 1, kPatienceNs);
  CONFORM_EXPECT(code == TENON_OUT_OF_RANGE,
                 "work that waits for failed work gives {} through its signal", code_text(code));
  (void)d.memory().api().sync(d.memory().api().self, d.memory().device());
  CONFORM_TRY(d.memory().holds(b.other, pattern_bytes(kBenchBytes, 2),
                               "a buffer that work behind a failed wait names"));
  tenon_fence_t* fresh = nullptr;
  CONFORM_TRY(d.fence(0, &fresh));
  for (tenon_queue_t* queue : {b.first, b.second})
    CONFORM_TRY(d.submit(queue, async_fill(b.other, 0, 8, 3, 1), kNoPoint,
                         {fresh, queue == b.first ? 1u : 2u}));
  return d.reaches(fresh, 2, "work on queues on which work failed");
}

Outcome sync_tells(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("sync after failed work");
  CONFORM_TRY(submit_failing(d, b, kNoPoint, {b.done, 1}));
  const tenon_code_t code = d.memory().api().sync(d.memory().api().self, d.memory().device());
  CONFORM_EXPECT(code == TENON_OUT_OF_RANGE, "sync after a copy that left a buffer gives {}",
                 code_text(code));
  const tenon_code_t again = d.memory().api().sync(d.memory().api().self, d.memory().device());
  CONFORM_EXPECT(again == TENON_OK, "a second sync after failed work gives {}", code_text(again));
  return pass();
}

// ---- Many of them
// ---------------------------------------------------------------------------------------------

size_t process_threads() {
  return list_folder("/proc/self/task").value_or({}).size();
}

Outcome queues_come_and_go(OpenQueues& d, tenon_fence_t* done, tenon_buffer_t* buffer,
                           uint64_t* value) {
  tenon_queue_t* queue = nullptr;
  CONFORM_TRY(d.queue(&queue));
  CONFORM_TRY(d.submit(queue, async_fill(buffer, 0, 8, 1, 1), kNoPoint, {done, ++*value}));
  return d.destroy(queue);
}

Outcome gives_back(Session& s, OpenQueues& d) {
  constexpr uint64_t kQueues = 200, kFences = 20000, kMostBytes = uint64_t{512} << 10;
  tenon_fence_t* done = nullptr;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.fence(0, &done));
  CONFORM_TRY(d.memory().alloc(64, &buffer));
  uint64_t value = 0;
  s.step("making and destroying queues");
  for (int warm = 0; warm < 8; ++warm) CONFORM_TRY(queues_come_and_go(d, done, buffer, &value));
  const size_t threads = process_threads();
  for (uint64_t i = 0; i < kQueues; ++i) CONFORM_TRY(queues_come_and_go(d, done, buffer, &value));
  const size_t left = process_threads();
  CONFORM_EXPECT(left < threads + kQueues / 10,
                 "after {} queues were made and destroyed the process has {} threads more", kQueues,
                 left - threads);
  s.step("making and destroying fences");
  auto fences = [&](uint64_t count) -> Outcome {
    for (uint64_t i = 0; i < count; ++i) {
      tenon_fence_t* fence = nullptr;
      CONFORM_TRY(d.fence(i, &fence));
      CONFORM_TRY(d.destroy(fence));
    }
    return pass();
  };
  CONFORM_TRY(fences(kFences / 10));
  const uint64_t before = resident_bytes();
  CONFORM_TRY(fences(kFences));
  const uint64_t after = resident_bytes();
  CONFORM_EXPECT(after < before + kMostBytes,
                 "after {} fences were made and destroyed the process holds {} KiB more", kFences,
                 (after - before) >> 10);
  return pass();
}

Outcome destroyed_after_wait(Session& s, OpenQueues& d) {
  Bench b;
  CONFORM_TRY(make_bench(d, &b));
  s.step("destroying fences whose last signal was waited for");
  for (uint64_t i = 0; i < 300; ++i) {
    tenon_fence_t* fence = nullptr;
    CONFORM_TRY(d.fence(0, &fence));
    CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), kNoPoint, {fence, 1}));
    CONFORM_TRY(d.reaches(fence, 1, "work"));
    CONFORM_TRY(d.destroy(fence));
  }
  return pass();
}

Outcome queue_per_thread(Session& s, OpenQueues& d) {
  tenon_device_info_t info = {};
  info.size_bytes = sizeof(info);
  const tenon_device_api_t& api = d.memory().api();
  if (api.info(api.self, 0, &info) != TENON_OK) return skipped("info fails, as C.info tells");
  if (info.threading == TENON_THREADING_SERIAL)
    return skipped("the device wants one call at a time");
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kRounds = 100;
  struct Lane {
    tenon_queue_t* queue;
    tenon_fence_t* done;
    tenon_buffer_t* buffer;
    Outcome outcome;
  };
  std::deque<Lane> lanes;
  for (uint32_t i = 0; i < kThreads; ++i) {
    Lane& lane = lanes.emplace_back();
    CONFORM_TRY(d.queue(&lane.queue));
    CONFORM_TRY(d.fence(0, &lane.done));
    CONFORM_TRY(d.memory().alloc(kBenchBytes, &lane.buffer));
  }
  s.step("submitting to four queues in four threads");
  auto work = [&](Lane& lane, uint32_t seed) -> Outcome {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      const Bytes bytes = pattern_bytes(kBenchBytes, seed * 1000 + static_cast<uint32_t>(i));
      Bytes got(kBenchBytes, 0);
      CONFORM_TRY(d.submit(lane.queue, async_write(lane.buffer, 0, bytes.data(), kBenchBytes),
                           kNoPoint, kNoPoint));
      CONFORM_TRY(d.submit(lane.queue, async_read(got.data(), lane.buffer, 0, kBenchBytes), {},
                           {lane.done, i}));
      CONFORM_TRY(d.reaches(lane.done, i, "work of one of several threads"));
      CONFORM_TRY(same_bytes(got, bytes, "a copy of one of several threads"));
    }
    return pass();
  };
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] { lanes[i].outcome = work(lanes[i], i); });
  }
  for (Lane& lane : lanes) CONFORM_TRY(std::move(lane.outcome));
  return pass();
}

// Work of one device is held back, that of another is not.
Outcome devices_apart(Session& s) {
  const tenon_device_api_t* api = nullptr;
  const tenon_queue_api_t* queues = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_queues(s, &queues));
  CONFORM_TRY(find_devices(s, &api, &count));
  if (count < 2) return skipped("there is one device");
  auto *first = new OpenQueues(api, queues, 0), *second = new OpenQueues(api, queues, 1);
  CONFORM_TRY(first->open());
  CONFORM_TRY(second->open());
  Bench a, b;
  CONFORM_TRY(make_bench(*first, &a));
  CONFORM_TRY(make_bench(*second, &b));
  s.step("work on two devices");
  CONFORM_TRY(
      first->submit(a.first, async_fill(a.buffer, 0, kBenchBytes, 1, 1), {a.gate, 1}, {a.done, 1}));
  CONFORM_TRY(
      second->submit(b.first, async_fill(b.buffer, 0, kBenchBytes, 2, 1), kNoPoint, {b.done, 1}));
  CONFORM_TRY(second->reaches(b.done, 1, "work of device 1 while work of device 0 waits"));
  CONFORM_TRY(returns(
      [second, api] {
        const tenon_code_t code = api->sync(api->self, second->memory().device());
        return code == TENON_OK ? pass() : failed("sync of device 1 gives {}", code_text(code));
      },
      "sync of device 1 while work of device 0 waits"));
  CONFORM_TRY(second->memory().holds(b.buffer, Bytes(kBenchBytes, 2), "a buffer of device 1"));
  CONFORM_TRY(first->signal(a.gate, 1));
  CONFORM_TRY(first->reaches(a.done, 1, "work of device 0"));
  CONFORM_TRY(second->end());
  CONFORM_TRY(first->memory().holds(a.buffer, Bytes(kBenchBytes, 1), "a buffer of device 0"));
  return first->end();
}

constexpr Check kChecks[] = {
    {"R-D01", "queue-create", with_queues<creates>},
    {"R-D01", "queue-destroy", with_queues<destroy_waits>},
    {"R-D01", "queue-destroy-busy", with_queues<destroy_finishes>},
    {"R-D02", "order", with_queues<in_order>, true},
    {"R-D02", "large-then-small", with_queues<large_then_small>},
    {"R-D03", "waits", with_queues<waits>},
    {"R-D03", "waits-reached", with_queues<waits_reached_before>},
    {"R-D03", "across-queues", with_queues<across_queues>},
    {"R-D04", "not-signalled-before", with_queues<not_signalled_before>},
    {"R-D04", "signalled-when-done", with_queues<signalled_when_done>},
    {"R-D05", "fence-values", with_queues<fence_values>},
    {"R-D05", "fence-grows", with_queues<fence_only_grows>},
    {"R-D06", "fence-query", with_queues<query_of_failed>},
    {"R-D07", "wait-reached", with_queues<wait_when_reached>},
    {"R-D07", "wait-long", with_queues<long_waits>},
    {"R-D08", "timeout", with_queues<timeouts>},
    {"R-D09", "host-signal", with_queues<host_signal>},
    {"R-D10", "failed-work", with_queues<failed_work>},
    {"R-D11", "host-memory", with_queues<host_memory>},
    {"R-D12", "failing-submit", with_queues<failing_submit>},
    {"R-D13", "copy-after-work", with_queues<copy_after_work>},
    {"R-D13", "sync-after-work", with_queues<sync_after_work>},
    {"R-D14", "fences-in-threads", with_queues<fences_in_threads>},
    {"R-D15", "submit-returns", with_queues<submit_returns>},
    {"R-D16", "queues-apart", with_queues<queues_apart>},
    {"R-D17", "waits-for-failed", with_queues<waits_for_failed>},
    {"R-D18", "sync-tells", with_queues<sync_tells>},
    {"R-D19", "directions", with_queues<all_directions>},
    {"R-D20", "empty-work", with_queues<empty_work>},
    {"R-D21", "borrowed-records", with_queues<borrowed_records>},
    {"R-D22", "no-signal", with_queues<no_signal_point>},
    {"R-D23", "gives-back", with_queues<gives_back>},
    {"R-D24", "destroyed-after-wait", with_queues<destroyed_after_wait>},
    {"R-D25", "queue-per-thread", with_queues<queue_per_thread>},
    {"R-D26", "two-devices", devices_apart},
    {"R-D27", "mapped", with_queues<mapped>},
};

}  // namespace

std::span<const Check> queue_checks() {
  return kChecks;
}

}  // namespace tenon::conform
