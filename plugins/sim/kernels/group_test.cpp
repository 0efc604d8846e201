// The kernels here are C++ that calls what a compiled kernel calls.
#include "plugins/sim/kernels/group.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

std::string g_message;
tenon_code_t record(void*, tenon_code_t code, tenon_str_t text, const tenon_key_value_t*,
                    uint32_t) {
  g_message = std::string(view(text));
  return code;
}

void barrier(uint32_t line = 1) {
  reinterpret_cast<void (*)(uint32_t, uint32_t)>(kHooks[0])(1, line);
}
const uint64_t* item() {
  return reinterpret_cast<const uint64_t* (*)()>(kHooks[1])();
}
uint64_t global_id() {
  return item()[0];
}
uint64_t local_id() {
  return item()[3];
}
uint64_t local_size() {
  return item()[12];
}

float load(const float* p) {
  watch_access(p, 4, 0);
  return *p;
}
void store(float* p, float x) {
  watch_access(p, 4, TENON_OPENCL_WRITE);
  *p = x;
}

struct Arrays {
  std::vector<float> in, out, local;
};
Arrays* g_arrays = nullptr;

using Entry = void (*)(void* const*, const uint64_t*, const uint64_t*, const uint64_t*);

class GroupTest : public testing::Test {
 protected:
  void SetUp() override {
    static tenon_host_t host{};
    host.fail = record;
    detail::g_context.host = &host;
    arrays_.in.resize(64);
    std::iota(arrays_.in.begin(), arrays_.in.end(), 0.f);
    arrays_.out.assign(64, -1.f);
    arrays_.local.assign(16, 0.f);
    g_arrays = &arrays_;
    g_message.clear();
  }
  Status run(Entry entry, uint64_t global, uint64_t local, bool watched = true) {
    Launch launch;
    launch.entry = entry;
    launch.title = "kernel `k`";
    launch.global[0] = global;
    launch.local[0] = local;
    auto range = [](const char* name, std::vector<float>& v, bool written, bool is_local) {
      return WatchedRange{name, v.data(), v.size() * 4, reinterpret_cast<uint64_t>(v.data()),
                          4,    written,  is_local};
    };
    Watch watch(
        {range("input 0", arrays_.in, false, false), range("output 0", arrays_.out, true, false),
         range("local `l`", arrays_.local, true, true)},
        local);
    return GroupRunner(launch, {}, watched ? &watch : nullptr).run();
  }
  Arrays arrays_;
};

TEST_F(GroupTest, BarriersAreReal) {
  // Each group reverses its items through local memory.
  const Entry reverse = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    store(&g_arrays->local[local_id()], load(&g_arrays->in[global_id()]));
    barrier();
    store(&g_arrays->out[global_id()], load(&g_arrays->local[local_size() - 1 - local_id()]));
  };
  ASSERT_TRUE(run(reverse, 64, 16).ok()) << g_message;
  for (uint64_t i = 0; i < 64; ++i)
    EXPECT_EQ(arrays_.out[i], static_cast<float>(i / 16 * 16 + 15 - i % 16));
}

TEST_F(GroupTest, ItemsWithoutABarrierNeedOneFiber) {
  const Entry copy = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    store(&g_arrays->out[global_id()], load(&g_arrays->in[global_id()]));
  };
  ASSERT_TRUE(run(copy, 64, 1).ok()) << g_message;
  EXPECT_EQ(arrays_.out, arrays_.in);
}

TEST_F(GroupTest, ABarrierInALoop) {
  const Entry sum = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    store(&g_arrays->local[local_id()], load(&g_arrays->in[global_id()]));
    for (uint64_t half = local_size() / 2; half != 0; half /= 2) {
      barrier();
      if (local_id() < half)
        store(&g_arrays->local[local_id()],
              load(&g_arrays->local[local_id()]) + load(&g_arrays->local[local_id() + half]));
    }
    if (local_id() == 0) store(&g_arrays->out[global_id()], load(&g_arrays->local[0]));
  };
  ASSERT_TRUE(run(sum, 64, 16).ok()) << g_message;
  for (uint64_t g = 0; g < 4; ++g)
    EXPECT_EQ(arrays_.out[g * 16], static_cast<float>(g * 256 + 120));
}

