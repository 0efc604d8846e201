// Parses the examples of ops, and turns them into graphs that devices can be asked about.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tools {

// "add(f32[2] [1, 2], f32[2] [3, 4]) {...} -> f32[2] [4, 6]", borrowed from the expression.
struct OpExample {
  std::string_view op;
  std::vector<std::string_view> operands;  // with their values; "_" for an absent one
  std::vector<std::string_view> results;
  std::string_view attributes;  // "{...}" or empty
};

// False if the expression does not have that form.
bool parse_example(std::string_view expression, OpExample* out);

// The type at the start of "f32[2] [1, 2]".
std::string_view type_of(std::string_view typed);

// An example as .tir text: operands become inputs or, for ops that need their values, constants.
// Empty if the expression does not have that form.
std::string example_graph(std::string_view expression, bool constants);

}  // namespace tenon::tools
