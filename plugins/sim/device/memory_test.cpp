#include "plugins/sim/device/memory.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

tenon_code_t record(void*, tenon_code_t code, tenon_str_t, const tenon_key_value_t*, uint32_t) {
  return code;
}
tenon_host_t* silent_host() {
  static tenon_host_t host = [] {
    tenon_host_t h{};
    h.fail = record;
    return h;
  }();
  return &host;
}

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    detail::g_context.host = silent_host();
    ASSERT_TRUE(memory_.reserve().ok());
  }
  DeviceMemory memory_{1 << 20};
};

TEST_F(MemoryTest, RangesBeyondABufferAreRefused) {
  uint64_t handle = 0;
  void* at = nullptr;
  ASSERT_TRUE(memory_.alloc(100, &handle).ok());
  EXPECT_TRUE(memory_.translate(handle, 0, 100, &at).ok());
  EXPECT_EQ(memory_.translate(handle, 1, 100, &at).code(), TENON_OUT_OF_RANGE);
  EXPECT_EQ(memory_.translate(handle, UINT64_MAX, 2, &at).code(), TENON_OUT_OF_RANGE);
  EXPECT_TRUE(memory_.free(handle).ok());
  EXPECT_EQ(memory_.translate(handle, 0, 1, &at).code(), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(memory_.free(handle).code(), TENON_INVALID_ARGUMENT);
}

TEST_F(MemoryTest, BuffersNeverOverlapAndAllMemoryComesBack) {
  std::mt19937 random(7);
  std::vector<std::pair<uint64_t, uint64_t>> live;  // handle, size
  DeviceMemory::Access access(memory_);
  for (int i = 0; i < 3000; ++i) {
    if (live.size() < 20 && random() % 3 != 0) {
      const uint64_t size = random() % 5000;
      uint64_t handle = 0;
      ASSERT_TRUE(memory_.alloc(size, &handle).ok());
      void* at = nullptr;
      ASSERT_TRUE(memory_.translate(handle, 0, size, &at).ok());
      ASSERT_EQ(reinterpret_cast<uintptr_t>(at) % kAlignmentBytes, 0u);
      std::fill_n(static_cast<unsigned char*>(at), size, static_cast<unsigned char>(handle));
      live.emplace_back(handle, size);
    } else if (!live.empty()) {
      const auto [handle, size] = live[random() % live.size()];
      void* at = nullptr;
      ASSERT_TRUE(memory_.translate(handle, 0, size, &at).ok());
      for (uint64_t b = 0; b < size; ++b)
        ASSERT_EQ(static_cast<unsigned char*>(at)[b], static_cast<unsigned char>(handle));
      ASSERT_TRUE(memory_.free(handle).ok());
      std::erase(live, std::pair(handle, size));
    }
  }
  for (auto [handle, size] : live) ASSERT_TRUE(memory_.free(handle).ok());
  uint64_t all = 0;
  EXPECT_TRUE(memory_.alloc(1 << 20, &all).ok()) << "gaps did not join";
  EXPECT_EQ(memory_.alloc(1, &all).code(), TENON_RESOURCE_EXHAUSTED);
}

TEST_F(MemoryTest, TheHostFaultsOnDeviceMemoryWhileNoCommandRuns) {
  uint64_t handle = 0;
  void* at = nullptr;
  ASSERT_TRUE(memory_.alloc(64, &handle).ok());
  ASSERT_TRUE(memory_.translate(handle, 0, 64, &at).ok());
  EXPECT_DEATH(*static_cast<volatile char*>(at) = 1, "");
}

}  // namespace
}  // namespace tenon::sim
