/* Tenon ABI: compiling devices (tenon.compile/1). Three objects: a target is plain text and needs
 * no device; an artifact is bytes; an executable is loaded on an open device.
 *
 * The host partitions the graph by claims, extracts one subgraph per device, and passes it to the
 * device frozen. The arguments of the subgraph are the inputs, its yields the outputs, its
 * constants those of the original. Regions of a subgraph capture nothing from outside it.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_COMPILE_H_
#define TENON_ABI_COMPILE_H_

#include "tenon/abi/device.h"
#include "tenon/abi/graph.h"
#include "tenon/abi/queue.h"
#include "tenon/abi/record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_COMPILE_ID "tenon.compile/1"
#define TENON_COMPILE_MINOR 0u

typedef struct tenon_artifact_t tenon_artifact_t;     /* immutable; safe */
typedef struct tenon_executable_t tenon_executable_t; /* execute is reentrant */

/* These nodes together or not at all; cost_ns is the cost of all of them in one execution. */
#define TENON_CLAIM_ATOMIC 1u

/* Nodes that a device can compile. Borrowed for the call to the sink. */
typedef struct tenon_claim_t {
  uint32_t size_bytes;
  uint32_t flags; /* TENON_CLAIM_*; unknown ones break the rules */
  /* Nodes of the graph, each once. A node inside a region is claimed by itself and without flags:
   * it is not compiled alone, but passes keep it whole for the node around it. */
  const tenon_node_t* nodes;
  uint32_t node_count;
  uint32_t reserved;
  /* Estimate of one run, for the partitioner; symbolic dims: the hint, or 256 in the bounds. */
  double cost_ns;
} tenon_claim_t;

/* Receives claims and refusals during the call to claim. A sink that fails is not called again. */
typedef struct tenon_claim_sink_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  /* A node may be in several claims; the host chooses.
   *
   * Without TENON_CLAIM_ATOMIC every node of the claim must compile alone, and together with any
   * other nodes claimed so; the host may split the claim, and shares its cost equally.
   *
   * With it the host compiles all nodes of the claim as one graph, with no other node in it, or
   * none of them. No path may leave the nodes and come back; such a claim is not taken, and reports
   * say why. */
  tenon_code_t (*claim)(void* self, const tenon_claim_t* claim);
  /* Why a node is refused: UNIMPLEMENTED and a reason that names types ("conv with f16 operands").
   * A node in an atomic claim may be refused as well: the reason why it is not taken alone. The
   * slot is never null. Nodes that are neither claimed nor refused have no reason in reports. */
  tenon_code_t (*refuse)(void* self, tenon_node_t node, tenon_code_t code, tenon_str_t reason);
} tenon_claim_sink_t;

/* Claims one node by itself: what most devices claim. A helper. */
static inline tenon_code_t tenon_claim_node(const tenon_claim_sink_t* sink, tenon_node_t node,
                                            double cost_ns) {
  tenon_claim_t claim = {sizeof(tenon_claim_t), 0, 0, 1, 0, 0};
  claim.nodes = &node;
  claim.cost_ns = cost_ns;
  return sink->claim(sink->self, &claim);
}

typedef struct tenon_compile_options_t {
  uint32_t size_bytes;
  /* 1: the same bits for the same inputs in every run, whatever the number of threads, and on every
   * instruction set. */
  uint32_t deterministic;
  const tenon_key_value_t* options; /* of this device: "KIND.KEY" */
  uint32_t option_count;
  uint32_t reserved;
} tenon_compile_options_t;

/* A value. Concrete sizes of one call: values for the symbols of the subgraph's main region, in the
 * order of its region view. */
typedef struct tenon_symbols_t {
  const int64_t* values;
  uint32_t count;
} tenon_symbols_t;

#define TENON_NO_ALIAS 0xffffffffu

/* An output whose size has no useful bound: the call provides its buffer when the size is known. */
#define TENON_SIZE_UNKNOWN UINT64_MAX

