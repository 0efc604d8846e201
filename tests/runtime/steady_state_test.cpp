// What a call costs once its like was made: no memory of the heap, no lock and no clock. The test
// stands in front of the C library's functions and counts what the calling thread asks of them,
// whether the test, the library or a plugin asks. Threads of the pool have clocks of their own.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include <tenon/cpp/session.hpp>

// ---- What is counted ----

namespace {

struct Counts {
  std::atomic<uint64_t> allocations{0}, frees{0}, locks{0}, clocks{0};
};
Counts g_counts;
thread_local bool t_counting = false;

void count(std::atomic<uint64_t>& what) {
  if (t_counting) what.fetch_add(1, std::memory_order_relaxed);
}

// The C library's own function, which the one here replaces.
template <class F>
F* next_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#pragma GCC visibility push(default)  // libtenon and the plugins are to find them
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t align, size_t size);
void __libc_free(void* memory);

void* malloc(size_t size) {
  count(g_counts.allocations);
  return __libc_malloc(size);
}
void* calloc(size_t number, size_t size) {
  count(g_counts.allocations);
  return __libc_calloc(number, size);
}
void* realloc(void* memory, size_t size) {
  count(g_counts.allocations);
  return __libc_realloc(memory, size);
}
void* aligned_alloc(size_t align, size_t size) {
  count(g_counts.allocations);
  return __libc_memalign(align, size);
}
int posix_memalign(void** out, size_t align, size_t size) {
  count(g_counts.allocations);
  *out = __libc_memalign(align, size);
  return *out == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  if (memory != nullptr) count(g_counts.frees);
  __libc_free(memory);
}
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto* const real = next_function<int(pthread_mutex_t*)>("pthread_mutex_lock");
  count(g_counts.locks);
  return real(mutex);
}
int clock_gettime(clockid_t clock, timespec* out) {
  static auto* const real = next_function<int(clockid_t, timespec*)>("clock_gettime");
  count(g_counts.clocks);
  return real(clock, out);
}
}
#pragma GCC visibility pop

namespace {

using tenon::ArrayView;
using tenon::Input;
using tenon::Output;

constexpr int kCalls = 100, kParameters = 100;

std::string sum_of_parameters() {
  std::string arguments = "%a: f32[8]", body, last = "%a";
  for (int i = 0; i < kParameters; ++i) {
    const std::string p = "%p" + std::to_string(i), s = "%s" + std::to_string(i);
    arguments += ", " + p + ": f32[8]";
    body += "  " + s + " = add(" + last + ", " + p + ") : f32[8]\n";
    last = s;
  }
  return "tenon.tir 1\ngraph @g(" + arguments + ") -> (c: f32[8]) {\n" + body + "  yield " + last +
         "\n}\n";
}

constexpr std::string_view kSum = R"(tenon.tir 1
graph @g(%a: f32[8], %b: f32[8]) -> (c: f32[8]) {
  %c = add(%a, %b) : f32[8]
  yield %c
}
)";
// Large enough that its second operand is a constant of what is loaded.
constexpr std::string_view kProduct = R"(tenon.tir 1
graph @g(%x: f32[1, 64], %w: f32[64, 48]) -> (y: f32[1, 48]) {
  %y = matmul(%x, %w) : f32[1, 48]
  yield %y
}
)";
// Its sizes are the call's.
constexpr std::string_view kAnySize = R"(tenon.tir 1
graph @g<n>(%a: f32[n], %b: f32[n]) -> (c: f32[n]) {
  %c = mul(%a, %b) : f32[n]
  yield %c
}
)";

class SteadyState : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(session_.open().ok()) << tenon::failure_text(); }
  void compile(std::string_view text, std::vector<uint32_t> stable = {}) {
    tenon::Model model;
    ASSERT_TRUE(session_.load_bytes(text, "g.tir", &model).ok()) << tenon::failure_text();
    const tenon::CompileOptions options{.device = "cpu", .stable_inputs = std::move(stable)};
    ASSERT_TRUE(model.compile(options, &program_).ok()) << tenon::failure_text();
  }
  // Three calls settle what has to be settled; later calls do nothing more.
  static void expect_steady(const std::function<tenon::Status()>& call) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(call().ok()) << tenon::failure_text();
    g_counts.allocations = g_counts.frees = g_counts.locks = g_counts.clocks = 0;
    bool ok = true;
    t_counting = true;
    for (int i = 0; i < kCalls; ++i) ok = call().ok() && ok;
    t_counting = false;
    EXPECT_TRUE(ok) << tenon::failure_text();
    EXPECT_EQ(g_counts.allocations, 0u);
    EXPECT_EQ(g_counts.frees, 0u);
    EXPECT_EQ(g_counts.locks, 0u);
    EXPECT_EQ(g_counts.clocks, 0u);
  }
  tenon::Session session_;
  tenon::Program program_;
};

