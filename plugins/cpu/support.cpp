#include "support.h"

#include "codegen/compile_control.h"
#include "tenon/cpp/graph.hpp"
#include "tenon/kernelgen/device/text_device.h"

namespace tenon::cpu {
namespace {

// Rates of one small server core, only to compare devices: the order of magnitude decides.
kernelgen::DeviceRates rates_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Bf16:
      return {30, 100, 50};
    case Isa::kAvx2:
    case Isa::kAvx2Vnni:
      return {30, 60, 50};
    case Isa::kNeon:
      return {20, 30, 50};
    case Isa::kBaseline:
      break;
  }
  return {20, 15, 50};
}

// kernelgen does not handle regions and calls, so such nodes are checked here.
struct ControlClaims {
  const kernelgen::HostTables& host;
  tenon_graph_t* graph;
  Isa isa;
  const tenon_claim_sink_t* sink;

  static tenon_code_t claim(void* self, const tenon_claim_t* claim) {
    const auto& claims = *static_cast<ControlClaims*>(self);
    // A step between kernels of one program, and no program of its own.
    if (is_barrier(Node(claims.graph, claim->nodes[0])))
      return tenon_claim_node(claims.sink, claim->nodes[0], 0);
    return claims.sink->claim(claims.sink->self, claim);
  }
  static tenon_code_t refuse(void* self, tenon_node_t node, tenon_code_t code, tenon_str_t reason) {
    const auto& claims = *static_cast<ControlClaims*>(self);
    return detail::guarded(context().host, [&]() -> Status {
      std::string why(view(reason));
      if (is_barrier(Node(claims.graph, node))) return tenon_claim_node(claims.sink, node, 0);
      if (is_native(Node(claims.graph, node))) {
        return tenon_claim_node(claims.sink, node, claims.cost_of(node, 0));
      }
      if (Node(claims.graph, node).view().region_count != 0) {
        if (can_compile_control(claims.host, claims.graph, node, {}, &why)) {
          return tenon_claim_node(claims.sink, node, claims.cost_of(node, 0));
        }
      }
      return claims.sink->refuse(claims.sink->self, node, code, str(why));
    });
  }

  // The cost of everything inside, times a guessed number of iterations.
  double cost_of(tenon_node_t node, int depth) const {
    constexpr double kTurns = 10;
    const std::vector<int64_t> symbols = kernelgen::likely_symbols(host, graph);
    const tenon_node_view_t view = Node(graph, node).view();
    if (view.region_count == 0 || depth > 8)
      return kernelgen::node_cost_ns(host, graph, node, symbols, rates_of(isa));
    double cost = 0;
    for (uint32_t r = 0; r < view.region_count; ++r) {
      for (tenon_node_t inner : Region(graph, view.regions[r]).node_ids())
        cost += cost_of(inner, depth + 1);
    }
    return cost * kTurns;
  }

  // Nodes inside regions are claimed too: passes keep a composite whole if a device claims it.
  Status claim_inside(const Region& region) const {
    for (const Node& node : region.nodes()) {
      const tenon_node_view_t view = node.view();
      for (uint32_t r = 0; r < view.region_count; ++r) {
        const Region inner(graph, view.regions[r]);
        for (tenon_node_t n : inner.node_ids()) {
          std::string why;
          if (Node(graph, n).view().region_count != 0) continue;
          if (!is_native(Node(graph, n)) && !is_barrier(Node(graph, n)) &&
              !kernelgen::can_lower(host, graph, n, {}, &why))
            continue;
          TENON_TRY(tenon_claim_node(sink, n, cost_of(n, 0)));
        }
        TENON_TRY(claim_inside(inner));
      }
    }
    return {};
  }
};

}  // namespace

Status claim_nodes(const kernelgen::HostTables& host, tenon_graph_t* graph, Isa isa,
                   const tenon_claim_sink_t& sink) {
  const ControlClaims claims = {host, graph, isa, &sink};
  const tenon_claim_sink_t all = {sizeof(tenon_claim_sink_t), 0,
                                  const_cast<ControlClaims*>(&claims), &ControlClaims::claim,
                                  &ControlClaims::refuse};
  kernelgen::LoweringLimits limits;
  limits.attention = true;
  TENON_TRY(kernelgen::claim_nodes(host, graph, limits, rates_of(isa), &all));
  return claims.claim_inside(main_region(graph));
}

}  // namespace tenon::cpu
