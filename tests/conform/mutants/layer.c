/* A good layer that counts allocations and, with CONFORM_MUTANT=NAME, one that does one thing
 * wrong. layer.list has each name with the check that must catch it. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/abi/device.h"
#include "tenon/abi/layer.h"
#include "tenon/abi/queue.h"
#include "tenon/abi/simple_device.h"

typedef struct {
  const tenon_device_api_t* next;
  tenon_device_api_t table;
  const tenon_queue_api_t* next_queue;
  tenon_queue_api_t queue_table;
  _Atomic uint64_t allocations;
} counter_t;

static const tenon_host_t* host;
static counter_t* newest;

static int is(const char* name) {
  const char* mutant = getenv("CONFORM_MUTANT");
  return mutant != NULL && strcmp(mutant, name) == 0;
}

static tenon_code_t alloc(void* self, tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
  static volatile int busy;
  counter_t* c = is("one_next") ? newest : self;
  c->allocations++;
  if (is("not_for_threads")) {
    if (busy) return tenon_simple_failure(host, TENON_INTERNAL, "counter: another thread is here");
    busy = 1;
    usleep(500);
  }
  if (is("answers_twice")) (void)c->next->alloc(c->next->self, device, size, out);
  if (is("calls_memory")) {
    uint64_t used = 0, peak = 0;
    c->next->memory(c->next->self, device, &used, &peak);
  }
  if (is("walks_the_table") && c->next->size_bytes > sizeof *c->next) {
    void (*unknown)(void);
    memcpy(&unknown, (const char*)c->next + sizeof *c->next, sizeof unknown);
    unknown();
  }
  if (is("never_reaches")) return *out = (tenon_buffer_t*)self, TENON_OK;
  tenon_code_t code = c->next->alloc(is("own_self") ? self : c->next->self, device,
                                     is("rounds_sizes") ? size + 64 : size, out);
  if (is("loses_output")) *out = NULL;
  busy = 0;
  if (code != TENON_OK && is("swallows_code")) return TENON_OK;
  if (code != TENON_OK && is("other_text"))
    return tenon_simple_failure(host, code, "counter: something below failed");
  return code;
}

static tenon_code_t fence_signal(void* self, tenon_fence_t* fence, uint64_t value) {
  counter_t* c = self;
  return c->next_queue->fence_signal(c->next_queue->self, fence,
                                     is("signals_more") ? value + 1 : value);
}

static tenon_code_t free_buffer(void* self, tenon_device_t* device, tenon_buffer_t* buffer) {
  counter_t* c = is("one_next") ? newest : self;
  return c->next->free(c->next->self, device, buffer);
}

static int same(tenon_str_t text, const char* other) {
  return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

static tenon_code_t attach(void* self, const tenon_layer_subject_t* subject, const void** out) {
  (void)self;
  if (subject->option_count != 0 && !is("any_option")) {
    if (is("refuses_anonymously"))
      return tenon_simple_failure(host, TENON_INVALID_ARGUMENT,
                                  "there is no option conform_nonesuch");
    if (is("nameless_refusal"))
      return tenon_simple_failure(host, TENON_INVALID_ARGUMENT, "counter: it takes no options");
    char text[160] = "counter: there is no option ";
    const tenon_str_t key = subject->options[0].key;
    if (key.size < 100) memcpy(text + strlen(text), key.data, key.size);
    return tenon_simple_failure(host, TENON_INVALID_ARGUMENT, text);
  }
  counter_t* c = calloc(1, sizeof *c);
  newest = c;
  for (uint32_t i = 0; i < subject->interface_count; ++i) {
    if (same(tenon_layer_interface(subject, i)->id, TENON_DEVICE_ID)) {
      c->next = tenon_layer_interface(subject, i)->table;
      c->table = (tenon_device_api_t){
          .size_bytes = sizeof c->table, .self = c, .alloc = alloc, .free = free_buffer};
      if (is("calls_at_attach")) {
        uint32_t count = 0;
        (void)c->next->count(c->next->self, &count);
      }
      if (is("no_size")) c->table.size_bytes = 0;
      out[i] = &c->table;
    } else if (same(tenon_layer_interface(subject, i)->id, TENON_QUEUE_ID)) {
      c->next_queue = tenon_layer_interface(subject, i)->table;
      c->queue_table = (tenon_queue_api_t){
          .size_bytes = sizeof c->queue_table, .self = c, .fence_signal = fence_signal};
      out[i] = &c->queue_table;
    } else if (is("every_interface")) {
      out[i] = &c->table;
    }
  }
  if (is("one_entry_more")) out[subject->interface_count] = &c->table;
  return TENON_OK;
}

static const tenon_layer_api_t layer = {sizeof layer, 0, NULL, TENON_STR("counter"), attach};
static const tenon_interface_t interfaces[] = {{TENON_STR(TENON_LAYER_ID), 0, 0, &layer}};
static const tenon_plugin_t plugin = {sizeof plugin,
                                      TENON_TARGET_ABI,
                                      TENON_STR("counter"),
                                      TENON_STR("0.1.0"),
                                      TENON_STR(__VERSION__),
                                      NULL,
                                      interfaces,
                                      1,
                                      NULL,
                                      sizeof interfaces[0],
                                      0};

__attribute__((visibility("default"))) tenon_code_t tenon_plugin_query(uint32_t max_abi,
                                                                       const tenon_host_t* the_host,
                                                                       const tenon_plugin_t** out) {
  host = the_host;
  *out = &plugin;
  return (void)max_abi, TENON_OK;
}