// What is not counted cannot fail a test.
TEST_F(SteadyState, CountsWhatThereIs) {
  g_counts.allocations = g_counts.frees = g_counts.locks = g_counts.clocks = 0;
  t_counting = true;
  std::vector<int> memory(100);
  memory.resize(10000);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  // The library's own calls go through the same functions.
  compile(kSum);
  t_counting = false;
  EXPECT_GT(g_counts.allocations, 100u);
  EXPECT_GT(g_counts.frees, 100u);
  EXPECT_GT(g_counts.locks, 1u);
  EXPECT_GT(g_counts.clocks, 1u);
}

TEST_F(SteadyState, ByName) {
  compile(kSum);
  const std::vector<float> a(8, 1), b(8, 2);
  tenon::Binding binding;
  ASSERT_TRUE(program_.bind(&binding).ok());
  ASSERT_TRUE(binding.input("a", ArrayView::of(a, {8})).ok());
  ASSERT_TRUE(binding.input("b", ArrayView::of(b, {8})).ok());
  expect_steady([&] { return binding.run(); });
  ArrayView c;
  ASSERT_TRUE(binding.output("c", &c).ok());
  for (const float value : c.as<float>()) EXPECT_EQ(value, 3);
}

TEST_F(SteadyState, ByPosition) {
  compile(kSum);
  const std::vector<float> a(8, 1), b(8, 2);
  std::vector<float> c(8);
  const std::vector<Input> inputs = {ArrayView::of(a, {8}), ArrayView::of(b, {8})};
  Output out = Output::into(c, {8});
  tenon::Call call(program_, inputs, {&out, 1});
  expect_steady([&] { return call.run(); });
  for (const float value : c) EXPECT_EQ(value, 3);
}

// Other memory each time, as a server's calls have it.
TEST_F(SteadyState, MemoryThatMoves) {
  compile(kAnySize);
  std::vector<float> a(24, 3), b(24, 2), c(24);
  std::vector<std::vector<Input>> inputs;
  std::vector<Output> outs;
  for (size_t i = 0; i < 2; ++i) {
    inputs.push_back(
        {ArrayView(TENON_F32, {8}, a.data() + 8 * i), ArrayView(TENON_F32, {8}, b.data() + 8 * i)});
    outs.emplace_back(TENON_F32, std::vector<int64_t>{8}, c.data() + 8 * i);
  }
  tenon::Call first(program_, inputs[0], {outs.data(), 1});
  tenon::Call second(program_, inputs[1], {outs.data() + 1, 1});
  size_t turn = 0;
  expect_steady([&] { return turn++ % 2 == 0 ? first.run() : second.run(); });
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(c[i], 6) << i;
}

TEST_F(SteadyState, AHundredParameters) {
  std::vector<uint32_t> stable;
  for (uint32_t i = 1; i <= kParameters; ++i) stable.push_back(i);
  compile(sum_of_parameters(), stable);
  const std::vector<float> a(8, 1), b(8, 2);
  std::vector<float> c(8);
  std::vector<tenon::Tensor> parameters(kParameters);
  std::vector<Input> inputs = {ArrayView::of(a, {8})};
  for (tenon::Tensor& parameter : parameters) {
    ASSERT_TRUE(tenon::Tensor::borrow(ArrayView::of(b, {8}), &parameter).ok());
    inputs.emplace_back(parameter);
  }
  Output out = Output::into(c, {8});
  tenon::Call call(program_, inputs, {&out, 1});
  expect_steady([&] { return call.run(); });
  for (const float value : c) EXPECT_EQ(value, 1 + 2 * kParameters);
}

TEST_F(SteadyState, AParameterThatIsPacked) {
  compile(kProduct, {1});
  const std::vector<float> x(64, 1), w(size_t{64} * 48, 0.5f);
  std::vector<float> y(48);
  tenon::Tensor parameter;
  ASSERT_TRUE(tenon::Tensor::borrow(ArrayView::of(w, {64, 48}), &parameter).ok());
  const std::vector<Input> inputs = {ArrayView::of(x, {1, 64}), parameter};
  Output out = Output::into(y, {1, 48});
  tenon::Call call(program_, inputs, {&out, 1});
  expect_steady([&] { return call.run(); });
  for (const float value : y) EXPECT_EQ(value, 32);
}

}  // namespace
