// What the cpu device claims, and the reasons for its refusals.
#ifndef TENON_PLUGINS_CPU_SUPPORT_H_
#define TENON_PLUGINS_CPU_SUPPORT_H_

#include "isa.h"
#include "tenon/abi/compile.h"
#include "tenon/cpp/status.hpp"
#include "tenon/kernelgen/lower/lower_graph.h"

namespace tenon::cpu {

// Claims each node of the main region that kernelgen can lower and refuses the others with a
// reason.
Status claim_nodes(const kernelgen::HostTables& host, tenon_graph_t* graph, Isa isa,
                   const tenon_claim_sink_t& sink);

}  // namespace tenon::cpu
#endif
