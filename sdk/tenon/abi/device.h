/* Tenon ABI: devices and their memory (tenon.device/1). A device is complete with this and either
 * tenon.kernels/1 or tenon.compile/1: the host places what it refuses on another device, and
 * inserts copies.
 *
 *
 * Stability: unstable.
 */
#ifndef TENON_ABI_DEVICE_H_
#define TENON_ABI_DEVICE_H_

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_DEVICE_ID "tenon.device/1"
#define TENON_DEVICE_MINOR 1u /* 1: free_behind */

typedef struct tenon_device_t tenon_device_t; /* an open device; the plugin's own record */
typedef struct tenon_buffer_t tenon_buffer_t; /* device memory; the plugin's own record */
struct tenon_fence_point_t;                   /* queue.h */

/* How many calls the host may make at once to one open device. */
#define TENON_THREADING_SERIAL 0u /* the host serialises all calls */
#define TENON_THREADING_PER_QUEUE                                                                \
  1u /* one thread at a time per queue, not always the same; everything without a queue from any \
        thread */
#define TENON_THREADING_FREE 2u /* everything from any thread */

/* native_ordinal is one. */
#define TENON_DEVICE_NUMBERED 1u

/* Borrowed; lives as long as the process. */
typedef struct tenon_device_info_t {
  uint32_t size_bytes;
  uint32_t threading;
  tenon_str_t kind;        /* "cpu", "sim": the NAME of --device NAME[:N] */
  tenon_str_t description; /* for people: "AMD EPYC, 2 cores, avx512" */
  /* Plain text that names what code must be compiled for: "cpu isa=avx512". compile and claim get
   * it without an open device. */
  tenon_str_t target;
  uint64_t memory_bytes;            /* 0: unknown */
  uint64_t alignment_bytes;         /* of every allocation; a power of two */
  double copy_gigabytes_per_second; /* to and from the host; 0: shares the host's memory */
  double copy_latency_ns;
  /* The device's own name, the same in every process and after a restart, where the vendor gives
   * one: 32 hexadecimal digits as "00112233-4455-6677-8899-aabbccddeeff". Else empty. */
  tenon_str_t uuid;
  uint32_t flags; /* TENON_DEVICE_* */
  /* The vendor's number of it in this process, which its libraries and DLPack use. Other than the
   * ordinal here where the plugin has no use for one of the vendor's devices. */
  uint32_t native_ordinal;
} tenon_device_info_t;

#define TENON_COPY_HOST_TO_DEVICE 1u
#define TENON_COPY_DEVICE_TO_HOST 2u
#define TENON_COPY_DEVICE_TO_DEVICE 3u /* ranges of one buffer may not overlap */
#define TENON_COPY_FILL 4u /* pattern of 1, 2, 4 or 8 bytes repeated; size a multiple of it */

typedef struct tenon_copy_t {
  uint32_t size_bytes;
  uint32_t direction;
  tenon_buffer_t* from; /* device side source; null for HOST_TO_DEVICE and FILL */
  tenon_buffer_t* to;   /* device side target; null for DEVICE_TO_HOST */
  uint64_t from_offset_bytes, to_offset_bytes, length_bytes;
  const void* host_from; /* HOST_TO_DEVICE */
  void* host_to;         /* DEVICE_TO_HOST */
  uint64_t pattern;      /* FILL; little endian, lowest pattern_bytes used */
  uint32_t pattern_bytes;
  uint32_t reserved;
  /* DEVICE_TO_DEVICE on a queue that reaches another device of the plugin (tenon.queue/1): the open
   * device that `from` is of. Null, and in every other copy: that of `to`. */
  tenon_device_t* from_device;
} tenon_copy_t;

/* The device may write to the memory. Without it the memory may be read-only, and is never written.
 */
#define TENON_IMPORT_WRITE 1u

/* Host memory for the device to use where it is. It may begin at any address. */
typedef struct tenon_memory_import_t {
  uint32_t size_bytes;
  uint32_t flags; /* TENON_IMPORT_* */
  void* data;
  uint64_t length_bytes;
} tenon_memory_import_t;

