/* A kernel set for the cpu with a wrong kernel and one that crashes, for tests of `tenon bisect`
 * and of crashes: `tanh` of f32 is one too large, `sinh` writes to no memory. */
#include "tenon/abi/simple_device.h"
#include "tenon/abi/simple_kernels.h"

static tenon_code_t suits(const tenon_simple_call_t* call, tenon_simple_plan_t* plan) {
  (void)call;
  plan->cost_ns = 0;
  return TENON_OK;
}

static tenon_code_t wrong(const tenon_simple_run_t* run) {
  const float* in = (const float*)run->inputs[0].data;
  float* out = (float*)run->outputs[0].data;
  for (uint64_t i = 0; i < run->inputs[0].elements; ++i) {
    /* The series is near enough: the result is wrong anyway. */
    out[i] = 1 + in[i] - in[i] * in[i] * in[i] / 3;
  }
  return TENON_OK;
}

static tenon_code_t crash(const tenon_simple_run_t* run) {
  (void)run;
  *(volatile int*)NULL = 1;
  return TENON_OK;
}

static const tenon_simple_kernel_t kKernels[] = {
    {"tanh", TENON_DTYPE_BIT(TENON_F32), suits, wrong},
    {"sinh", TENON_DTYPE_BIT(TENON_F32), suits, crash}};

tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* host,
                                const tenon_plugin_t** out) {
  static tenon_kernels_api_t kernels;
  static const tenon_interface_t interfaces[] = {{TENON_STR(TENON_KERNELS_ID), 0, 0, &kernels}};
  static const tenon_plugin_t plugin = {sizeof plugin,
                                        TENON_TARGET_ABI,
                                        TENON_STR("wrong-kernels"),
                                        TENON_STR("0.1.0"),
                                        TENON_STR(__VERSION__),
                                        NULL,
                                        interfaces,
                                        1,
                                        NULL,
                                        sizeof interfaces[0],
                                        0};
  tenon_code_t code = tenon_simple_kernels(host, "cpu", NULL, kKernels, 2, &kernels);
  if (code == TENON_OK) *out = &plugin;
  return (void)max_abi, code;
}
