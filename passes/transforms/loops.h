// Derivatives of scan, while, switch and call.
#pragma once
#include "rules.h"

namespace tenon::passes {

// Forwards, the body also carries the tangents. Backwards, the loop also yields the values that
// each iteration began with; a scan from the last iteration to the first runs the body again on
// them and walks it backwards. A `while` works in the same way, because the number of its
// iterations is known once it has run.
Status push_loop(Builder& b, const Node& node, ValueMap* tangents);
Status pull_loop(Builder& b, const Node& node, const ValueSet& varied,
                 std::span<const Value> cotangents, Cotangents* sums);

// The branches of the walk back compute those of the node again, so only its operands are saved.
Status push_branches(Builder& b, const Node& node, ValueMap* tangents);
Status pull_branches(Builder& b, const Node& node, const ValueSet& varied,
                     std::span<const Value> cotangents, Cotangents* sums);

// A call is inlined. If its kind is "remat", the walk back computes the inside again, after a
// barrier, because cse would otherwise merge it with what the walk forward computed. If its kind is
// "custom_deriv", its regions are its rules.
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
  Value argument_as(Value v, tenon_dtype_t type);  // of the dims of `v`
  Value argument_of_slice(Value v);
  Status yield(const std::vector<Value>& values);

 private:
  Value add(const Type& type);
  Builder b_;
};

std::vector<Region> regions_of(const Node& node);

// The values that get cotangents from the walk back through a switch or call: operands, and values
// from outside that its regions use.
struct Targets {
  std::vector<uint32_t> operands;
  std::vector<Value> captures;
};
Targets targets_of(const Node& node, const ValueSet& varied, uint32_t first_operand);

// T0410 for a region whose arguments change their sizes.
Status require_fixed_sizes(const Node& node, Region region);
Value tangent_of(const ValueMap& tangents, Value v);
// Replaces `from` by `to`. order: for each result of `from`, the place of its replacement among the
// results of `to`; empty: the same places.
Status replace_node(const Node& from, const Node& to, const std::vector<uint32_t>& order = {});

}  // namespace tenon::passes
