// The cuda plugin on the tests' driver: every call of the driver fails once, memory of other
// libraries, kernels that run while other inputs are copied.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <tenon/cpp/session.hpp>

namespace tenon {
namespace {

// The driver that the plugin has opened.
struct FakeDriver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  void (*fail_in)(uint64_t, int) = nullptr;
  uint64_t (*calls)() = nullptr;
  uint64_t (*in_use)() = nullptr;
  void (*fail_calls)(const char*, int) = nullptr;
  uint64_t (*map)(uint64_t, uint64_t) = nullptr;
  // As another library of the process calls it.
  int (*alloc)(unsigned long long*, size_t) = nullptr;
  int (*free)(unsigned long long) = nullptr;
  int (*context_create)(void**, unsigned, int) = nullptr;
  int (*context_retain)(void**, int) = nullptr;
  int (*context_release)(int) = nullptr;
  int (*context_push)(void*) = nullptr;
  int (*context_destroy)(void*) = nullptr;
  int (*context_pop)(void**) = nullptr;
  int (*stream_create)(void**, unsigned) = nullptr;
  int (*stream_destroy)(void*) = nullptr;
  int (*event_create)(void**, unsigned) = nullptr;
  int (*event_destroy)(void*) = nullptr;
  int (*event_record)(void*, void*) = nullptr;
  int (*fill)(unsigned long long, unsigned char, size_t, void*) = nullptr;
  int (*default_pool)(void**, int) = nullptr;
  int (*pool_attribute)(void*, int, void*) = nullptr;

  FakeDriver() {
    if (library == nullptr) return;
    find("fake_cuda_fail_in", &fail_in);
    find("fake_cuda_calls", &calls);
    find("fake_cuda_in_use", &in_use);
    find("fake_cuda_fail_calls", &fail_calls);
    find("fake_cuda_map", &map);
    find("cuMemAlloc_v2", &alloc);
    find("cuMemFree_v2", &free);
    find("cuCtxCreate_v2", &context_create);
    find("cuDevicePrimaryCtxRetain", &context_retain);
    find("cuDevicePrimaryCtxRelease_v2", &context_release);
    find("cuCtxPushCurrent_v2", &context_push);
    find("cuCtxDestroy_v2", &context_destroy);
    find("cuCtxPopCurrent_v2", &context_pop);
    find("cuStreamCreate", &stream_create);
    find("cuStreamDestroy_v2", &stream_destroy);
    find("cuEventCreate", &event_create);
    find("cuEventDestroy_v2", &event_destroy);
    find("cuEventRecord", &event_record);
    find("cuMemsetD8Async", &fill);
    find("cuDeviceGetDefaultMemPool", &default_pool);
    find("cuMemPoolGetAttribute", &pool_attribute);
  }
  template <class F>
  void find(const char* name, F* out) {
    *out = reinterpret_cast<F>(dlsym(library, name));
  }
};

class OnFakeCuda : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(driver_.in_use, nullptr)
        << "LD_LIBRARY_PATH does not lead to the tests' libcuda.so.1";
    ASSERT_TRUE(session_.open().ok());
  }

  using Dims = std::vector<int64_t>;
  Status run(const Model& model, std::vector<float>* out,
             const std::vector<Dims>& shapes = {{1, 32}}) {
    Program program;
    TENON_TRY(model.compile({.device = "cuda", .no_fallback = true}, &program));
    std::vector<std::vector<float>> values;
    std::vector<Input> inputs;
    values.reserve(shapes.size());
    for (const Dims& dims : shapes) {
      size_t count = 1;
      for (int64_t d : dims) count *= static_cast<size_t>(d);
      values.emplace_back(count, 0.5f);
      inputs.push_back(ArrayView::of(values.back(), dims));
    }
    Output y;
    TENON_TRY(program.call(inputs, {&y, 1}));
    out->assign(y.as<float>().begin(), y.as<float>().end());
    return {};
  }

  FakeDriver driver_;
  Session session_;
};

