/* Tenon ABI: sessions (tenon.host.session/1): load, compile, bind, run, placement, profile. For
 * sdk/tools, samples, Python and embedding programs.
 *
 * libtenon.so exports one function, tenon_host_open. It returns tenon.host/1, whose query returns
 * this table.
 *
 *     const tenon_host_t* host;
 *     tenon_host_open(TENON_ABI_VERSION, NULL, &host);
 *     const tenon_host_session_t* s;
 *     host->query(host->self, STR(TENON_HOST_SESSION_ID), 0, (const void**)&s);
 *     s->model_load(s->self, path, NULL, 0, &model);
 *     s->compile(s->self, model, &options, &program);
 *     s->binding_create(s->self, program, &b);
 *     s->bind_input(...);
 *     s->run(s->self, b);
 *     s->output(...);
 *
 * Objects are created with one reference; release() releases it, and does nothing for null. The use
 * of one that was released is FAILED_PRECONDITION, T0626, and a second release is a line in the
 * log, until 1024 others of its kind were released later; then it may be a new object. So a
 * mistake is most likely seen, but no program may rely on it. Failures: tenon_host_t::last_failure.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_SESSION_H_
#define TENON_ABI_SESSION_H_

#include "tenon/abi/frontend.h"
#include "tenon/abi/graph.h"
#include "tenon/abi/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_SESSION_ID "tenon.host.session/1"
#define TENON_HOST_SESSION_MINOR 0u

/* How a process wants its host. All zero but size_bytes: as the environment says. Borrowed; copied.
 */
typedef struct tenon_host_options_t {
  uint32_t size_bytes;
  /* 1: only plugin_paths are searched, and neither the environment nor the installation. */
  uint32_t only_plugin_paths;
  /* Absolute paths of manifests or of folders with manifests, searched first. */
  const tenon_str_t* plugin_paths;
  uint64_t plugin_path_count;
  /* Override the environment, with the names of its variables: {"TENON_NUM_THREADS", "4"},
   * {"TENON_CACHE_DIR", "/var/cache/x"}. An empty value: as if the variable were unset. Plugins see
   * them through tenon_host_t::setting. Names are those that Tenon or the manifest of a plugin
   * lists. They hold with raised privileges too, since the program itself states them. */
  const tenon_key_value_t* settings;
  uint64_t setting_count;
  /* Receives what would go to stderr, one message per call, of the levels that TENON_LOGS shows
   * (TENON_LOG_*). Called from any thread, at once from several, while the host may hold locks, and
   * until the process ends: also from functions that run at exit. It must not call Tenon, nor wait
   * for a thread that does. A language binding therefore gives its interpreter's lock back around
   * every call of Tenon, and its sink drops messages once the interpreter ends. Null: stderr. */
  void* log_self;
  void (*log)(void* log_self, uint32_t level, tenon_str_t component, tenon_str_t text);
} tenon_host_options_t;

/* The only function that libtenon.so exports. The first call that succeeds starts the host of the
 * process: takes the options (null: none), reads the environment and scans manifests, but opens no
 * plugin. A later call returns the same host. What it asks for in `options` must hold already:
 * its paths are among those of the start (the same files, however written), the sink is the same,
 * and the settings had these values when the host started; else FAILED_PRECONDITION (P0911), which
 * says what differs. Unknown settings and bad values are INVALID_ARGUMENT (P0910). With
 * TENON_PLUGIN_STRICT, a plugin that failed is FAILED_PRECONDITION (P0905). A first call that fails
 * starts no host, and a later one with other options may.
 *
 * If several copies of libtenon.so are loaded, all return the host of the copy that was loaded
 * first, so that each plugin sees one host. A library that defines this function and passes the
 * call on to a copy of libtenon.so may be loaded before it.
 *
 * out_host is also set on failure, for last_failure only. Safe. */
TENON_EXPORT tenon_code_t tenon_host_open(uint32_t abi, const tenon_host_options_t* options,
                                          const tenon_host_t** out_host);

typedef struct tenon_model_t tenon_model_t;     /* a loaded graph; immutable; safe */
typedef struct tenon_program_t tenon_program_t; /* compiled and loaded on devices; safe */
/* Inputs and outputs for successive runs. For one thread at a time: a slot that is called while
 * another one runs on the same binding changes nothing and fails with FAILED_PRECONDITION, T0622.
 * Release it when no slot runs. */
typedef struct tenon_binding_t tenon_binding_t;

