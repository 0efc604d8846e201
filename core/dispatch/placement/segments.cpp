// Cuts an assignment into segments: partition.h has the declaration.
#include <algorithm>
#include <compare>
#include <iterator>
#include <map>
#include <set>

#include "core/dispatch/placement/contraction.h"
#include "core/dispatch/placement/partition.h"

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

// Lets nodes wait for a later segment of their maker where that keeps fewer bytes between segments.
// Levels alone put a node as early as they can, such as what a backward pass computes again from
// its inputs: at its very beginning, for all layers. Only where one device, which does its work at
// once, makes and reads all that is concerned: others may work side by side.
class Waiting {
 public:
  Waiting(const PartitionProblem& problem, const std::vector<Maker>& makers,
          std::vector<uint32_t> level)
      : problem_(problem),
        makers_(makers),
        edges_(problem),
        soonest_(std::move(level)),
        made_(problem.node_count),
        read_(problem.node_count) {
    for (uint32_t n = 0; n < problem.node_count; ++n) levels_[makers[n]].insert(soonest_[n]);
    for (uint32_t v = 0; v < problem.values.size(); ++v) {
      const PartitionValue& value = problem.values[v];
      if (value.producer == kHost) continue;
      made_[value.producer].push_back(v);
      for (uint32_t c : value.consumers) {
        if (read_[c].empty() || read_[c].back() != v) read_[c].push_back(v);
      }
    }
  }

  // A node waits because its readers may. If one of them is better off where it was, such as a
  // product that is smaller than what it reads, nothing waits in the next round that it needs.
  // Where waiting keeps as much as it saves, either may turn out better, so both are tried, and
  // what keeps the fewest bytes at the worst moment is taken.
  std::vector<uint32_t> levels() {
    std::vector<uint32_t> best = soonest_;
    double least = kept_at_worst(best);
    for (const bool tie : {false, true}) {
      stays_.assign(problem_.node_count, false);
      bool settled = false;
      for (int round = 0; round < kRoundsMost && !settled; ++round) {
        find_latest();
        level_ = soonest_;
        settled = settle(tie);
        const double kept = kept_at_worst(level_);
        if (kept >= least) continue;
        least = kept;
        best = level_;
      }
    }
    return best;
  }

 private:
  static constexpr int kRoundsMost = 16;

  // False if a node would have to wait and should not; it stays in later rounds. tie: one for which
  // it makes no difference waits.
  bool settle(bool tie) {
    bool settled = true;
    for (uint32_t n = 0; n < problem_.node_count; ++n) {
      if (latest_[n] == level_[n]) continue;
      const uint32_t first = earliest(n);
      const double held = held_bytes(n), made = made_bytes(n);
      if (held < made || (tie && held == made && first != level_[n])) {
        level_[n] = latest_[n];
        continue;
      }
      if (first != level_[n]) {
        stays_[n] = true;
        settled = false;
      }
      level_[n] = first;
    }
    return settled;
  }

  // The most bytes that are kept at once for later segments and the caller.
  double kept_at_worst(const std::vector<uint32_t>& level) const {
    std::vector<double> change(level.empty() ? 0 : *std::ranges::max_element(level) + 2, 0);
    for (const PartitionValue& value : problem_.values) {
      if (value.producer == kHost) continue;
      const uint32_t p = value.producer;
      uint32_t last = level[p];
      bool crosses = value.output;
      for (uint32_t c : value.consumers) {
        crosses = crosses || level[c] != level[p] || makers_[c] != makers_[p];
        last = std::max(last, level[c]);
      }
      if (!crosses) continue;
      change[level[p]] += value.bytes;
      if (!value.output) change[last + 1] -= value.bytes;
    }
    double kept = 0, most = 0;
    for (const double bytes : change) most = std::max(most, kept += bytes);
    return most;
  }
  bool may_wait(uint32_t n) const {
    const Maker& maker = makers_[n];
    if (maker.device == kUnplaced || maker.claim != kAlone) return false;
    if (problem_.devices[maker.device].asynchronous) return false;
    const auto same_device = [&](uint32_t m) { return makers_[m].device == maker.device; };
    return std::ranges::all_of(edges_.readers[n], same_device) &&
           std::ranges::all_of(edges_.makers[n], same_device);
  }
  uint32_t border(uint32_t from, uint32_t to) const { return makers_[from] == makers_[to] ? 0 : 1; }

  // By node, the last level at which its readers, as late as they can be, do not wait for it.
  void find_latest() {
    latest_ = soonest_;
    const uint32_t end = soonest_.empty() ? 0 : *std::ranges::max_element(soonest_);
    for (uint32_t n = problem_.node_count; n-- > 0;) {
      if (stays_[n] || !may_wait(n)) continue;
      uint32_t bound = end;
      for (uint32_t r : edges_.readers[n]) bound = std::min(bound, latest_[r] - border(n, r));
      latest_[n] = *std::prev(levels_[makers_[n]].upper_bound(bound));
    }
  }

