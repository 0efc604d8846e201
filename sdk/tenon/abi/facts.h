/* Tenon ABI: what a graph assumes about its sizes (tenon.host.facts/1). The host checks relations
 * among the sizes of inputs, and among sizes that a segment reports. A device that learns sizes
 * within a segment checks the relations among those before it relies on them.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_FACTS_H_
#define TENON_ABI_FACTS_H_

#include "tenon/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_FACTS_ID "tenon.host.facts/1"
#define TENON_HOST_FACTS_MINOR 0u

typedef struct tenon_host_facts_t {
  uint32_t size_bytes;
  void* self;
  /* The number of relations that symbol_assert and inference have recorded. Ranges of single
   * symbols are in their views instead. Safe on a frozen graph. */
  uint32_t (*count)(void* self, tenon_graph_t* graph);
  /* One relation: TENON_REL_* and its two sides. OUT_OF_RANGE for an invalid index. Safe on a
   * frozen graph. */
  tenon_code_t (*fact)(void* self, tenon_graph_t* graph, uint32_t index, uint32_t* out_rel,
                       tenon_dim_t* out_a, tenon_dim_t* out_b);
  /* The location that needs a relation; 0 if it is not known, or the index is invalid. Safe on a
   * frozen graph. */
  tenon_loc_t (*place)(void* self, tenon_graph_t* graph, uint32_t index);
} tenon_host_facts_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
