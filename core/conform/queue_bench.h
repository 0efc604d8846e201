// What the checks of group D share: a device with queues, gates that the host opens, and calls that
// may not return.
#pragma once
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string_view>
#include <thread>

#include "core/conform/open_queue.h"
#include "core/conform/session.h"

namespace tenon::conform {

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

// `buffer` holds pattern_bytes(kBenchBytes, 1), `other` pattern_bytes(kBenchBytes, 2).
Outcome make_bench(OpenQueues& d, Bench* b);
Outcome same_bytes(const Bytes& got, const Bytes& expected, std::string_view what);
Outcome stands_at(OpenQueues& d, tenon_fence_t* fence, uint64_t value, std::string_view when);

// A wait in a thread of its own. Left alone when it does not end.
struct Waiter {
  std::atomic<bool> over{false};
  std::atomic<tenon_code_t> code{TENON_OK};
};
std::shared_ptr<Waiter> start_waiter(OpenQueues& d, tenon_fence_t* fence, uint64_t value,
                                     uint64_t timeout);

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

}  // namespace tenon::conform
