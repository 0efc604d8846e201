// Claims of one device: kernel sets next to its own plugin (which compiler takes a node, and how
// the graph is cut there), atomic claims, options.
#include "core/dispatch/placement/claims.h"

#include <gtest/gtest.h>

#include "core/base/str.h"
#include "core/dispatch/placement/placement.h"
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
    runtime::DeviceApis apis{"toys", &device_api, &own.api, nullptr};
    for (const Taker* set : sets)
      apis.kernel_sets->add(
          {"set" + std::to_string(apis.kernel_sets->all().size() + 1), &set->api});
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

// ---- Notes ----

TEST_F(KernelSets, ClaimReadsNotes) {
  tenon_compile_api_t api{};
  api.size_bytes = sizeof(api);
  api.claim = [](void*, tenon_str_t, tenon_graph_t* handle, const tenon_compile_options_t*,
                 const tenon_claim_sink_t* sink) -> tenon_code_t {
    const ir::Graph& seen = *ir::Graph::from(handle);
    for (ir::Node n : seen.nodes(seen.main())) {
      if (seen.notes(ir::Noted::kNode, n).empty()) continue;
      if (const tenon_code_t code = tenon_claim_node(sink, n, 1); code != TENON_OK) return code;
    }
    return TENON_OK;
  };
  ir::Ref<ir::Graph> noted = ir::Graph::from(graph.get())->clone();
  const tenon_attr_t note = {intern("toys.core"), TENON_ATTR_I64, 1, {.i = 1}};
  ASSERT_TRUE(noted->set_note(ir::Noted::kNode, noted->nodes(0)[1], note).ok());
  noted->freeze();
  const runtime::DeviceApis apis{"toys", &device_api, &api, nullptr};
  const Claims claims =
      collect_claims(*runtime::Device::create(apis, 0),
                     runtime::GraphRef(ir::host_graph_table(), noted.detach()->abi()));
  EXPECT_FALSE(claims.claimed(0));
  EXPECT_TRUE(claims.claimed(1));
  EXPECT_FALSE(claims.claimed(2));
}

// ---- Atomic claims ----

// Makes the claims that a test gives, and remembers the options.
struct Claimant {
  std::vector<tenon_claim_t> claims;
  bool deterministic = false;
  std::vector<std::string> options;
  tenon_compile_api_t api{};
  explicit Claimant(std::vector<tenon_claim_t> claims) : claims(std::move(claims)) {
    api.size_bytes = sizeof(api);
    api.self = this;
    api.claim = [](void* self, tenon_str_t, tenon_graph_t*, const tenon_compile_options_t* options,
                   const tenon_claim_sink_t* sink) -> tenon_code_t {
      auto& mine = *static_cast<Claimant*>(self);
      mine.deterministic = options->deterministic != 0;
      mine.options.clear();
      for (uint32_t i = 0; i < options->option_count; ++i)
        mine.options.emplace_back(from_abi_str(options->options[i].key));
      for (const tenon_claim_t& claim : mine.claims) {
        if (const tenon_code_t code = sink->claim(sink->self, &claim); code != TENON_OK)
          return code;
      }
      return TENON_OK;
    };
  }
};

tenon_claim_t atomic(std::span<const tenon_node_t> nodes, double cost_ns = 1) {
  return {sizeof(tenon_claim_t),
          TENON_CLAIM_ATOMIC,
          nodes.data(),
          static_cast<uint32_t>(nodes.size()),
          0,
          cost_ns};
}

struct Atomic : KernelSets {
  std::shared_ptr<runtime::Device> device_of(const Claimant& claimant) {
    return *runtime::Device::create({"toys", &device_api, &claimant.api, nullptr}, 0);
  }
  // The refusal of node 0 after these claims.
  std::string refusal(std::vector<tenon_claim_t> claims) {
    const Claimant claimant(std::move(claims));
    const Claims collected = collect_claims(device_of(claimant), graph);
    EXPECT_TRUE(collected.atomic.empty());
    EXPECT_FALSE(collected.claimed(0));
    return collected.refusals[0].reason;
  }
};

