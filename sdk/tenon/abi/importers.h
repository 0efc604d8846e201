/* Tenon ABI: importers of a plugin (tenon.importers/1): how nodes of one domain of a file format
 * become nodes of ours. A frontend that meets an op that it does not know asks the plugin that
 * provides the op's domain, which its manifest names under `importers` as "FORMAT:DOMAIN".
 *
 * An op whose operands and attributes are those of the file's node needs no importer: its
 * declaration may name it (tenon_foreign_name_t in ops.h).
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_IMPORTERS_H_
#define TENON_ABI_IMPORTERS_H_

#include "tenon/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_IMPORTERS_ID "tenon.importers/1"
#define TENON_IMPORTERS_MINOR 0u

/* One node of a file. Borrowed for the call. */
typedef struct tenon_import_t {
  uint32_t size_bytes;
  uint32_t operand_count, attr_count, result_count;
  int64_t version;                /* of the domain, as the file names it; at least 1 */
  tenon_str_t op;                 /* its name in the file */
  const tenon_builder_t* builder; /* new nodes go here, and get the location of the file's node */
  const tenon_value_t* operands;  /* in the file's order; TENON_NONE: absent */
  /* As the file has them, in its order: I64, F64, STRING, I64S, F64S and STRINGS. A node with other
   * kinds (tensors, graphs) does not reach an importer. */
  const tenon_attr_t* attrs;
} tenon_import_t;

typedef struct tenon_importer_t {
  tenon_str_t op; /* the node's name in the file; several entries may share it */
  uint32_t since; /* the newest one that is not newer than the file's domain is taken */
  uint32_t reserved;
  void* self;
  /* Builds what the node means and sets one value per result. They are TENON_NONE before, and stay
   * so for a result that the node does not give: an error where the file uses it. INVALID_ARGUMENT
   * with a sentence about the operand or attribute that is wrong; the frontend adds the node and
   * its place. Safe. */
  tenon_code_t (*import_node)(void* self, const tenon_import_t* node, tenon_value_t* out_results);
} tenon_importer_t;

/* Static, one domain per plugin. */
typedef struct tenon_importers_t {
  uint32_t size_bytes;
  uint32_t importer_bytes; /* sizeof(tenon_importer_t) when the plugin was compiled */
  tenon_str_t format;      /* the frontend's name: "onnx" */
  tenon_str_t domain;      /* "com.acme" */
  const tenon_importer_t* importers;
  uint64_t importer_count;
} tenon_importers_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
