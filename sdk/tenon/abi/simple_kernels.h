/* Tenon ABI: a tenon.kernels/1 from a table of {op, element types, `suits`, function}. A helper,
 * not an interface, compiled into the plugin: for dense single ops with functions on the host that
 * compute or launch them, for the plugin's own device or that of another plugin.
 *
 *     static tenon_code_t add_f32(const tenon_simple_run_t* run);
 *     static const tenon_simple_kernel_t table[] = {
 *         {"add", TENON_DTYPE_BIT(TENON_F32), NULL, add_f32}};
 *     static tenon_kernels_api_t api;
 *     tenon_simple_kernels(host, "null", &device, table, 1, &api);   in the query
 *
 * It takes a call alone, without an epilogue, if its op is in the table, all its tensors have the
 * listed element types, and `suits` agrees. Other calls are refused with a reason, which
 * `tenon ops OP --explain` prints. Include it in one file of the plugin.
 *
 */
#ifndef TENON_ABI_SIMPLE_KERNELS_H_
#define TENON_ABI_SIMPLE_KERNELS_H_

#include <stdlib.h>
#include <string.h>

#include "tenon/abi/host.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/plugin.h"
#include "tenon/abi/record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_SIMPLE_TENSORS_MAX 16u /* operands and results of one call */
#define TENON_SIMPLE_ATTRS_MAX 32u

/* The call that `suits` decides about. Borrowed until it returns. */
typedef struct tenon_simple_call_t {
  const tenon_host_t* host;
  const tenon_host_graph_t* graph;
  const tenon_host_registry_t* registry; /* null if the host has none, with an own device */
  void* context;                         /* of the table */
  /* Operands and results with their types; dims below 0 are known only in the run. With
   * TENON_KERNEL_CALL_DETERMINISTIC, refuse unless all runs give the same bits. */
  const tenon_kernel_call_t* call;
} tenon_simple_call_t;

/* The result of `suits`, kept for the runs. */
typedef struct tenon_simple_plan_t {
  /* Cost of one run; 0 beats every other cost. For another plugin's device, the device's own cost
   * must exceed it by a few microseconds for the kernel to be chosen. */
  double cost_ns;
  uint64_t workspace_bytes; /* 0 before `suits` */
  uint32_t part_count;      /* 1 before `suits` */
  uint32_t reserved;
  int64_t params[6]; /* for the function, about the call */
} tenon_simple_plan_t;

/* A dense row-major tensor. */
typedef struct tenon_simple_tensor_t {
  /* Null: an absent optional operand (the buffer is null, too), or memory that the host cannot
   * access. */
  void* data;
  tenon_buffer_t* buffer; /* of an input: not written */
  uint64_t offset_bytes;
  const int64_t* dims; /* concrete */
  uint64_t elements;   /* 0 for an absent operand */
  uint32_t rank;
  uint32_t dtype;
} tenon_simple_tensor_t;

typedef struct tenon_simple_run_t {
  void* context; /* of the table */
  const tenon_simple_plan_t* plan;
  const tenon_simple_tensor_t* inputs;
  const tenon_simple_tensor_t* outputs;
  const tenon_kernel_args_t* args; /* as the host gave them: parts, workspace */
} tenon_simple_run_t;

typedef struct tenon_simple_kernel_t {
  const char* op;
  /* Accepted element types, of all operands and results; bit 0: operands may be absent. */
  tenon_dtypes_t dtypes;
  /* OK and the plan, or tenon_simple_refuse with a reason. Called if op and types match. Null:
   * every such call, at a cost that lets others win that know theirs. Safe. */
  tenon_code_t (*suits)(const tenon_simple_call_t* call, tenon_simple_plan_t* plan);
  /* Runs one part of one call; complete on return. Safe. */
  tenon_code_t (*run)(const tenon_simple_run_t* run);
} tenon_simple_kernel_t;

static inline tenon_code_t tenon_simple_fail(const tenon_host_t* host, tenon_code_t code,
                                             const char* reason) {
  tenon_str_t text;
  text.data = reason;
  text.size = strlen(reason);
  return host->fail(host->self, code, text, 0, 0);
}

/* UNIMPLEMENTED, with the reason given to the host. */
static inline tenon_code_t tenon_simple_refuse(const tenon_simple_call_t* call,
                                               const char* reason) {
  return tenon_simple_fail(call->host, TENON_UNIMPLEMENTED, reason);
}

/* An attribute of the call, or its default; borrowed from the graph. NOT_FOUND if the op declares
 * none of that name. */
