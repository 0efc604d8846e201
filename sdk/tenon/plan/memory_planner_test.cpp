#include "tenon/plan/memory_planner.h"

#include <gtest/gtest.h>

#include <random>

namespace tenon::plan {
namespace {

TEST(MemoryPlanner, ChainReusesMemory) {
  MemoryPlan plan;
  // a -> b -> c -> d: two are alive at any time.
  const std::vector<Lifetime> lives = {{100, 0, 1}, {100, 1, 2}, {100, 2, 3}, {100, 3, 4}};
  ASSERT_EQ(plan_memory(lives, plan), MemoryError::kNone);
  EXPECT_EQ(plan.arena_bytes, 256u);
  EXPECT_EQ(plan.lower_bound_bytes, 256u);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(MemoryPlanner, InPlaceSharesOneBlock) {
  MemoryPlan plan;
  const std::vector<Lifetime> lives = {{1000, 0, 1}, {1000, 1, 2, 0}, {500, 2, 3, 1}};
  ASSERT_EQ(plan_memory(lives, plan), MemoryError::kNone);
  EXPECT_EQ(plan.offsets, (std::vector<uint64_t>{0, 0, 0}));
  EXPECT_EQ(plan.arena_bytes, 1024u);
}

TEST(MemoryPlanner, RefusesAliasOfALivingBuffer) {
  MemoryPlan plan;
  const std::vector<Lifetime> lives_on = {{64, 0, 5}, {64, 1, 2, 0}};
  EXPECT_EQ(plan_memory(lives_on, plan), MemoryError::kBadAlias);
  const std::vector<Lifetime> twice = {{64, 0, 1}, {64, 1, 2, 0}, {64, 1, 2, 0}};
  EXPECT_EQ(plan_memory(twice, plan), MemoryError::kBadAlias);
  const std::vector<Lifetime> itself = {{64, 0, 1, 0}};
  EXPECT_EQ(plan_memory(itself, plan), MemoryError::kBadAlias);
}

TEST(MemoryPlanner, RefusesOverflow) {
  MemoryPlan plan;
  const std::vector<Lifetime> huge = {{UINT64_MAX, 0, 1}};
  EXPECT_EQ(plan_memory(huge, plan), MemoryError::kOverflow);
  const std::vector<Lifetime> sum = {
      {UINT64_C(1) << 61, 0, 1}, {UINT64_C(1) << 61, 0, 1}, {UINT64_C(1) << 61, 0, 1}};
  EXPECT_EQ(plan_memory(sum, plan), MemoryError::kOverflow);
  const std::vector<Lifetime> backwards = {{1, 2, 1}};
  EXPECT_EQ(plan_memory(backwards, plan), MemoryError::kBadLifetime);
}

TEST(MemoryPlanner, EmptyAndZeroSizes) {
  MemoryPlan plan;
  ASSERT_EQ(plan_memory({}, plan), MemoryError::kNone);
  EXPECT_EQ(plan.arena_bytes, 0u);
  const std::vector<Lifetime> zero = {{0, 0, 3}, {0, UINT32_MAX, UINT32_MAX}};
  ASSERT_EQ(plan_memory(zero, plan), MemoryError::kNone);
  EXPECT_EQ(plan.arena_bytes, 0u);
}

TEST(MemoryPlanner, RandomLifetimesNeverOverlap) {
  std::mt19937 random(7);
  double worst = 1;
  for (int round = 0; round < 300; ++round) {
    // Every hundredth round is one of the large plans.
    std::vector<Lifetime> lives(round % 100 == 99 ? 2500 : 1 + random() % 120);
    std::vector<bool> taken(lives.size(), false);
    for (uint32_t i = 0; i < lives.size(); ++i) {
      Lifetime& life = lives[i];
      life.size_bytes = random() % 5000;
      life.first_step = random() % 60;
      const uint32_t other = random() % lives.size();
      if (other < i && !taken[other]) {
        taken[other] = true;
        life.in_place_of = other;
        life.first_step = lives[other].last_step;
      }
      life.last_step = life.first_step + random() % 10;
    }
    MemoryPlan plan;
    ASSERT_EQ(plan_memory(lives, plan), MemoryError::kNone);
    auto root = [&](uint32_t i) {
      while (lives[i].in_place_of != kNoAlias) i = lives[i].in_place_of;
      return i;
    };
    for (uint32_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % kAlignmentBytes, 0u);
      EXPECT_LE(plan.offsets[i] + lives[i].size_bytes, plan.arena_bytes);
      for (uint32_t j = 0; j < i; ++j) {
        const bool together =
            lives[i].first_step <= lives[j].last_step && lives[j].first_step <= lives[i].last_step;
        const bool overlap = plan.offsets[i] < plan.offsets[j] + lives[j].size_bytes &&
                             plan.offsets[j] < plan.offsets[i] + lives[i].size_bytes;
        EXPECT_FALSE(together && overlap && root(i) != root(j)) << i << " and " << j;
      }
    }
    EXPECT_GE(plan.arena_bytes, plan.lower_bound_bytes);
    if (plan.lower_bound_bytes > 0) {
      worst = std::max(worst, double(plan.arena_bytes) / double(plan.lower_bound_bytes));
    }
  }
  EXPECT_LT(worst, 1.5);
}

TEST(MemoryPlanner, ManyBuffersTakeNoSquareOfTheirNumber) {
  std::mt19937 random(3);
  std::vector<Lifetime> lives(200000);
  for (uint32_t i = 0; i < lives.size(); ++i) {
    lives[i] = {1 + random() % 100000, i, i + 1 + static_cast<uint32_t>(random() % 8)};
  }
  MemoryPlan plan;
  ASSERT_EQ(plan_memory(lives, plan), MemoryError::kNone);  // Minutes, were it quadratic.
  EXPECT_LT(double(plan.arena_bytes), 2.0 * double(plan.lower_bound_bytes));
}

}  // namespace
}  // namespace tenon::plan
