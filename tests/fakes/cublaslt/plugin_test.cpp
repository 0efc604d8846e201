// The kernels of cuBLASLt on the tests' library and driver: each call of the library fails once,
// and those of the driver, too.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>

#include <tenon/cpp/session.hpp>

namespace tenon {
namespace {

// Functions of the libraries that the plugins have opened.
template <class F>
F function(const char* library, const char* name) {
  return reinterpret_cast<F>(dlsym(dlopen(library, RTLD_NOW), name));
}
constexpr const char* kLibrary = "libcublasLt.so.12";

class OnFakeCublaslt : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(objects_, nullptr) << "LD_LIBRARY_PATH does not lead to the tests' libcublasLt.so.12";
    ASSERT_NE(in_use_, nullptr) << "LD_LIBRARY_PATH does not lead to the tests' libcuda.so.1";
    ASSERT_TRUE(session_.open().ok());
    ASSERT_TRUE(session_.load(TENON_TEST_INPUTS "/mlp.tir", &model_).ok()) << failure_text();
  }

  Status run(std::vector<float>* out) {
    Program program;
    TENON_TRY(model_.compile({.device = "cuda", .no_fallback = true}, &program));
    const std::vector<Input> inputs = arguments();
    Output y;
    TENON_TRY(program.call(inputs, {&y, 1}));
    out->assign(y.as<float>().begin(), y.as<float>().end());
    return {};
  }

  // The library's gelu and the device's own are not the same to the last bit.
  static void expect_near(const std::vector<float>& got, const std::vector<float>& right) {
    ASSERT_EQ(got.size(), right.size());
    for (size_t i = 0; i < right.size(); ++i)
      ASSERT_NEAR(got[i], right[i], 1e-5 * std::abs(right[i]) + 1e-6) << i;
  }

  std::vector<Input> arguments() const {
    return {ArrayView::of(values_, {33, 64}), ArrayView::of(values_, {64, 96}),
            ArrayView::of(values_, {96}), ArrayView::of(values_, {48, 96}),
            ArrayView::of(values_, {48})};
  }
  const std::vector<float> values_ = std::vector<float>(64 * 96, 0.125f);

  using Count = uint64_t (*)();
  using FailIn = void (*)(uint64_t, int);
  const Count in_use_ = function<Count>("libcuda.so.1", "fake_cuda_in_use");
  const Count driver_calls_ = function<Count>("libcuda.so.1", "fake_cuda_calls");
  const FailIn fail_driver_ = function<FailIn>("libcuda.so.1", "fake_cuda_fail_in");
  const Count objects_ = function<Count>(kLibrary, "fake_cublaslt_objects");
  const Count calls_ = function<Count>(kLibrary, "fake_cublaslt_calls");
  const Count products_ = function<Count>(kLibrary, "fake_cublaslt_products");
  const FailIn fail_ = function<FailIn>(kLibrary, "fake_cublaslt_fail_in");
  Session session_;
  Model model_;
};

TEST_F(OnFakeCublaslt, EveryCallOfTheLibraryMayFail) {
  std::vector<float> right, y;
  ASSERT_TRUE(run(&right).ok()) << failure_text();
  ASSERT_TRUE(run(&right).ok());
  EXPECT_EQ(objects_(), 0u) << "there is no program, and something is left";
  const uint64_t before = calls_(), products = products_();
  ASSERT_TRUE(run(&y).ok());
  const uint64_t calls = calls_() - before, kept = in_use_();
  EXPECT_GT(products_(), products);
  ASSERT_GT(calls, 20u);
  constexpr int kAllocFailed = 3, kExecutionFailed = 13;
  for (const int code : {kExecutionFailed, kAllocFailed}) {
    for (uint64_t n = 1; n <= calls; ++n) {
      SCOPED_TRACE(n);
      fail_(n, code);
      y.clear();
      const Status status = run(&y);
      fail_(0, 0);
      if (status.ok()) {
        expect_near(y, right);  // what failed was given back, or the device's own code does it
      } else {
        EXPECT_NE(failure_text().find("CUBLAS_STATUS_"), std::string::npos) << failure_text();
        EXPECT_EQ(status.code(), code == kAllocFailed ? TENON_RESOURCE_EXHAUSTED : TENON_INTERNAL);
      }
      EXPECT_LE(objects_(), 1u);  // the handle of a question that no load followed
      ASSERT_TRUE(run(&y).ok()) << failure_text();
      EXPECT_EQ(objects_(), 0u);
      EXPECT_EQ(y, right);
      ASSERT_LE(in_use_(), kept + 2);
    }
  }
}

// What it refuses while a program is loaded is the device's own to do: a line of the log has it.
TEST_F(OnFakeCublaslt, ARefusalFailsNoLoad) {
  std::vector<float> right, y;
  ASSERT_TRUE(run(&right).ok()) << failure_text();
  const uint64_t before = calls_();
  Program loaded;
  ASSERT_TRUE(model_.compile({.device = "cuda", .no_fallback = true}, &loaded).ok());
  loaded = Program();
  const uint64_t calls = calls_() - before;
  constexpr int kNotSupported = 15;
  bool is_logged = false;
  for (uint64_t n = 1; n <= calls; ++n) {
    SCOPED_TRACE(n);
    testing::internal::CaptureStderr();
    fail_(n, kNotSupported);
    Program program;
    const Status status = model_.compile({.device = "cuda", .no_fallback = true}, &program);
    fail_(0, 0);
    const std::string log = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(status.ok()) << failure_text();
    is_logged = is_logged || (log.find("the device's own compiler does") != std::string::npos &&
                              log.find("CUBLAS_STATUS_NOT_SUPPORTED") != std::string::npos);
    const std::vector<Input> inputs = arguments();
    Output out;
    ASSERT_TRUE(program.call(inputs, {&out, 1}).ok()) << failure_text();
    expect_near({out.as<float>().begin(), out.as<float>().end()}, right);
  }
  EXPECT_TRUE(is_logged) << "no refusal came where kernels are made";
}

