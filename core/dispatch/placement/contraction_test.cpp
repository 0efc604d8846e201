// Sets of nodes that act as one: which can be one segment, alone and together.
#include "core/dispatch/placement/contraction.h"

#include <gtest/gtest.h>

namespace tenon::dispatch {
namespace {

using Edge = std::pair<uint32_t, uint32_t>;

PartitionProblem graph_of(uint32_t nodes, const std::vector<Edge>& edges) {
  PartitionProblem problem;
  problem.node_count = nodes;
  for (const auto& [from, to] : edges) problem.values.push_back({from, 4, false, {to}});
  return problem;
}

TEST(Contraction, APathThroughAnotherNodeIsBetween) {
  const Edges diamond(graph_of(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
  EXPECT_EQ(between(diamond, std::vector<uint32_t>{0, 3}), 1u);
  EXPECT_EQ(between(diamond, std::vector<uint32_t>{0, 1, 3}), 2u);
  EXPECT_EQ(between(diamond, std::vector<uint32_t>{0, 1, 2, 3}), std::nullopt);
  EXPECT_EQ(between(diamond, std::vector<uint32_t>{1, 2}), std::nullopt);
  EXPECT_EQ(between(diamond, std::vector<uint32_t>{}), std::nullopt);
}

TEST(Contraction, ALongPathIsFound) {
  const Edges chain(graph_of(5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
  EXPECT_TRUE(between(chain, std::vector<uint32_t>{0, 4}).has_value());
  EXPECT_FALSE(between(chain, std::vector<uint32_t>{1, 2, 3}).has_value());
}

TEST(Contraction, TwoConvexSetsCanWaitForEachOther) {
  // 0 -> 2 and 1 -> 3: {0, 3} and {1, 2} are convex, and each reads what the other makes.
  const Edges edges(graph_of(4, {{0, 2}, {1, 3}}));
  Contraction sets(edges);
  ASSERT_TRUE(sets.fits(std::vector<uint32_t>{0, 3}));
  const uint32_t first = sets.take(std::vector<uint32_t>{0, 3});
  EXPECT_FALSE(sets.fits(std::vector<uint32_t>{1, 2}));
  EXPECT_FALSE(sets.fits(std::vector<uint32_t>{3}));  // taken
  sets.give_up(first);
  EXPECT_TRUE(sets.fits(std::vector<uint32_t>{1, 2}));
}

TEST(Contraction, ACycleMayPassSeveralSetsAndLowerNumbers) {
  // 4 -> 6, then back by {1, 6} to 1 -> 3, then by {0, 3} to 0 -> 2, and {2, 4} would close it.
  const Edges edges(graph_of(7, {{4, 6}, {1, 3}, {0, 2}}));
  Contraction sets(edges);
  sets.take(std::vector<uint32_t>{1, 6});
  sets.take(std::vector<uint32_t>{0, 3});
  EXPECT_FALSE(sets.fits(std::vector<uint32_t>{2, 4}));
  EXPECT_TRUE(sets.fits(std::vector<uint32_t>{4, 5}));
}

TEST(Contraction, OrderKeepsSetsTogetherAndInputsFirst) {
  const Edges edges(graph_of(5, {{0, 3}, {1, 2}, {2, 4}}));
  Contraction sets(edges);
  ASSERT_TRUE(sets.fits(std::vector<uint32_t>{1, 3}));
  sets.take(std::vector<uint32_t>{1, 3});
  EXPECT_EQ(sets.order(), (std::vector<uint32_t>{0, 1, 3, 2, 4}));
}

}  // namespace
}  // namespace tenon::dispatch
