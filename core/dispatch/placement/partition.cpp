#include "core/dispatch/placement/partition.h"

#include <algorithm>
#include <tuple>

#include "core/dispatch/placement/contraction.h"

namespace tenon::dispatch {
namespace {

// A boundary between two devices costs at least this much, even in shared memory: two executions
// instead of one, and no fusion across. It keeps devices of equal cost from alternating.
constexpr double kBorderNs = 3000;
constexpr int kSweepsMax = 8;

// How good an assignment is: nodes without a device first, then nodes on fallbacks, then the cost.
struct Score {
  int64_t unplaced = 0, fallbacks = 0;
  double cost_ns = 0;
  // Clearly better: a difference below rounding noise does not count, else two equal placements
  // could alternate.
  bool betters(const Score& other) const {
    if (unplaced != other.unplaced) return unplaced < other.unplaced;
    if (fallbacks != other.fallbacks) return fallbacks < other.fallbacks;
    return cost_ns < other.cost_ns - 1e-3;
  }
};

// An atomic claim that was taken, and its number in the contraction.
struct Taken {
  uint32_t device = 0, claim = 0, set = 0;
};

// An assignment and, by value and device, the number of the value's consumers there. Moving a node
// thus costs one step per device for each value it touches, however many nodes read that value.
struct State {
  Assignment to;
  std::vector<uint32_t> readers;  // value-major
  Contraction sets;
  std::vector<Taken> taken;
};

class Search {
 public:
  explicit Search(const PartitionProblem& problem)
      : problem_(problem),
        edges_(problem),
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

  State empty() const {
    State state{{std::vector<uint32_t>(problem_.node_count, kUnplaced),
                 std::vector<uint32_t>(problem_.node_count, kAlone)},
                std::vector<uint32_t>(problem_.values.size() * devices_, 0),
                Contraction(edges_),
                {}};
    return state;
  }

  State state_of(const Assignment& assignment) const {
    State state = empty();
    for (uint32_t n = 0; n < problem_.node_count; ++n) {
      const uint32_t d = assignment.at[n];
      if (assignment.claim[n] == kAlone) {
        put(n, d, &state);
      } else if (state.to.claim[n] == kAlone) {
        take(d, assignment.claim[n], &state);
      }
    }
    return state;
  }

  Score score(const State& state) const {
    Score score;
    for (uint32_t n = 0; n < problem_.node_count; ++n) {
      const uint32_t d = state.to.at[n];
      score.unplaced += d == kUnplaced;
      if (d == kUnplaced) continue;
      score.fallbacks += problem_.devices[d].fallback;
      if (state.to.claim[n] == kAlone) score.cost_ns += problem_.devices[d].cost_ns[n];
    }
    for (const Taken& taken : state.taken) score.cost_ns += claim_of(taken).cost_ns;
    for (uint32_t v = 0; v < problem_.values.size(); ++v) score.cost_ns += copies(v, state);
    return score;
  }

  // Takes the device's atomic claims that gain something over its single nodes, best first, as far
  // as their nodes are free.
  void take_favourites(uint32_t device, State* state) const {
    const PartitionDevice& d = problem_.devices[device];
    struct Gain {
      size_t nodes;
      double saved_ns;
      uint32_t claim;
    };
    std::vector<Gain> gains;
    for (uint32_t c = 0; c < d.atomic.size(); ++c) {
      Gain gain{0, -d.atomic[c].cost_ns, c};
      for (uint32_t n : d.atomic[c].nodes) {
        if (d.cost_ns[n] == kNotClaimed)
          ++gain.nodes;
        else
          gain.saved_ns += d.cost_ns[n];
      }
      if (gain.nodes != 0 || gain.saved_ns > 0) gains.push_back(gain);
    }
    std::sort(gains.begin(), gains.end(), [](const Gain& a, const Gain& b) {
      return std::tuple(b.nodes, b.saved_ns, a.claim) < std::tuple(a.nodes, a.saved_ns, b.claim);
    });
    for (const Gain& gain : gains) {
      const std::vector<uint32_t>& nodes = d.atomic[gain.claim].nodes;
      const bool free = std::all_of(nodes.begin(), nodes.end(),
                                    [&](uint32_t n) { return state->to.at[n] == kUnplaced; });
      if (free && state->sets.fits(nodes)) take(device, gain.claim, state);
    }
  }

