// Derivatives of control flow: loops, branches and calls.
#pragma once
#include "rules.h"

namespace tenon::passes {

// The values from outside that the regions of a node use.
std::vector<Value> captures_of(const Node& node);

// Adds the tangents of the results of nodes to `tangents`. Nodes on which `results` do not depend
// are left out. The tangents of each node are built right after it; those of the last one, at
// `end`.
Status push_nodes(Builder& end, const std::vector<Node>& nodes, const std::vector<Value>& results,
                  ValueMap* tangents);

// Adds the tangents of the results of a node with regions to `tangents`, which has those of all
// values before it. The node is replaced by one that also computes tangents.
Status push_regions(Builder& b, const Node& node, ValueMap* tangents);

// Adds the cotangents of the values that a node with regions uses to `sums`. A loop is replaced by
// one that also yields the values that its walk back needs.
Status pull_regions(Builder& b, const Node& node, const ValueSet& varied,
                    std::span<const Value> cotangents, Cotangents* sums);

}  // namespace tenon::passes