// Loading and running the model with the n-th call of the driver failing, for every n. Under a
// sanitizer each kind of failure meets every third call, a different third; with CHECK_FULL all.
TEST_F(OnFakeCuda, EveryCallMayFail) {
  Model model;
  ASSERT_TRUE(session_.load(TENON_TEST_MODELS "/mlp.onnx", &model).ok()) << failure_text();
  std::vector<float> right, y;
  ASSERT_TRUE(run(model, &right).ok()) << failure_text();
  const uint64_t before = driver_.calls();
  ASSERT_TRUE(run(model, &y).ok());
  const uint64_t calls = driver_.calls() - before, kept = driver_.in_use();
  ASSERT_GT(calls, 50u);
  constexpr int kOutOfMemory = 2, kInvalidValue = 1;
  const char* full = std::getenv("CHECK_FULL");
  const bool every = full != nullptr && std::string_view(full) != "0";
  const uint64_t stride = every ? 1 : TENON_TEST_STRIDE;
  for (const int code : {kInvalidValue, kOutOfMemory}) {
    for (uint64_t n = std::min<uint64_t>(stride, code); n <= calls; n += stride) {
      SCOPED_TRACE(n);
      driver_.fail_in(n, code);
      y.clear();
      const Status status = run(model, &y);
      driver_.fail_in(0, 0);
      if (status.ok()) {
        EXPECT_EQ(y, right);  // what failed was given back, or tried again
      } else {
        EXPECT_NE(failure_text().find("CUDA_ERROR_"), std::string::npos) << failure_text();
      }
      y.clear();
      ASSERT_TRUE(run(model, &y).ok()) << failure_text();
      EXPECT_EQ(y, right);
      // Events and pinned slots that a run gave back are kept for the next.
      ASSERT_LE(driver_.in_use(), kept + 2);
    }
  }
}

// A plugin reports its progress: the host passes it to the caller that compiles.
TEST_F(OnFakeCuda, KernelsAreCounted) {
  Model model;
  Program program;
  Operation operation;
  std::vector<std::pair<uint64_t, uint64_t>> kernels;
  operation.progress = [&](std::string_view phase, uint64_t done, uint64_t total) {
    if (phase == "kernels") kernels.emplace_back(done, total);
  };
  ASSERT_TRUE(operation.open().ok());
  ASSERT_TRUE(session_.load(TENON_TEST_MODELS "/mlp.onnx", &model).ok()) << failure_text();
  ASSERT_TRUE(operation.run([&] { return model.compile({.device = "cuda"}, &program); }).ok())
      << failure_text();
  ASSERT_GT(kernels.size(), 2u);
  for (size_t i = 0; i < kernels.size(); ++i)
    EXPECT_EQ(kernels[i], std::pair(uint64_t{i}, uint64_t{kernels.size() - 1}));
}

// Memory of another library goes in by its address, and results come out by theirs.
TEST_F(OnFakeCuda, PointersGoInAndOut) {
  Model model;
  constexpr std::string_view kModel =
      "tenon.tir 1\ngraph @g(%x: f32[64]) -> (y: f32[64]) {\n  %y = neg(%x) : f32[64]\n"
      "  yield %y\n}\n";
  ASSERT_TRUE(session_.load_bytes(kModel, "g.tir", &model).ok()) << failure_text();
  Program program;
  ASSERT_TRUE(model.compile({.device = "cuda", .no_fallback = true}, &program).ok())
      << failure_text();
  const std::vector<float> x(64, 2.0f);
  Tensor source;
  ASSERT_TRUE(Tensor::copy(ArrayView::of(x, {64}), &source, "cuda").ok()) << failure_text();
  auto native = sized<tenon_native_memory_t>();
  ASSERT_TRUE(source.native("cuda", "cuda.pointer", &native).ok()) << failure_text();
  EXPECT_EQ(view(native.kind), "cuda.pointer");
  EXPECT_EQ(native.length_bytes, 256u);
  const int64_t dims[] = {64};
  Tensor adopted;
  ASSERT_TRUE(Tensor::adopt(TENON_F32, dims, "cuda", native, &adopted).ok()) << failure_text();
  const std::vector<Input> inputs = {adopted};
  Output y;
  ASSERT_TRUE(program.call(inputs, {&y, 1}).ok()) << failure_text();
  EXPECT_EQ(y.as<float>()[63], -2.0f);

  native.length_bytes = 1 << 20;
  const int64_t more[] = {1 << 18};
  EXPECT_EQ(Tensor::adopt(TENON_F32, more, "cuda", native, &adopted).code(), TENON_OUT_OF_RANGE);
  native.handle = 4096;
  EXPECT_EQ(Tensor::adopt(TENON_F32, dims, "cuda", native, &adopted).code(),
            TENON_INVALID_ARGUMENT);
}

tenon_code_t adopt(uint64_t address, int64_t count, uint64_t offset_bytes = 0) {
  auto native = sized<tenon_native_memory_t>();
  native.kind = str("cuda.pointer");
  native.handle = address;
  native.offset_bytes = offset_bytes;
  native.length_bytes = static_cast<uint64_t>(count) * sizeof(float);
  Tensor adopted;
  return Tensor::adopt(TENON_F32, {&count, 1}, "cuda", native, &adopted).code();
}

