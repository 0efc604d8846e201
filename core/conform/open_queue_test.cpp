// What a check made is taken down in an order that a device may rely on, however the check ended.
#include "core/conform/open_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenon::conform {
namespace {

std::vector<std::string>* g_calls = nullptr;
bool g_refuses_copies = false;

template <typename Handle>
tenon_code_t give(Handle** out) {
  static char handle;
  *out = reinterpret_cast<Handle*>(&handle);
  return TENON_OK;
}
tenon_code_t note(const char* call) {
  g_calls->push_back(call);
  return TENON_OK;
}

const tenon_device_api_t kDevice = [] {
  tenon_device_api_t api = {};
  api.size_bytes = sizeof(api);
  api.open = [](void*, uint32_t, tenon_device_t** out) { return give(out); };
  api.close = [](void*, tenon_device_t*) { return note("close"); };
  api.alloc = [](void*, tenon_device_t*, uint64_t, tenon_buffer_t** out) { return give(out); };
  api.free = [](void*, tenon_device_t*, tenon_buffer_t*) { return note("free"); };
  return api;
}();

const tenon_queue_api_t kQueues = [] {
  tenon_queue_api_t api = {};
  api.size_bytes = sizeof(api);
  api.queue_create = [](void*, tenon_device_t*, tenon_queue_t** out) { return give(out); };
  api.queue_destroy = [](void*, tenon_queue_t*) { return note("queue_destroy"); };
  api.fence_create = [](void*, tenon_device_t*, uint64_t, tenon_fence_t** out) {
    return give(out);
  };
  api.fence_destroy = [](void*, tenon_fence_t*) { return note("fence_destroy"); };
  api.fence_signal = [](void*, tenon_fence_t*, uint64_t) { return note("fence_signal"); };
  api.copy_async = [](void*, tenon_queue_t*, const tenon_copy_t*, const tenon_fence_point_t*,
                      uint32_t, tenon_fence_point_t) -> tenon_code_t {
    return g_refuses_copies ? TENON_RESOURCE_EXHAUSTED : TENON_OK;
  };
  return api;
}();

// As exercise() does: left by the first thing that fails.
Outcome submit_two(OpenQueues& d) {
  tenon_queue_t* queue = nullptr;
  tenon_fence_t* fence = nullptr;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.open());
  CONFORM_TRY(d.queue(&queue));
  CONFORM_TRY(d.fence(0, &fence));
  CONFORM_TRY(d.memory().alloc(64, &buffer));
  Bytes& bytes = d.keep(Bytes(64));
  const tenon_copy_t copy = async_write(buffer, 0, bytes.data(), 64);
  CONFORM_TRY(d.submit(queue, copy, {nullptr, 0}, {fence, 1}));
  g_refuses_copies = true;
  return d.submit(queue, copy, {fence, 1}, {fence, 2});
}

// A device is right to crash when its buffers are freed and it is closed under a copy in flight: a
// submission that failed, as it may when an allocation does, once left it so.
TEST(OpenQueues, ACheckThatFailsWaitsForItsWorkBeforeItFrees) {
  std::vector<std::string> calls;
  g_calls = &calls;
  g_refuses_copies = false;
  {
    OpenQueues queues(&kDevice, &kQueues, 0);
    EXPECT_EQ(submit_two(queues).verdict, Verdict::kFail);
    EXPECT_TRUE(calls.empty());
  }
  EXPECT_EQ(calls, (std::vector<std::string>{"fence_signal", "queue_destroy", "fence_destroy",
                                             "free", "close"}));
}

TEST(OpenQueues, KeptMemoryStaysWhereItIs) {
  OpenQueues queues(&kDevice, &kQueues, 0);
  const Bytes* first = &queues.keep(Bytes(8, 1));
  const unsigned char* at = first->data();
  for (int i = 0; i < 100; ++i) queues.keep(Bytes(8, 2));
  EXPECT_EQ(first->data(), at);
  EXPECT_EQ((*first)[7], 1);
}

}  // namespace
}  // namespace tenon::conform
