// Waits of kernel lists for work on a queue, none of which is without limit.
#pragma once
#include <span>

#include <tenon/abi/queue.h>

#include "core/base/errors/status.h"

namespace tenon::dispatch {

// Blocks until the fence has the value. T0001 if the operation is cancelled, unless `to_the_end`;
// T0618, after which the device counts as lost, if nothing came for Limit::kDeviceWaitSeconds.
Status await_point(const tenon_queue_api_t& api, tenon_fence_point_t point, bool to_the_end);

// Blocks until everything that was submitted to the queue is done, and the points are reached;
// also if the operation is cancelled, and then T0001. Fails as they do, and with T0618 as above.
// `any`: a buffer of the device, which is not touched.
Status await_before(const tenon_queue_api_t& api, tenon_device_t* device, tenon_queue_t* queue,
                    tenon_buffer_t* any, std::span<const tenon_fence_point_t> points);

// Blocks until everything that was submitted to the queue is done, whether it failed or not. T0618
// as above.
Status end_submitted(const tenon_queue_api_t& api, tenon_device_t* device, tenon_queue_t* queue,
                     tenon_buffer_t* any);

}  // namespace tenon::dispatch