  // Puts every free node on its cheapest device; `favourite` wins wherever it claims.
  void place_cheapest(uint32_t favourite, State* state) const {
    for (uint32_t n = 0; n < problem_.node_count; ++n) {
      if (state->to.at[n] == kUnplaced) put(n, cheapest(n, favourite), state);
    }
  }
  // Puts every free node that the device claims there.
  void place_all(uint32_t device, State* state) const {
    for (uint32_t n = 0; n < problem_.node_count; ++n) {
      if (state->to.at[n] == kUnplaced && problem_.devices[device].cost_ns[n] != kNotClaimed)
        put(n, device, state);
    }
  }

  // Moves single nodes and whole connected groups, takes atomic claims and gives them up, as long
  // as the score gets better.
  void improve(State* state) const {
    for (int sweep = 0; sweep < kSweepsMax; ++sweep) {
      bool changed = false;
      for (uint32_t n = 0; n < problem_.node_count; ++n) changed |= try_moves({&n, 1}, state);
      for (const std::vector<uint32_t>& group : groups(state->to))
        changed |= try_moves(group, state);
      changed |= try_claims(state);
      changed |= try_giving_up(state);
      if (!changed) return;
    }
  }

 private:
  const AtomicClaim& claim_of(const Taken& taken) const {
    return problem_.devices[taken.device].atomic[taken.claim];
  }

  double copies(uint32_t v, const State& state) const {
    const PartitionValue& value = problem_.values[v];
    const uint32_t from = value.producer == kHost ? kHost : state.to.at[value.producer];
    if (from == kUnplaced) return 0;
    double cost = 0;
    for (uint32_t to = 0; to < devices_; ++to) {
      if (to != from && state.readers[v * devices_ + to] != 0) cost += copy(from, to, value.bytes);
    }
    if (value.output && from != kHost) cost += copy(from, kHost, value.bytes);
    return cost;
  }
  double copy(uint32_t from, uint32_t to, double bytes) const {
    return leg(from, bytes) + leg(to, bytes) + (from != kHost && to != kHost ? kBorderNs : 0);
  }
  double leg(uint32_t device, double bytes) const {
    if (device == kHost) return 0;
    const PartitionDevice& d = problem_.devices[device];
    return d.bytes_per_ns <= 0 ? 0 : d.latency_ns + bytes / d.bytes_per_ns;
  }

  uint32_t cheapest(uint32_t n, uint32_t favourite) const {
    uint32_t at = kUnplaced;
    for (bool fallback : {false, true}) {
      for (uint32_t d = 0; d < devices_ && !(fallback && at != kUnplaced); ++d) {
        const PartitionDevice& device = problem_.devices[d];
        if (device.fallback != fallback || device.cost_ns[n] == kNotClaimed) continue;
        const bool better = at == kUnplaced || device.cost_ns[n] < problem_.devices[at].cost_ns[n];
        if ((better && at != favourite) || d == favourite) at = d;
      }
    }
    return at;
  }

  // ---- Changes ----
  void put(uint32_t n, uint32_t to, State* state) const {
    const uint32_t from = state->to.at[n];
    for (uint32_t v : reads_[n]) {
      if (from != kUnplaced) --state->readers[v * devices_ + from];
      if (to != kUnplaced) ++state->readers[v * devices_ + to];
    }
    state->to.at[n] = to;
  }
  void take(uint32_t device, uint32_t claim, State* state) const {
    const std::vector<uint32_t>& nodes = problem_.devices[device].atomic[claim].nodes;
    for (uint32_t n : nodes) {
      put(n, device, state);
      state->to.claim[n] = claim;
    }
    state->taken.push_back({device, claim, state->sets.take(nodes)});
  }
  void give_up(size_t index, std::span<const uint32_t> homes, State* state) const {
    const Taken taken = state->taken[index];
    const std::vector<uint32_t>& nodes = claim_of(taken).nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      put(nodes[i], homes[i], state);
      state->to.claim[nodes[i]] = kAlone;
    }
    state->sets.give_up(taken.set);
    state->taken.erase(state->taken.begin() + static_cast<ptrdiff_t>(index));
  }

