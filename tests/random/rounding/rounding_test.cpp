// Allowed errors: small where nothing is lost, none for exact results, and no larger than the
// elements justify.
#include <cmath>
#include <cstring>

#include "tests/random/rounding/rounding.h"
#include "tests/random/session_test.h"

namespace tenon::random_tests {
namespace {

Tensor floats(std::vector<float> values) {
  Tensor out{TENON_F32, {static_cast<int64_t>(values.size())}, nullptr, nullptr};
  auto bytes = std::make_shared<std::vector<unsigned char>>(values.size() * 4);
  std::memcpy(bytes->data(), values.data(), bytes->size());
  out.bytes = std::move(bytes);
  return out;
}

// The first output for these elements of the first input. No `allowed`: exact.
Tensor output_of(std::string_view body, std::vector<float> values, std::string* problem = nullptr) {
  const std::string count = std::to_string(values.size());
  Generated made =
      graph_of("tenon.tir 1\ngraph @g(%x: f32[" + count + "]) -> (y: " + std::string(body));
  made.bindings[0].inputs[0] = floats(std::move(values));
  const std::string found = evaluate(&made);
  if (problem != nullptr) *problem = found;
  EXPECT_TRUE(problem != nullptr || found.empty()) << found;
  return found.empty() ? made.bindings[0].outputs[0] : Tensor();
}

TEST(Difference, EachElementCountsForItself) {
  Tensor wanted = floats({1e6f, 1e-3f});
  wanted.allowed = std::make_shared<const std::vector<double>>(std::vector<double>{0.1, 1e-9});
  EXPECT_EQ(difference("y", wanted, floats({1e6f, 1e-3f}).data()), "");
  EXPECT_EQ(difference("y", wanted, floats({1e6f + 0.0625f, 1e-3f}).data()), "");
  EXPECT_EQ(difference("y", wanted, floats({1e6f, 1.1e-3f}).data()),
            "y f32[2]: 0.0011 instead of 0.001 at [1], 1e-09 is allowed (1 of 2 differ)");
  EXPECT_NE(difference("y", wanted, floats({NAN, 1e-3f}).data()), "");
  wanted.allowed = nullptr;
  EXPECT_NE(difference("y", wanted, floats({1e6f, std::nextafter(1e-3f, 1.0f)}).data()), "");
  EXPECT_EQ(difference("y", floats({0}), floats({-0.0f}).data()), "");
}

TEST(Difference, IntegersAndPredicatesByTheirBits) {
  const auto of = [](tenon_dtype_t dtype, unsigned char byte) {
    return Tensor{dtype, {1}, std::make_shared<const std::vector<unsigned char>>(1, byte), nullptr};
  };
  EXPECT_EQ(difference("y", of(TENON_U8, 255), of(TENON_U8, 255).data()), "");
  EXPECT_NE(difference("y", of(TENON_U8, 255), of(TENON_U8, 254).data()), "");
  EXPECT_NE(difference("y", of(TENON_PRED, 1), of(TENON_PRED, 0x7f).data()),
            "");  // true in theory, but never written so
}

TEST(Rounding, WhatOnlyMovesIsExact) {
  const Tensor y = output_of(
      "f32[2]) {\n %0 = reverse(%x) {dims = [0]} : f32[2]\n %1 = neg(%0) : f32[2]\n yield %1\n}\n",
      {1, 2});
  EXPECT_EQ(y.allowed, nullptr);
}

TEST(Rounding, AFewUnitsForAFunction) {
  const Tensor y = output_of("f32[2]) {\n %0 = exp(%x) : f32[2]\n yield %0\n}\n", {0, 5});
  ASSERT_NE(y.allowed, nullptr);
  for (size_t i = 0; i < 2; ++i) {
    const double size = i == 0 ? 1 : std::exp(5.0);
    EXPECT_GT((*y.allowed)[i], size * 0x1p-24);
    EXPECT_LT((*y.allowed)[i], size * 1e-5);
  }
}

TEST(Rounding, GrowsWithWhatACancellationLeaves) {
  const Tensor y = output_of(
      "f32[2]) {\n %0 = exp(%x) : f32[2]\n %1 = sub(%0, %x) : f32[2]\n yield %1\n}\n", {6, 0});
  ASSERT_NE(y.allowed, nullptr);
  EXPECT_GT((*y.allowed)[0], 50 * (*y.allowed)[1]);
}

TEST(Rounding, ASquareOfWhatCancelsOutMayBeTheSquareOfItsDistance) {
  constexpr std::string_view kBody =
      "f32[4]) {\n %0 = exp(%x) : f32[4]\n %1 = reverse(%0) {dims = [0]} : f32[4]\n %2 = sub(%0, "
      "%1) : f32[4]\n"
      " %3 = mul(%2, %2) : f32[4]\n yield %3\n}\n";
  const Tensor y = output_of(kBody, {0, 3, 3, 1});
  ASSERT_NE(y.allowed, nullptr);
  EXPECT_GT((*y.allowed)[1], 1e-12);
  EXPECT_LT((*y.allowed)[1], 1e-6);
}

TEST(Rounding, AJumpIsFineOutOfReach) {
  constexpr std::string_view kBody =
      "f32[1]) {\n %0 = exp(%x) : f32[1]\n %1 = floor(%0) : f32[1]\n yield %1\n}\n";
  EXPECT_EQ(output_of(kBody, {1}).allowed, nullptr);  // floor(2.718) is 2 for any rounding of exp
  std::string problem;
  output_of(kBody, {0.6931472f}, &problem);  // exp is 2 up to its last digit
  EXPECT_EQ(problem, "floor: too much depends on roundings");
}

TEST(Rounding, APoleIsRefused) {
  constexpr std::string_view kBody =
      "f32[1]) {\n %0 = sin(%x) : f32[1]\n %1 = reciprocal(%0) : f32[1]\n yield %1\n}\n";
  std::string problem;
  output_of(kBody, {3.1415927f}, &problem);
  EXPECT_NE(problem, "");
  EXPECT_NE(output_of(kBody, {1}).allowed, nullptr);
}

TEST(Rounding, NarrowFloatsMayStayWideBetweenOps) {
  Generated made = graph_of(
      "tenon.tir 1\ngraph @g(%x: f16[8]) -> (y: f16[8]) {\n %0 = exp(%x) : f16[8]\n"
      " %1 = mul(%0, %x) : f16[8]\n yield %1\n}\n");
  ASSERT_EQ(evaluate(&made), "");
  const Tensor& y = made.bindings[0].outputs[0];
  ASSERT_NE(y.allowed, nullptr);
  for (int64_t i = 0; i < 8; ++i) {
    const double size = std::fabs(load_double(TENON_F16, y.bytes->data() + 2 * i));
    EXPECT_GE((*y.allowed)[static_cast<size_t>(i)], ulp(TENON_F16, size));
    EXPECT_LE((*y.allowed)[static_cast<size_t>(i)], 16 * ulp(TENON_F16, std::max(size, 0x1p-10)));
  }
}

TEST(Rounding, Ulps) {
  EXPECT_EQ(ulp(TENON_F32, 1), 0x1p-23);
  EXPECT_EQ(ulp(TENON_F32, 1.99), 0x1p-23);
  EXPECT_EQ(ulp(TENON_F16, 2), 0x1p-9);
  EXPECT_EQ(ulp(TENON_BF16, -1), 0x1p-7);
  EXPECT_EQ(ulp(TENON_F16, 0), 0x1p-24);
  EXPECT_EQ(ulp(TENON_F32, 0), 0x1p-126);  // a device may flush smaller numbers
}

}  // namespace
}  // namespace tenon::random_tests
