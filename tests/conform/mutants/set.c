/* A good set of kernels for the cpu, `sort` of bytes by counting, and the faults that
 * CONFORM_MUTANT selects. */
#include <stdlib.h>
#include <string.h>

#include "tenon/abi/simple_device.h"
#include "tenon/abi/simple_kernels.h"

enum { kValues = 256 };

static int is(const char* mutant) {
  const char* chosen = getenv("CONFORM_MUTANT");
  return chosen != NULL && strcmp(chosen, mutant) == 0;
}

static tenon_code_t suits(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  const tenon_type_t* type = &tenon_kernel_operand(call->call, 0)->type;
  tenon_attr_t dim, descending;
  tenon_code_t code = tenon_simple_attr(call, "dim", &dim);
  if (code == TENON_OK) code = tenon_simple_attr(call, "descending", &descending);
  if (code != TENON_OK) return code;
  if (is("set_never_suits")) return tenon_simple_refuse(call, "never");
  if (call->call->operand_count != 1 || dim.u.i != (int64_t)type->rank - 1 ||
      type->dims[dim.u.i] < 1)
    return tenon_simple_refuse(call, "one operand, along the last dim, not empty");
  plan->params[0] = type->dims[dim.u.i];
  plan->params[1] =
      descending.count != 0 && descending.u.is[0] != 0 && !is("set_ignores_direction");
  plan->cost_ns = 1;
  return TENON_OK;
}

static tenon_code_t sort_bytes(const tenon_simple_run_t* run) {
  const uint64_t line = (uint64_t)run->plan->params[0];
  const int flip = run->inputs[0].dtype == TENON_I8 && !is("set_signed_as_unsigned") ? 128 : 0;
  for (uint64_t at = 0; at < run->inputs[0].elements; at += line) {
    const uint8_t* in = (const uint8_t*)run->inputs[0].data + at;
    uint8_t* out = (uint8_t*)run->outputs[0].data + at;
    uint64_t counts[kValues] = {0};
    for (uint64_t i = 0; i < line; ++i) ++counts[in[i] ^ flip];
    if (is("set_loses_last")) --counts[in[line - 1] ^ flip], ++counts[0];
    for (int i = 0; i < kValues; ++i) {
      const int value = run->plan->params[1] ? kValues - 1 - i : i;
      memset(out, value ^ flip, counts[value]);
      out += counts[value];
    }
  }
  return TENON_OK;
}

static const tenon_simple_kernel_t kKernels[] = {
    {"sort", TENON_DTYPE_BIT(TENON_U8) | TENON_DTYPE_BIT(TENON_I8), suits, sort_bytes}};

__attribute__((visibility("default"))) tenon_code_t tenon_plugin_query(uint32_t max_abi,
                                                                       const tenon_host_t* host,
                                                                       const tenon_plugin_t** out) {
  static tenon_kernels_api_t kernels;
  static const tenon_interface_t interfaces[] = {{TENON_STR(TENON_KERNELS_ID), 0, 0, &kernels}};
  static const tenon_plugin_t plugin = {sizeof plugin,
                                        TENON_TARGET_ABI,
                                        TENON_STR("mutant_set"),
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
