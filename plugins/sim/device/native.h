/* sim.native/1: what the runtime of a vendor would offer besides Tenon: streams, fences and memory
 * by their native handles, for tests and for kernels of other plugins. Handles are those of
 * tenon.exchange/1: "sim.queue", "sim.fence" (with a value), "sim.handle". Query it with
 * tenon_host_registry_t::plugin_interface("device", "sim", SIM_NATIVE_ID).
 *
 * Every slot is safe, fails with a reason for handles that are none, and needs an open device.
 */
#ifndef TENON_PLUGINS_SIM_NATIVE_H_
#define TENON_PLUGINS_SIM_NATIVE_H_

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_NATIVE_ID "sim.native/1"

typedef struct tenon_sim_native_t {
  uint32_t size_bytes;
  void* self;
  tenon_code_t (*stream_create)(void* self, uint32_t ordinal, uint64_t* out_stream);
  tenon_code_t (*stream_destroy)(void* self, uint64_t stream); /* waits for its work */
  /* Runs `work` on the stream's thread, once the fence has the value; fence 0: none. It is left out
   * if the fence fails. The device's memory can be accessed from it. */
  tenon_code_t (*stream_submit)(void* self, uint64_t stream, uint64_t fence, uint64_t value,
                                void (*work)(void* context), void* context);
  tenon_code_t (*fence_create)(void* self, uint32_t ordinal, uint64_t* out_fence); /* at 0 */
  tenon_code_t (*fence_destroy)(void* self, uint64_t fence);
  tenon_code_t (*fence_signal)(void* self, uint64_t fence, uint64_t value);
  tenon_code_t (*fence_fail)(void* self, uint64_t fence, uint64_t value);
  tenon_code_t (*fence_wait)(void* self, uint64_t fence, uint64_t value, uint64_t timeout_ns);
  /* The address of memory, for `work` alone. */
  tenon_code_t (*address)(void* self, uint64_t memory, void** out);
} tenon_sim_native_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
