#include "core/runtime/queue.h"

#include <chrono>
#include <thread>

#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
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

Result<std::unique_ptr<Queue>> Queue::create(std::shared_ptr<Device> device) {
  TENON_RETURN_IF_ERROR(device->open());
  std::unique_ptr<Queue> out(new Queue(device));
  const tenon_queue_api_t* api = device->apis().queue;
  auto guard = device->serialise();
  clear_failure();
  // Through locals: what a plugin stores beside an error must not be destroyed.
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
    TENON_RETURN_IF_ERROR(device->check(
        api->import_queue(api->self, device->handle(), &stream, &queue), "import of a stream"));
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

Status Queue::submit(const tenon_copy_t& copy, tenon_fence_point_t after,
                     tenon_fence_point_t signal) {
  TENON_RETURN_IF_ERROR(device_->alive());
  const tenon_queue_api_t* api = device_->apis().queue;
  auto guard = device_->serialise();
  clear_failure();
  TENON_RETURN_IF_ERROR(device_->check(api->copy_async(api->self, queue_, &copy, &after,
                                                       after.fence != nullptr ? 1 : 0, signal),
                                       "copy"),
                        "copying on device {}", quoted(device_->name()));
  return {};
}

Status Queue::copy(const tenon_copy_t& copy, tenon_fence_point_t after) {
  Status status = submit(copy, after, next_signal());
  if (!status.ok()) refused();
  return status;
}

Status Queue::mark(tenon_buffer_t* any) {
  return copy(copy_of_nothing(any));
}

Status Queue::signal(tenon_buffer_t* any, tenon_fence_point_t point) {
  return submit(copy_of_nothing(any), last(), point);
}

Result<bool> Queue::poll(uint64_t value) {
  if (reached(value)) return true;
  clear_failure();
  const tenon_code_t code = wait_a_moment(device_->apis().queue, fence_, value);
  if (code == TENON_DEADLINE_EXCEEDED) {
    clear_failure();
    return false;
  }
  Status status = device_->check(code, "run");
  if (status.ok()) {
    reached_ = value;
    return true;
  }
  failed_ = true;
  return std::move(status).with_context(
      fmt::format("waiting for device {}", quoted(device_->name())));
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
