/* A good set of kernels for the cpu, `add` of f32 with every `add` after it and constants packed
 * as their negatives, and the faults that CONFORM_MUTANT selects. */
#include <stdlib.h>
#include <string.h>

#include "tenon/abi/simple_device.h"
#include "tenon/abi/simple_kernels.h"

enum { OPERANDS_MAX = 16, SCRATCH_BYTES = 64 };
static tenon_simple_set_t set;
static const tenon_device_api_t* cpu;

typedef struct fused_t {
  tenon_device_t* device;
  uint32_t operands, packed, rank;
} fused_t;

static int is(const char* mutant) {
  const char* chosen = getenv("CONFORM_MUTANT");
  return chosen != NULL && strcmp(chosen, mutant) == 0;
}

static int is_add(const tenon_simple_call_t* asked, tenon_node_t n) {
  tenon_node_view_t node = {sizeof node};
  tenon_str_t op;
  if (asked->graph->node_view(asked->graph->self, asked->call->graph, n, &node) != TENON_OK)
    return 0;
  op = asked->host->sym_text(asked->host->self, node.op);
  /* Both operands must be different values: each is added once. */
  return op.size == 3 && memcmp(op.data, "add", 3) == 0 && node.operands[0] != node.operands[1];
}

static uint32_t packed_of(const tenon_kernel_call_t* call) {
  uint32_t mask = 0, i;
  for (i = 0; i < call->operand_count; ++i)
    mask |= (tenon_kernel_operand(call, i)->flags & TENON_KERNEL_OPERAND_CONSTANT) << i;
  return mask;
}

static tenon_code_t query(void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                          tenon_kernel_candidate_t* out) {
  tenon_simple_call_t asked;
  tenon_kernel_candidate_t made = {0};
  tenon_code_t code = tenon_simple_open_call(&set, call, &asked);
  (void)self, (void)target;
  if (code == TENON_OK) code = tenon_simple_find_device(&set, &asked, &cpu);
  if (code != TENON_OK) return code;
  if (!is_add(&asked, call->anchor) || tenon_simple_types(call) != TENON_DTYPE_BIT(TENON_F32) ||
      call->operand_count > OPERANDS_MAX)
    return tenon_simple_refuse(&asked, "sums of f32 alone");
  while (made.epilogue_taken < call->epilogue_count &&
         is_add(&asked, call->epilogue[made.epilogue_taken]))
    ++made.epilogue_taken;
  if (is("fused_changes_its_mind") && call->epilogue_count == made.epilogue_taken &&
      call->epilogue_count != 0)
    made.epilogue_taken = 0;
  made.prepack_mask = packed_of(call);
  if (is("fused_packs_an_argument")) made.prepack_mask |= 1;
  made.part_count = 1;
  made.cost_ns = 1;
  made.workspace_bytes = SCRATCH_BYTES;
  made.name = (tenon_str_t)TENON_STR("fused_add");
  return tenon_simple_give(set.host, out, &made, sizeof made);
}

static tenon_code_t create(void* self, tenon_device_t* device, const tenon_kernel_call_t* call,
                           tenon_kernel_t** out) {
  fused_t* made = calloc(1, sizeof *made);
  (void)self;
  if (made == NULL)
    return tenon_simple_failure(set.host, TENON_RESOURCE_EXHAUSTED, "no memory for a kernel");
  *made = (fused_t){device, call->operand_count, packed_of(call), call->results[0].rank};
  *out = (tenon_kernel_t*)made;
  return TENON_OK;
}

static void destroy(void* self, tenon_kernel_t* kernel) {
  (void)self, free(kernel);
}

static void* address(const fused_t* k, const tenon_buffer_t* buffer, uint64_t offset) {
  void* data = NULL;
  cpu->map(cpu->self, k->device, (tenon_buffer_t*)buffer, &data);
  return (unsigned char*)data + offset;
}

static tenon_code_t run(void* self, tenon_kernel_t* kernel, const tenon_kernel_args_t* args) {
  const fused_t* k = (const fused_t*)kernel;
  const uint64_t scratch_at = is("fused_workspace_at_zero") ? 0 : args->workspace_offset_bytes;
  float* out = address(k, args->outputs[0], args->output_offsets_bytes[0]);
  float* scratch = address(k, args->workspace, scratch_at);
  const uint32_t used = is("fused_ignores_epilogue") && k->operands > 2 ? 2 : k->operands;
  uint64_t n = 1;
  (void)self;
  for (uint32_t i = 0; i < k->rank; ++i) n *= (uint64_t)args->output_dims[0][i];
  for (uint64_t i = 0; i < n; ++i) {
    scratch[0] = 0;
    for (uint32_t j = 0; j < used; ++j) {
      const float* in = address(k, args->inputs[j], args->input_offsets_bytes[j]);
      const int negative = k->packed >> j & 1 && !is("fused_reads_it_plain");
      scratch[0] += negative ? -in[i] : in[i];
    }
    out[i] = scratch[0];
  }
  return TENON_OK;
}

static tenon_code_t prepack(void* self, tenon_kernel_t* kernel, uint32_t operand, const void* data,
                            uint64_t size_bytes, const tenon_sink_t* sink) {
  static float drift;
  (void)self, (void)kernel, (void)operand;
  for (uint64_t i = 0; i < size_bytes / sizeof(float); ++i) {
    const float value = -((const float*)data)[i] - (is("fused_packs_unsteadily") ? drift++ : 0);
    const tenon_code_t code = sink->write(sink->self, &value, sizeof value);
    if (code != TENON_OK && !is("fused_ignores_the_sink")) return code;
  }
  return TENON_OK;
}

__attribute__((visibility("default"))) tenon_code_t tenon_plugin_query(uint32_t max_abi,
                                                                       const tenon_host_t* host,
                                                                       const tenon_plugin_t** out) {
  static tenon_kernels_api_t kernels;
  static const tenon_interface_t interfaces[] = {{TENON_STR(TENON_KERNELS_ID), 0, 0, &kernels}};
  static const tenon_plugin_t plugin = {sizeof plugin,
                                        TENON_TARGET_ABI,
                                        TENON_STR("mutant_fused"),
                                        TENON_STR("0.1.0"),
                                        TENON_STR(__VERSION__),
                                        NULL,
                                        interfaces,
                                        1,
                                        NULL,
                                        sizeof interfaces[0],
                                        0};
  tenon_simple_kernels_in(&set, NULL, host, "cpu", NULL, NULL, 0, &kernels);
  kernels.query = query;
  kernels.create = create;
  kernels.destroy = destroy;
  kernels.run = run;
  kernels.prepack = prepack;
  *out = &plugin;
  return (void)max_abi, TENON_OK;
}
