// Tensors of other libraries by DLPack on a device, on the tests' driver with two GPUs: by pointer
// in both directions, on the GPU that they name, and after the work of their library's stream.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <vector>

#include <tenon/cpp/dlpack.hpp>

namespace tenon {
namespace {

namespace dl = dlpack;

constexpr int64_t kFloats = 1 << 16;
constexpr int32_t kGpu = 1;  // the second one
constexpr std::string_view kModel = R"(tenon.tir 1
graph @g(%x: f32[65536]) -> (y: f32[65536]) {
  %y = neg(%x) : f32[65536]
  yield %y
}
)";

// Another library of the process, which works on a stream of its own.
class Library {
 public:
  Library() {
    find("cuInit", &init);
    find("cuDevicePrimaryCtxRetain", &context_retain);
    find("cuDevicePrimaryCtxRelease_v2", &context_release);
    find("cuCtxPushCurrent_v2", &context_push);
    find("cuCtxPopCurrent_v2", &context_pop);
    find("cuStreamCreate", &stream_create);
    find("cuStreamDestroy_v2", &stream_destroy);
    find("cuStreamSynchronize", &stream_wait);
    find("cuMemAlloc_v2", &alloc);
    find("cuMemFree_v2", &free);
    find("cuMemsetD32Async", &fill);
    find("cuMemcpyDtoHAsync_v2", &copy_out);
    find("cuMemcpyDtoDAsync_v2", &copy_within);
    void* context = nullptr;
    unsigned long long address = 0;
    ok_ = init(0) == 0 && context_retain(&context, kGpu) == 0 && context_push(context) == 0 &&
          stream_create(&stream_, 1) == 0 && alloc(&address, kFloats * sizeof(float)) == 0;
    managed.context = this;
    managed.deleter = [](dl::ManagedTensorVersioned* self) {
      ++static_cast<Library*>(self->context)->deleted;
    };
    managed.version = {dl::kMajor, dl::kMinor};
    managed.tensor = {reinterpret_cast<void*>(address),
                      {dl::kCuda, kGpu},
                      1,
                      {dl::kFloat, 32, 1},
                      &dim_,
                      nullptr,
                      0};
  }
  ~Library() {
    void* popped = nullptr;
    EXPECT_EQ(stream_wait(stream_), 0);
    EXPECT_EQ(free(address()), 0);
    EXPECT_EQ(stream_destroy(stream_), 0);
    EXPECT_EQ(context_pop(&popped), 0);
    EXPECT_EQ(context_release(kGpu), 0);
  }
  bool ok() const { return ok_; }
  unsigned long long address() const {
    return reinterpret_cast<unsigned long long>(managed.tensor.data);
  }
  uint64_t stream() const { return reinterpret_cast<uint64_t>(stream_); }

  // On the stream, after much work: only later work there sees the value.
  void write_later(float value) {
    for (int i = 0; i < 400; ++i) ASSERT_EQ(fill(address(), 0, kFloats, stream_), 0);
    ASSERT_EQ(fill(address(), std::bit_cast<unsigned>(value), kFloats, stream_), 0);
  }
  // The same, into its own memory.
  void copy_later(const dl::Tensor& t) {
    write_later(0);
    ASSERT_EQ(copy_within(address(), reinterpret_cast<uint64_t>(t.data) + t.byte_offset,
                          kFloats * sizeof(float), stream_),
              0);
  }
  std::vector<float> read(const dl::Tensor& t) {
    std::vector<float> values(kFloats);
    EXPECT_EQ(copy_out(values.data(), reinterpret_cast<uint64_t>(t.data) + t.byte_offset,
                       kFloats * sizeof(float), stream_),
              0);
    EXPECT_EQ(stream_wait(stream_), 0);
    return values;
  }

  dl::ManagedTensorVersioned managed{};
  int deleted = 0;

 private:
  template <class F>
  void find(const char* name, F* out) {
    *out = reinterpret_cast<F>(dlsym(library_, name));
  }

  void* library_ = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = nullptr;
  int (*context_retain)(void**, int) = nullptr;
  int (*context_release)(int) = nullptr;
  int (*context_push)(void*) = nullptr;
  int (*context_pop)(void**) = nullptr;
  int (*stream_create)(void**, unsigned) = nullptr;
  int (*stream_destroy)(void*) = nullptr;
  int (*stream_wait)(void*) = nullptr;
  int (*alloc)(unsigned long long*, size_t) = nullptr;
  int (*free)(unsigned long long) = nullptr;
  int (*fill)(unsigned long long, unsigned, size_t, void*) = nullptr;
  int (*copy_out)(void*, unsigned long long, size_t, void*) = nullptr;
  int (*copy_within)(unsigned long long, unsigned long long, size_t, void*) = nullptr;
  void* stream_ = nullptr;
  int64_t dim_ = kFloats;
  bool ok_ = false;
};

class DLPackOnAGpu : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session_.open().ok());
    ASSERT_TRUE(library_.ok()) << "LD_LIBRARY_PATH does not lead to the tests' libcuda.so.1";
    Model model;
    ASSERT_TRUE(session_.load_bytes(kModel, "g.tir", &model).ok()) << failure_text();
    ASSERT_TRUE(model.compile({.device = "cuda:1", .no_fallback = true}, &program_).ok())
        << failure_text();
  }
  Session session_;
  Library library_;
  Program program_;
};

