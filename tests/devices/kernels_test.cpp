// Handwritten kernels in the OpenCL dialect on `sim`: compiled by the real toolchain, with groups,
// local memory and barriers, and with every access watched.
#include "devices.h"

#include <atomic>
#include <numeric>
#include <thread>

#include "plugins/sim/kernels/kernel_module.h"

namespace tenon::devices_test {
namespace {

constexpr std::string_view kText = R"CL(
__constant float weights[2] = {1.0f, 2.0f};

__kernel void reverse(__global const float* x, __global float* y, __local float* tile) {
  const size_t i = get_local_id(0), n = get_local_size(0);
  tile[i] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = tile[n - 1 - i];
}

// A variable in local memory, two dims, and a pointer to the item's own memory.
__kernel void transpose(__global const float* x, __global float* y, ulong n) {
  __local float tile[4][4];
  float mine[2];
  const size_t c = get_local_id(0), r = get_local_id(1);
  float* p = get_global_id(0) % 2 ? &mine[0] : &mine[1];
  *p = x[get_global_id(1) * n + get_global_id(0)];
  tile[r][c] = *p * weights[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[(get_group_id(0) * 4 + r) * n + get_group_id(1) * 4 + c] = tile[c][r];
}

__kernel void block_sum(__global const float* x, __global float* sums) {
  __local float tile[64];
  const uint i = get_local_id(0);
  tile[i] = x[get_global_id(0)];
  for (uint half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < half_size) tile[i] += tile[i + half_size];
  }
  if (i == 0) sums[get_group_id(0)] = tile[0];
}

__kernel void no_barrier(__global const float* x, __global float* y, __local float* tile) {
  const size_t i = get_local_id(0), n = get_local_size(0);
  tile[i] = x[get_global_id(0)];
  y[get_global_id(0)] = tile[n - 1 - i];
}

__kernel void past_the_end(__global const float* x, __global float* y) {
  y[get_global_id(0)] = x[get_global_id(0) + 1];
}

__kernel void past_local(__global const float* x, __global float* y) {
  __local float tile[8];
  tile[get_local_id(0) + 1] = x[0];
  y[get_global_id(0)] = 1;
}

__kernel void all_to_one(__global const float* x, __global float* y) {
  y[0] += x[get_global_id(0)];
}

__kernel void some_wait(__global const float* x, __global float* y) {
  if (get_local_id(0) != 3) barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = x[get_global_id(0)];
}
)CL";

class Kernels : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session_.open().ok());
    const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
    const void* table = nullptr;
    ASSERT_EQ(
        registry->plugin_interface(registry->self, str("toolchain"), str(TENON_DIALECT_OPENCL_C),
                                   str(TENON_TOOLCHAIN_ID), &table),
        TENON_OK)
        << failure_text();
    toolchain_ = static_cast<const tenon_toolchain_api_t*>(table);
    std::string code;
    ASSERT_TRUE(sim::KernelModule::build(*toolchain_, kText, GetParam(), &code).ok())
        << failure_text();
    ASSERT_TRUE(module_.load(*toolchain_, code).ok()) << failure_text();
    ASSERT_EQ(module_.watched(), GetParam());
    // With spare room, so that an access past the end does not reach another buffer.
    x_.reserve(128);
    y_.reserve(128);
    x_.resize(64);
    std::iota(x_.begin(), x_.end(), 1.f);
    y_.assign(64, 0.f);
  }
  static sim::KernelArg buffer(const char* name, std::vector<float>& v, bool written) {
    return {.kind = sim::KernelArg::Kind::kBuffer,
            .data = v.data(),
            .size_bytes = v.size() * 4,
            .name = name,
            .place = reinterpret_cast<uint64_t>(v.data()),
            .element_bytes = 4,
            .written = written};
  }
  // Arguments: x, y, then `local_floats` of local memory unless it is 0.
  Status run(const char* kernel, uint64_t global, uint64_t local, uint64_t local_floats = 0) {
    sim::Launch launch;
    if (!module_.find(kernel, &launch.entry).ok()) return TENON_NOT_FOUND;
    launch.title = cat("kernel `", kernel, "`");
    launch.global[0] = global;
    launch.local[0] = local;
    launch.args = {buffer("x", x_, false), buffer("y", y_, true)};
    if (local_floats != 0) {
      launch.args.push_back({.kind = sim::KernelArg::Kind::kLocal,
                             .size_bytes = local_floats * 4,
                             .name = "local `tile`",
                             .element_bytes = 4});
    }
    return module_.run(launch);
  }
  // Returns the message of a launch that must fail.
  std::string failure(const char* kernel, uint64_t global, uint64_t local,
                      uint64_t local_floats = 0) {
    EXPECT_FALSE(run(kernel, global, local, local_floats).ok());
    return failure_text();
  }

  Session session_;
  const tenon_toolchain_api_t* toolchain_ = nullptr;
  sim::KernelModule module_;
  std::vector<float> x_, y_;
};

