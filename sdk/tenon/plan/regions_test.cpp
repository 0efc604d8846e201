#include "tenon/plan/regions.h"

#include <gtest/gtest.h>

namespace tenon::plan {
namespace {

struct Step {
  std::vector<uint32_t> reads, writes, parts;
  double ns = 1000;
  uint32_t kernel = kNoKernel;
};

Regions regions(const std::vector<Step>& steps) {
  std::vector<Work> work;
  for (const Step& s : steps) {
    work.push_back({s.reads, s.writes, s.parts, s.ns, s.kernel});
  }
  return find_regions(work);
}

TEST(Regions, ChainsStayInOrder) {
  const Regions r = regions({{{0}, {1}}, {{1}, {2}}, {{2}, {3}}});
  EXPECT_EQ(r.order, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(r.ends, (std::vector<uint32_t>{1, 2, 3}));
}

TEST(Regions, BranchesOfOneOperandMeet) {
  // q, scaled q, k, v: the step that reads q waits; k and v do not.
  const Regions r = regions({{{0}, {1}}, {{1}, {2}}, {{0}, {3}}, {{0}, {4}}, {{2, 3, 4}, {5}}});
  EXPECT_EQ(r.order, (std::vector<uint32_t>{0, 2, 3, 1, 4}));
  EXPECT_EQ(r.ends, (std::vector<uint32_t>{3, 4, 5}));
}

TEST(Regions, LargeStepsStayAlone) {
  const Regions r = regions({{{0}, {1}, {}, 1e6}, {{0}, {2}}, {{0}, {3}, {}, 1e6}, {{0}, {4}}});
  EXPECT_EQ(r.order, (std::vector<uint32_t>{0, 1, 3, 2}));
  EXPECT_EQ(r.ends, (std::vector<uint32_t>{1, 3, 4}));
}

TEST(Regions, WhatIsOverwrittenIsReadBefore) {
  const Regions r = regions({{{0}, {1}}, {{2}, {0}}, {{0}, {3}}});
  EXPECT_EQ(r.ends.size(), 3u);
}

TEST(Regions, PartsOfOneBufferMeetAndOverlaysDoNot) {
  EXPECT_EQ(regions({{{0}, {2}, {2}}, {{1}, {2}, {2}}, {{2}, {3}}}).ends,
            (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(regions({{{0}, {2}, {2}}, {{1}, {2}, {}}, {{2}, {3}}}).ends,
            (std::vector<uint32_t>{1, 2, 3}));
}

// As the step of an optimizer: for each parameter a count, which the update reads, and the update.
TEST(Regions, StepsOfOneKernelMeetHoweverManyThereAre) {
  std::vector<Step> steps;
  for (uint32_t p = 0; p < 100; ++p) {
    steps.push_back({{4 * p}, {4 * p + 1}, {}, 10, 7});
    steps.push_back({{4 * p + 1, 4 * p + 2}, {4 * p + 3}, {}, 1000, 8});
  }
  const Regions r = regions(steps);
  ASSERT_EQ(r.ends, (std::vector<uint32_t>{100, 200}));
  EXPECT_EQ(r.order[99], 198u);
  EXPECT_EQ(r.order[100], 1u);
}

TEST(Regions, StepsOfOneKernelStayBehindWhatTheyRead) {
  std::vector<Step> steps;
  for (uint32_t p = 0; p < 30; ++p) {
    steps.push_back({{p == 20 ? 1000u : 2 * p}, {2 * p + 1}, {}, 1000, 7});
    if (p == 18) steps.push_back({{3}, {1000}, {}, 1e6});
  }
  const Regions r = regions(steps);
  // The large step, which reads what the first region makes, and the step that reads its result.
  ASSERT_EQ(r.ends, (std::vector<uint32_t>{29, 30, 31}));
  EXPECT_EQ(r.order[29], 19u);
  EXPECT_EQ(r.order[30], 21u);
}

}  // namespace
}  // namespace tenon::plan
