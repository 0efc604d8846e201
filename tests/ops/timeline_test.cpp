// Tests of timelines and the process guard of sdk/tenon/cpp, which devices that compile text share.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tenon/cpp/process_guard.hpp"
#include "tenon/cpp/timeline.hpp"

namespace tenon {
namespace {

struct Call {
  std::atomic<int> count{0};
  tenon_code_t code = TENON_OK;
  static void made(void* self, const Fault& fault) {
    auto& call = *static_cast<Call*>(self);
    call.code = fault.code;
    ++call.count;
  }
};

TEST(Timeline, OnlyGrowsAndCallsOnceWhenReached) {
  Timeline t(5);
  Call before, after;
  t.when(5, Call::made, &before);
  t.when(7, Call::made, &after);
  EXPECT_EQ(before.count, 1);
  t.signal(6);
  EXPECT_EQ(after.count, 0);
  t.signal(9);
  t.signal(7);
  EXPECT_EQ(after.count, 1);
  EXPECT_EQ(after.code, TENON_OK);
  uint64_t value = 0;
  EXPECT_TRUE(t.query(&value).ok());
  EXPECT_EQ(value, 9u);
  EXPECT_TRUE(t.reached(9));
  EXPECT_EQ(t.wait(10, 1000).code(), TENON_DEADLINE_EXCEEDED);
}

// A thread that waited may destroy the timeline before a call comes.
TEST(Timeline, WhatACallNeedsLivesUntilItHasReturned) {
  struct Owner {
    std::unique_ptr<Timeline> timeline = std::make_unique<Timeline>(0);
    std::shared_ptr<Call> call = std::make_shared<Call>();
    std::weak_ptr<Call> seen = call;
    int count = 0;
  } owner;
  Timeline& t = *owner.timeline;
  t.when(
      1,
      [](void* self, const Fault&) {
        auto& o = *static_cast<Owner*>(self);
        o.timeline.reset();
        o.call.reset();
      },
      &owner);
  t.when(
      1,
      [](void* self, const Fault&) {
        auto& o = *static_cast<Owner*>(self);
        if (const auto call = o.seen.lock()) o.count = ++call->count;
      },
      &owner, owner.call);
  t.signal(1);
  EXPECT_EQ(owner.count, 1);
  EXPECT_TRUE(owner.seen.expired());
}

TEST(Timeline, WhatACallNeedsGoesWithTheTimeline) {
  auto call = std::make_shared<Call>();
  const std::weak_ptr<Call> seen = call;
  {
    Timeline t(0);
    Call* const self = call.get();
    t.when(1, Call::made, self, std::move(call));
  }
  EXPECT_TRUE(seen.expired());
}

TEST(Timeline, AFaultReachesItsValueAndLaterOnes) {
  Timeline t(0);
  Call early, late;
  t.when(1, Call::made, &early);
  t.when(3, Call::made, &late);
  t.fail(2, {TENON_DATA_LOSS, "gone"});
  t.fail(2, {TENON_INTERNAL, "a second fault"});
  EXPECT_EQ(early.count, 0);
  EXPECT_EQ(late.count, 1);
  EXPECT_EQ(late.code, TENON_DATA_LOSS);
  EXPECT_EQ(t.wait(2, UINT64_MAX).code(), TENON_DATA_LOSS);
  t.signal(1);
  EXPECT_TRUE(t.wait(1, UINT64_MAX).ok());
  EXPECT_EQ(early.code, TENON_OK);
  uint64_t value = 7;
  EXPECT_EQ(t.query(&value).code(), TENON_DATA_LOSS);
  EXPECT_EQ(value, 7u);
}

TEST(Timeline, ThreadsHandAValueOn) {
  Timeline t(0);
  std::thread other([&] {
    for (uint64_t i = 1; i < 200; i += 2) {
      ASSERT_TRUE(t.wait(i, UINT64_MAX - 1).ok());
      t.signal(i + 1);
    }
  });
  for (uint64_t i = 0; i < 200; i += 2) {
    ASSERT_TRUE(t.wait(i, UINT64_MAX).ok());
    t.signal(i + 1);
  }
  other.join();
  EXPECT_TRUE(t.reached(200));
}

TEST(ProcessGuard, ThreadsInsideTakeNoSignalsAndHandlersComeBack) {
  struct sigaction before = {}, after = {};
  ::sigaction(SIGUSR2, nullptr, &before);
  sigset_t mask;
  {
    const ProcessGuard guard;
    ::signal(SIGUSR2, SIG_IGN);
    std::thread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &mask); }).join();
  }
  EXPECT_EQ(sigismember(&mask, SIGINT), 1);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    EXPECT_EQ(sigismember(&mask, fault), 0) << fault;
  ::sigaction(SIGUSR2, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0);
}

}  // namespace
}  // namespace tenon
