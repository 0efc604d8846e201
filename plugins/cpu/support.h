// What the cpu takes, and why not the rest.
#ifndef TENON_PLUGINS_CPU_SUPPORT_H_
#define TENON_PLUGINS_CPU_SUPPORT_H_

#include "isa.h"
#include "tenon/abi/compile.h"
#include "tenon/cpp/status.hpp"
#include "tenon/kernelgen/lift.h"

namespace tenon::cpu {

// One claim over all nodes of the main region that kernelgen can lift, and a refusal with a reason
// for each of the others.
Status claim_nodes(const kernelgen::LiftHost& host, tenon_graph_t* graph, Isa isa,
                   const tenon_claim_sink_t& sink);

}  // namespace tenon::cpu
#endif
