// Cuts an assignment into segments: partition.h has the declaration.
#include <algorithm>
#include <compare>

#include "core/dispatch/contraction.h"
#include "core/dispatch/partition.h"

namespace tenon::dispatch {
namespace {

// What decides whether two nodes of one level may be in one segment.
struct Maker {
  uint32_t device = kUnplaced, by = 0, claim = kAlone;
  auto operator<=>(const Maker&) const = default;
};

std::vector<Maker> makers_of(const PartitionProblem& problem, const Assignment& assignment) {
  std::vector<Maker> makers(problem.node_count);
  for (uint32_t n = 0; n < problem.node_count; ++n) {
    const uint32_t d = assignment.at[n];
    if (d == kUnplaced) continue;
    const PartitionDevice& device = problem.devices[d];
    const uint32_t claim = assignment.claim[n];
    const uint32_t alone_by = device.by.empty() ? 0 : device.by[n];
    makers[n] = {d, claim == kAlone ? alone_by : device.atomic[claim].by, claim};
  }
  return makers;
}

// Level of a node: the number of changes of maker on the data's way to it. Every edge between
// segments raises the level, so there is no cycle. The nodes of an atomic claim have one level,
// that of all they read.
std::vector<uint32_t> levels_of(const PartitionProblem& problem, const std::vector<Maker>& makers) {
  const Edges edges(problem);
  Contraction sets(edges);
  for (uint32_t n = 0; n < problem.node_count; ++n) {
    if (makers[n].claim != kAlone && !sets.taken(n))
      sets.take(problem.devices[makers[n].device].atomic[makers[n].claim].nodes);
  }
  const std::vector<uint32_t> order = sets.order();
  std::vector<uint32_t> level(problem.node_count, 0);
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (makers[order[i]].claim != kAlone && end < order.size() &&
           makers[order[end]] == makers[order[i]])
      ++end;
    uint32_t height = 0;
    for (size_t k = i; k < end; ++k) {
      for (uint32_t m : edges.makers[order[k]]) {
        const bool same = makers[m] == makers[order[k]];
        if (end == i + 1 || !same) height = std::max(height, level[m] + (same ? 0u : 1u));
      }
    }
    for (; i < end; ++i) level[order[i]] = height;
  }
  return level;
}

}  // namespace

std::vector<Segment> make_segments(const PartitionProblem& problem, const Assignment& assignment) {
  const std::vector<Maker> makers = makers_of(problem, assignment);
  const std::vector<uint32_t> level = levels_of(problem, makers);
  std::vector<uint32_t> order(problem.node_count);
  for (uint32_t n = 0; n < order.size(); ++n) order[n] = n;
  auto asynchronous = [&](uint32_t n) {
    return makers[n].device != kUnplaced && makers[n].by == 0 &&
           problem.devices[makers[n].device].asynchronous;
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (level[a] != level[b]) return level[a] < level[b];
    const bool first = asynchronous(a), second = asynchronous(b);
    if (first != second) return first;
    return makers[a] != makers[b] ? makers[a] < makers[b] : a < b;
  });
  std::vector<Segment> segments;
  Maker last;
  uint32_t last_level = 0;
  for (uint32_t n : order) {
    if (assignment.at[n] == kUnplaced) continue;
    if (segments.empty() || last_level != level[n] || last != makers[n]) {
      segments.push_back({makers[n].device, {}, makers[n].by, makers[n].claim});
      last = makers[n];
      last_level = level[n];
    }
    segments.back().nodes.push_back(n);
  }
  return segments;
}

}  // namespace tenon::dispatch
