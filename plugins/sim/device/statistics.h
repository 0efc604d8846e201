/* sim.statistics/1: current objects and past commands of the simulated devices, for tests. An
 * interface of sim's own; query it with tenon_host_registry_t::plugin_interface("device", "sim",
 * SIM_STATISTICS_ID).
 */
#ifndef TENON_PLUGINS_SIM_STATISTICS_H_
#define TENON_PLUGINS_SIM_STATISTICS_H_

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_STATISTICS_ID "sim.statistics/1"

typedef struct tenon_sim_counts_t {
  uint64_t buffers, bytes, queues, fences; /* now; without the device's own queue */
  uint64_t copies, launches;               /* started since it was opened */
  uint64_t pinned;                         /* blocks of pinned memory, now */
  uint64_t pinned_copies;                  /* of `copies`: to or from pinned memory */
} tenon_sim_counts_t;

typedef struct tenon_sim_statistics_t {
  uint32_t size_bytes;
  void* self;
  /* Sums over all open devices of this ordinal. Threads: safe. */
  void (*read)(void* self, uint32_t ordinal, tenon_sim_counts_t* out);
  /* The largest number of commands, over all devices, that ran at the same time since the last
   * call. Threads: safe. */
  uint64_t (*at_once)(void* self);
  /* Nanoseconds since the last call in which commands of more than one device ran. Threads: safe.
   */
  uint64_t (*overlap_ns)(void* self);
} tenon_sim_statistics_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
