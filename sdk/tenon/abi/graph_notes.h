/* Tenon ABI: notes on a graph (tenon.host.notes/1). A note is an attribute at a node or a value,
 * named `space.name`: what a pass finds out, for a later pass or for a device's claim. It is in the
 * text form, `{acme.cluster = 3}`, and in the binary form, in which packages hold graphs.
 *
 * A note changes nothing that is computed. Structural hashes leave notes out, so code that was
 * compiled for a part of a graph serves every part that differs in notes alone: `claim` may read
 * notes, and what `compile` makes must not depend on them.
 *
 * Notes stay with their node or value in clones, in parts that are cut out, and in bodies that are
 * copied. Where a value replaces another (value_replace, node_replace, rewrites), it takes over the
 * notes whose names it lacks. The node that it is a result of takes over those of the old node in
 * the same way, if it was built for the place (its result had no other use), or is of the same op
 * (equal nodes are merged). Erasing a node or value erases its notes.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_GRAPH_NOTES_H_
#define TENON_ABI_GRAPH_NOTES_H_

#include "tenon/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_NOTES_ID "tenon.host.notes/1"
#define TENON_HOST_NOTES_MINOR 0u

/* What a note is at. */
#define TENON_NOTED_NODE 0u
#define TENON_NOTED_VALUE 1u

/* Of one note: its numbers, or its texts. */
#define TENON_NOTE_BYTES_MAX 65536u

typedef struct tenon_host_notes_t {
  uint32_t size_bytes;
  void* self;
  /* The notes of a node or value, sorted by name. Borrowed until the graph's next mutation. Safe on
   * a frozen graph. */
  tenon_code_t (*notes)(void* self, tenon_graph_t* graph, uint32_t noted, uint32_t index,
                        const tenon_attr_t** out_notes, uint32_t* out_count);
  /* Sets a note, replacing one of the same name; copied. Kinds: I64, F64, STRING and lists of them.
   * INVALID_ARGUMENT T0327 for a name that is not `space.name` (parts of a-z, 0-9, `_` and `-`), or
   * whose space belongs to no plugin. A plugin has the space of its own name, and the first parts
   * of the names of its ops and passes that have a dot. `user` is for people, and
   * `python` for passes in Python; both are always known. */
  tenon_code_t (*note_set)(void* self, tenon_graph_t* graph, uint32_t noted, uint32_t index,
                           const tenon_attr_t* note);
  /* Does nothing if there is no such note. */
  tenon_code_t (*note_erase)(void* self, tenon_graph_t* graph, uint32_t noted, uint32_t index,
                             tenon_sym_t name);
  /* Copies the notes of another node or value of the graph whose names this one lacks, as for a
   * node that was built of several. */
  tenon_code_t (*notes_take)(void* self, tenon_graph_t* graph, uint32_t noted, uint32_t index,
                             uint32_t from);
} tenon_host_notes_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
