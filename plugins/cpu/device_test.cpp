#include "device.h"

#include <gtest/gtest.h>

#include <vector>

#include "free_blocks.h"
#include "test_host.h"

namespace tenon::cpu {
namespace {

class Device : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(api_.open(nullptr, 0, &device_), TENON_OK); }
  tenon_copy_t copy(uint32_t direction, uint64_t length) {
    auto out = sized<tenon_copy_t>();
    out.direction = direction;
    out.length_bytes = length;
    return out;
  }
  TestHost& host_ = TestHost::get();
  const tenon_device_api_t& api_ = kDeviceTable;
  tenon_device_t* device_ = nullptr;
};

TEST_F(Device, HasOneOrdinal) {
  uint32_t count = 0;
  EXPECT_EQ(api_.count(nullptr, &count), TENON_OK);
  EXPECT_EQ(count, 1u);
  tenon_device_info_t info = {.size_bytes = sizeof info};
  EXPECT_EQ(api_.info(nullptr, 0, &info), TENON_OK);
  EXPECT_TRUE(view(info.target).starts_with("cpu isa=")) << view(info.target);
  EXPECT_EQ(api_.open(nullptr, 1, &device_), TENON_NOT_FOUND);
  EXPECT_EQ(host_.failure, "There is one cpu device, cpu:0; cpu:1 was asked for.");
}

TEST_F(Device, CopiesAndFills) {
  tenon_buffer_t* a = nullptr;
  tenon_buffer_t* b = nullptr;
  ASSERT_EQ(api_.alloc(nullptr, device_, 16, &a), TENON_OK);
  ASSERT_EQ(api_.alloc(nullptr, device_, 16, &b), TENON_OK);
  tenon_copy_t fill = copy(TENON_COPY_FILL, 16);
  fill.to = a;
  fill.pattern = 0x0102;
  fill.pattern_bytes = 2;
  ASSERT_EQ(api_.copy(nullptr, device_, &fill), TENON_OK);
  tenon_copy_t move = copy(TENON_COPY_DEVICE_TO_DEVICE, 8);
  move.from = a;
  move.to = b;
  move.to_offset_bytes = 8;
  ASSERT_EQ(api_.copy(nullptr, device_, &move), TENON_OK);
  uint16_t out[4] = {};
  tenon_copy_t read = copy(TENON_COPY_DEVICE_TO_HOST, 8);
  read.from = b;
  read.from_offset_bytes = 8;
  read.host_to = out;
  ASSERT_EQ(api_.copy(nullptr, device_, &read), TENON_OK);
  EXPECT_EQ(out[3], 0x0102);
  read.from_offset_bytes = 9;
  EXPECT_EQ(api_.copy(nullptr, device_, &read), TENON_OUT_OF_RANGE);
  fill.pattern_bytes = 3;
  EXPECT_EQ(api_.copy(nullptr, device_, &fill), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(api_.free(nullptr, device_, a), TENON_OK);
  EXPECT_EQ(api_.free(nullptr, device_, b), TENON_OK);
}

TEST_F(Device, AllocatesAlignedAndRefusesTheAbsurd) {
  tenon_buffer_t* buffer = nullptr;
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{100}, uint64_t{8} << 20}) {
    ASSERT_EQ(api_.alloc(nullptr, device_, size, &buffer), TENON_OK);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data) % kAlignmentBytes, 0u);
    api_.free(nullptr, device_, buffer);
  }
  EXPECT_EQ(api_.alloc(nullptr, device_, UINT64_MAX, &buffer), TENON_RESOURCE_EXHAUSTED);
  EXPECT_EQ(api_.alloc(nullptr, device_, UINT64_C(1) << 55, &buffer), TENON_RESOURCE_EXHAUSTED);
  uint64_t used = 1, peak = 0;
  ASSERT_EQ(api_.memory(nullptr, device_, &used, &peak), TENON_OK);
  EXPECT_EQ(used, 0u);
  EXPECT_GE(peak, uint64_t{8} << 20);
}

TEST(FreeBlocks, ServeTheSameSizeUpToABound) {
  constexpr uint64_t kMiB = 1 << 20;
  FreeBlocks blocks;
  EXPECT_EQ(blocks.take(kMiB), nullptr);
  void* const a = malloc(kMiB);
  blocks.give_back(a, kMiB);
  if (blocks.kept_bytes() == 0) GTEST_SKIP() << "under a sanitizer nothing is kept";
  EXPECT_EQ(blocks.take(2 * kMiB), nullptr);
  EXPECT_EQ(blocks.take(kMiB), a);
  EXPECT_EQ(blocks.take(kMiB), nullptr);
  blocks.give_back(a, kMiB);
  for (int i = 0; i < 100; ++i) blocks.give_back(malloc(4 * kMiB), 4 * kMiB);
  EXPECT_LE(blocks.kept_bytes(), FreeBlocks::kMostBytes);
  EXPECT_EQ(blocks.take(kMiB), nullptr);  // those that were kept longest went first
  for (int i = 0; i < 100; ++i) blocks.give_back(malloc(kMiB / 2), kMiB / 2);
  blocks.give_back(malloc(FreeBlocks::kMostBytes + 1), FreeBlocks::kMostBytes + 1);
  blocks.give_back(malloc(1), 1);
  EXPECT_LE(blocks.kept_bytes(), FreeBlocks::kMostBytes);
  blocks.release();
  EXPECT_EQ(blocks.kept_bytes(), 0u);
}

}  // namespace
}  // namespace tenon::cpu
