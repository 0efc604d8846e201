// Shrinks a failing graph as far as possible while it still fails.
#pragma once
#include <string>

#include "tests/random/runner.h"

namespace tenon::random_tests {

// Leaves out bindings, outputs and nodes, turns results into inputs with the same contents, symbols
// into numbers and extents into smaller ones, as long as `runner` finds a difference (or, if it was
// another failure, a failure of the same step). As deterministic as the runner. `problem`: the
// runner's report for `generated`, and on return its report for the result. If nothing can be left
// out, the result is the graph itself.
Generated shrink(Generated generated, const Runner& runner, std::string* problem);

}  // namespace tenon::random_tests
