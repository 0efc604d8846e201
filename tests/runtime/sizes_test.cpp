// A device of concrete sizes (sim with TENON_SIM_STATIC=1) in a model whose sizes follow from
// expressions: each call gets a program at its sizes, and a few of them are kept.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;

// No input has n as a whole dim.
constexpr std::string_view kModel = R"(tenon.tir 1
graph @derived<n in [1, inf]>(%x: f32[2*n], %w: f32[n + 1, 3]) -> (y: f32[2*n], z: f32[n + 1, 3]) {
  %0 = add(%x, %x) : f32[2*n]
  %1 = add(%w, %w) : f32[n + 1, 3]
  yield %0, %1
}
)";

class Sizes : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TENON_SIM_STATIC", "1", 1);
    ::setenv("TENON_VARIANTS_KEPT", "2", 1);
    ASSERT_TRUE(session_.open().ok());
    ASSERT_TRUE(session_.load_bytes(kModel, "g.tir", &model_).ok()) << tenon::failure_text();
    ASSERT_TRUE(model_.compile({.device = "sim", .no_fallback = true}, &program_).ok())
        << tenon::failure_text();
    ASSERT_TRUE(program_.bind(&binding_).ok());
  }
  // Empty, or what is wrong.
  std::string run(int64_t x_size, int64_t rows) {
    const std::vector<float> x(static_cast<size_t>(x_size), 1.5f),
        w(static_cast<size_t>(rows * 3), 2.f);
    if (!binding_.input("x", ArrayView::of(x, {x_size})).ok() ||
        !binding_.input("w", ArrayView::of(w, {rows, 3})).ok() || !binding_.run().ok())
      return tenon::failure_text();
    ArrayView y, z;
    if (!binding_.output("y", &y).ok() || !binding_.output("z", &z).ok())
      return tenon::failure_text();
    if (y.dims != std::vector<int64_t>{x_size} || z.dims != std::vector<int64_t>{rows, 3})
      return "other dims";
    for (float v : y.as<float>())
      if (v != 3.f) return "other values";
    for (float v : z.as<float>())
      if (v != 4.f) return "other values";
    return {};
  }
  tenon::Session session_;
  tenon::Model model_;
  tenon::Program program_;
  tenon::Binding binding_;
};

// Derived sizes were left symbolic, which no device of concrete sizes takes.
TEST_F(Sizes, DerivedSizesBecomeConcrete) {
  EXPECT_EQ(run(6, 4), "");
  EXPECT_EQ(run(2, 2), "");
  EXPECT_NE(run(7, 4).find("T0606"), std::string::npos);  // no n gives 7
  EXPECT_NE(run(6, 5).find("T0606"), std::string::npos);  // n is 3 here and 4 there
  EXPECT_EQ(run(6, 4), "");
}

// More tuples than are kept were compiled again at every call in silence.
TEST_F(Sizes, WhatIsCompiledAgainIsReportedOnce) {
  testing::internal::CaptureStderr();
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 1; n <= 3; ++n) EXPECT_EQ(run(2 * n, n + 1), "");
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t at = said.find("TENON_VARIANTS_KEPT=N");
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("TENON_VARIANTS_KEPT=N", at + 1), std::string::npos) << said;
  EXPECT_NE(said.find("more than 2 tuples of sizes"), std::string::npos) << said;
}

}  // namespace
