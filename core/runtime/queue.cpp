#include "core/runtime/queue.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/failure.h"
#include "core/base/limits.h"
#include "core/base/operation.h"
#include "core/base/str.h"

namespace tenon::runtime {

// How often a waiting thread looks whether it was cancelled.
constexpr uint64_t kPollNs = 50'000'000;
constexpr auto kPause = std::chrono::milliseconds(1);

Result<std::unique_ptr<Queue>> Queue::create(std::shared_ptr<Device> device) {
  TENON_RETURN_IF_ERROR(device->open());
  std::unique_ptr<Queue> out(new Queue(device));
  const tenon_queue_api_t* api = device->apis().queue;
  auto guard = device->serialise();
  clear_failure();
  // Through locals: what stands beside an error is not ours to destroy.
  tenon_queue_t* queue = nullptr;
  TENON_RETURN_IF_ERROR(device->check(api->queue_create(api->self, device->handle(), &queue), "queue"));
  out->queue_ = queue;
  tenon_fence_t* fence = nullptr;
  if (queue != nullptr) TENON_RETURN_IF_ERROR(device->check(api->fence_create(api->self, device->handle(), 0, &fence), "fence"));
  out->fence_ = fence;
  if (fence == nullptr) {
    return error(TENON_INTERNAL, "T0612", "device {} made no {}", quoted(device->name()), queue == nullptr ? "queue" : "fence");
  }
  return out;
}

Queue::~Queue() {
  if (plugins_shut_down()) return;
  if (device_->abandoned()) {
    device_->leave_behind(queue_);
    device_->leave_behind(fence_);
    return;
  }
  const tenon_queue_api_t* api = device_->apis().queue;
  auto guard = device_->serialise();
  if (queue_ != nullptr) (void)api->queue_destroy(api->self, queue_);
  if (fence_ != nullptr) (void)api->fence_destroy(api->self, fence_);
}

Status Queue::copy(const tenon_copy_t& copy) {
  TENON_RETURN_IF_ERROR(device_->alive());
  const tenon_queue_api_t* api = device_->apis().queue;
  Status status;
  {
    auto guard = device_->serialise();
    clear_failure();
    status = device_->check(api->copy_async(api->self, queue_, &copy, nullptr, 0, next_signal()), "copy");
  }
  if (!status.ok()) {
    retract_signal();
    (void)device_->sync();  // its memory is about to be used again
  }
  TENON_RETURN_IF_ERROR(std::move(status), "copying on device {}", quoted(device_->name()));
  return {};
}

// The work may end at any time, or never: nothing that it uses can be taken back.
Status Queue::give_up() {
  waited_ = submitted_;
  failed_ = true;
  device_->abandon();
  clear_failure();
  return error(TENON_DEVICE_LOST, "T0617", "device {} did not finish its work within {} s; it is given up, and what it holds stays behind",
               quoted(device_->name()), limit(Limit::kDeviceWaitSeconds))
      .with("device", device_->name());
}

Status Queue::wait() {
  if (waited_ == submitted_) return failed_ ? device_->alive() : Status();
  const tenon_queue_api_t* api = device_->apis().queue;
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::seconds most(std::min<uint64_t>(limit(Limit::kDeviceWaitSeconds), 1'000'000'000));
  tenon_code_t code;
  for (;;) {
    clear_failure();
    const auto asked = std::chrono::steady_clock::now();
    code = api->fence_wait(api->self, fence_, submitted_, kPollNs);
    if (code != TENON_DEADLINE_EXCEEDED) break;
    const auto now = std::chrono::steady_clock::now();
    if (device_->abandoned() || now - begin > most) return give_up();
    // One that says so before the time is over must not keep a core busy.
    if (now - asked < kPause) std::this_thread::sleep_for(kPause);
  }
  waited_ = submitted_;
  Status status = device_->check(code, "run");
  failed_ = failed_ || !status.ok();
  TENON_RETURN_IF_ERROR(std::move(status), "waiting for device {}", quoted(device_->name()));
  return check_cancelled();
}

}  // namespace tenon::runtime