typedef struct tenon_output_need_t {
  /* Bytes to allocate: exact unless a dim is data-dependent. Or TENON_SIZE_UNKNOWN; dims is then
   * meaningless. */
  uint64_t size_bytes_max;
  /* Caller's array of the output's rank: the dims; data-dependent ones at their upper bound. */
  int64_t* dims;
  /* The output may have this input's memory if the caller gives it up; or TENON_NO_ALIAS. It
   * depends on the symbols alone. The caller decides per call: its spans of both are then equal,
   * the buffer may be larger than the output, and no other operand overlaps it. Nothing may be
   * stored anywhere in the output before what it replaces has been read. If several outputs name
   * one input, one of them gets it. Without meaning for an output of TENON_SIZE_UNKNOWN. */
  uint32_t alias_input;
} tenon_output_need_t;

typedef struct tenon_needs_t {
  uint32_t size_bytes;
  uint32_t output_count; /* filled by the caller */
  uint32_t need_bytes;   /* of one record in `outputs`; filled by the caller */
  uint32_t reserved;
  tenon_output_need_t* outputs; /* caller's array: tenon_need */
  uint64_t workspace_bytes;     /* device memory for the time of one execute */
  uint64_t lower_bound_bytes;   /* most bytes live at once in the workspace: measures the plan */
} tenon_needs_t;

/* What output i needs. A helper. */
static inline tenon_output_need_t* tenon_need(const tenon_needs_t* needs, uint32_t i) {
  return (tenon_output_need_t*)tenon_record_in(needs->outputs, i, needs->need_bytes);
}

typedef struct tenon_span_t {
  tenon_buffer_t* buffer;
  uint64_t offset_bytes; /* a multiple of the device's alignment */
} tenon_span_t;

/* One timed part of an execution. Times are in ns of the host's CLOCK_MONOTONIC, so that events of
 * several devices share one time line; a device with its own clock converts. Borrowed for the call
 * of the sink. */
typedef struct tenon_profile_event_t {
  uint32_t size_bytes;
  uint32_t lane;
  tenon_str_t name, origins;
  uint64_t begin_ns, end_ns;
  double flops, bytes;
} tenon_profile_event_t;

/* Called when a timed part is done, on any thread, several at once. */
typedef struct tenon_profile_sink_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  void (*event)(void* self, const tenon_profile_event_t* event);
} tenon_profile_sink_t;

/* One execution. All tensors are contiguous row-major in device memory. Buffers, out_symbols and
 * profile are borrowed until the signal (without a queue: until execute returns). This record and
 * its other arrays (symbols, inputs, outputs, waits) are borrowed until execute returns; a device
 * that works on afterwards copies what it needs of them. */
typedef struct tenon_call_t {
  uint32_t size_bytes;
  uint32_t input_count, output_count;
  uint32_t span_bytes; /* of one record in `inputs` and in `outputs` */
  tenon_symbols_t symbols;
  const tenon_span_t* inputs; /* tenon_call_input, tenon_call_output */
  const tenon_span_t* outputs;
  tenon_buffer_t* workspace;       /* null when workspace_bytes is 0 */
  uint64_t workspace_offset_bytes; /* a multiple of the device's alignment */
  tenon_queue_t* queue; /* null: complete before returning; waits and signal are empty then */
  const tenon_fence_point_t* waits;
  uint32_t wait_count;
  uint32_t out_symbol_count;
  tenon_fence_point_t signal;
  /* Values of the symbols defined inside that outputs mention, in order of definition. Written
   * before execute returns; on a queue, before the signal. */
  int64_t* out_symbols;
  const tenon_profile_sink_t* profile; /* null: not requested */
  /* Provides the buffer of an output of TENON_SIZE_UNKNOWN, whose entry in `outputs` has a null
   * buffer. Called once per such output, at any time during execute. A call with such an output has
   * no queue; with a queue this slot is null. The host allocates in this function: on the calling
   * thread it may call alloc, map and free of this device, even of a serial one, so the device
   * must not hold any lock that these take. */
  void* output_self;
  tenon_code_t (*output)(void* self, uint32_t index, uint64_t size_bytes,
                         tenon_buffer_t** out_buffer, uint64_t* out_offset_bytes);
} tenon_call_t;

