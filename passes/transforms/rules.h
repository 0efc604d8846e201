// Tangents and cotangents of single nodes, by the rules of their ops; and walks over many nodes.
#pragma once
#include <functional>
#include <tenon/cpp/rules.hpp>
#include <unordered_map>
#include <unordered_set>

#include "../common.h"

namespace tenon::passes {

// Values by the id of another value.
using ValueMap = std::unordered_map<tenon_value_t, Value>;
using ValueSet = std::unordered_set<tenon_value_t>;

// Whether derivatives pass through a value: it is a tensor of floats or complex numbers.
bool is_differentiable(Value v);
// Zeros of the type of a value.
Value zeros_like(Builder& b, Value v);
// An error with the node's place. what: its code, T0410 (no derivative) or T0411 (not on several
// samples).
Status refuse(const Node& node, std::string_view what, std::string_view why);
// Whether operand i is in a mask of tenon_op_rules_t. The bit of a variadic operand is that of all
// its values.
bool in_mask(const tenon_op_def_t& op, uint32_t mask, uint32_t operand);

// The tangents of a node's results. `tangents`: one per operand, invalid for zero.
Status push_node(Builder& b, const Node& node, std::span<const Value> tangents,
                 std::vector<Value>* out);
// The cotangents of a node's operands. `wanted`: one per operand.
Status pull_node(Builder& b, const Node& node, const std::vector<uint8_t>& wanted,
                 std::span<const Value> cotangents, std::vector<Value>* out);

// Builds values from given ones, and is linear in them.
using LinearRule = std::function<Status(std::span<const Value> given, std::vector<Value>* out)>;
// Transposes a linear rule: from cotangents of the values that it makes, to cotangents of the
// values that it is given. `like`: values of the types of the latter; invalid for one that is zero.
// The rule is built on zeros as stand-ins; the nodes that depend on these are transposed and
// erased.
Status transposed(Builder& b, const Node& node, const std::vector<Value>& like,
                  std::span<const Value> cotangents, const LinearRule& rule,
                  std::vector<Value>* out);
// The cotangents of a node's operands by a rule from their tangents to those of its results.
Status pull_by_tangents(Builder& b, const Node& node, const std::vector<uint8_t>& wanted,
                        std::span<const Value> cotangents, const LinearRule& rule,
                        std::vector<Value>* out);

// Adds to `varied` the results that depend on values in it.
void mark_varied(const std::vector<Node>& nodes, ValueSet* varied);

// Cotangents while nodes are walked backwards. A cotangent has the type of its value; several of a
// narrow float are added in f32 and rounded once.
class Cotangents {
 public:
  explicit Cotangents(Builder& b) : b_(b) {}
  void add(Value v, Value cotangent);
  // The sum for a value; invalid for zero.
  Value of(Value v);
  // Walks over nodes, last to first, as far as they depend on `varied`.
  Status walk(const std::vector<Node>& nodes, const ValueSet& varied);

 private:
  Builder& b_;
  std::unordered_map<tenon_value_t, std::vector<Value>> parts_;
};

// The nodes of a region with an id of at least `first`: those that were made since next_node gave
// it.
std::vector<Node> nodes_since(tenon_graph_t* graph, tenon_region_t region, tenon_node_t first);
tenon_node_t next_node(tenon_graph_t* graph);
// Erases nodes whose results are unused, last to first.
void erase_unused(const std::vector<Node>& nodes);
// Erases unused nodes with an id of at least `first`, except the makers of `kept`. Unused nodes
// occur where a derivative turned out to be 1; they would still use the stand-ins of a transposed
// rule.
void erase_unused_since(const Builder& b, tenon_node_t first, const std::vector<Value>& kept);

}  // namespace tenon::passes
