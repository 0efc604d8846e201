// tenon bench --collectives.
#pragma once
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {

// Measures transfers between the processes of this job; the first one prints. Returns the exit
// status.
int bench_collectives(const Host& host, bool json);

}  // namespace tenon::tools
