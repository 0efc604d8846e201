/* Tenon ABI: what plugins allocate for tensors on their own account (tenon.host.memory/1). Buffers
 * that the host asks a device for are counted by the host; a device counts what it keeps besides:
 * packed constants, values whose size only a run tells.
 *
 * Users: plugins/cpu.
 */
#ifndef TENON_ABI_MEMORY_H_
#define TENON_ABI_MEMORY_H_

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_MEMORY_ID "tenon.host.memory/1"

typedef struct tenon_host_memory_t {
  uint32_t size_bytes;
  void* self;
  /* Counts bytes that are about to be allocated. RESOURCE_EXHAUSTED, with a text that names `what`,
   * the bytes and the limit, when TENON_MEMORY_LIMIT does not allow them; else they are to be given
   * back. Safe. */
  tenon_code_t (*reserve)(void* self, uint64_t bytes, tenon_str_t what);
  void (*give_back)(void* self, uint64_t bytes); /* safe */
} tenon_host_memory_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
