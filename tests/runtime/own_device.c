/* The device `own`, which register_test registers: host memory, and one kernel for demo.on_own,
 * which computes 2x + 1. */
#include <stdlib.h>

#include "tenon/abi/simple_device.h"
#include "tenon/abi/simple_kernels.h"

struct tenon_buffer_t {
  _Alignas(64) uint64_t size_bytes;
  _Alignas(64) unsigned char data[];
};
static const tenon_host_t* host;

static tenon_code_t count(void* self, uint32_t* out) {
  *out = 1;
  return (void)self, TENON_OK;
}

static tenon_code_t info(void* self, uint32_t ordinal, tenon_device_info_t* out) {
  static const tenon_device_info_t kInfo = {.size_bytes = sizeof kInfo,
                                            .threading = TENON_THREADING_FREE,
                                            .kind = TENON_STR("own"),
                                            .description = TENON_STR("host memory, one kernel"),
                                            .target = TENON_STR("own"),
                                            .alignment_bytes = 64};
  if (ordinal != 0) return tenon_simple_failure(host, TENON_NOT_FOUND, "there is one device");
  (void)self;
  return tenon_simple_give(host, out, &kInfo, sizeof kInfo);
}

static tenon_code_t open(void* self, uint32_t ordinal, tenon_device_t** out) {
  if (ordinal != 0) return tenon_simple_failure(host, TENON_NOT_FOUND, "there is one device");
  *out = self; /* no state: any address that is not null */
  return TENON_OK;
}

static tenon_code_t close_device(void* self, tenon_device_t* device) {
  return (void)self, (void)device, TENON_OK;
}

static tenon_code_t alloc(void* self, tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  tenon_buffer_t* buffer = NULL;
  if (size < SIZE_MAX / 2) buffer = aligned_alloc(64, sizeof *buffer + (size + 63) / 64 * 64);
  if (buffer == NULL)
    return tenon_simple_failure(host, TENON_RESOURCE_EXHAUSTED, "there is not enough memory");
  buffer->size_bytes = size;
  *out = buffer;
  return (void)self, (void)device, TENON_OK;
}

static tenon_code_t release(void* self, tenon_device_t* device, tenon_buffer_t* buffer) {
  free(buffer);
  return (void)self, (void)device, TENON_OK;
}

static tenon_code_t copy(void* self, tenon_device_t* device, const tenon_copy_t* c) {
  tenon_code_t code = tenon_simple_check_copy(host, c, c->from ? c->from->size_bytes : 0,
                                              c->to ? c->to->size_bytes : 0);
  if (code == TENON_OK)
    tenon_copy_perform(c, c->from ? c->from->data : NULL, c->to ? c->to->data : NULL);
  return (void)self, (void)device, code;
}

static void* address(const tenon_simple_tensor_t* tensor) {
  return tensor->buffer->data + tensor->offset_bytes;
}

static tenon_code_t twice_plus_one(const tenon_simple_run_t* run) {
  const float* x = (const float*)address(&run->inputs[0]);
  float* out = (float*)address(&run->outputs[0]);
  for (uint64_t i = 0; i < run->outputs[0].elements; ++i) out[i] = 2 * x[i] + 1;
  return TENON_OK;
}

static const tenon_simple_kernel_t kKernels[] = {
    {"demo.on_own", TENON_DTYPE_BIT(TENON_F32), NULL, twice_plus_one}};

TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* the_host,
                                             const tenon_plugin_t** out) {
  static tenon_kernels_api_t kernels;
  static const tenon_device_api_t device = {sizeof device, (void*)&device, count,   info, open,
                                            close_device,  alloc,          release, copy};
  static const tenon_interface_t interfaces[] = {{TENON_STR(TENON_DEVICE_ID), 0, 0, &device},
                                                 {TENON_STR(TENON_KERNELS_ID), 0, 0, &kernels}};
  static const tenon_plugin_t plugin = {sizeof plugin,
                                        TENON_TARGET_ABI,
                                        TENON_STR("own"),
                                        TENON_STR("0.1.0"),
                                        TENON_STR(__VERSION__),
                                        NULL,
                                        interfaces,
                                        2,
                                        NULL,
                                        sizeof interfaces[0],
                                        0};
  host = the_host;
  tenon_code_t code = tenon_simple_kernels(host, "own", &device, kKernels, 1, &kernels);
  if (code == TENON_OK) *out = &plugin;
  return (void)max_abi, code;
}
