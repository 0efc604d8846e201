/* Tenon ABI: the form of a graph as a key (tenon.host.form/1), for code that depends on a graph but
 * not on the values of its large constants. With a warm cache a start then finds its code without
 * reading weights.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_FORM_H_
#define TENON_ABI_FORM_H_

#include "tenon/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_FORM_ID "tenon.host.form/1"
#define TENON_HOST_FORM_MINOR 0u

typedef struct tenon_host_form_t {
  uint32_t size_bytes;
  void* self;
  /* Like graph_hash of tenon.host.graph/1, except for constants with more than max_constant_bytes
   * whose elements are not all equal: only their type and place among the graph's constants count,
   * and their bytes are not read. Safe on a frozen graph. */
  tenon_code_t (*hash)(void* self, tenon_graph_t* graph, uint64_t max_constant_bytes,
                       uint64_t out_hash[2]);
} tenon_host_form_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
