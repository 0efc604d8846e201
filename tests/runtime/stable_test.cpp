// Inputs that rarely change, which are packed once for each value, and results that replace inputs
// (tenon.host.call/1).
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;
using tenon::Input;
using tenon::Output;

constexpr int64_t kRows = 8, kInner = 64, kColumns = 48;
constexpr std::string_view kProduct = R"(tenon.tir 1
graph @g(%x: f32[8, 64], %w: f32[64, 48]) -> (y: f32[8, 48]) {
  %y = matmul(%x, %w) : f32[8, 48]
  yield %y
}
)";
// A step of an optimiser: both results may replace what they change.
constexpr std::string_view kStep = R"(tenon.tir 1
graph @g(%p: f32[1000], %m: f32[1000], %g: f32[1000]) -> (q: f32[1000], n: f32[1000]) {
  %n = add(%m, %g) : f32[1000]
  %q = sub(%p, %n) : f32[1000]
  yield %q, %n
}
)";

struct Values {
  explicit Values(float scale) {
    for (int64_t i = 0; i < kRows * kInner; ++i)
      x.push_back(0.125f * static_cast<float>(i % 9) - 0.5f);
    for (int64_t i = 0; i < kInner * kColumns; ++i)
      w.push_back(scale * (0.25f - 0.0625f * static_cast<float>(i % 7)));
  }
  ArrayView x_view() const { return ArrayView::of(x, {kRows, kInner}); }
  ArrayView w_view() const { return ArrayView::of(w, {kInner, kColumns}); }
  bool fits(const Output& y) const { return fits(y.as<float>()); }
  bool fits(std::span<const float> y) const {
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < kInner; ++k) sum += double{x[r * kInner + k]} * w[k * kColumns + c];
        if (std::fabs(y[r * kColumns + c] - sum) > 1e-4) return false;
      }
    }
    return true;
  }
  std::vector<float> x, w;
};

class StableTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ASSERT_TRUE(session.open().ok()); }
  void compile(std::string_view text, std::vector<uint32_t> stable) {
    tenon::Model model;
    ASSERT_TRUE(session.load_bytes(text, "g.tir", &model).ok()) << tenon::failure_text();
    const tenon::CompileOptions options{.device = GetParam(), .stable_inputs = std::move(stable)};
    ASSERT_TRUE(model.compile(options, &program).ok()) << tenon::failure_text();
  }
  // Bytes that the call packed; -1 if it failed or its result is wrong.
  int64_t packed(const Values& values, const Input& w) {
    tenon_program_call_t information{};
    std::vector<Output> out(1);
    if (!program.call(std::vector<Input>{values.x_view(), w}, out, &information).ok()) return -1;
    return values.fits(out[0]) ? static_cast<int64_t>(information.repacked_bytes) : -1;
  }
  tenon::Session session;
  tenon::Program program;
};

TEST_P(StableTest, IsPackedOncePerTensor) {
  compile(kProduct, {1});
  const bool packs = std::string_view(GetParam()) == "cpu";
  const int64_t bytes = packs ? kInner * kColumns * 4 : 0;
  const Values first(1), second(-2);
  tenon::Tensor a, b;
  ASSERT_TRUE(tenon::Tensor::borrow(first.w_view(), &a).ok()) << tenon::failure_text();
  ASSERT_TRUE(tenon::Tensor::borrow(second.w_view(), &b).ok()) << tenon::failure_text();
  EXPECT_EQ(packed(first, a), bytes) << tenon::failure_text();
  EXPECT_EQ(packed(first, a), 0);
  EXPECT_EQ(packed(second, b), bytes);
  EXPECT_EQ(packed(second, b), 0);
  EXPECT_EQ(packed(first, first.w_view()), bytes);  // arrays have no identity
  EXPECT_EQ(packed(first, first.w_view()), bytes);
  EXPECT_EQ(packed(second, b), 0);  // what a tensor needed stays
}

