/* Tenon ABI: kernel sets (tenon.kernels/1): single ops for some device, of the same plugin or
 * another. For devices that do not compile, the host makes plans of such kernels. It offers them as
 * candidates to devices that do (tenon.host.kernels/1).
 *
 * A call is an anchor op with an epilogue graph, operand types and layouts, never just an op. A
 * kernel set without epilogues refuses calls whose epilogue is not empty. simple_kernels.h makes
 * the table from {op, dtypes, function}.
 *
 * For a device that compiles, the host compares the sets of other plugins with the device's own
 * cost, node by node (docs/adr/0021-kernel-sets.md). simple_kernel_set.h makes the table for
 * devices whose memory the host can access.
 *
 * A plugin has one table, so it has kernels for one device kind; a vendor with kernels for two
 * kinds ships two plugins. A device's own set is used if its plugin has no tenon.compile/1.
 *
 * Users: plugins/null, samples/fast_sort and the templates of `tenon new` for tenon.kernels/1; none
 * yet for tenon.host.kernels/1. Both unstable.
 */
#ifndef TENON_ABI_KERNELS_H_
#define TENON_ABI_KERNELS_H_

#include "tenon/abi/device.h"
#include "tenon/abi/graph.h"
#include "tenon/abi/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_KERNELS_ID "tenon.kernels/1"
#define TENON_HOST_KERNELS_ID "tenon.host.kernels/1"

typedef struct tenon_kernel_t tenon_kernel_t;

#define TENON_LAYOUT_ROW_MAJOR 0u
#define TENON_LAYOUT_PACKED 1u /* the kernel's own layout, made by prepack */

typedef struct tenon_kernel_operand_t {
  tenon_type_t type; /* dtype TENON_DTYPE_NONE: an optional operand that is absent */
  uint32_t layout;
  uint32_t constant; /* 1: known at load, may be prepacked */
} tenon_kernel_operand_t;

typedef struct tenon_kernel_call_t {
  uint32_t size_bytes;
  tenon_node_t anchor;
  tenon_graph_t* graph; /* frozen; holds the anchor */
  /* Nodes after the anchor, in order; the result of the last one is the output. */
  const tenon_node_t* epilogue;
  uint32_t epilogue_count;
  uint32_t operand_count, result_count;
  uint32_t reserved;
  const tenon_kernel_operand_t* operands;
  const tenon_type_t* results;
} tenon_kernel_call_t;

typedef struct tenon_kernel_candidate_t {
  uint32_t size_bytes;
  uint32_t epilogue_taken; /* how many nodes of the epilogue it computes */
  uint32_t prepack_mask;   /* bit i: wants operand i PACKED */
  uint32_t part_count;     /* pieces that may run at once; at least 1 */
  double cost_ns;
  uint64_t workspace_bytes;
  tenon_str_t name;
} tenon_kernel_candidate_t;

typedef struct tenon_kernel_args_t {
  uint32_t size_bytes;
  uint32_t input_count, output_count;
  uint32_t part_index, part_count;
  uint32_t reserved;
  const tenon_buffer_t* const* inputs; /* null: an absent optional operand */
  tenon_buffer_t* const* outputs;
  const uint64_t* input_offsets_bytes;
  const uint64_t* output_offsets_bytes;
  const int64_t* const* input_dims; /* concrete */
  const int64_t* const* output_dims;
  /* At least the candidate's workspace_bytes, shared by the parts of a call; null if that is 0. */
  tenon_buffer_t* workspace;
  tenon_queue_t* queue; /* null in this version: a kernel is complete when run returns */
} tenon_kernel_args_t;

typedef struct tenon_kernels_api_t {
  uint32_t size_bytes;
  void* self;
  tenon_str_t device_kind; /* the kind of device whose buffers the kernels use */
  /* OK: the candidate is filled. UNIMPLEMENTED with a reason: refused. Safe. */
  tenon_code_t (*query)(void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                        tenon_kernel_candidate_t* out_candidate);
  tenon_code_t (*create)(void* self, tenon_device_t* device, const tenon_kernel_call_t* call,
                         tenon_kernel_t** out_kernel);
  void (*destroy)(void* self, tenon_kernel_t* kernel);
  /* Safe. */
  tenon_code_t (*run)(void* self, tenon_kernel_t* kernel, const tenon_kernel_args_t* args);
  /* ---- Optional ---- */
  tenon_code_t (*prepack)(void* self, tenon_kernel_t* kernel, uint32_t operand, const void* data,
                          uint64_t size_bytes, const tenon_sink_t* sink);
  tenon_code_t (*save)(void* self, tenon_kernel_t* kernel, const tenon_sink_t* sink);
  tenon_code_t (*restore)(void* self, tenon_device_t* device, const void* bytes,
                          uint64_t size_bytes, tenon_kernel_t** out_kernel);
} tenon_kernels_api_t;

/* tenon.host.kernels/1: candidates of all loaded kernel sets for one call on a device kind. */
typedef struct tenon_host_kernels_t {
  uint32_t size_bytes;
  void* self;
  /* Calls `visit` for every set for that device kind, best cost first. `api` lives as long as the
   * process. */
  tenon_code_t (*candidates)(void* self, tenon_str_t device_kind, tenon_str_t target,
                             const tenon_kernel_call_t* call, void* context,
                             void (*visit)(void* context, const tenon_kernels_api_t* api,
                                           const tenon_kernel_candidate_t* candidate,
                                           tenon_code_t code, tenon_str_t reason));
} tenon_host_kernels_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
