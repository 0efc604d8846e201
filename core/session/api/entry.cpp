// The one function that libtenon.so exports.
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/errors/guard.h"
#include "core/base/process/environment.h"
#include "core/host/host_interfaces.h"
#include "core/host/plugin_host.h"
#include "core/ir/dims/facts.h"
#include "core/ir/form.h"
#include "core/ir/host_graph.h"
#include "core/ir/host_notes.h"
#include "core/runtime/device/device.h"
#include "core/session/api/first_copy.h"
#include "core/session/api/host_extract.h"
#include "core/session/api/host_inspect.h"
#include "core/session/api/host_options.h"
#include "core/session/api/host_plugins.h"
#include "core/session/api/session.h"
#include "core/session/call/call.h"
#include "core/session/package/package.h"

namespace tenon::session {

namespace {

void register_interfaces() {
  host::register_service_interfaces();
  host::register_host_interface(TENON_HOST_GRAPH_ID, TENON_HOST_GRAPH_MINOR,
                                ir::host_graph_table());
  host::register_host_interface(TENON_HOST_FORM_ID, TENON_HOST_FORM_MINOR, ir::host_form_table());
  host::register_host_interface(TENON_HOST_FACTS_ID, TENON_HOST_FACTS_MINOR,
                                ir::host_facts_table());
  host::register_host_interface(TENON_HOST_NOTES_ID, TENON_HOST_NOTES_MINOR,
                                ir::host_notes_table());
  host::register_host_interface(TENON_HOST_REGISTRY_ID, TENON_HOST_REGISTRY_MINOR,
                                host_registry_table());
  host::register_host_interface(TENON_HOST_EXTRACT_ID, TENON_HOST_EXTRACT_MINOR,
                                host_extract_table());
  host::register_host_interface(TENON_HOST_INSPECT_ID, TENON_HOST_INSPECT_MINOR,
                                host_inspect_table());
  host::register_host_interface(TENON_HOST_SESSION_ID, TENON_HOST_SESSION_MINOR,
                                host_session_table());
  host::register_host_interface(TENON_HOST_CALL_ID, TENON_HOST_CALL_MINOR, host_call_table());
  host::register_host_interface(TENON_HOST_OPERATION_ID, TENON_HOST_OPERATION_MINOR,
                                host_operation_table());
  host::register_host_interface(TENON_HOST_PACKAGE_ID, TENON_HOST_PACKAGE_MINOR,
                                host_package_table());
  host::register_host_interface(TENON_HOST_PLUGINS_ID, TENON_HOST_PLUGINS_MINOR,
                                host_plugins_table());
}

// A normal end of the process. A program that calls exit while a call is in flight does so at its
// own risk.
void end_at_exit() {
  (void)std::atexit([] {
    runtime::set_plugins_shut_down();
    // The first failure is kept for the program: an atexit function that it registered before
    // opening the host runs after this one and finds the failure with `last_failure`.
    clear_failure();
    (void)guarded([] { return host::PluginHost::process().shutdown(); });
  });
}

Status start(const HostOptions& options) {
  apply_host_options(options);
  register_interfaces();
  TENON_RETURN_IF_ERROR(
      host::PluginHost::start({options.plugin_paths, nullptr, options.only_plugin_paths, true}));
  end_at_exit();
  return {};
}

}  // namespace

Status open_host(const tenon_host_options_t* given) {
  static std::mutex mutex;
  static const HostOptions* open = nullptr;
  std::lock_guard lock(mutex);
  TENON_ASSIGN_OR_RETURN(HostOptions wanted, read_host_options(given));
  if (open != nullptr) {
    TENON_RETURN_IF_ERROR(host::PluginHost::process().check_settings(wanted.settings));
    return check_same_options(wanted, *open);
  }
  TENON_RETURN_IF_ERROR(check_environment(wanted.settings));
  wanted.environment = variables_that_are_set();
  // Kept also when they are refused: a thread may be writing to their log.
  static auto* tried = new std::vector<std::unique_ptr<const HostOptions>>;
  tried->push_back(std::make_unique<const HostOptions>(std::move(wanted)));
  if (Status status = start(*tried->back()); !status.ok()) {
    static const HostOptions none;
    apply_host_options(none);
    return status;
  }
  open = tried->back().get();
  return {};
}

}  // namespace tenon::session

extern "C" tenon_code_t tenon_host_open(uint32_t abi, const tenon_host_options_t* options,
                                        const tenon_host_t** out_host) {
  using namespace tenon;  // NOLINT: the one place where C meets C++
  if (out_host == nullptr) return TENON_INVALID_ARGUMENT;
  // A library that only passes the call on, and was loaded before, leads back to here: the second
  // entry is meant for this copy.
  static thread_local bool passed_on = false;
  if (const session::HostOpen first = passed_on ? nullptr : session::open_of_first_copy()) {
    passed_on = true;
    const tenon_code_t code = first(abi, options, out_host);
    passed_on = false;
    return code;
  }
  clear_failure();
  return guarded([&]() -> Status {
    *out_host = host::host_table();  // also on failure, so that the caller can read the reason
    // Before 1.0 every minor is its own ABI.
    const bool speaks =
        TENON_ABI_MAJOR == 0 ? abi == TENON_ABI_VERSION : abi >> 16 == TENON_ABI_MAJOR;
    if (!speaks) {
      return error(TENON_FAILED_PRECONDITION, "P0305",
                   "the program speaks ABI {}.{}, and libtenon.so speaks {}.{}", abi >> 16,
                   abi & 0xffff, TENON_ABI_MAJOR, TENON_ABI_MINOR);
    }
    TENON_RETURN_IF_ERROR(session::open_host(options));
    return host::PluginHost::process().strict_status();
  });
}
