#include "core/dispatch/placement/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/dispatch/placement/contraction.h"

namespace tenon::dispatch {
namespace {

PartitionDevice device(std::vector<double> costs, double bytes_per_ns = 0, double latency_ns = 0) {
  PartitionDevice d;
  d.cost_ns = std::move(costs);
  d.bytes_per_ns = bytes_per_ns;
  d.latency_ns = latency_ns;
  return d;
}

// Every node taken by itself.
Assignment singly(std::vector<uint32_t> at) {
  std::vector<uint32_t> claim(at.size(), kAlone);
  return {std::move(at), std::move(claim)};
}

// input -> 0 -> 1 -> ... -> output
PartitionProblem chain(uint32_t n, double bytes) {
  PartitionProblem p;
  p.node_count = n;
  for (uint32_t i = 0; i <= n; ++i) {
    PartitionValue v;
    v.producer = i == 0 ? kHost : i - 1;
    v.bytes = bytes;
    v.output = i == n;
    if (i < n) v.consumers = {i};
    p.values.push_back(v);
  }
  return p;
}

void expect_runnable(const PartitionProblem& p, const std::vector<Segment>& segments) {
  std::vector<uint32_t> when(p.node_count, kUnplaced);
  for (uint32_t s = 0; s < segments.size(); ++s) {
    for (uint32_t n : segments[s].nodes) when[n] = s;
  }
  for (const PartitionValue& v : p.values) {
    if (v.producer == kHost) continue;
    for (uint32_t c : v.consumers) EXPECT_LE(when[v.producer], when[c]);
  }
}

TEST(Partition, PreferenceTakesAllClaimedWhateverTheCost) {
  PartitionProblem p = chain(3, 4);
  p.devices = {device({1e9, kNotClaimed, 1e9}, 0.001, 1e6), device({1, 1, 1})};
  EXPECT_EQ(assign_by_preference(p).at, (std::vector<uint32_t>{0, 1, 0}));
}

TEST(Partition, FallbackTakesOnlyTheRest) {
  PartitionProblem p = chain(3, 4);
  p.devices = {device({1, 1, 1}), device({100, kNotClaimed, 100})};
  p.devices[0].fallback = true;
  EXPECT_EQ(assign_by_preference(p).at, (std::vector<uint32_t>{1, 0, 1}));
  EXPECT_EQ(assign_by_cost(p).at, (std::vector<uint32_t>{1, 0, 1}));
}

TEST(Partition, UnclaimedStaysUnplaced) {
  PartitionProblem p = chain(2, 4);
  p.devices = {device({1, kNotClaimed})};
  EXPECT_EQ(assign_by_cost(p).at, (std::vector<uint32_t>{0, kUnplaced}));
}

TEST(Partition, CopiesKeepASmallGainAtHome) {
  PartitionProblem p = chain(3, 1000);
  p.devices = {device({100, 100, 100}), device({100, 50, 100}, 1.0, 5000)};
  EXPECT_EQ(assign_by_cost(p).at, (std::vector<uint32_t>{0, 0, 0}));
}

TEST(Partition, ALargeGainPaysTheCopies) {
  PartitionProblem p = chain(3, 1000);
  p.devices = {device({100, 1e6, 100}), device({100, 50, 100}, 1.0, 5000)};
  const std::vector<uint32_t> at = assign_by_cost(p).at;
  EXPECT_EQ(at[1], 1u);
}

TEST(Partition, ZigzagSettlesOnOneDevice) {
  PartitionProblem p = chain(40, 1e6);
  std::vector<double> a(40), b(40);
  for (int i = 0; i < 40; ++i) {
    a[i] = i % 2 == 0 ? 1000 : 1500;
    b[i] = i % 2 == 0 ? 1500 : 1000;
  }
  p.devices = {device(a), device(b, 1.0, 5000)};
  const std::vector<uint32_t> at = assign_by_cost(p).at;
  for (uint32_t d : at) EXPECT_EQ(d, at[0]);
  EXPECT_EQ(at, assign_by_cost(p).at);
}

int changes(const std::vector<uint32_t>& at) {
  int n = 0;
  for (size_t i = 1; i < at.size(); ++i) n += at[i] != at[i - 1];
  return n;
}

// Ops that only one of two devices supports, with ops between them that both support: the data
// changes device only as often as necessary.
TEST(Partition, WhatBothCanDoStaysWhereTheDataIs) {
  for (uint32_t between : {1u, 2u, 5u}) {
    const uint32_t period = between + 1, n = 12 * period + 1;
    PartitionProblem p = chain(n, 1e5);
    std::vector<double> a(n, 1000), b(n, 1000);
    for (uint32_t i = 0; i < n; ++i) {
      if (i % period != 0) {
        (i % 2 == 0 ? a : b)[i] = 900;  // gains smaller than a copy
      } else {
        (i / period % 2 == 0 ? b : a)[i] = kNotClaimed;
      }
    }
    p.devices = {device(a, 8, 10000), device(b, 8, 10000)};
    const std::vector<uint32_t> at = assign_by_cost(p).at;
    EXPECT_EQ(changes(at), 12) << between;
    EXPECT_EQ(make_segments(p, singly(at)).size(), 13u) << between;
  }
}

// The best placement of a chain, by dynamic programming over the device of each node.
double best_of_chain(const PartitionProblem& p) {
  const size_t devices = p.devices.size();
  std::vector<double> best(devices, 0);
  for (uint32_t n = 0; n < p.node_count; ++n) {
    std::vector<double> next(devices, kNotClaimed);
    for (uint32_t d = 0; d < devices; ++d) {
      for (uint32_t from = 0; from < devices; ++from) {
        // The joint cost of two nodes, less the cost of each alone, is the cost of their boundary.
        PartitionProblem pair = chain(2, p.values[n].bytes);
        pair.values[0].bytes = n == 0 ? p.values[0].bytes : 0;
        pair.values[2].bytes = n + 1 == p.node_count ? p.values[n + 1].bytes : 0;
        pair.values[0].consumers.clear();
        pair.values[2].output = false;
        for (uint32_t k = 0; k < devices; ++k) {
          pair.devices.push_back(p.devices[k]);
          pair.devices.back().cost_ns = {0, p.devices[k].cost_ns[n]};
        }
        const double boundary =
            n == 0 ? p.devices[d].cost_ns[n] : total_cost(pair, singly({from, d}));
        next[d] = std::min(next[d], best[from] + boundary);
      }
    }
    best = next;
  }
  return *std::min_element(best.begin(), best.end());
}

TEST(Partition, RandomZigzagsAreNearTheBest) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    const uint32_t n = 40;
    PartitionProblem p = chain(n, 1000 * (1 + random() % 100));
    std::vector<double> a(n), b(n);
    for (uint32_t i = 0; i < n; ++i) {
      a[i] = 1000 + random() % 20000;
      b[i] = 1000 + random() % 20000;
      if (random() % 6 == 0) (random() % 2 == 0 ? a : b)[i] = kNotClaimed;
    }
    p.devices = {device(a, 8, 5000), device(b, 8, 5000)};
    // Inputs and outputs are left out of the comparison: they cost the same everywhere.
    p.values.front().consumers.clear();
    p.values.back().output = false;
    const double found = total_cost(p, assign_by_cost(p)), best = best_of_chain(p);
    EXPECT_GE(found, best - 1e-6 * best) << round;
    EXPECT_LE(found, 1.10 * best) << round;
  }
}

