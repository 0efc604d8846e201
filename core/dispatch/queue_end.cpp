#include "core/dispatch/queue_end.h"

#include <chrono>

#include "core/base/errors/failure.h"
#include "core/base/limits.h"
#include "core/base/process/operation.h"
#include "core/runtime/queue.h"

namespace tenon::dispatch {

Status await_point(const tenon_queue_api_t& api, tenon_fence_point_t point, bool to_the_end) {
  const uint64_t limit_s = limit(Limit::kDeviceWaitSeconds);
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (!to_the_end) TENON_RETURN_IF_ERROR(check_cancelled());
    clear_failure();
    const tenon_code_t code = runtime::wait_a_moment(&api, point.fence, point.value);
    if (code != TENON_DEADLINE_EXCEEDED) return from_abi(code, "fence_wait");
    clear_failure();
    if (std::chrono::steady_clock::now() - begin >= std::chrono::seconds(limit_s)) {
      return error(TENON_DEVICE_LOST, "T0618",
                   "work that kernels wait for did not end within {} s; the device is given up",
                   limit_s);
    }
  }
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
