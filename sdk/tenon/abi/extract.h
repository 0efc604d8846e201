/* Tenon ABI: parts of a graph as graphs of their own (tenon.host.extract/1). The host cuts segments
 * for devices in the same way; a device uses it for what it takes apart itself: the bodies of
 * control flow, and what stands between such nodes.
 *
 * Users: plugins/cpu.
 */
#ifndef TENON_ABI_EXTRACT_H_
#define TENON_ABI_EXTRACT_H_

#include "tenon/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_EXTRACT_ID "tenon.host.extract/1"

/* What is cut out. Borrowed for the call. */
typedef struct tenon_extract_spec_t {
  uint32_t size_bytes;
  uint32_t node_count, argument_count, yield_count;
  const tenon_node_t* nodes; /* of one region, in order; whole, with all that stands inside */
  const tenon_value_t*
      arguments; /* the first arguments of the part, used or not; others follow as they are met */
  const tenon_value_t* yields; /* any values that are visible behind the nodes */
  tenon_str_t name;
} tenon_extract_spec_t;

/* A part. Arrays and graph live until it is released; retain the graph to keep it for longer. */
typedef struct tenon_extracted_t {
  uint32_t size_bytes;
  uint32_t argument_count, symbol_count, reserved;
  tenon_graph_t* graph;           /* frozen; its yields are those of the spec */
  const tenon_value_t* arguments; /* of the original, one per argument */
  const tenon_symbol_t*
      symbols;   /* of the original, one per symbol of the part's main region, in its order */
  void* storage; /* the host's */
} tenon_extracted_t;

typedef struct tenon_host_extract_t {
  uint32_t size_bytes;
  void* self;
  /* Cuts nodes out of a frozen graph. What they use from outside becomes arguments, constants and
   * locations are shared, symbols of outside become symbols of the part. UNIMPLEMENTED for a token
   * that crosses the boundary. Safe. */
  tenon_code_t (*extract)(void* self, tenon_graph_t* graph, const tenon_extract_spec_t* spec,
                          tenon_extracted_t* out);
  void (*release)(
      void* self,
      tenon_extracted_t* extracted); /* of what extract filled; zeroes it but for size_bytes */
} tenon_host_extract_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
