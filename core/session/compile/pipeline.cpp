#include "core/session/compile/pipeline.h"

#include <algorithm>

#include "core/host/host_interfaces.h"
#include "core/ir/host_graph.h"
#include "core/pass/pipeline.h"
#include "core/session/compile/pass_source.h"

namespace tenon::session {
namespace {

// Answers whether a candidate claims a node of a graph that is being changed. Devices are asked
// about a frozen copy (same indices). The copy is renewed when a node is queried that it lacks or
// that has changed.
class ClaimOracle {
 public:
  ClaimOracle(const ir::Ref<ir::Graph>& graph, const dispatch::Candidates& candidates)
      : graph_(graph), candidates_(candidates) {}

  bool operator()(tenon_node_t node) {
    if (candidates_.devices.empty()) return false;
    if (copy_ == nullptr || !same(node)) ask();
    for (const dispatch::Claims& claims : claims_) {
      if (claims.claimed(node)) return true;
    }
    remember(node);
    return false;
  }

  std::vector<dispatch::RefusedComposite> refused() && { return std::move(refused_); }

 private:
  bool same(ir::Node n) const {
    const ir::Graph& copy = *ir::Graph::from(copy_->get());
    if (n >= copy.node_limit() || !copy.node_live(n) || copy.node(n).op != graph_->node(n).op)
      return false;
    const std::span<const ir::Value> a = copy.operands(n), b = graph_->operands(n);
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  // What the devices said of a node that a pass is about to replace.
  void remember(ir::Node node) {
    if (graph_->node(node).loc == 0) return;
    dispatch::RefusedComposite refused{
        std::string(graph_->op_name(node)), graph_->node(node).loc, graph_->node_limit(), {}};
    for (const dispatch::Claims& claims : claims_)
      refused.refusals.emplace_back(claims.device->name(), claims.refusals[node]);
    refused_.push_back(std::move(refused));
  }
  void ask() {
    ir::Ref<ir::Graph> clone = graph_->clone();
    clone->freeze();
    copy_ = std::make_unique<runtime::GraphRef>(ir::host_graph_table(), clone.detach()->abi());
    claims_.clear();
    for (size_t i = 0; i < candidates_.devices.size(); ++i) {
      claims_.push_back(dispatch::collect_claims(candidates_.devices[i], *copy_,
                                                 candidates_.settings, candidates_.offered_ops[i]));
    }
    // An atomic claim that cannot be placed keeps no composite whole.
    if (std::all_of(claims_.begin(), claims_.end(),
                    [](const dispatch::Claims& claims) { return claims.atomic.empty(); }))
      return;
    const dispatch::Edges edges(dispatch::make_problem(*ir::Graph::from(copy_->get()), {}, 0));
    for (dispatch::Claims& claims : claims_) dispatch::refuse_torn_claims(*copy_, edges, &claims);
  }

  const ir::Ref<ir::Graph>& graph_;
  const dispatch::Candidates& candidates_;
  std::unique_ptr<runtime::GraphRef> copy_;
  std::vector<dispatch::Claims> claims_;
  std::vector<dispatch::RefusedComposite> refused_;
};

}  // namespace

pass::Registry& pass_registry() {
  static auto* registry = new pass::Registry(pass_source());
  return *registry;
}

const pass::HostTables& host_tables() {
  static const pass::HostTables tables = [] {
    pass::HostTables t{};
    t.graph = ir::host_graph_table();
    t.host = host::host_table();
    return t;
  }();
  return tables;
}

Result<std::vector<dispatch::RefusedComposite>> run_pipeline(
    const ir::Ref<ir::Graph>& graph, std::string_view pipeline,
    const dispatch::Candidates& candidates) {
  ClaimOracle oracle(graph, candidates);
  pass::Settings settings;
  settings.claimed = [&oracle](tenon_node_t node) { return oracle(node); };
  Result<std::vector<pass::Report>> reports =
      pass::run_pipeline(host_tables(), pass_registry(), graph->abi(),
                         pipeline.empty() ? pass::kStandardPipeline : pipeline, settings);
  if (!reports.ok()) return std::move(reports).status();
  return std::move(oracle).refused();
}

}  // namespace tenon::session
