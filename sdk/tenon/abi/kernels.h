/* Tenon ABI: kernel sets (tenon.kernels/1): single ops, with what directly follows them, for a kind
 * of device of the same plugin or of another. A device that has no tenon.compile/1 consists of its
 * set. For other devices the host compares the sets of other plugins with the device's own cost
 * (docs/adr/0036-kernels-with-epilogues.md).
 *
 * A call is an anchor op with an epilogue, operand types and constants, never just an op. The host
 * asks about each node alone, and again with the chain after it. simple_kernels.h makes the table
 * from {op, element types, function}.
 *
 * A plugin has one table, so it has kernels for one device kind; a vendor with kernels for two
 * kinds ships two plugins.
 *
 *
 * Stability: unstable.
 */
#ifndef TENON_ABI_KERNELS_H_
#define TENON_ABI_KERNELS_H_

#include "tenon/abi/device.h"
#include "tenon/abi/exchange.h"
#include "tenon/abi/graph.h"
#include "tenon/abi/queue.h"
#include "tenon/abi/record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_KERNELS_ID "tenon.kernels/1"
#define TENON_KERNELS_MINOR 0u

typedef struct tenon_kernel_t tenon_kernel_t;

#define TENON_KERNEL_OPERAND_CONSTANT 1u /* its value is known at load, and may be packed */

/* Dense and row-major, unless it is packed. */
typedef struct tenon_kernel_operand_t {
  tenon_type_t type; /* dtype TENON_DTYPE_NONE: an optional operand that is absent */
  uint32_t reserved;
  uint32_t flags; /* TENON_KERNEL_OPERAND_* */
} tenon_kernel_operand_t;

/* The same bits for the same inputs in every run, whatever the number of threads, and on every
 * instruction set. A kernel that cannot promise this refuses. */
#define TENON_KERNEL_CALL_DETERMINISTIC 1u

typedef struct tenon_kernel_call_t {
  uint32_t size_bytes;
  tenon_node_t anchor;
  tenon_graph_t* graph; /* frozen; holds the anchor */
  /* Nodes after the anchor, in order. Each has one result. It is read by one later node of the
   * call and by nothing else; that of the last is the output. A node reads results of the call, or
   * only arguments and constants of the graph: then a later node of the epilogue reads it. */
  const tenon_node_t* epilogue;
  uint32_t epilogue_count;
  uint32_t operand_count, result_count;
  uint32_t flags; /* TENON_KERNEL_CALL_* */
  /* The operands of the anchor; then, node by node of the epilogue, those that no node of the call
   * makes. A value that is read twice is there twice. Walked in steps of operand_bytes:
   * tenon_kernel_operand. */
  const tenon_kernel_operand_t* operands;
  /* Of the last node of the epilogue; without one, of the anchor. */
  const tenon_type_t* results;
  uint32_t operand_bytes; /* of one record in `operands` */
  uint32_t reserved;
} tenon_kernel_call_t;

/* Operand i of a call. A helper. */
static inline const tenon_kernel_operand_t* tenon_kernel_operand(const tenon_kernel_call_t* call,
                                                                 uint32_t i) {
  return (const tenon_kernel_operand_t*)tenon_record_at(call->operands, i, call->operand_bytes);
}

typedef struct tenon_kernel_candidate_t {
  uint32_t size_bytes;
  /* How many nodes of the epilogue it computes, from the front. If they are not all, the host
   * leaves out those at the end that only feed a later node, and asks again with the rest alone,
   * which must then be taken. */
  uint32_t epilogue_taken;
  uint32_t prepack_mask;    /* bit i: operand i, a constant, goes through prepack */
  uint32_t part_count;      /* pieces that may run at once; at least 1 */
  double cost_ns;           /* of the anchor and the taken nodes, all parts, in one run */
  uint64_t workspace_bytes; /* for any dims */
  tenon_str_t name;         /* borrowed until the process ends */
} tenon_kernel_candidate_t;

