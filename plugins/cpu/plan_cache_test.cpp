#include "plan_cache.h"

#include <gtest/gtest.h>

#include <thread>

namespace tenon::cpu {
namespace {

struct Sizes {
  std::vector<int64_t> symbols;
};
using Cache = PlanCache<Sizes>;

const Sizes* found(Cache& cache, int64_t n) {
  std::shared_ptr<const Sizes> holder;
  const Sizes* const plan = cache.find(std::vector<int64_t>{n}, holder);
  EXPECT_TRUE(plan == nullptr || plan->symbols == std::vector<int64_t>{n});
  return plan;
}
const Sizes* added(Cache& cache, int64_t n) {
  std::shared_ptr<const Sizes> holder;
  return cache.add(std::make_unique<const Sizes>(Sizes{{n}}), holder);
}

TEST(PlanCache, TheFirstStayAndOfOthersTheLeastUsedGoes) {
  Cache cache;
  EXPECT_EQ(found(cache, 0), nullptr);
  const Sizes* const first = added(cache, 0);
  for (int64_t n = 1; n < 64; ++n) {
    added(cache, n);
  }
  EXPECT_EQ(found(cache, 0), first);
  EXPECT_NE(found(cache, 8), nullptr);  // the oldest of the further ones, used now
  added(cache, 64);
  EXPECT_EQ(found(cache, 9), nullptr);
  EXPECT_NE(found(cache, 8), nullptr);
  EXPECT_NE(found(cache, 64), nullptr);
  EXPECT_EQ(found(cache, 0), first);
}

// Threads that meet the same sizes first must not fill the places that are found without a lock.
TEST(PlanCache, EqualPlansAreKeptOnce) {
  Cache cache;
  const Sizes* const first = added(cache, 0);
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(added(cache, 0), first);
  }
  for (int64_t n = 1; n < 63; ++n) {
    added(cache, n);
  }
  const Sizes* const further = added(cache, 63);
  EXPECT_EQ(added(cache, 63), further);
  for (int64_t n = 0; n < 64; ++n) {
    EXPECT_NE(found(cache, n), nullptr) << n;
  }
}

TEST(PlanCache, WithoutSymbolsThereIsOne) {
  Cache cache;
  std::shared_ptr<const Sizes> holder;
  EXPECT_EQ(cache.find({}, holder), nullptr);
  const Sizes* const only = cache.add(std::make_unique<const Sizes>(), holder);
  EXPECT_EQ(cache.find({}, holder), only);
  EXPECT_EQ(holder, nullptr);
}

TEST(PlanCache, ThreadsFindWhatOthersAdd) {
  Cache cache;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache] {
      for (int64_t n = 0; n < 200; ++n) {
        if (!found(cache, n % 20)) {
          added(cache, n % 20);
        }
      }
    });
  }
  threads.clear();
  for (int64_t n = 0; n < 20; ++n) {
    EXPECT_NE(found(cache, n), nullptr) << n;
  }
}

}  // namespace
}  // namespace tenon::cpu
