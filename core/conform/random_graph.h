// Random valid graphs with inputs and what they give, made through the installed host.
#pragma once
#include <vector>

#include "core/conform/host_graph.h"

namespace tenon::conform {

struct RandomGraph {
  GraphRef graph;
  std::vector<Array> inputs, outputs;
};

// Everything follows from the seed. False when there are no operators to make one of.
bool random_graph(const HostTables& host, uint64_t seed, RandomGraph* out);

}  // namespace tenon::conform