TEST(Partition, SegmentsOfADiamondHaveNoCycle) {
  // 0 on A feeds 1 on B and 2 on A; 3 on A reads both: 2 may join 0, 3 may not.
  PartitionProblem p;
  p.node_count = 4;
  p.values.resize(4);
  p.values[0] = {0, 4, false, {1, 2}};
  p.values[1] = {1, 4, false, {3}};
  p.values[2] = {2, 4, false, {3}};
  p.values[3] = {3, 4, true, {}};
  p.devices = {device({1, kNotClaimed, 1, 1}), device({kNotClaimed, 1, kNotClaimed, kNotClaimed})};
  const std::vector<Segment> s = make_segments(p, assign_by_preference(p));
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].nodes, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(s[1].nodes, (std::vector<uint32_t>{1}));
  EXPECT_EQ(s[2].nodes, (std::vector<uint32_t>{3}));
  expect_runnable(p, s);
}

TEST(Segments, WhatIsReadLaterIsComputedLater) {
  PartitionProblem p;  // 0 -> 1 (another compiler) -> 3; 2, from an input, -> 3
  p.node_count = 4;
  p.values = {{0, 4, false, {1}}, {1, 4, false, {3}}, {2, 1000, false, {3}}, {3, 4, true, {}}};
  p.devices = {device({1, 1, 1, 1})};
  p.devices[0].by = {0, 1, 0, 0};
  const std::vector<Segment> s = make_segments(p, assign_by_preference(p));
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].nodes, (std::vector<uint32_t>{0}));
  EXPECT_EQ(s[1].nodes, (std::vector<uint32_t>{1}));
  EXPECT_EQ(s[2].nodes, (std::vector<uint32_t>{2, 3}));
  expect_runnable(p, s);
  // Work of a device with a queue is submitted as early as it can be.
  p.devices[0].asynchronous = true;
  EXPECT_EQ(make_segments(p, assign_by_preference(p))[0].nodes, (std::vector<uint32_t>{0, 2}));
}

