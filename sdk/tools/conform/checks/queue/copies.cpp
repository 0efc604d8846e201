// Group D: copies on queues, and work that fails.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/device/queue_fixture.h"

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;

// ---- Copies ----

// The expected contents of the buffers carry over from queue to queue.
Outcome directions_of(Session& s, OpenQueues& d, const QueueFixture& b, tenon_queue_t* queue,
                      Bytes& first, Bytes& second, uint64_t& value) {
  const Bytes& source = d.keep(pattern_bytes(kFixtureBytes, 5 + static_cast<uint32_t>(value)));
  for (size_t size : {1, 3, 8, 31, 64, 100, 1000}) {
    s.step(fmt::format("copies of {} bytes on a queue", size));
    const size_t to = (size * 29) % (kFixtureBytes - size),
                 from = (size * 13) % (kFixtureBytes - size);
    Bytes &got = d.keep(Bytes(size + 2, 0x5a)), got_expected = got;
    CONFORM_TRY(
        d.submit(queue, async_write(b.buffer, to, source.data() + 1, size), kNoPoint, kNoPoint));
    std::copy_n(source.begin() + 1, size, first.begin() + static_cast<ptrdiff_t>(to));
    CONFORM_TRY(
        d.submit(queue, async_between(b.other, from, b.buffer, to, size), kNoPoint, kNoPoint));
    std::copy_n(first.begin() + static_cast<ptrdiff_t>(to), size,
                second.begin() + static_cast<ptrdiff_t>(from));
    const size_t filled = size / 4 * 4, fill_at = (size * 7) % (kFixtureBytes - size) / 8 * 8;
    CONFORM_TRY(
        d.submit(queue, async_fill(b.buffer, fill_at, filled, 0x99887766, 4), kNoPoint, kNoPoint));
    for (size_t i = 0; i < filled; ++i)
      first[fill_at + i] = static_cast<unsigned char>(0x99887766u >> 8 * (i % 4));
    CONFORM_TRY(d.submit(queue, async_read(got.data() + 1, b.other, from, size), kNoPoint,
                         {b.done, ++value}));
    std::copy_n(second.begin() + static_cast<ptrdiff_t>(from), size, got_expected.begin() + 1);
    CONFORM_TRY(d.reaches(b.done, value, "copies on a queue"));
    CONFORM_TRY(same_bytes(got, got_expected, fmt::format("{} bytes read on a queue", size)));
  }
  CONFORM_TRY(d.memory().holds(b.buffer, first, "what copies on a queue wrote and filled"));
  return d.memory().holds(b.other, second, "what copies on a queue wrote between buffers");
}

Outcome all_directions(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  Bytes first = pattern_bytes(kFixtureBytes, 1), second = pattern_bytes(kFixtureBytes, 2);
  uint64_t value = 0;
  CONFORM_TRY(directions_of(s, d, b, b.first, first, second, value));
  return directions_of(s, d, b, b.second, first, second, value);
}

// A copy beyond a buffer's end: it must fail at once or through its signal, and write nothing.
Outcome one_outside(OpenQueues& d, tenon_queue_t* queue, const tenon_copy_t& copy,
                    const std::string& what) {
  tenon_fence_t* done = nullptr;
  CONFORM_TRY(d.fence(0, &done));
  tenon_code_t code = d.submit_code(queue, copy, {}, {done, 1});
  if (code == TENON_OK) {
    code = d.wait_code(done, 1, kPatienceNs);
    CONFORM_EXPECT(code == TENON_OUT_OF_RANGE,
                   "{} is submitted, and a wait for its signal gives {}", what, code_text(code));
    return d.destroy(done);
  }
  CONFORM_EXPECT(code == TENON_OUT_OF_RANGE, "{} gives {}", what, code_text(code));
  CONFORM_TRY(stands_at(d, done, 0, what + ": after it was refused"));
  return d.destroy(done);
}

