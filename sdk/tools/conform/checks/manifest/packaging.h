// Group A, second half: checks of the library as a file, and of what opening it does to a process.
#pragma once
#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

Outcome exports(Session& session);
Outcome no_private_door(Session& session);
Outcome opens(Session& session);
Outcome binds_now(Session& session);
Outcome stack(Session& session);
Outcome segments(Session& session);
Outcome search_paths(Session& session);
Outcome needed_names(Session& session);
Outcome sanitizer(Session& session);
Outcome opens_fast(Session& session);
Outcome quiet(Session& session);
Outcome no_threads(Session& session);
Outcome process_state(Session& session);
Outcome descriptors(Session& session);

}  // namespace tenon::conform
