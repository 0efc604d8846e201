#include "core/dispatch/kernel_device.h"

#include <gtest/gtest.h>

#include "core/base/str.h"
#include "core/ir/serial.h"
#include "core/ir/test_ops.h"

namespace tenon::dispatch {
namespace {

struct Heard {
  uint32_t claims = 0;
  std::string refusal;
};

// The candidate that `self` points to, for every call.
tenon_code_t query(void* self, tenon_str_t, const tenon_kernel_call_t*, tenon_kernel_candidate_t* out) {
  *out = *static_cast<const tenon_kernel_candidate_t*>(self);
  return TENON_OK;
}

Heard claim_with(tenon_kernel_candidate_t candidate) {
  test::use_test_ops();
  constexpr std::string_view kText =
      "tenon.tir 1\ngraph @g(%x: f32[2]) -> (a: f32[2]) {\n  %a = plus(%x, %x) : f32[2]\n  yield %a\n}\n";
  const ir::Ref<ir::Graph> graph = *ir::read_text(kText, "test", {});
  graph->freeze();
  // The adapter of a plugin lives as long as the process: one for all calls.
  static const tenon_device_api_t device{};
  static tenon_kernels_api_t kernels{};
  static const tenon_compile_api_t* const api = compile_from_kernels(&device, &kernels, "p");
  kernels.self = &candidate;
  kernels.query = query;
  Heard heard;
  const tenon_claim_sink_t sink{
      &heard,
      [](void* self, const tenon_node_t*, uint32_t, double) { return ++static_cast<Heard*>(self)->claims, TENON_OK; },
      [](void* self, tenon_node_t, tenon_code_t, tenon_str_t reason) {
        return static_cast<Heard*>(self)->refusal = from_abi_str(reason), TENON_OK;
      }};
  EXPECT_EQ(api->claim(api->self, {"t", 1}, graph->abi(), &sink), TENON_OK);
  return heard;
}

TEST(KernelDevice, TakesKernelsThatNeedNoPackingAndNoEpilogue) {
  tenon_kernel_candidate_t candidate{};
  candidate.part_count = 1;
  EXPECT_EQ(claim_with(candidate).claims, 1u);
  candidate.prepack_mask = 2;
  EXPECT_EQ(claim_with(candidate).claims, 0u);
  EXPECT_NE(claim_with(candidate).refusal.find("mask 0x2"), std::string::npos);
  candidate.prepack_mask = 0;
  candidate.epilogue_taken = 1;
  EXPECT_NE(claim_with(candidate).refusal.find("(1 nodes)"), std::string::npos);
}

}  // namespace
}  // namespace tenon::dispatch
