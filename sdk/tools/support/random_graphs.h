// Random valid graphs over the registered operators, with inputs. Everything follows from the seed.
//
// Two devices may compute the same op with different rounding, so a graph must not magnify
// rounding. Discontinuous and ill-conditioned ops only get exact values (inputs, integers, moved
// elements), and a node whose value is huge or not finite is left out. To that end each node is
// evaluated as it is built, which also gives the expected outputs.
#pragma once
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <tenon/abi/host.h>
#include <tenon/abi/ops.h>
#include <tenon/cpp/graph.hpp>

namespace tenon::random_graphs {

// A value of the graph, and its elements for this graph's inputs.
struct Known {
  Value value;
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  std::vector<int64_t> dims;
  std::shared_ptr<std::vector<unsigned char>> bytes;
  bool exact = false;
  double largest = 0;  // magnitude
};

struct Generated {
  Graph graph;
  std::vector<std::pair<std::string, Known>> inputs, outputs;
  std::vector<int64_t> symbols;  // their sizes, by index
  uint64_t nodes = 0;
};

// Operators that random graphs may contain, ordered by name.
std::vector<const tenon_op_def_t*> usable_ops(const tenon_host_registry_t& registry);

// One graph of 1 to 14 nodes. `used` counts the ops that were built, by index into `ops`.
Status generate(uint64_t seed, const tenon_host_registry_t& registry,
                const std::vector<const tenon_op_def_t*>& ops, std::vector<uint64_t>* used,
                Generated* out);

}  // namespace tenon::random_graphs
