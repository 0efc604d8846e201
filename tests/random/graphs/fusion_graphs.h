// Random graphs of the kind that fusion goes wrong on: few tiny axes that are equal often, values
// used again and again, sums spread back along other axes than they were taken from, several
// outputs. Everything follows from the seed.
#pragma once
#include "tests/random/runner.h"

namespace tenon::random_tests {

// 3 to 12 nodes, with the outputs that the ops' own meaning gives. About one in four has symbols.
Status fusion_graph(uint64_t seed, Generated* out);

}  // namespace tenon::random_tests