// A framework's current stream: its own, and the default one, whose handle is 0.
TEST_F(OnFakeCuda, StreamsOfOthersTakeCalls) {
  Model model;
  ASSERT_TRUE(session_.load(TENON_TEST_MODELS "/mlp.onnx", &model).ok()) << failure_text();
  Program program;
  ASSERT_TRUE(model.compile({.device = "cuda", .no_fallback = true}, &program).ok());
  const std::vector<float> x(32, 0.5f);
  const std::vector<Input> inputs = {ArrayView::of(x, {1, 32})};
  Output right, y;
  ASSERT_TRUE(program.call(inputs, {&right, 1}).ok()) << failure_text();
  const auto run_on = [&](void* stream) {
    auto native = sized<tenon_native_handle_t>();
    native.kind = str("cuda.stream");
    native.handle = reinterpret_cast<uint64_t>(stream);
    Call call(program, inputs, {&y, 1});
    call.stream("cuda", native);
    return call.run().code();
  };
  void *primary = nullptr, *other = nullptr, *popped = nullptr, *streams[2] = {};
  ASSERT_EQ(driver_.context_retain(&primary, 0), 0);
  ASSERT_EQ(driver_.context_push(primary), 0);
  ASSERT_EQ(driver_.stream_create(&streams[0], 1), 0);
  ASSERT_EQ(driver_.context_pop(&popped), 0);
  for (void* stream : {streams[0], static_cast<void*>(nullptr)}) {
    ASSERT_EQ(run_on(stream), TENON_OK) << failure_text();
    EXPECT_EQ(y.as<float>()[3], right.as<float>()[3]);
  }
  ASSERT_EQ(driver_.context_create(&other, 0, 0), 0);
  ASSERT_EQ(driver_.stream_create(&streams[1], 1), 0);
  ASSERT_EQ(driver_.context_pop(&popped), 0);
  EXPECT_EQ(run_on(streams[1]), TENON_INVALID_ARGUMENT);
  EXPECT_NE(failure_text().find("another context"), std::string::npos) << failure_text();
  EXPECT_EQ(run_on(&primary), TENON_INVALID_ARGUMENT);
  for (void* stream : streams) EXPECT_EQ(driver_.stream_destroy(stream), 0);
  EXPECT_EQ(driver_.context_destroy(other), 0);
  EXPECT_EQ(driver_.context_release(0), 0);
}

TEST_F(OnFakeCuda, MemoryOfOtherContextsIsRefused) {
  void *context = nullptr, *popped = nullptr;
  unsigned long long other = 0;
  Tensor first;  // opens the device
  ASSERT_TRUE(Tensor::copy(ArrayView::of(std::vector<float>(1), {1}), &first, "cuda").ok());
  ASSERT_EQ(driver_.context_create(&context, 0, 0), 0);
  ASSERT_EQ(driver_.alloc(&other, 256), 0);
  ASSERT_EQ(driver_.context_pop(&popped), 0);
  EXPECT_EQ(adopt(other, 64), TENON_INVALID_ARGUMENT);
  EXPECT_NE(failure_text().find("another context"), std::string::npos) << failure_text();
  EXPECT_EQ(driver_.free(other), 0);
  EXPECT_EQ(driver_.context_destroy(context), 0);
}

// The tests' driver itself: what belongs to one context is refused in another.
TEST_F(OnFakeCuda, ContextsAreApart) {
  void *contexts[2] = {}, *streams[2] = {}, *events[2] = {}, *popped = nullptr;
  unsigned long long memory = 0;
  for (int i = 0; i < 2; ++i) {  // the second one stays current
    ASSERT_EQ(driver_.context_create(&contexts[i], 0, 0), 0);
    ASSERT_EQ(driver_.stream_create(&streams[i], 1), 0);
    ASSERT_EQ(driver_.event_create(&events[i], 0), 0);
  }
  ASSERT_EQ(driver_.alloc(&memory, 64), 0);
  EXPECT_EQ(driver_.event_record(events[1], streams[1]), 0);
  EXPECT_EQ(driver_.event_record(events[0], streams[1]), 400);  // CUDA_ERROR_INVALID_HANDLE
  EXPECT_EQ(driver_.fill(memory, 1, 64, streams[1]), 0);
  EXPECT_EQ(driver_.fill(memory, 1, 64, streams[0]), 201);  // CUDA_ERROR_INVALID_CONTEXT
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(driver_.event_destroy(events[i]), 0);
    EXPECT_EQ(driver_.stream_destroy(streams[i]), 0);
    EXPECT_EQ(driver_.context_pop(&popped), 0);
    EXPECT_EQ(driver_.context_destroy(contexts[i]), 0);
  }
  EXPECT_EQ(driver_.free(memory), 0);
}

