// The claims of a simulated device: every op that can be lowered or, with TENON_SIM_OPS, only the
// listed ones.
#ifndef TENON_PLUGINS_SIM_CLAIM_H_
#define TENON_PLUGINS_SIM_CLAIM_H_

#include <string_view>

#include "tenon/abi/compile.h"
#include "tenon/cpp/status.hpp"

namespace tenon::sim {
inline constexpr std::string_view kName = "sim";

Status claim_ops(void* self, tenon_str_t target, tenon_graph_t* graph,
                 const tenon_compile_options_t* options, const tenon_claim_sink_t* sink);
}  // namespace tenon::sim
#endif
