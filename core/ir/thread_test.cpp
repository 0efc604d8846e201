// A frozen graph is read by many threads at once: views, dims, text, hash, verifier. Run under
// TSan.
#include <gtest/gtest.h>

#include <thread>

#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

namespace tenon::ir {
namespace {

constexpr std::string_view kText = R"(tenon.tir 1
graph @g<n in [1, 64], m; n <= m>(%x: f32[n, m], %p: i64[]) -> (f32[n, m], i64[1, u]) {
  %c = const f32[100] splat 3
  %0 = plus(%x, %x) : f32[n, m]
  %1 = reshape_to(%0) {shape = dims [min(n, m, 7), 2*n + m]} : f32[min(n, m, 7), 2*n + m]
  %2 = find(%c) <u in [0, 100]> : i64[1, u]
  %3 = branch(%p) : f32[n, m] regions { {
    %4 = plus(%0, %x) : f32[n, m]
    yield %4
  } }
  yield %3, %2
}
)";

void read_all(Graph& g, const std::string& text, const Digest& hash) {
  const tenon_host_graph_t* api = host_graph_table();
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(*g.structural_hash(), hash);
    EXPECT_EQ(write_text(g)->text, text);
    if (round % 10 == 0) EXPECT_TRUE(g.verify().ok());
    for (Region r = 0; r < g.region_limit(); ++r) {
      tenon_region_view_t view = {sizeof view};
      ASSERT_EQ(api->region_view(api->self, g.abi(), r, &view), TENON_OK);
      EXPECT_EQ(view.capture_count, r == 0 ? 0u : 2u);
    }
    for (uint32_t i = 0; i < std::as_const(g).dims().expression_count(); ++i) {
      tenon_dim_view_t view = {sizeof view};
      ASSERT_EQ(api->dim_view(api->self, g.abi(), ~static_cast<Dim>(i), &view), TENON_OK);
      uint32_t answer;
      ASSERT_EQ(
          api->dim_compare(api->self, g.abi(), TENON_REL_LE, ~static_cast<Dim>(i), 1000, &answer),
          TENON_OK);
      tenon_dim_t sum;
      // Found or refused, never added.
      (void)api->dim_make(api->self, g.abi(), TENON_DIM_ADD, ~static_cast<Dim>(i), 41 + round,
                          &sum);
    }
    const Ref<Graph> copy = g.clone();
    EXPECT_TRUE(copy->make_dim(TENON_DIM_MUL, ~Dim{0}, 1234).ok());
  }
}

TEST(FrozenGraph, IsReadByManyThreads) {
  test::use_test_ops();
  Result<Ref<Graph>> read = read_text(kText, "t.tir", {});
  ASSERT_TRUE(read.ok()) << read.status().text();
  Graph& g = **read;
  const std::string text = write_text(g)->text;
  const Digest hash = *g.structural_hash();
  g.freeze();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { read_all(g, text, hash); });
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace tenon::ir
