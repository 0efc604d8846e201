// tenon.host.graph/1 over ir::Graph. Failures are recorded for the calling thread
// (core/base/errors/failure.h).
#pragma once
#include <tenon/abi/graph.h>

namespace tenon::ir {

// Lives as long as the process. Threads: see tenon/abi/graph.h.
const tenon_host_graph_t* host_graph_table();

}  // namespace tenon::ir
