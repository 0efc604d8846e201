/* Tenon ABI: a tenon.kernels/1 for a device of another plugin, from a table of {op, element types,
 * `suits`, function}. A helper, not an interface, compiled into the plugin: for devices whose
 * memory the host can access (`map`), such as the cpu.
 *
 *     static const tenon_set_kernel_t kernels[] = {{"sort", 1u << TENON_U8, suits, sort_u8}};
 *     static tenon_kernels_api_t api;
 *     tenon_simple_kernel_set(host, "cpu", kernels, 1, &api);  // in the query
 *
 * The host queries every kernel set for every node, compares costs with the device's own, and keeps
 * each reason: `tenon ops OP --explain` prints them. Include it in one file of the plugin.
 *
 * Users: the templates of `tenon new kernels`, samples/fast_sort.
 */
#ifndef TENON_ABI_SIMPLE_KERNEL_SET_H_
#define TENON_ABI_SIMPLE_KERNEL_SET_H_

#include <stdlib.h>
#include <string.h>

#include "tenon/abi/host.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/plugin.h"
#include "tenon/abi/record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_SET_TENSORS_MAX 8u /* operands and results of one call */
#define TENON_SET_ATTRS_MAX 32u

/* The call that `suits` decides about. Borrowed until it returns. */
typedef struct tenon_set_call_t {
  const tenon_host_t* host;
  const tenon_host_graph_t* graph;
  const tenon_host_registry_t* registry;
  /* Of the device that the kernels are for: maps its buffers. */
  const tenon_device_api_t* device;
  /* Operands and results with their types; dims below 0 are known only in the run. */
  const tenon_kernel_call_t* call;
} tenon_set_call_t;

/* The result of `suits`, kept for the runs. */
typedef struct tenon_set_plan_t {
  /* Cost of one run. Must be set: 0 beats every other cost. The device's own cost must exceed it by
   * a few microseconds for the kernel to be chosen. */
  double cost_ns;
  int64_t params[6]; /* for the function, about the call */
} tenon_set_plan_t;

/* A dense row-major tensor in memory. */
typedef struct tenon_set_tensor_t {
  void* data;
  const int64_t* dims;
  uint64_t elements;
  uint32_t rank;
  uint32_t dtype;
} tenon_set_tensor_t;

typedef struct tenon_set_kernel_t {
  const char* op;
  /* Bit (1 << dtype) for each accepted element type, of all operands and results; bit 0: operands
   * may be absent. */
  uint32_t dtypes;
  /* OK and the plan, or tenon_set_refuse with a reason. Called if op and types match. Safe. */
  tenon_code_t (*suits)(const tenon_set_call_t* call, tenon_set_plan_t* out_plan);
  /* Runs one call; complete on return. Safe. */
  tenon_code_t (*run)(const tenon_set_plan_t* plan, const tenon_set_tensor_t* inputs,
                      const tenon_set_tensor_t* outputs);
} tenon_set_kernel_t;

static inline tenon_code_t tenon_set_fail(const tenon_host_t* host, tenon_code_t code,
                                          const char* reason) {
  tenon_str_t text;
  text.data = reason;
  text.size = strlen(reason);
  return host->fail(host->self, code, text, 0, 0);
}

/* UNIMPLEMENTED, with the reason given to the host. */
static inline tenon_code_t tenon_set_refuse(const tenon_set_call_t* call, const char* reason) {
  tenon_str_t text;
  text.data = reason;
  text.size = strlen(reason);
  return call->host->fail(call->host->self, TENON_UNIMPLEMENTED, text, 0, 0);
}

/* An attribute of the call, or its default; borrowed from the graph. NOT_FOUND if the op declares
 * none of that name. */
static inline tenon_code_t tenon_set_attr(const tenon_set_call_t* call, const char* name,
                                          tenon_attr_t* out_attr) {
  tenon_attr_t attrs[TENON_SET_ATTRS_MAX];
  tenon_node_view_t node;
  const tenon_op_def_t* op = 0;
  tenon_code_t code;
  uint32_t i;
  tenon_str_t text;
  memset(&node, 0, sizeof node);
  node.size_bytes = sizeof node;
  code = call->graph->node_view(call->graph->self, call->call->graph, call->call->anchor, &node);
  if (code == TENON_OK)
    code = call->registry->op_find(call->registry->self, node.op, node.op_version, &op);
  if (code != TENON_OK) return code;
  for (i = 0; i < op->attr_count && op->attr_count <= TENON_SET_ATTRS_MAX; ++i) {
    if (op->attrs[i].name.size != strlen(name) ||
        memcmp(op->attrs[i].name.data, name, strlen(name)) != 0)
      continue;
    code = call->registry->node_attrs(call->registry->self, call->call->graph, call->call->anchor,
                                      attrs);
    if (code == TENON_OK) *out_attr = attrs[i];
    return code;
  }
  text.data = "the op declares no attribute of that name";
  text.size = strlen(text.data);
  return call->host->fail(call->host->self, TENON_NOT_FOUND, text, 0, 0);
}

