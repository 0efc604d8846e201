#include "tenon/plan/regions.h"

#include <gtest/gtest.h>

namespace tenon::plan {
namespace {

struct Step {
  std::vector<uint32_t> reads, writes, parts;
  double ns = 1000;
};

Regions regions(const std::vector<Step>& steps) {
  std::vector<Work> work;
  for (const Step& s : steps) {
    work.push_back({s.reads, s.writes, s.parts, s.ns});
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

}  // namespace
}  // namespace tenon::plan