/* Where input or output i of a call is. Helpers. */
static inline const tenon_span_t* tenon_call_input(const tenon_call_t* call, uint32_t i) {
  return (const tenon_span_t*)tenon_record_at(call->inputs, i, call->span_bytes);
}
static inline const tenon_span_t* tenon_call_output(const tenon_call_t* call, uint32_t i) {
  return (const tenon_span_t*)tenon_record_at(call->outputs, i, call->span_bytes);
}

typedef struct tenon_artifact_info_t {
  uint32_t size_bytes;
  uint32_t kernels_compiled;   /* distinct kernels that compile built... */
  uint32_t kernels_from_cache; /* ...and found ready */
  uint32_t reserved;
  uint64_t code_bytes;
} tenon_artifact_info_t;

typedef struct tenon_executable_info_t {
  uint32_t size_bytes;
  uint32_t kernel_count;   /* launches of one execution */
  uint64_t constant_bytes; /* packed copies held by the device */
} tenon_executable_info_t;

/* Receives constants in the device's own form during the call to pack. */
typedef struct tenon_packed_sink_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  /* One blob. The bytes are copied or written before it returns. pack ends with any code other than
   * OK that this returns. */
  tenon_code_t (*blob)(void* self, const void* data, uint64_t size_bytes);
} tenon_packed_sink_t;

/* execute gives the same bits for the same inputs, whatever the number of threads, also without
 * tenon_compile_options_t::deterministic. */
#define TENON_COMPILE_SAME_BITS 1u
/* compile makes one call, of a vendor's compiler, that cannot be interrupted: it polls cancelled
 * right before and right after it, and elsewhere as others do. */
#define TENON_COMPILE_ONE_LONG_CALL 2u
/* compile needs no bytes of constants that are larger than TENON_COMPILE_EARLY_BYTES: for some of
 * them blob_data fails (T0695), because their values come at load, and may be others at the next
 * load of the same artifact. */
#define TENON_COMPILE_LATE_CONSTANTS 4u
#define TENON_COMPILE_EARLY_BYTES 4096u
/* compile takes graphs alone whose sizes are all constants, and refuses others with UNIMPLEMENTED.
 * The host makes such graphs, one for each tuple of sizes that runs, and keeps a bounded number of
 * their programs. It takes no claim of a node that mentions a size which only a run decides. */
#define TENON_COMPILE_STATIC 8u

typedef struct tenon_compile_properties_t {
  uint32_t size_bytes;
  uint32_t flags; /* TENON_COMPILE_* */
} tenon_compile_properties_t;