static inline tenon_code_t tenon_simple_attr(const tenon_simple_call_t* call, const char* name,
                                             tenon_attr_t* out_attr) {
  tenon_attr_t attrs[TENON_SIMPLE_ATTRS_MAX];
  tenon_node_view_t node;
  const tenon_op_def_t* op = 0;
  tenon_code_t code;
  uint32_t i;
  if (call->registry == 0)
    return tenon_simple_fail(call->host, TENON_FAILED_PRECONDITION,
                             "this host has no " TENON_HOST_REGISTRY_ID);
  memset(&node, 0, sizeof node);
  node.size_bytes = sizeof node;
  code = call->graph->node_view(call->graph->self, call->call->graph, call->call->anchor, &node);
  if (code == TENON_OK)
    code = call->registry->op_find(call->registry->self, node.op, node.op_version, &op);
  if (code != TENON_OK) return code;
  for (i = 0; i < op->attr_count && op->attr_count <= TENON_SIMPLE_ATTRS_MAX; ++i) {
    if (tenon_op_attr(op, i)->name.size != strlen(name) ||
        memcmp(tenon_op_attr(op, i)->name.data, name, strlen(name)) != 0)
      continue;
    code = call->registry->node_attrs(call->registry->self, call->call->graph, call->call->anchor,
                                      attrs);
    if (code == TENON_OK) *out_attr = attrs[i];
    return code;
  }
  return tenon_simple_fail(call->host, TENON_NOT_FOUND,
                           "the op declares no attribute of that name");
}

/* ---- How it works ---- */

typedef struct tenon_simple_set_t {
  const tenon_host_t* host;
  tenon_str_t device_kind;
  const tenon_device_api_t* own_device; /* null: the device is of another plugin */
  const tenon_simple_kernel_t* kernels;
  uint32_t count;
  void* context;
} tenon_simple_set_t;

typedef struct tenon_simple_instance_t {
  const tenon_simple_kernel_t* kernel;
  tenon_simple_plan_t plan;
  const tenon_device_api_t* api; /* of the device; null: its memory is not mapped */
  tenon_device_t* device;
  void* context;
  uint32_t input_count, output_count;
  tenon_simple_tensor_t
      tensors[TENON_SIMPLE_TENSORS_MAX]; /* inputs, then outputs: rank and dtype */
} tenon_simple_instance_t;

static inline tenon_code_t tenon_simple_interface(const tenon_host_t* host, const char* id,
                                                  const void** out_table) {
  tenon_str_t text;
  text.data = id;
  text.size = strlen(id);
  return host->query(host->self, text, 0, out_table);
}

static inline tenon_code_t tenon_simple_open_call(const tenon_simple_set_t* set,
                                                  const tenon_kernel_call_t* call,
                                                  tenon_simple_call_t* out) {
  const void *graph = 0, *registry = 0;
  tenon_code_t code = tenon_simple_interface(set->host, TENON_HOST_GRAPH_ID, &graph);
  /* For attributes, and to find another plugin's device. */
  if (code == TENON_OK &&
      tenon_simple_interface(set->host, TENON_HOST_REGISTRY_ID, &registry) != TENON_OK) {
    registry = 0;
    if (set->own_device == 0) code = TENON_FAILED_PRECONDITION;
  }
  out->host = set->host;
  out->graph = (const tenon_host_graph_t*)graph;
  out->registry = (const tenon_host_registry_t*)registry;
  out->context = set->context;
  out->call = call;
  return code;
}

/* The table that maps the device's buffers. Kernels for another plugin's device need one. */
static inline tenon_code_t tenon_simple_find_device(const tenon_simple_set_t* set,
                                                    const tenon_simple_call_t* call,
                                                    const tenon_device_api_t** out_device) {
  tenon_str_t kind, id;
  tenon_code_t code;
  const void* table = 0;
  *out_device = set->own_device != 0 && set->own_device->map != 0 ? set->own_device : 0;
  if (set->own_device != 0) return TENON_OK;
  kind.data = "device";
  kind.size = 6;
  id.data = TENON_DEVICE_ID;
  id.size = sizeof TENON_DEVICE_ID - 1;
  code = call->registry->plugin_interface(call->registry->self, kind, set->device_kind, id, &table);
  if (code != TENON_OK) return code;
  *out_device = (const tenon_device_api_t*)table;
  return (*out_device)->map != 0
             ? TENON_OK
             : tenon_simple_refuse(call, "the host cannot touch this device's memory");
}

