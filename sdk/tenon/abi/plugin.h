/* Tenon ABI: the entry point: the one symbol that a plugin exports, the record it returns, and the
 * host interface it receives (tenon.host/1). Both sides look up interfaces by string id and ignore
 * unknown ids.
 *
 *
 * Stability: stable.
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

/* ---- tenon.host/1 ---- */

#define TENON_HOST_ID "tenon.host/1"
#define TENON_HOST_MINOR 0u

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

  /* Looks up a host interface by id and minimum minor. The table lives as long as the process.
   * NOT_FOUND if this host lacks the interface: do without it, or refuse with a reason. */
  tenon_code_t (*query)(void* self, tenon_str_t id, uint32_t minor, const void** out_table);

  /* Records a failure for the calling thread and returns `code`, so that a plugin writes
   * `return host->fail(...)`. A message may begin with a stable code and a colon ("T0312: ..."),
   * which becomes the failure's id. Everything is copied. */
  tenon_code_t (*fail)(void* self, tenon_code_t code, tenon_str_t message,
                       const tenon_key_value_t* details, uint32_t detail_count);
  /* Reads the failure back. OK and a zeroed record if there is none. */
  tenon_code_t (*last_failure)(void* self, tenon_failure_t* out_failure);

  /* Logging by component, controlled by TENON_LOGS. Call log_enabled before building an expensive
   * text. */
  uint32_t (*log_enabled)(void* self, tenon_str_t component, uint32_t level);
  void (*log)(void* self, tenon_str_t component, uint32_t level, tenon_str_t text);

  tenon_sym_t (*intern)(void* self, tenon_str_t text);
  tenon_str_t (*sym_text)(void* self, tenon_sym_t sym); /* lives as long as the process */

  /* 1 if the operation that the calling thread works for was asked to stop. Cheap: poll it in long
   * loops. The thread pool carries the operation over to its workers. */
  uint32_t (*cancelled)(void* self);
  /* Reports progress of long work; total 0: unknown. */
  void (*progress)(void* self, tenon_str_t phase, uint64_t done, uint64_t total);

  /* Reads a setting: what the program gave to tenon_host_open, else the environment variable of
   * this name (TENON_CPU_ISA), which a process with raised privileges ignores. Empty if unset. The
   * text lives as long as the process. */
  tenon_str_t (*setting)(void* self, tenon_str_t name);
} tenon_host_t;

/* ---- The plugin ---- */

/* One interface that a plugin offers. `table` begins with uint32_t size_bytes. */
typedef struct tenon_interface_t {
  tenon_str_t id; /* "tenon.device/1", "vendor.feature/2" */
  /* What the plugin needs: the minor of the newest slot or field of the interface without which it
   * does not work. A host whose own minor (TENON_DEVICE_MINOR and so on) is lower refuses the
   * plugin with P0305. 0: the first form of the interface is enough, and newer slots of the table
   * are extras. */
  uint32_t minor;
  uint32_t reserved;
  const void* table;
} tenon_interface_t;

/* Static data of the plugin. Lives as long as the process, because libraries are never closed. */
typedef struct tenon_plugin_t {
  uint32_t size_bytes;
  uint32_t abi;         /* TENON_TARGET_ABI: the version that it needs */
  tenon_str_t name;     /* equals the manifest's */
  tenon_str_t version;  /* semver */
  tenon_str_t build_id; /* free text: compiler, revision */
  void* self;
  const tenon_interface_t* interfaces;
  uint64_t interface_count;
  /* Optional. Called once before a normal end of the process, when no call is in flight. Not a
   * destructor: devices and buffers may still be open. After it the host never calls the plugin
   * again, not even to release them. */
  tenon_code_t (*shutdown)(void* self);
  uint32_t interface_bytes; /* sizeof(tenon_interface_t) when the plugin was compiled */
  uint32_t reserved;
} tenon_plugin_t;

/* The only exported symbol. Called once per process, on first use of something that the manifest
 * provides.
 *
 *   max_abi  The newest packed ABI version that the host supports. An older plugin ignores it; a
 *            newer one may return the older form or refuse.
 *   host     Lives as long as the process; the plugin keeps the pointer.
 *   out      Set on OK.
 *
 * It must not start threads, touch devices beyond checking whether they exist, or take longer than
 * a second. To refuse, it returns a code other than OK and gives the reason to host->fail; the
 * plugin is then listed with the reason and skipped. Threads: never called concurrently.
 */
typedef tenon_code_t (*tenon_plugin_query_t)(uint32_t max_abi, const tenon_host_t* host,
                                             const tenon_plugin_t** out);
TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t max_abi, const tenon_host_t* host,
                                             const tenon_plugin_t** out);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