TEST(Segments, NothingWaitsThatWouldKeepMoreThanItMakes) {
  PartitionProblem p;  // as above, but 2 reads what 0 makes
  p.node_count = 4;
  p.values = {{0, 4, false, {1, 2}}, {1, 4, false, {3}}, {2, 1000, false, {3}}, {3, 4, true, {}}};
  p.devices = {device({1, 1, 1, 1})};
  p.devices[0].by = {0, 1, 0, 0};
  EXPECT_EQ(make_segments(p, assign_by_preference(p))[0].nodes, (std::vector<uint32_t>{0}));
  p.values[0].bytes = 1000;  // it would be kept in place of as many bytes
  EXPECT_EQ(make_segments(p, assign_by_preference(p))[0].nodes, (std::vector<uint32_t>{0, 2}));
  p.values[0].consumers = {1, 2, 3};  // it is kept anyway
  EXPECT_EQ(make_segments(p, assign_by_preference(p))[0].nodes, (std::vector<uint32_t>{0}));
}

// A product of what waits and of what does not, which is smaller than that: it waited for the last
// segment, and what it reads was kept.
TEST(Segments, AProductDoesNotWaitBecauseWhatItReadsCould) {
  PartitionProblem p;  // 0 -> 1 (another compiler) -> 4; 3 reads 0 and 2, which is made of an input
  p.node_count = 5;
  p.values = {{0, 400, false, {1, 3}},
              {1, 4, false, {4}},
              {2, 400, false, {3}},
              {3, 100, true, {}},
              {4, 4, true, {}}};
  p.devices = {device({1, 1, 1, 1, 1})};
  p.devices[0].by = {0, 1, 0, 0, 0};
  const std::vector<Segment> s = make_segments(p, assign_by_preference(p));
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].nodes, (std::vector<uint32_t>{0, 2, 3}));
  EXPECT_EQ(s[2].nodes, (std::vector<uint32_t>{4}));
  expect_runnable(p, s);
}

// Broadcast numbers of 4 MiB each were made once for all layers and kept until the last.
TEST(Segments, WhatFollowsFromConstantsIsMadeWhereItIsRead) {
  PartitionProblem p;  // 0 -> 1, and 1 is read with 2 by 3 (another compiler), and by 4
  p.node_count = 5;
  p.values = {{0, 4, false, {1}},
              {1, 1000, false, {2, 4}},
              {2, 4, false, {3}},
              {3, 4, false, {4}},
              {4, 4, true, {}}};
  p.devices = {device({1, 1, 1, 1, 1})};
  p.devices[0].by = {0, 0, 0, 1, 0};
  p.repeatable = {true, true, false, false, false};
  std::vector<Segment> s = make_segments(p, assign_by_preference(p));
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].nodes, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(s[1].nodes, (std::vector<uint32_t>{3}));
  EXPECT_EQ(s[2].nodes, (std::vector<uint32_t>{0, 1, 4}));
  // The other compiler reads it too, so that it has to be kept, and so has what it is made of.
  p.values[1].consumers = {2, 3, 4};
  s = make_segments(p, assign_by_preference(p));
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].nodes, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(s[2].nodes, (std::vector<uint32_t>{4}));
  expect_runnable(p, s);
  // The caller has it.
  p.values[1] = {1, 1000, true, {2, 4}};
  s = make_segments(p, assign_by_preference(p));
  EXPECT_EQ(s.back().nodes, (std::vector<uint32_t>{4}));
  // One that reads what is none.
  p.values[1] = {1, 1000, false, {2, 4}};
  p.repeatable = {false, true, false, false, false};
  EXPECT_EQ(make_segments(p, assign_by_preference(p)).back().nodes, (std::vector<uint32_t>{4}));
}