typedef struct tenon_device_api_t {
  uint32_t size_bytes;
  void* self;

  /* ---- Required ---- */
  tenon_code_t (*count)(void* self, uint32_t* out_count); /* safe; cheap; may be 0 */
  tenon_code_t (*info)(void* self, uint32_t ordinal, tenon_device_info_t* out_info); /* safe */
  /* The host opens an ordinal once per process and shares it. UNAVAILABLE with a reason if it
   * cannot be used. */
  tenon_code_t (*open)(void* self, uint32_t ordinal, tenon_device_t** out_device);
  /* Everything that was created on it has been released. */
  tenon_code_t (*close)(void* self, tenon_device_t* device);
  /* size 0 also gives a buffer. RESOURCE_EXHAUSTED if memory is short. Contents are undefined. A
   * buffer is of the device, of no queue: it outlives queues, fences and executables, work on
   * several queues may read it at once, and any thread may free it. */
  tenon_code_t (*alloc)(void* self, tenon_device_t* device, uint64_t size_bytes,
                        tenon_buffer_t** out_buffer);
  /* No submitted work refers to the buffer any more. As in every slot that releases something
   * (close, queue_destroy, fence_destroy), the object is gone whatever the code; a failure is
   * reported and not retried. */
  tenon_code_t (*free)(void* self, tenon_device_t* device, tenon_buffer_t* buffer);
  /* Complete on return. It is ordered after nothing: the caller has waited for work that writes
   * what it reads, and for work that uses what it writes. OUT_OF_RANGE beyond a buffer's end. */
  tenon_code_t (*copy)(void* self, tenon_device_t* device, const tenon_copy_t* copy);

  /* ---- Optional ---- */
  /* The buffer's address for the host, valid until the buffer is freed; coherent after a fence wait
   * or a synchronous return. UNIMPLEMENTED: the host cannot access this buffer. Null
   * slot: it cannot access any buffer. */
  tenon_code_t (*map)(void* self, tenon_device_t* device, tenon_buffer_t* buffer, void** out_data);
  /* Wraps host memory that outlives the buffer, perhaps by far, without a copy; the same memory may
   * be imported again, also by other devices; free does not free that memory. map gives its
   * address. Refuse what is not suitable: on UNIMPLEMENTED, or any error but DEVICE_LOST, the host
   * copies instead. With TENON_IMPORT_WRITE, what work and copies write is in that memory when map
   * would show it. Null slot: the host always copies. */
  tenon_code_t (*import)(void* self, tenon_device_t* device, const tenon_memory_import_t* import,
                         tenon_buffer_t** out_buffer);
  /* Bytes in use, and the peak so far. The host reports the first where memory is short. */
  tenon_code_t (*memory)(void* self, tenon_device_t* device, uint64_t* out_used_bytes,
                         uint64_t* out_peak_bytes);
  /* Host memory that the device reads and writes without the host's help, so that copies between
   * the two overlap with other work: aligned as alloc's, and of any contents. size 0 also gives an
   * address. RESOURCE_EXHAUSTED if there is no more of it: the host then uses other memory. Null
   * slot: there is none. */
  tenon_code_t (*alloc_pinned)(void* self, tenon_device_t* device, uint64_t size_bytes,
                               void** out_data);
  /* Not null if alloc_pinned is not. No submitted copy names the memory any more. */
  tenon_code_t (*free_pinned)(void* self, tenon_device_t* device, void* data);
  /* As free, for a buffer that work may still refer to: that of another library, which got the
   * buffer's handle (exchange.h) and has let go of it, while its work is on a stream. The memory is
   * used for nothing else before each of the points was reached, or failed. Returns at once. The
   * fences stay until then, and the device is closed after that. With tenon.queue/1 only. Null
   * slot: the host waits for the points, and calls free. */
  tenon_code_t (*free_behind)(void* self, tenon_device_t* device, tenon_buffer_t* buffer,
                              const struct tenon_fence_point_t* points, uint32_t point_count);
} tenon_device_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