// As PyTorch's expandable segments are: a range of several mappings.
TEST_F(OnFakeCuda, MemoryOfSeveralMappingsIsOneRange) {
  constexpr uint64_t kMapping = 4096;
  const uint64_t at = driver_.map(kMapping, 3);
  constexpr int64_t kFloats = 3 * kMapping / sizeof(float);
  EXPECT_EQ(adopt(at, kFloats), TENON_OK) << failure_text();
  EXPECT_EQ(adopt(at, kFloats, 16), TENON_OUT_OF_RANGE);
  EXPECT_EQ(adopt(at, 8, 4), TENON_UNIMPLEMENTED) << failure_text();
  EXPECT_EQ(adopt(0, 0), TENON_OK) << failure_text();
  EXPECT_EQ(driver_.free(at), 0);
}

// With FAKE_CUDA=devices=2. A tensor on one GPU goes into a program on the other, with no byte in
// the host's memory; where they do not reach each other (peers=0), by way of it.
TEST_F(OnFakeCuda, ATensorGoesToAnotherGpu) {
  constexpr int64_t kElements = 16384;
  uint64_t (*peer_copies)() = nullptr;
  driver_.find("fake_cuda_peer_copies", &peer_copies);
  const std::string_view settings =
      std::getenv("FAKE_CUDA") != nullptr ? std::getenv("FAKE_CUDA") : "";
  if (settings.find("devices=2") == std::string_view::npos) GTEST_SKIP() << "there is one device";
  const bool peers = settings.find("peers=0") == std::string_view::npos;
  Model model;
  constexpr std::string_view kText =
      "tenon.tir 1\ngraph @g(%x: f32[16384]) -> (y: f32[16384]) {\n"
      "  %y = neg(%x) : f32[16384]\n  yield %y\n}\n";
  ASSERT_TRUE(session_.load_bytes(kText, "g.tir", &model).ok()) << failure_text();
  Program program;
  ASSERT_TRUE(model.compile({.device = "cuda:1", .no_fallback = true}, &program).ok())
      << failure_text();
  std::vector<float> values(kElements, 1.0f);
  values[7] = 3;
  for (uint64_t run = 1; run <= 3; ++run) {
    Tensor x;
    ASSERT_TRUE(Tensor::copy(ArrayView::of(values, {kElements}), &x, "cuda").ok());
    const std::vector<Input> inputs = {Input(x)};
    Output y;
    ASSERT_TRUE(program.call(inputs, {&y, 1}).ok()) << failure_text();
    EXPECT_EQ(y.as<float>()[7], -3);
    EXPECT_EQ(y.as<float>()[kElements - 1], -1);
    EXPECT_EQ(peer_copies(), peers ? run : 0);
  }
}

// Other libraries of the process use the default pool.
TEST_F(OnFakeCuda, TheDefaultPoolStaysAsItIs) {
  Tensor tensor;
  ASSERT_TRUE(Tensor::copy(ArrayView::of(std::vector<float>(1), {1}), &tensor, "cuda").ok());
  void* pool = nullptr;
  uint64_t threshold = 1;
  ASSERT_EQ(driver_.default_pool(&pool, 0), 0);
  ASSERT_EQ(driver_.pool_attribute(pool, 4, &threshold), 0);
  EXPECT_EQ(threshold, 0u);
}

// Memory is what a caller may free to try again; a lost device gives no results any more.
TEST_F(OnFakeCuda, ErrorsOfLaunchesHaveTheirCodes) {
  Model model;
  ASSERT_TRUE(session_.load(TENON_TEST_MODELS "/mlp.onnx", &model).ok()) << failure_text();
  std::vector<float> y;
  const auto code_of = [&](int result) {
    driver_.fail_calls("cuLaunchKernel", result);
    const tenon_code_t code = run(model, &y).code();
    driver_.fail_calls("", 0);
    return code;
  };
  EXPECT_EQ(code_of(2), TENON_RESOURCE_EXHAUSTED) << failure_text();
  EXPECT_EQ(code_of(701), TENON_INTERNAL) << failure_text();  // too many registers
  EXPECT_EQ(code_of(711), TENON_INTERNAL) << failure_text();
  EXPECT_EQ(code_of(220), TENON_DEVICE_LOST) << failure_text();
}

}  // namespace
}  // namespace tenon
