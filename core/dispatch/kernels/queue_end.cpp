#include "core/dispatch/kernels/queue_end.h"

#include "core/base/errors/failure.h"
#include "core/base/limits.h"
#include "core/runtime/device/queue.h"

namespace tenon::dispatch {

Status await_point(const tenon_queue_api_t& api, tenon_fence_point_t point, bool to_the_end) {
  tenon_code_t code = TENON_OK;
  TENON_RETURN_IF_ERROR(runtime::await_value(&api, point, to_the_end, &code));
  if (code != TENON_DEADLINE_EXCEEDED) return from_abi(code, "fence_wait");
  return error(TENON_DEVICE_LOST, "T0618",
               "work that kernels wait for did not end within {} s; the device is given up",
               limit(Limit::kDeviceWaitSeconds));
}

Status await_before(const tenon_queue_api_t& api, tenon_device_t* device, tenon_queue_t* queue,
                    tenon_buffer_t* any, std::span<const tenon_fence_point_t> points) {
  tenon_fence_t* fence = nullptr;
  clear_failure();
  TENON_RETURN_IF_ERROR(from_abi(api.fence_create(api.self, device, 0, &fence), "fence_create"));
  if (fence == nullptr) return error(TENON_INTERNAL, "T0612", "a device made no fence");
  const tenon_copy_t copy = runtime::copy_of_nothing(any);
  Status status = from_abi(api.copy_async(api.self, queue, &copy, points.data(),
                                          static_cast<uint32_t>(points.size()), {fence, 1}),
                           "copy of nothing");
  if (status.ok()) status = await_point(api, {fence, 1}, false);
  if (status.code() == TENON_CANCELLED) {
    Status ended = await_point(api, {fence, 1}, true);
    if (ended.error_code() == "T0618") status = std::move(ended);
  }
  // Work may signal the fence of a device that was given up, so it stays.
  if (status.error_code() != "T0618") (void)api.fence_destroy(api.self, fence);
  return status;
}

// A device that makes no fence, or takes no copy, runs nothing more either.
Status end_submitted(const tenon_queue_api_t& api, tenon_device_t* device, tenon_queue_t* queue,
                     tenon_buffer_t* any) {
  Status ended = await_before(api, device, queue, any, {});
  clear_failure();
  return ended.error_code() == "T0618" ? std::move(ended) : Status();
}

}  // namespace tenon::dispatch