  // The part of the score that these nodes and the copies of what they touch make up.
  // claim: the one they are taken by, else null.
  Score part(std::span<const uint32_t> nodes, const AtomicClaim* claim, const State& state) const {
    Score score;
    std::vector<uint32_t> values;
    for (uint32_t n : nodes) {
      const uint32_t d = state.to.at[n];
      values.insert(values.end(), touched_[n].begin(), touched_[n].end());
      score.unplaced += d == kUnplaced;
      if (d == kUnplaced) continue;
      score.fallbacks += problem_.devices[d].fallback;
      if (claim == nullptr) score.cost_ns += problem_.devices[d].cost_ns[n];
    }
    if (claim != nullptr) score.cost_ns += claim->cost_ns;
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (uint32_t v : values) score.cost_ns += copies(v, state);
    return score;
  }

  // ---- Moves of nodes taken by themselves ----
  bool try_moves(std::span<const uint32_t> nodes, State* state) const {
    const uint32_t from = state->to.at[nodes[0]];
    if (from == kUnplaced || problem_.devices[from].fallback || state->sets.taken(nodes[0]))
      return false;
    bool moved = false;
    for (uint32_t to = 0; to < devices_; ++to) {
      if (to != state->to.at[nodes[0]] && !problem_.devices[to].fallback)
        moved |= try_move(nodes, to, state);
    }
    return moved;
  }

  bool try_move(std::span<const uint32_t> nodes, uint32_t to, State* state) const {
    const uint32_t from = state->to.at[nodes[0]];
    for (uint32_t n : nodes) {
      if (problem_.devices[to].cost_ns[n] == kNotClaimed) return false;
    }
    const Score before = part(nodes, nullptr, *state);
    for (uint32_t n : nodes) put(n, to, state);
    if (part(nodes, nullptr, *state).betters(before)) return true;
    for (uint32_t n : nodes) put(n, from, state);
    return false;
  }

  // Connected nodes of one device, each taken by itself.
  std::vector<std::vector<uint32_t>> groups(const Assignment& to) const {
    std::vector<uint32_t> root(problem_.node_count);
    for (uint32_t n = 0; n < root.size(); ++n) root[n] = n;
    auto find = [&root](uint32_t n) {
      while (root[n] != n) n = root[n] = root[root[n]];
      return n;
    };
    for (const PartitionValue& value : problem_.values) {
      if (value.producer == kHost || to.claim[value.producer] != kAlone) continue;
      for (uint32_t c : value.consumers) {
        if (to.claim[c] == kAlone && to.at[c] == to.at[value.producer])
          root[find(c)] = find(value.producer);
      }
    }
    std::vector<std::vector<uint32_t>> by_root(problem_.node_count), out;
    for (uint32_t n = 0; n < root.size(); ++n) by_root[find(n)].push_back(n);
    for (auto& group : by_root) {
      if (group.size() > 1) out.push_back(std::move(group));
    }
    return out;
  }

  // ---- Atomic claims ----
  // What the score of the claim's nodes becomes if it is taken; the state is as before afterwards.
  Score tried(uint32_t device, const AtomicClaim& claim, State* state) const {
    std::vector<uint32_t> before;
    for (uint32_t n : claim.nodes) {
      before.push_back(state->to.at[n]);
      put(n, device, state);
    }
    const Score score = part(claim.nodes, &claim, *state);
    for (size_t i = 0; i < before.size(); ++i) put(claim.nodes[i], before[i], state);
    return score;
  }

