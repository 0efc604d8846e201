// Out of memory: the limit that the user sets, and a system that refuses. Either is an error of the
// call, and the next call works.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include <tenon/cpp/session.hpp>

namespace {
// Allocations of at least this many bytes fail, unless it is 0.
std::atomic<size_t> g_refuse_from{0};

void* take(size_t size) {
  const size_t from = g_refuse_from.load(std::memory_order_relaxed);
  return from != 0 && size >= from ? nullptr : std::malloc(size == 0 ? 1 : size);
}
}  // namespace

void* operator new(size_t size) {
  if (void* p = take(size)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return take(size);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace {

using tenon::ArrayView;

constexpr size_t kLarge = size_t{1} << 20;
constexpr std::string_view kModel = R"(tenon.tir 1
graph @g<n>(%x: f32[n]) -> (y: f32[n, 64]) {
  %e = exp(%x) : f32[n]
  %y = broadcast(%e) {shape = dims [n, 64], dims = [0]} : f32[n, 64]
  yield %y
}
)";

class Exhaustion : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session_.open().ok());
    ASSERT_TRUE(session_.load_bytes(kModel, "g.tir", &model_).ok()) << tenon::failure_text();
    ASSERT_TRUE(model_.compile({.device = GetParam()}, &program_).ok()) << tenon::failure_text();
    ASSERT_TRUE(program_.bind(&binding_).ok());
  }
  tenon::Status run(int64_t n) {
    x_.assign(static_cast<size_t>(n), 0.0f);
    const tenon::Status bound = binding_.input("x", ArrayView::of(x_, {n}));
    return bound.ok() ? binding_.run() : bound;
  }
  void expect_usable() {
    ASSERT_TRUE(run(8).ok()) << tenon::failure_text();
    ArrayView y;
    ASSERT_TRUE(binding_.output("y", &y).ok());
    ASSERT_EQ(y.dims, (std::vector<int64_t>{8, 64}));
    for (int i = 0; i < 8 * 64; ++i) ASSERT_EQ(y.as<float>()[i], 1.0f);
  }
  tenon::Session session_;
  tenon::Model model_;
  tenon::Program program_;
  tenon::Binding binding_;
  std::vector<float> x_;
};

TEST_P(Exhaustion, TheLimitRefusesOneRunAndTheNextIsRight) {
  expect_usable();
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(run(1 << 17).code(), TENON_RESOURCE_EXHAUSTED);  // 32 MiB with a limit of 16
    EXPECT_TRUE(tenon::failure_text().starts_with("T0609")) << tenon::failure_text();
    EXPECT_NE(tenon::failure_text().find("TENON_MEMORY_LIMIT"), std::string::npos)
        << tenon::failure_text();
    expect_usable();
  }
}

TEST_P(Exhaustion, ARefusedAllocationFailsTheCallAndTheNextWorks) {
  // A model whose text is larger than what the system provides.
  std::string large(kModel);
  large.append(4 * kLarge, ' ');
  tenon::Model model;
  g_refuse_from = kLarge;
  const tenon::Status refused = session_.load_bytes(large, "large.tir", &model);
  g_refuse_from = 0;
  EXPECT_EQ(refused.code(), TENON_RESOURCE_EXHAUSTED) << tenon::failure_text();
  EXPECT_TRUE(tenon::failure_text().starts_with("T0111")) << tenon::failure_text();
  ASSERT_TRUE(session_.load_bytes(large, "large.tir", &model).ok()) << tenon::failure_text();
  expect_usable();
}

TEST_P(Exhaustion, SmallAllocationsMayFailInARun) {
  expect_usable();
  // Whatever a run allocates, for thresholds down to 64 bytes: it works or reports a lack of
  // memory, and the next run works.
  for (size_t from = size_t{1} << 16; from >= 64; from /= 4) {
    x_.assign(8, 0.0f);
    ASSERT_TRUE(binding_.input("x", ArrayView::of(x_, {8})).ok());
    g_refuse_from = from;
    const tenon::Status status = binding_.run();
    g_refuse_from = 0;
    EXPECT_TRUE(status.ok() || status.code() == TENON_RESOURCE_EXHAUSTED)
        << from << ": " << tenon::failure_text();
    expect_usable();
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Exhaustion,
                         testing::Values("reference"
#if TENON_WITH_CPU
                                         ,
                                         "cpu"
#endif
                                         ));

}  // namespace

int main(int argc, char** argv) {
  setenv("TENON_MEMORY_LIMIT", "16m", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
