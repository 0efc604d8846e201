#include "core/dispatch/kernels/native_order.h"

#include <algorithm>

#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/dispatch/kernels/queue_end.h"
#include "core/runtime/device/queue.h"

namespace tenon::dispatch {
namespace {

bool is_reached(const tenon_queue_api_t& q, const tenon_fence_point_t& point) {
  if (point.fence == nullptr) return true;
  uint64_t value = 0;
  clear_failure();
  return q.fence_query(q.self, point.fence, &value) == TENON_OK && value >= point.value;
}

}  // namespace

Status begin_native(const KernelsOfPlugin& set, tenon_device_t* device, tenon_queue_t* queue,
                    tenon_buffer_t* any, std::span<const tenon_fence_point_t> waits,
                    tenon_native_handle_t* out) {
  const tenon_exchange_api_t& x = *set.exchange;
  *out = sized<tenon_native_handle_t>();
  clear_failure();
  TENON_RETURN_IF_ERROR(from_abi(x.export_queue(x.self, queue, set.kernels->queue_kind, out),
                                 "export of a stream for kernels"));
  const bool ready =
      (out->flags & TENON_NATIVE_ALL_THERE) != 0 &&
      std::ranges::all_of(waits, [&](const auto& point) { return is_reached(*set.queue, point); });
  return ready ? Status() : await_before(*set.queue, device, queue, any, waits);
}

Status end_native(const KernelsOfPlugin& set, tenon_queue_t* queue, tenon_buffer_t* any,
                  tenon_fence_point_t signal) {
  const tenon_queue_api_t& q = *set.queue;
  const tenon_copy_t copy = runtime::copy_of_nothing(any);
  clear_failure();
  return from_abi(q.copy_async(q.self, queue, &copy, nullptr, 0, signal), "copy after kernels");
}

}  // namespace tenon::dispatch
