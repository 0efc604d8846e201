// Checks of what crosses the boundary between host and plugin besides the tables: variables,
// libraries, exceptions, memory and pointers. Calls of the library are observed through
// call_hooks.h.
#pragma once
#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

Outcome own_variables(Session& session);            // R-A29
Outcome lists_without_libraries(Session& session);  // R-A30
Outcome no_exceptions(Session& session);            // R-B23
Outcome frees_its_own(Session& session);            // R-B24
Outcome keeps_no_pointers(Session& session);        // R-B25
Outcome unavailable(Session& session);              // R-C29

}  // namespace tenon::conform
