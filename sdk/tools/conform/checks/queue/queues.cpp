// Group D: queues, and many of them. Nothing in this group is judged by speed: work is held back by
// fences that the host signals, and what depends on a signal must not happen before it. fences.cpp
// and copies.cpp have the rest.
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "sdk/tools/conform/checks/tables.h"

#include "sdk/tools/conform/fixtures/device/queue_fixture.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/process_state.h"

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;

// ---- Queues ----

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
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  Bytes& got = d.keep(Bytes(kFixtureBytes));
  CONFORM_TRY(
      d.submit(b.first, async_read(got.data(), b.buffer, 0, 2048), {b.gate, 1}, {b.done, 1}));
  CONFORM_TRY(d.submit(b.first, async_read(got.data() + 2048, b.buffer, 2048, 2048), kNoPoint,
                       {b.done, 2}));
  s.step("destroying a queue whose work waits");
  d.forget(b.first);
  auto begun = std::make_shared<std::atomic<bool>>(false);
  auto returned = std::make_shared<std::atomic<bool>>(false);
  std::thread([&d, q = b.first, begun, returned] {
    *begun = true;
    begun->notify_one();
    (void)d.api().queue_destroy(d.api().self, q);
    *returned = true;
  }).detach();
  begun->wait(false);
  pause_a_while();
  CONFORM_EXPECT(!*returned, "queue_destroy returns while work of the queue waits for a fence");
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, 2, "work of a queue that is destroyed"));
  const auto begin = Clock::now();
  while (!*returned && Clock::now() - begin < std::chrono::nanoseconds(kPatienceNs))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CONFORM_EXPECT(*returned, "queue_destroy does not return when the work of the queue is done");
  return same_bytes(got, pattern_bytes(kFixtureBytes, 1), "what work of a destroyed queue read");
}

// A copy without a signal, so that only destroying the queue shows when it is done. Its last bytes
// are checked first.
Outcome destroy_finishes(Session& s, OpenQueues& d) {
  constexpr size_t kSize = size_t{32} << 20;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.memory().alloc(kSize, &buffer));
  Bytes& got = d.keep(Bytes(kSize));
  for (unsigned char round = 1; round <= 8; ++round) {
    s.step("destroying a queue with a large copy under way");
    tenon_queue_t* queue = nullptr;
    CONFORM_EXPECT(d.memory().fill(buffer, 0, kSize, round, 1) == TENON_OK, "a fill fails");
    CONFORM_TRY(d.queue(&queue));
    CONFORM_TRY(d.submit(queue, async_read(got.data(), buffer, 0, kSize), kNoPoint, kNoPoint));
    CONFORM_TRY(d.destroy(queue));
    CONFORM_EXPECT(got.back() == round,
                   "when queue_destroy returns, the last byte of a copy of the queue is missing");
    CONFORM_EXPECT(all_are(got, round),
                   "when queue_destroy returns, bytes of a copy of the queue are missing");
  }
  return pass();
}

Outcome submit_returns(Session& s, OpenQueues& d) {
  constexpr uint64_t kCount = 1000;
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("submitting work that waits");
  Bytes& got = d.keep(Bytes(kCount));
  CONFORM_TRY(returns(
      [&d, b, &got]() -> Outcome {
        for (uint64_t i = 0; i < kCount; ++i)
          CONFORM_TRY(d.submit(b.first, async_read(got.data() + i, b.buffer, i, 1), {b.gate, 1},
                               {b.done, i + 1}));
        return pass();
      },
      fmt::format("copy_async of {} copies that wait for a fence", kCount)));
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, kCount, "a thousand copies on one queue"));
  Bytes expected = pattern_bytes(kFixtureBytes, 1);
  expected.resize(kCount);
  return same_bytes(got, expected, "a thousand copies of one byte");
}

