/* Tenon ABI: memory, streams and fences of other libraries (tenon.exchange/1). A device with it
 * turns native handles into buffers, queues and fences, and back, so that tensors of a framework go
 * into programs, and results into a framework, without the host's memory in between, and in the
 * order of the framework's own work.
 *
 * A handle is a number with a kind in words, KIND.WHAT, which the device documents:
 * "opencl.mem" (cl_mem), "cuda.pointer" (CUdeviceptr), "cuda.stream" (CUstream), "sim.fence".
 *
 *
 * Stability: unstable.
 */
#ifndef TENON_ABI_EXCHANGE_H_
#define TENON_ABI_EXCHANGE_H_

#include "tenon/abi/device.h"
#include "tenon/abi/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_EXCHANGE_ID "tenon.exchange/1"
#define TENON_EXCHANGE_MINOR 0u

typedef struct tenon_native_memory_t {
  uint32_t size_bytes;
  uint32_t reserved;
  tenon_str_t kind;      /* "opencl.mem"; given out: borrowed, lives as long as the process */
  uint64_t handle;       /* the pointer or the number, as an integer */
  uint64_t offset_bytes; /* of the elements, from where the handle points */
  uint64_t length_bytes; /* of the elements */
} tenon_native_memory_t;

/* A fence is imported for work of the device to signal it; without this flag, to wait for it. */
#define TENON_NATIVE_TO_SIGNAL 1u
/* Given out with a stream: all that was submitted to the queue is in the stream, and the device
 * holds nothing back. */
#define TENON_NATIVE_ALL_THERE 2u

/* A stream, or one point of a fence. Which handles are valid follows from the kind: 0 may be a
 * stream, as CUDA's default stream is, and is never a fence. */
typedef struct tenon_native_handle_t {
  uint32_t size_bytes;
  uint32_t flags;   /* TENON_NATIVE_*, where they say so; else 0 */
  tenon_str_t kind; /* "cuda.stream"; given out: borrowed, lives as long as the process */
  uint64_t handle;  /* the pointer or the number, as an integer */
  uint64_t value;   /* of a fence that counts, the value that is meant; else 0 */
} tenon_native_handle_t;

typedef struct tenon_exchange_api_t {
  uint32_t size_bytes;
  void* self;
  /* The kinds of handles that both slots below know, separated by commas: "opencl.mem". The host
   * names them where it lists devices, and where it refuses another kind. They live as long as the
   * process. Needs no open device. Safe. */
  tenon_code_t (*kinds)(void* self, uint32_t ordinal, tenon_str_t* out_kinds);
  /* Makes a buffer of length_bytes of another library's memory. That memory outlives the buffer,
   * and all work that writes it is done. The buffer begins at offset_bytes. It is read, and written
   * only where the host lets work write to it. free does not free that memory.
   * INVALID_ARGUMENT with a reason for a handle that is not one, or of another context or device;
   * OUT_OF_RANGE beyond its end; UNIMPLEMENTED with a reason for an unknown kind, or for memory
   * that must be copied. Safe as alloc is. */
  tenon_code_t (*import_memory)(void* self, tenon_device_t* device,
                                const tenon_native_memory_t* memory, tenon_buffer_t** out_buffer);
  /* The handle of a buffer, valid until the buffer is freed; the caller sees what completed
   * work has written. kind: which handle is wanted. UNIMPLEMENTED with a reason for another one. */
  tenon_code_t (*export_memory)(void* self, tenon_device_t* device, tenon_buffer_t* buffer,
                                tenon_str_t kind, tenon_native_memory_t* out_memory);

  /* ---- Optional: all four or none, with tenon.queue/1 only ---- */
  /* The kinds of streams and of fences that the slots below know, each separated by commas, as
   * `kinds` gives those of memory. There may be no kind of fences. */
  tenon_code_t (*queue_kinds)(void* self, uint32_t ordinal, tenon_str_t* out_streams,
                              tenon_str_t* out_fences);
  /* Makes a queue of another library's stream, which outlives the queue. Work of the queue begins
   * after what the stream had before it was submitted. Work that its owner puts there later waits
   * for none of the queue's that the device still holds back: the owner waits for a fence.
   * queue_destroy waits for the work of this queue, and leaves the stream to its owner. The same
   * stream may be imported again. INVALID_ARGUMENT and UNIMPLEMENTED as for import_memory. Safe. */
  tenon_code_t (*import_queue)(void* self, tenon_device_t* device,
                               const tenon_native_handle_t* stream, tenon_queue_t** out_queue);
  /* The stream of a queue, valid until the queue is destroyed. What is put there runs in the
   * order of the stream, so it may overtake work that the device still holds back: without
   * ALL_THERE, wait first until that is done. kind: which handle is wanted; UNIMPLEMENTED with a
   * reason for another one. */
  tenon_code_t (*export_queue)(void* self, tenon_queue_t* queue, tenon_str_t kind,
                               tenon_native_handle_t* out_stream);
  /* Makes a fence of another library's, and gives the value that stands for the wanted point:
   * reached once the other one has, and failed if that fails. Of a kind that does not count, as
   * CUDA's events, the other one stands for what was recorded last, so that is done before. With
   * TO_SIGNAL, the other one reaches its point when this one does. It outlives the fence; after
   * fence_destroy nothing passes from one to the other. INVALID_ARGUMENT and UNIMPLEMENTED as
   * above, the first also for a fence that only its owner may signal. Safe. */
  tenon_code_t (*import_fence)(void* self, tenon_device_t* device,
                               const tenon_native_handle_t* native, tenon_fence_point_t* out_point);
} tenon_exchange_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
