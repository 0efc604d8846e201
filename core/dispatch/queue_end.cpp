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

Status end_submitted(const tenon_queue_api_t& api, tenon_device_t* device, tenon_queue_t* queue,
                     tenon_buffer_t* any) {
  tenon_fence_t* fence = nullptr;
  clear_failure();
  // A device that makes no fence, or takes no copy, runs nothing more either.
  if (api.fence_create(api.self, device, 0, &fence) != TENON_OK || fence == nullptr) return {};
  const tenon_copy_t copy = runtime::copy_of_nothing(any);
  Status status;
  if (api.copy_async(api.self, queue, &copy, nullptr, 0, {fence, 1}) == TENON_OK)
    status = await_point(api, {fence, 1}, true);
  clear_failure();
  // Work may signal the fence of a device that was given up, so it stays.
  if (status.error_code() == "T0618") return status;
  (void)api.fence_destroy(api.self, fence);
  return {};
}

}  // namespace tenon::dispatch
