// One program whose shapes depend on values of an input, used by many threads at once: each gets
// the sizes that it requested, whichever variant runs and whichever thread compiles it.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;

ArrayView sizes(const std::vector<int64_t>& numbers) {
  return {TENON_I64, {2}, numbers.data()};
}

// Inputs/by_value.onnx: y = Reshape(x: f32[a, b, c], to: i64[2]), written by by_value.py --export.
class ByValue : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session_.open().ok());
    ASSERT_TRUE(session_.load(TENON_MODELS "/Inputs/by_value.onnx", &model_).ok())
        << tenon::failure_text();
    ASSERT_TRUE(model_.compile({.device = GetParam()}, &program_).ok()) << tenon::failure_text();
    for (int i = 0; i < 24; ++i) x_.push_back(static_cast<float>(i));
  }
  // -1 for a size that follows from the others. Returns an empty text, or what is wrong.
  std::string run(tenon::Binding* binding, std::vector<int64_t> to) const {
    std::vector<int64_t> wanted = to;
    for (int i = 0; i < 2; ++i) wanted[i] = to[i] == -1 ? 24 / to[1 - i] : to[i];
    if (!binding->input("x", ArrayView::of(x_, {2, 3, 4})).ok() ||
        !binding->input("to", sizes(to)).ok() || !binding->run().ok()) {
      return tenon::failure_text();
    }
    ArrayView y;
    if (!binding->output("y", &y).ok()) return tenon::failure_text();
    if (y.dims != wanted)
      return "sizes " + std::to_string(y.dims[0]) + ", " + std::to_string(y.dims[1]) + " for " +
             std::to_string(to[0]) + ", " + std::to_string(to[1]);
    return std::equal(x_.begin(), x_.end(), y.as<float>().begin()) ? "" : "wrong elements";
  }
  tenon::Session session_;
  tenon::Model model_;
  tenon::Program program_;
  std::vector<float> x_;
};

const std::vector<std::vector<int64_t>> kTargets = {{2, 12}, {12, 2}, {4, 6},  {6, 4},
                                                    {3, 8},  {8, 3},  {1, 24}, {24, 1},
                                                    {-1, 4}, {6, -1}, {2, -1}, {-1, 24}};

TEST_P(ByValue, ManyThreadsShareTheVariants) {
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      tenon::Binding binding;
      ASSERT_TRUE(program_.bind(&binding).ok());
      for (size_t i = 0; i < 2 * kTargets.size(); ++i) {
        // Some threads go through all values, some stay with one for a while.
        const size_t at = t % 2 == 0 ? i + t : i / 4;
        EXPECT_EQ(run(&binding, kTargets[at % kTargets.size()]), "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string placement;
  ASSERT_TRUE(program_.placement(&placement).ok());
  EXPECT_NE(placement.find("\"by_value\":{\"inputs\":[{\"input\":\"to\""), std::string::npos)
      << placement;
}

TEST_P(ByValue, OneAfterAnother) {
  tenon::Binding binding;
  ASSERT_TRUE(program_.bind(&binding).ok());
  for (size_t i = 0; i < 2 * kTargets.size(); ++i)
    EXPECT_EQ(run(&binding, kTargets[i % kTargets.size()]), "");
}

TEST_P(ByValue, AFailedValueLeavesTheOthersUsable) {
  tenon::Binding binding;
  ASSERT_TRUE(program_.bind(&binding).ok());
  EXPECT_EQ(run(&binding, {4, 6}), "");
  const std::vector<int64_t> bad = {5, 5};
  ASSERT_TRUE(binding.input("to", sizes(bad)).ok());
  EXPECT_EQ(binding.run().code(), TENON_INVALID_ARGUMENT);
  ArrayView y;
  EXPECT_FALSE(binding.output("y", &y).ok());
  EXPECT_EQ(run(&binding, {4, 6}), "");
  EXPECT_EQ(run(&binding, {-1, 8}), "");
}

INSTANTIATE_TEST_SUITE_P(Devices, ByValue,
                         testing::Values("reference"
#if TENON_WITH_CPU
                                         ,
                                         "cpu"
#endif
                                         ));

}  // namespace
