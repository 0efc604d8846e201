// The example of an op as a graph, so that devices can be asked about it.
#pragma once
#include <string>
#include <string_view>

namespace tenon::tools {

// "add(f32[2] [1, 2], f32[2] [3, 4]) -> f32[2] [4, 6]" as .tir text: operands become inputs, or, for ops that need
// their values, constants. Empty when the expression is not of that form.
std::string example_graph(std::string_view expression, bool constants);

}  // namespace tenon::tools
