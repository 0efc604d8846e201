#include "core/dispatch/partition.h"

#include <algorithm>

namespace tenon::dispatch {
namespace {

// A boundary between two devices costs at least this much, even in shared memory: two executions
// instead of one, and no fusion across. It keeps devices of equal cost from alternating.
constexpr double kBorderNs = 3000;
constexpr int kSweepsMax = 8;

// An assignment and, by value and device, the number of the value's consumers there. Moving a node
// thus costs one step per device for each value it touches, however many nodes read that value.
struct State {
  std::vector<uint32_t> at;
  std::vector<uint32_t> readers;  // value-major
};

class Search {
 public:
  explicit Search(const PartitionProblem& problem)
      : problem_(problem),
        devices_(problem.devices.size()),
        touched_(problem.node_count),
        reads_(problem.node_count) {
    for (uint32_t v = 0; v < problem.values.size(); ++v) {
      const PartitionValue& value = problem.values[v];
      if (value.producer != kHost) touched_[value.producer].push_back(v);
      for (uint32_t c : value.consumers) {
        touched_[c].push_back(v);
        reads_[c].push_back(v);
      }
    }
    for (auto& list : touched_) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }

  State state_of(std::vector<uint32_t> at) const {
    State state{std::move(at), std::vector<uint32_t>(problem_.values.size() * devices_, 0)};
    for (uint32_t v = 0; v < problem_.values.size(); ++v) {
      for (uint32_t c : problem_.values[v].consumers) {
        if (state.at[c] != kUnplaced) ++state.readers[v * devices_ + state.at[c]];
      }
    }
    return state;
  }

  double copies(uint32_t v, const State& state) const {
    const PartitionValue& value = problem_.values[v];
    const uint32_t from = value.producer == kHost ? kHost : state.at[value.producer];
    if (from == kUnplaced) return 0;
    double cost = 0;
    for (uint32_t to = 0; to < devices_; ++to) {
      if (to != from && state.readers[v * devices_ + to] != 0) cost += copy(from, to, value.bytes);
    }
    if (value.output && from != kHost) cost += copy(from, kHost, value.bytes);
    return cost;
  }

  double total(const State& state) const {
    double cost = 0;
    for (uint32_t n = 0; n < problem_.node_count; ++n) {
      if (state.at[n] != kUnplaced) cost += problem_.devices[state.at[n]].cost_ns[n];
    }
    for (uint32_t v = 0; v < problem_.values.size(); ++v) cost += copies(v, state);
    return cost;
  }

  // Moves single nodes, then whole connected groups, as long as the total falls.
  void improve(State* state) const {
    for (int sweep = 0; sweep < kSweepsMax; ++sweep) {
      bool moved = false;
      for (uint32_t n = 0; n < problem_.node_count; ++n) moved |= try_moves({&n, 1}, state);
      for (const std::vector<uint32_t>& group : groups(state->at)) moved |= try_moves(group, state);
      if (!moved) return;
    }
  }

 private:
  double copy(uint32_t from, uint32_t to, double bytes) const {
    return leg(from, bytes) + leg(to, bytes) + (from != kHost && to != kHost ? kBorderNs : 0);
  }
  double leg(uint32_t device, double bytes) const {
    if (device == kHost) return 0;
    const PartitionDevice& d = problem_.devices[device];
    return d.bytes_per_ns <= 0 ? 0 : d.latency_ns + bytes / d.bytes_per_ns;
  }

  bool try_moves(std::span<const uint32_t> nodes, State* state) const {
    const uint32_t from = state->at[nodes[0]];
    if (from == kUnplaced || problem_.devices[from].fallback) return false;
    bool moved = false;
    for (uint32_t to = 0; to < devices_; ++to) {
      if (to != state->at[nodes[0]] && !problem_.devices[to].fallback)
        moved |= try_move(nodes, to, state);
    }
    return moved;
  }

  void move(std::span<const uint32_t> nodes, uint32_t to, State* state) const {
    for (uint32_t n : nodes) {
      for (uint32_t v : reads_[n]) {
        --state->readers[v * devices_ + state->at[n]];
        ++state->readers[v * devices_ + to];
      }
      state->at[n] = to;
    }
  }

