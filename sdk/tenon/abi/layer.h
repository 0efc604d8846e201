/* Tenon ABI: layers (tenon.layer/1). A layer is placed in front of the tables of another plugin. It
 * sees every call from the host to that plugin, and handles the call itself or passes it on. Layers
 * wrap tables, never objects: handles of devices, buffers and fences pass through unchanged, and a
 * layer that keeps data about one finds it by the handle's address.
 *
 * The user chooses layers with TENON_LAYERS=validation,faults:alloc=3 (docs/spec/layers.md). The
 * host finds them through the `provides.layers` of their manifests, and loads them with the first
 * plugin that they wrap. This is a complete layer that counts allocations, without its query:
 *
 *     typedef struct {
 *       const tenon_device_api_t* next;
 *       tenon_device_api_t table;
 *       _Atomic uint64_t allocations;
 *     } counter_t;
 *
 *     static tenon_code_t alloc(void* self, tenon_device_t* device, uint64_t size,
 *                               tenon_buffer_t** out) {
 *       counter_t* c = self;
 *       c->allocations++;
 *       return c->next->alloc(c->next->self, device, size, out);  // the self of `next`, not ours
 *     }
 *     static tenon_code_t attach(void* self, const tenon_layer_subject_t* subject,
 *                                const void** out_tables) {
 *       for (uint32_t i = 0; i < subject->interface_count; ++i) {
 *         const tenon_interface_t* offered = tenon_layer_interface(subject, i);
 *         if (!is(offered->id, TENON_DEVICE_ID)) continue;
 *         counter_t* c = calloc(1, sizeof *c);  // lives as long as the process
 *         c->next = offered->table;
 *         c->table = (tenon_device_api_t){
 *             .size_bytes = sizeof c->table, .self = c, .alloc = alloc};
 *         out_tables[i] = &c->table;
 *       }
 *       return TENON_OK;
 *     }
 *
 * For slots that a layer leaves null, and slots beyond the size_bytes of its table, the host calls
 * the table below with that table's self. So a layer fills only the slots that it needs, and a
 * layer compiled before an interface grew still works: calls of the new slots bypass it
 * (docs/adr/0015-layers.md). For C++, tenon/cpp/layer.hpp does the same with classes.
 *
 *
 * Stability: unstable.
 */
#ifndef TENON_ABI_LAYER_H_
#define TENON_ABI_LAYER_H_

#include "tenon/abi/base.h"
#include "tenon/abi/plugin.h"
#include "tenon/abi/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A level for tenon_host_t::log: what a user asked for by naming the layer, such as a table at the
 * end. Shown wherever warnings are, and not as one. */
#define TENON_LOG_RESULT 0x100u

#define TENON_LAYER_ID "tenon.layer/1"
#define TENON_LAYER_MINOR 0u

/* A table that a layer receives, of an interface of these headers, is in a readable block of this
 * many bytes with zeros after its size_bytes: a slot that the host does not know yet reads as null.
 * No table of this major version grows beyond it. */
#define TENON_LAYER_TABLE_BYTES 4096u

/* The plugin that a layer wraps. Borrowed, except for `table` of each interface and all texts,
 * which live as long as the process. */
typedef struct tenon_layer_subject_t {
  uint32_t size_bytes;
  uint32_t option_count;
  tenon_str_t plugin, version;
  /* The options after the layer's name in TENON_LAYERS, in order. A layer refuses unknown keys and
   * values. */
  const tenon_key_value_t* options;
  /* The interfaces whose calls can be intercepted, with the tables below: of another layer, or of
   * the plugin. */
  const tenon_interface_t* interfaces;
  uint32_t interface_count;
  uint32_t position;        /* 0: nearest to the host; grows towards the plugin */
  uint32_t interface_bytes; /* of one record in `interfaces` */
  uint32_t reserved;
} tenon_layer_subject_t;

/* Interface i of a subject. A helper. */
static inline const tenon_interface_t* tenon_layer_interface(const tenon_layer_subject_t* subject,
                                                             uint32_t i) {
  return (const tenon_interface_t*)tenon_record_at(subject->interfaces, i,
                                                   subject->interface_bytes);
}

typedef struct tenon_layer_api_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  tenon_str_t name; /* as in `provides.layers`: letters, digits, `.`, `_` and `-` */
  /* Wraps one plugin. Called once for each plugin that is loaded, never concurrently, and before
   * any other call to that plugin. out_tables: an array of interface_count nulls. Setting entry i
   * routes the calls of interface i through that table; it is of the same interface, with
   * size_bytes and self, lives as long as the process and does not change any more. Only slots that
   * the table below has are ever called. The host knows no slots of a vendor's own interface, and
   * uses that table as it is. Failing refuses the plugin, because a user who asked for a layer does
   * not want to run without it. attach must not call any function of the tables. */
  tenon_code_t (*attach)(void* self, const tenon_layer_subject_t* subject, const void** out_tables);
} tenon_layer_api_t;

/* Obligations of a layer's slots, in addition to those of their interface:
 *  - They may be called from as many threads at once as the interface allows.
 *  - An error from below is passed on unchanged, with its text. The text of a layer's own error
 *    begins with the layer's name.
 *  - Calls that failed below leave nothing to remember: on failure nothing was created.
 *  - Handles are remembered by address until they are freed; afterwards the address may be used
 *    again.
 *  - The layers' `shutdown` functions are called first, in the order of the layers, then the
 *    plugin's; nothing is called afterwards.
 */

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
