/* Tenon ABI: programs in files (tenon.host.package/1). A package is one file with everything that a
 * compiled program needs to run: ports, sizes, the plan, each device's code and constants. A
 * program that is loaded from one is used as any other: tenon_binding_t (session.h) or call.h.
 * Loading opens the plugins of the devices that the package names, and nothing else: no frontend,
 * no compiler.
 *
 *     packages->save(packages->self, model, &options, STR("model.tpk"));        at build time
 *
 *     packages->load(packages->self, STR("model.tpk"), NULL, &program);         where it runs
 *     packages->ports(packages->self, program, &info);
 *     calls->call(calls->self, program, &call);
 *
 * A package holds native code, so loading one is as much a matter of trust as opening a library.
 *
 *
 * Stability: stable.
 */
#ifndef TENON_ABI_PACKAGE_H_
#define TENON_ABI_PACKAGE_H_

#include "tenon/abi/session.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_HOST_PACKAGE_ID "tenon.host.package/1"
#define TENON_HOST_PACKAGE_MINOR 0u

typedef struct tenon_package_options_t {
  uint32_t size_bytes;
  uint32_t reserved;
  /* As for tenon_host_session_t::compile; null: none. */
  const tenon_session_options_t* session;
  /* What the code is for, as the devices call it ("cpu isa=avx2"); session->device then names the
   * one device that is meant, which need not be in this machine. Empty: this machine's devices. */
  tenon_str_t target;
} tenon_package_options_t;

/* Reads all constants and compares their digests, too. Without it everything else is checked, and
 * constants are mapped without being read. */
#define TENON_PACKAGE_CHECK_CONSTANTS 1u

typedef struct tenon_package_load_options_t {
  uint32_t size_bytes;
  uint32_t flags; /* TENON_PACKAGE_* */
} tenon_package_load_options_t;

typedef struct tenon_host_package_t {
  uint32_t size_bytes;
  void* self;

  /* Compiles a model and writes the program. Opens no device. The file appears whole or not at all.
   * Fails as tenon_host_session_t::compile does; with T0107, T0108 or T0109 for the file; and with
   * T0520 for a program that cannot be written: one whose sizes depend on values of inputs, one
   * with an op that the program registers and defines by functions (plugins.h), or one whose device
   * does not compile for the target. Safe. */
  tenon_code_t (*save)(void* self, tenon_model_t* model, const tenon_package_options_t* options,
                       tenon_str_t path);
  /* Maps the file, which must not be changed while the program exists, and loads the program.
   * Devices without tenon_compile_api_t::pack get the constants as the model has them, and pack or
   * upload them each time: today all but `cpu`. A plugin that the program registers must be
   * registered here too. options may be null. T0101, T0103 or T0104 for a file that cannot be
   * opened, DATA_LOSS T0521 for a file that is damaged or no package,
   * FAILED_PRECONDITION T0522 for another version of the format, FAILED_PRECONDITION T0523 if this
   * machine or a plugin does not suit the package, NOT_FOUND T0502 or UNAVAILABLE T0503 for a
   * device that is missing. program_release as for any program; placement and placement_summary are
   * those of the compilation; dump has nothing to show. Safe. */
  tenon_code_t (*load)(void* self, tenon_str_t path, const tenon_package_load_options_t* options,
                       tenon_program_t** out_program);
  /* What a package holds, as JSON; checks the whole file and opens no plugin.
   *   {"schema":1,"format":1,"abi":"0.2","size_bytes",
   *    "inputs":[{"name","type","dims":[text]}],"outputs":[...],
   *    "symbols":[{"name","lo","hi","multiple_of"}],
   *    "plugins":[{"name","version","sha256"}],"devices":[{"device","plugin","target"}],
   *    "segments":[{"device","by","code_bytes","constants_bytes","packed"}],
   *    "nodes","steps","copies",
   *    "sections":[{"kind","offset","size_bytes","alignment"}]}
   * hi is absent where there is no bound; sha256 is empty for a plugin that a program registers.
   * Fails as load does for the file itself. Safe. */
  tenon_code_t (*describe)(void* self, tenon_str_t path, const tenon_sink_t* json);
  /* Inputs, outputs and symbols of any program, loaded or compiled. Borrowed from the program.
   * Safe.
   */
  tenon_code_t (*ports)(void* self, tenon_program_t* program, tenon_model_info_t* out_info);
  /* A frozen graph, retained for the caller, whose arguments are the inputs of any program, with
   * their symbols: for computing and checking sizes. What nodes it has, if any, means nothing.
   * Safe.
   */
  tenon_code_t (*signature)(void* self, tenon_program_t* program, tenon_graph_t** out_graph);
} tenon_host_package_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
