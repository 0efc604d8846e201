#include "plugins/sim/compile/claim.h"

#include <algorithm>
#include <string>

#include "plugins/sim/kernels/dialects.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/kernelgen/device/text_device.h"
#include "tenon/kernelgen/print/print.h"

namespace tenon::sim {
namespace {

namespace kg = tenon::kernelgen;

// Slow on purpose, so that a simulated device loses to a real one.
constexpr kg::DeviceRates kRates{2, 1, 20000};

// Applies TENON_SIM_OPS as a filter in front of the host's sink.
struct OpFilter {
  const tenon_claim_sink_t* sink;
  const tenon_host_graph_t* api;
  tenon_graph_t* graph;
  std::string ops;  // ",add,mul,"

  static tenon_code_t claim(void* self, const tenon_claim_t* claim) {
    const auto& filter = *static_cast<OpFilter*>(self);
    auto node = sized<tenon_node_view_t>();
    TENON_TRY(filter.api->node_view(filter.api->self, filter.graph, claim->nodes[0], &node));
    if (filter.ops.find(cat(",", sym_text(node.op), ",")) != std::string::npos)
      return filter.sink->claim(filter.sink->self, claim);
    return refuse(self, claim->nodes[0], TENON_UNIMPLEMENTED,
                  str("TENON_SIM_OPS does not list the op"));
  }
  static tenon_code_t refuse(void* self, tenon_node_t node, tenon_code_t code, tenon_str_t reason) {
    const tenon_claim_sink_t* sink = static_cast<OpFilter*>(self)->sink;
    return sink->refuse(sink->self, node, code, reason);
  }
};

// The ops that TENON_SIM_OPS allows on the device of this target, in the form of OpFilter.
std::string ops_for(std::string_view list, std::string_view target) {
  const size_t at = target.find("ordinal=");
  const std::string_view ordinal = at == std::string_view::npos ? "0" : target.substr(at + 8, 1);
  std::string ops = ",";
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (const size_t slash = item.find('/'); slash != std::string_view::npos) {
      if (item.substr(0, slash) != ordinal) continue;
      item.remove_prefix(slash + 1);
    }
    ops += cat(item, ",");
  }
  return ops;
}

}  // namespace

Status claim_ops(void*, tenon_str_t target, tenon_graph_t* graph,
                 const tenon_compile_options_t* options, const tenon_claim_sink_t* sink) {
  kg::HostTables host;
  TENON_TRY(kg::open_host_tables(context().host, &host));
  TENON_TRY(kg::refuse_options(host, kName, options));
  Text text;
  TENON_TRY(text_of_settings(&text));
  kg::LoweringLimits limits;
  if (!text.target.fp64) {
    limits.dtypes &= ~TENON_DTYPE_BIT(TENON_F64);
    limits.refuses = [&](const kg::Pool& pool) { return kg::needs_f64(pool, text.target); };
  }
  const std::string_view list = setting("TENON_SIM_OPS");
  if (list.empty()) return kg::claim_nodes(host, graph, limits, kRates, sink);
  OpFilter filter{sink, context().graph, graph, ops_for(list, view(target))};
  const tenon_claim_sink_t through{sizeof(tenon_claim_sink_t), 0, &filter, OpFilter::claim,
                                   OpFilter::refuse};
  return kg::claim_nodes(host, graph, limits, kRates, &through);
}

}  // namespace tenon::sim