typedef struct tenon_kernel_args_t {
  uint32_t size_bytes;
  uint32_t input_count, output_count;
  uint32_t part_index, part_count;
  uint32_t wait_count;
  /* As the operands of the call. Null: an absent optional operand. One that was packed is what
   * prepack wrote. */
  const tenon_buffer_t* const* inputs;
  tenon_buffer_t* const* outputs;
  const uint64_t* input_offsets_bytes;
  const uint64_t* output_offsets_bytes;
  const int64_t* const* input_dims; /* concrete; of a packed operand, those of its type */
  const int64_t* const* output_dims;
  /* The candidate's workspace_bytes from workspace_offset_bytes on, a multiple of the device's
   * alignment, for this run and shared by its parts; null if that is 0. */
  tenon_buffer_t* workspace;
  /* Null unless the set is ON_QUEUE and the device has queues: complete when run returns. Else run
   * submits, after the waits, and the signal follows what was submitted before on this queue and
   * this kernel. This record and its arrays are borrowed until run returns, the buffers until the
   * work is done. */
  tenon_queue_t* queue;
  uint64_t workspace_offset_bytes;
  const tenon_fence_point_t* waits;
  tenon_fence_point_t signal; /* fence null: nothing to signal */
  /* Of a set with a queue_kind, in place of queue, waits and signal: the native stream to which run
   * submits, null where queue would be. What the work waits for is done, or before it in the
   * stream. Borrowed until run returns. */
  const tenon_native_handle_t* native_queue;
} tenon_kernel_args_t;

/* `run` submits to args->queue where that is not null. */
#define TENON_KERNELS_ON_QUEUE 1u

typedef struct tenon_kernels_api_t {
  uint32_t size_bytes;
  uint32_t flags; /* TENON_KERNELS_* */
  void* self;
  tenon_str_t device_kind; /* the kind of device whose buffers the kernels use */
  /* Of an ON_QUEUE set for the device of another plugin: the kind of streams that run takes,
   * "cuda.stream", as that device exports them. Empty: run takes the device's own queue. The host
   * leaves out such a set where the device exports none. */
  tenon_str_t queue_kind;
  /* OK: the candidate is filled. UNIMPLEMENTED with a reason: refused. Needs no open device, and
   * none to be present. The same call gives the same answer. Safe. */
  tenon_code_t (*query)(void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                        tenon_kernel_candidate_t* out_candidate);
  /* For a call that query took whole. The call is borrowed until it returns. Safe. */
  tenon_code_t (*create)(void* self, tenon_device_t* device, const tenon_kernel_call_t* call,
                         tenon_kernel_t** out_kernel);
  /* No run is in flight. */
  void (*destroy)(void* self, tenon_kernel_t* kernel);
  /* One part. On error nothing of this call of run is in flight, and the signal is untouched.
   * Safe, also for one kernel at once. */
  tenon_code_t (*run)(void* self, tenon_kernel_t* kernel, const tenon_kernel_args_t* args);
  /* ---- Optional ---- */
  /* Writes the packed form of a constant to the sink, which may be called several times. Once for
   * each operand in the candidate's prepack_mask, between create or restore and the first run.
   * data: host memory, dense. Required of a set whose candidates have a prepack_mask. */
  tenon_code_t (*prepack)(void* self, tenon_kernel_t* kernel, uint32_t operand, const void* data,
                          uint64_t size_bytes, const tenon_sink_t* sink);
  /* The bytes from which restore makes the kernel again, without the packed constants. For kernels
   * that are slow to create: the host keeps the bytes in its cache, for the same call, target and
   * version of the plugin. UNIMPLEMENTED: this kernel is created each time. Both slots are there,
   * or none. */
  tenon_code_t (*save)(void* self, tenon_kernel_t* kernel, const tenon_sink_t* sink);
  /* Checks the bytes as hostile. After any error the host calls create. */
  tenon_code_t (*restore)(void* self, tenon_device_t* device, const void* bytes,
                          uint64_t size_bytes, tenon_kernel_t** out_kernel);
} tenon_kernels_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
