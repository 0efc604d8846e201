// Derivatives of scan, while, switch and call.
#pragma once
#include "rules.h"

namespace tenon::passes {

// Forwards, the body carries tangents along. Backwards, the loop also gives the values that each
// iteration began with, and a scan from the last iteration to the first runs the body again on them
// and walks it backwards: also for a `while`, whose number of iterations is only known then.
Status push_loop(Builder& b, const Node& node, ValueMap* tangents);
Status pull_loop(Builder& b, const Node& node, const ValueSet& varied,
                 std::span<const Value> cotangents, Cotangents* sums);

// The branches of the walk back contain those of the node, so nothing is saved but its operands.
Status push_branches(Builder& b, const Node& node, ValueMap* tangents);
Status pull_branches(Builder& b, const Node& node, const ValueSet& varied,
                     std::span<const Value> cotangents, Cotangents* sums);

// A call is inlined. The walk back computes the inside of one of kind "remat" again, after a
// barrier, so that nothing merges it with what the walk forward computed. One of kind
// "custom_deriv" has the rules that its regions say.
Status push_call(Builder& b, const Node& node, ValueMap* tangents);
Status pull_call(Builder& b, const Node& node, const ValueSet& varied,
                 std::span<const Value> cotangents, Cotangents* sums);

// ---- Shared by them ----

// A region under construction for a new node at `at`.
class Body {
 public:
  explicit Body(const Builder& at);
  // One that was begun before.
  Body(const Builder& at, Region begun)
      : b_(tenon_builder_t{at.graph(), begun.id(), TENON_NONE, at.raw().loc}) {}
  Builder& builder() { return b_; }
  Region region() const { return Region(b_.graph(), b_.raw().region); }
  // Adds an argument of the type of `v`, or of its slices along dim 0.
  Value argument_like(Value v);
  Value argument_of_slice(Value v);
  Status yield(const std::vector<Value>& values);

 private:
  Value add(const TypeView& type, uint32_t first_dim);
  Builder b_;
};

std::vector<Region> regions_of(const Node& node);

// What the walk back through a switch or call gives cotangents to: operands, and values from
// outside that its regions use.
struct Targets {
  std::vector<uint32_t> operands;
  std::vector<Value> captures;
};
Targets targets_of(const Node& node, const ValueSet& varied, uint32_t first_operand);

// T0410 for a region whose arguments change their sizes.
Status require_fixed_sizes(const Node& node, Region region);
Value tangent_of(const ValueMap& tangents, Value v);
// `from` is replaced by `to`; order: the places of its results among those of `to`.
Status replace_node(const Node& from, const Node& to, const std::vector<uint32_t>& order = {});

}  // namespace tenon::passes
