// Inputs and outputs by name, which all transforms of whole graphs share.
#pragma once
#include <string>

#include "rules.h"

namespace tenon::passes {

// Of all transforms that differentiate.
inline constexpr tenon_pass_option_def_t kWrtOption = {
    str("wrt"),
    str("names of inputs, separated by spaces; empty: all floats and complex numbers"),
    TENON_ATTR_STRING,
    0,
    {}};

// The main region of a graph while a transform adds inputs and outputs to it.
class Ports {
 public:
  explicit Ports(tenon_graph_t* graph);

  // The inputs of these names (separated by spaces), or all differentiable ones if none is named.
  // `what` is the option's name. T0405 for a name that no input has.
  Status inputs(std::string_view names, std::string_view what, std::vector<Value>* out) const;
  // Places of the outputs of these names, or the first one.
  Status outputs(std::string_view names, std::string_view what, std::vector<size_t>* out) const;
  // The outputs as they were at first.
  const std::vector<Value>& yields() const { return yields_; }
  const std::string& name(size_t output) const { return names_[output]; }
  Region main() const { return main_; }
  std::vector<Node> nodes() const { return main_.nodes(); }

  // Add an input or an output. Names that are taken get a number.
  Status add_input(std::string_view name, const Type& type, Value* out) const;
  void add_output(std::string_view name, Value v);
  // Sets the outputs, then erases unused nodes that were made since `first`.
  Status finish(tenon_node_t first);

 private:
  Region main_;
  std::vector<Value> yields_, added_;
  std::vector<std::string> names_;
};

// T0410 unless derivatives of a value, or with respect to it, exist: it has floats or complex
// numbers.
Status require_variable(Value v, std::string_view name);

}  // namespace tenon::passes
