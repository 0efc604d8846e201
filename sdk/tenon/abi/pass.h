/* Tenon ABI: passes (tenon.pass/1). A pass is a record and either `run`, which may change a graph
 * in any way, or rewrites that the host drives and bounds.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_PASS_H_
#define TENON_ABI_PASS_H_

#include "tenon/abi/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_PASS_ID "tenon.pass/1"
#define TENON_PASS_MINOR 0u

typedef struct tenon_pass_option_def_t {
  tenon_str_t name, doc;
  uint32_t kind; /* TENON_ATTR_I64, F64 or STRING */
  uint32_t reserved;
  tenon_str_t default_text;
} tenon_pass_option_def_t;

/* What `run` receives. count adds to a statistic, by name. */
typedef struct tenon_pass_context_t {
  uint32_t size_bytes;
  uint32_t option_count;
  const tenon_attr_t* options; /* one per declared option, in declared order, defaults filled in */
  void* host;
  void (*count)(void* host, tenon_str_t statistic, int64_t amount);
  /* Whether the planned devices take this node whole: TENON_YES or TENON_NO. NO without devices.
   * For legalize. */
  uint32_t (*claimed)(void* host, tenon_node_t node);
} tenon_pass_context_t;

typedef struct tenon_pass_def_t {
  uint32_t size_bytes;
  uint32_t option_count;
  tenon_str_t name;        /* "fuse-elementwise" */
  tenon_str_t summary;     /* one line */
  tenon_str_t description; /* paragraphs */
  /* .tir graphs: run(before) prints after. Executed as a test, which applies every rewrite with a
   * root. */
  tenon_str_t before, after;
  const tenon_pass_option_def_t* options;
  const tenon_str_t* statistics;
  uint32_t statistic_count;
  uint32_t rewrite_count;
  tenon_str_t requires_, preserves, establishes; /* comma-separated properties: "legal", "folded" */
  void* self;
  /* Either run... One at a time per graph; safe on different graphs. On failure the graph is
   * discarded. */
  tenon_code_t (*run)(void* self, tenon_graph_t* graph, const tenon_pass_context_t* context);
  /* ...or rewrites. */
  const tenon_rewrite_t* rewrites;
  uint32_t option_bytes; /* sizeof(tenon_pass_option_def_t) when the plugin was compiled */
  uint32_t reserved;
} tenon_pass_def_t;

/* Option i of a declaration. A helper. */
static inline const tenon_pass_option_def_t* tenon_pass_option(const tenon_pass_def_t* pass,
                                                               uint64_t i) {
  return (const tenon_pass_option_def_t*)tenon_record_at(pass->options, i, pass->option_bytes);
}

typedef struct tenon_passes_t {
  uint32_t size_bytes;
  void* self;
  const tenon_pass_def_t* const* passes; /* static */
  uint64_t pass_count;
} tenon_passes_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