Outcome in_order(Session& s, OpenQueues& d) {
  constexpr uint64_t kCount = 300;
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("fills and reads of one place, in turn");
  Bytes& read = d.keep(Bytes(kCount * sizeof(uint32_t)));
  std::vector<uint32_t> got(kCount, 0);
  for (uint64_t i = 0; i < kCount; ++i) {
    const tenon_fence_point_t wait = i == 0 ? tenon_fence_point_t{b.gate, 1} : kNoPoint;
    CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 4, i + 1, 4), wait, kNoPoint));
    CONFORM_TRY(
        d.submit(b.first, async_read(&read[i * 4], b.buffer, 0, 4), kNoPoint, {b.done, i + 1}));
  }
  CONFORM_TRY(d.stays_below(b.done, 1, "work after work that waits"));
  CONFORM_TRY(d.signal(b.gate, 1));
  for (uint64_t i : {uint64_t{0}, kCount / 2, kCount - 1}) {
    CONFORM_TRY(d.reaches(b.done, i + 1, "fills and reads of one place, in turn"));
    std::memcpy(got.data(), read.data(), (i + 1) * sizeof(uint32_t));
    for (uint64_t k = 0; k <= i; ++k)
      CONFORM_EXPECT(got[k] == k + 1, "read {} of one place saw fill {}, in a queue that ran to {}",
                     k + 1, got[k], i + 1);
  }
  return pass();
}

// Slow work followed by quick work.
Outcome large_then_small(Session& s, OpenQueues& d) {
  constexpr size_t kSize = size_t{8} << 20;
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  tenon_buffer_t* large = nullptr;
  CONFORM_TRY(d.memory().alloc(kSize, &large));
  for (uint64_t round = 1; round <= 16; ++round) {
    s.step("a large fill and a read of its last byte");
    unsigned char& last = d.keep(Bytes(1))[0];
    CONFORM_TRY(d.submit(b.first, async_fill(large, 0, kSize, round, 1), kNoPoint, kNoPoint));
    CONFORM_TRY(
        d.submit(b.first, async_read(&last, large, kSize - 1, 1), kNoPoint, {b.done, round}));
    CONFORM_TRY(d.reaches(b.done, round, "a read after a large fill"));
    CONFORM_EXPECT(last == round, "a read after a large fill with {} sees {}", round, last);
  }
  return pass();
}

// ---- Many of them ----

