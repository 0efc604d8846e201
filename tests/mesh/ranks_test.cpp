// Ranks that are threads of this process, by the engine `sim`: values over many calls, processes
// that disagree, and two calls at once.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView;

constexpr int kRanks = 3;  // as in TENON_MESH_SIMULATE
constexpr int kCalls = 200;
constexpr std::string_view kModel = R"(tenon.tir 1
graph @g<n in [1, 64]>(%x: f32[n]) -> (sum: f32[n], most: f32[n], all: f32[3*n], next: f32[n], double: f32[n]) {
  %0 = all_reduce(%x) {mesh = "data=3", axes = "data"} : f32[n]
  %1 = all_reduce(%x) {mesh = "data=3", axes = "data", kind = "max"} : f32[n]
  %2 = all_gather(%x) {mesh = "data=3", axes = "data"} : f32[3*n]
  %3 = permute(%0) {mesh = "data=3", axes = "data", pairs = [0, 1, 1, 2]} : f32[n]
  %4 = all_reduce(%1) {mesh = "data=3", axes = "data"} : f32[n]
  yield %0, %1, %2, %3, %4
}
)";

// One rank's program, on its own device.
struct Rank {
  tenon::Model model;
  tenon::Program program;
  tenon::Binding binding;
};

class Ranks : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(session().open().ok()); }
  static tenon::Session& session() {
    static auto* one = new tenon::Session;
    return *one;
  }
  // Each rank in a thread.
  static void each(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r) threads.emplace_back([&, r] { work(r); });
    for (std::thread& thread : threads) thread.join();
  }
  static std::string prepare(int rank, std::string_view text, Rank* out) {
    const std::string device = "mesh:" + std::to_string(rank) + ",reference";
    if (!session().load_bytes(text, "g.tir", &out->model).ok() ||
        !out->model.compile({.device = device}, &out->program).ok() ||
        !out->program.bind(&out->binding).ok())
      return tenon::failure_text();
    return "";
  }
};

float value(int rank, int call, size_t i) {
  return static_cast<float>(rank * 100 + call + static_cast<int>(i));
}

void check_call(Rank& rank, int r, int call) {
  const auto n = static_cast<size_t>(1 + call % 7);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = value(r, call, i);
  ASSERT_TRUE(rank.binding.input("x", ArrayView::of(x, {static_cast<int64_t>(n)})).ok());
  ASSERT_TRUE(rank.binding.run().ok()) << tenon::failure_text();
  ArrayView sum, most, all, next, doubled;
  for (auto [name, out] : {std::pair{"sum", &sum},
                           {"most", &most},
                           {"all", &all},
                           {"next", &next},
                           {"double", &doubled}})
    ASSERT_TRUE(rank.binding.output(name, out).ok());
  for (size_t i = 0; i < n; ++i) {
    const float want = value(0, call, i) + value(1, call, i) + value(2, call, i);
    EXPECT_EQ(sum.as<float>()[i], want);
    EXPECT_EQ(most.as<float>()[i], value(kRanks - 1, call, i));
    EXPECT_EQ(doubled.as<float>()[i], kRanks * value(kRanks - 1, call, i));
    EXPECT_EQ(next.as<float>()[i], r == 0 ? 0 : want);
    for (int other = 0; other < kRanks; ++other)
      EXPECT_EQ(all.as<float>()[static_cast<size_t>(other) * n + i], value(other, call, i));
  }
}

TEST_F(Ranks, AgreeOverManyCalls) {
  each([](int r) {
    Rank rank;
    ASSERT_EQ(prepare(r, kModel, &rank), "");
    for (int call = 0; call < kCalls; ++call) check_call(rank, r, call);
  });
}

TEST_F(Ranks, FailTogetherWhereTheyDisagree) {
  std::atomic<int> failed = 0;
  each([&](int r) {
    Rank rank;
    ASSERT_EQ(prepare(r, kModel, &rank), "");
    const std::vector<float> x(r == 1 ? 63 : 61, 1.0f);
    ASSERT_TRUE(rank.binding.input("x", ArrayView::of(x, {static_cast<int64_t>(x.size())})).ok());
    if (rank.binding.run().ok()) return;
    const std::string text = tenon::failure_text();
    if (text.find("T0905") != std::string::npos && text.find("[63]") != std::string::npos) ++failed;
  });
  EXPECT_EQ(failed, kRanks);
}

TEST_F(Ranks, RefuseAMeshOfAnotherSize) {
  const std::string text = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %y = all_reduce(%x) {mesh = "data=2", axes = "data"} : f32[2]
  yield %y
}
)";
  each([&](int r) {
    Rank rank;
    const std::string why = prepare(r, text, &rank);
    EXPECT_NE(why.find("T0901"), std::string::npos) << why;
    EXPECT_NE(why.find("3 processes run it"), std::string::npos) << why;
  });
}

// Rank 0 makes two calls at once. One of them is refused; the other waits for the other ranks.
TEST_F(Ranks, RefuseTwoCallsAtOnce) {
  std::latch waiting(1), refused(1);
  each([&](int r) {
    Rank rank;
    ASSERT_EQ(prepare(r, kModel, &rank), "");
    const std::vector<float> x(5, 1.0f);
    ASSERT_TRUE(rank.binding.input("x", ArrayView::of(x, {5})).ok());
    if (r != 0) {
      refused.wait();
      EXPECT_TRUE(rank.binding.run().ok()) << tenon::failure_text();
      return;
    }
    std::thread first([&] {
      waiting.count_down();
      EXPECT_TRUE(rank.binding.run().ok()) << tenon::failure_text();
    });
    waiting.wait();
    tenon::Binding second;
    ASSERT_TRUE(rank.program.bind(&second).ok());
    ASSERT_TRUE(second.input("x", ArrayView::of(x, {5})).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_FALSE(second.run().ok());
    EXPECT_NE(tenon::failure_text().find("T0907"), std::string::npos) << tenon::failure_text();
    refused.count_down();
    first.join();
  });
}

}  // namespace
