/* A device with kernels, an op, a pass and a frontend, in C against sdk/tenon/abi alone. It was
 * built once against every layout that the ABI has had (build.py), and the binaries are kept, so
 * that a test sees today's host load and run them. It uses only the vocabulary of the first layout.
 */
#include <stdlib.h>
#include <string.h>

#include "tenon/abi/device.h"
#include "tenon/abi/frontend.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/ops.h"
#include "tenon/abi/pass.h"
#include "tenon/abi/plugin.h"

#define STR(text) {text, sizeof text - 1}

struct tenon_device_t {
  int unused;
};
struct tenon_buffer_t {
  uint64_t size_bytes;
  unsigned char* data;
};

static const tenon_host_t* host;
static const tenon_host_graph_t* graphs;
static struct tenon_device_t device;

static tenon_code_t fail(tenon_code_t code, const char* text) {
  const tenon_str_t message = {text, strlen(text)};
  return host->fail(host->self, code, message, NULL, 0);
}
static int same(tenon_str_t a, const char* b) {
  return a.size == strlen(b) && memcmp(a.data, b, a.size) == 0;
}

/* ---- The device ---- */

static tenon_code_t count(void* self, uint32_t* out) {
  return (void)self, *out = 1, TENON_OK;
}
static tenon_code_t info(void* self, uint32_t ordinal, tenon_device_info_t* out) {
  const tenon_device_info_t record = {.size_bytes = sizeof record,
                                      .threading = TENON_THREADING_FREE,
                                      .kind = STR("released"),
                                      .description = STR("host memory"),
                                      .target = STR("released"),
                                      .alignment_bytes = 64};
  if (ordinal != 0) return fail(TENON_NOT_FOUND, "there is one device of this plugin: ask for 0");
  const uint32_t size = out->size_bytes < sizeof record ? out->size_bytes : (uint32_t)sizeof record;
  (void)self;
  if (size < sizeof size) return fail(TENON_INVALID_ARGUMENT, "the record has no size_bytes");
  memcpy(out, &record, size);
  out->size_bytes = size;
  return TENON_OK;
}
static tenon_code_t open_device(void* self, uint32_t ordinal, tenon_device_t** out) {
  if (ordinal != 0) return fail(TENON_NOT_FOUND, "there is one device of this plugin: open 0");
  return (void)self, *out = &device, TENON_OK;
}
static tenon_code_t nothing(void* self, tenon_device_t* d) {
  return (void)self, (void)d, TENON_OK;
}

static tenon_code_t alloc(void* self, tenon_device_t* d, uint64_t size, tenon_buffer_t** out) {
  (void)self, (void)d;
  tenon_buffer_t* buffer = malloc(sizeof *buffer);
  unsigned char* data = size > SIZE_MAX - 128 ? NULL : aligned_alloc(64, (size + 127) / 64 * 64);
  if (buffer == NULL || data == NULL) {
    free(buffer), free(data);
    return fail(TENON_RESOURCE_EXHAUSTED, "there is not so much memory: ask for less");
  }
  *buffer = (tenon_buffer_t){size, data};
  return *out = buffer, TENON_OK;
}
static tenon_code_t release(void* self, tenon_device_t* d, tenon_buffer_t* buffer) {
  (void)self, (void)d;
  free(buffer->data), free(buffer);
  return TENON_OK;
}

static int outside(const tenon_buffer_t* buffer, uint64_t offset, uint64_t length) {
  return buffer != NULL && (offset > buffer->size_bytes || length > buffer->size_bytes - offset);
}
static tenon_code_t copy(void* self, tenon_device_t* d, const tenon_copy_t* c) {
  (void)self, (void)d;
  if (c->direction < TENON_COPY_HOST_TO_DEVICE || c->direction > TENON_COPY_FILL)
    return fail(TENON_INVALID_ARGUMENT, "there is no such direction of a copy");
  if (outside(c->from, c->from_offset_bytes, c->length_bytes) ||
      outside(c->to, c->to_offset_bytes, c->length_bytes))
    return fail(TENON_OUT_OF_RANGE, "the copy leaves its buffer: copy less");
  if (c->direction == TENON_COPY_FILL) {
    if (c->pattern_bytes != 1 && c->pattern_bytes != 2 && c->pattern_bytes != 4 &&
        c->pattern_bytes != 8)
      return fail(TENON_INVALID_ARGUMENT, "a pattern has 1, 2, 4 or 8 bytes");
    for (uint64_t i = 0; i < c->length_bytes; ++i)
      c->to->data[c->to_offset_bytes + i] =
          (unsigned char)(c->pattern >> 8 * (i % c->pattern_bytes));
    return TENON_OK;
  }
  const unsigned char* from = c->direction == TENON_COPY_HOST_TO_DEVICE
                                  ? c->host_from
                                  : c->from->data + c->from_offset_bytes;
  unsigned char* to =
      c->direction == TENON_COPY_DEVICE_TO_HOST ? c->host_to : c->to->data + c->to_offset_bytes;
  if (c->length_bytes != 0) memmove(to, from, c->length_bytes);
  return TENON_OK;
}