typedef struct tenon_session_options_t {
  uint32_t size_bytes;
  uint32_t no_fallback; /* 1: an error if a node is not placed on `device` */
  /* 1: the same bits for the same inputs in every run, and on every instruction set. */
  uint32_t deterministic;
  uint32_t option_count;
  /* "cpu", "sim:1", or several in order of preference, "sim,cpu": a device that is named gets every
   * node that it claims, whatever the cost. Empty: TENON_DEVICE, else by cost. */
  tenon_str_t device;
  tenon_str_t pipeline; /* passes before placement; empty: the standard one, "none": none */
  const tenon_key_value_t* options; /* for devices: "cpu.opt" */
  /* 1: where a kernel set and the device's own code can do the same, both are measured, and the
   * faster is taken. Takes a moment per distinct part; what was measured is cached. Not for
   * programs that are compiled into files. */
  uint32_t autotune;
  /* Inputs, by position, whose values are the same in most calls: weights that may be trained.
   * Where a device packs constants, it packs these too, once for each value: as long as calls give
   * the same tensors (call.h). Another tensor, or an array, is packed by the call that brings it.
   * They cannot be donated. T0696 for a position that the model does not have. No matter for
   * packages. */
  uint32_t stable_count;
  const uint32_t* stable_inputs;
} tenon_session_options_t;

/* An input or output. dims are texts ("batch", "2*n", "64"), because a model's dims may be
 * symbolic. Borrowed from the object. */
typedef struct tenon_port_t {
  uint32_t size_bytes;
  tenon_dtype_t dtype;
  uint16_t reserved;
  uint32_t rank;
  uint32_t reserved2;
  tenon_str_t name;
  const tenon_str_t* dim_texts;
  const int64_t* dims; /* the constant, or -1 */
} tenon_port_t;

typedef struct tenon_model_info_t {
  uint32_t size_bytes;
  uint32_t input_count, output_count, symbol_count;
  const tenon_port_t* inputs;
  const tenon_port_t* outputs;
  const tenon_str_t* symbol_names;
  uint64_t node_count;
  uint64_t constant_bytes;
} tenon_model_info_t;

typedef struct tenon_program_info_t {
  uint32_t size_bytes;
  uint32_t device_count; /* devices that took part */
  double compile_ms;
  uint64_t kernels_compiled, kernels_from_cache, kernel_count;
  uint64_t node_count, copy_count;
  /* The part of compile_ms in which devices load the code, and take and perhaps pack constants. */
  double load_ms;
  uint64_t code_bytes;     /* of the compiled code, on all devices */
  uint64_t constant_bytes; /* packed copies of constants that devices hold */
} tenon_program_info_t;

typedef struct tenon_run_info_t {
  uint32_t size_bytes;
  uint32_t reserved;
  uint64_t arena_bytes; /* workspaces and outputs on all devices in the last run */
  uint64_t arena_lower_bound_bytes;
  uint64_t transferred_bytes; /* to and from memory that the host cannot access */
  double run_ms;         /* of the last run that was timed: runs are, once a caller asks for it */
  uint64_t direct_bytes; /* between two devices of one plugin, without the host */
  uint64_t filled_bytes; /* one element repeated: devices made them, nothing was transferred */
} tenon_run_info_t;

#define TENON_PROFILE_PERFETTO 1u /* trace events as JSON */
#define TENON_PROFILE_TABLE 2u    /* JSON: costliest kernels with share, time, flops, bytes */

