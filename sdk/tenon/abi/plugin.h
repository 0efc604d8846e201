/* Tenon ABI: the door. The one symbol a plugin exports, the record it answers with, and the
 * interface the host hands in (tenon.host/1). Both sides ask by string id; unknown ids are ignored
 * by both.
 *
 * Second, unlike users: every plugin of the tree, the C device `null`, the test plugins,
 * out-of-tree samples.
 */
#ifndef TENON_ABI_PLUGIN_H_
#define TENON_ABI_PLUGIN_H_

#include "tenon/abi/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define TENON_EXPORT __declspec(dllexport)
#else
#define TENON_EXPORT __attribute__((visibility("default")))
#endif

/* ---- tenon.host/1
 * ------------------------------------------------------------------------------------ */

#define TENON_HOST_ID "tenon.host/1"

#define TENON_LOG_ERROR 0u
#define TENON_LOG_WARN 1u
#define TENON_LOG_INFO 2u
#define TENON_LOG_DEBUG 3u

/* The last failure of the calling thread. Borrowed until that thread's next call into the host. */
typedef struct tenon_failure_t {
  uint32_t size_bytes;
  tenon_code_t code;
  tenon_str_t id;      /* stable code such as "T0312"; empty when a plugin gave none */
  tenon_str_t message; /* whole sentences: what, where, what to do */
  const tenon_key_value_t* details;
  uint32_t detail_count;
  uint32_t reserved;
} tenon_failure_t;

/* Lives as long as the process. All slots are safe and never null. */
typedef struct tenon_host_t {
  uint32_t size_bytes;
  uint32_t abi; /* TENON_ABI_VERSION of the host */
  void* self;

  /* Looks up a host interface by id and least minor. The table lives as long as the process.
   * NOT_FOUND when this host has no such interface: do without it or refuse with a reason. */
  tenon_code_t (*query)(void* self, tenon_str_t id, uint32_t minor, const void** out_table);

  /* Records a failure for the calling thread and returns `code`, so that a plugin writes
   * `return host->fail(...)`. A message may begin with a stable code and a colon ("T0312: ..."),
   * which becomes the failure's id. Everything is copied. */
  tenon_code_t (*fail)(void* self, tenon_code_t code, tenon_str_t message,
                       const tenon_key_value_t* details, uint32_t detail_count);
  /* Reads it back. OK and a zeroed record when there is none. */
  tenon_code_t (*last_failure)(void* self, tenon_failure_t* out_failure);

  /* Logging by component through TENON_LOGS; ask before building an expensive text. */
  uint32_t (*log_enabled)(void* self, tenon_str_t component, uint32_t level);
  void (*log)(void* self, tenon_str_t component, uint32_t level, tenon_str_t text);

  tenon_sym_t (*intern)(void* self, tenon_str_t text);
  tenon_str_t (*sym_text)(void* self, tenon_sym_t sym); /* lives as long as the process */

  /* 1 when the operation that the calling thread works for was asked to stop. Cheap: poll it in
   * long loops. The one pool carries the operation over to its workers. */
  uint32_t (*cancelled)(void* self);
  /* Reports progress of long work to whoever listens; total 0 is unknown. */
  void (*progress)(void* self, tenon_str_t phase, uint64_t done, uint64_t total);

  /* Reads a setting: a documented environment variable, or an option of the running command. Names
   * are those of the variables (TENON_CPU_ISA). Empty when unset. The text lives as long as the
   * process. Ignored, hence empty, when the process runs with raised privileges. */
  tenon_str_t (*setting)(void* self, tenon_str_t name);
} tenon_host_t;

/* ---- The plugin
 * ---------------------------------------------------------------------------------------- */

/* One interface that a plugin offers. `table` begins with uint32_t size_bytes. */
typedef struct tenon_interface_t {
  tenon_str_t id; /* "tenon.device/1", "vendor.feature/2" */
  uint32_t minor;
  uint32_t reserved;
  const void* table;
} tenon_interface_t;

/* Static data of the plugin; lives as long as the process, since libraries are never closed. */
typedef struct tenon_plugin_t {
  uint32_t size_bytes;
  uint32_t abi;         /* TENON_ABI_VERSION it was compiled with */
  tenon_str_t name;     /* equals the manifest's */
  tenon_str_t version;  /* semver */
  tenon_str_t build_id; /* free text: compiler, revision */
  void* self;
  const tenon_interface_t* interfaces;
  uint64_t interface_count;
  /* Optional. Called once before the process ends normally, when no call is in flight. Not a
   * destructor: devices and buffers may still be open, and after it the host calls the plugin no
   * more, not even to release them. */
  tenon_code_t (*shutdown)(void* self);
} tenon_plugin_t;

/* The only exported symbol. Called once per process, on first use of something the manifest
 * provides.
 *
 * max_abi  the newest packed ABI version the host speaks; an older plugin ignores it, a newer one
 * may answer in the older form or refuse. host     lives as long as the process; the plugin keeps
 * the pointer. out      set on OK.
 *
 * Must not start threads, touch devices beyond looking whether they exist, or take longer than a
 * second. A refusal is a code other than OK with a reason given to host->fail: the plugin is listed
 * with it and skipped. Threads: never called concurrently. */
typedef tenon_code_t (*tenon_plugin_query_t)(uint32_t max_abi, const tenon_host_t* host,
                                             const tenon_plugin_t** out);
TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* host,
                                             const tenon_plugin_t** out);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
