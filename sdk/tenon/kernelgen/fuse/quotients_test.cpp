#include "tenon/kernelgen/fuse/quotients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace tenon::kernelgen {
namespace {

float clamped(float x) {
  return std::min(std::max(std::nearbyintf(x), -128.0f), 127.0f);
}
float multiplied(float x, Reciprocal r) {
  return clamped(std::fma(x, r.hi, x * r.lo));
}

void expect_same(float x, float c, Reciprocal r) {
  ASSERT_EQ(std::bit_cast<uint32_t>(clamped(x / c)), std::bit_cast<uint32_t>(multiplied(x, r)))
      << x << " / " << c;
}

// Most scales have a pair, and with it each float gives the same byte: those of all magnitudes, and
// those beside each step.
TEST(Quotients, AreTheSameBytes) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-20, 10), part(1, 2);
  int pairs = 0;
  for (int i = 0; i < 200; ++i) {
    const float c = std::ldexp(part(random), static_cast<int>(exponent(random)));
    const auto r = reciprocal_for(c, -128, 127);
    if (!r) continue;
    ++pairs;
    for (int step = -129; step <= 128; ++step) {
      float x = static_cast<float>(c * (step + 0.5));
      for (int n = 0; n < 8; ++n) x = std::nextafterf(x, -std::numeric_limits<float>::infinity());
      for (int n = 0; n < 16; ++n) {
        expect_same(x, c, *r);
        x = std::nextafterf(x, std::numeric_limits<float>::infinity());
      }
    }
    for (int n = 0; n < 2000; ++n) {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
      if (!std::isnan(x)) expect_same(x, c, *r);
    }
  }
  EXPECT_GT(pairs, 190);
}

TEST(Quotients, KeepWhatIsNoNumber) {
  const auto r = reciprocal_for(0.0188f, -128, 127);
  ASSERT_TRUE(r);
  for (const float x : {0.0f, -0.0f, std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::denorm_min()})
    expect_same(x, 0.0188f, *r);
  EXPECT_TRUE(std::isnan(std::fma(NAN, r->hi, NAN * r->lo)));
}

TEST(Quotients, OfOtherDivisorsStay) {
  for (const float c :
       {0.0f, -0.5f, 0.25f, 1.0f, NAN, 0x1p-70f, 0x1p70f, std::numeric_limits<float>::infinity()})
    EXPECT_FALSE(reciprocal_for(c, 0, 255)) << c;
  EXPECT_FALSE(reciprocal_for(0.0188f, 0, 65535));
  EXPECT_FALSE(reciprocal_for(0.0188f, 0.5, 255));
}

}  // namespace
}  // namespace tenon::kernelgen