Outcome outside(Session& s, OpenQueues& d) {
  constexpr uint64_t kSize = kFixtureBytes;
  const std::pair<uint64_t, uint64_t> ranges[] = {
      {kSize, 1},      {0, kSize + 1},      {kSize - 1, 2},      {kSize + 1, 0},        {1, kSize},
      {UINT64_MAX, 1}, {8, UINT64_MAX - 7}, {UINT64_MAX - 7, 8}, {128, UINT64_MAX - 64}};
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  Bytes& host = d.keep(Bytes(2 * kSize, 0x5a));
  for (const auto& [offset, length] : ranges) {
    const std::string range =
        fmt::format("{} bytes at {} of a buffer of {}", length, offset, kSize);
    for (tenon_queue_t* queue : {b.first, b.second}) {
      s.step("copying " + range + " on a queue");
      CONFORM_TRY(one_outside(d, queue, async_write(b.buffer, offset, host.data(), length),
                              "writing " + range));
      CONFORM_TRY(one_outside(d, queue, async_read(host.data(), b.buffer, offset, length),
                              "reading " + range));
      CONFORM_TRY(one_outside(d, queue, async_between(b.other, 0, b.buffer, offset, length),
                              "copying to another buffer " + range));
      CONFORM_TRY(one_outside(d, queue, async_between(b.other, offset, b.buffer, 0, length),
                              "copying from another buffer to " + range));
      CONFORM_TRY(
          one_outside(d, queue, async_fill(b.buffer, offset, length, 1, 1), "filling " + range));
    }
  }
  CONFORM_TRY(
      same_bytes(host, Bytes(2 * kSize, 0x5a), "host memory of copies that leave a buffer"));
  CONFORM_TRY(
      d.memory().holds(b.buffer, pattern_bytes(kSize, 1), "a buffer that copies would leave"));
  return d.memory().holds(b.other, pattern_bytes(kSize, 2), "the other buffer of such copies");
}

Outcome empty_work(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("copies of 0 bytes on a queue");
  const tenon_copy_t copies[] = {
      async_write(b.buffer, 0, nullptr, 0), async_read(nullptr, b.buffer, kFixtureBytes, 0),
      async_between(b.other, 0, b.buffer, 0, 0), async_fill(b.buffer, 0, 0, 1, 4)};
  uint64_t value = 0;
  for (const tenon_copy_t& copy : copies) {
    ++value;
    CONFORM_TRY(d.submit(b.first, copy, {b.gate, value}, {b.done, value}));
    CONFORM_TRY(d.stays_below(b.done, value, "a copy of 0 bytes that waits"));
    CONFORM_TRY(d.signal(b.gate, value));
    CONFORM_TRY(d.reaches(b.done, value, "a copy of 0 bytes"));
  }
  s.step("copies of 0 bytes after other work of their queue");
  for (const tenon_copy_t& copy : copies) {
    ++value;
    CONFORM_TRY(d.submit(b.first, async_fill(b.other, 0, kFixtureBytes, value, 1), {b.gate, value},
                         kNoPoint));
    CONFORM_TRY(d.submit_after(b.first, copy, {}, {b.done, value}));
    CONFORM_TRY(d.stays_below(b.done, value, "a copy of 0 bytes after work that waits"));
    CONFORM_TRY(d.signal(b.gate, value));
    CONFORM_TRY(d.reaches(b.done, value, "a copy of 0 bytes after other work"));
    CONFORM_TRY(d.memory().holds(b.other, Bytes(kFixtureBytes, static_cast<unsigned char>(value)),
                                 "a buffer that work before a copy of 0 bytes filled"));
  }
  return pass();
}

