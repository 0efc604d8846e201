// What a node costs, roughly, for claims.
#ifndef TENON_KERNELGEN_LOWER_NODE_COST_H_
#define TENON_KERNELGEN_LOWER_NODE_COST_H_

#include <cstdint>
#include <vector>

#include "tenon/kernelgen/lower/lower_graph.h"

namespace tenon::kernelgen {

// One value per symbol of the graph, from likely_size.hpp.
std::vector<int64_t> likely_symbols(const HostTables& host, tenon_graph_t* graph);

// For the partitioner. Only the order of magnitude matters.
struct DeviceRates {
  double gigabytes_per_second = 10, gigaflops_per_second = 10, launch_ns = 1000;
};

// A rough time for one node: bytes moved and operations done, at the given rates. symbols: the
// graph's likely_symbols, computed once for all its nodes.
double node_cost_ns(const HostTables& host, tenon_graph_t* graph, tenon_node_t node,
                    const std::vector<int64_t>& symbols, const DeviceRates& rates);

}  // namespace tenon::kernelgen
#endif