TEST_F(GroupTest, AMissingBarrierIsARace) {
  const Entry reverse = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    store(&g_arrays->local[local_id()], 1);
    store(&g_arrays->out[global_id()], load(&g_arrays->local[local_size() - 1 - local_id()]));
  };
  EXPECT_EQ(run(reverse, 16, 16).code(), TENON_INTERNAL);
  EXPECT_EQ(g_message,
            "sim: kernel `k`: work item 8 of group 0 (global 8) writes byte 32 of local `l`, which "
            "work item 7 of its group "
            "read with no barrier between");
}

TEST_F(GroupTest, AReadThenAWriteIsARaceToo) {
  const Entry shift = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    const float left = load(&g_arrays->out[(global_id() + 63) % 64]);
    store(&g_arrays->out[global_id()], left);
  };
  EXPECT_EQ(run(shift, 64, 64).code(), TENON_INTERNAL);
  EXPECT_NE(g_message.find("with no barrier between"), std::string::npos) << g_message;
}

TEST_F(GroupTest, GroupsAreNeverOrdered) {
  const Entry all_to_one = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    barrier();
    if (local_id() == 0) store(&g_arrays->out[0], 1);
  };
  EXPECT_EQ(run(all_to_one, 32, 16).code(), TENON_INTERNAL);
  EXPECT_EQ(g_message,
            "sim: kernel `k`: work item 0 of group 1 (global 16) writes byte 0 of output 0, which "
            "work item 0 of group 0 wrote; "
            "groups are not ordered");
}

TEST_F(GroupTest, LocalMemoryIsNewForEveryGroup) {
  const Entry stale = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    if (global_id() == 0) store(&g_arrays->local[3], 1);
    store(&g_arrays->out[global_id()], load(&g_arrays->local[3]));
  };
  EXPECT_EQ(run(stale, 2, 1).code(), TENON_INTERNAL);
  EXPECT_EQ(g_message,
            "sim: kernel `k`: work item 0 of group 1 (global 1) reads byte 12 of local `l`, which "
            "no work item of its group wrote");
}

TEST_F(GroupTest, WhatManyReadManyMayRead) {
  const Entry share = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    if (local_id() == 0) store(&g_arrays->local[0], 3);
    barrier();
    const float x = load(&g_arrays->local[0]);
    barrier();
    if (local_id() == 1) store(&g_arrays->local[0], x + 1);
    barrier();
    store(&g_arrays->out[global_id()], load(&g_arrays->local[0]));
  };
  ASSERT_TRUE(run(share, 32, 16).ok()) << g_message;
  EXPECT_EQ(arrays_.out[31], 4);
}

TEST_F(GroupTest, AccessesOutsideAreNamedAndNotMade) {
  const Entry beyond = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    store(g_arrays->out.data() + 64 + global_id(), 1);
  };
  EXPECT_EQ(run(beyond, 4, 4).code(), TENON_OUT_OF_RANGE);
  EXPECT_EQ(g_message,
            "sim: kernel `k`: work item 0 of group 0 (global 0) writes 4 bytes at byte 256 of "
            "output 0, which has 256");
  const Entry into_input = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    store(&g_arrays->in[2], 1);
  };
  EXPECT_EQ(run(into_input, 1, 1).code(), TENON_OUT_OF_RANGE);
  EXPECT_NE(g_message.find("writes byte 8 of input 0, which is only to be read"), std::string::npos)
      << g_message;
  EXPECT_EQ(arrays_.in[2], 2);
}

TEST_F(GroupTest, ABarrierThatSomeDoNotReachIsToldAndDoesNotHang) {
  const Entry odd = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    if (local_id() % 2 == 0) barrier(7);
  };
  EXPECT_EQ(run(odd, 16, 16, false).code(), TENON_INTERNAL);
  EXPECT_EQ(g_message,
            "sim: kernel `k`: work item 0 of group 0 (global 0) waits at the barrier of line 7, "
            "which 8 of the 16 work items of its "
            "group did not reach");
  const Entry two = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {
    barrier(local_id() == 0 ? 3 : 4);
  };
  EXPECT_EQ(run(two, 2, 2, false).code(), TENON_INTERNAL);
  EXPECT_NE(g_message.find("at that of line 4"), std::string::npos) << g_message;
}

TEST_F(GroupTest, SizesThatDoNotGoTogetherAreRefused) {
  const Entry none = [](void* const*, const uint64_t*, const uint64_t*, const uint64_t*) {};
  EXPECT_EQ(run(none, 10, 4, false).code(), TENON_INVALID_ARGUMENT);
  EXPECT_TRUE(run(none, 0, 4, false).ok());
}

}  // namespace
}  // namespace tenon::sim