size_t process_threads() {
  return list_folder("/proc/self/task").size();
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
  if (kThreadSanitizer)
    return skipped("the thread sanitizer's own records are part of the memory that is measured");
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
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
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
  auto info = sized<tenon_device_info_t>();
  const tenon_device_api_t& api = d.memory().api();
  if (api.info(api.self, 0, &info) != TENON_OK) return skipped("info fails, as C.info reports");
  if (info.threading == TENON_THREADING_SERIAL)
    return skipped("the device wants one call at a time");
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kRounds = 100;
  struct Lane {
    tenon_queue_t* queue;
    tenon_fence_t* done;
    tenon_buffer_t* buffer;
    Bytes *sent, *got;
    Outcome outcome;
  };
  std::deque<Lane> lanes;
  for (uint32_t i = 0; i < kThreads; ++i) {
    Lane& lane = lanes.emplace_back();
    CONFORM_TRY(d.queue(&lane.queue));
    CONFORM_TRY(d.fence(0, &lane.done));
    CONFORM_TRY(d.memory().alloc(kFixtureBytes, &lane.buffer));
    lane.sent = &d.keep(Bytes(kFixtureBytes));
    lane.got = &d.keep(Bytes(kFixtureBytes));
  }
  s.step("submitting to four queues in four threads");
  auto work = [&](Lane& lane, uint32_t seed) -> Outcome {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      Bytes &bytes = *lane.sent, &got = *lane.got;
      bytes = pattern_bytes(kFixtureBytes, seed * 1000 + static_cast<uint32_t>(i));
      std::fill(got.begin(), got.end(), static_cast<unsigned char>(0));
      CONFORM_TRY(d.submit(lane.queue, async_write(lane.buffer, 0, bytes.data(), kFixtureBytes),
                           kNoPoint, kNoPoint));
      CONFORM_TRY(d.submit(lane.queue, async_read(got.data(), lane.buffer, 0, kFixtureBytes), {},
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

// The work of one device is held back while that of another runs.
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
  QueueFixture a, b;
  CONFORM_TRY(make_fixture(*first, &a));
  CONFORM_TRY(make_fixture(*second, &b));
  s.step("work on two devices");
  CONFORM_TRY(first->submit(a.first, async_fill(a.buffer, 0, kFixtureBytes, 1, 1), {a.gate, 1},
                            {a.done, 1}));
  CONFORM_TRY(
      second->submit(b.first, async_fill(b.buffer, 0, kFixtureBytes, 2, 1), kNoPoint, {b.done, 1}));
  CONFORM_TRY(second->reaches(b.done, 1, "work of device 1 while work of device 0 waits"));
  CONFORM_TRY(returns(
      [second, buffer = b.buffer] {
        return second->memory().holds(buffer, Bytes(kFixtureBytes, 2), "a buffer of device 1");
      },
      "copy of device 1 while work of device 0 waits"));
  CONFORM_TRY(first->signal(a.gate, 1));
  CONFORM_TRY(first->reaches(a.done, 1, "work of device 0"));
  CONFORM_TRY(second->end());
  CONFORM_TRY(first->memory().holds(a.buffer, Bytes(kFixtureBytes, 1), "a buffer of device 0"));
  return first->end();
}

// Work of device 0 makes what a queue of device 1 reads there, each after fences of the other.
Outcome copies_across(Session& s) {
  const tenon_device_api_t* api = nullptr;
  const tenon_queue_api_t* queues = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_queues(s, &queues));
  CONFORM_TRY(find_devices(s, &api, &count));
  if (queues->reaches == nullptr) return not_offered("reaches");
  if (count < 2) return skipped("there is one device");
  auto *from = new OpenQueues(api, queues, 0), *to = new OpenQueues(api, queues, 1);
  CONFORM_TRY(from->open());
  CONFORM_TRY(to->open());
  QueueFixture a, b;
  CONFORM_TRY(make_fixture(*from, &a));
  CONFORM_TRY(make_fixture(*to, &b));
  s.step("asking whether a queue of device 1 reaches device 0");
  for (int time = 0; time < 2; ++time) {
    uint32_t yes = 0;
    const tenon_code_t code = queues->reaches(queues->self, b.first, from->memory().device(), &yes);
    CONFORM_EXPECT(code == TENON_OK, "reaches gives {}{}", code_text(code), said());
    if (yes == 0 && time == 0) return skipped("the devices do not reach each other");
    CONFORM_EXPECT(yes != 0, "reaches says no after it said yes");
  }
  s.step("copying from device 0 on a queue of device 1");
  constexpr size_t kAt = 96, kTo = 32, kLength = 1000;
  const Bytes& made = from->keep(pattern_bytes(kFixtureBytes, 3));
  const Bytes& later = from->keep(Bytes(kFixtureBytes, 9));
  auto across = async_between(b.buffer, kTo, a.buffer, kAt, kLength);
  across.from_device = from->memory().device();
  CONFORM_TRY(from->submit(a.first, async_write(a.buffer, 0, made.data(), kFixtureBytes),
                           {a.gate, 1}, {a.done, 1}));
  CONFORM_TRY(to->submit(b.first, across, {a.done, 1}, {b.done, 1}));
  CONFORM_TRY(from->submit(a.first, async_write(a.buffer, 0, later.data(), kFixtureBytes),
                           {b.done, 1}, {a.done, 2}));
  CONFORM_TRY(to->stays_below(b.done, 1, "a copy from device 0, whose work waits"));
  CONFORM_TRY(from->signal(a.gate, 1));
  CONFORM_TRY(to->reaches(b.done, 1, "a copy from device 0"));
  CONFORM_TRY(from->reaches(a.done, 2, "work of device 0 that waits for a copy of device 1"));
  Bytes expected = pattern_bytes(kFixtureBytes, 1);
  std::copy_n(made.begin() + kAt, kLength, expected.begin() + kTo);
  CONFORM_TRY(to->memory().holds(b.buffer, expected, "the buffer of device 1"));
  CONFORM_TRY(from->memory().holds(a.buffer, later, "the buffer of device 0"));
  s.step("copying from beyond the end of a buffer of device 0");
  across.from_offset_bytes = kFixtureBytes - 1;
  tenon_code_t code = to->submit_code(b.first, across, {}, {b.done, 2});
  if (code == TENON_OK) code = to->wait_code(b.done, 2, kPatienceNs);
  CONFORM_EXPECT(code == TENON_OUT_OF_RANGE, "it gives {}", code_text(code));
  CONFORM_TRY(to->memory().holds(b.buffer, expected, "the buffer of device 1"));
  CONFORM_TRY(to->end());
  return from->end();
}

// Waits until the device has so many bytes in use, at most.
Outcome falls_to(const OpenDevice& d, uint64_t most) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    uint64_t used = 0, peak = 0;
    const tenon_code_t code = d.api().memory(d.api().self, d.device(), &used, &peak);
    CONFORM_EXPECT(code == TENON_OK, "memory gives {}", code_text(code));
    if (used <= most) return pass();
    CONFORM_EXPECT(Clock::now() - begin < std::chrono::nanoseconds(kPatienceNs),
                   "{} bytes are in use after {} s, and {} were to be left", used,
                   kPatienceNs / 1'000'000'000, most);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// The owner of a buffer may free it while its reading waits on a queue.
Outcome frees_after(Session& s, OpenQueues& d) {
  OpenDevice& m = d.memory();
  if (m.api().free_behind == nullptr) return not_offered("free_behind");
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  uint64_t used = 0, peak = 0;
  if (m.api().memory != nullptr) (void)m.api().memory(m.api().self, m.device(), &used, &peak);
  tenon_fence_t* last = nullptr;
  CONFORM_TRY(d.fence(0, &last));
  Bytes& got = d.keep(Bytes(kFixtureBytes));
  CONFORM_TRY(d.submit(b.first, async_read(got.data(), b.buffer, 0, kFixtureBytes), {b.gate, 1},
                       {b.done, 1}));
  s.step("freeing a buffer that work on a queue still reads");
  m.forget(b.buffer);
  CONFORM_TRY(returns(
      [&m, b, last]() -> Outcome {
        const tenon_fence_point_t points[] = {{last, 1}, kNoPoint, {b.done, 1}};
        const tenon_code_t code =
            m.api().free_behind(m.api().self, m.device(), b.buffer, points, 3);
        CONFORM_EXPECT(code == TENON_OK, "free_behind gives {}", code_text(code));
        return pass();
      },
      "free_behind"));
  CONFORM_TRY(d.signal(last, 1));
  pause_a_while();
  s.step("using other memory meanwhile");
  std::vector<tenon_buffer_t*> others(8);
  for (tenon_buffer_t*& other : others) {
    CONFORM_TRY(m.alloc(kFixtureBytes, &other));
    CONFORM_TRY(m.write(other, Bytes(kFixtureBytes, 0xee)));
  }
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, 1, "work on a buffer that was freed after it"));
  CONFORM_TRY(same_bytes(got, pattern_bytes(kFixtureBytes, 1), "what it read"));
  for (tenon_buffer_t* other : others) CONFORM_TRY(m.free(other));
  if (m.api().memory == nullptr) return pass();
  s.step("reading how much memory is in use");
  return falls_to(m, used - kFixtureBytes);
}

constexpr Check kChecks[] = {
    {"R-D01", "queue-create", with_queues<creates>},
    {"R-D01", "queue-destroy", with_queues<destroy_waits>},
    {"R-D01", "queue-destroy-busy", with_queues<destroy_finishes>},
    {"R-D02", "order", with_queues<in_order>, true},
    {"R-D02", "large-then-small", with_queues<large_then_small>},
    {"R-D15", "submit-returns", with_queues<submit_returns>},
    {"R-D23", "gives-back", with_queues<gives_back>},
    {"R-D24", "destroyed-after-wait", with_queues<destroyed_after_wait>},
    {"R-D25", "queue-per-thread", with_queues<queue_per_thread>},
    {"R-D26", "two-devices", devices_apart},
    {"R-D31", "reaches", copies_across},
    {"R-D32", "free-behind", with_queues<frees_after>},
};

}  // namespace

std::span<const Check> queue_checks() {
  static const auto* all = new std::vector<Check>(
      joined({kChecks, fence_checks(), queue_copy_checks(), queue_native_checks()}));
  return *all;
}

}  // namespace tenon::conform