TEST(Partition, RandomGraphsAreRunnableAndNeverWorseThanOneDevice) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    PartitionProblem p;
    p.node_count = 60;
    for (uint32_t d = 0; d < 3; ++d) {
      PartitionDevice dev = device({}, d == 0 ? 0 : 1.0, d * 1000.0);
      for (uint32_t n = 0; n < 60; ++n)
        dev.cost_ns.push_back(d > 0 && random() % 3 == 0 ? kNotClaimed : random() % 10000);
      p.devices.push_back(dev);
    }
    for (uint32_t n = 0; n < 60; ++n) {
      PartitionValue v;
      v.producer = n;
      v.bytes = random() % 100000;
      for (uint32_t c = n + 1; c < 60; ++c) {
        if (random() % 12 == 0) v.consumers.push_back(c);
      }
      v.output = v.consumers.empty();
      p.values.push_back(v);
    }
    for (PartitionDevice& dev : p.devices) {
      for (uint32_t n = 0; n < 60; ++n) dev.by.push_back(random() % 4 == 0 ? 1 : 0);
    }
    const std::vector<uint32_t> at = assign_by_cost(p).at;
    EXPECT_LE(total_cost(p, singly(at)), total_cost(p, singly(std::vector<uint32_t>(60, 0))));
    expect_runnable(p, make_segments(p, singly(at)));
    expect_runnable(p, make_segments(p, assign_by_preference(p)));
  }
}

// One value that all nodes read: a sweep costs a few operations per reader, not per pair of
// readers.
TEST(Partition, ManyReadersOfOneValueAreNoMatter) {
  constexpr uint32_t kReaders = 40000;
  PartitionProblem p;
  p.node_count = kReaders;
  PartitionValue shared;
  shared.bytes = 100;
  for (uint32_t n = 0; n < kReaders; ++n) shared.consumers.push_back(n);
  p.values.push_back(shared);
  std::vector<double> odd(kReaders, 2), even(kReaders, 2);
  for (uint32_t n = 0; n < kReaders; ++n) (n % 2 == 0 ? even : odd)[n] = 1;
  p.devices = {device(even, 1, 10), device(odd, 1, 10)};
  const std::vector<uint32_t> at = assign_by_cost(p).at;  // would take seconds if quadratic
  EXPECT_EQ(std::count(at.begin(), at.end(), 0u), kReaders / 2);
}

// ---- Atomic claims ----

constexpr double kNo = kNotClaimed;

TEST(AtomicClaims, ANamedDeviceTakesThemWhole) {
  PartitionProblem p = chain(4, 4);
  p.devices = {device({kNo, kNo, kNo, kNo}), device({1, 1, 1, 1})};
  p.devices[0].atomic = {{{1, 2}, 1e9, 0}};
  const Assignment to = assign_by_preference(p);
  EXPECT_EQ(to.at, (std::vector<uint32_t>{1, 0, 0, 1}));
  EXPECT_EQ(to.claim, (std::vector<uint32_t>{kAlone, 0, 0, kAlone}));
  const std::vector<Segment> s = make_segments(p, to);
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[1].nodes, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(s[1].claim, 0u);
  expect_runnable(p, s);
}

TEST(AtomicClaims, TheOneThatCoversMoreWins) {
  PartitionProblem p = chain(4, 4);
  p.devices = {device({kNo, kNo, kNo, 5})};
  p.devices[0].atomic = {{{0, 1}, 1, 0}, {{1, 2, 3}, 90, 0}, {{0, 1, 2}, 100, 0}};
  const Assignment to = assign_by_preference(p);
  EXPECT_EQ(to.claim, (std::vector<uint32_t>{2, 2, 2, kAlone}));
}