Outcome host_memory(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  const Bytes late = pattern_bytes(kFixtureBytes, 6);
  Bytes &source = d.keep(pattern_bytes(kFixtureBytes, 7)),
        &got = d.keep(Bytes(kFixtureBytes, 0x33));
  s.step("host memory of copies that wait");
  CONFORM_TRY(d.submit(b.first, async_write(b.buffer, 0, source.data(), kFixtureBytes), {b.gate, 1},
                       {b.done, 1}));
  CONFORM_TRY(d.submit(b.first, async_read(got.data(), b.buffer, 0, kFixtureBytes), {b.gate, 2},
                       {b.done, 2}));
  pause_a_while();
  std::copy(late.begin(), late.end(),
            source.begin());  // the contents when the wait is reached
  CONFORM_TRY(same_bytes(got, Bytes(kFixtureBytes, 0x33), "the target of a copy that waits"));
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, 1, "a copy to the device"));
  std::fill(source.begin(), source.end(), static_cast<unsigned char>(0x44));
  pause_a_while();
  CONFORM_TRY(same_bytes(got, Bytes(kFixtureBytes, 0x33), "the target of a copy that waits"));
  CONFORM_TRY(d.signal(b.gate, 2));
  CONFORM_TRY(d.reaches(b.done, 2, "a copy to the host"));
  CONFORM_TRY(same_bytes(got, late, "what stood in host memory when the wait was reached"));
  std::fill(got.begin(), got.end(), static_cast<unsigned char>(0x55));
  pause_a_while();
  return same_bytes(got, Bytes(kFixtureBytes, 0x55), "host memory after the signal");
}

Outcome borrowed_records(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  s.step("changing the records of copy_async after it returned");
  Bytes &got = d.keep(Bytes(64)), &wrong = d.keep(Bytes(64));
  auto points = std::make_unique<tenon_fence_point_t[]>(2);
  points[0] = {b.gate, 1};
  points[1] = {b.gate, 2};
  auto copy = std::make_unique<tenon_copy_t>(async_read(got.data(), b.buffer, 0, 64));
  CONFORM_TRY(d.submit_after(b.first, *copy, {points.get(), 2}, {b.done, 1}));
  *copy = async_read(wrong.data(), b.other, 0, 64);
  points[0] = points[1] = kNoPoint;
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.stays_below(b.done, 1, "work whose points changed after its submission"));
  CONFORM_TRY(d.signal(b.gate, 2));
  CONFORM_TRY(d.reaches(b.done, 1, "work whose records changed after its submission"));
  Bytes expected = pattern_bytes(kFixtureBytes, 1);
  expected.resize(64);
  return same_bytes(got, expected, "a copy whose record changed after its submission");
}

