// Each call of a vendor's driver fails once while the sample models are loaded and run: an error
// with its name, or the right result; nothing is leaked, and the process goes on. FAKE_VENDOR says
// whose plugin and driver it is. The drivers' kernels run in an interpreter, which is slow, so
// every call is failed with CHECK_FULL=1 alone, and else every 41st.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <tenon/cpp/session.hpp>

namespace tenon {
namespace {

struct Vendor {
  std::string_view device;
  const char* library;  // the tests' driver
  int code;             // what a call fails with, as the tests' CUDA driver has it
  std::string_view words;
};
constexpr Vendor kVendors[] = {
    {"cuda", "libcuda.so.1", 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {"rocm", "libamdhip64.so.6", 1, "hipErrorInvalidValue"},
    {"intel", "libze_fake.so.1", 1, "invalid argument"},
    {"mps", "libmetal.so", 1, "mps: "},
};

using Dims = std::vector<int64_t>;
struct Sample {
  friend void PrintTo(const Sample& s, std::ostream* out) { *out << s.file; }
  const char* file;
  std::vector<Dims> inputs;
  size_t outputs = 1;
  uint32_t indices = 0;  // so many of the first inputs are i64
};
const Sample kSamples[] = {
    {TENON_TEST_ROOT "/tests/models/mlp.onnx", {{1, 32}}},
    {TENON_TEST_ROOT "/samples/digits/digits.onnx", {{1, 1, 8, 8}}},
    {TENON_TEST_ROOT "/tests/models/encoder.onnx", {{2, 24, 64}, {24, 24}}},
    {TENON_TEST_ROOT "/tests/models/residual_cnn.onnx", {{1, 3, 16, 16}}},
    {TENON_TEST_ROOT "/tests/models/decoder.onnx",
     {{1, 1}, {}, {1, 4, 3, 8}, {1, 4, 3, 8}, {1, 4, 3, 8}, {1, 4, 3, 8}},
     5,
     1},
};

const Vendor* vendor() {
  const char* name = std::getenv("FAKE_VENDOR");
  for (const Vendor& v : kVendors) {
    if (name != nullptr && v.device == name) return &v;
  }
  return nullptr;
}

bool all() {
  const char* full = std::getenv("CHECK_FULL");
  return full != nullptr && std::string_view(full) == "1";
}

class Faults : public testing::TestWithParam<Sample> {
 protected:
  void SetUp() override {
    if (vendor() == nullptr) GTEST_SKIP() << "FAKE_VENDOR names no vendor";
    // The tests' HIP runs what the toolchain there makes.
    if (vendor()->device == "rocm") setenv("XDG_DATA_HOME", TENON_TEST_HIP_PLUGINS, 1);
    library_ = dlopen(vendor()->library, RTLD_NOW);
    ASSERT_NE(library_, nullptr) << dlerror();
    find("fake_cuda_fail_in", &fail_in_);
    find("fake_cuda_calls", &calls_);
    find(vendor()->device == "mps" ? "fake_metal_in_use" : "fake_cuda_in_use", &in_use_);
    ASSERT_TRUE(session_.open().ok());
    ASSERT_TRUE(session_.load(GetParam().file, &model_).ok()) << failure_text();
    for (const Dims& dims : GetParam().inputs) {
      size_t count = 1;
      for (int64_t d : dims) count *= static_cast<size_t>(d);
      floats_.emplace_back(count, 0.5f);
      indices_.emplace_back(count, 7);
    }
  }
  template <class F>
  void find(const char* name, F* out) {
    *out = reinterpret_cast<F>(dlsym(library_, name));
    ASSERT_NE(*out, nullptr) << name;
  }

  // Loads and runs; the values of all outputs.
  Status run(std::vector<float>* out) {
    out->clear();
    Program program;
    TENON_TRY(model_.compile({.device = vendor()->device, .no_fallback = true}, &program));
    std::vector<Input> inputs;
    for (size_t i = 0; i < floats_.size(); ++i) {
      const Dims& dims = GetParam().inputs[i];
      inputs.push_back(i < GetParam().indices ? ArrayView{TENON_I64, dims, indices_[i].data()}
                                              : ArrayView::of(floats_[i], dims));
    }
    std::vector<Output> outputs(GetParam().outputs);
    TENON_TRY(program.call(inputs, outputs));
    for (Output& y : outputs) {
      const auto values = y.as<float>();
      out->insert(out->end(), values.begin(), values.end());
    }
    return {};
  }
  void expect_undisturbed() {
    std::vector<float> y;
    ASSERT_TRUE(run(&y).ok()) << failure_text();
    EXPECT_EQ(y, right_);
  }

  void* library_ = nullptr;
  void (*fail_in_)(uint64_t, int) = nullptr;
  uint64_t (*calls_)() = nullptr;
  uint64_t (*in_use_)() = nullptr;
  Session session_;
  Model model_;
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<int64_t>> indices_;
  std::vector<float> right_;
};

TEST_P(Faults, EveryCallMayFail) {
  ASSERT_TRUE(run(&right_).ok()) << failure_text();
  ASSERT_FALSE(right_.empty());
  const uint64_t before = calls_();
  expect_undisturbed();
  const uint64_t calls = calls_() - before, kept = in_use_();
  ASSERT_GT(calls, 50u);
  const uint64_t step = all() ? 1 : 41, undisturbed_every = all() ? 16 : 2 * step;
  uint64_t failed = 0;
  for (uint64_t n = 1; n <= calls; n += step) {
    SCOPED_TRACE(n);
    std::vector<float> y;
    fail_in_(n, vendor()->code);
    const Status status = run(&y);
    fail_in_(0, 0);
    if (status.ok()) {
      EXPECT_EQ(y, right_);  // what failed was given back, or tried again
    } else {
      ++failed;
      EXPECT_NE(failure_text().find(vendor()->words), std::string::npos) << failure_text();
    }
    if ((n - 1) % undisturbed_every == 0 || n + step > calls) expect_undisturbed();
    // Events and pinned slots that a run gave back are kept for the next.
    ASSERT_LE(in_use_(), kept + 2);
  }
  EXPECT_GT(failed, 0u);
  std::printf("%llu calls, every %lluth failed: %llu errors\n",
              static_cast<unsigned long long>(calls), static_cast<unsigned long long>(step),
              static_cast<unsigned long long>(failed));
}

INSTANTIATE_TEST_SUITE_P(Models, Faults, testing::ValuesIn(kSamples), [](const auto& info) {
  return std::filesystem::path(info.param.file).stem().string();
});

}  // namespace
}  // namespace tenon
