#include "core/runtime/device/native.h"

#include "core/base/errors/failure.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/runtime/device/queue.h"

namespace tenon::runtime {

Result<std::unique_ptr<NativeFence>> NativeFence::import(std::shared_ptr<Device> device,
                                                         tenon_native_handle_t handle,
                                                         bool to_signal) {
  TENON_RETURN_IF_ERROR(device->open());
  TENON_RETURN_IF_ERROR(device->exchanges_queues());
  handle.flags = to_signal ? TENON_NATIVE_TO_SIGNAL : 0;
  std::unique_ptr<NativeFence> out(new NativeFence(device));
  const tenon_exchange_api_t* api = device->apis().exchange;
  auto guard = device->serialise();
  clear_failure();
  tenon_fence_point_t point{};  // a local: what a plugin stores despite an error is not ours
  TENON_RETURN_IF_ERROR(
      device->check_native(api->import_fence(api->self, device->handle(), &handle, &point),
                           "import of a fence", Device::Native::kFence, handle.kind));
  if (point.fence == nullptr) {
    return error(TENON_INTERNAL, "T0612", "device {} made no fence of a native one",
                 quoted(device->name()));
  }
  out->point_ = point;
  return out;
}

NativeFence::~NativeFence() {
  if (point_.fence == nullptr || plugins_shut_down()) return;
  if (device_->abandoned()) {
    device_->leave_behind(point_.fence);
    return;
  }
  auto guard = device_->serialise();
  const tenon_queue_api_t* api = device_->apis().queue;
  (void)api->fence_destroy(api->self, point_.fence);
}

Status NativeFence::wait() const {
  tenon_code_t code = TENON_OK;
  TENON_RETURN_IF_ERROR(await_value(device_->apis().queue, point_, false, &code));
  if (code == TENON_OK) return {};
  if (code != TENON_DEADLINE_EXCEEDED) {
    const Status why = device_->check(code, "wait for a fence");
    return error(code, "T0636", "a fence of another library on device {} failed: {}",
                 quoted(device_->name()), why.message());
  }
  return error(code, "T0636", "a fence of another library on device {} was not reached within {} s",
               quoted(device_->name()), limit(Limit::kDeviceWaitSeconds));
}

}  // namespace tenon::runtime
