/* Tenon ABI: what a graph takes for granted about its sizes (tenon.host.facts/1). The host checks
 * relations among sizes that inputs bring, and among those that a segment tells; a device that
 * learns sizes within a segment checks those itself before it relies on them.
 *
 * Users: plugins/cpu.
 */
#ifndef TENON_ABI_FACTS_H_
#define TENON_ABI_FACTS_H_

#include "tenon/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_FACTS_ID "tenon.host.facts/1"

typedef struct tenon_host_facts_t {
  uint32_t size_bytes;
  void* self;
  /* How many relations symbol_assert and inference have recorded; ranges of single symbols are in
   * their views. Safe on a frozen graph. */
  uint32_t (*count)(void* self, tenon_graph_t* graph);
  /* One of them: TENON_REL_*, and its two sides. OUT_OF_RANGE for an index that is none. Safe on a
   * frozen graph. */
  tenon_code_t (*fact)(void* self, tenon_graph_t* graph, uint32_t index, uint32_t* out_rel,
                       tenon_dim_t* out_a, tenon_dim_t* out_b);
} tenon_host_facts_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
