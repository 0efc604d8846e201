// Kernel sets beside a device's own plugin: which of a device's compilers takes a node, and how the
// graph is cut there.
#include "core/dispatch/claims.h"

#include <gtest/gtest.h>

#include "core/base/str.h"
#include "core/dispatch/placement.h"
#include "core/ir/host_graph.h"
#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

namespace tenon::dispatch {
namespace {

// Takes the nodes of one op, or of every op if that is empty.
struct Taker {
  std::string_view op;
  double cost_ns;
  tenon_compile_api_t api{};
  Taker(std::string_view op, double cost_ns) : op(op), cost_ns(cost_ns) {
    api.size_bytes = sizeof(api);
    api.self = this;
    api.claim = [](void* self, tenon_str_t, tenon_graph_t* handle, const tenon_compile_options_t*,
                   const tenon_claim_sink_t* sink) -> tenon_code_t {
      const Taker& taker = *static_cast<Taker*>(self);
      const ir::Graph& graph = *ir::Graph::from(handle);
      for (ir::Node n : graph.nodes(graph.main())) {
        const bool takes = taker.op.empty() || graph.op_name(n) == taker.op;
        const std::string_view reason = "not mine";
        const tenon_code_t code =
            takes ? tenon_claim_node(sink, n, taker.cost_ns)
                  : sink->refuse(sink->self, n, TENON_UNIMPLEMENTED, to_abi_str(reason));
        if (code != TENON_OK) return code;
      }
      return TENON_OK;
    };
  }
};

tenon_code_t info(void*, uint32_t, tenon_device_info_t* out) {
  out->kind = out->target = {"toy", 3};
  out->alignment_bytes = 16;
  return TENON_OK;
}

struct KernelSets : testing::Test {
  tenon_device_api_t device_api{};
  runtime::GraphRef graph;

  void SetUp() override {
    test::use_test_ops();
    device_api.size_bytes = sizeof(device_api);
    device_api.info = info;
    constexpr std::string_view kText =
        "tenon.tir 1\ngraph @g(%x: f32[2]) -> (d: f32[2]) {\n  %0 = plus(%x, %x) : f32[2]\n  %1 = "
        "every(%0) : f32[2]\n"
        "  %2 = plus(%1, %0) : f32[2]\n  yield %2\n}\n";
    ir::Ref<ir::Graph> read = *ir::read_text(kText, "test", {});
    read->freeze();
    graph = runtime::GraphRef(ir::host_graph_table(), read.detach()->abi());
  }
  std::shared_ptr<runtime::Device> device(const Taker& own, const std::vector<const Taker*>& sets) {
    runtime::DeviceApis apis{"toys", &device_api, &own.api, nullptr, {}};
    for (const Taker* set : sets)
      apis.kernel_sets.push_back({"set" + std::to_string(apis.kernel_sets.size() + 1), &set->api});
    return *runtime::Device::create(apis, 0);
  }
};

TEST_F(KernelSets, TheCheapestTakesANodeAndPaysForTheBoundary) {
  const Taker own("", 10'000), dear("every", 9'000), cheap("every", 5'000);
  const Claims claims = collect_claims(device(own, {&dear, &cheap}), graph);
  EXPECT_EQ(claims.by, (std::vector<uint32_t>{0, 2, 0}));
  EXPECT_EQ(claims.cost_ns[1], 5'000 + kKernelSetNs);
  ASSERT_EQ(claims.all.size(), 3u);
  EXPECT_EQ(claims.all[0].cost_ns[1], 10'000);
  EXPECT_EQ(claims.all[1].cost_ns[1], 9'000);  // dearer than the device itself, with the boundary
  EXPECT_EQ(claims.all[1].refusals[0].reason, "not mine");
}

TEST_F(KernelSets, WhatTheDeviceRefusesASetMayTake) {
  const Taker own("plus", 10), set("every", 1e9);
  const Claims claims = collect_claims(device(own, {&set}), graph);
  EXPECT_TRUE(claims.claimed(1));
  EXPECT_EQ(claims.by[1], 1u);
  EXPECT_TRUE(claims.refusals[1].reason.empty());
}

TEST_F(KernelSets, WhatNobodyTakesHasEveryReason) {
  const Taker own("plus", 10), set("plus", 1);
  const Claims claims = collect_claims(device(own, {&set}), graph);
  EXPECT_FALSE(claims.claimed(1));
  EXPECT_EQ(claims.refusals[1].reason, "not mine; kernels of set1: not mine");
}

TEST_F(KernelSets, WithoutSetsNothingIsKept) {
  const Taker own("", 10);
  const Claims claims = collect_claims(device(own, {}), graph);
  EXPECT_TRUE(claims.all.empty());
  EXPECT_EQ(claims.by, (std::vector<uint32_t>{0, 0, 0}));
}

TEST_F(KernelSets, ASetsNodesAreSegmentsOfTheSameDevice) {
  const Taker own("", 1e6), set("every", 1);
  Candidates candidates;
  candidates.devices = {device(own, {&set})};
  const Result<Placement> placement = place(graph, candidates);
  ASSERT_TRUE(placement.ok());
  ASSERT_EQ(placement->segments.size(), 3u);
  const uint32_t by[] = {0, 1, 0};
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(placement->segments[i].device, 0u);
    EXPECT_EQ(placement->segments[i].by, by[i]);
    EXPECT_EQ(placement->segments[i].nodes, (std::vector<uint32_t>{i}));
  }
}

}  // namespace
}  // namespace tenon::dispatch
