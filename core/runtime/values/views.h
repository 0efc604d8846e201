// Reads a frozen, verified graph through tenon.host.graph/1. A view cannot fail for an index that
// the graph itself returned.
//
// Threads: safe on a frozen graph.
#pragma once
#include <span>

#include <tenon/abi/graph.h>
#include <tenon/cpp/record.hpp>

#include "core/base/process/log.h"

namespace tenon::runtime {

struct GraphReader {
  const tenon_host_graph_t* api = nullptr;
  tenon_graph_t* graph = nullptr;

  tenon_graph_view_t whole() const {
    auto v = sized<tenon_graph_view_t>();
    TENON_CHECK(api->graph_view(api->self, graph, &v) == TENON_OK, "graph without a view");
    return v;
  }
  tenon_node_view_t node(tenon_node_t id) const { return view(api->node_view, "node", id); }
  tenon_value_view_t value(tenon_value_t id) const { return view(api->value_view, "value", id); }
  tenon_region_view_t region(tenon_region_t id) const {
    return view(api->region_view, "region", id);
  }
  tenon_region_view_t main() const { return region(whole().main); }
  tenon_dim_view_t dim(tenon_dim_t id) const { return view(api->dim_view, "dim", id); }
  tenon_symbol_view_t symbol(tenon_symbol_t id) const {
    return view(api->symbol_view, "symbol", id);
  }

 private:
  template <class View, class Id>
  View view(tenon_code_t (*read)(void*, tenon_graph_t*, Id, View*), const char* what, Id id) const {
    auto v = sized<View>();
    TENON_CHECK(read(api->self, graph, id, &v) == TENON_OK, "{} {} without a view", what, id);
    return v;
  }
};

// One reference to a graph.
class GraphRef {
 public:
  GraphRef() = default;
  GraphRef(const tenon_host_graph_t* api, tenon_graph_t* owned) : api_(api), graph_(owned) {}
  GraphRef(const GraphRef& o) : api_(o.api_), graph_(o.graph_) {
    if (graph_ != nullptr) api_->retain(api_->self, graph_);
  }
  GraphRef(GraphRef&& o) noexcept : api_(o.api_), graph_(o.graph_) { o.graph_ = nullptr; }
  GraphRef& operator=(GraphRef o) noexcept {
    std::swap(api_, o.api_);
    std::swap(graph_, o.graph_);
    return *this;
  }
  ~GraphRef() {
    if (graph_ != nullptr) api_->release(api_->self, graph_);
  }
  tenon_graph_t* get() const { return graph_; }
  GraphReader reader() const { return {api_, graph_}; }

 private:
  const tenon_host_graph_t* api_ = nullptr;
  tenon_graph_t* graph_ = nullptr;
};

}  // namespace tenon::runtime
