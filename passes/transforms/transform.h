// What the transforms of whole graphs share: inputs and outputs by name.
#pragma once
#include <string>

#include "rules.h"

namespace tenon::passes {

// The main region of a graph while a transform adds inputs and outputs to it.
class Ports {
 public:
  explicit Ports(tenon_graph_t* graph);

  // The inputs of these names (separated by spaces), or all differentiable ones if there is none.
  // `what` is the option's name. T0405 for a name that no input has.
  Status inputs(std::string_view names, std::string_view what, std::vector<Value>* out) const;
  // Places of the outputs of these names, or the first one.
  Status outputs(std::string_view names, std::string_view what, std::vector<size_t>* out) const;
  // The outputs as they were at first.
  const std::vector<Value>& yields() const { return yields_; }
  const std::string& name(size_t output) const { return names_[output]; }
  Region main() const { return main_; }
  std::vector<Node> nodes() const { return main_.nodes(); }

  // Adds an output. Names that are taken get a number.
  void add_output(std::string_view name, Value v);
  // Sets the outputs, then erases what was made since `first` and is not used.
  Status finish(tenon_node_t first);

 private:
  Region main_;
  std::vector<Value> yields_, added_;
  std::vector<std::string> names_;
};

// Whether derivatives by or of a value can be taken: it has floats or complex numbers. T0410
// otherwise.
Status require_variable(Value v, std::string_view name);

}  // namespace tenon::passes
