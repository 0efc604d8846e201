#include "core/conform/random_graph.h"

#include <tenon/cpp/plugin.hpp>

#include "core/tools/random_graphs.h"

namespace tenon::conform {
namespace {

Array array_of(const random_graphs::Known& known) {
  return {known.dtype, known.dims, *known.bytes};
}

}  // namespace

bool random_graph(const HostTables& host, uint64_t seed, RandomGraph* out) {
  attach(host.host);
  static const auto* ops =
      new std::vector<const tenon_op_def_t*>(random_graphs::usable_ops(*host.registry));
  if (ops->empty()) return false;
  std::vector<uint64_t> used(ops->size());
  random_graphs::Generated generated;
  if (!random_graphs::generate(seed, *host.registry, *ops, &used, &generated).ok()) return false;
  for (const auto& [name, known] : generated.inputs) out->inputs.push_back(array_of(known));
  for (const auto& [name, known] : generated.outputs) out->outputs.push_back(array_of(known));
  host.graph->retain(host.graph->self, generated.graph.get());
  out->graph = GraphRef(host, generated.graph.get());
  return true;
}

}  // namespace tenon::conform
