#include "core/dispatch/placement/contraction.h"

#include <algorithm>

namespace tenon::dispatch {
namespace {

void sort_unique(std::vector<uint32_t>* list) {
  std::sort(list->begin(), list->end());
  list->erase(std::unique(list->begin(), list->end()), list->end());
}

}  // namespace

Edges::Edges(const PartitionProblem& problem)
    : readers(problem.node_count), makers(problem.node_count) {
  for (const PartitionValue& value : problem.values) {
    if (value.producer == kHost) continue;
    for (uint32_t c : value.consumers) {
      readers[value.producer].push_back(c);
      makers[c].push_back(value.producer);
    }
  }
  for (auto& list : readers) sort_unique(&list);
  for (auto& list : makers) sort_unique(&list);
}

// Node numbers are in topological order, so a path from the set back to it stays between its first
// and its last node.
std::optional<uint32_t> between(const Edges& edges, std::span<const uint32_t> nodes) {
  if (nodes.empty()) return std::nullopt;
  const uint32_t first = nodes.front(), last = nodes.back();
  std::vector<bool> inside(last - first + 1, false), after(last - first + 1, false);
  for (uint32_t n : nodes) inside[n - first] = true;
  for (uint32_t n = first; n <= last; ++n) {
    for (uint32_t m : edges.makers[n]) {
      if (m < first || (!inside[m - first] && !after[m - first])) continue;
      if (!inside[n - first])
        after[n - first] = true;
      else if (after[m - first])
        return m;
    }
  }
  return std::nullopt;
}

// A path that has passed the last node can come back only through a set that lies on both sides of
// where it is.
uint32_t Contraction::last_reachable(uint32_t last) const {
  for (bool grown = true; grown;) {
    grown = false;
    for (const std::vector<uint32_t>& set : sets_) {
      if (set.empty() || set.front() > last || set.back() <= last) continue;
      last = set.back();
      grown = true;
    }
  }
  return last;
}

bool Contraction::fits(std::span<const uint32_t> nodes) const {
  std::vector<bool> seen(edges_->readers.size(), false), mine(edges_->readers.size(), false);
  for (uint32_t n : nodes) {
    if (taken(n)) return false;
    mine[n] = true;
  }
  const uint32_t last = last_reachable(nodes.back());
  std::vector<uint32_t> open;
  auto reach = [&](uint32_t n) {
    if (n > last || seen[n]) return;
    if (!taken(n)) {
      seen[n] = true;
      open.push_back(n);
      return;
    }
    for (uint32_t member : sets_[set_of_[n]]) {
      seen[member] = true;
      open.push_back(member);
    }
  };
  for (uint32_t n : nodes) {
    for (uint32_t r : edges_->readers[n]) {
      if (!mine[r]) reach(r);
    }
  }
  while (!open.empty()) {
    const uint32_t n = open.back();
    open.pop_back();
    for (uint32_t r : edges_->readers[n]) {
      if (mine[r]) return false;
      reach(r);
    }
  }
  return true;
}

uint32_t Contraction::take(std::span<const uint32_t> nodes) {
  const auto set = static_cast<uint32_t>(sets_.size());
  sets_.emplace_back(nodes.begin(), nodes.end());
  for (uint32_t n : nodes) set_of_[n] = set;
  return set;
}

void Contraction::give_up(uint32_t set) {
  for (uint32_t n : sets_[set]) set_of_[n] = kNoSet;
  sets_[set].clear();
}

std::vector<uint32_t> Contraction::order() const {
  const auto count = static_cast<uint32_t>(set_of_.size());
  // Each set is represented by its first node; its inputs are those of all its nodes.
  auto head = [&](uint32_t n) { return taken(n) ? sets_[set_of_[n]].front() : n; };
  std::vector<uint32_t> waits(count, 0), ready, order;
  for (uint32_t n = 0; n < count; ++n) {
    for (uint32_t m : edges_->makers[n]) waits[head(n)] += head(m) != head(n) ? 1 : 0;
  }
  for (uint32_t n = count; n-- > 0;) {
    if (head(n) == n && waits[n] == 0) ready.push_back(n);
  }
  while (!ready.empty()) {
    const uint32_t h = ready.back();
    ready.pop_back();
    const std::vector<uint32_t> alone{h};
    for (uint32_t n : taken(h) ? sets_[set_of_[h]] : alone) {
      order.push_back(n);
      for (uint32_t r : edges_->readers[n]) {
        if (head(r) != h && --waits[head(r)] == 0) ready.push_back(head(r));
      }
    }
  }
  return order;
}

}  // namespace tenon::dispatch
