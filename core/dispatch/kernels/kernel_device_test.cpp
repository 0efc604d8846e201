#include "core/dispatch/kernels/kernel_device.h"

#include <tenon/cpp/record.hpp>

#include <gtest/gtest.h>

#include <cstddef>

#include "core/base/errors/failure.h"
#include "core/base/str.h"
#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

namespace tenon::dispatch {
namespace {

struct Heard {
  uint32_t claims = 0;
  std::string refusal;
};

// Returns the candidate that `self` points to, for every call.
tenon_code_t query(void* self, tenon_str_t, const tenon_kernel_call_t*,
                   tenon_kernel_candidate_t* out) {
  *out = *static_cast<const tenon_kernel_candidate_t*>(self);
  return TENON_OK;
}

ir::Ref<ir::Graph> graph_of_one_op() {
  test::use_test_ops();
  constexpr std::string_view kText =
      "tenon.tir 1\ngraph @g(%x: f32[2]) -> (a: f32[2]) {\n  %a = plus(%x, %x) : f32[2]\n  yield "
      "%a\n}\n";
  ir::Ref<ir::Graph> graph = *ir::read_text(kText, "test", {});
  graph->freeze();
  return graph;
}

Heard claim_with(tenon_kernel_candidate_t candidate) {
  const ir::Ref<ir::Graph> graph = graph_of_one_op();
  // The adapter of a plugin lives as long as the process: one for all calls.
  static const tenon_device_api_t device{};
  static tenon_kernels_api_t kernels{};
  static const tenon_compile_api_t* const api =
      compile_from_kernels({&device, nullptr, &kernels, "p", "1", {}});
  kernels.self = &candidate;
  kernels.query = query;
  Heard heard;
  const tenon_compile_options_t options{sizeof options, 0, nullptr, 0, 0};
  const tenon_claim_sink_t sink{sizeof sink, 0, &heard,
                                [](void* self, const tenon_claim_t*) {
                                  return ++static_cast<Heard*>(self)->claims, TENON_OK;
                                },
                                [](void* self, tenon_node_t, tenon_code_t, tenon_str_t reason) {
                                  return static_cast<Heard*>(self)->refusal = from_abi_str(reason),
                                         TENON_OK;
                                }};
  EXPECT_EQ(api->claim(api->self, {"t", 1}, graph->abi(), &options, &sink), TENON_OK);
  return heard;
}

TEST(KernelDevice, RefusesCandidatesThatMakeNoSense) {
  tenon_kernel_candidate_t candidate{};
  candidate.part_count = 1;
  EXPECT_EQ(claim_with(candidate).claims, 1u);
  candidate.prepack_mask = 2;
  EXPECT_EQ(claim_with(candidate).claims, 0u);
  EXPECT_NE(claim_with(candidate).refusal.find("no constants (mask 0x2 of 0x0)"),
            std::string::npos);
  candidate.prepack_mask = 0;
  candidate.epilogue_taken = 1;
  EXPECT_NE(claim_with(candidate).refusal.find("take 1 nodes of an epilogue of 0"),
            std::string::npos);
  candidate.epilogue_taken = 0;
  candidate.cost_ns = -1;
  EXPECT_NE(claim_with(candidate).refusal.find("cost -1 ns"), std::string::npos);
}

// What claim and compile say to an option, as "OK" or a failure's text.
std::string answers_to_option(const tenon_compile_api_t& api) {
  const ir::Ref<ir::Graph> graph = graph_of_one_op();
  const tenon_key_value_t pairs[] = {{{"t.ops", 5}, {"plus", 4}}, {{"t.opt", 5}, {"2", 1}}};
  const tenon_compile_options_t options{sizeof options, 0, pairs, 2, 0};
  const tenon_claim_sink_t sink{
      sizeof sink, 0, nullptr, [](void*, const tenon_claim_t*) { return TENON_OK; },
      [](void*, tenon_node_t, tenon_code_t, tenon_str_t) { return TENON_OK; }};
  const Status claimed =
      from_abi(api.claim(api.self, {"t", 1}, graph->abi(), &options, &sink), "claim");
  tenon_artifact_t* artifact = nullptr;
  const Status compiled =
      from_abi(api.compile(api.self, {"t", 1}, graph->abi(), &options, &artifact), "compile");
  if (artifact != nullptr) api.artifact_release(api.self, artifact);
  return (claimed.ok() ? "OK" : claimed.text()) + "; " + (compiled.ok() ? "OK" : compiled.text());
}

TEST(KernelDevice, LeavesOptionsToTheOwnCodeOfADevice) {
  static const tenon_device_api_t device{};
  static const tenon_kernel_candidate_t candidate{};
  static tenon_kernels_api_t kernels{};
  kernels.self = const_cast<tenon_kernel_candidate_t*>(&candidate);
  kernels.query = query;
  static const tenon_compile_api_t* const alone =
      compile_from_kernels({&device, nullptr, &kernels, "p", "1", {}});
  const std::string refused = answers_to_option(*alone);
  EXPECT_TRUE(
      refused.starts_with("T0513: a device of single kernels has no options; it was given "
                          "`t.opt`"))
      << refused;
  EXPECT_NE(refused.find("; T0513", 4), std::string::npos) << refused;
  static const tenon_compile_api_t* const set =
      compile_from_kernels({&device, nullptr, &kernels, "p", "1", {}, nullptr, true});
  EXPECT_EQ(answers_to_option(*set), "OK; OK");
}

// ---- A plugin with two different cards ----

std::string* asked_target() {
  static std::string target;
  return &target;
}

const tenon_compile_api_t* two_cards() {
  static auto device = sized<tenon_device_api_t>();
  device.count = [](void*, uint32_t* out) { return *out = 2, TENON_OK; };
  device.info = [](void*, uint32_t ordinal, tenon_device_info_t* out) -> tenon_code_t {
    out->target = ordinal == 0 ? tenon_str_t{"small", 5} : tenon_str_t{"large", 5};
    out->alignment_bytes = ordinal == 0 ? 16 : 256;
    return TENON_OK;
  };
  static auto kernels = sized<tenon_kernels_api_t>();
  kernels.query = [](void*, tenon_str_t target, const tenon_kernel_call_t*,
                     tenon_kernel_candidate_t*) -> tenon_code_t {
    *asked_target() = from_abi_str(target);
    return TENON_OK;
  };
  kernels.create = [](void*, tenon_device_t*, const tenon_kernel_call_t*,
                      tenon_kernel_t** out) -> tenon_code_t {
    *out = reinterpret_cast<tenon_kernel_t*>(asked_target());
    return TENON_OK;
  };
  kernels.destroy = [](void*, tenon_kernel_t*) {};
  static const tenon_compile_api_t* const api =
      compile_from_kernels({&device, nullptr, &kernels, "cards", "1", {}});
  return api;
}

std::string compiled_for(tenon_str_t target) {
  test::use_test_ops();
  constexpr std::string_view kText =
      "tenon.tir 1\ngraph @g(%x: f32[2]) -> (b: f32[2]) {\n  %a = plus(%x, %x) : f32[2]\n  %b = "
      "plus(%a, %a) : f32[2]\n"
      "  yield %b\n}\n";
  const ir::Ref<ir::Graph> graph = *ir::read_text(kText, "test", {});
  graph->freeze();
  const tenon_compile_api_t* api = two_cards();
  tenon_artifact_t* artifact = nullptr;
  EXPECT_EQ(api->compile(api->self, target, graph->abi(), nullptr, &artifact), TENON_OK);
  std::string bytes;
  const tenon_sink_t sink = {
      &bytes, [](void* self, const void* data, uint64_t size) -> tenon_code_t {
        static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
        return TENON_OK;
      }};
  EXPECT_EQ(api->artifact_bytes(api->self, artifact, &sink), TENON_OK);
  api->artifact_release(api->self, artifact);
  return bytes;
}

TEST(KernelDevice, IsOfTheCardThatItWasCompiledFor) {
  const tenon_compile_api_t* api = two_cards();
  for (const auto& [target, alignment] : {std::pair("small", 16u), std::pair("large", 256u)}) {
    const std::string bytes = compiled_for({target, 5});
    tenon_executable_t* executable = nullptr;
    ASSERT_EQ(api->load(api->self, nullptr, bytes.data(), bytes.size(), nullptr, 0, &executable),
              TENON_OK);
    EXPECT_EQ(*asked_target(), target);
    int64_t dims[1] = {};
    tenon_output_need_t output{};
    output.dims = dims;
    tenon_needs_t needs{sizeof(needs), 1, sizeof output, 0, &output, 0, 0};
    EXPECT_EQ(api->needs(api->self, executable, {}, &needs), TENON_OK);
    EXPECT_EQ(needs.workspace_bytes, alignment);  // one value of 8 bytes
    // A caller whose record is shorter: nothing beyond it is written.
    tenon_needs_t shorter{
        offsetof(tenon_needs_t, workspace_bytes), 1, sizeof output, 0, &output, 77, 78};
    EXPECT_EQ(api->needs(api->self, executable, {}, &shorter), TENON_OK);
    EXPECT_EQ(shorter.size_bytes, offsetof(tenon_needs_t, workspace_bytes));
    EXPECT_EQ(shorter.workspace_bytes, 77u);
    EXPECT_EQ(shorter.lower_bound_bytes, 78u);
    shorter.size_bytes = 0;
    EXPECT_EQ(api->needs(api->self, executable, {}, &shorter), TENON_INVALID_ARGUMENT);
    api->executable_release(api->self, executable);
  }
}

TEST(KernelDevice, ArtifactsOfOtherTargetsAndDamagedOnesDoNotFit) {
  const tenon_compile_api_t* api = two_cards();
  const std::string bytes = compiled_for({"large", 5});
  EXPECT_EQ(api->fits(api->self, {"large", 5}, bytes.data(), bytes.size()), TENON_OK);
  EXPECT_EQ(api->fits(api->self, {"small", 5}, bytes.data(), bytes.size()),
            TENON_FAILED_PRECONDITION);
  for (size_t kept = 0; kept < bytes.size(); ++kept) {
    EXPECT_EQ(api->fits(api->self, {"large", 5}, bytes.data(), kept), TENON_FAILED_PRECONDITION)
        << kept;
  }
  // A card that does not exist.
  const std::string elsewhere = compiled_for({"other", 5});
  tenon_executable_t* executable = nullptr;
  EXPECT_EQ(
      api->load(api->self, nullptr, elsewhere.data(), elsewhere.size(), nullptr, 0, &executable),
      TENON_FAILED_PRECONDITION);
}

}  // namespace
}  // namespace tenon::dispatch
