/* The kernel set `@NAME@`: kernels for a device of another plugin, here one for the cpu: `sort` of
 * lines of u8, by counting. The host takes a kernel where it suits and costs less than the device's
 * own code; `tenon ops sort --explain` shows where and why not. Replace the kernel by yours, and
 * add others to the table at the end. */
#include "tenon/abi/simple_device.h"
#include "tenon/abi/simple_kernels.h"

enum { kValues = 256, kLineMin = 256 };

/* Which calls of the op the kernel accepts, and their cost. The plan keeps data for the kernel. */
static tenon_code_t suits(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  const tenon_type_t* type = &tenon_kernel_operand(call->call, 0)->type;
  tenon_attr_t dim, descending;
  tenon_code_t code = tenon_simple_attr(call, "dim", &dim);
  if (code == TENON_OK) code = tenon_simple_attr(call, "descending", &descending);
  if (code != TENON_OK) return code;
  if (call->call->operand_count != 1) return tenon_simple_refuse(call, "one operand only");
  if (dim.u.i != (int64_t)type->rank - 1)
    return tenon_simple_refuse(call, "along the last dim only");
  if (type->dims[dim.u.i] < kLineMin)
    return tenon_simple_refuse(call, "lines of at least 256 elements only, known before the run");
  for (uint64_t i = 0; i < descending.count; ++i)
    if (descending.u.is[i] != 0) return tenon_simple_refuse(call, "ascending only");
  plan->params[0] = type->dims[dim.u.i];
  plan->cost_ns = 1; /* of an element, measured; dims below 0 are known at the run only */
  for (uint32_t i = 0; i < type->rank; ++i)
    plan->cost_ns *= type->dims[i] > 0 ? (double)type->dims[i] : 1;
  return TENON_OK;
}

static tenon_code_t sort_u8(const tenon_simple_run_t* run) {
  const uint64_t line = (uint64_t)run->plan->params[0];
  for (uint64_t at = 0; at < run->inputs[0].elements; at += line) {
    const uint8_t* in = (const uint8_t*)run->inputs[0].data + at;
    uint8_t* out = (uint8_t*)run->outputs[0].data + at;
    uint64_t counts[kValues] = {0};
    for (uint64_t i = 0; i < line; ++i) ++counts[in[i]];
    for (int value = 0; value < kValues; out += counts[value++]) memset(out, value, counts[value]);
  }
  return TENON_OK;
}

static const tenon_simple_kernel_t kKernels[] = {
    {"sort", TENON_DTYPE_BIT(TENON_U8), suits, sort_u8}};

TENON_PLUGIN_NOTE("@NAME@", "0.1.0", TENON_NOTE_OFFERS(TENON_KERNELS_ID, 0))

tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* host,
                                const tenon_plugin_t** out) {
  static tenon_kernels_api_t kernels;
  static const tenon_interface_t interfaces[] = {{TENON_STR(TENON_KERNELS_ID), 0, 0, &kernels}};
  static const tenon_plugin_t plugin = {sizeof plugin,
                                        TENON_TARGET_ABI,
                                        TENON_STR("@NAME@"),
                                        TENON_STR("0.1.0"),
                                        TENON_STR(__VERSION__),
                                        NULL,
                                        interfaces,
                                        1,
                                        NULL,
                                        sizeof interfaces[0],
                                        0};
  tenon_code_t code = tenon_simple_kernels(host, "cpu", NULL, kKernels, 1, &kernels);
  if (code == TENON_OK) *out = &plugin;
  return (void)max_abi, code;
}
