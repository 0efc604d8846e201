// tenon.host.session/1, tenon.host.registry/1 and starting the host.
#pragma once
#include <tenon/abi/host.h>
#include <tenon/abi/session.h>

#include "core/base/errors/status.h"

namespace tenon::session {

const tenon_host_session_t* host_session_table();
const tenon_host_registry_t* host_registry_table();

// Starts the host of the process, or compares the options with those that it has: see
// tenon_host_open. Threads: safe.
Status open_host(const tenon_host_options_t* options);

}  // namespace tenon::session
