// tenon.host.session/1, tenon.host.registry/1 and starting the host.
#pragma once
#include <string>
#include <string_view>

#include <tenon/abi/host.h>
#include <tenon/abi/session.h>

#include "core/base/errors/status.h"

namespace tenon::session {

const tenon_host_session_t* host_session_table();
const tenon_host_registry_t* host_registry_table();

// Registers every host interface and scans manifests, once per process; loads no plugin. Threads:
// safe.
void start_host();

// Everything the host knows about `what`, as JSON: see tenon_host_session_t::explain. T0615 for an
// unknown `what`.
Result<std::string> explain(std::string_view what, std::string_view filter);

}  // namespace tenon::session
