// Graphs that the checks of compiling devices use: small ones of add, mul and max, which every
// device of level 3 takes.
#pragma once
#include <string>

namespace tenon::conform {

// One node.
std::string pair_graph();
// Five nodes, three outputs, one of them used inside.
std::string chain_graph();
// Three nodes of many elements, whose run takes its time.
std::string large_graph();
// `nodes` nodes, one behind the other.
std::string long_graph(size_t nodes);
// Two constants of `elements` elements, which mean different things.
std::string constant_graph(size_t elements);
// Two symbols n and m, in several places.
std::string symbolic_graph();
// Sums and products of many elements, whose bits depend on the order of adding.
std::string sum_graph();
// A small product of matrices.
std::string product_graph();
// Nodes inside regions of others.
std::string inner_graph();
// Inputs and outputs of equal size and of different types.
std::string equal_sizes_graph();
// Nodes whose operands have elements of different widths.
std::string widths_graph();
// Nodes of which a device takes some.
std::string mixed_graph();

}  // namespace tenon::conform
