// Programs that repeat themselves are recorded and started as one, on the tests' drivers: when,
// when not, and what happens where the driver fails to. Compiled for CUDA, and for HIP
// (TENON_TEST_HIP), whose driver is CUDA's under other names.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <tenon/cpp/session.hpp>

namespace tenon {
namespace {

#ifdef TENON_TEST_HIP
constexpr const char *kDevice = "rocm", *kLibrary = "libamdhip64.so.6";
#else
constexpr const char *kDevice = "cuda", *kLibrary = "libcuda.so.1";
#endif

#ifdef TENON_TEST_HIP
// The tests' HIP runs the text that its code was made of, and finds it in a file.
class HipText : public testing::Environment {
 public:
  void SetUp() override {
    const std::string print = TENON_TEST_PROGRAM
                              " run " TENON_TEST_MODELS
                              "/mlp.onnx --device rocm --seed 1 --dump rocm/source >" +
                              path_;
    ASSERT_EQ(std::system(print.c_str()), 0);
    ASSERT_GT(std::filesystem::file_size(path_), 0u);
    setenv("FAKE_HIP_SOURCE", path_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove(path_); }

 private:
  const std::string path_ = testing::TempDir() + "graphs." + std::to_string(getpid()) + ".hip";
};
const testing::Environment* const kText = testing::AddGlobalTestEnvironment(new HipText);
#endif

class Graphs : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(launches_, nullptr) << "LD_LIBRARY_PATH does not lead to the tests' " << kLibrary;
    ASSERT_TRUE(session_.open().ok());
    ASSERT_TRUE(session_.load(TENON_TEST_MODELS "/mlp.onnx", &model_).ok()) << failure_text();
    ASSERT_TRUE(model_.compile({.device = kDevice, .no_fallback = true}, &program_).ok())
        << failure_text();
    for (Tensor* x : {&x_, &other_})
      ASSERT_TRUE(Tensor::copy(ArrayView::of(values_, {1, 32}), x, kDevice).ok());
    ASSERT_TRUE(Tensor::copy(ArrayView::of(two_, {2, 32}), &rows_, kDevice).ok());
  }

  // Runs, and says how many graphs were started for it.
  uint64_t run(const Tensor& x, size_t rows = 1) {
    const uint64_t before = launches_();
    const std::vector<Input> inputs = {x};
    Output y;
    EXPECT_TRUE(program_.call(inputs, {&y, 1}).ok()) << failure_text();
    EXPECT_EQ(y.as<float>().size(), rows * 10);
    if (right_.empty()) right_.assign(y.as<float>().begin(), y.as<float>().end());
    for (size_t i = 0; i < y.as<float>().size(); ++i)
      EXPECT_EQ(y.as<float>()[i], right_[i % 10]) << i;
    return launches_() - before;
  }

  using Count = uint64_t (*)();
  using FailCalls = void (*)(const char*, int);
  template <class F>
  static F function(const char* name) {
    return reinterpret_cast<F>(dlsym(dlopen(kLibrary, RTLD_NOW), name));
  }
  const Count launches_ = function<Count>("fake_cuda_graph_launches");
  const Count in_use_ = function<Count>("fake_cuda_in_use");
  const FailCalls fail_ = function<FailCalls>("fake_cuda_fail_calls");
  const std::vector<float> values_ = std::vector<float>(32, 0.5f);
  const std::vector<float> two_ = std::vector<float>(64, 0.5f);
  std::vector<float> right_;
  Session session_;
  Model model_;
  Program program_;
  Tensor x_, other_, rows_;
};

TEST_F(Graphs, TheSecondRunIsRecorded) {
  EXPECT_EQ(run(x_), 0u);
  EXPECT_EQ(run(x_), 1u);
  EXPECT_EQ(run(x_), 1u);
}

TEST_F(Graphs, AnotherAddressOrSizeIsRecordedWhenItComesAgain) {
  for (int i = 0; i < 3; ++i) (void)run(x_);
  EXPECT_EQ(run(other_), 0u);
  EXPECT_EQ(run(other_), 1u);
  EXPECT_EQ(run(x_), 1u) << "what was recorded before is kept";
  EXPECT_EQ(run(rows_, 2), 0u);
  EXPECT_EQ(run(rows_, 2), 1u);
}

// Nothing is lost but speed: no result, no memory, and a line says so.
TEST_F(Graphs, WhatFailsIsStartedOneByOne) {
  for (const char* name : {"cuStreamBeginCapture_v2", "cuStreamEndCapture",
                           "cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(model_.compile({.device = kDevice, .no_fallback = true}, &program_).ok());
    EXPECT_EQ(run(x_), 0u);
    const uint64_t kept = in_use_();
    testing::internal::CaptureStderr();
    fail_(name, 900);
    EXPECT_EQ(run(x_), 0u);
    fail_("", 0);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("kernels start one by one"),
              std::string::npos);
    EXPECT_EQ(run(x_), 0u) << "it is not tried again";
    EXPECT_LE(in_use_(), kept + 1);
  }
}

TEST_F(Graphs, TheyGoWithTheirProgram) {
  const uint64_t before = in_use_();
  {
    Program program;
    ASSERT_TRUE(model_.compile({.device = kDevice, .no_fallback = true}, &program).ok());
    std::swap(program, program_);
    for (int i = 0; i < 3; ++i) (void)run(x_);
    EXPECT_GT(in_use_(), before);
    std::swap(program, program_);
  }
  EXPECT_LE(in_use_(), before + 2);  // pinned memory and results that are kept for the next run
}

}  // namespace
}  // namespace tenon