TEST(AtomicClaims, EachIsASegmentOfItsOwn) {
  PartitionProblem p = chain(6, 4);
  p.devices = {device({1, kNo, kNo, kNo, kNo, 1})};
  p.devices[0].atomic = {{{1, 2}, 1, 0}, {{3, 4}, 1, 0}};
  const std::vector<Segment> s = make_segments(p, assign_by_cost(p));
  ASSERT_EQ(s.size(), 4u);
  EXPECT_EQ(s[1].nodes, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(s[2].nodes, (std::vector<uint32_t>{3, 4}));
  expect_runnable(p, s);
}

TEST(AtomicClaims, CostDecidesBetweenTheWholeAndItsParts) {
  PartitionProblem p = chain(3, 4);
  p.devices = {device({1e5, 1e5, 1e5}), device({kNo, kNo, kNo})};
  p.devices[1].atomic = {{{0, 1, 2}, 1e6, 0}};
  EXPECT_EQ(assign_by_cost(p).at, (std::vector<uint32_t>{0, 0, 0}));
  p.devices[1].atomic[0].cost_ns = 1e4;
  EXPECT_EQ(assign_by_cost(p).at, (std::vector<uint32_t>{1, 1, 1}));
  EXPECT_EQ(total_cost(p, assign_by_cost(p)), 1e4);
}

TEST(AtomicClaims, AFallbackIsWorseThanAnyClaim) {
  PartitionProblem p = chain(2, 4);
  p.devices = {device({kNo, kNo}), device({1, 1})};
  p.devices[1].fallback = true;
  p.devices[0].atomic = {{{0, 1}, 1e9, 0}};
  EXPECT_EQ(assign_by_cost(p).at, (std::vector<uint32_t>{0, 0}));
}

TEST(AtomicClaims, TwoThatWaitForEachOtherAreNotBothTaken) {
  PartitionProblem p;
  p.node_count = 4;
  p.values = {{0, 4, false, {2}}, {1, 4, false, {3}}, {2, 4, true, {}}, {3, 4, true, {}}};
  p.devices = {device({9, 9, 9, 9}), device({kNo, kNo, kNo, kNo})};
  p.devices[1].atomic = {{{0, 3}, 1, 0}, {{1, 2}, 1, 0}};
  for (const Assignment& to : {assign_by_preference(p), assign_by_cost(p)})
    expect_runnable(p, make_segments(p, to));
  p.devices[0].cost_ns = {1e6, 1e6, 1e6, 1e6};
  const Assignment to = assign_by_cost(p);
  EXPECT_EQ(to.at, (std::vector<uint32_t>{1, 0, 0, 1}));
  expect_runnable(p, make_segments(p, to));
}

// Random graphs and claims: every node has its place, claims are whole, segments can run, the order
// is the same every time.
TEST(AtomicClaims, RandomOnesAreWholeAndRunnable) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    PartitionProblem p;
    p.node_count = 30;
    for (uint32_t n = 0; n < p.node_count; ++n) {
      PartitionValue v{n, 64, n + 1 == p.node_count, {}};
      for (uint32_t c = n + 1; c < p.node_count; ++c) {
        if (random() % 8 == 0) v.consumers.push_back(c);
      }
      p.values.push_back(v);
    }
    const Edges edges(p);
    for (int d = 0; d < 3; ++d) {
      std::vector<double> costs;
      for (uint32_t n = 0; n < p.node_count; ++n)
        costs.push_back(d == 0 || random() % 2 == 0 ? 100 + random() % 20000 : kNo);
      p.devices.push_back(device(costs, d == 2 ? 1.0 : 0, d == 2 ? 500 : 0));
      for (int c = 0; c < 12; ++c) {
        AtomicClaim claim{{}, static_cast<double>(random() % 20000), 0};
        const uint32_t first = random() % 24;
        for (uint32_t n = first; n < first + 6; ++n) {
          if (random() % 2 == 0) claim.nodes.push_back(n);
        }
        if (!claim.nodes.empty() && !between(edges, claim.nodes))
          p.devices.back().atomic.push_back(claim);
      }
    }
    for (const bool cost : {false, true}) {
      const Assignment to = cost ? assign_by_cost(p) : assign_by_preference(p);
      EXPECT_EQ(to.at, (cost ? assign_by_cost(p) : assign_by_preference(p)).at);
      const std::vector<Segment> segments = make_segments(p, to);
      expect_runnable(p, segments);
      size_t placed = 0;
      for (const Segment& s : segments) {
        placed += s.nodes.size();
        if (s.claim != kAlone)
          EXPECT_EQ(s.nodes, p.devices[s.device].atomic[s.claim].nodes);
        else
          for (uint32_t n : s.nodes) EXPECT_NE(p.devices[s.device].cost_ns[n], kNo);
      }
      EXPECT_EQ(placed, p.node_count);
    }
  }
}

}  // namespace
}  // namespace tenon::dispatch
