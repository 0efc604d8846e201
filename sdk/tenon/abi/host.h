/* Tenon ABI: the smaller interfaces of the host: registry, threads, cache, files. Graphs are in
 * graph.h, sessions in session.h, tenon.host/1 in plugin.h. Tables live as long as the process. */
#ifndef TENON_ABI_HOST_H_
#define TENON_ABI_HOST_H_

#include "tenon/abi/graph.h"
#include "tenon/abi/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tenon.host.registry/1: ops and other plugins' interfaces ----
 *
 * Stability: stable. */

#define TENON_HOST_REGISTRY_ID "tenon.host.registry/1"
#define TENON_HOST_REGISTRY_MINOR 1u /* 1: provided_each */

typedef struct tenon_host_registry_t {
  uint32_t size_bytes;
  void* self;
  /* Finds the declaration of an op; version 0 is the current one: the newest of a plugin of a file,
   * the last registered of a plugin made at run time. Loads the plugin that provides it. NOT_FOUND
   * with suggestions. The record lives as long as the process and is full-size. Safe. */
  tenon_code_t (*op_find)(void* self, tenon_sym_t name, uint32_t version,
                          const tenon_op_def_t** out_op);
  /* Calls `visit` for the declarations that are in force, in order of name. Loads the plugins that
   * provide ops. */
  tenon_code_t (*op_each)(void* self, void* context,
                          void (*visit)(void* context, const tenon_op_def_t* op,
                                        tenon_str_t plugin));
  /* Fills `out_attrs` (op->attr_count entries) with the node's attributes in declared order,
   * defaults filled in. Borrowed as views. */
  tenon_code_t (*node_attrs)(void* self, tenon_graph_t* graph, tenon_node_t node,
                             tenon_attr_t* out_attrs);
  /* Evaluates one node on host arrays by its reference, its scalar program or its decomposition, in
   * this order. symbols: one value per symbol index of the graph. inputs: the operands; for a node
   * with regions, followed by the captures of each region, in the order of the views. Outputs are
   * written densely to `outputs[i].data`; if that is null the host allocates it, and array_free
   * frees it. Safe on a frozen graph. */
  tenon_code_t (*evaluate)(void* self, tenon_graph_t* graph, tenon_node_t node,
                           const int64_t* symbols, uint32_t symbol_count,
                           const tenon_array_t* inputs, uint32_t input_count,
                           tenon_array_t* outputs, uint32_t output_count);
  void (*array_free)(void* self, tenon_array_t* array);
  /* Finds a plugin's interface among those that manifests provide: kind "toolchain", "device",
   * "frontend", name "opencl-c", "cpu". Loads the plugin. If these headers define the interface,
   * `out_table` is full-size, with null in slots that the plugin lacks. For any other id (a
   * vendor's own) it is the plugin's table itself: not null, with size_bytes of at least 4, and the
   * caller must not read beyond that. NOT_FOUND with the reasons of all candidates. */
  tenon_code_t (*plugin_interface)(void* self, tenon_str_t kind, tenon_str_t name,
                                   tenon_str_t interface_id, const void** out_table);
  /* A number that grows whenever op_each would show something else: for tables made from it. Cheap.
   * Safe. */
  uint64_t (*op_changes)(void* self);

  /* Minor 1. */

  /* Calls `visit` for the names that enabled plugins provide of a kind ("collective"), those of a
   * higher priority first, else in the order of the host. Loads no plugin. Safe. */
  tenon_code_t (*provided_each)(void* self, tenon_str_t kind, void* context,
                                void (*visit)(void* context, tenon_str_t name));
} tenon_host_registry_t;

/* ---- tenon.host.threads/1: the one pool ----
 *
 * Stability: stable. */

#define TENON_HOST_THREADS_ID "tenon.host.threads/1"
#define TENON_HOST_THREADS_MINOR 1u

/* Runs elements [begin, end). worker: 0 <= worker < count, unique among the calls that run at once
 * in this region. */
typedef tenon_code_t (*tenon_range_fn_t)(void* context, uint32_t worker, int64_t begin,
                                         int64_t end);

/* Threads of another library, such as OpenMP's where a framework computes with them. Two sets of
 * threads in one process take each other's processors while they wait. */
