// Rebuilds a generated graph with something left out or made smaller.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "tests/random/rounding/evaluation.h"
#include "tests/random/runner.h"

namespace tenon::random_tests {

// The changes of a rebuild. Outputs and values are those of the old graph; nodes and arguments that
// then lead to no output disappear.
struct Edit {
  std::vector<size_t> outputs;              // outputs that stay, by index
  std::map<size_t, tenon_value_t> earlier;  // of those, outputs that yield another value
  std::vector<size_t> bindings;             // likewise
  std::set<tenon_value_t> inputs;           // results that become inputs with the same contents
  std::map<tenon_value_t, tenon_value_t>
      replaced;  // values whose uses become uses of an earlier one of the same type
  std::set<tenon_symbol_t> fixed;  // symbols that become their size in the only binding
  // Extents of `from` become `to`; with `multiples`, those of k * from become k * to. 0: none.
  int64_t from = 0, to = 0;
  bool multiples = false;
};

// An edit that changes nothing.
Edit unchanged(const Generated& generated);

// `values`: what evaluate() returned for `generated`. False if the edited graph cannot be built or
// compared; then `out` must not be used. Inputs whose dims change get new random elements.
bool rebuild(const Generated& generated, const std::vector<Values>& values, const Edit& edit,
             Generated* out);

}  // namespace tenon::random_tests
