// Graphs that cover every registered op, and graphs from files, with the allowed errors of their
// results.
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/support/random_graphs.h"
#include "tests/random/runner.h"

namespace tenon::random_tests {

class OpGraphs {
 public:
  OpGraphs();
  // 1 to 14 nodes, the first of them of op `seed`. If nothing sharper is known of an output, its
  // allowed error is a fraction of its largest element, as in `tenon run --check`.
  Status make(uint64_t seed, Generated* out);
  // " barrier call", or " none".
  std::string unused() const;

 private:
  std::vector<const tenon_op_def_t*> ops_;
  std::vector<uint64_t> used_;
};

// The graph of a model file with random inputs; symbols are 2, 3 and so on. Empty, or why it cannot
// be compared.
std::string model_graph(const std::string& path, uint64_t seed, Generated* out);

}  // namespace tenon::random_tests
