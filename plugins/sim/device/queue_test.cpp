#include "plugins/sim/device/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

tenon_code_t record(void*, tenon_code_t code, tenon_str_t, const tenon_key_value_t*, uint32_t) {
  return code;
}
tenon_code_t none(void*, tenon_failure_t* out) {
  out->code = TENON_OK;
  return TENON_OK;
}

class QueueTest : public testing::Test {
 protected:
  void SetUp() override {
    static tenon_host_t host{};
    host.fail = record;
    host.last_failure = none;
    detail::g_context.host = &host;
  }
};

TEST_F(QueueTest, CommandsOfOneQueueRunInOrder) {
  Queue queue;
  std::vector<int> order;
  Fence fence(0);
  for (int i = 0; i < 100; ++i) {
    queue.submit({}, {&fence, static_cast<uint64_t>(i) + 1}, [&order, i](Queue&) {
      order.push_back(i);
      return Status();
    });
  }
  ASSERT_TRUE(fence.wait(100, UINT64_MAX).ok());
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST_F(QueueTest, AFenceOrdersTwoQueues) {
  Queue first, second;
  Fence made(0), used(0);
  std::atomic<int> value = 0, seen = -1;
  second.submit({{&made, 1}}, {&used, 1}, [&](Queue&) {
    seen = value.load();
    return Status();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(seen, -1) << "the second queue did not wait";
  first.submit({}, {&made, 1}, [&](Queue&) {
    value = 42;
    return Status();
  });
  ASSERT_TRUE(used.wait(1, UINT64_MAX).ok());
  EXPECT_EQ(seen, 42);
}

TEST_F(QueueTest, HeldCommandsAreOvertakenByOthersAlone) {
  Queue queue;
  Fence gate(0), overtaken(0), last(0);
  std::string order;
  const auto note = [&](char letter) {
    return [&order, letter](Queue&) {
      order += letter;
      return Status();
    };
  };
  queue.submit({{&gate, 1}}, {}, note('a'), true);
  queue.submit({}, {&last, 1}, note('b'), true);
  queue.submit({}, {&overtaken, 1}, note('c'));
  ASSERT_TRUE(overtaken.wait(1, UINT64_MAX).ok());
  EXPECT_TRUE(queue.holds());
  gate.signal(1);
  ASSERT_TRUE(last.wait(1, UINT64_MAX).ok());
  EXPECT_EQ(order, "cab");
  EXPECT_FALSE(queue.holds());
}

TEST_F(QueueTest, AFailureReachesEveryWaiterAndItsWorkDoesNotRun) {
  Queue first, second;
  Fence made(0), used(0);
  bool ran = false;
  second.submit({{&made, 1}}, {&used, 1}, [&](Queue&) {
    ran = true;
    return Status();
  });
  first.submit({}, {&made, 1}, [](Queue&) { return Status(TENON_OUT_OF_RANGE); });
  EXPECT_EQ(used.wait(1, UINT64_MAX).code(), TENON_OUT_OF_RANGE);
  EXPECT_EQ(made.wait(1, UINT64_MAX).code(), TENON_OUT_OF_RANGE);
  EXPECT_FALSE(ran);
  Fence later(0);
  first.submit({}, {&later, 1}, [](Queue&) { return Status(); });
  EXPECT_TRUE(later.wait(1, UINT64_MAX).ok()) << "the queue works on";
}

TEST_F(QueueTest, AStalledCommandEndsWithItsQueue) {
  Fence done(0);
  {
    Queue queue;
    queue.submit({}, {&done, 1}, [](Queue& q) { return q.stall(); });
    EXPECT_EQ(done.wait(1, 5000000).code(), TENON_DEADLINE_EXCEEDED);
  }
  EXPECT_EQ(done.wait(1, 0).code(), TENON_ABORTED);
}

TEST_F(QueueTest, AWaitWithATimeoutReturns) {
  Fence fence(3);
  EXPECT_TRUE(fence.wait(3, 0).ok());
  EXPECT_EQ(fence.wait(4, 1000000).code(), TENON_DEADLINE_EXCEEDED);
  uint64_t value = 0;
  EXPECT_TRUE(fence.query(&value).ok());
  EXPECT_EQ(value, 3u);
}

}  // namespace
}  // namespace tenon::sim