// Work that is held back does not hold back a copy of other buffers.
Outcome copy_apart(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  const Bytes bytes = pattern_bytes(kFixtureBytes, 51);
  tenon_buffer_t* apart = nullptr;
  CONFORM_TRY(d.memory().alloc(kFixtureBytes, &apart));
  CONFORM_TRY(
      d.submit(b.first, async_fill(b.buffer, 0, kFixtureBytes, 9, 1), {b.gate, 1}, {b.done, 1}));
  s.step("copy while work on other buffers waits");
  auto over = std::make_shared<std::atomic<int>>(0);
  auto outcome = std::make_shared<Outcome>();
  std::thread([&d, apart, bytes, over, outcome] {
    *outcome = [&]() -> Outcome {
      CONFORM_TRY(d.memory().write(apart, bytes));
      return d.memory().holds(apart, bytes, "a buffer copied while work waits");
    }();
    *over = 1;
  }).detach();
  const auto begin = Clock::now();
  while (*over == 0) {
    CONFORM_EXPECT(Clock::now() - begin < std::chrono::nanoseconds(kPatienceNs),
                   "copy does not return while work on other buffers waits");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CONFORM_TRY(d.signal(b.gate, 1));
  CONFORM_TRY(d.reaches(b.done, 1, "work that waited during a copy"));
  return *outcome;
}

// What the queues wrote must be visible at the mapped address once the signal has come.
Outcome mapped(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  const tenon_device_api_t& api = d.memory().api();
  if (api.map == nullptr) return not_offered("map");
  void* address = nullptr;
  const tenon_code_t code = api.map(api.self, d.memory().device(), b.buffer, &address);
  if (code != TENON_OK) return not_offered("map of its buffers");
  for (uint64_t value = 1; value <= 3; ++value) {
    s.step("work on a mapped buffer");
    const Bytes& bytes = d.keep(pattern_bytes(kFixtureBytes, static_cast<uint32_t>(value) + 20));
    CONFORM_TRY(d.submit(b.first, async_write(b.buffer, 0, bytes.data(), kFixtureBytes), kNoPoint,
                         {b.done, value}));
    CONFORM_TRY(d.reaches(b.done, value, "work on a mapped buffer"));
    const auto* seen = static_cast<const unsigned char*>(address);
    CONFORM_TRY(
        same_bytes(Bytes(seen, seen + kFixtureBytes), bytes, "a mapped buffer after a wait"));
  }
  return pass();
}

// ---- Failures ----

// Copies that must fail.
std::vector<tenon_copy_t> bad_copies(const QueueFixture& b, Bytes& host) {
  tenon_copy_t odd = async_fill(b.buffer, 0, 240, 1, 1);
  odd.direction = 77;
  return {async_fill(b.buffer, 0, 240, 1, 3),
          odd,
          async_write(b.buffer, kFixtureBytes - 8, host.data(), 16),
          async_read(host.data(), b.buffer, kFixtureBytes, 1),
          async_between(b.other, UINT64_MAX - 3, b.buffer, 0, 8),
          async_fill(b.buffer, 8, UINT64_MAX - 7, 1, 1)};
}

Outcome failing_submit(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  Bytes& host = d.keep(Bytes(64, 0x5a));
  size_t refused = 0;
  for (const tenon_copy_t& copy : bad_copies(b, host)) {
    s.step("submitting a copy that cannot work");
    tenon_fence_t* signal = nullptr;
    CONFORM_TRY(d.fence(4, &signal));
    const tenon_fence_point_t point = {signal, 5};
    const tenon_code_t code = d.submit_code(b.first, copy, {}, point);
    if (code == TENON_OK) {  // detected later
      (void)d.wait_code(signal, 5, kPatienceNs);
      continue;
    }
    ++refused;
    CONFORM_EXPECT(heard_failure().any, "copy_async gives {} without a reason", code_text(code));
    CONFORM_TRY(d.submit(b.first, async_fill(b.other, 0, 8, 1, 1), kNoPoint, {b.done, refused}));
    CONFORM_TRY(d.reaches(b.done, refused, "work after a copy that was refused"));
    uint64_t value = 0;
    CONFORM_TRY(d.value_of(signal, &value));
    CONFORM_EXPECT(value == 4, "the signal of a refused copy is at {} and was at 4", value);
    const tenon_code_t waited = d.wait_code(signal, 5, 0);
    CONFORM_EXPECT(waited == TENON_DEADLINE_EXCEEDED,
                   "a wait for the signal of a refused copy gives {}", code_text(waited));
  }
  CONFORM_TRY(same_bytes(host, Bytes(64, 0x5a), "host memory of refused copies"));
  CONFORM_TRY(d.memory().holds(b.buffer, pattern_bytes(kFixtureBytes, 1),
                               "a buffer, after refused copies"));
  return refused == 0 ? skipped("it refuses no copy at its submission") : pass();
}

// How work is made to fail: a copy beyond the end of a buffer, if the device detects that when the
// work runs; else the variable that makes the device fail on purpose.
struct Failing {
  std::string variable;          // empty: fails by its range
  tenon_code_t code = TENON_OK;  // the expected code; OK: any failure

  bool is(tenon_code_t got) const { return code == TENON_OK ? got != TENON_OK : got == code; }
};

constexpr std::string_view kNoFailure =
    "it finds copies that leave a buffer at their submission, and its manifest names no variable "
    "of "
    "its own that ends in _FAULTS: no work of it can be made to fail";

// Call it while nothing is in flight. Skipped if no work can be made to fail.
Outcome find_failing(Session& s, OpenQueues& d, const QueueFixture& b, Failing* out) {
  tenon_fence_t* fence = nullptr;
  CONFORM_TRY(d.fence(0, &fence));
  const tenon_code_t code = d.submit_code(
      b.first, async_between(b.other, kFixtureBytes - 8, b.buffer, 0, 16), {}, {fence, 1});
  if (code == TENON_OK) {
    (void)d.wait_code(fence, 1, kPatienceNs);
    out->code = TENON_OUT_OF_RANGE;
    return pass();
  }
  for (const std::string& variable : s.subject().manifest.environment) {
    if (variable.ends_with("_FAULTS")) out->variable = variable;
  }
  return out->variable.empty() ? skipped(std::string(kNoFailure)) : pass();
}

// Submits work that fails, as copy number `number` that a queue starts from now on.
Outcome submit_failing(OpenQueues& d, const QueueFixture& b, const Failing& how, int number,
                       tenon_fence_point_t wait, tenon_fence_point_t signal) {
  if (how.variable.empty())
    return d.submit(b.first, async_between(b.other, kFixtureBytes - 8, b.buffer, 0, 16), wait,
                    signal);
  ::setenv(how.variable.c_str(), fmt::format("copy={}", number).c_str(), 1);
  return d.submit(b.first, async_between(b.other, kFixtureBytes - 16, b.buffer, 0, 16), wait,
                  signal);
}

Outcome failed_work(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  Failing how;
  CONFORM_TRY(find_failing(s, d, b, &how));
  s.step("work that fails");
  CONFORM_TRY(d.submit(b.first, async_fill(b.other, 0, 8, 1, 1), {b.gate, 1}, {b.done, 1}));
  CONFORM_TRY(submit_failing(d, b, how, 2, {b.gate, 1}, {b.done, 2}));
  CONFORM_TRY(d.submit(b.first, async_fill(b.buffer, 0, 8, 1, 1), kNoPoint, {b.done, 3}));
  const std::shared_ptr<Waiter> waiter = start_waiter(d, b.done, 2, UINT64_MAX);
  CONFORM_TRY(d.stays_below(b.done, 1, "work that waits before it fails"));
  CONFORM_TRY(d.signal(b.gate, 1));
  const tenon_code_t first = d.wait_code(b.done, 2, kPatienceNs);
  CONFORM_EXPECT(
      how.is(first), "a wait for the signal of a copy that {} gives {}",
      how.variable.empty() ? "leaves a buffer" : fmt::format("{} makes fail", how.variable),
      code_text(first));
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
  CONFORM_TRY(d.settle(b.first, b.other));
  return d.memory().holds(
      b.buffer,
      [] {
        Bytes expected = pattern_bytes(kFixtureBytes, 1);
        std::fill_n(expected.begin(), 8, static_cast<unsigned char>(1));
        return expected;
      }(),
      "a buffer that work after failed work filled");
}

Outcome query_of_failed(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  uint64_t value = 0;
  for (uint64_t i = 1; i <= 20; ++i) {
    s.step("querying while work runs");
    CONFORM_TRY(
        d.submit(b.first, async_fill(b.other, 0, kFixtureBytes, i, 1), {b.gate, i}, {b.done, i}));
    CONFORM_TRY(stands_at(d, b.done, i - 1, fmt::format("before the {}. signal", i)));
    CONFORM_TRY(d.signal(b.gate, i));
    CONFORM_TRY(d.reaches(b.done, i, "work"));
    CONFORM_TRY(stands_at(d, b.done, i, fmt::format("after the {}. signal", i)));
  }
  tenon_fence_t* failing = nullptr;
  CONFORM_TRY(d.fence(0, &failing));
  Failing how;
  if (find_failing(s, d, b, &how).verdict != Verdict::kPass) return pass();
  CONFORM_TRY(submit_failing(d, b, how, 1, kNoPoint, {failing, 1}));
  (void)d.wait_code(failing, 1, kPatienceNs);
  const tenon_code_t code = d.api().fence_query(d.api().self, failing, &value);
  CONFORM_EXPECT(how.is(code), "fence_query of a fence whose work failed gives {}",
                 code_text(code));
  return pass();
}

Outcome waits_for_failed(Session& s, OpenQueues& d) {
  QueueFixture b;
  CONFORM_TRY(make_fixture(d, &b));
  tenon_fence_t* last = nullptr;
  CONFORM_TRY(d.fence(0, &last));
  Failing how;
  CONFORM_TRY(find_failing(s, d, b, &how));
  s.step("work that waits for failed work");
  CONFORM_TRY(submit_failing(d, b, how, 1, {b.gate, 1}, {b.done, 1}));
  CONFORM_TRY(
      d.submit(b.second, async_fill(b.other, 0, kFixtureBytes, 3, 1), {b.done, 1}, {last, 1}));
  CONFORM_TRY(d.signal(b.gate, 1));
  const tenon_code_t code = d.wait_code(last, 1, kPatienceNs);
  const tenon_code_t first = d.wait_code(b.done, 1, kPatienceNs);
  CONFORM_EXPECT(how.is(first), "the signal of failed work gives {}", code_text(first));
  CONFORM_EXPECT(code == first,
                 "work that waits for failed work gives {} through its signal, and "
                 "that work gave {}",
                 code_text(code), code_text(first));
  CONFORM_TRY(d.settle(b.second, b.other));
  CONFORM_TRY(d.memory().holds(b.other, pattern_bytes(kFixtureBytes, 2),
                               "a buffer that work after a failed wait names"));
  // Submitted when the failure is already known.
  tenon_fence_t* after = nullptr;
  CONFORM_TRY(d.fence(0, &after));
  CONFORM_TRY(
      d.submit(b.second, async_fill(b.other, 0, kFixtureBytes, 4, 1), {b.done, 1}, {after, 1}));
  const tenon_code_t late = d.wait_code(after, 1, kPatienceNs);
  CONFORM_EXPECT(late == first,
                 "work submitted after work that has failed gives {} through its signal, and "
                 "that work gave {}",
                 code_text(late), code_text(first));
  CONFORM_TRY(d.settle(b.second, b.other));
  CONFORM_TRY(d.memory().holds(b.other, pattern_bytes(kFixtureBytes, 2),
                               "a buffer that work after work that has failed names"));
  tenon_fence_t* fresh = nullptr;
  CONFORM_TRY(d.fence(0, &fresh));
  for (tenon_queue_t* queue : {b.first, b.second})
    CONFORM_TRY(d.submit(queue, async_fill(b.other, 0, 8, 3, 1), kNoPoint,
                         {fresh, queue == b.first ? 1u : 2u}));
  return d.reaches(fresh, 2, "work on queues on which work failed");
}

constexpr Check kChecks[] = {
    {"R-D06", "fence-query", with_queues<query_of_failed>},
    {"R-D10", "failed-work", with_queues<failed_work>},
    {"R-D11", "host-memory", with_queues<host_memory>},
    {"R-D12", "failing-submit", with_queues<failing_submit>},
    {"R-D13", "copy-apart", with_queues<copy_apart>},
    {"R-D17", "waits-for-failed", with_queues<waits_for_failed>},
    {"R-D19", "directions", with_queues<all_directions>},
    {"R-D19", "copy-outside", with_queues<outside>},
    {"R-D20", "empty-work", with_queues<empty_work>},
    {"R-D21", "borrowed-records", with_queues<borrowed_records>},
    {"R-D27", "mapped", with_queues<mapped>},
};

}  // namespace

std::span<const Check> queue_copy_checks() {
  return kChecks;
}

}  // namespace tenon::conform
