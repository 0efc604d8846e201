// Handles as a plugin has them. In a separate file, because core and the SDK share some names.
#include <tenon/cpp/value.hpp>

#include <cstdio>

namespace {

void stop_with(const tenon::Dim& dim, const tenon::Value& value, const tenon::Node& node) {
  std::printf("%d handles are valid\n", dim.valid() + value.valid() + node.valid());
}

}  // namespace

void stop_at_handles(tenon_graph_t* graph, tenon_dim_t dim, tenon_value_t value,
                     tenon_node_t node) {
  stop_with(tenon::Dim(graph, dim), tenon::Value(graph, value), tenon::Node(graph, node));
}