static inline tenon_dtypes_t tenon_simple_types(const tenon_kernel_call_t* call) {
  tenon_dtypes_t types = 0;
  uint32_t i;
  for (i = 0; i < call->operand_count; ++i)
    types |= TENON_DTYPE_BIT(tenon_kernel_operand(call, i)->type.dtype);
  for (i = 0; i < call->result_count; ++i) types |= TENON_DTYPE_BIT(call->results[i].dtype);
  return types;
}

/* Whether one kernel takes the call. */
static inline tenon_code_t tenon_simple_try(const tenon_simple_set_t* set,
                                            const tenon_simple_call_t* asked,
                                            const tenon_simple_kernel_t* kernel,
                                            tenon_simple_plan_t* plan,
                                            const tenon_device_api_t** out_device) {
  tenon_code_t code;
  if (asked->call->epilogue_count != 0)
    return tenon_simple_refuse(asked, "single ops only, no epilogue");
  if ((tenon_simple_types(asked->call) & ~kernel->dtypes) != 0)
    return tenon_simple_refuse(asked, "no kernel for these element types");
  if (asked->call->operand_count + asked->call->result_count > TENON_SIMPLE_TENSORS_MAX)
    return tenon_simple_refuse(asked, "more operands and results than a kernel here takes");
  code = tenon_simple_find_device(set, asked, out_device);
  if (code != TENON_OK || kernel->suits == 0) return code;
  return kernel->suits(asked, plan);
}

/* The kernel for a call, with its plan and the device's table; null, with the reason's code in
 * out_code, if there is none. */
static inline const tenon_simple_kernel_t* tenon_simple_find(const tenon_simple_set_t* set,
                                                             const tenon_kernel_call_t* call,
                                                             tenon_simple_plan_t* plan,
                                                             const tenon_device_api_t** out_device,
                                                             tenon_code_t* out_code) {
  tenon_simple_call_t asked;
  tenon_node_view_t node;
  tenon_str_t op;
  uint32_t i;
  memset(&node, 0, sizeof node);
  node.size_bytes = sizeof node;
  *out_code = tenon_simple_open_call(set, call, &asked);
  if (*out_code == TENON_OK)
    *out_code = asked.graph->node_view(asked.graph->self, call->graph, call->anchor, &node);
  if (*out_code != TENON_OK) return 0;
  op = set->host->sym_text(set->host->self, node.op);
  *out_code = tenon_simple_refuse(&asked, "no kernel for this op here");
  for (i = 0; i < set->count; ++i) {
    if (strlen(set->kernels[i].op) != op.size || memcmp(set->kernels[i].op, op.data, op.size) != 0)
      continue;
    memset(plan, 0, sizeof *plan);
    plan->cost_ns = 1e6; /* not measured: a device that knows its costs is preferred */
    plan->part_count = 1;
    *out_code = tenon_simple_try(set, &asked, &set->kernels[i], plan, out_device);
    if (*out_code == TENON_OK) return &set->kernels[i];
  }
  return 0;
}

static inline tenon_code_t tenon_simple_query(void* self, tenon_str_t target,
                                              const tenon_kernel_call_t* call,
                                              tenon_kernel_candidate_t* out) {
  const tenon_simple_set_t* set = (const tenon_simple_set_t*)self;
  tenon_simple_plan_t plan;
  tenon_code_t code;
  const tenon_device_api_t* device = 0;
  const tenon_simple_kernel_t* kernel = tenon_simple_find(set, call, &plan, &device, &code);
  tenon_kernel_candidate_t full;
  (void)target;
  if (kernel == 0) return code;
  memset(&full, 0, sizeof full);
  full.part_count = plan.part_count;
  full.cost_ns = plan.cost_ns;
  full.workspace_bytes = plan.workspace_bytes;
  full.name.data = kernel->op;
  full.name.size = strlen(kernel->op);
  if (tenon_record_give(out, &full, sizeof full) == TENON_OK) return TENON_OK;
  return tenon_simple_fail(set->host, TENON_INVALID_ARGUMENT,
                           "a record to be filled has no size_bytes");
}

static inline tenon_code_t tenon_simple_create(void* self, tenon_device_t* device,
                                               const tenon_kernel_call_t* call,
                                               tenon_kernel_t** out) {
  const tenon_simple_set_t* set = (const tenon_simple_set_t*)self;
  tenon_simple_instance_t made;
  tenon_simple_instance_t* instance;
  tenon_code_t code;
  uint32_t i;
  memset(&made, 0, sizeof made);
  made.kernel = tenon_simple_find(set, call, &made.plan, &made.api, &code);
  if (made.kernel == 0) return code;
  made.device = device;
  made.context = set->context;
  made.input_count = call->operand_count;
  made.output_count = call->result_count;
  for (i = 0; i < call->operand_count + call->result_count; ++i) {
    const tenon_type_t* type = i < call->operand_count ? &tenon_kernel_operand(call, i)->type
                                                       : &call->results[i - call->operand_count];
    made.tensors[i].rank = type->rank;
    made.tensors[i].dtype = type->dtype;
  }
  instance = (tenon_simple_instance_t*)malloc(sizeof made);
  if (instance == 0)
    return tenon_simple_fail(set->host, TENON_RESOURCE_EXHAUSTED, "no memory for a kernel");
  *instance = made;
  *out = (tenon_kernel_t*)instance;
  return TENON_OK;
}

