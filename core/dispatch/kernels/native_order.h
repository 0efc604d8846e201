// Puts kernels of another plugin, which submit to a device's native stream, in the order of the
// device's own queue. A device may hold submitted work back, so the stream alone does not order
// them: see ADR 0040.
#pragma once
#include <span>

#include "core/dispatch/kernels/kernel_call.h"

namespace tenon::dispatch {

// Before the kernels of an execution. Blocks until what was submitted to the queue, and what the
// points stand for, is done or in the stream. *out: the stream, valid as long as the queue. `any`:
// a buffer of the device, which is not touched. Fails as await_before does.
Status begin_native(const KernelsOfPlugin& set, tenon_device_t* device, tenon_queue_t* queue,
                    tenon_buffer_t* any, std::span<const tenon_fence_point_t> waits,
                    tenon_native_handle_t* out);
// After the kernels of an execution: `signal` follows them.
Status end_native(const KernelsOfPlugin& set, tenon_queue_t* queue, tenon_buffer_t* any,
                  tenon_fence_point_t signal);

}  // namespace tenon::dispatch
