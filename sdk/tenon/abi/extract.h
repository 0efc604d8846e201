/* Tenon ABI: parts of a graph as graphs of their own (tenon.host.extract/1). The host cuts segments
 * for devices in the same way. A device uses it to split a graph itself: into the bodies of control
 * flow, and the nodes between.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_EXTRACT_H_
#define TENON_ABI_EXTRACT_H_

#include "tenon/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_EXTRACT_ID "tenon.host.extract/1"
#define TENON_HOST_EXTRACT_MINOR 0u

/* What to cut out. Borrowed for the call. */
typedef struct tenon_extract_spec_t {
  uint32_t size_bytes;
  uint32_t node_count, argument_count, yield_count;
  const tenon_node_t* nodes; /* of one region, in order; each with everything inside it */
  /* The first arguments of the part, used or not; others follow in order of first use. */
  const tenon_value_t* arguments;
  const tenon_value_t* yields; /* any values that are visible after the nodes */
  tenon_str_t name;
} tenon_extract_spec_t;

/* A part. Arrays and graph live until it is released; retain the graph to keep it for longer. */
typedef struct tenon_extracted_t {
  uint32_t size_bytes;
  uint32_t argument_count, symbol_count, reserved;
  tenon_graph_t* graph;           /* frozen; its yields are those of the spec */
  const tenon_value_t* arguments; /* of the original, one per argument */
  /* Of the original, one per symbol of the part's main region, in its order. */
  const tenon_symbol_t* symbols;
  void* storage; /* the host's */
} tenon_extracted_t;

typedef struct tenon_host_extract_t {
  uint32_t size_bytes;
  void* self;
  /* Cuts nodes out of a frozen graph. Values that they use from outside become arguments, constants
   * and locations are shared, and outside symbols become symbols of the part. UNIMPLEMENTED if a
   * token crosses the boundary. Safe. */
  tenon_code_t (*extract)(void* self, tenon_graph_t* graph, const tenon_extract_spec_t* spec,
                          tenon_extracted_t* out);
  /* Releases what extract filled; zeroes it except for size_bytes. */
  void (*release)(void* self, tenon_extracted_t* extracted);
} tenon_host_extract_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