  // Takes the claims that better the score, those that better it most first.
  bool try_claims(State* state) const {
    struct Candidate {
      uint32_t device, claim;
      Score change;
    };
    std::vector<Candidate> candidates;
    auto change = [&](uint32_t d, const AtomicClaim& claim, Score* out) {
      for (uint32_t n : claim.nodes) {
        if (state->sets.taken(n)) return false;
      }
      const Score before = part(claim.nodes, nullptr, *state);
      const Score after = tried(d, claim, state);
      *out = {after.unplaced - before.unplaced, after.fallbacks - before.fallbacks,
              after.cost_ns - before.cost_ns};
      return after.betters(before);
    };
    for (uint32_t d = 0; d < devices_; ++d) {
      const std::vector<AtomicClaim>& claims = problem_.devices[d].atomic;
      for (uint32_t c = 0; c < claims.size(); ++c) {
        Score gained;
        if (change(d, claims[c], &gained)) candidates.push_back({d, c, gained});
      }
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      const auto key = [](const Candidate& c) {
        return std::tuple(c.change.unplaced, c.change.fallbacks, c.change.cost_ns, c.device,
                          c.claim);
      };
      return key(a) < key(b);
    });
    bool taken = false;
    for (const Candidate& candidate : candidates) {
      const AtomicClaim& claim = problem_.devices[candidate.device].atomic[candidate.claim];
      Score gained;
      if (!change(candidate.device, claim, &gained) || !state->sets.fits(claim.nodes)) continue;
      take(candidate.device, candidate.claim, state);
      taken = true;
    }
    return taken;
  }

  // Gives up claims without which the score is better.
  bool try_giving_up(State* state) const {
    bool given_up = false;
    for (size_t i = state->taken.size(); i-- > 0;) {
      const AtomicClaim& claim = claim_of(state->taken[i]);
      const uint32_t device = state->taken[i].device;
      const Score before = part(claim.nodes, &claim, *state);
      std::vector<uint32_t> homes;
      for (uint32_t n : claim.nodes) {
        homes.push_back(cheapest(n, kHost));  // no favourite
        put(n, homes.back(), state);
      }
      const bool better = part(claim.nodes, nullptr, *state).betters(before);
      for (uint32_t n : claim.nodes) put(n, device, state);
      if (!better) continue;
      give_up(i, homes, state);
      given_up = true;
    }
    return given_up;
  }

  const PartitionProblem& problem_;
  const Edges edges_;
  const size_t devices_;
  std::vector<std::vector<uint32_t>> touched_;  // values that a node makes or reads
  std::vector<std::vector<uint32_t>> reads_;    // values that a node reads, once per read
};

}  // namespace

Assignment assign_by_preference(const PartitionProblem& problem) {
  const Search search(problem);
  State state = search.empty();
  for (bool fallback : {false, true}) {
    for (uint32_t d = 0; d < problem.devices.size(); ++d) {
      if (problem.devices[d].fallback != fallback) continue;
      search.take_favourites(d, &state);
      search.place_all(d, &state);
    }
  }
  return std::move(state.to);
}

Assignment assign_by_cost(const PartitionProblem& problem) {
  const Search search(problem);
  State best = search.empty();
  search.place_cheapest(kHost, &best);  // no favourite
  search.improve(&best);
  Score best_score = search.score(best);
  for (uint32_t d = 0; d < problem.devices.size(); ++d) {
    if (problem.devices[d].fallback) continue;
    State state = search.empty();
    search.take_favourites(d, &state);
    search.place_cheapest(d, &state);
    search.improve(&state);
    const Score score = search.score(state);
    if (!score.betters(best_score)) continue;
    best_score = score;
    best = std::move(state);
  }
  return std::move(best.to);
}

double total_cost(const PartitionProblem& problem, const Assignment& assignment) {
  const Search search(problem);
  return search.score(search.state_of(assignment)).cost_ns;
}

}  // namespace tenon::dispatch