TEST_F(DLPackOnAGpu, TheirsIsUsedAfterTheirStream) {
  {
    Tensor x;
    ASSERT_TRUE(dl::take(&library_.managed, &x).ok()) << failure_text();
    tenon_tensor_info_t info;
    ASSERT_TRUE(x.info(&info).ok());
    EXPECT_EQ(view(info.places), "cuda:1");
    for (const float value : {2.0f, 3.0f, 5.0f}) {
      library_.write_later(value);
      const std::vector<Input> inputs = {x};
      Output y;
      Call call(program_, inputs, {&y, 1});
      ASSERT_TRUE(dl::work_on(&call, library_.managed.tensor.device, library_.stream()).ok());
      ASSERT_TRUE(call.run().ok()) << failure_text();
      EXPECT_EQ(y.as<float>()[0], -value);
      EXPECT_EQ(y.as<float>()[kFloats - 1], -value);
    }
    EXPECT_EQ(library_.deleted, 0);
  }
  program_ = {};
  EXPECT_EQ(library_.deleted, 1);
}

TEST_F(DLPackOnAGpu, OursGoesOutWhereItIs) {
  Tensor x;
  ASSERT_TRUE(dl::take(&library_.managed, &x).ok()) << failure_text();
  dl::ManagedTensorVersioned* same = nullptr;
  ASSERT_TRUE(dl::give(std::move(x), {dl::kCuda, kGpu}, &same).ok()) << failure_text();
  EXPECT_EQ(reinterpret_cast<uint64_t>(same->tensor.data) + same->tensor.byte_offset,
            library_.address());
  EXPECT_EQ(same->tensor.device.id, kGpu);
  dl::call_deleter(same);
  EXPECT_EQ(library_.deleted, 1);
}

// A result on the host is brought to the device once.
TEST_F(DLPackOnAGpu, OursIsBroughtThere) {
  const std::vector<float> values(kFloats, 4);
  auto x = std::make_shared<Tensor>();
  ASSERT_TRUE(Tensor::copy(ArrayView::of(values, {kFloats}), x.get()).ok());
  const std::shared_ptr<const Tensor> shared = x;
  dl::ManagedTensor *first = nullptr, *second = nullptr;
  ASSERT_TRUE(dl::give(shared, {dl::kCuda, kGpu}, &first).ok()) << failure_text();
  ASSERT_TRUE(dl::give(shared, {dl::kCuda, kGpu}, &second).ok()) << failure_text();
  EXPECT_EQ(first->tensor.data, second->tensor.data);
  EXPECT_EQ(library_.read(first->tensor), values);
  dl::call_deleter(first);
  dl::call_deleter(second);
}

// The library lets go of it on the host, while its work waits on the stream that it named.
TEST_F(DLPackOnAGpu, OursStaysUntilTheirWorkIsDone) {
  const std::vector<float> values(kFloats, 6);
  Tensor x;
  ASSERT_TRUE(Tensor::copy(ArrayView::of(values, {kFloats}), &x, "cuda:1").ok()) << failure_text();
  dl::ManagedTensorVersioned* given = nullptr;
  ASSERT_TRUE(
      dl::give(std::move(x), {dl::kCuda, kGpu}, &given, dl::kReadOnly, library_.stream()).ok())
      << failure_text();
  library_.copy_later(given->tensor);
  dl::call_deleter(given);
  for (int i = 0; i < 8; ++i) {
    Tensor other;
    ASSERT_TRUE(
        Tensor::copy(ArrayView::of(std::vector<float>(kFloats, -1), {kFloats}), &other, "cuda:1")
            .ok());
  }
  EXPECT_EQ(library_.read(library_.managed.tensor), values);
}

TEST_F(DLPackOnAGpu, ADeviceThatIsNotThereIsReported) {
  library_.managed.tensor.device.id = 7;
  Tensor x;
  EXPECT_FALSE(dl::take(&library_.managed, &x).ok());
  EXPECT_NE(failure_text().find("device 7"), std::string::npos) << failure_text();
  EXPECT_EQ(library_.deleted, 0);
  const std::vector<Input> inputs = {ArrayView{}};
  Output y;
  Call call(program_, inputs, {&y, 1});
  EXPECT_EQ(dl::work_on(&call, {dl::kCpu, 0}, 0).code(), TENON_UNIMPLEMENTED);
}

}  // namespace
}  // namespace tenon
