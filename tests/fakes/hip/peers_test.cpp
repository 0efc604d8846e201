// Memory of another GPU, and pools, on the tests' HIP, or with TENON_TEST_ZE on the tests' Level
// Zero: FAKE_CUDA says whether GPUs reach each other.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include <tenon/cpp/session.hpp>

namespace tenon {
namespace {

#ifdef TENON_TEST_ZE
constexpr const char *kLibrary = "libze_fake.so.1", *kPeerCopies = "fake_ze_peer_copies";
constexpr const char *kFirst = "intel:0", *kSecond = "intel:1";
#else
constexpr const char *kLibrary = "libamdhip64.so.6", *kPeerCopies = "fake_hip_peer_copies";
constexpr const char *kFirst = "rocm:0", *kSecond = "rocm:1";
#endif

template <class F>
F function(const char* name) {
  return reinterpret_cast<F>(dlsym(dlopen(kLibrary, RTLD_NOW), name));
}

bool peers_are_off() {
  const char* settings = std::getenv("FAKE_CUDA");
  return settings != nullptr &&
         std::string_view(settings).find("peers=0") != std::string_view::npos;
}

#ifndef TENON_TEST_ZE
// The text of the model's code, by which the tests' HIP starts it.
class HipText : public testing::Environment {
 public:
  void SetUp() override {
    const std::string print = TENON_TEST_PROGRAM
                              " run " TENON_TEST_MODELS
                              "/mlp.onnx --device rocm --seed 1 --dump rocm/source >" +
                              path_;
    ASSERT_EQ(std::system(print.c_str()), 0);
    setenv("FAKE_HIP_SOURCE", path_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove(path_); }

 private:
  const std::string path_ = testing::TempDir() + "peers." + std::to_string(getpid()) + ".hip";
};
const testing::Environment* const kText = testing::AddGlobalTestEnvironment(new HipText);
#endif

class GpuMemory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(peer_copies_, nullptr) << "LD_LIBRARY_PATH does not lead to the tests' " << kLibrary;
    ASSERT_TRUE(session_.open().ok());
    ASSERT_TRUE(session_.load(TENON_TEST_MODELS "/mlp.onnx", &model_).ok()) << failure_text();
  }
  // The model's result on a device, of an input that is on another one.
  std::vector<float> run(const char* on, const char* from) {
    Program program;
    EXPECT_TRUE(model_.compile({.device = on, .no_fallback = true}, &program).ok())
        << failure_text();
    const std::vector<float> values(32, 0.25f);
    Tensor x;
    EXPECT_TRUE(Tensor::copy(ArrayView::of(values, {1, 32}), &x, from).ok()) << failure_text();
    const std::vector<Input> inputs = {x};
    Output y;
    EXPECT_TRUE(program.call(inputs, {&y, 1}).ok()) << failure_text();
    return {y.as<float>().begin(), y.as<float>().end()};
  }

  uint64_t (*peer_copies_)() = function<uint64_t (*)()>(kPeerCopies);
  Session session_;
  Model model_;
};

TEST_F(GpuMemory, ATensorGoesToAnotherGpu) {
  const std::vector<float> right = run(kFirst, kFirst);
  ASSERT_EQ(right.size(), 10u);
  EXPECT_EQ(peer_copies_(), 0u);
  EXPECT_EQ(run(kSecond, kFirst), right);
  EXPECT_EQ(peer_copies_(), peers_are_off() ? 0u : 1u);
  EXPECT_EQ(run(kFirst, kSecond), right);
  EXPECT_EQ(peer_copies_(), peers_are_off() ? 0u : 2u);
}

#ifdef TENON_TEST_ZE
// Level Zero has no pools: what a run gives back is there for the next one, also of another
// program.
TEST_F(GpuMemory, WhatWasFreedIsKept) {
  const auto allocations = function<uint64_t (*)()>("fake_ze_allocations");
  ASSERT_NE(allocations, nullptr);
  const std::vector<float> right = run(kFirst, kFirst);
  const uint64_t first = allocations();
  EXPECT_GT(first, 0u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(kFirst, kFirst), right);
  EXPECT_EQ(allocations(), first);
}

// What is kept is given back for calls of all kinds that are short of memory: each call for which a
// program is loaded and run may be.
TEST_F(GpuMemory, WhatIsKeptIsGivenBackForCallsOfAllKinds) {
  const auto fail_in = function<void (*)(uint64_t, int)>("fake_cuda_fail_in");
  const auto calls = function<uint64_t (*)()>("fake_cuda_calls");
  ASSERT_NE(fail_in, nullptr);
  const std::vector<float> values(4096, 1.0f), x(32, 0.25f);
  const std::vector<Input> inputs = {ArrayView::of(x, {1, 32})};
  const auto run_once = [&](Output* y) -> Status {
    Program program;
    TENON_TRY(model_.compile({.device = kFirst, .no_fallback = true}, &program));
    return program.call(inputs, {y, 1});
  };
  Output right;
  ASSERT_TRUE(run_once(&right).ok()) << failure_text();
  const uint64_t before = calls();
  ASSERT_TRUE(run_once(&right).ok()) << failure_text();
  const uint64_t all = calls() - before;
  uint64_t well = 0;
  for (uint64_t n = 1; n <= all; ++n) {
    Tensor kept;
    ASSERT_TRUE(Tensor::copy(ArrayView::of(values, {4096}), &kept, kFirst).ok());
    kept = Tensor();
    constexpr int kOutOfMemory = 2;
    Output y;
    fail_in(n, kOutOfMemory);
    const Status status = run_once(&y);
    fail_in(0, 0);
    if (status.ok()) {
      EXPECT_EQ(y.as<float>()[3], right.as<float>()[3]);
      ++well;
      continue;
    }
    const std::string why = failure_text();
    for (const char* takes : {"loading code", "finding kernel", "making a command list",
                              "making an event", "allocating", "keeping commands", "copying to"})
      EXPECT_EQ(why.find(std::string("intel: ") + takes), std::string::npos) << n << ": " << why;
  }
  EXPECT_GT(well, all / 2);
}
#endif

}  // namespace
}  // namespace tenon
