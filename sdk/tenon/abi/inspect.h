/* Tenon ABI: looking inside (tenon.host.inspect/1): graphs between passes, the cache folder, and
 * what the process was doing when it crashed. For command lines and debuggers; no program needs it
 * to run a model.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_INSPECT_H_
#define TENON_ABI_INSPECT_H_

#include "tenon/abi/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_INSPECT_ID "tenon.host.inspect/1"
#define TENON_HOST_INSPECT_MINOR 0u

/* How passes are run and what is printed between them. Borrowed for the call. */
typedef struct tenon_passes_options_t {
  uint32_t size_bytes;
  uint32_t flags;           /* TENON_PASSES_* */
  tenon_str_t print_before; /* names of passes in the pipeline, "all", or empty */
  tenon_str_t print_after;
} tenon_passes_options_t;

#define TENON_PASSES_PRINT_CHANGED 2u /* after each pass that changed the graph */
#define TENON_PASSES_PRINT_DIFF 4u    /* the lines in which each pass changed it */
/* For graph_write: like ELIDED, but a value without a name is named by its index, which passes that
 * change other lines leave. */
#define TENON_FORMAT_NUMBERED 6u

/* One question to the cache. Borrowed for the call of the sink. */
typedef struct tenon_cache_lookup_t {
  uint32_t size_bytes;
  uint32_t found; /* 0: no entry; 1: in the cache; 2: in the folder that the installation ships */
  tenon_str_t kind;
  tenon_str_t name; /* of the entry's file */
  /* Where none was found: how the key differs from the most similar one of this kind, in words;
   * empty if there is no other. */
  tenon_str_t difference;
} tenon_cache_lookup_t;

typedef struct tenon_cache_lookup_sink_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  void (*lookup)(void* self, const tenon_cache_lookup_t* lookup); /* from any thread, in turn */
} tenon_cache_lookup_sink_t;

typedef struct tenon_host_inspect_t {
  uint32_t size_bytes;
  void* self;
  /* As tenon_host_session_t::passes_run, with more to print. Graphs that are printed have no
   * elements of constants (TENON_FORMAT_ELIDED). prints and stats_json may be null. */
  tenon_code_t (*passes_run)(void* self, tenon_graph_t* graph, tenon_str_t passes,
                             const tenon_passes_options_t* options, const tenon_sink_t* prints,
                             const tenon_sink_t* stats_json);

  /* ---- The cache folder; safe, also while other processes use it ---- */
  /* The folder as JSON, entries least recently used first:
   *   {"schema":1,"folder","usable","why_not","limit_bytes","bytes",
   *    "entries":[{"kind","name","bytes","used_ns"}]}
   * An entry's use is known to the hour. Without a folder: not usable, with the reason. */
  tenon_code_t (*cache_list)(void* self, const tenon_sink_t* json);
  /* Removes least recently used entries until at most `max_bytes` are left, with what killed
   * writers left. FAILED_PRECONDITION (T0801) without a usable folder. */
  tenon_code_t (*cache_prune)(void* self, uint64_t max_bytes, uint64_t* out_removed_bytes);
  /* From now on passes each look-up of this process to `sink`; null stops. Setup only. */
  tenon_code_t (*cache_watch)(void* self, const tenon_cache_lookup_sink_t* sink);

  /* ---- Crashes ---- */
  /* For the handler of a signal that ends the process, on the thread that got the signal. Writes
   * what was asked of which plugin ("the pass `x` of the plugin `y`") into `text`, cut at
   * `size_bytes`, ended by 0. Returns its length; 0 if no plugin was at work. Async-signal-safe. */
  uint32_t (*crash_describe)(void* self, char* text, uint32_t size_bytes);
  /* For a child process that the handler forked. Writes the graph that was being worked on into the
   * folder of reproducers, and its path into `path`. It uses memory that may be damaged, so it may
   * crash or hang. UNAVAILABLE if nothing can be written. */
  tenon_code_t (*crash_save)(void* self, char* path, uint32_t size_bytes);
} tenon_host_inspect_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