typedef struct tenon_team_t {
  uint32_t size_bytes;
  uint32_t reserved;
  void* self;
  /* Calls work(context, worker) at once on `count` threads, or fewer, each with its own worker
   * below `count`; worker 0 is the calling thread, and always runs. Returns when all have returned.
   * `work` may wait for what other workers of it do. Must not throw. Called from any thread, also
   * from several at once. */
  void (*run)(void* self, uint32_t count, void (*work)(void* context, uint32_t worker),
              void* context);
  /* Threads that `run` would have for the calling thread, itself included. Cheap. */
  uint32_t (*count)(void* self);
} tenon_team_t;

typedef struct tenon_host_threads_t {
  uint32_t size_bytes;
  void* self;
  /* Runs fn over [0, n) in chunks of at least `grain`; the caller takes part. Returns when all are
   * done, with the first failure, after which no new chunk starts. Inside another region it runs
   * inline. A cancelled operation stops between chunks. Chunk boundaries depend on the number of
   * threads; results must not depend on them. */
  tenon_code_t (*parallel)(void* self, tenon_range_fn_t fn, void* context, int64_t n,
                           int64_t grain);
  uint32_t (*count)(void* self); /* threads that take part, the caller included */
  /* Regions that begin from now on run on this team, one region of the process at a time; another
   * one meanwhile, and those of a forked child, run on the pool. Null: all on the pool again. The
   * table must live as long as the process. A stated number of threads (TENON_NUM_THREADS) has the
   * pool, whatever was asked for. Safe. */
  void (*use_team)(void* self, const tenon_team_t* team);

  /* Minor 1. */

  /* The size of the pool, from the next region on, in place of TENON_NUM_THREADS; regions in flight
   * end on the old threads. While a number is stated, there is no team. 0: the default again, and
   * the team that was lent. INVALID_ARGUMENT above 1024. Safe. */
  tenon_code_t (*set_count)(void* self, uint32_t count);
  /* At most so many threads take part in a region that the calling thread begins, itself included,
   * and in those of calls that it starts in the background; 0: no limit. Returns the limit that
   * there was, which the caller sets again. It makes no thread and ends none. Safe. */
  uint32_t (*limit)(void* self, uint32_t count);
} tenon_host_threads_t;

/* ---- tenon.host.cache/1: files by content ----
 *
 * Stability: stable. */

#define TENON_HOST_CACHE_ID "tenon.host.cache/1"
#define TENON_HOST_CACHE_MINOR 0u

typedef struct tenon_host_cache_t {
  uint32_t size_bytes;
  void* self;
  /* Finds the entry of a kind ("object") under a key. A key is any bytes; one of 32 bytes should be
   * two digests, of the content and of the conditions of its compilation, by which
   * `tenon cache why` shows what is new. Its digest was checked. NOT_FOUND if there is
   * none, if it is damaged (a warning), or if caching is off. The caller releases the blob. */
  tenon_code_t (*get)(void* self, tenon_str_t kind, const void* key, uint64_t key_bytes,
                      tenon_blob_t** out_blob);
  /* Stores an entry atomically; several processes may write one key at once. A full disk or a
   * folder that cannot be written is a warning and OK. */
  tenon_code_t (*put)(void* self, tenon_str_t kind, const void* key, uint64_t key_bytes,
                      const void* data, uint64_t size_bytes);
  /* A path private to the process, for a file to map as code (0700, removed at the end). */
  tenon_code_t (*scratch_path)(void* self, tenon_str_t name, const tenon_sink_t* out_path);
} tenon_host_cache_t;

/* ---- tenon.host.files/1: all access to the file system ----
 *
 * Stability: stable. */

#define TENON_HOST_FILES_ID "tenon.host.files/1"
#define TENON_HOST_FILES_MINOR 0u

typedef struct tenon_host_files_t {
  uint32_t size_bytes;
  void* self;
  /* Maps a regular file that the user named, read-only. */
  tenon_code_t (*map)(void* self, tenon_str_t path, tenon_blob_t** out_blob);
  /* Maps a file that data named. It must be beneath `folder`, reached without links, regular, with
   * one hard link, and contain [offset, offset + size) (size UINT64_MAX: to the end).
   * PERMISSION_DENIED, OUT_OF_RANGE or NOT_FOUND with the name and the rule. */
  tenon_code_t (*map_beneath)(void* self, tenon_str_t folder, tenon_str_t name, uint64_t offset,
                              uint64_t size_bytes, tenon_blob_t** out_blob);
  /* Writes a whole file: under a temporary name, then renames. Refuses links. Never leaves half a
   * file at `path`. */
  tenon_code_t (*write)(void* self, tenon_str_t path, const void* data, uint64_t size_bytes);
} tenon_host_files_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