/* ---- How it works ---- */

typedef struct tenon_set_t {
  const tenon_host_t* host;
  tenon_str_t device_kind;
  const tenon_set_kernel_t* kernels;
  uint32_t count;
} tenon_set_t;

typedef struct tenon_set_instance_t {
  const tenon_set_kernel_t* kernel;
  tenon_set_plan_t plan;
  const tenon_device_api_t* api; /* of the device: maps its buffers */
  tenon_device_t* device;
  uint32_t input_count, output_count;
  tenon_set_tensor_t tensors[TENON_SET_TENSORS_MAX]; /* inputs, then outputs: rank and dtype */
} tenon_set_instance_t;

static inline tenon_code_t tenon_set_interface(const tenon_host_t* host, const char* id,
                                               const void** out_table) {
  tenon_str_t text;
  text.data = id;
  text.size = strlen(id);
  return host->query(host->self, text, 0, out_table);
}

static inline tenon_code_t tenon_set_open_call(const tenon_set_t* set,
                                               const tenon_kernel_call_t* call,
                                               tenon_set_call_t* out) {
  const void *graph = 0, *registry = 0;
  tenon_code_t code = tenon_set_interface(set->host, TENON_HOST_GRAPH_ID, &graph);
  if (code == TENON_OK) code = tenon_set_interface(set->host, TENON_HOST_REGISTRY_ID, &registry);
  out->host = set->host;
  out->graph = (const tenon_host_graph_t*)graph;
  out->registry = (const tenon_host_registry_t*)registry;
  out->device = 0;
  out->call = call;
  return code;
}

static inline tenon_code_t tenon_set_find_device(const tenon_set_t* set, tenon_set_call_t* call) {
  tenon_str_t kind, id;
  tenon_code_t code;
  const void* table = 0;
  kind.data = "device";
  kind.size = 6;
  id.data = TENON_DEVICE_ID;
  id.size = sizeof TENON_DEVICE_ID - 1;
  code = call->registry->plugin_interface(call->registry->self, kind, set->device_kind, id, &table);
  if (code != TENON_OK) return code;
  call->device = (const tenon_device_api_t*)table;
  return call->device->map != 0
             ? TENON_OK
             : tenon_set_refuse(call, "the host cannot touch this device's memory");
}

/* The kernel for a call, with its plan from `suits` and the device's table; null, with the reason's
 * code in out_code, if there is none. */
static inline const tenon_set_kernel_t* tenon_set_find(const tenon_set_t* set,
                                                       const tenon_kernel_call_t* call,
                                                       tenon_set_plan_t* plan,
                                                       const tenon_device_api_t** out_device,
                                                       tenon_code_t* out_code) {
  tenon_set_call_t asked;
  tenon_node_view_t node;
  tenon_str_t op;
  uint32_t i, j, types = 0;
  memset(plan, 0, sizeof *plan);
  memset(&node, 0, sizeof node);
  node.size_bytes = sizeof node;
  *out_code = tenon_set_open_call(set, call, &asked);
  if (*out_code == TENON_OK)
    *out_code = asked.graph->node_view(asked.graph->self, call->graph, call->anchor, &node);
  if (*out_code != TENON_OK) return 0;
  op = set->host->sym_text(set->host->self, node.op);
  for (i = 0; i < call->operand_count; ++i) types |= 1u << call->operands[i].type.dtype;
  for (i = 0; i < call->result_count; ++i) types |= 1u << call->results[i].dtype;
  *out_code = tenon_set_refuse(&asked, "no kernel for this op here");
  for (j = 0; j < set->count; ++j) {
    const tenon_set_kernel_t* kernel = &set->kernels[j];
    if (strlen(kernel->op) != op.size || memcmp(kernel->op, op.data, op.size) != 0) continue;
    if (call->epilogue_count != 0) {
      *out_code = tenon_set_refuse(&asked, "single ops only, no epilogue");
    } else if ((types & ~kernel->dtypes) != 0) {
      *out_code = tenon_set_refuse(&asked, "no kernel for these element types");
    } else if (call->operand_count + call->result_count > TENON_SET_TENSORS_MAX) {
      *out_code = tenon_set_refuse(&asked, "more operands and results than a kernel here takes");
    } else {
      *out_code = tenon_set_find_device(set, &asked);
      if (*out_code == TENON_OK) *out_code = kernel->suits(&asked, plan);
    }
    *out_device = asked.device;
    if (*out_code == TENON_OK) return kernel;
  }
  return 0;
}

static inline tenon_code_t tenon_set_query(void* self, tenon_str_t target,
                                           const tenon_kernel_call_t* call,
                                           tenon_kernel_candidate_t* out) {
  tenon_set_plan_t plan;
  tenon_code_t code;
  const tenon_device_api_t* device = 0;
  const tenon_set_kernel_t* kernel =
      tenon_set_find((const tenon_set_t*)self, call, &plan, &device, &code);
  tenon_kernel_candidate_t full;
  (void)target;
  if (kernel == 0) return code;
  memset(&full, 0, sizeof full);
  full.part_count = 1;
  full.cost_ns = plan.cost_ns;
  full.name.data = kernel->op;
  full.name.size = strlen(kernel->op);
  if (tenon_record_give(out, &full, sizeof full) == TENON_OK) return TENON_OK;
  return tenon_set_fail(((const tenon_set_t*)self)->host, TENON_INVALID_ARGUMENT,
                        "a record to be filled has no size_bytes");
}

