/* Shared by the parts of a good device without queues: mutant.c has the query and what the library
 * does to its process, mutant_device.c devices and buffers, mutant_copy.c copies, mutant_kernels.c
 * or mutant_ops.c tenon.kernels/1. */
#ifndef MUTANT_H_
#define MUTANT_H_

#include <pthread.h>

#include "tenon/abi/exchange.h"
#include "tenon/abi/simple_device.h"
#include "tenon/abi/simple_kernels.h"

#define SLOT_COUNT 2

struct tenon_device_t {
  uint32_t ordinal, open_count;
  int is_open;
  pthread_t opener;
  uint64_t used_bytes, peak_bytes;
};
struct tenon_buffer_t {
  uint64_t size_bytes;
  unsigned char *data, *shadow;
  int owned;
};

extern const tenon_host_t* host;
extern tenon_device_t devices[SLOT_COUNT];
extern uint64_t live_count; /* of buffers */
extern int memory_was_asked, poisoned;
extern tenon_device_api_t device_api;
extern tenon_kernels_api_t kernels;
/* Kernels take addresses from buffers, whatever the device's map does. */
extern const tenon_device_api_t unmapped;
extern const tenon_exchange_api_t exchange;

int is(const char* name); /* whether this is the mutant of that name */
tenon_code_t fail(tenon_code_t code, const char* text);

/* What opening a device changes in the process. */
void change_process(void);
/* Whether a driver with a context for each thread has none here. */
int is_foreign(const tenon_device_t* device);
tenon_code_t copy(void* self, tenon_device_t* device, const tenon_copy_t* given);

/* Fill the tables. */
void make_device(void);
tenon_code_t make_kernels(void);

#endif