TEST_P(Kernels, BarriersAndLocalMemoryWork) {
  ASSERT_TRUE(run("reverse", 64, 16, 16).ok()) << failure_text();
  for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(y_[i], x_[i / 16 * 16 + 15 - i % 16]);
  ASSERT_TRUE(run("block_sum", 64, 32).ok()) << failure_text();
  EXPECT_EQ(y_[0], 528);
  EXPECT_EQ(y_[1], 1552);
  sim::Launch launch;
  ASSERT_TRUE(module_.find("transpose", &launch.entry).ok());
  uint64_t n = 8;
  launch.global[0] = launch.global[1] = 8;
  launch.local[0] = launch.local[1] = 4;
  launch.args = {buffer("x", x_, false), buffer("y", y_, true), {.data = &n, .size_bytes = 8}};
  ASSERT_TRUE(module_.run(launch).ok()) << failure_text();
  for (int r = 0; r < 8; ++r) {
    for (int c = 0; c < 8; ++c) EXPECT_EQ(y_[r * 8 + c], x_[c * 8 + r]);
  }
}

TEST_P(Kernels, ABarrierThatSomeMissIsReportedWithItsLine) {
  const std::string text = failure("some_wait", 8, 8);
  EXPECT_NE(text.find("waits at the barrier of line 55, which 1 of the 8 work items of its group "
                      "did not reach"),
            std::string::npos)
      << text;
}

TEST_P(Kernels, WhatAKernelDoesWrongIsNamed) {
  if (!GetParam()) GTEST_SKIP() << "not watched";
  const struct {
    const char *kernel, *text;
    uint64_t local_floats;
  } cases[] = {
      {"no_barrier",
       "byte 32 of local `tile`, which work item 7 of its group read with no barrier between", 16},
      {"past_the_end",
       "kernel `past_the_end`: work item 15 of group 3 (global 63) reads 4 bytes at byte 256 of x, "
       "which has 256",
       0},
      {"past_local", "writes 4 bytes at byte 32 of local `past_local.tile`, which has 32", 0},
      {"all_to_one", "byte 0 of y, which work item 0 of its group wrote with no barrier between",
       0},
  };
  for (const auto& c : cases) {
    const std::string text = failure(c.kernel, 64, 16, c.local_floats);
    EXPECT_NE(text.find(c.text), std::string::npos) << c.kernel << ": " << text;
  }
  // The module still works.
  ASSERT_TRUE(run("reverse", 64, 16, 16).ok()) << failure_text();
}

// Two threads that run one kernel have separate variables in local memory.
TEST_P(Kernels, TwoThreadsRunOneKernel) {
  std::vector<float> sums[2];
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (auto& sum : sums) {
    sum.assign(64, 0.f);
    threads.emplace_back([&, this] {
      for (int i = 0; i < 50; ++i) {
        sim::Launch launch;
        (void)module_.find("block_sum", &launch.entry);
        launch.global[0] = 64;
        launch.local[0] = 32;
        launch.args = {buffer("x", x_, false), buffer("sums", sum, true)};
        if (!module_.run(launch).ok() || sum[0] != 528 || sum[1] != 1552) ++failed;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failed.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(Watched, Kernels, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "watched" : "plain"; });

}  // namespace
}  // namespace tenon::devices_test
