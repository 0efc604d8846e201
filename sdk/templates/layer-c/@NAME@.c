/* The layer `@NAME@`: wraps devices and counts the host's allocations and copies. It fills only the
 * slots that it intercepts; calls of other slots bypass it. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tenon/abi/layer.h"
#include "tenon/abi/simple_device.h"

typedef struct counted_t {
  const tenon_device_api_t* next; /* the table below: another layer's, or the device's */
  tenon_device_api_t table;
} counted_t;
static const tenon_host_t* host;
static _Atomic uint64_t allocations, copies, copied_bytes; /* of all devices */

static tenon_code_t alloc(void* self, tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  const tenon_device_api_t* next = ((counted_t*)self)->next;
  ++allocations;
  return next->alloc(next->self, device, size, out); /* the self of `next`, not ours */
}

static tenon_code_t copy(void* self, tenon_device_t* device, const tenon_copy_t* c) {
  const tenon_device_api_t* next = ((counted_t*)self)->next;
  ++copies;
  copied_bytes += c->length_bytes;
  return next->copy(next->self, device, c);
}

/* Called once for each plugin that the layer wraps. */
static tenon_code_t attach(void* self, const tenon_layer_subject_t* subject, const void** tables) {
  if (subject->option_count != 0) {
    const tenon_str_t key = subject->options[0].key;
    char text[160];
    snprintf(text, sizeof text, "@NAME@: there is no option '%.*s'", (int)key.size, key.data);
    return tenon_simple_failure(host, TENON_INVALID_ARGUMENT, text);
  }
  for (uint32_t i = 0; i < subject->interface_count; ++i) {
    const tenon_str_t id = tenon_layer_interface(subject, i)->id;
    if (id.size != strlen(TENON_DEVICE_ID) || memcmp(id.data, TENON_DEVICE_ID, id.size) != 0)
      continue;
    counted_t* counted = calloc(1, sizeof *counted); /* lives as long as the process */
    if (counted == NULL)
      return tenon_simple_failure(host, TENON_RESOURCE_EXHAUSTED, "@NAME@: there is no memory");
    counted->next = tenon_layer_interface(subject, i)->table;
    counted->table = (tenon_device_api_t){
        .size_bytes = sizeof counted->table, .self = counted, .alloc = alloc, .copy = copy};
    tables[i] = &counted->table;
  }
  return (void)self, TENON_OK;
}

/* Called once, before the process ends. */
static tenon_code_t report(void* self) {
  char text[160];
  const int size = snprintf(text, sizeof text, "%llu allocations, %llu copies of %llu bytes",
                            (unsigned long long)allocations, (unsigned long long)copies,
                            (unsigned long long)copied_bytes);
  host->log(host->self, (tenon_str_t)TENON_STR("@NAME@"), TENON_LOG_INFO,
            (tenon_str_t){text, (uint64_t)size});
  return (void)self, TENON_OK;
}

TENON_PLUGIN_NOTE("@NAME@", "0.1.0", TENON_NOTE_OFFERS(TENON_LAYER_ID, 0))

tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* the_host,
                                const tenon_plugin_t** out) {
  static const tenon_layer_api_t layer = {sizeof layer, 0, NULL, TENON_STR("@NAME@"), attach};
  static const tenon_interface_t interfaces[] = {{TENON_STR(TENON_LAYER_ID), 0, 0, &layer}};
  static const tenon_plugin_t plugin = {sizeof plugin,
                                        TENON_TARGET_ABI,
                                        TENON_STR("@NAME@"),
                                        TENON_STR("0.1.0"),
                                        TENON_STR(__VERSION__),
                                        NULL,
                                        interfaces,
                                        1,
                                        report,
                                        sizeof interfaces[0],
                                        0};
  host = the_host;
  *out = &plugin;
  return (void)max_abi, TENON_OK;
}
