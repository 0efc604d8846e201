#include "core/ir/dims/facts.h"

#include "core/base/errors/guard.h"
#include "core/ir/graph.h"

namespace tenon::ir {
namespace {

uint32_t count_slot(void*, tenon_graph_t* graph) {
  return static_cast<uint32_t>(Graph::from(graph)->facts().size());
}

tenon_code_t fact_slot(void*, tenon_graph_t* graph, uint32_t index, uint32_t* rel, tenon_dim_t* a,
                       tenon_dim_t* b) {
  return guarded([&]() -> Status {
    const std::vector<DimFact>& facts = Graph::from(graph)->facts();
    if (index >= facts.size())
      return error(TENON_OUT_OF_RANGE, "T0301", "fact {} of a graph that has {}", index,
                   facts.size());
    *rel = facts[index].rel;
    *a = facts[index].a;
    *b = facts[index].b;
    return {};
  });
}

tenon_loc_t place_slot(void*, tenon_graph_t* graph, uint32_t index) {
  const std::vector<DimFact>& facts = Graph::from(graph)->facts();
  return index < facts.size() ? facts[index].place : 0;
}

}  // namespace

const tenon_host_facts_t* host_facts_table() {
  static constexpr tenon_host_facts_t table = {sizeof(tenon_host_facts_t), nullptr, count_slot,
                                               fact_slot, place_slot};
  return &table;
}

}  // namespace tenon::ir
