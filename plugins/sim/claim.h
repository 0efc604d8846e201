// What a simulated device takes: whatever can be lowered, or those ops of it that TENON_SIM_OPS
// leaves.
#ifndef TENON_PLUGINS_SIM_CLAIM_H_
#define TENON_PLUGINS_SIM_CLAIM_H_

#include "tenon/abi/compile.h"
#include "tenon/cpp/status.hpp"

namespace tenon::sim {
Status claim_ops(void* self, tenon_str_t target, tenon_graph_t* graph,
                 const tenon_claim_sink_t* sink);
}
#endif
