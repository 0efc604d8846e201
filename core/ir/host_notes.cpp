#include "core/ir/host_notes.h"

#include "core/base/errors/guard.h"
#include "core/ir/graph.h"

namespace tenon::ir {
namespace {

// What a caller names: a node or a value that is there.
Status place(tenon_graph_t* graph, uint32_t noted, uint32_t index, Noted* out) {
  if (noted > TENON_NOTED_VALUE)
    return error(TENON_INVALID_ARGUMENT, "T0301", "{} is neither a node nor a value", noted);
  *out = static_cast<Noted>(noted);
  const Graph& g = *Graph::from(graph);
  if (*out == Noted::kNode ? g.node_live(index) : g.value_live(index)) return {};
  return error(TENON_INVALID_ARGUMENT, "T0301", "there is no {} {} in this graph",
               *out == Noted::kNode ? "node" : "value", index);
}

tenon_code_t notes_slot(void*, tenon_graph_t* graph, uint32_t noted, uint32_t index,
                        const tenon_attr_t** out_notes, uint32_t* out_count) {
  return guarded([&]() -> Status {
    Noted kind = Noted::kNode;
    TENON_RETURN_IF_ERROR(place(graph, noted, index, &kind));
    const std::span<const tenon_attr_t> found = Graph::from(graph)->notes(kind, index);
    *out_notes = found.data();
    *out_count = static_cast<uint32_t>(found.size());
    return {};
  });
}

tenon_code_t set_slot(void*, tenon_graph_t* graph, uint32_t noted, uint32_t index,
                      const tenon_attr_t* note) {
  return guarded([&]() -> Status {
    Noted kind = Noted::kNode;
    TENON_RETURN_IF_ERROR(place(graph, noted, index, &kind));
    return Graph::from(graph)->set_note(kind, index, *note);
  });
}

tenon_code_t erase_slot(void*, tenon_graph_t* graph, uint32_t noted, uint32_t index,
                        tenon_sym_t name) {
  return guarded([&]() -> Status {
    Noted kind = Noted::kNode;
    TENON_RETURN_IF_ERROR(place(graph, noted, index, &kind));
    return Graph::from(graph)->erase_note(kind, index, name);
  });
}

tenon_code_t take_slot(void*, tenon_graph_t* graph, uint32_t noted, uint32_t index, uint32_t from) {
  return guarded([&]() -> Status {
    Noted kind = Noted::kNode;
    TENON_RETURN_IF_ERROR(place(graph, noted, index, &kind));
    TENON_RETURN_IF_ERROR(place(graph, noted, from, &kind));
    Graph& g = *Graph::from(graph);
    TENON_RETURN_IF_ERROR(g.mutable_or_fail());
    g.take_notes(kind, index, g, from);
    return {};
  });
}

}  // namespace

const tenon_host_notes_t* host_notes_table() {
  static constexpr tenon_host_notes_t table = {
      sizeof(tenon_host_notes_t), nullptr, notes_slot, set_slot, erase_slot, take_slot};
  return &table;
}

}  // namespace tenon::ir
