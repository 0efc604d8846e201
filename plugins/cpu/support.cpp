#include "support.h"

#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {
namespace {

// Rates of one small server core, for comparing devices only: the order of magnitude decides.
struct Rates {
  double gigabytes_per_second, gigaflops_per_second, launch_ns;
};

Rates rates_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return {30, 100, 50};
    case Isa::kAvx2:
      return {30, 60, 50};
    case Isa::kBaseline:
      break;
  }
  return {20, 15, 50};
}

}  // namespace

Status claim_nodes(const kernelgen::LiftHost& host, tenon_graph_t* graph, Isa isa,
                   const tenon_claim_sink_t& sink) {
  const tenon_host_graph_t& api = *context().graph;
  tenon_graph_view_t graph_view = {};
  graph_view.size_bytes = sizeof graph_view;
  TENON_TRY(api.graph_view(api.self, graph, &graph_view));
  tenon_region_view_t region = {};
  region.size_bytes = sizeof region;
  TENON_TRY(api.region_view(api.self, graph, graph_view.main, &region));
  const Rates rates = rates_of(isa);
  const kernelgen::LiftLimits limits;
  for (uint32_t i = 0; i < region.node_count; ++i) {
    const tenon_node_t node = region.nodes[i];
    std::string why;
    if (can_lift(host, graph, node, limits, &why)) {
      // One claim a node: any set of them compiles together, and the partitioner sees each cost.
      const double cost_ns = node_cost_ns(host, graph, node, rates.gigabytes_per_second,
                                          rates.gigaflops_per_second, rates.launch_ns);
      TENON_TRY(sink.claim(sink.self, &node, 1, cost_ns));
    } else if (sink.refuse) {
      TENON_TRY(sink.refuse(sink.self, node, TENON_UNIMPLEMENTED, str(why)));
    }
  }
  return {};
}

}  // namespace tenon::cpu