TEST_F(OnFakeCublaslt, EveryCallOfTheDriverMayFail) {
  std::vector<float> right, y;
  ASSERT_TRUE(run(&right).ok()) << failure_text();
  const uint64_t before = driver_calls_();
  ASSERT_TRUE(run(&y).ok());
  const uint64_t calls = driver_calls_() - before, kept = in_use_();
  constexpr int kInvalidValue = 1;
  for (uint64_t n = 1; n <= calls; n += 3) {
    SCOPED_TRACE(n);
    fail_driver_(n, kInvalidValue);
    y.clear();
    const Status status = run(&y);
    fail_driver_(0, 0);
    if (status.ok()) {
      expect_near(y, right);
    } else {
      EXPECT_FALSE(failure_text().empty());
    }
    EXPECT_EQ(objects_(), 0u);
    ASSERT_TRUE(run(&y).ok()) << failure_text();
    EXPECT_EQ(y, right);
    ASSERT_LE(in_use_(), kept + 2);
  }
}

// One program for all of them: more than are kept, and one after a failure of each call.
TEST_F(OnFakeCublaslt, ARunGivesSizes) {
  ASSERT_TRUE(session_.load(TENON_TEST_INPUTS "/rows.tir", &model_).ok()) << failure_text();
  Program program;
  ASSERT_TRUE(model_.compile({.device = "cuda", .no_fallback = true}, &program).ok())
      << failure_text();
  std::vector<float> right;
  const auto of_rows = [&](int64_t rows) -> Status {
    std::vector<Input> inputs = arguments();
    inputs[0] = ArrayView::of(values_, {rows, 64});
    Output y;
    TENON_TRY(program.call(inputs, {&y, 1}));
    if (right.empty()) right.assign(y.as<float>().begin(), y.as<float>().end());
    EXPECT_EQ(y.as<float>().size(), static_cast<size_t>(rows) * 48);
    for (size_t i = 0; i < y.as<float>().size(); ++i)
      EXPECT_EQ(y.as<float>()[i], right[i % 48]) << i;
    return {};
  };
  for (int64_t rows = 1; rows < 20; ++rows) {
    const uint64_t before = products_();
    ASSERT_TRUE(of_rows(rows).ok()) << failure_text();
    EXPECT_EQ(products_() - before, 2u);
  }
  const uint64_t kept = objects_(), before = calls_();
  ASSERT_TRUE(of_rows(1).ok()) << failure_text();
  const uint64_t calls = calls_() - before;
  EXPECT_EQ(objects_(), kept) << "the oldest sizes are forgotten";
  EXPECT_GT(calls, 20u);
  const uint64_t known = calls_();
  ASSERT_TRUE(of_rows(1).ok()) << failure_text();
  EXPECT_LT(calls_() - known, 5u) << "the latest are not";
  constexpr int kExecutionFailed = 13;
  for (uint64_t n = 1; n <= calls; ++n) {
    SCOPED_TRACE(n);
    const auto rows = static_cast<int64_t>(20 + n);
    fail_(n, kExecutionFailed);
    const Status status = of_rows(rows);
    fail_(0, 0);
    if (!status.ok())
      EXPECT_NE(failure_text().find("CUBLAS_STATUS_"), std::string::npos) << failure_text();
    ASSERT_TRUE(of_rows(rows).ok()) << failure_text();
    EXPECT_LE(objects_(), kept);
  }
}

// A framework's current stream, and the default one, take the products.
TEST_F(OnFakeCublaslt, StreamsOfOthersTakeProducts) {
  Program program;
  ASSERT_TRUE(model_.compile({.device = "cuda", .no_fallback = true}, &program).ok());
  const std::vector<Input> inputs = arguments();
  Output right, y;
  ASSERT_TRUE(program.call(inputs, {&right, 1}).ok()) << failure_text();
  void *primary = nullptr, *stream = nullptr, *popped = nullptr;
  using Retain = int (*)(void**, int);
  using Push = int (*)(void*);
  using Create = int (*)(void**, unsigned);
  using Pop = int (*)(void**);
  ASSERT_EQ(function<Retain>("libcuda.so.1", "cuDevicePrimaryCtxRetain")(&primary, 0), 0);
  ASSERT_EQ(function<Push>("libcuda.so.1", "cuCtxPushCurrent_v2")(primary), 0);
  ASSERT_EQ(function<Create>("libcuda.so.1", "cuStreamCreate")(&stream, 1), 0);
  ASSERT_EQ(function<Pop>("libcuda.so.1", "cuCtxPopCurrent_v2")(&popped), 0);
  for (void* on : {stream, static_cast<void*>(nullptr)}) {
    auto native = sized<tenon_native_handle_t>();
    native.kind = str("cuda.stream");
    native.handle = reinterpret_cast<uint64_t>(on);
    const uint64_t products = products_();
    Call call(program, inputs, {&y, 1});
    call.stream("cuda", native);
    ASSERT_TRUE(call.run().ok()) << failure_text();
    EXPECT_EQ(y.as<float>()[3], right.as<float>()[3]);
    EXPECT_GT(products_(), products);
  }
  EXPECT_EQ(function<Push>("libcuda.so.1", "cuStreamDestroy_v2")(stream), 0);
}

}  // namespace
}  // namespace tenon
