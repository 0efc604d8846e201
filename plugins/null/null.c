/* The smallest device: plain host memory, and one kernel. The template of a device in C, and the
 * first to break when the ABI changes. */
#include <stdlib.h>
#include <string.h>

#include "tenon/abi/copy.h"
#include "tenon/abi/note.h"
#include "tenon/abi/record.h"
#include "tenon/abi/simple_kernels.h"

#define STR(text) {text, sizeof(text) - 1}
struct tenon_buffer_t {
  uint64_t size_bytes;
  unsigned char* data;
};
static const tenon_host_t* host;

static tenon_code_t fail(tenon_code_t code, const char* text) {
  tenon_str_t message = {text, strlen(text)};
  return host->fail(host->self, code, message, NULL, 0);
}

static tenon_code_t count(void* self, uint32_t* out) {
  (void)self;
  *out = 1;
  return TENON_OK;
}

static tenon_code_t info(void* self, uint32_t ordinal, tenon_device_info_t* out) {
  static const tenon_device_info_t kInfo = {.size_bytes = sizeof(tenon_device_info_t),
                                            .threading = TENON_THREADING_FREE,
                                            .kind = STR("null"),
                                            .description = STR("host memory and one kernel"),
                                            .target = STR("null"),
                                            .alignment_bytes = 64};
  if (ordinal != 0) return fail(TENON_NOT_FOUND, "there is one null device");
  (void)self;
  return tenon_record_give(out, &kInfo, sizeof kInfo) == TENON_OK
             ? TENON_OK
             : fail(TENON_INVALID_ARGUMENT, "the record has no size_bytes");
}

static tenon_code_t open(void* self, uint32_t ordinal, tenon_device_t** out) {
  if (ordinal != 0) return fail(TENON_NOT_FOUND, "there is one null device");
  *out = self; /* no state: any non-null address */
  return TENON_OK;
}

static tenon_code_t close_device(void* self, tenon_device_t* device) {
  (void)self, (void)device;
  return TENON_OK;
}

static tenon_code_t alloc(void* self, tenon_device_t* device, uint64_t size_bytes,
                          tenon_buffer_t** out) {
  tenon_buffer_t* buffer = malloc(sizeof *buffer);
  (void)self, (void)device;
  if (buffer == NULL || size_bytes > SIZE_MAX / 2 ||
      (buffer->data = aligned_alloc(64, (size_bytes / 64 + 1) * 64)) == NULL) {
    free(buffer);
    return fail(TENON_RESOURCE_EXHAUSTED, "the host has not so much memory");
  }
  buffer->size_bytes = size_bytes;
  *out = buffer;
  return TENON_OK;
}

static tenon_code_t release(void* self, tenon_device_t* device, tenon_buffer_t* buffer) {
  (void)self, (void)device;
  free(buffer->data);
  free(buffer);
  return TENON_OK;
}

static tenon_code_t copy(void* self, tenon_device_t* device, const tenon_copy_t* c) {
  (void)self, (void)device;
  const char* fault = tenon_copy_kind_fault(c);
  if (fault != NULL) return fail(TENON_INVALID_ARGUMENT, fault);
  fault = tenon_copy_range_fault(c, c->from != NULL ? c->from->size_bytes : 0,
                                 c->to != NULL ? c->to->size_bytes : 0);
  if (fault != NULL) return fail(TENON_OUT_OF_RANGE, fault);
  tenon_copy_perform(c, c->from != NULL ? c->from->data : NULL, c->to != NULL ? c->to->data : NULL);
  return TENON_OK;
}

static tenon_code_t map(void* self, tenon_device_t* device, tenon_buffer_t* buffer, void** out) {
  return (void)self, (void)device, *out = buffer->data, TENON_OK;
}

static tenon_code_t add_f32(const tenon_simple_run_t* run) {
  const float* a = (const float*)run->inputs[0].data;
  const float* b = (const float*)run->inputs[1].data;
  float* out = (float*)run->outputs[0].data;
  for (uint64_t i = 0; i < run->outputs[0].elements; ++i) out[i] = a[i] + b[i];
  return TENON_OK;
}

TENON_PLUGIN_NOTE("null", "0.1.0",
                  TENON_NOTE_OFFERS(TENON_DEVICE_ID, 0) TENON_NOTE_OFFERS(TENON_KERNELS_ID, 0))

tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* host_,
                                const tenon_plugin_t** out) {
  static const tenon_simple_kernel_t kKernels[] = {
      {"add", TENON_DTYPE_BIT(TENON_F32), NULL, add_f32}};
  static tenon_kernels_api_t kernels;
  static const tenon_device_api_t device = {.size_bytes = sizeof device,
                                            .self = (void*)&device,
                                            .count = count,
                                            .info = info,
                                            .open = open,
                                            .close = close_device,
                                            .alloc = alloc,
                                            .free = release,
                                            .copy = copy,
                                            .map = map};
  static const tenon_interface_t interfaces[] = {{STR(TENON_DEVICE_ID), 0, 0, &device},
                                                 {STR(TENON_KERNELS_ID), 0, 0, &kernels}};
  static const tenon_plugin_t plugin = {.size_bytes = sizeof plugin,
                                        .abi = TENON_TARGET_ABI,
                                        .name = STR("null"),
                                        .version = STR("0.1.0"),
                                        .build_id = STR(__VERSION__),
                                        .interfaces = interfaces,
                                        .interface_count = 2,
                                        .interface_bytes = sizeof(tenon_interface_t)};
  (void)max_abi;
  host = host_;
  tenon_code_t code = tenon_simple_kernels(host, "null", &device, kKernels, 1, &kernels);
  if (code == TENON_OK) *out = &plugin;
  return code;
}
