/* Tenon ABI: accounting of tensor memory that plugins allocate themselves (tenon.host.memory/1).
 * The host counts the buffers that it requests; a device counts its other memory: packed constants,
 * values whose size is known only in a run.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_MEMORY_H_
#define TENON_ABI_MEMORY_H_

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_MEMORY_ID "tenon.host.memory/1"
#define TENON_HOST_MEMORY_MINOR 0u

typedef struct tenon_host_memory_t {
  uint32_t size_bytes;
  void* self;
  /* Counts bytes that are about to be allocated; the plugin gives them back later. If
   * TENON_MEMORY_LIMIT does not allow them, RESOURCE_EXHAUSTED with a text that names `what`, the
   * bytes and the limit; they are then not counted. Safe. */
  tenon_code_t (*reserve)(void* self, uint64_t bytes, tenon_str_t what);
  void (*give_back)(void* self, uint64_t bytes); /* safe */
} tenon_host_memory_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
