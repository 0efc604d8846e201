// The options of a compilation as callers of any age give them.
#pragma once
#include <tenon/abi/session.h>

#include "core/base/errors/status.h"
#include "core/session/compile/program.h"

namespace tenon::session {

// Null for the defaults. T0616 for a record or an array that cannot be read.
Result<CompileOptions> read_options(const tenon_session_options_t* options);

}  // namespace tenon::session