TEST_F(Atomic, NodesAreClaimedTogetherAndNotAlone) {
  const tenon_node_t nodes[] = {1, 0};
  const Claimant claimant({atomic(nodes, 7)});
  const Claims claims = collect_claims(device_of(claimant), graph);
  ASSERT_EQ(claims.atomic.size(), 1u);
  EXPECT_EQ(claims.atomic[0].nodes, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(claims.atomic[0].cost_ns, 7);
  EXPECT_TRUE(claims.claimed(0) && !claims.alone(0));
  EXPECT_FALSE(claims.claimed(2));
  EXPECT_EQ(claims.refusals[0].reason, "plus only together with other nodes");
}

TEST_F(Atomic, BreachesAreToldAndNothingIsTaken) {
  const tenon_node_t twice[] = {0, 1, 0}, strange[] = {0, 99}, good[] = {0, 1};
  EXPECT_NE(refusal({atomic(good), atomic(twice)}).find("names a node twice"), std::string::npos);
  EXPECT_NE(refusal({atomic(strange)}).find("names node 99, which is not in the main region"),
            std::string::npos);
  EXPECT_NE(refusal({atomic(good, -1)}).find("at a cost of -1 ns"), std::string::npos);
  tenon_claim_t odd = atomic(good);
  odd.flags = 2;
  EXPECT_NE(refusal({odd}).find("with the flags 0x2"), std::string::npos);
  odd = atomic(good);
  odd.size_bytes = 0;
  EXPECT_NE(refusal({odd}).find("does not state its size"), std::string::npos);
  odd = atomic(good);
  odd.node_count = 0xffffffff;
  EXPECT_NE(refusal({odd}).find("a claim of 4294967295 nodes"), std::string::npos);
  odd = atomic(good);
  odd.nodes = nullptr;
  EXPECT_NE(refusal({odd}).find("T0512"), std::string::npos);
}

// 0 -> 1 -> 2 and 0 -> 2: node 1 lies between.
TEST_F(Atomic, AClaimThatAPathLeavesIsRefused) {
  const tenon_node_t torn[] = {0, 2}, whole[] = {0, 1, 2};
  const Claimant claimant({atomic(torn), atomic(whole)});
  Candidates candidates;
  candidates.devices = {device_of(claimant)};
  candidates.by_preference = true;
  Result<Placement> placement = place(graph, candidates);
  ASSERT_TRUE(placement.ok()) << placement.status().text();
  ASSERT_EQ(placement->segments.size(), 1u);
  EXPECT_EQ(placement->claim, (std::vector<uint32_t>{0, 0, 0}));
  const Claimant torn_alone({atomic(torn)});
  candidates.devices = {device_of(torn_alone)};
  const Status refused = place(graph, candidates).status();
  EXPECT_NE(refused.text().find("it takes plus and plus only together, and every lies on a path "
                                "from one of them to another"),
            std::string::npos)
      << refused.text();
}

TEST_F(Atomic, AFallbackIsAskedForNodesThatLoseTheirClaim) {
  const tenon_node_t first[] = {0, 1}, second[] = {1, 2};
  const Claimant claimant({atomic(first), atomic(second)});
  const Taker everything("", 1e9);
  Candidates candidates;
  candidates.devices = {device_of(claimant)};
  candidates.by_preference = true;
  using Found = Result<std::shared_ptr<runtime::Device>>;
  candidates.fallbacks.emplace_back("toy:1", [&] {
    return Found(*runtime::Device::create({"toys", &device_api, &everything.api, nullptr}, 0, 1));
  });
  const Result<Placement> placement = place(graph, candidates);
  ASSERT_TRUE(placement.ok()) << placement.status().text();
  EXPECT_EQ(placement->at, (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_EQ(placement->asked[0].refusals[2].reason,
            "it takes every and plus only together, and another claim or device has one of them");
}

TEST_F(Atomic, OpsThatAreNotOfferedTakeTheirClaimsAlong) {
  const tenon_node_t nodes[] = {0, 1};
  const Claimant claimant({atomic(nodes)});
  const Claims claims = collect_claims(device_of(claimant), graph, {}, {"plus"});
  EXPECT_TRUE(claims.atomic.empty());
  EXPECT_FALSE(claims.claimed(0));
}

TEST_F(Atomic, ADeviceGetsItsOptionsWhenItClaims) {
  const Claimant claimant({});
  CompileSettings settings;
  settings.deterministic = true;
  settings.options = {{"toy.speed", "1"}, {"toyota.speed", "2"}, {"other.x", "3"}};
  collect_claims(device_of(claimant), graph, settings);
  EXPECT_TRUE(claimant.deterministic);
  EXPECT_EQ(claimant.options, (std::vector<std::string>{"toy.speed"}));
}

}  // namespace
}  // namespace tenon::dispatch