typedef struct tenon_compile_api_t {
  uint32_t size_bytes;
  void* self;

  /* Claims nodes of a frozen graph. Needs no open device, and none to be present. target:
   * tenon_device_info_t::target. options: those that compile will get, never null. Refuses an
   * option that it does not have, or a value of it, with INVALID_ARGUMENT and T0513, whatever the
   * graph is: compile may never be called. The same graph, target and options give the same claims.
   * Safe. */
  tenon_code_t (*claim)(void* self, tenon_str_t target, tenon_graph_t* graph,
                        const tenon_compile_options_t* options, const tenon_claim_sink_t* sink);
  /* Compiles a frozen subgraph: nodes that were claimed, or exactly the nodes of one atomic claim.
   * options: never null. Polls cancelled. Safe, several at once. */
  tenon_code_t (*compile)(void* self, tenon_str_t target, tenon_graph_t* graph,
                          const tenon_compile_options_t* options, tenon_artifact_t** out_artifact);
  void (*artifact_release)(void* self, tenon_artifact_t* artifact);
  tenon_code_t (*artifact_info)(void* self, tenon_artifact_t* artifact,
                                tenon_artifact_info_t* out_info);
  /* The portable bytes: code and plan, no constants. */
  tenon_code_t (*artifact_bytes)(void* self, tenon_artifact_t* artifact, const tenon_sink_t* sink);
  /* OK if the bytes run on this target with this plugin; else FAILED_PRECONDITION with the reason.
   * Checks the bytes as hostile. */
  tenon_code_t (*fits)(void* self, tenon_str_t target, const void* bytes, uint64_t size_bytes);
  /* Loads on an open device. constants: blobs of all values of kind TENON_VALUE_CONSTANT of the
   * compiled graph, whether read by a node, yielded or neither, in order of value index. The plugin
   * retains those it keeps, and may share packed forms by digest. */
  tenon_code_t (*load)(void* self, tenon_device_t* device, const void* bytes, uint64_t size_bytes,
                       tenon_blob_t* const* constants, uint32_t constant_count,
                       tenon_executable_t** out_executable);
  void (*executable_release)(void* self,
                             tenon_executable_t* executable); /* no execution in flight */
  tenon_code_t (*executable_info)(void* self, tenon_executable_t* executable,
                                  tenon_executable_info_t* out_info);
  /* Sizes for concrete symbols. Must be cheap: called before every execution with new sizes,
   * although the host caches results. Safe. */
  tenon_code_t (*needs)(void* self, tenon_executable_t* executable, tenon_symbols_t symbols,
                        tenon_needs_t* needs);
  /* Runs. Errors found later (on a queue) are reported through the signal. On error nothing of this
   * call is in flight and the signal is untouched. Safe, reentrant. */
  tenon_code_t (*execute)(void* self, tenon_executable_t* executable, const tenon_call_t* call);

  /* ---- Optional ---- */
  /* Generated text for people. what: "stages", "loops", "source", "plan" or "asm". NOT_FOUND for
   * others. "kernels": the launches for viewers, as one JSON object on each line; several lines are
   * parts that run one after another:
   *   {"buffers":[{"kind","bytes"}],
   *    "load_steps":[step],"steps":[{"kernel","name","nodes":[node],"buffers":[n],"written":[n]}]}
   * "nodes" are nodes of the graph that was compiled; "kernel" is the name in "source"; kinds are
   * input, output, constant, temp, persistent and inside (of one kernel); "bytes" is there where no
   * symbol decides it. */
  tenon_code_t (*dump)(void* self, tenon_artifact_t* artifact, tenon_str_t what,
                       const tenon_sink_t* sink);
  /* For programs in files: the constants as load_packed takes them, so that a program starts
   * without packing. bytes: an artifact for `target`; constants: as for load. Opens no device, may
   * use this machine's processor. UNIMPLEMENTED: not possible here for this target; the host then
   * stores the constants themselves, and load packs them. Both slots are there, or none. Polls
   * cancelled. Safe, several at once. */
  tenon_code_t (*pack)(void* self, tenon_str_t target, const void* bytes, uint64_t size_bytes,
                       tenon_blob_t* const* constants, uint32_t constant_count,
                       const tenon_packed_sink_t* sink);
  /* As load, with what pack gave for these bytes in place of the constants, in pack's order. Checks
   * the number and sizes of the blobs as hostile. Their bytes cannot be written; they begin at a
   * multiple of 4096 if there are as many, else at one of 64, and are often those of a mapped file:
   * the plugin retains the blobs and reads them in place where it can. */
  tenon_code_t (*load_packed)(void* self, tenon_device_t* device, const void* bytes,
                              uint64_t size_bytes, tenon_blob_t* const* packed,
                              uint32_t packed_count, tenon_executable_t** out_executable);
  /* What holds of everything that is compiled for a target. Null: no property. Needs no open
   * device. Safe. */
  tenon_code_t (*properties)(void* self, tenon_str_t target,
                             tenon_compile_properties_t* out_properties);
} tenon_compile_api_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
