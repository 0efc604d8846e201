// Makes a graph that fails as small as it gets while it fails.
#pragma once
#include <string>

#include "tests/random/runner.h"

namespace tenon::random_tests {

// Leaves out bindings, outputs and nodes, turns results into inputs that hold what they held,
// symbols into numbers and extents into smaller ones, for as long as `runner` finds a difference
// (or another failure of the same step, where it was one). Deterministic as far as the runner is.
// `problem`: what the runner said of `generated`, and at the end what it says of the result. Where
// nothing can be left out, the result is the graph itself.
Generated shrink(Generated generated, const Runner& runner, std::string* problem);

}  // namespace tenon::random_tests
