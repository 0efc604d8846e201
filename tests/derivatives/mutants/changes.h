// Ways to change what a rule has built.
#pragma once
#include <tenon/abi/host.h>
#include <functional>
#include <string>
#include <tenon/cpp/graph.hpp>
#include <tenon/cpp/rules.hpp>
#include <vector>

namespace tenon::mutants {

// What one call of a rule was given and has built.
struct Emission {
  const tenon_builder_t* at;
  Node source;               // the node that is differentiated or batched
  std::vector<Value> given;  // tangents, cotangents or operands
  tenon_node_t first;        // what was built since
  std::vector<Value> results;
  bool is_batch;
};

// A change, by name: "swap 0 1@sub#2" exchanges the operands of the third sub. The function makes
// other values for the results of a node, where the builder is; types stay as they are.
struct Change {
  std::string name;
  std::function<std::vector<Value>(Builder&)> make;
};
// Another change for each call.
using Visit = std::function<void(const Node&, const Change&)>;

// ---- What can be changed ----

// All changes of nodes that were built and are used, and whose sizes are numbers. The types that
// come out are not checked.
void each_change(const Emission& e, const Visit& visit);
// All changes of the results themselves: one name each.
std::vector<std::string> changes_of_results(const Emission& e);
// Does it. False if there is nothing to change.
bool change_result(const Emission& e, const std::string& name, std::vector<Value>* results);

// ---- How it is done ----

// The values of a change at a node, or none if it does not build or changes a type.
std::vector<Value> values_of(Builder& b, const Node& node, const Change& change);
// Puts the values of a change in place of a node's, in nodes that have numbers in their order, and
// in `results`.
bool apply(const Emission& e, const Node& node, const Change& change, std::vector<Value>* results);
// Nodes that were built, in all regions, with their place among those of their op.
std::vector<std::pair<Node, int>> built(const Emission& e);
// Whether a node has no regions and defines no sizes, and can be built again.
bool is_plain(const Node& node);
std::vector<Attr> attributes(const Node& node);  // borrowed
std::vector<Value> results_of(const Node& node);
std::vector<Value> copy(Builder& b, const Node& node, const std::vector<Value>& operands);
bool has_derivative(tenon_dtype_t dtype);
bool is_zeros(Value v);
bool has_imaginary(Value v);  // as far as its node tells
Value conjugate(Builder& b, Value v);
// v times numbers that grow along each dim, so that also a comparison comes out differently.
Value scaled(Builder& b, Value v);
tenon_node_t next_node(tenon_graph_t* graph);
// Erases what was built since.
void erase_since(tenon_graph_t* graph, tenon_node_t first);

// Changes of what is declared: masks, roles, scalar programs. (rule, what)
std::vector<std::pair<std::string, std::string>> declared_changes(const tenon_op_def_t& op);
// Does one, in rules that may be written. False if there is no such change.
bool change_declared(const tenon_op_def_t& op, const std::string& rule, const std::string& what,
                     tenon_op_rules_t* rules);

}  // namespace tenon::mutants
