// Sets of nodes that act as one: atomic claims. A set can be one segment if no path leaves it and
// comes back (it is convex); several disjoint sets can be segments at the same time if the graph
// has no cycle once each of them is one node.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/dispatch/placement/partition.h"

namespace tenon::dispatch {

// For each node the nodes that read what it makes, and the reverse. Each list is sorted, each node
// once.
struct Edges {
  explicit Edges(const PartitionProblem& problem);
  std::vector<std::vector<uint32_t>> readers, makers;
};

// A node outside of the set on a path from the set back to it; none if the set is convex. nodes:
// increasing. Linear in the nodes and edges between the first and the last of them.
std::optional<uint32_t> between(const Edges& edges, std::span<const uint32_t> nodes);

// The sets taken so far, disjoint and free of cycles. Copies share the edges, which outlive them.
class Contraction {
 public:
  explicit Contraction(const Edges& edges)
      : edges_(&edges), set_of_(edges.readers.size(), kNoSet) {}

  // Whether the set touches none that was taken, and the graph stays free of cycles with it.
  bool fits(std::span<const uint32_t> nodes) const;
  // Takes a set that fits; returns its number.
  uint32_t take(std::span<const uint32_t> nodes);
  void give_up(uint32_t set);
  bool taken(uint32_t node) const { return set_of_[node] != kNoSet; }

  // The nodes in an order in which each set is together and every node comes after what it reads.
  std::vector<uint32_t> order() const;

 private:
  static constexpr uint32_t kNoSet = 0xffffffffu;
  uint32_t last_reachable(uint32_t last) const;

  const Edges* edges_;
  std::vector<uint32_t> set_of_;             // by node
  std::vector<std::vector<uint32_t>> sets_;  // empty if given up
};

}  // namespace tenon::dispatch
