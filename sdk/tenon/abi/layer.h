/* Tenon ABI: layers (tenon.layer/1). A layer stands in front of the tables of another plugin: it
 * sees every call that the host makes to it, and answers itself or passes the call on. Layers wrap
 * tables and never objects: handles of devices, buffers and fences go through as they are, and a
 * layer that remembers something about one keeps it by its address.
 *
 * A layer is chosen by the user, TENON_LAYERS=validation,faults:alloc=3 (docs/spec/layers.md),
 * found through the `provides.layers` of its manifest, and loaded when the first plugin is that it
 * stands in front of. The whole of a layer that counts allocations, without its query:
 *
 *     typedef struct { const tenon_device_api_t* next; tenon_device_api_t table; _Atomic uint64_t
 * allocations; } counter_t;
 *
 *     static tenon_code_t alloc(void* self, tenon_device_t* device, uint64_t size, tenon_buffer_t**
 * out) { counter_t* c = self; c->allocations++; return c->next->alloc(c->next->self, device, size,
 * out);       // the self of `next`, not ours
 *     }
 *     static tenon_code_t attach(void* self, const tenon_layer_subject_t* subject, const void**
 * out_tables) { for (uint32_t i = 0; i < subject->interface_count; ++i) { if
 * (!is(subject->interfaces[i].id, TENON_DEVICE_ID)) continue; counter_t* c = calloc(1, sizeof *c);
 * // lives as long as the process c->next = subject->interfaces[i].table; c->table =
 * (tenon_device_api_t){.size_bytes = sizeof c->table, .self = c, .alloc = alloc}; out_tables[i] =
 * &c->table;
 *       }
 *       return TENON_OK;
 *     }
 *
 * Slots that a layer leaves null, and slots behind the size_bytes of its table, are not its
 * business: the host passes such a call to the table below with that table's self. So a layer names
 * the slots that it wants and no others, and one that was compiled before an interface grew goes on
 * working: the new slots go past it (docs/adr/0015-layers.md). In C++ tenon/cpp/layer.hpp has the
 * same with classes.
 *
 * Users: plugins/layers, samples/call_counter.
 */
#ifndef TENON_ABI_LAYER_H_
#define TENON_ABI_LAYER_H_

#include "tenon/abi/base.h"
#include "tenon/abi/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_LAYER_ID "tenon.layer/1"

/* Every table of an interface of these headers that a layer is given lies in so many readable
 * bytes, zero behind its size_bytes: a slot that the host does not know yet reads as null. No table
 * of this major grows beyond it. */
#define TENON_LAYER_TABLE_BYTES 4096u

/* The plugin that a layer is to stand in front of. Borrowed, but for `table` of each interface and
 * all texts, which live as long as the process. */
typedef struct tenon_layer_subject_t {
  uint32_t size_bytes;
  uint32_t option_count;
  tenon_str_t plugin, version;
  /* What stands behind the layer's name in TENON_LAYERS, in order; a layer refuses keys and values
   * that it does not know. */
  const tenon_key_value_t* options;
  /* The interfaces whose calls can be seen, with the tables below: another layer's, or the
   * plugin's. */
  const tenon_interface_t* interfaces;
  uint32_t interface_count;
  uint32_t position; /* 0: nearest to the host; grows towards the plugin */
} tenon_layer_subject_t;

typedef struct tenon_layer_api_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  tenon_str_t name; /* as in `provides.layers`: letters, digits, `.`, `_` and `-` */
  /* Stands in front of one plugin: called once for each that is loaded, never concurrently, and
   * before anything of it is called. out_tables: an array of interface_count nulls. Entry i set
   * means that calls of interface i go through that table, of the same interface, with size_bytes
   * and self; it lives as long as the process and is not changed any more. Only slots that the
   * table below has are ever called. Of an id that is a vendor's own the host knows no slots, and
   * the table is used as it is. Failing refuses the plugin: who asked for a layer does not want to
   * go on without it. Must call nothing of the tables. */
  tenon_code_t (*attach)(void* self, const tenon_layer_subject_t* subject, const void** out_tables);
} tenon_layer_api_t;

/* What a layer's slots promise, beside what their interface says:
 *  - They are called from as many threads at once as the interface allows.
 *  - An error from below is passed on as it is, with its text. An error of the layer's own has a
 * text that begins with the layer's name.
 *  - What was refused below is not remembered: on failure nothing was made.
 *  - Handles are kept by address until they are freed; an address can come again afterwards.
 *  - The plugin's `shutdown` is called after the layers', in the order in which they stand; nothing
 * is called after it. */

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
