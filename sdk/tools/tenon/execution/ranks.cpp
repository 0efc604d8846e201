#include "sdk/tools/tenon/execution/ranks.h"

#include <tenon/abi/host.h>
#include <tenon/cpp/engines.hpp>

#include <utility>

#include "sdk/tools/tenon/console/console.h"

namespace tenon::tools {
namespace {

constexpr std::string_view kPlaceholder = "{rank}";

bool region_has_collectives(const Host& host, tenon_graph_t* graph, tenon_region_t region) {
  auto view_of = sized<tenon_region_view_t>();
  if (host.graph->region_view(host.graph->self, graph, region, &view_of) != TENON_OK) return false;
  for (uint32_t i = 0; i < view_of.node_count; ++i) {
    auto node = sized<tenon_node_view_t>();
    const tenon_op_def_t* op = nullptr;
    if (host.graph->node_view(host.graph->self, graph, view_of.nodes[i], &node) != TENON_OK)
      continue;
    if (host.registry->op_find(host.registry->self, node.op, node.op_version, &op) == TENON_OK &&
        op->stack != nullptr)
      return true;
    for (uint32_t r = 0; r < node.region_count; ++r) {
      if (region_has_collectives(host, graph, node.regions[r])) return true;
    }
  }
  return false;
}

void fill_in(const ThisRank& here, std::string& text) {
  for (size_t at = text.find(kPlaceholder); at != std::string::npos;
       at = text.find(kPlaceholder, at))
    text.replace(at, kPlaceholder.size(), std::to_string(here.rank));
}

}  // namespace

ThisRank this_rank(const Host& host) {
  for (const std::string& name : engines::names(*host.registry)) {
    const tenon_collective_api_t* api = engines::find(*host.registry, name);
    auto launch = sized<tenon_launch_t>();
    if (api != nullptr && api->launched(api->self, &launch) == TENON_OK && launch.is_launched != 0)
      return {true, launch.rank, launch.rank_count, api};
  }
  return {};
}

bool has_collectives(const Host& host, tenon_graph_t* graph) {
  auto view_of = sized<tenon_graph_view_t>();
  return host.graph->graph_view(host.graph->self, graph, &view_of) == TENON_OK &&
         region_has_collectives(host, graph, view_of.main);
}

int simulate(const Host& host, const std::string& mesh, Model& model) {
  Graph frozen(host), graph(host);
  tenon_code_t code = host.session->model_graph(host.session->self, model.get(), frozen.out());
  if (code == TENON_OK) code = host.graph->clone(host.graph->self, frozen.get(), graph.out());
  const std::string passes = mesh.empty() ? std::string("stack-ranks,cse,dce")
                                          : "stack-ranks{mesh=\"" + mesh + "\"},cse,dce";
  if (code == TENON_OK)
    code = host.session->passes_run(host.session->self, graph.get(), str(passes), {}, 0, nullptr,
                                    nullptr);
  tenon_model_t* made = nullptr;
  if (code == TENON_OK)
    code = host.session->model_from_graph(host.session->self, graph.get(), &made);
  if (code != TENON_OK) return report(host, code);
  host.session->model_release(host.session->self, std::exchange(*model.out(), made));
  return kOk;
}

bool names_rank(const RunOptions& options) {
  std::string all = options.output_dir + options.profile;
  for (const std::string& input : options.inputs) all += input;
  return all.find(kPlaceholder) != std::string::npos;
}

void name_rank(const ThisRank& here, RunOptions& options) {
  for (std::string& input : options.inputs) fill_in(here, input);
  fill_in(here, options.output_dir);
  fill_in(here, options.profile);
}

}  // namespace tenon::tools
