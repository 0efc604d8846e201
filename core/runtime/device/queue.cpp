#include "core/runtime/device/queue.h"

#include <chrono>
#include <thread>

#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/limits.h"
#include "core/base/process/operation.h"
#include "core/base/str.h"

namespace tenon::runtime {

// How often a waiting thread rechecks.
constexpr uint64_t kPollNs = 50'000'000;
constexpr auto kPause = std::chrono::milliseconds(1);

tenon_copy_t copy_of_nothing(tenon_buffer_t* any) {
  static constexpr char kNothing = 0;
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_HOST_TO_DEVICE;
  copy.to = any;
  copy.host_from = &kNothing;
  return copy;
}

tenon_code_t wait_a_moment(const tenon_queue_api_t* api, tenon_fence_t* fence, uint64_t value) {
  const auto asked = std::chrono::steady_clock::now();
  const tenon_code_t code = api->fence_wait(api->self, fence, value, kPollNs);
  if (code != TENON_DEADLINE_EXCEEDED) return code;
  uint64_t now = 0;
  if (api->fence_query != nullptr && api->fence_query(api->self, fence, &now) == TENON_OK &&
      now >= value)
    return TENON_OK;
  // A device that reports a timeout early must not keep a core busy.
  if (std::chrono::steady_clock::now() - asked < kPause) std::this_thread::sleep_for(kPause);
  return code;
}

Status await_value(const tenon_queue_api_t* api, tenon_fence_point_t point, bool to_the_end,
                   tenon_code_t* out_code) {
  const auto most = std::chrono::seconds(limit(Limit::kDeviceWaitSeconds));
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (!to_the_end) TENON_RETURN_IF_ERROR(check_cancelled());
    clear_failure();
    *out_code = wait_a_moment(api, point.fence, point.value);
    if (*out_code != TENON_DEADLINE_EXCEEDED) return {};
    clear_failure();
    if (std::chrono::steady_clock::now() - begin >= most) return {};
  }
}

Result<std::unique_ptr<Queue>> Queue::create(std::shared_ptr<Device> device) {
  TENON_RETURN_IF_ERROR(device->open());
  std::unique_ptr<Queue> out(new Queue(device));
  const tenon_queue_api_t* api = device->apis().queue;
  auto guard = device->serialise();
  clear_failure();
  // Through locals: what a plugin stores despite an error must not be destroyed.
  tenon_queue_t* queue = nullptr;
  TENON_RETURN_IF_ERROR(
      device->check(api->queue_create(api->self, device->handle(), &queue), "queue"));
  out->queue_ = queue;
  guard = {};
  TENON_RETURN_IF_ERROR(out->make_fence());
  return out;
}

Result<std::unique_ptr<Queue>> Queue::import(std::shared_ptr<Device> device,
                                             const tenon_native_handle_t& stream) {
  TENON_RETURN_IF_ERROR(device->open());
  TENON_RETURN_IF_ERROR(device->exchanges_queues());
  std::unique_ptr<Queue> out(new Queue(device));
  const tenon_exchange_api_t* api = device->apis().exchange;
  {
    auto guard = device->serialise();
    clear_failure();
    tenon_queue_t* queue = nullptr;
    TENON_RETURN_IF_ERROR(
        device->check_native(api->import_queue(api->self, device->handle(), &stream, &queue),
                             "import of a stream", Device::Native::kStream, stream.kind));
    out->queue_ = queue;
  }
  TENON_RETURN_IF_ERROR(out->make_fence());
  return out;
}

Status Queue::make_fence() {
  const tenon_queue_api_t* api = device_->apis().queue;
  auto guard = device_->serialise();
  clear_failure();
  tenon_fence_t* fence = nullptr;
  if (queue_ != nullptr)
    TENON_RETURN_IF_ERROR(
        device_->check(api->fence_create(api->self, device_->handle(), 0, &fence), "fence"));
  fence_ = fence;
  if (fence != nullptr) return {};
  return error(TENON_INTERNAL, "T0612", "device {} made no {}", quoted(device_->name()),
               queue_ == nullptr ? "queue" : "fence");
}

