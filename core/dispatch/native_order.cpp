#include "core/dispatch/native_order.h"

#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/runtime/queue.h"

namespace tenon::dispatch {

NativeOrder::~NativeOrder() {
  const tenon_queue_api_t& q = *set_.queue;
  if (runtime::plugins_shut_down()) return;
  for (const auto& [queue, line] : lines_) (void)q.fence_destroy(q.self, line.fence);
  for (tenon_fence_t* fence : failed_) (void)q.fence_destroy(q.self, fence);
}

// A fence for each queue, because a fence only grows. One that failed is of no use any more.
Status NativeOrder::next_point(tenon_queue_t* queue, tenon_fence_point_t* out) {
  const tenon_queue_api_t& q = *set_.queue;
  const std::lock_guard lock(mutex_);
  Line& line = lines_[queue];
  uint64_t reached = 0;
  if (line.fence != nullptr && q.fence_query(q.self, line.fence, &reached) != TENON_OK) {
    failed_.push_back(line.fence);
    line = {};
  }
  clear_failure();
  if (line.fence == nullptr) {
    tenon_fence_t* fence = nullptr;
    const Status status = from_abi(q.fence_create(q.self, device_, 0, &fence), "fence of kernels");
    if (!status.ok() || fence == nullptr) lines_.erase(queue);
    TENON_RETURN_IF_ERROR(status);
    if (fence == nullptr) return error(TENON_INTERNAL, "T0612", "a device made no fence");
    line.fence = fence;
  }
  *out = {line.fence, ++line.value};
  return {};
}

Status NativeOrder::begin(tenon_queue_t* queue, tenon_buffer_t* any,
                          const tenon_fence_point_t* waits, uint32_t wait_count, Turn* out) {
  const tenon_queue_api_t& q = *set_.queue;
  const tenon_exchange_api_t& x = *set_.exchange;
  TENON_RETURN_IF_ERROR(next_point(queue, &out->point));
  out->queue = out->wait = sized<tenon_native_handle_t>();
  clear_failure();
  TENON_RETURN_IF_ERROR(
      from_abi(x.export_queue(x.self, queue, set_.kernels->queue_kind, &out->queue),
               "export of a stream for kernels"));
  TENON_RETURN_IF_ERROR(from_abi(x.export_fence(x.self, out->point.fence, out->point.value,
                                                set_.kernels->fence_kind, &out->wait),
                                 "export of a fence for kernels"));
  const tenon_copy_t copy = runtime::copy_of_nothing(any);
  return from_abi(q.copy_async(q.self, queue, &copy, waits, wait_count, out->point),
                  "copy before kernels");
}

Status NativeOrder::end(tenon_queue_t* queue, tenon_buffer_t* any, const Turn& turn,
                        tenon_fence_point_t signal) const {
  const tenon_queue_api_t& q = *set_.queue;
  const tenon_copy_t copy = runtime::copy_of_nothing(any);
  clear_failure();
  return from_abi(q.copy_async(q.self, queue, &copy, &turn.point, 1, signal),
                  "copy behind kernels");
}

}  // namespace tenon::dispatch