  bool try_move(std::span<const uint32_t> nodes, uint32_t to, State* state) const {
    const uint32_t from = state->at[nodes[0]];
    double gain = 0;
    std::vector<uint32_t> values;
    for (uint32_t n : nodes) {
      if (problem_.devices[to].cost_ns[n] == kNotClaimed) return false;
      gain += problem_.devices[from].cost_ns[n] - problem_.devices[to].cost_ns[n];
      values.insert(values.end(), touched_[n].begin(), touched_[n].end());
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (uint32_t v : values) gain += copies(v, *state);
    move(nodes, to, state);
    for (uint32_t v : values) gain -= copies(v, *state);
    // A gain below rounding noise does not count, else two equal placements could alternate.
    if (gain > 1e-3) return true;
    move(nodes, from, state);
    return false;
  }

  // Connected nodes of one device.
  std::vector<std::vector<uint32_t>> groups(std::span<const uint32_t> at) const {
    std::vector<uint32_t> root(problem_.node_count);
    for (uint32_t n = 0; n < root.size(); ++n) root[n] = n;
    auto find = [&root](uint32_t n) {
      while (root[n] != n) n = root[n] = root[root[n]];
      return n;
    };
    for (const PartitionValue& value : problem_.values) {
      if (value.producer == kHost) continue;
      for (uint32_t c : value.consumers) {
        if (at[c] == at[value.producer]) root[find(c)] = find(value.producer);
      }
    }
    std::vector<std::vector<uint32_t>> by_root(problem_.node_count), out;
    for (uint32_t n = 0; n < root.size(); ++n) by_root[find(n)].push_back(n);
    for (auto& group : by_root) {
      if (group.size() > 1) out.push_back(std::move(group));
    }
    return out;
  }

  const PartitionProblem& problem_;
  const size_t devices_;
  std::vector<std::vector<uint32_t>> touched_;  // values that a node makes or reads
  std::vector<std::vector<uint32_t>> reads_;    // values that a node reads, once per read
};

// Cheapest device of each node; `favourite` wins wherever it claims.
std::vector<uint32_t> cheapest(const PartitionProblem& problem, uint32_t favourite) {
  std::vector<uint32_t> at(problem.node_count, kUnplaced);
  for (uint32_t n = 0; n < problem.node_count; ++n) {
    for (bool fallback : {false, true}) {
      for (uint32_t d = 0; d < problem.devices.size() && !(fallback && at[n] != kUnplaced); ++d) {
        const PartitionDevice& device = problem.devices[d];
        if (device.fallback != fallback || device.cost_ns[n] == kNotClaimed) continue;
        const bool better =
            at[n] == kUnplaced || device.cost_ns[n] < problem.devices[at[n]].cost_ns[n];
        if ((better && at[n] != favourite) || d == favourite) at[n] = d;
      }
    }
  }
  return at;
}

}  // namespace

std::vector<uint32_t> assign_by_preference(const PartitionProblem& problem) {
  std::vector<uint32_t> at(problem.node_count, kUnplaced);
  for (bool fallback : {false, true}) {
    for (uint32_t d = 0; d < problem.devices.size(); ++d) {
      if (problem.devices[d].fallback != fallback) continue;
      for (uint32_t n = 0; n < problem.node_count; ++n) {
        if (at[n] == kUnplaced && problem.devices[d].cost_ns[n] != kNotClaimed) at[n] = d;
      }
    }
  }
  return at;
}

std::vector<uint32_t> assign_by_cost(const PartitionProblem& problem) {
  const Search search(problem);
  State best = search.state_of(cheapest(problem, kHost));  // no favourite
  search.improve(&best);
  double best_cost = search.total(best);
  for (uint32_t d = 0; d < problem.devices.size(); ++d) {
    if (problem.devices[d].fallback) continue;
    State state = search.state_of(cheapest(problem, d));
    search.improve(&state);
    const double cost = search.total(state);
    if (cost < best_cost) {
      best_cost = cost;
      best = std::move(state);
    }
  }
  return best.at;
}

double total_cost(const PartitionProblem& problem, std::span<const uint32_t> assignment) {
  const Search search(problem);
  return search.total(search.state_of({assignment.begin(), assignment.end()}));
}

std::vector<Segment> make_segments(const PartitionProblem& problem,
                                   std::span<const uint32_t> assignment) {
  // Level of a node: the number of device changes on the data's way to it. Every edge between
  // segments raises the level, so there is no cycle.
  std::vector<std::vector<uint32_t>> reads(problem.node_count);
  for (uint32_t v = 0; v < problem.values.size(); ++v) {
    for (uint32_t c : problem.values[v].consumers) reads[c].push_back(v);
  }
  std::vector<uint32_t> level(problem.node_count, 0);
  for (uint32_t n = 0; n < problem.node_count; ++n) {
    for (uint32_t v : reads[n]) {
      const uint32_t p = problem.values[v].producer;
      if (p == kHost) continue;
      level[n] = std::max(level[n], level[p] + (assignment[p] == assignment[n] ? 0u : 1u));
    }
  }
  std::vector<uint32_t> order(problem.node_count);
  for (uint32_t n = 0; n < order.size(); ++n) order[n] = n;
  auto asynchronous = [&](uint32_t n) {
    return assignment[n] != kUnplaced && problem.devices[assignment[n]].asynchronous;
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (level[a] != level[b]) return level[a] < level[b];
    const bool first = asynchronous(a), second = asynchronous(b);
    if (first != second) return first;
    return assignment[a] != assignment[b] ? assignment[a] < assignment[b] : a < b;
  });
  std::vector<Segment> segments;
  uint32_t last_level = 0;
  for (uint32_t n : order) {
    if (assignment[n] == kUnplaced) continue;
    if (segments.empty() || last_level != level[n] || segments.back().device != assignment[n]) {
      segments.push_back({assignment[n], {}});
      last_level = level[n];
    }
    segments.back().nodes.push_back(n);
  }
  return segments;
}

}  // namespace tenon::dispatch
