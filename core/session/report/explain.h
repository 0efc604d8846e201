// Everything the host knows, as JSON: see tenon_host_session_t::explain.
#pragma once
#include <string>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon::session {

// Everything the host knows about `what`, as JSON. T0615 for an unknown `what`.
Result<std::string> explain(std::string_view what, std::string_view filter);

}  // namespace tenon::session
