// Random graphs that are hard to fuse: a few small axes, often equal; values used again and again;
// sums broadcast back along axes other than their own; several outputs. The seed determines
// everything.
#pragma once
#include "tests/random/runner.h"

namespace tenon::random_tests {

// 3 to 12 nodes, with the outputs that the ops' meanings give. About one graph in four has symbols.
Status fusion_graph(uint64_t seed, Generated* out);

}  // namespace tenon::random_tests