/* ---- Kernels: add of f32 ---- */

static int is_add(const tenon_kernel_call_t* call) {
  tenon_node_view_t node = {.size_bytes = sizeof node};
  if (call->epilogue_count != 0 ||
      graphs->node_view(graphs->self, call->graph, call->anchor, &node) != TENON_OK)
    return 0;
  if (!same(host->sym_text(host->self, node.op), "add")) return 0;
  return call->operand_count == 2 && tenon_kernel_operand(call, 0)->type.dtype == TENON_F32 &&
         tenon_kernel_operand(call, 1)->type.dtype == TENON_F32;
}
static tenon_code_t kernel_query(void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                                 tenon_kernel_candidate_t* out) {
  (void)self, (void)target;
  if (!is_add(call)) return fail(TENON_UNIMPLEMENTED, "only add of f32 is taken");
  *out = (tenon_kernel_candidate_t){
      .size_bytes = sizeof *out, .part_count = 1, .cost_ns = 1000, .name = STR("add")};
  return TENON_OK;
}
struct tenon_kernel_t {
  uint32_t rank;
};
static tenon_code_t kernel_create(void* self, tenon_device_t* d, const tenon_kernel_call_t* call,
                                  tenon_kernel_t** out) {
  (void)self, (void)d;
  if (!is_add(call)) return fail(TENON_UNIMPLEMENTED, "only add of f32 is taken");
  tenon_kernel_t* kernel = malloc(sizeof *kernel);
  if (kernel == NULL) return fail(TENON_RESOURCE_EXHAUSTED, "there is no memory for a kernel");
  kernel->rank = call->results[0].rank;
  return *out = kernel, TENON_OK;
}
static void kernel_destroy(void* self, tenon_kernel_t* kernel) {
  (void)self, free(kernel);
}
static tenon_code_t kernel_run(void* self, tenon_kernel_t* kernel,
                               const tenon_kernel_args_t* args) {
  (void)self;
  uint64_t n = 1;
  for (uint32_t i = 0; i < kernel->rank; ++i) n *= (uint64_t)args->output_dims[0][i];
  const float* a = (const float*)(args->inputs[0]->data + args->input_offsets_bytes[0]);
  const float* b = (const float*)(args->inputs[1]->data + args->input_offsets_bytes[1]);
  float* c = (float*)(args->outputs[0]->data + args->output_offsets_bytes[0]);
  for (uint64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
  return TENON_OK;
}

/* ---- An op: released_twice(x) = x + x ---- */

static tenon_code_t infer(void* self, const tenon_infer_t* q) {
  (void)self;
  if (q->operands[0].rank > 4)
    return q->fail(q->host, (tenon_str_t)STR("C1"), (tenon_str_t)STR("its rank is above 4"));
  return q->result(q->host, q->operands[0].dtype, q->operands[0].dims, q->operands[0].rank);
}
static tenon_code_t reference(void* self, const tenon_eval_t* eval) {
  (void)self;
  const tenon_array_t *x = tenon_array_at(eval->inputs, 0), *y = tenon_array_at(eval->outputs, 0);
  int64_t index[4] = {0}, n = 1;
  for (uint32_t d = 0; d < x->rank; ++d) n *= x->dims[d];
  for (int64_t i = 0; i < n; ++i) {
    const char* at = x->data;
    for (uint32_t d = 0; d < x->rank; ++d) at += index[d] * x->strides_bytes[d];
    ((float*)y->data)[i] = *(const float*)at + *(const float*)at;
    for (uint32_t d = x->rank; d-- > 0;) {
      if (++index[d] < x->dims[d]) break;
      index[d] = 0;
    }
  }
  return TENON_OK;
}
static tenon_code_t build_add(const tenon_builder_t* builder, tenon_value_t x, tenon_value_t* out) {
  const tenon_value_t operands[] = {x, x};
  tenon_node_view_t view = {.size_bytes = sizeof view};
  tenon_node_t node = 0;
  const tenon_node_spec_t spec = {.size_bytes = sizeof spec,
                                  .op = host->intern(host->self, (tenon_str_t)STR("add")),
                                  .operands = operands,
                                  .operand_count = 2};
  tenon_code_t code = graphs->node_build(graphs->self, builder, &spec, &node);
  if (code == TENON_OK) code = graphs->node_view(graphs->self, builder->graph, node, &view);
  if (code == TENON_OK) *out = view.results[0];
  return code;
}
static tenon_code_t decompose(void* self, const tenon_builder_t* builder, tenon_node_t node,
                              tenon_value_t* out) {
  tenon_node_view_t view = {.size_bytes = sizeof view};
  const tenon_code_t code = graphs->node_view(graphs->self, builder->graph, node, &view);
  return (void)self, code != TENON_OK ? code : build_add(builder, view.operands[0], out);
}

static const tenon_operand_def_t operands[] = {
    {STR("x"), STR("what is doubled"), 1u << TENON_F32, 0, 0, 0, 32}};
static const tenon_result_def_t results[] = {{STR("y"), STR("of the type of x")}};
static const tenon_constraint_def_t constraints[] = {
    {STR("C1"), STR("the rank is at most 4"), STR("released_twice(f32[1, 1, 1, 1, 1])")}};
static const tenon_str_t examples[] = {
    STR("released_twice(f32[3] [1, 2, -3]) -> f32[3] [2, 4, -6]")};
static const tenon_op_def_t twice = {.size_bytes = sizeof twice,
                                     .version = 1,
                                     .since = 1,
                                     .cost_class = TENON_COST_ELEMENTWISE,
                                     .name = STR("released_twice"),
                                     .summary = STR("x + x."),
                                     .doc = STR("Twice a tensor."),
                                     .traits = TENON_TRAIT_PURE | TENON_TRAIT_COMPOSITE,
                                     .operands = operands,
                                     .results = results,
                                     .constraints = constraints,
                                     .examples = examples,
                                     .operand_count = 1,
                                     .result_count = 1,
                                     .constraint_count = 1,
                                     .example_count = 1,
                                     .operand_bytes = sizeof operands[0],
                                     .result_bytes = sizeof results[0],
                                     .constraint_bytes = sizeof constraints[0],
                                     .infer = infer,
                                     .reference = reference,
                                     .decompose = decompose};
static const tenon_op_def_t* const ops[] = {&twice};
static const tenon_ops_t ops_table = {sizeof ops_table, NULL, ops, 1};

/* ---- A pass: released_twice becomes add. Ends: one released_twice fewer each time ---- */

static tenon_code_t match(void* self, const tenon_builder_t* builder, tenon_node_t node,
                          tenon_value_t* out, uint32_t* matched) {
  const tenon_code_t code = decompose(self, builder, node, out);
  return *matched = code == TENON_OK, code;
}
static const tenon_rewrite_t rewrites[] = {
    {sizeof(tenon_rewrite_t), 1, STR("open"), STR("released_twice"), NULL, match}};
static const tenon_pass_def_t open_pass = {
    .size_bytes = sizeof open_pass,
    .name = STR("released-open"),
    .summary = STR("Opens released_twice."),
    .description = STR("Writes released_twice as add."),
    .before = STR("tenon.tir 1\ngraph @g(%x: f32[2]) -> (y: f32[2]) {\n  %0 = released_twice(%x) : "
                  "f32[2]\n  yield %0\n}\n"),
    .after = STR("tenon.tir 1\ngraph @g(%x: f32[2]) -> (y: f32[2]) {\n  %0 = add(%x, %x) : "
                 "f32[2]\n  yield %0\n}\n"),
    .rewrite_count = 1,
    .rewrites = rewrites};
static const tenon_pass_def_t* const passes[] = {&open_pass};
static const tenon_passes_t passes_table = {sizeof passes_table, NULL, passes, 1};

/* ---- A frontend: "REL1", then the f32 elements of a vector ---- */

static uint32_t accepts(void* self, tenon_str_t name, const void* head, uint64_t size) {
  return (void)self, (void)name, size >= 4 && memcmp(head, "REL1", 4) == 0 ? 100 : 0;
}
static tenon_code_t read_tensors(void* self, const tenon_source_t* source,
                                 const tenon_file_tensor_sink_t* sink) {
  const void* data = NULL;
  uint64_t size = 0;
  tenon_code_t code = graphs->blob_data(graphs->self, source->bytes, &data, &size);
  (void)self;
  if (code != TENON_OK) return code;
  if (size < 4 || memcmp(data, "REL1", 4) != 0 || size % 4 != 0)
    return fail(TENON_INVALID_ARGUMENT, "a .rel file begins with REL1 and holds whole floats");
  const int64_t dims[] = {(int64_t)(size / 4 - 1)};
  tenon_file_tensor_t tensor = {
      .size_bytes = sizeof tensor, .dtype = TENON_F32, .rank = 1, .dims = dims};
  code = graphs->blob_bytes(graphs->self, (const char*)data + 4, size - 4, &tensor.blob);
  if (code != TENON_OK) return code;
  code = sink->tensor(sink->self, &tensor);
  graphs->blob_release(graphs->self, tensor.blob);
  return code;
}
static tenon_code_t write_tensor(void* self, const tenon_file_tensor_t* tensor,
                                 const tenon_sink_t* sink) {
  const void* data = NULL;
  uint64_t size = 0;
  (void)self;
  if (tensor->dtype != TENON_F32 || tensor->rank != 1)
    return fail(TENON_UNIMPLEMENTED, "a .rel file holds one vector of f32");
  tenon_code_t code = graphs->blob_data(graphs->self, tensor->blob, &data, &size);
  if (code == TENON_OK) code = sink->write(sink->self, "REL1", 4);
  return code == TENON_OK && size != 0 ? sink->write(sink->self, data, size) : code;
}

/* ---- The plugin ---- */

static const tenon_device_api_t device_api = {.size_bytes = sizeof device_api,
                                              .count = count,
                                              .info = info,
                                              .open = open_device,
                                              .close = nothing,
                                              .alloc = alloc,
                                              .free = release,
                                              .copy = copy};
static const tenon_kernels_api_t kernels = {.size_bytes = sizeof kernels,
                                            .device_kind = STR("released"),
                                            .query = kernel_query,
                                            .create = kernel_create,
                                            .destroy = kernel_destroy,
                                            .run = kernel_run};
static const tenon_frontend_api_t frontend = {.size_bytes = sizeof frontend,
                                              .name = STR("released"),
                                              .extensions = STR(".rel"),
                                              .accepts = accepts,
                                              .read_tensors = read_tensors,
                                              .write_tensor = write_tensor};
static const tenon_interface_t interfaces[] = {{STR(TENON_DEVICE_ID), 0, 0, &device_api},
                                               {STR(TENON_KERNELS_ID), 0, 0, &kernels},
                                               {STR(TENON_OPS_ID), 0, 0, &ops_table},
                                               {STR(TENON_PASS_ID), 0, 0, &passes_table},
                                               {STR(TENON_FRONTEND_ID), 0, 0, &frontend}};
static const tenon_plugin_t plugin = {.size_bytes = sizeof plugin,
                                      .abi = TENON_TARGET_ABI,
                                      .name = STR("released"),
                                      .version = STR("0.1.0"),
                                      .build_id = STR("tests/abi/released"),
                                      .interfaces = interfaces,
                                      .interface_count = 5,
                                      .interface_bytes = sizeof(tenon_interface_t)};

__attribute__((visibility("default"))) tenon_code_t tenon_plugin_query(uint32_t max_abi,
                                                                       const tenon_host_t* the_host,
                                                                       const tenon_plugin_t** out) {
  const void* table = NULL;
  const tenon_str_t id = STR(TENON_HOST_GRAPH_ID);
  host = the_host;
  const tenon_code_t code = host->query(host->self, id, 0, &table);
  if (code != TENON_OK) return code;
  graphs = table;
  return (void)max_abi, *out = &plugin, TENON_OK;
}
