/* Tenon ABI: memory of other libraries (tenon.exchange/1). A device with it turns native handles
 * into buffers and back, so that tensors of a framework go into programs, and results into a
 * framework, without the host's memory in between.
 *
 * A handle is a number with a kind in words, KIND.WHAT, which the device documents:
 * "opencl.mem" (cl_mem), "cuda.pointer" (CUdeviceptr), "sim.handle".
 *
 * Users: plugins/sim, samples/opencl. Unstable until the second edition is closed.
 */
#ifndef TENON_ABI_EXCHANGE_H_
#define TENON_ABI_EXCHANGE_H_

#include "tenon/abi/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_EXCHANGE_ID "tenon.exchange/1"

typedef struct tenon_native_memory_t {
  uint32_t size_bytes;
  uint32_t reserved;
  tenon_str_t kind;      /* "opencl.mem"; given out: borrowed, lives as long as the process */
  uint64_t handle;       /* the pointer or the number, as an integer */
  uint64_t offset_bytes; /* of the elements, from where the handle points */
  uint64_t length_bytes; /* of the elements */
} tenon_native_memory_t;

typedef struct tenon_exchange_api_t {
  uint32_t size_bytes;
  void* self;
  /* The kinds of handles that both slots below know, separated by commas: "opencl.mem". Lives as
   * long as the process. Safe. */
  tenon_code_t (*kinds)(void* self, tenon_device_t* device, tenon_str_t* out_kinds);
  /* Makes a buffer of length_bytes of somebody else's memory. That memory outlives the buffer, and
   * all work that writes it is done. The buffer begins at offset_bytes. It is read, and written
   * only where the host lets work write to it. free does not free that memory.
   * INVALID_ARGUMENT with a reason for a handle that is not one, or of another context or device;
   * OUT_OF_RANGE beyond its end; UNIMPLEMENTED with a reason for an unknown kind, or for memory
   * that must be copied. Safe as alloc is. */
  tenon_code_t (*import_memory)(void* self, tenon_device_t* device,
                                const tenon_native_memory_t* memory, tenon_buffer_t** out_buffer);
  /* The handle behind a buffer, valid until the buffer is freed; the caller sees what completed
   * work has written. kind: which handle is wanted. UNIMPLEMENTED with a reason for another one. */
  tenon_code_t (*export_memory)(void* self, tenon_device_t* device, tenon_buffer_t* buffer,
                                tenon_str_t kind, tenon_native_memory_t* out_memory);
} tenon_exchange_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
