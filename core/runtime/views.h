// Reads a frozen, verified graph through tenon.host.graph/1. A view cannot fail for an index that
// the graph itself returned.
//
// Threads: safe on a frozen graph.
#pragma once
#include <span>

#include <tenon/abi/graph.h>

#include "core/base/process/log.h"

namespace tenon::runtime {

struct GraphReader {
  const tenon_host_graph_t* api = nullptr;
  tenon_graph_t* graph = nullptr;

  tenon_graph_view_t whole() const {
    tenon_graph_view_t v{};
    v.size_bytes = sizeof(v);
    TENON_CHECK(api->graph_view(api->self, graph, &v) == TENON_OK, "graph without a view");
    return v;
  }
  tenon_node_view_t node(tenon_node_t node) const {
    tenon_node_view_t v{};
    v.size_bytes = sizeof(v);
    TENON_CHECK(api->node_view(api->self, graph, node, &v) == TENON_OK, "node {} without a view",
                node);
    return v;
  }
  tenon_value_view_t value(tenon_value_t value) const {
    tenon_value_view_t v{};
    v.size_bytes = sizeof(v);
    TENON_CHECK(api->value_view(api->self, graph, value, &v) == TENON_OK, "value {} without a view",
                value);
    return v;
  }
  tenon_region_view_t region(tenon_region_t region) const {
    tenon_region_view_t v{};
    v.size_bytes = sizeof(v);
    TENON_CHECK(api->region_view(api->self, graph, region, &v) == TENON_OK,
                "region {} without a view", region);
    return v;
  }
  tenon_region_view_t main() const { return region(whole().main); }
  tenon_dim_view_t dim(tenon_dim_t dim) const {
    tenon_dim_view_t v{};
    v.size_bytes = sizeof(v);
    TENON_CHECK(api->dim_view(api->self, graph, dim, &v) == TENON_OK, "dim {} without a view", dim);
    return v;
  }
  tenon_symbol_view_t symbol(tenon_symbol_t symbol) const {
    tenon_symbol_view_t v{};
    v.size_bytes = sizeof(v);
    TENON_CHECK(api->symbol_view(api->self, graph, symbol, &v) == TENON_OK,
                "symbol {} without a view", symbol);
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
