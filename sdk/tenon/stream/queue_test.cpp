// Queues over a runtime whose work waits until a thread waits for it: what is signalled while work
// is in flight, and what a wait for an earlier value gets.
#include "tenon/stream/queue.h"

#include <gtest/gtest.h>

#include <future>
#include <new>

#include "tenon/stream/device.h"

namespace tenon::stream {
namespace {

// Work is in flight until a thread waits for it.
struct LazyRuntime final : Runtime {
  std::atomic<int> in_flight{0};
  std::atomic<int> fail_fill{0}, throw_fill{0};  // the n-th from now
  std::atomic<bool> fail_events{false};
  std::atomic<bool> fail_next_wait{false};  // of the host, which then does not wait
  std::atomic<int> streams_destroyed{0};
  std::vector<std::unique_ptr<char>> events;
  std::mutex events_mutex;
  std::vector<EventHandle> awaited, recorded;
  EventHandle foreign = nullptr;  // an event of another library's
  std::atomic<bool> foreign_happened{false}, foreign_failed{false}, foreign_captured{false};
  std::atomic<int> foreign_happens_at{0};  // the look from now; 0: by foreign_happened alone
  std::atomic<int> foreign_uses{0};
  std::mutex gate;  // held by threads that wait for an event

  std::atomic<int> work_put{0}, idle_events{0};

  Status work() {
    ++in_flight;
    ++work_put;
    return {};
  }
  Status ended() {
    in_flight = 0;
    return {};
  }
  Status enter() override { return {}; }
  void leave() override {}
  Status stream_create(StreamHandle* out) override {
    *out = this;
    return {};
  }
  Status stream_destroy(StreamHandle) override {
    ++streams_destroyed;
    return {};
  }
  Status stream_synchronize(StreamHandle) override {
    return fail_next_wait.exchange(false) ? fail(TENON_INTERNAL, "the wait fails") : ended();
  }
  Status stream_wait(StreamHandle, EventHandle event) override {
    if (event == foreign) ++foreign_uses;
    awaited.push_back(event);
    return {};
  }
  Status event_create(bool, EventHandle* out) override {
    events.push_back(std::make_unique<char>());
    *out = events.back().get();
    return {};
  }
  void event_destroy(EventHandle) override {}
  void event_idle(EventHandle) override { ++idle_events; }
  Status event_record(EventHandle event, StreamHandle) override {
    if (event == foreign) ++foreign_uses;
    recorded.push_back(event);
    return event == foreign && foreign_failed ? fail(TENON_INTERNAL, "another context") : Status();
  }
  Status event_query(EventHandle event, bool* out) override {
    if (event != foreign) {
      *out = true;
      return known(event) ? Status() : fail(TENON_INTERNAL, "no such event");
    }
    ++foreign_uses;
    if (foreign_happens_at != 0 && --foreign_happens_at == 0) foreign_happened = true;
    if (foreign_captured) return fail(TENON_UNAVAILABLE, "it is in a graph");
    *out = foreign_happened;
    return foreign_failed ? fail(TENON_INTERNAL, "the context is broken") : Status();
  }
  bool known(EventHandle event) const {
    for (const auto& e : events) {
      if (e.get() == event) return true;
    }
    return false;
  }
  Status event_synchronize(EventHandle) override {
    const std::lock_guard lock(gate);
    if (fail_next_wait.exchange(false)) return fail(TENON_INTERNAL, "the wait fails");
    (void)ended();
    return fail_events.exchange(false) ? fail(TENON_INTERNAL, "the event fails") : Status();
  }
  Status event_elapsed(EventHandle, EventHandle, float*) override { return {}; }
  Status alloc(uint64_t, Address*) override { return {}; }
  Status free(Address) override { return {}; }
  Status alloc_pinned(uint64_t, void**) override { return {}; }
  Status free_pinned(void*) override { return {}; }
  Status copy_in(StreamHandle, Address, const void*, uint64_t) override { return work(); }
  Status copy_out(StreamHandle, void*, Address, uint64_t) override { return work(); }
  Status copy_within(StreamHandle, Address, Address, uint64_t) override { return work(); }
  Status fill(StreamHandle, Address, uint32_t, uint32_t, uint64_t) override {
    if (throw_fill != 0 && --throw_fill == 0) throw std::bad_alloc();
    if (fail_fill != 0 && --fail_fill == 0) return fail(TENON_INTERNAL, "the fill fails");
    return work();
  }
  Status launch(StreamHandle, kernelgen::LoadedText&, const Launch&) override { return work(); }
  Status check_memory(Address, uint64_t) override { return {}; }
};

class Queues : public testing::Test {
 protected:
  void SetUp() override {
    auto made = std::make_unique<LazyRuntime>();
    runtime_ = made.get();
    device_.name = "lazy";
    device_.runtime = std::move(made);
    ASSERT_TRUE(start_device(device_).ok());
    ASSERT_EQ(kQueueTable.queue_create(nullptr, handle(), &queue_), TENON_OK);
  }
  void TearDown() override { EXPECT_EQ(kQueueTable.queue_destroy(nullptr, queue_), TENON_OK); }

