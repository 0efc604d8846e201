// Graphs in which every registered op gets its turn, and graphs of files, with what their results
// may differ by.
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/support/random_graphs.h"
#include "tests/random/runner.h"

namespace tenon::random_tests {

class OpGraphs {
 public:
  OpGraphs();
  // 1 to 14 nodes, the first of them of op `seed`. Where nothing sharper is known of an output,
  // another result may be off by a part of its largest element, as `tenon run --check` has it.
  Status make(uint64_t seed, Generated* out);
  // " barrier call", or " none".
  std::string unused() const;

 private:
  std::vector<const tenon_op_def_t*> ops_;
  std::vector<uint64_t> used_;
};

// The graph of a model's file with random inputs; symbols are 2, 3 and so on. Empty, or why it
// cannot be compared.
std::string model_graph(const std::string& path, uint64_t seed, Generated* out);

}  // namespace tenon::random_tests
