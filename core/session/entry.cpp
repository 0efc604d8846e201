// The one function that libtenon.so exports.
#include <cstdlib>
#include <mutex>

#include "core/base/errors/guard.h"
#include "core/host/host_interfaces.h"
#include "core/host/plugin_host.h"
#include "core/ir/dims/facts.h"
#include "core/ir/form.h"
#include "core/ir/host_graph.h"
#include "core/runtime/device.h"
#include "core/session/call.h"
#include "core/session/host_extract.h"
#include "core/session/host_kernels.h"
#include "core/session/package.h"
#include "core/session/session.h"

namespace tenon::session {

void start_host() {
  static std::once_flag once;
  std::call_once(once, [] {
    host::register_service_interfaces();
    host::register_host_interface(TENON_HOST_GRAPH_ID, 0, ir::host_graph_table());
    host::register_host_interface(TENON_HOST_FORM_ID, 0, ir::host_form_table());
    host::register_host_interface(TENON_HOST_FACTS_ID, 0, ir::host_facts_table());
    host::register_host_interface(TENON_HOST_REGISTRY_ID, 0, host_registry_table());
    host::register_host_interface(TENON_HOST_EXTRACT_ID, 0, host_extract_table());
    host::register_host_interface(TENON_HOST_KERNELS_ID, 0, host_kernels_table());
    host::register_host_interface(TENON_HOST_SESSION_ID, 0, host_session_table());
    host::register_host_interface(TENON_HOST_CALL_ID, 0, host_call_table());
    host::register_host_interface(TENON_HOST_PACKAGE_ID, 0, host_package_table());
    (void)host::PluginHost::process();
    // A normal end of the process. A program that calls exit while a call is in flight does so at
    // its own risk.
    (void)std::atexit([] {
      runtime::set_plugins_shut_down();
      // The first failure is kept for the program: an atexit function that it registered before
      // opening the host runs after this one and finds the failure with `last_failure`.
      clear_failure();
      (void)guarded([] { return host::PluginHost::process().shutdown(); });
    });
  });
}

}  // namespace tenon::session

extern "C" tenon_code_t tenon_host_open(uint32_t abi, const tenon_host_t** out_host) {
  using namespace tenon;  // NOLINT: the one place where C meets C++
  clear_failure();
  if (out_host == nullptr) return TENON_INVALID_ARGUMENT;
  return guarded([&]() -> Status {
    *out_host = host::host_table();  // also on failure, so that the caller can read the reason
    session::start_host();
    if (abi >> 16 != TENON_ABI_MAJOR) {
      return error(TENON_FAILED_PRECONDITION, "P0305",
                   "the program speaks ABI {}.{}, and libtenon.so speaks {}.{}", abi >> 16,
                   abi & 0xffff, TENON_ABI_MAJOR, TENON_ABI_MINOR);
    }
    return host::PluginHost::process().strict_status();
  });
}
