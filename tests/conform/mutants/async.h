/* Shared by the parts of the asynchronous mutant: async.c has queues and the query,
 * async_fences.c fences, async_memory.c devices and buffers, async_exchange.c native handles,
 * async_compile.h tenon.compile/1; with KERNELS, async_kernels.c tenon.kernels/1 in its place. */
#ifndef ASYNC_H_
#define ASYNC_H_

#include <pthread.h>
#include <time.h>

#include "tenon/abi/compile.h"
#include "tenon/abi/exchange.h"
#include "tenon/abi/host.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/simple_device.h"

#define DEVICE_COUNT 2
#define ALIGNMENT 64
#define MAX_POINTS 64

struct tenon_device_t {
  uint32_t ordinal;
  pthread_mutex_t mutex;
  tenon_queue_t* queues;
  tenon_code_t reported; /* failed_copy_reported_twice */
  uint64_t used_bytes, peak_bytes;
};
struct tenon_buffer_t {
  uint64_t size_bytes;
  unsigned char *data, *shadow;
  int imported; /* the data belong to another owner */
};

extern const tenon_host_t* host;
extern const tenon_device_api_t device_api;
extern const tenon_queue_api_t queue_api;
extern tenon_compile_api_t compile_api;
extern tenon_kernels_api_t kernels_api;
extern const tenon_exchange_api_t exchange_api;

int is(const char* name); /* whether this is the mutant of that name */
tenon_code_t fail(tenon_code_t code, const char* text);

tenon_device_t* device_at(uint32_t ordinal);
int device_was_opened(void);

struct tenon_fence_t {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  uint64_t value, initial, failed_at, seen;
  tenon_code_t code;
  int waiting;
  struct timespec waited_until;
  char ballast[1000]; /* makes a leak of fences visible */
};

/* Both under the fence's lock. */
int reached(const tenon_fence_t* fence, uint64_t value);
tenon_code_t result_of(const tenon_fence_t* fence, uint64_t value);
tenon_code_t fence_create(void* self, tenon_device_t* device, uint64_t initial,
                          tenon_fence_t** out);
tenon_code_t fence_destroy(void* self, tenon_fence_t* fence);
tenon_code_t fence_query(void* self, tenon_fence_t* fence, uint64_t* out);
tenon_code_t fence_signal(void* self, tenon_fence_t* fence, uint64_t value);
tenon_code_t fence_wait(void* self, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns);
void fence_set(const tenon_fence_point_t* point);
void fence_fail(const tenon_fence_point_t* point, tenon_code_t code);
/* A queue of a given stream, and the stream of a queue. The stream is a queue too. */
tenon_queue_t* queue_import(tenon_queue_t* stream);
tenon_queue_t* queue_stream(tenon_queue_t* queue);
void drain_for_copy(tenon_device_t* device);

/* The first checks what is wrong with a copy for any buffers; the second performs it and checks its
 * ranges. Both record a reason. */
tenon_code_t memory_check_kind(const tenon_copy_t* copy);
tenon_code_t memory_copy(const tenon_copy_t* copy);

/* Runs `run` on the queue's thread after the points are reached. `job` is freed there. */
tenon_code_t queue_submit(tenon_queue_t* queue, const tenon_fence_point_t* points, uint32_t count,
                          tenon_fence_point_t signal, tenon_code_t (*run)(void* job), void* job);

tenon_code_t compile_start(void);
tenon_code_t kernels_start(void);

#endif