  tenon_device_t* handle() { return reinterpret_cast<tenon_device_t*>(&device_); }
  static tenon_fence_t* handle(Fence& fence) { return reinterpret_cast<tenon_fence_t*>(&fence); }

  // Several commands: no pattern of eight bytes is one fill.
  tenon_copy_t whole_fill() {
    auto copy = sized<tenon_copy_t>();
    copy.direction = TENON_COPY_FILL;
    copy.to = reinterpret_cast<tenon_buffer_t*>(&buffer_);
    copy.length_bytes = buffer_.size_bytes;
    copy.pattern = 0x0102030405060708;
    copy.pattern_bytes = 8;
    return copy;
  }
  tenon_code_t fill(std::vector<tenon_fence_point_t> waits, tenon_fence_point_t signal) {
    const auto copy = whole_fill();
    return kQueueTable.copy_async(nullptr, queue_, &copy, waits.data(),
                                  static_cast<uint32_t>(waits.size()), signal);
  }

  static constexpr uint64_t kSoon = 5'000'000'000;
  Device device_;
  LazyRuntime* runtime_ = nullptr;
  tenon_queue_t* queue_ = nullptr;
  Buffer buffer_ = {4096, 64, false};
};

TEST_F(Queues, WorkThatFailsInItsMiddleHasEnded) {
  Fence done(0);
  runtime_->fail_fill = 3;
  EXPECT_EQ(fill({}, {handle(done), 1}), TENON_INTERNAL);
  EXPECT_EQ(runtime_->in_flight, 0);
}

TEST_F(Queues, HeldWorkThatFailsInItsMiddleHasEnded) {
  Fence begin(0), done(0);
  ASSERT_EQ(fill({{handle(begin), 1}}, {handle(done), 1}), TENON_OK);
  runtime_->fail_fill = 3;
  begin.timeline.signal(1);
  EXPECT_EQ(done.timeline.wait(1, kSoon).code(), TENON_INTERNAL);
  EXPECT_EQ(runtime_->in_flight, 0);
}

// Memory is freed as soon as a failure is reported, whatever failed.
TEST_F(Queues, WhatAFailedWaitLeftInFlightHasEnded) {
  Fence done(0);
  runtime_->fail_fill = 3;
  runtime_->fail_next_wait = true;
  EXPECT_EQ(fill({}, {handle(done), 1}), TENON_INTERNAL);
  EXPECT_EQ(runtime_->in_flight, 0);
  {
    const std::lock_guard lock(runtime_->gate);
    ASSERT_EQ(fill({}, {handle(done), 1}), TENON_OK);
    runtime_->fail_next_wait = true;
  }
  EXPECT_EQ(done.timeline.wait(1, kSoon).code(), TENON_INTERNAL);
  EXPECT_EQ(runtime_->in_flight, 0);
}

TEST_F(Queues, ABlockingCopyThatFailsHasEnded) {
  const tenon_device_api_t table = device_table(nullptr, nullptr, nullptr);
  const auto copy = whole_fill();
  runtime_->fail_fill = 3;
  EXPECT_EQ(table.copy(nullptr, handle(), &copy), TENON_INTERNAL);
  EXPECT_EQ(runtime_->in_flight, 0);
  runtime_->fail_next_wait = true;
  EXPECT_EQ(table.copy(nullptr, handle(), &copy), TENON_INTERNAL);
  EXPECT_EQ(runtime_->in_flight, 0);
}

TEST_F(Queues, HeldWorkThatThrowsFailsAndLaterWorkRuns) {
  Fence begin(0), done(0);
  ASSERT_EQ(fill({{handle(begin), 1}}, {handle(done), 1}), TENON_OK);
  runtime_->throw_fill = 3;
  begin.timeline.signal(1);
  EXPECT_EQ(done.timeline.wait(1, kSoon).code(), TENON_RESOURCE_EXHAUSTED);
  EXPECT_EQ(runtime_->in_flight, 0);
  Fence again(0);
  ASSERT_EQ(fill({{handle(begin), 2}}, {handle(again), 1}), TENON_OK);
  begin.timeline.signal(2);
  EXPECT_TRUE(again.timeline.wait(1, kSoon).ok());
}

// Who waits for 5 is served by the work that signals 10. If that fails, nothing ever reaches 5.
TEST_F(Queues, AWaitForAnEarlierValueFailsWithTheWorkThatServesIt) {
  Fence steps(0), done(0);
  {
    const std::lock_guard lock(runtime_->gate);
    runtime_->fail_events = true;
    ASSERT_EQ(fill({}, {handle(steps), 10}), TENON_OK);
    ASSERT_EQ(fill({{handle(steps), 5}}, {handle(done), 1}), TENON_OK);
  }
  EXPECT_EQ(done.timeline.wait(1, kSoon).code(), TENON_INTERNAL);
  steps.timeline.signal(5);  // else a line that still waited would never end
}

TEST_F(Queues, AWaitForAnEarlierValueIsServedByItself) {
  Fence steps(0), done(0);
  {
    const std::lock_guard lock(runtime_->gate);
    runtime_->fail_events = true;
    ASSERT_EQ(fill({}, {handle(steps), 10}), TENON_OK);
    ASSERT_EQ(fill({{handle(steps), 5}}, {handle(done), 1}), TENON_OK);
    steps.timeline.signal(5);
  }
  EXPECT_TRUE(done.timeline.wait(1, kSoon).ok());
}

// A runtime may look at an event only when its stream gets to the wait.
TEST_F(Queues, AnEventIsNotRecordedAgainBeforeItsWaiterIsDone) {
  Fence first(0), second(0);
  tenon_queue_t* other = nullptr;
  ASSERT_EQ(kQueueTable.queue_create(nullptr, handle(), &other), TENON_OK);
  auto waiter = std::make_shared<Work>(line_of(other));
  {
    const std::lock_guard lock(runtime_->gate);
    ASSERT_EQ(fill({}, {handle(first), 1}), TENON_OK);
    const tenon_fence_point_t waits[] = {{handle(first), 1}};
    wait_for(waits, waiter);
    ASSERT_TRUE(put(*waiter, [] { return Status(); }).ok());
  }
  // The line has let go of the first work when it completes the second.
  ASSERT_EQ(fill({}, {handle(second), 1}), TENON_OK);
  ASSERT_TRUE(second.timeline.wait(1, kSoon).ok());
  ASSERT_EQ(runtime_->awaited.size(), 1u);
  std::vector<EventRef> fresh(8);
  for (EventRef& event : fresh) {
    ASSERT_TRUE(device_.event(false, &event).ok());
    EXPECT_NE(event->handle(), runtime_->awaited[0]);
  }
  EXPECT_TRUE(finish(waiter).ok());
  waiter.reset();
  EXPECT_EQ(kQueueTable.queue_destroy(nullptr, other), TENON_OK);
}

// Who waited for the last value of a fence may destroy it, also while work that its stream makes
// wait for it has not ended.
TEST_F(Queues, AFenceMayGoBeforeTheWorkThatItsStreamHolds) {
  auto first = std::make_unique<Fence>(0);
  Fence second(0);
  tenon_queue_t* other = nullptr;
  ASSERT_EQ(kQueueTable.queue_create(nullptr, handle(), &other), TENON_OK);
  auto waiter = std::make_shared<Work>(line_of(other));
  waiter->signal = {handle(second), 1};
  {
    const std::lock_guard lock(runtime_->gate);
    ASSERT_EQ(fill({}, {handle(*first), 1}), TENON_OK);
    const tenon_fence_point_t waits[] = {{handle(*first), 1}};
    wait_for(waits, waiter);
    ASSERT_TRUE(put(*waiter, [] { return Status(); }).ok());
    ASSERT_EQ(waiter->native.size(), 1u);
  }
  ASSERT_TRUE(first->timeline.wait(1, kSoon).ok());
  first.reset();
  EXPECT_TRUE(finish(waiter).ok());
  EXPECT_TRUE(second.timeline.wait(1, kSoon).ok());
  waiter.reset();
  EXPECT_EQ(kQueueTable.queue_destroy(nullptr, other), TENON_OK);
}

// A runtime's event may keep what it was recorded on, which would outlive its queue: Metal's does.
TEST_F(Queues, TheRuntimeHearsWhenNobodyUsesAnEvent) {
  EventRef event;
  ASSERT_TRUE(device_.event(false, &event).ok());
  EventRef another = event;
  event.reset();
  EXPECT_EQ(runtime_->idle_events, 0);
  another.reset();
  EXPECT_EQ(runtime_->idle_events, 1);
}

TEST_F(Queues, EventsThatAreOutHaveRoomToComeBack) {
  std::vector<EventRef> out(100);
  for (EventRef& event : out) ASSERT_TRUE(device_.event(false, &event).ok());
  EXPECT_GE(device_.free_events[false].capacity(), out.size());
}

// The device may be closed as soon as the work is done, and the thread that released it is then
// still on its way out. Sanitizers see what it touches.
TEST(Closing, WaitsForTheThreadThatSignalledAFence) {
  for (int round = 0; round < 200; ++round) {
    Fence begin(0), done(0);
    const auto point = [](Fence& fence) {
      return tenon_fence_point_t{reinterpret_cast<tenon_fence_t*>(&fence), 1};
    };
    auto device = std::make_unique<Device>();
    device->name = "lazy";
    device->runtime = std::make_unique<LazyRuntime>();
    ASSERT_TRUE(start_device(*device).ok());
    tenon_queue_t* queue = nullptr;
    ASSERT_EQ(
        kQueueTable.queue_create(nullptr, reinterpret_cast<tenon_device_t*>(device.get()), &queue),
        TENON_OK);
    Buffer buffer = {4096, 64, false};
    auto copy = sized<tenon_copy_t>();
    copy.direction = TENON_COPY_FILL;
    copy.to = reinterpret_cast<tenon_buffer_t*>(&buffer);
    copy.length_bytes = buffer.size_bytes;
    copy.pattern_bytes = 1;
    const tenon_fence_point_t waits[] = {point(begin)};
    ASSERT_EQ(kQueueTable.copy_async(nullptr, queue, &copy, waits, 1, point(done)), TENON_OK);
    std::thread signaller([&] { begin.timeline.signal(1); });
    EXPECT_TRUE(done.timeline.wait(1, 5'000'000'000).ok());
    EXPECT_EQ(kQueueTable.queue_destroy(nullptr, queue), TENON_OK);
    device.reset();
    signaller.join();
  }
}

// A submission may fail after its waits. The fences call back all the same, and use the line.
TEST_F(Queues, WorkThatWasNotHandedOverIsAwaited) {
  Fence begin(0);
  tenon_queue_t* other = nullptr;
  ASSERT_EQ(kQueueTable.queue_create(nullptr, handle(), &other), TENON_OK);
  const tenon_fence_point_t waits[] = {{handle(begin), 1}};
  wait_for(waits, std::make_shared<Work>(line_of(other)));
  auto destroyed =
      std::async(std::launch::async, [&] { return kQueueTable.queue_destroy(nullptr, other); });
  EXPECT_EQ(destroyed.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(runtime_->streams_destroyed, 0);
  begin.timeline.signal(1);
  EXPECT_EQ(destroyed.get(), TENON_OK);
  EXPECT_EQ(runtime_->streams_destroyed, 1);
}

// A fence that is destroyed will not call, so no thread waits for it.
TEST_F(Queues, WorkThatWasNotHandedOverGoesWithItsFence) {
  auto begin = std::make_unique<Fence>(0);
  tenon_queue_t* other = nullptr;
  ASSERT_EQ(kQueueTable.queue_create(nullptr, handle(), &other), TENON_OK);
  auto work = std::make_shared<Work>(line_of(other));
  const std::weak_ptr<Work> seen = work;
  const tenon_fence_point_t waits[] = {{handle(*begin), 1}, {handle(*begin), 2}};
  wait_for(waits, work);
  work.reset();
  begin.reset();
  EXPECT_TRUE(seen.expired());
  EXPECT_EQ(kQueueTable.queue_destroy(nullptr, other), TENON_OK);
}

constexpr ExchangeKinds kKinds = {"lazy.pointer", "lazy.stream", "lazy.event"};

TEST_F(Queues, MemoryOfOthersIsAlignedOrEmpty) {
  const tenon_exchange_api_t table = exchange_table(&kKinds);
  const auto adopt = [&](uint64_t address, uint64_t offset, uint64_t length) {
    auto memory = sized<tenon_native_memory_t>();
    memory.kind = str(kKinds.memory);
    memory.handle = address;
    memory.offset_bytes = offset;
    memory.length_bytes = length;
    tenon_buffer_t* made = nullptr;
    const tenon_code_t code = table.import_memory(table.self, handle(), &memory, &made);
    delete buffer_of(made);
    return code;
  };
  EXPECT_EQ(adopt(4096, 16, 64), TENON_OK);
  EXPECT_EQ(adopt(4096, 4, 64), TENON_UNIMPLEMENTED);
  EXPECT_EQ(adopt(4097, 0, 64), TENON_UNIMPLEMENTED);
  EXPECT_EQ(adopt(0, 0, 64), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(adopt(0, 0, 0), TENON_OK);
}

// The owner of a stream knows whether all that was submitted is in it.
TEST_F(Queues, AStreamTellsWhetherWorkIsHeldBack) {
  const tenon_exchange_api_t table = exchange_table(&kKinds);
  Fence begin(0), done(0);
  const auto flags = [&] {
    auto native = sized<tenon_native_handle_t>();
    EXPECT_EQ(table.export_queue(table.self, queue_, str(kKinds.stream), &native), TENON_OK);
    EXPECT_EQ(native.handle, reinterpret_cast<uint64_t>(runtime_));
    return native.flags;
  };
  EXPECT_EQ(flags(), TENON_NATIVE_ALL_THERE);
  ASSERT_EQ(fill({{handle(begin), 1}}, {handle(done), 1}), TENON_OK);
  EXPECT_EQ(flags(), 0u);
  begin.timeline.signal(1);
  ASSERT_TRUE(done.timeline.wait(1, kSoon).ok());
  EXPECT_EQ(flags(), TENON_NATIVE_ALL_THERE);
}

// A queue on another library's stream does not destroy the stream. Unknown kinds are refused.
TEST_F(Queues, StreamsOfOthersBecomeQueues) {
  const tenon_exchange_api_t table = exchange_table(&kKinds);
  auto native = sized<tenon_native_handle_t>();
  native.kind = str(kKinds.stream);
  tenon_queue_t* queue = nullptr;
  const int destroyed = runtime_->streams_destroyed;
  ASSERT_EQ(table.import_queue(table.self, handle(), &native, &queue), TENON_OK);
  EXPECT_EQ(kQueueTable.queue_destroy(nullptr, queue), TENON_OK);
  EXPECT_EQ(runtime_->streams_destroyed, destroyed);
  native.kind = str("other.stream");
  EXPECT_EQ(table.import_queue(table.self, handle(), &native, &queue), TENON_UNIMPLEMENTED);
  tenon_fence_point_t point = {};
  EXPECT_EQ(table.import_fence(table.self, handle(), &native, &point), TENON_UNIMPLEMENTED);
}

// ---- Events ----

class Events : public Queues {
 protected:
  void SetUp() override {
    Queues::SetUp();
    runtime_->foreign = &theirs_;
  }
  tenon_native_handle_t native(EventHandle event, uint32_t flags = 0) const {
    auto out = sized<tenon_native_handle_t>();
    out.kind = str(kKinds.event);
    out.handle = reinterpret_cast<uint64_t>(event);
    out.flags = flags;
    return out;
  }
  tenon_fence_point_t import(uint32_t flags = 0) {
    const auto handle_of_theirs = native(&theirs_, flags);
    tenon_fence_point_t point = {};
    EXPECT_EQ(table_.import_fence(table_.self, handle(), &handle_of_theirs, &point), TENON_OK);
    return point;
  }
  using Queues::handle;

  const tenon_exchange_api_t table_ = exchange_table(&kKinds);
  char theirs_ = 0;
};

TEST_F(Events, TheHostSeesWhenOneHasHappened) {
  const tenon_fence_point_t point = import();
  uint64_t value = 7;
  EXPECT_EQ(kQueueTable.fence_query(nullptr, point.fence, &value), TENON_OK);
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(kQueueTable.fence_wait(nullptr, point.fence, point.value, 3'000'000),
            TENON_DEADLINE_EXCEEDED);
  auto waiter = std::async(std::launch::async, [&] {
    return kQueueTable.fence_wait(nullptr, point.fence, point.value, UINT64_MAX);
  });
  EXPECT_EQ(waiter.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  runtime_->foreign_happened = true;
  EXPECT_EQ(waiter.get(), TENON_OK);
  EXPECT_EQ(kQueueTable.fence_query(nullptr, point.fence, &value), TENON_OK);
  EXPECT_EQ(value, point.value);
  const int uses = runtime_->foreign_uses;
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
  EXPECT_EQ(runtime_->foreign_uses, uses);
}

// The stream waits, and nothing is held back; the end of that work is the event's, too.
TEST_F(Events, QueuesWaitOnTheDevice) {
  const tenon_fence_point_t point = import();
  Fence done(0);
  {
    const std::lock_guard lock(runtime_->gate);
    ASSERT_EQ(fill({point}, {handle(done), 1}), TENON_OK);
    EXPECT_FALSE(line_of(queue_)->holds());
    EXPECT_EQ(runtime_->awaited, std::vector<EventHandle>{&theirs_});
  }
  ASSERT_TRUE(done.timeline.wait(1, kSoon).ok());
  EXPECT_TRUE(fence_of(point.fence)->timeline.reached(point.value));
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
}

// Work that another fence holds back waits for the event when it is submitted, unless that has
// happened: who waited for it may have let it go.
TEST_F(Events, WhatIsGoneIsNotAwaited) {
  for (const bool gone : {false, true}) {
    Fence begin(0), done(0);
    runtime_->foreign_happened = false;
    runtime_->awaited.clear();
    const tenon_fence_point_t point = import();
    ASSERT_EQ(fill({{handle(begin), 1}, point}, {handle(done), 1}), TENON_OK);
    if (gone) {
      runtime_->foreign_happened = true;
      ASSERT_EQ(kQueueTable.fence_wait(nullptr, point.fence, point.value, kSoon), TENON_OK);
      EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
    }
    begin.timeline.signal(1);
    ASSERT_TRUE(done.timeline.wait(1, kSoon).ok());
    EXPECT_EQ(runtime_->awaited.size(), gone ? 0u : 1u);
    if (!gone) EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
  }
}

TEST_F(Events, AFailureOfTheContextIsOneOfTheFence) {
  const tenon_fence_point_t point = import();
  runtime_->foreign_failed = true;
  EXPECT_EQ(kQueueTable.fence_wait(nullptr, point.fence, point.value, kSoon), TENON_INTERNAL);
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
}

// The stream knows nothing of the failure, and would run what follows.
TEST_F(Events, WorkThatWaitsForOneThatFailedDoesNotRun) {
  const tenon_fence_point_t point = import();
  Fence begin(0), held(0), done(0);
  ASSERT_EQ(fill({{handle(begin), 1}, point}, {handle(held), 1}), TENON_OK);
  runtime_->foreign_failed = true;
  EXPECT_EQ(kQueueTable.fence_wait(nullptr, point.fence, point.value, kSoon), TENON_INTERNAL);
  runtime_->foreign_failed = false;
  begin.timeline.signal(1);
  EXPECT_EQ(held.timeline.wait(1, kSoon).code(), TENON_INTERNAL);
  ASSERT_EQ(fill({point}, {handle(done), 1}), TENON_OK);
  EXPECT_EQ(done.timeline.wait(1, kSoon).code(), TENON_INTERNAL);
  EXPECT_EQ(runtime_->awaited.size(), 0u);
  EXPECT_EQ(runtime_->work_put, 0);
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
}

// The failure is seen while the work is on the device.
TEST_F(Events, WorkWhoseEventFailsMeanwhileFails) {
  const tenon_fence_point_t point = import();
  Fence done(0);
  {
    const std::lock_guard lock(runtime_->gate);
    ASSERT_EQ(fill({point}, {handle(done), 1}), TENON_OK);
    runtime_->foreign_failed = true;
    EXPECT_EQ(kQueueTable.fence_wait(nullptr, point.fence, point.value, kSoon), TENON_INTERNAL);
  }
  EXPECT_EQ(done.timeline.wait(1, kSoon).code(), TENON_INTERNAL);
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
}

// An event stands for its own point. What comes later is the host's to signal.
TEST_F(Events, LaterValuesAreNotTheirs) {
  const tenon_fence_point_t point = import();
  runtime_->foreign_happened = true;
  Fence done(0);
  ASSERT_EQ(fill({{point.fence, point.value + 1}}, {handle(done), 1}), TENON_OK);
  EXPECT_TRUE(runtime_->awaited.empty());
  EXPECT_EQ(done.timeline.wait(1, 3'000'000).code(), TENON_DEADLINE_EXCEEDED);
  EXPECT_EQ(kQueueTable.fence_signal(nullptr, point.fence, point.value + 1), TENON_OK);
  EXPECT_TRUE(done.timeline.wait(1, kSoon).ok());
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
  // One to signal is recorded for its point alone.
  const tenon_fence_point_t signals = import(TENON_NATIVE_TO_SIGNAL);
  for (const uint64_t value : {signals.value, signals.value + 1}) {
    ASSERT_EQ(fill({}, {signals.fence, value}), TENON_OK);
    ASSERT_EQ(kQueueTable.fence_wait(nullptr, signals.fence, value, kSoon), TENON_OK);
    EXPECT_EQ(std::count(runtime_->recorded.begin(), runtime_->recorded.end(), &theirs_), 1);
  }
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, signals.fence), TENON_OK);
}

// It happens while the wait takes its last rest.
TEST_F(Events, AWaitLooksOnceMoreWhenItsTimeIsOver) {
  const tenon_fence_point_t point = import();
  runtime_->foreign_happens_at = 2;
  EXPECT_EQ(kQueueTable.fence_wait(nullptr, point.fence, point.value, 10'000), TENON_OK);
  runtime_->foreign_happened = false;
  const tenon_fence_point_t again = import();
  runtime_->foreign_happens_at = 1;
  EXPECT_EQ(kQueueTable.fence_wait(nullptr, again.fence, again.value, 0), TENON_OK);
  for (const auto& p : {point, again})
    EXPECT_EQ(kQueueTable.fence_destroy(nullptr, p.fence), TENON_OK);
}

// Its owner may record it into a graph: not a failure, and not ours to wait for.
TEST_F(Events, OneInAGraphIsRefusedAndFailsNoFence) {
  const tenon_fence_point_t point = import();
  runtime_->foreign_captured = true;
  EXPECT_EQ(kQueueTable.fence_wait(nullptr, point.fence, point.value, 3'000'000),
            TENON_DEADLINE_EXCEEDED);
  tenon_fence_point_t none = {};
  const auto theirs = native(&theirs_);
  EXPECT_EQ(table_.import_fence(table_.self, handle(), &theirs, &none), TENON_INVALID_ARGUMENT);
  runtime_->foreign_captured = false;
  runtime_->foreign_happened = true;
  EXPECT_EQ(kQueueTable.fence_wait(nullptr, point.fence, point.value, kSoon), TENON_OK);
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
}

TEST_F(Events, WorkRecordsTheOneThatItSignals) {
  const tenon_fence_point_t point = import(TENON_NATIVE_TO_SIGNAL);
  Fence begin(0);
  const auto records = [&] {
    return std::count(runtime_->recorded.begin(), runtime_->recorded.end(), &theirs_);
  };
  ASSERT_EQ(fill({{handle(begin), 1}}, point), TENON_OK);
  EXPECT_EQ(records(), 0);
  begin.timeline.signal(1);
  ASSERT_EQ(kQueueTable.fence_wait(nullptr, point.fence, point.value, kSoon), TENON_OK);
  EXPECT_EQ(records(), 1);
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
  // The host signals, too.
  const tenon_fence_point_t again = import(TENON_NATIVE_TO_SIGNAL);
  EXPECT_EQ(kQueueTable.fence_signal(nullptr, again.fence, again.value), TENON_OK);
  EXPECT_EQ(records(), 2);
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, again.fence), TENON_OK);
}

TEST_F(Events, WorkFailsThatCannotRecordIt) {
  const tenon_fence_point_t point = import(TENON_NATIVE_TO_SIGNAL);
  runtime_->foreign_failed = true;
  EXPECT_EQ(fill({}, point), TENON_INTERNAL);
  EXPECT_EQ(runtime_->in_flight, 0);
  EXPECT_EQ(kQueueTable.fence_signal(nullptr, point.fence, point.value), TENON_INTERNAL);
  EXPECT_FALSE(fence_of(point.fence)->timeline.reached(point.value));
  EXPECT_EQ(kQueueTable.fence_destroy(nullptr, point.fence), TENON_OK);
}

TEST_F(Events, HandlesThatAreNone) {
  tenon_fence_point_t point = {};
  auto handle_of_none = native(nullptr);
  EXPECT_EQ(table_.import_fence(table_.self, handle(), &handle_of_none, &point),
            TENON_INVALID_ARGUMENT);
  handle_of_none = native(this);
  EXPECT_EQ(table_.import_fence(table_.self, handle(), &handle_of_none, &point),
            TENON_INVALID_ARGUMENT);
  handle_of_none.kind = str("other.event");
  EXPECT_EQ(table_.import_fence(table_.self, handle(), &handle_of_none, &point),
            TENON_UNIMPLEMENTED);
  constexpr ExchangeKinds kNoEvents = {"lazy.pointer", "lazy.stream"};
  const tenon_exchange_api_t without = exchange_table(&kNoEvents);
  const auto theirs = native(&theirs_);
  EXPECT_EQ(without.import_fence(without.self, handle(), &theirs, &point), TENON_UNIMPLEMENTED);
}

TEST_F(Queues, WithoutAKindOfStreamsThereAreNoSlots) {
  constexpr ExchangeKinds kMemoryAlone = {"lazy.pointer", ""};
  EXPECT_EQ(exchange_table(&kMemoryAlone).import_queue, nullptr);
}

}  // namespace
}  // namespace tenon::stream
