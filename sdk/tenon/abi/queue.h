/* Tenon ABI: asynchronous queues and timeline fences (tenon.queue/1). A device without it completes
 * everything before it returns.
 *
 * A fence is a 64-bit counter that only grows. Work waits until a fence has reached a value, and
 * signals a value when done. Failed work fails its signal: the fence then reports the code to all
 * who wait for that value or a later one. A failed wait does not mean that later work has stopped:
 * only queue_destroy guarantees that nothing is in flight. A copy of no bytes that waits for
 * nothing signals once all work before it on its queue is over, whether that failed or not.
 *
 * The host uses it with tenon.compile/1, and with tenon.kernels/1 of TENON_KERNELS_ON_QUEUE; other
 * kernels are complete when they return.
 *
 *
 * Stability: unstable.
 */
#ifndef TENON_ABI_QUEUE_H_
#define TENON_ABI_QUEUE_H_

#include "tenon/abi/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_QUEUE_ID "tenon.queue/1"
#define TENON_QUEUE_MINOR 1u /* 1: reaches */

typedef struct tenon_queue_t tenon_queue_t;
typedef struct tenon_fence_t tenon_fence_t;

/* A value. */
typedef struct tenon_fence_point_t {
  tenon_fence_t* fence; /* null: no point */
  uint64_t value;
} tenon_fence_point_t;

typedef struct tenon_queue_api_t {
  uint32_t size_bytes;
  void* self;
  /* Work on one queue runs in order of submission; queues are ordered only by fences. The host
   * makes several for one device: of a program's work, and of its large copies, which then overlap.
   * If there are no more (any failure but DEVICE_LOST), copies go where the work goes.
   */
  tenon_code_t (*queue_create)(void* self, tenon_device_t* device, tenon_queue_t** out_queue);
  tenon_code_t (*queue_destroy)(void* self, tenon_queue_t* queue); /* waits for its work */
  /* Submits a copy. The host memory it names stays valid until the signal. One at a time per queue.
   * On error nothing of this call is in flight and the signal is untouched. */
  tenon_code_t (*copy_async)(void* self, tenon_queue_t* queue, const tenon_copy_t* copy,
                             const tenon_fence_point_t* waits, uint32_t wait_count,
                             tenon_fence_point_t signal);
  tenon_code_t (*fence_create)(void* self, tenon_device_t* device, uint64_t initial,
                               tenon_fence_t** out_fence);
  /* No work refers to the fence any more. */
  tenon_code_t (*fence_destroy)(void* self, tenon_fence_t* fence);
  /* The current value; the code of failed work if any failed. Returning a value has the effect of a
   * completed wait for it: what the work wrote is visible, and the fence may be destroyed. Safe. */
  tenon_code_t (*fence_query)(void* self, tenon_fence_t* fence, uint64_t* out_value);
  /* From the host; safe. */
  tenon_code_t (*fence_signal)(void* self, tenon_fence_t* fence, uint64_t value);
  /* DEADLINE_EXCEEDED after timeout_ns; UINT64_MAX waits without limit. Safe. */
  tenon_code_t (*fence_wait)(void* self, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns);

  /* ---- Optional ---- */
  /* *out_reaches: nonzero if copies of this queue may read buffers of `from`, another open device
   * of this plugin, without the host (tenon_copy_t::from_device). They and all work of the queue
   * may then wait for fences of that device as for those of their own, and fail as such waits do.
   * Stays true as long as both are open. Null slot: no queue reaches another device. */
  tenon_code_t (*reaches)(void* self, tenon_queue_t* queue, tenon_device_t* from,
                          uint32_t* out_reaches);
} tenon_queue_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
