/* Tenon ABI: plugins made at run time (tenon.host.plugins/1): a program registers a plugin that is
 * part of itself. It serves ops, passes, kernel sets, frontends, devices and toolchains like a
 * plugin of a library, and the host checks, lists and explains it in the same way.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_PLUGINS_H_
#define TENON_ABI_PLUGINS_H_

#include "tenon/abi/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_PLUGINS_ID "tenon.host.plugins/1"
#define TENON_HOST_PLUGINS_MINOR 0u

typedef struct tenon_host_plugins_t {
  uint32_t size_bytes;
  void* self;
  /* Registers a plugin. `manifest` is the text of a manifest without `library` and `sha256`; its
   * `provides` names exactly what the tables have. TENON_PLUGINS_SELECT, TENON_PLUGINS_DISABLE, the
   * lock file and TENON_LAYERS hold as for a plugin of a file.
   *
   * Rules: an op has a namespace, a dot in its name ("demo.scale_shift"). The plugin's name, and
   * the names of its ops, passes, frontends, devices and toolchains, are taken by no other plugin.
   *
   * A plugin that was registered may be registered again under its name. That replaces it as a
   * whole: graphs built from now on get its ops, programs compiled from now on its kernels and
   * passes. Graphs that exist keep the definitions with which they were built, programs keep
   * everything. Not possible for devices and toolchains, which may be open.
   *
   * Definitions of ops: while a decomposition, a fold or a rewrite of a registered op builds nodes,
   * a name without a version means the definition that was current when that op was registered; if
   * there was none yet, the first. Later definitions change nothing in it, until it is registered
   * again. A kernel set is asked about a registered op only for the definition that was current
   * when the set was registered, the device's own set included.
   *
   * Calls: all that is registered is called from any thread of the host, and devices, layers and
   * functions that make tables while the host holds locks. They must not wait for a thread that
   * calls Tenon: a language binding gives its interpreter's lock back around every slot that it
   * calls. `shutdown` is called as the process exits, when an interpreter may be gone. A process
   * must not fork while one of its threads registers: the child would wait for the lock for ever.
   *
   * Lifetime: the record, its tables and all that they point to live as long as the process, also
   * when replaced, since graphs and programs may use them. If this fails they may be freed at once:
   * nothing of a refused plugin is left.
   *
   * Failures: INVALID_ARGUMENT with what is wrong in the manifest (P02..), the tables (P08..) or an
   * op (T0320); ALREADY_EXISTS (P0909) for a name that is taken; UNAVAILABLE if the user disabled
   * the plugin (P04..); FAILED_PRECONDITION (P0908) if it cannot be replaced, or if called while
   * the calling thread loads a plugin. Safe, also while programs run. */
  tenon_code_t (*plugin_register)(void* self, const tenon_plugin_t* plugin, tenon_str_t manifest);
  /* Takes a registered plugin back, as if it were replaced by an empty one. Its `shutdown` is
   * called at the end of the process. NOT_FOUND (P0903) for a name that is not registered,
   * FAILED_PRECONDITION (P0908) if it cannot be taken back. Safe. */
  tenon_code_t (*plugin_unregister)(void* self, tenon_str_t name);
} tenon_host_plugins_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