void Queue::end() {
  tenon_queue_t* const queue = std::exchange(queue_, nullptr);
  if (queue == nullptr || plugins_shut_down()) return;
  if (device_->abandoned()) return device_->leave_behind(queue);
  const tenon_queue_api_t* api = device_->apis().queue;
  auto guard = device_->serialise();
  (void)api->queue_destroy(api->self, queue);
}

Queue::~Queue() {
  end();
  if (fence_ == nullptr || plugins_shut_down()) return;
  if (device_->abandoned()) {
    device_->leave_behind(fence_);
    return;
  }
  const tenon_queue_api_t* api = device_->apis().queue;
  auto guard = device_->serialise();
  (void)api->fence_destroy(api->self, fence_);
}

Status Queue::submit(const tenon_copy_t& copy, Points after, tenon_fence_point_t signal) {
  TENON_RETURN_IF_ERROR(device_->alive());
  const tenon_queue_api_t* api = device_->apis().queue;
  auto guard = device_->serialise();
  clear_failure();
  const auto count = static_cast<uint32_t>(after.size());
  TENON_RETURN_IF_ERROR(
      device_->check(api->copy_async(api->self, queue_, &copy, count == 0 ? nullptr : after.begin(),
                                     count, signal),
                     "copy"),
      "copying on device {}", quoted(device_->name()));
  return {};
}

Status Queue::copy(const tenon_copy_t& copy, Points after) {
  Status status = submit(copy, after, next_signal());
  if (!status.ok()) refused();
  return status;
}

Result<bool> Queue::fill(const tenon_copy_t& copy, Points after) {
  Status status = submit(copy, after, next_signal());
  if (status.ok()) return true;
  if (status.code() != TENON_UNIMPLEMENTED) {
    refused();
    return status;
  }
  --submitted_;  // its memory is about to be written by another copy
  clear_failure();
  device_->fills_not();
  return false;
}

Result<bool> Queue::reaches(Device& from) {
  const tenon_queue_api_t* api = device_->apis().queue;
  if (api->reaches == nullptr || &from == device_.get() || !device_->same_plugin(from))
    return false;
  TENON_RETURN_IF_ERROR(from.open());
  auto guard = device_->serialise();
  clear_failure();
  uint32_t yes = 0;
  TENON_RETURN_IF_ERROR(
      device_->check(api->reaches(api->self, queue_, from.handle(), &yes), "reaches"));
  return yes != 0;
}

Status Queue::mark(tenon_buffer_t* any) {
  return copy(copy_of_nothing(any));
}

Status Queue::signal(tenon_buffer_t* any, tenon_fence_point_t point, tenon_fence_point_t after) {
  return submit(copy_of_nothing(any), {last(), after}, point);
}

Result<bool> Queue::poll(uint64_t value) {
  if (reached(value)) return true;
  clear_failure();
  const tenon_code_t code = wait_a_moment(device_->apis().queue, fence_, value);
  if (code == TENON_DEADLINE_EXCEEDED) {
    clear_failure();
    return false;
  }
  Status status = status_of_wait(code);
  if (status.ok()) {
    reached_ = value;
    return true;
  }
  failed_ = true;
  return std::move(status).with_context(
      fmt::format("waiting for device {}", quoted(device_->name())));
}

// If the queue's work waited for another device that was lost, this device is not lost.
Status Queue::status_of_wait(tenon_code_t code) {
  // T0618: memory is in use for good, of whichever device; the worst is assumed.
  if (code != TENON_DEVICE_LOST || !reads_others_ || last_failure().error_code() == "T0618")
    return device_->check(code, "run");
  const Status why = from_abi(code, "run");
  if (device_->says_lost()) return device_->check(code, "run");
  return error(code, "T0611", "device {} waited for a device that was lost: {}",
               quoted(device_->name()), why.message());
}

uint64_t Queue::first_failed() const {
  for (uint64_t value = 1; value <= submitted_; ++value) {
    if (wait_a_moment(device_->apis().queue, fence_, value) == TENON_OK) continue;
    clear_failure();
    return value;
  }
  return 0;
}

uint64_t Queue::progress() const {
  const tenon_queue_api_t* api = device_->apis().queue;
  uint64_t value = 0;
  if (api->fence_query == nullptr || api->fence_query(api->self, fence_, &value) != TENON_OK)
    value = reached_;
  clear_failure();
  return value;
}

}  // namespace tenon::runtime
