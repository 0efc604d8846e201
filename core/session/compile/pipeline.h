// Passes for sessions: the registry of passes over the plugin host, the standard pipeline before
// placement.
#pragma once
#include <string_view>

#include "core/dispatch/placement/placement.h"
#include "core/ir/graph.h"
#include "core/pass/manager.h"

namespace tenon::session {

pass::Registry& pass_registry();
const pass::HostTables& host_tables();

// Changes the graph in place. pipeline: empty for the standard one, "none" for none. Whether a node
// is claimed, as passes may ask, is decided by the candidates (not by their fallbacks). Returns the
// nodes for which the answer was no, in the order in which passes asked.
Result<std::vector<dispatch::RefusedComposite>> run_pipeline(
    const ir::Ref<ir::Graph>& graph, std::string_view pipeline,
    const dispatch::Candidates& candidates);

}  // namespace tenon::session