static inline tenon_code_t tenon_set_create(void* self, tenon_device_t* device,
                                            const tenon_kernel_call_t* call, tenon_kernel_t** out) {
  const tenon_set_t* set = (const tenon_set_t*)self;
  tenon_set_instance_t made;
  tenon_set_instance_t* instance;
  tenon_code_t code;
  uint32_t i;
  memset(&made, 0, sizeof made);
  made.kernel = tenon_set_find(set, call, &made.plan, &made.api, &code);
  if (made.kernel == 0) return code;
  made.device = device;
  made.input_count = call->operand_count;
  made.output_count = call->result_count;
  for (i = 0; i < call->operand_count + call->result_count; ++i) {
    const tenon_type_t* type =
        i < call->operand_count ? &call->operands[i].type : &call->results[i - call->operand_count];
    made.tensors[i].rank = type->rank;
    made.tensors[i].dtype = type->dtype;
  }
  instance = (tenon_set_instance_t*)malloc(sizeof made);
  if (instance == 0) {
    tenon_str_t text;
    text.data = "no memory for a kernel";
    text.size = strlen(text.data);
    return set->host->fail(set->host->self, TENON_RESOURCE_EXHAUSTED, text, 0, 0);
  }
  *instance = made;
  *out = (tenon_kernel_t*)instance;
  return TENON_OK;
}

static inline void tenon_set_destroy(void* self, tenon_kernel_t* kernel) {
  (void)self;
  free(kernel);
}

static inline tenon_code_t tenon_set_place(const tenon_set_instance_t* instance,
                                           const tenon_buffer_t* buffer, uint64_t offset_bytes,
                                           const int64_t* dims, tenon_set_tensor_t* tensor) {
  tenon_code_t code;
  uint32_t i;
  void* data = 0;
  tensor->dims = dims;
  tensor->elements = buffer == 0 ? 0 : 1;
  for (i = 0; i < tensor->rank && tensor->elements != 0; ++i) tensor->elements *= (uint64_t)dims[i];
  if (buffer == 0) return TENON_OK; /* an absent optional operand */
  code = instance->api->map(instance->api->self, instance->device, (tenon_buffer_t*)buffer, &data);
  tensor->data = code == TENON_OK ? (void*)((unsigned char*)data + offset_bytes) : 0;
  return code;
}

static inline tenon_code_t tenon_set_run(void* self, tenon_kernel_t* kernel,
                                         const tenon_kernel_args_t* args) {
  const tenon_set_instance_t* instance = (const tenon_set_instance_t*)kernel;
  tenon_set_tensor_t tensors[TENON_SET_TENSORS_MAX];
  tenon_code_t code = TENON_OK;
  uint32_t i;
  (void)self;
  memcpy(tensors, instance->tensors, sizeof tensors);
  for (i = 0; i < instance->input_count && code == TENON_OK; ++i)
    code = tenon_set_place(instance, args->inputs[i], args->input_offsets_bytes[i],
                           args->input_dims[i], &tensors[i]);
  for (i = 0; i < instance->output_count && code == TENON_OK; ++i)
    code = tenon_set_place(instance, args->outputs[i], args->output_offsets_bytes[i],
                           args->output_dims[i], &tensors[instance->input_count + i]);
  return code != TENON_OK
             ? code
             : instance->kernel->run(&instance->plan, tensors, tensors + instance->input_count);
}

/* Fills `api` with kernels for the device kind of another plugin. `set`, `kernels` and
 * `device_kind` live as long as the process. */
static inline void tenon_simple_kernel_set_in(tenon_set_t* set, const tenon_host_t* host,
                                              const char* device_kind,
                                              const tenon_set_kernel_t* kernels, uint32_t count,
                                              tenon_kernels_api_t* api) {
  set->host = host;
  set->device_kind.data = device_kind;
  set->device_kind.size = strlen(device_kind);
  set->kernels = kernels;
  set->count = count;
  memset(api, 0, sizeof *api);
  api->size_bytes = sizeof *api;
  api->self = set;
  api->device_kind = set->device_kind;
  api->query = tenon_set_query;
  api->create = tenon_set_create;
  api->destroy = tenon_set_destroy;
  api->run = tenon_set_run;
}

/* The same for one table per including file. */
static inline tenon_code_t tenon_simple_kernel_set(const tenon_host_t* host,
                                                   const char* device_kind,
                                                   const tenon_set_kernel_t* kernels,
                                                   uint32_t count, tenon_kernels_api_t* api) {
  static tenon_set_t set;
  tenon_simple_kernel_set_in(&set, host, device_kind, kernels, count, api);
  return TENON_OK;
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