  // The first level at which all that the node reads is there, where those before it have moved.
  uint32_t earliest(uint32_t n) {
    uint32_t first = level_[n];
    for (uint32_t m : edges_.makers[n]) first = std::max(first, level_[m] + border(m, n));
    return *levels_[makers_[n]].lower_bound(first);
  }

  double made_bytes(uint32_t n) const {
    double bytes = 0;
    for (uint32_t v : made_[n]) bytes += problem_.values[v].bytes;
    return bytes;
  }
  // Bytes that would have to be kept for the node if it waited, and would not be otherwise. What is
  // made later than the node could have been at the soonest waits for it, and is not kept.
  double held_bytes(uint32_t n) const {
    double bytes = 0;
    for (uint32_t v : read_[n]) {
      const PartitionValue& value = problem_.values[v];
      const uint32_t there = level_[value.producer] + border(value.producer, n);
      if (value.output || there > soonest_[n]) continue;
      const bool kept = std::ranges::any_of(
          value.consumers, [&](uint32_t c) { return c != n && level_[c] >= latest_[n]; });
      if (!kept) bytes += value.bytes;
    }
    return bytes;
  }

  const PartitionProblem& problem_;
  const std::vector<Maker>& makers_;
  const Edges edges_;
  std::vector<uint32_t> soonest_, level_, latest_;
  std::vector<bool> stays_;
  std::vector<std::vector<uint32_t>> made_, read_;  // values of earlier nodes, by node
  std::map<Maker, std::set<uint32_t>> levels_;      // at which there is a segment of this maker
};

// Which nodes each segment that reads them makes for itself, so that nothing of them is kept
// between segments, and none waits for another because of them. Broadcast numbers and masks are
// such: what is one node for all layers of a network would be kept from the first to the last. All
// that such a node reads is such a node, and no kernel set or other device reads it.
std::vector<bool> repeated(const PartitionProblem& problem, const std::vector<Maker>& makers,
                           const Edges& edges) {
  std::vector<bool> is(problem.repeatable);
  is.resize(problem.node_count, false);
  for (const PartitionValue& value : problem.values) {
    if (value.output && value.producer != kHost) is[value.producer] = false;
  }
  for (uint32_t n = 0; n < problem.node_count; ++n) {
    const Maker& maker = makers[n];
    const bool own = maker.device != kUnplaced && maker.by == 0 && maker.claim == kAlone;
    is[n] = is[n] && own && !edges.readers[n].empty() &&
            std::ranges::all_of(edges.readers[n], [&](uint32_t r) { return makers[r] == maker; }) &&
            std::ranges::all_of(edges.makers[n], [&](uint32_t m) { return is[m]; });
  }
  return is;
}

// Adds the repeated nodes that a segment reads.
void add_repeated(const std::vector<bool>& is, const Edges& edges, std::vector<bool>* there,
                  std::vector<uint32_t>* nodes) {
  const size_t own = nodes->size();
  for (size_t i = 0; i < nodes->size(); ++i) {
    for (uint32_t m : edges.makers[(*nodes)[i]]) {
      if (!is[m] || (*there)[m]) continue;
      (*there)[m] = true;
      nodes->push_back(m);
    }
  }
  for (size_t i = own; i < nodes->size(); ++i) (*there)[(*nodes)[i]] = false;
  std::ranges::sort(*nodes);
}

}  // namespace

std::vector<Segment> make_segments(const PartitionProblem& all, const Assignment& assignment) {
  const Edges edges(all);
  std::vector<Maker> makers = makers_of(all, assignment);
  const std::vector<bool> again = repeated(all, makers, edges);
  PartitionProblem problem = all;  // without the repeated nodes
  for (PartitionValue& value : problem.values) {
    if (value.producer != kHost && again[value.producer]) value.consumers.clear();
  }
  for (uint32_t n = 0; n < all.node_count; ++n) {
    if (again[n]) makers[n] = {};
  }
  const std::vector<uint32_t> level = Waiting(problem, makers, levels_of(problem, makers)).levels();
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
    if (makers[n].device == kUnplaced) continue;
    if (segments.empty() || last_level != level[n] || last != makers[n]) {
      segments.push_back({makers[n].device, {}, makers[n].by, makers[n].claim});
      last = makers[n];
      last_level = level[n];
    }
    segments.back().nodes.push_back(n);
  }
  std::vector<bool> there(all.node_count, false);
  for (Segment& segment : segments) add_repeated(again, edges, &there, &segment.nodes);
  return segments;
}

}  // namespace tenon::dispatch
