/* Tenon ABI: a tenon.kernels/1 from a table of {op, element types, function}. A helper, not an
 * interface, compiled into the plugin: for devices that run dense single ops one at a time, with
 * host-side functions that launch them.
 *
 *     static const tenon_simple_kernel_t kernels[] = {{"add", 1u << TENON_F32, add_f32}};
 *     static tenon_kernels_api_t api;
 *     tenon_simple_kernels(host, "null", kernels, 1, &api);  // in the query
 *
 * It takes a call if its op is in the table, its epilogue is empty, and all its tensors have the
 * listed element types. Other calls are refused with a reason. Include it in one file of the
 * plugin.
 */
#ifndef TENON_ABI_SIMPLE_KERNELS_H_
#define TENON_ABI_SIMPLE_KERNELS_H_

#include <stdlib.h>
#include <string.h>

#include "tenon/abi/kernels.h"
#include "tenon/abi/plugin.h"
#include "tenon/abi/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs one call. output_elements: of output 0, the product of args->output_dims[0]. Complete on
 * return. Safe. */
typedef tenon_code_t (*tenon_simple_kernel_fn_t)(const tenon_kernel_args_t* args,
                                                 uint64_t output_elements);

typedef struct tenon_simple_kernel_t {
  const char* op;
  /* Bit (1 << dtype) for each accepted element type, of all operands and results; bit 0: operands
   * may be absent. */
  uint32_t dtypes;
  tenon_simple_kernel_fn_t run;
} tenon_simple_kernel_t;

/* The types behind `self` of the table and a tenon_kernel_t. */
typedef struct tenon_simple_set_t {
  const tenon_host_t* host;
  const tenon_host_graph_t* graph;
  const tenon_simple_kernel_t* kernels;
  uint32_t count;
} tenon_simple_set_t;
typedef struct tenon_simple_instance_t {
  tenon_simple_kernel_fn_t run;
  uint32_t output_rank;
} tenon_simple_instance_t;

static inline tenon_code_t tenon_simple_fail(const tenon_simple_set_t* set, tenon_code_t code,
                                             const char* text) {
  tenon_str_t message;
  message.data = text;
  message.size = strlen(text);
  return set->host->fail(set->host->self, code, message, 0, 0);
}

static inline const tenon_simple_kernel_t* tenon_simple_find(const tenon_simple_set_t* set,
                                                             const tenon_kernel_call_t* call,
                                                             tenon_code_t* out_code) {
  tenon_node_view_t node;
  tenon_str_t op;
  uint32_t i, j, types = 0;
  memset(&node, 0, sizeof node);
  node.size_bytes = sizeof node;
  *out_code = set->graph->node_view(set->graph->self, call->graph, call->anchor, &node);
  if (*out_code != TENON_OK) return 0;
  op = set->host->sym_text(set->host->self, node.op);
  *out_code = TENON_UNIMPLEMENTED;
  if (call->epilogue_count != 0)
    return tenon_simple_fail(set, *out_code, "single ops only, no epilogue"),
           (const tenon_simple_kernel_t*)0;
  for (i = 0; i < call->operand_count; ++i) types |= 1u << call->operands[i].type.dtype;
  for (i = 0; i < call->result_count; ++i) types |= 1u << call->results[i].dtype;
  for (j = 0; j < set->count; ++j) {
    const tenon_simple_kernel_t* kernel = &set->kernels[j];
    if (strlen(kernel->op) != op.size || memcmp(kernel->op, op.data, op.size) != 0) continue;
    if ((types & ~kernel->dtypes) != 0) continue;
    *out_code = TENON_OK;
    return kernel;
  }
  tenon_simple_fail(set, TENON_UNIMPLEMENTED, "no kernel for this op with these element types");
  return 0;
}

static inline tenon_code_t tenon_simple_query(void* self, tenon_str_t target,
                                              const tenon_kernel_call_t* call,
                                              tenon_kernel_candidate_t* out) {
  tenon_code_t code;
  const tenon_simple_kernel_t* kernel =
      tenon_simple_find((const tenon_simple_set_t*)self, call, &code);
  tenon_kernel_candidate_t full;
  (void)target;
  if (kernel == 0) return code;
  memset(&full, 0, sizeof full);
  full.part_count = 1;
  full.cost_ns = 1e6; /* not measured: a device that knows its costs is preferred */
  full.name.data = kernel->op;
  full.name.size = strlen(kernel->op);
  if (tenon_record_give(out, &full, sizeof full) == TENON_OK) return TENON_OK;
  return tenon_simple_fail((const tenon_simple_set_t*)self, TENON_INVALID_ARGUMENT,
                           "a record to be filled has no size_bytes");
}

static inline tenon_code_t tenon_simple_create(void* self, tenon_device_t* device,
                                               const tenon_kernel_call_t* call,
                                               tenon_kernel_t** out) {
  const tenon_simple_set_t* set = (const tenon_simple_set_t*)self;
  tenon_code_t code;
  const tenon_simple_kernel_t* kernel = tenon_simple_find(set, call, &code);
  tenon_simple_instance_t* instance;
  (void)device;
  if (kernel == 0) return code;
  instance = (tenon_simple_instance_t*)malloc(sizeof *instance);
  if (instance == 0)
    return tenon_simple_fail(set, TENON_RESOURCE_EXHAUSTED, "no memory for a kernel");
  instance->run = kernel->run;
  instance->output_rank = call->result_count == 0 ? 0 : call->results[0].rank;
  *out = (tenon_kernel_t*)instance;
  return TENON_OK;
}

static inline void tenon_simple_destroy(void* self, tenon_kernel_t* kernel) {
  (void)self;
  free(kernel);
}

static inline tenon_code_t tenon_simple_run(void* self, tenon_kernel_t* kernel,
                                            const tenon_kernel_args_t* args) {
  const tenon_simple_instance_t* instance = (const tenon_simple_instance_t*)kernel;
  uint64_t elements = 1;
  uint32_t i;
  (void)self;
  for (i = 0; args->output_count != 0 && i < instance->output_rank; ++i)
    elements *= (uint64_t)args->output_dims[0][i];
  return instance->run(args, elements);
}

/* Fills `api` with kernels for the plugin's own device kind. `kernels` and `device_kind` live as
 * long as the process. One table per including file. UNAVAILABLE if the host has no graphs. */
static inline tenon_code_t tenon_simple_kernels(const tenon_host_t* host, const char* device_kind,
                                                const tenon_simple_kernel_t* kernels,
                                                uint32_t count, tenon_kernels_api_t* api) {
  static tenon_simple_set_t set;
  tenon_str_t id;
  const void* graph = 0;
  tenon_code_t code;
  id.data = TENON_HOST_GRAPH_ID;
  id.size = sizeof TENON_HOST_GRAPH_ID - 1;
  code = host->query(host->self, id, 0, &graph);
  if (code != TENON_OK) return code;
  set.host = host;
  set.graph = (const tenon_host_graph_t*)graph;
  set.kernels = kernels;
  set.count = count;
  memset(api, 0, sizeof *api);
  api->size_bytes = sizeof *api;
  api->self = &set;
  api->device_kind.data = device_kind;
  api->device_kind.size = strlen(device_kind);
  api->query = tenon_simple_query;
  api->create = tenon_simple_create;
  api->destroy = tenon_simple_destroy;
  api->run = tenon_simple_run;
  return TENON_OK;
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
