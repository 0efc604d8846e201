#include "core/runtime/device/use.h"

#include "core/base/errors/failure.h"
#include "core/base/str.h"
#include "core/runtime/device/device.h"
#include "core/runtime/device/queue.h"

namespace tenon::runtime {

Result<std::unique_ptr<Use>> Use::begin(Device& device, const tenon_native_handle_t& stream,
                                        tenon_buffer_t* any) {
  TENON_RETURN_IF_ERROR(device.alive());
  TENON_RETURN_IF_ERROR(device.exchanges_queues());
  std::unique_ptr<Use> out(new Use(device));
  TENON_RETURN_IF_ERROR(out->import(stream));
  TENON_RETURN_IF_ERROR(out->mark(any));
  return out;
}

Status Use::import(const tenon_native_handle_t& stream) {
  const tenon_exchange_api_t* exchange = device_.apis().exchange;
  const tenon_queue_api_t* api = device_.apis().queue;
  auto guard = device_.serialise();
  clear_failure();
  tenon_queue_t* queue = nullptr;  // locals: what is stored despite an error is not ours
  tenon_fence_t* fence = nullptr;
  TENON_RETURN_IF_ERROR(device_.check_native(
      exchange->import_queue(exchange->self, device_.handle(), &stream, &queue),
      "import of a stream", Device::Native::kStream, stream.kind));
  queue_ = queue;
  TENON_RETURN_IF_ERROR(
      device_.check(api->fence_create(api->self, device_.handle(), 0, &fence), "fence"));
  fence_ = fence;
  if (queue != nullptr && fence != nullptr) return {};
  return error(TENON_INTERNAL, "T0612", "device {} made no queue or no fence",
               quoted(device_.name()));
}

Status Use::mark(tenon_buffer_t* any) {
  const tenon_copy_t nothing = copy_of_nothing(any);
  const tenon_queue_api_t* api = device_.apis().queue;
  auto guard = device_.serialise();
  clear_failure();
  return device_.check(api->copy_async(api->self, queue_, &nothing, nullptr, 0, point()), "copy");
}

Use::~Use() {
  if (plugins_shut_down()) return;
  if (device_.abandoned()) {
    device_.leave_behind(queue_);
    device_.leave_behind(fence_);
    return;
  }
  const tenon_queue_api_t* api = device_.apis().queue;
  auto guard = device_.serialise();
  if (queue_ != nullptr) (void)api->queue_destroy(api->self, queue_);
  if (fence_ != nullptr) (void)api->fence_destroy(api->self, fence_);
}

bool Use::over() const {
  const tenon_queue_api_t* api = device_.apis().queue;
  uint64_t value = 0;
  const tenon_code_t code = api->fence_query(api->self, fence_, &value);
  clear_failure();
  return code != TENON_OK || value >= point().value;
}

}  // namespace tenon::runtime