typedef struct tenon_host_session_t {
  uint32_t size_bytes;
  void* self;

  /* ---- Models ---- */
  /* Loads any file that a frontend can read, or .tir. */
  tenon_code_t (*model_load)(void* self, tenon_str_t path, const tenon_key_value_t* options,
                             uint32_t option_count, tenon_model_t** out_model);
  tenon_code_t (*model_load_bytes)(void* self, tenon_blob_t* bytes, tenon_str_t name,
                                   tenon_str_t folder, tenon_model_t** out_model);
  /* Clones the graph. */
  tenon_code_t (*model_from_graph)(void* self, tenon_graph_t* graph, tenon_model_t** out_model);
  tenon_code_t (*model_info)(void* self, tenon_model_t* model, tenon_model_info_t* out_info);
  /* Frozen, retained. */
  tenon_code_t (*model_graph)(void* self, tenon_model_t* model, tenon_graph_t** out_graph);
  void (*model_release)(void* self, tenon_model_t* model);

  /* ---- Programs ---- */
  tenon_code_t (*compile)(void* self, tenon_model_t* model, const tenon_session_options_t* options,
                          tenon_program_t** out_program);
  tenon_code_t (*program_info)(void* self, tenon_program_t* program,
                               tenon_program_info_t* out_info);
  /* Which node runs where and why, as JSON:
   *   {"schema":1,
   *    "devices":[{"device","nodes","bytes_in","bytes_out"}],
   *    "nodes":[{"node","op","device","origins","claim","refusals":[{"device","code","reason"}]}],
   *    "copies":[...]}
   * "claim" is there for nodes of an atomic claim; equal numbers were taken together. A node that
   * stands for a part of a composite has the reason that the device gave for the composite; then
   * the refusal also has "of", the composite's op, and "here", the reason for the node itself. If
   * sizes, axes or counts depend on values of inputs, the program is compiled when it runs. The
   * data above then describe the variant that ran last, and this describes all variants:
   *   "by_value":{"inputs":[{"input","why"}],"most","compiled","dropped","general",
   *               "why_not_general","variants":[{"for","runs","compile_ms"}]} */
  tenon_code_t (*placement)(void* self, tenon_program_t* program, const tenon_sink_t* json);
  /* One line for people: "12 of 340 nodes on cpu: ..."; empty if the device that was asked first
   * took all nodes. A device that was named and took nothing is listed, with its reason. */
  tenon_code_t (*placement_summary)(void* self, tenon_program_t* program, const tenon_sink_t* text);
  /* The text of a stage: "graph", "partition", or "DEVICE/stages" and the other names that the
   * device's dump supports. "report": for viewers, as JSON:
   *   {"schema":1,"graph":{as TENON_FORMAT_JSON},
   *    "segments":[{"device","by","nodes":[node],"numbers":[node],"kernels":TEXT,"why_not"}]}
   * "numbers" has, by node of the segment's own graph, the node of "graph", or -1; "kernels" is the
   * dump of that name, or empty with a reason in "why_not". */
  tenon_code_t (*dump)(void* self, tenon_program_t* program, tenon_str_t what,
                       const tenon_sink_t* text);
  void (*program_release)(void* self, tenon_program_t* program); /* bindings keep it alive */

  /* ---- Runs ---- */
  tenon_code_t (*binding_create)(void* self, tenon_program_t* program,
                                 tenon_binding_t** out_binding);
  /* Binds host memory as an input. Checks it against dtype, rank, constant dims and dims bound
   * before. Borrowed until another array is bound or the binding is released. run names all missing
   * inputs at once. */
  tenon_code_t (*bind_input)(void* self, tenon_binding_t* binding, tenon_str_t name,
                             const tenon_array_t* array);
  /* Gives the value of a symbolic size, for all later runs; one that follows from no input's dims
   * must be given, else run fails with T0623. T0602 for an unknown name. */
  tenon_code_t (*bind_size)(void* self, tenon_binding_t* binding, tenon_str_t name, int64_t value);
  /* Runs to the end. Invalidates the outputs of the previous run. */
  tenon_code_t (*run)(void* self, tenon_binding_t* binding);
  /* A dense host array, valid until the next run or release. */
  tenon_code_t (*output)(void* self, tenon_binding_t* binding, tenon_str_t name,
                         tenon_array_t* out_array);
  tenon_code_t (*run_info)(void* self, tenon_binding_t* binding, tenon_run_info_t* out_info);
  /* Collects timings of later runs; 0 stops. */
  tenon_code_t (*profile_enable)(void* self, tenon_binding_t* binding, uint32_t on);
  tenon_code_t (*profile_write)(void* self, tenon_binding_t* binding, uint32_t format,
                                const tenon_sink_t* sink);
  void (*binding_release)(void* self, tenon_binding_t* binding);

  /* ---- Tensors in files, through frontends ---- */
  tenon_code_t (*tensors_read)(void* self, tenon_str_t path, const tenon_file_tensor_sink_t* sink);
  /* The extension chooses the format. */
  tenon_code_t (*tensor_write)(void* self, tenon_str_t path, const tenon_file_tensor_t* tensor);

  /* ---- The process ---- */
  /* Asks every operation of the process to stop; safe from a signal handler. 0 withdraws the
   * request. */
  void (*cancel)(void* self, uint32_t on);
  /* Describes the host as JSON. what: "plugins" (each candidate with its gates; opens none),
   * "plugin" (the one of this name, loaded first so that all its gates are known), "lock" (the
   * content of a lock file for the usable plugins), "devices", "absent" (kinds of devices that
   * this machine cannot use, and why), "ops", "passes", "frontends",
   * "settings", "errors" (all stable codes with their explanations). filter: a name or glob; may be
   * empty. */
  tenon_code_t (*explain)(void* self, tenon_str_t what, tenon_str_t filter,
                          const tenon_sink_t* json);
  /* Runs passes: "canonicalize,cse,fold{max_bytes=64}". Changes the graph in place. print_after:
   * pass names, "all" or empty; the texts go to `prints`. stats: JSON. flags: TENON_PASSES_*. */
  tenon_code_t (*passes_run)(void* self, tenon_graph_t* graph, tenon_str_t passes,
                             tenon_str_t print_after, uint32_t flags, const tenon_sink_t* prints,
                             const tenon_sink_t* stats_json);
} tenon_host_session_t;

#define TENON_PASSES_VERIFY_EACH 1u

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