static inline void tenon_simple_destroy(void* self, tenon_kernel_t* kernel) {
  (void)self;
  free(kernel);
}

static inline tenon_code_t tenon_simple_place(const tenon_simple_instance_t* instance,
                                              const tenon_buffer_t* buffer, uint64_t offset_bytes,
                                              const int64_t* dims, tenon_simple_tensor_t* tensor) {
  tenon_code_t code;
  uint32_t i;
  void* data = 0;
  tensor->dims = dims;
  tensor->buffer = (tenon_buffer_t*)buffer;
  tensor->offset_bytes = offset_bytes;
  tensor->elements = buffer == 0 ? 0 : 1;
  for (i = 0; i < tensor->rank && tensor->elements != 0; ++i) tensor->elements *= (uint64_t)dims[i];
  if (buffer == 0 || instance->api == 0) return TENON_OK;
  code = instance->api->map(instance->api->self, instance->device, tensor->buffer, &data);
  tensor->data = code == TENON_OK ? (void*)((unsigned char*)data + offset_bytes) : 0;
  return code;
}

static inline tenon_code_t tenon_simple_run(void* self, tenon_kernel_t* kernel,
                                            const tenon_kernel_args_t* args) {
  const tenon_simple_instance_t* instance = (const tenon_simple_instance_t*)kernel;
  tenon_simple_tensor_t tensors[TENON_SIMPLE_TENSORS_MAX];
  tenon_simple_run_t run;
  tenon_code_t code = TENON_OK;
  uint32_t i;
  (void)self;
  memcpy(tensors, instance->tensors, sizeof tensors);
  for (i = 0; i < instance->input_count && code == TENON_OK; ++i)
    code = tenon_simple_place(instance, args->inputs[i], args->input_offsets_bytes[i],
                              args->input_dims[i], &tensors[i]);
  for (i = 0; i < instance->output_count && code == TENON_OK; ++i)
    code = tenon_simple_place(instance, args->outputs[i], args->output_offsets_bytes[i],
                              args->output_dims[i], &tensors[instance->input_count + i]);
  if (code != TENON_OK) return code;
  run.context = instance->context;
  run.plan = &instance->plan;
  run.inputs = tensors;
  run.outputs = tensors + instance->input_count;
  run.args = args;
  return instance->kernel->run(&run);
}

/* Fills `api` with kernels for a device kind. own_device: the device table of the same plugin;
 * null: the device is of another plugin, and the host can access its memory. `set`, `kernels`,
 * `own_device`, `device_kind` and `context` live as long as the process. */
static inline void tenon_simple_kernels_in(tenon_simple_set_t* set, void* context,
                                           const tenon_host_t* host, const char* device_kind,
                                           const tenon_device_api_t* own_device,
                                           const tenon_simple_kernel_t* kernels, uint32_t count,
                                           tenon_kernels_api_t* api) {
  set->host = host;
  set->device_kind.data = device_kind;
  set->device_kind.size = strlen(device_kind);
  set->own_device = own_device;
  set->kernels = kernels;
  set->count = count;
  set->context = context;
  memset(api, 0, sizeof *api);
  api->size_bytes = sizeof *api;
  api->self = set;
  api->device_kind = set->device_kind;
  api->query = tenon_simple_query;
  api->create = tenon_simple_create;
  api->destroy = tenon_simple_destroy;
  api->run = tenon_simple_run;
}

/* The same for one table per including file, without a context. An error of the host if it lacks
 * what the kernels need. */
static inline tenon_code_t tenon_simple_kernels(const tenon_host_t* host, const char* device_kind,
                                                const tenon_device_api_t* own_device,
                                                const tenon_simple_kernel_t* kernels,
                                                uint32_t count, tenon_kernels_api_t* api) {
  static tenon_simple_set_t set;
  tenon_simple_call_t needed;
  tenon_simple_kernels_in(&set, 0, host, device_kind, own_device, kernels, count, api);
  return tenon_simple_open_call(&set, 0, &needed);
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
