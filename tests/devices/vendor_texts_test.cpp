// Handwritten kernels in the vendors' texts on `sim`: what they do wrong is found as in OpenCL C.
#include "devices.h"

#include "plugins/sim/kernels/dialects.h"
#include "plugins/sim/kernels/kernel_module.h"

namespace tenon::devices_test {
namespace {

constexpr std::string_view kCuda = R"(
#define KERNEL extern "C" __attribute__((global))
#define SHARED static __attribute__((shared))
KERNEL __attribute__((launch_bounds(16))) void reverse(const float* x, float* y) {
  SHARED float tile[16];
  const int i = __nvvm_read_ptx_sreg_tid_x();
  tile[i] = x[i];
  __syncthreads();
  y[i] = tile[15 - i];
}
KERNEL void no_barrier(const float* x, float* y) {
  SHARED float tile[16];
  const int i = __nvvm_read_ptx_sreg_tid_x();
  tile[i] = x[i];
  y[i] = tile[15 - i];
}
KERNEL void past_the_end(const float* x, float* y) {
  y[__nvvm_read_ptx_sreg_tid_x()] = x[__nvvm_read_ptx_sreg_tid_x() + 1];
}
KERNEL void never_written(const float* x, float* y) {
  SHARED float tile[16];
  y[__nvvm_read_ptx_sreg_tid_x()] = tile[3];
}
KERNEL void some_wait(const float* x, float* y) {
  if (__nvvm_read_ptx_sreg_tid_x() != 3) __syncthreads();
}
)";

constexpr std::string_view kMetal = R"(#include <metal_stdlib>
[[kernel, max_total_threads_per_threadgroup(16)]] void reverse(device const float* x [[buffer(0)]],
    device float* y [[buffer(1)]], unsigned i [[thread_position_in_threadgroup]]) {
  threadgroup float tile[16];
  tile[i] = x[i];
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  y[i] = tile[15 - i];
}
[[kernel]] void no_barrier(device const float* x, device float* y,
                           unsigned i [[thread_position_in_threadgroup]]) {
  threadgroup float tile[16];
  tile[i] = x[i];
  y[i] = tile[15 - i];
}
[[kernel]] void past_the_end(device const float* x, device float* y,
                             unsigned i [[thread_position_in_threadgroup]]) {
  y[i] = x[i + 1];
}
[[kernel]] void never_written(device const float* x, device float* y,
                              unsigned i [[thread_position_in_threadgroup]]) {
  threadgroup float tile[16];
  y[i] = tile[3];
}
[[kernel]] void some_wait(device const float* x, device float* y,
                          unsigned i [[thread_position_in_threadgroup]]) {
  if (i != 3) metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}
)";

struct Case {
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.text.name; }
  sim::Text text;
  std::string_view kernels;
};

class VendorTexts : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session_.open().ok());
    const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
    const sim::Text& text = GetParam().text;
    const void* table = nullptr;
    ASSERT_EQ(registry->plugin_interface(registry->self, str("toolchain"), str(text.toolchain),
                                         str(TENON_TOOLCHAIN_ID), &table),
              TENON_OK)
        << failure_text();
    const auto& toolchain = *static_cast<const tenon_toolchain_api_t*>(table);
    std::string code;
    ASSERT_TRUE(sim::KernelModule::build_unit(toolchain, text.toolchain,
                                              text.unit(GetParam().kernels), true, &code)
                    .ok())
        << failure_text();
    ASSERT_TRUE(module_.load(toolchain, code).ok()) << failure_text();
  }
  static sim::KernelArg buffer(const char* name, std::vector<float>& v, bool written) {
    return {.kind = sim::KernelArg::Kind::kBuffer,
            .data = v.data(),
            .size_bytes = 64,
            .name = name,
            .place = reinterpret_cast<uint64_t>(v.data()),
            .element_bytes = 4,
            .written = written};
  }
  Status run(const char* kernel) {
    sim::Launch launch;
    TENON_TRY(module_.find(kernel, &launch.entry));
    launch.title = kernel;
    launch.global[0] = launch.local[0] = 16;
    launch.args = {buffer("x", x_, false), buffer("y", y_, true)};
    return module_.run(launch);
  }

  Session session_;
  sim::KernelModule module_;
  // With spare room, so that an access past the end does not reach another buffer.
  std::vector<float> x_ = std::vector<float>(64, 2.f), y_ = std::vector<float>(64);
};

TEST_P(VendorTexts, ItemsMeetAndShareMemory) {
  for (int i = 0; i < 16; ++i) x_[i] = static_cast<float>(i);
  ASSERT_TRUE(run("reverse").ok()) << failure_text();
  for (int i = 0; i < 16; ++i) EXPECT_EQ(y_[i], 15 - i);
}

TEST_P(VendorTexts, WhatAKernelDoesWrongIsNamed) {
  const struct {
    const char *kernel, *text;
  } cases[] = {
      {"no_barrier", "::tile`, which work item 7 of its group read with no barrier between"},
      {"past_the_end", "work item 15 of group 0 (global 15) reads 4 bytes at byte 64 of x"},
      {"never_written", "tile`, which no work item of its group wrote"},
      {"some_wait", "which 1 of the 16 work items of its group did not reach"},
  };
  for (const auto& c : cases) {
    EXPECT_FALSE(run(c.kernel).ok()) << c.kernel;
    EXPECT_NE(failure_text().find(c.text), std::string::npos) << c.kernel << ": " << failure_text();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Languages, VendorTexts,
    testing::Values(Case{{"cuda", TENON_DIALECT_ITEMS_CPP, kernelgen::Target::cuda(16)}, kCuda},
                    Case{{"metal", TENON_DIALECT_ITEMS_CPP, kernelgen::Target::metal(16)}, kMetal}),
    [](const auto& info) { return std::string(info.param.text.name); });

}  // namespace
}  // namespace tenon::devices_test