TEST_P(StableTest, ThreadsWithOtherValues) {
  compile(kProduct, {1});
  std::vector<Values> values;
  for (int t = 0; t < 4; ++t) values.emplace_back(1.0f + static_cast<float>(t));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (const Values& own : values) {
    threads.emplace_back([&] {
      tenon::Tensor w;
      if (!tenon::Tensor::borrow(own.w_view(), &w).ok()) ++wrong;
      for (int i = 0; i < 20; ++i) wrong += packed(own, w) < 0 ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(StableTest, WhatCannotBe) {
  tenon::Model model;
  ASSERT_TRUE(session.load_bytes(kProduct, "g.tir", &model).ok());
  EXPECT_FALSE(model.compile({.device = GetParam(), .stable_inputs = {2}}, &program).ok());
  EXPECT_NE(tenon::failure_text().find("T0696"), std::string::npos) << tenon::failure_text();
}

TEST_P(StableTest, ResultsReplaceInputs) {
  compile(kStep, {});
  std::vector<float> p(1000), m(1000, 0.5f), g(1000, 0.25f);
  std::iota(p.begin(), p.end(), 0.0f);
  const auto of = [](const std::vector<float>& v) { return ArrayView::of(v, {1000}); };
  for (int step = 1; step <= 3; ++step) {
    tenon_program_call_t information{};
    std::vector<Output> out;
    out.push_back(Output::in_place(p, {1000}));
    out.push_back(Output::in_place(m, {1000}));
    ASSERT_TRUE(program.call(std::vector<Input>{of(p), of(m), of(g)}, out, &information).ok())
        << tenon::failure_text();
    if (std::string_view(GetParam()) == "cpu") EXPECT_EQ(information.copied_out_bytes, 0u);
    EXPECT_EQ(m[999], 0.5f + 0.25f * static_cast<float>(step));
  }
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(p[i], static_cast<float>(i) - 3.0f) << i;
}

// The memory of a result is also that of an input that another result needs as it was.
TEST_P(StableTest, ResultsInEachOthersPlace) {
  compile(kStep, {});
  std::vector<float> p(1000, 1), m(1000, 2), g(1000, 4);
  const auto of = [](const std::vector<float>& v) { return ArrayView::of(v, {1000}); };
  std::vector<Output> out;
  out.push_back(Output::in_place(m, {1000}));
  out.push_back(Output::in_place(p, {1000}));
  ASSERT_TRUE(program.call(std::vector<Input>{of(p), of(m), of(g)}, out).ok())
      << tenon::failure_text();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(p[i], 6);
    ASSERT_EQ(m[i], -5);
  }
}

// A binding whose shapes follow from values, with given sizes and an input that is packed.
TEST_P(StableTest, AGivenSizeWithShapesByValue) {
  tenon::Model model;
  ASSERT_TRUE(session.load(TENON_MODELS "/Inputs/product_by_value.onnx", &model).ok())
      << tenon::failure_text();
  ASSERT_TRUE(model.compile({.device = GetParam(), .stable_inputs = {2}}, &program).ok())
      << tenon::failure_text();
  tenon::Binding binding;
  ASSERT_TRUE(program.bind(&binding).ok());
  const auto& api = *tenon::context().query<tenon_host_session_t>(TENON_HOST_SESSION_ID);
  ASSERT_EQ(api.bind_size(api.self, binding.get(), tenon::str("a"), 2), TENON_OK)
      << tenon::failure_text();
  const Values values(1);
  const std::vector<int64_t> to = {kRows, kInner}, other = {-1, kInner};
  for (const std::vector<int64_t>& target : {to, to, other}) {  // a new variant, again, another
    ASSERT_TRUE(binding.input("x", ArrayView::of(values.x, {2, kRows / 2, kInner})).ok());
    ASSERT_TRUE(binding.input("to", {TENON_I64, {2}, target.data()}).ok());
    ASSERT_TRUE(binding.input("w", values.w_view()).ok());
    ASSERT_TRUE(binding.run().ok()) << tenon::failure_text();
    ArrayView y;
    ASSERT_TRUE(binding.output("y", &y).ok()) << tenon::failure_text();
    EXPECT_EQ(y.dims, (std::vector<int64_t>{kRows, kColumns}));
    EXPECT_TRUE(values.fits(y.as<float>()));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StableTest,
                         testing::Values("reference", "sim"
#if TENON_WITH_CPU
                                         ,
                                         "cpu"
#endif
                                         ));

}  // namespace
