// Derivatives of control flow: loops, branches and calls.
#pragma once
#include "rules.h"

namespace tenon::passes {

// The values from outside that the regions of a node use.
std::vector<Value> captures_of(const Node& node);

// Adds to `tangents` those of the results of nodes, as far as `results` depend on them. Each node's
// are built right after it; those of the last one, at `end`.
Status push_nodes(Builder& end, const std::vector<Node>& nodes, const std::vector<Value>& results,
                  ValueMap* tangents);

// Tangents of the results of a node with regions. The node is replaced by one that carries tangents
// along; `tangents` has those of all values so far.
Status push_regions(Builder& b, const Node& node, ValueMap* tangents);

// Adds the cotangents of what a node with regions uses. A loop is replaced by one that also gives
// what its walk back needs.
Status pull_regions(Builder& b, const Node& node, const ValueSet& varied,
                    std::span<const Value> cotangents, Cotangents* sums);

}  // namespace tenon::passes
