// Moves that build graphs which are hard to fuse. Each adds one or a few nodes to a graph under
// construction. A move that does not fit adds nothing.
#pragma once
#include "tests/random/graphs/graph_maker.h"

namespace tenon::random_tests {

// ---- Element by element: moves_elementwise.cpp ----
void unary(GraphMaker& make);
void binary(GraphMaker& make);
void where(GraphMaker& make);
void cast(GraphMaker& make);
void chain(GraphMaker& make);  // of operands that die one after another

// Both values over one shape, along matching dims; invalid if no such shape was found.
std::pair<Known, Known> join(GraphMaker& make, const Known& a, const Known& b);
// Broadcasts x along these dims of a shape.
Known spread(GraphMaker& make, const Known& x, const Dims& shape, std::vector<int64_t> places);
// An element-wise op of one or two operands of equal types, chosen by the types that it accepts.
Known unary_of(GraphMaker& make, const Known& x);
Known binary_of(GraphMaker& make, const Known& a, const Known& b);

// ---- Movement of elements: moves_shapes.cpp ----
void grow(GraphMaker& make);
void transpose(GraphMaker& make);
void reshape(GraphMaker& make);
void slice(GraphMaker& make);
void pad(GraphMaker& make);
void concat(GraphMaker& make);
void split(GraphMaker& make);
void repeat(GraphMaker& make);  // tile, roll, reverse
void triangle(GraphMaker& make);
void indexed(GraphMaker& make);  // take, take_along, one_hot, dynamic slices, scatter_elements

// ---- Reductions and products: moves_lines.cpp ----
void reduce(GraphMaker& make);
void reduce_and_back(
    GraphMaker& make);  // reduced over any dims, spread again along any that match, combined
void softmax(GraphMaker& make);
void running(GraphMaker& make);
void norm(GraphMaker& make);
void order(GraphMaker& make);
void product(GraphMaker& make);   // with an epilogue
void few_bits(GraphMaker& make);  // a product with constant weights of 4 or 8 bits
void window(GraphMaker& make);    // conv, reduce_window
void counted(GraphMaker& make);   // iota

// ---- Operands computed into their part of a result: moves_parts.cpp ----
void parts(GraphMaker& make);

}  // namespace tenon::random_tests
