// Puts kernels of another plugin, which submit to a device's native stream, in the order of the
// device's own queue. A device may hold submitted work back, so the stream alone is no order: see
// ADR 0040.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "core/dispatch/kernel_call.h"

namespace tenon::dispatch {

// Threads: safe; one thread at a time for each queue.
class NativeOrder {
 public:
  NativeOrder(const KernelsOfPlugin& set, tenon_device_t* device) : set_(set), device_(device) {}
  ~NativeOrder();  // no work is in flight
  NativeOrder(const NativeOrder&) = delete;

  struct Turn {
    tenon_fence_point_t point;  // behind all that was submitted to the queue before
    tenon_native_handle_t queue, wait;
  };
  // Before the kernels of an execution: what they submit to, and wait for. `any`: a buffer of the
  // device, which is not touched.
  Status begin(tenon_queue_t* queue, tenon_buffer_t* any, const tenon_fence_point_t* waits,
               uint32_t wait_count, Turn* out);
  // Behind them.
  Status end(tenon_queue_t* queue, tenon_buffer_t* any, const Turn& turn,
             tenon_fence_point_t signal) const;

 private:
  struct Line {
    tenon_fence_t* fence = nullptr;
    uint64_t value = 0;
  };
  Status next_point(tenon_queue_t* queue, tenon_fence_point_t* out);
  const KernelsOfPlugin& set_;
  tenon_device_t* device_;
  std::mutex mutex_;
  std::map<tenon_queue_t*, Line> lines_;
  std::vector<tenon_fence_t*> failed_;  // may still be named by work
};

}  // namespace tenon::dispatch
