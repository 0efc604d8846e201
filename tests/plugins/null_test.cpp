// The null device through its tables: memory, copies in all directions, ranges out of bounds, as
// required of any device.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include <tenon/abi/device.h>

#include "core/base/errors/failure.h"
#include "core/host/discovery/probe.h"
#include "core/host/plugin_host.h"

namespace tenon::host {
namespace {

class NullDevice : public testing::Test {
 protected:
  void SetUp() override {
    // The listing host replaces the host's graphs, which this test does not have.
    static PluginHost* host = new PluginHost({{TENON_NULL_MANIFEST}, listing_host(), true});
    api_ = host->find<tenon_device_api_t>("device", "null", TENON_DEVICE_ID).value();
    ASSERT_EQ(api_->open(api_->self, 0, &device_), TENON_OK);
  }
  void TearDown() override { EXPECT_EQ(api_->close(api_->self, device_), TENON_OK); }
  tenon_buffer_t* alloc(uint64_t size) {
    tenon_buffer_t* buffer = nullptr;
    EXPECT_EQ(api_->alloc(api_->self, device_, size, &buffer), TENON_OK);
    return buffer;
  }
  tenon_code_t copy(tenon_copy_t c) {
    c.size_bytes = sizeof(c);
    return api_->copy(api_->self, device_, &c);
  }
  const tenon_device_api_t* api_ = nullptr;
  tenon_device_t* device_ = nullptr;
};

TEST_F(NullDevice, SaysWhatItIs) {
  uint32_t count = 0;
  ASSERT_EQ(api_->count(api_->self, &count), TENON_OK);
  EXPECT_EQ(count, 1u);
  tenon_device_info_t info = {};
  info.size_bytes = sizeof(info);
  ASSERT_EQ(api_->info(api_->self, 0, &info), TENON_OK);
  EXPECT_EQ(from_abi_str(info.kind), "null");
  EXPECT_EQ(api_->info(api_->self, 1, &info), TENON_NOT_FOUND);
}

TEST_F(NullDevice, CopiesInAllDirections) {
  std::vector<uint8_t> in(1000), out(1000);
  std::iota(in.begin(), in.end(), uint8_t{3});
  tenon_buffer_t *a = alloc(1000), *b = alloc(1000);
  ASSERT_EQ(copy({.direction = TENON_COPY_HOST_TO_DEVICE,
                  .to = a,
                  .length_bytes = 1000,
                  .host_from = in.data()}),
            TENON_OK);
  ASSERT_EQ(copy({.direction = TENON_COPY_DEVICE_TO_DEVICE,
                  .from = a,
                  .to = b,
                  .from_offset_bytes = 10,
                  .to_offset_bytes = 20,
                  .length_bytes = 900}),
            TENON_OK);
  ASSERT_EQ(copy({.direction = TENON_COPY_FILL,
                  .to = b,
                  .to_offset_bytes = 0,
                  .length_bytes = 20,
                  .pattern = 0x0201,
                  .pattern_bytes = 2}),
            TENON_OK);
  ASSERT_EQ(copy({.direction = TENON_COPY_DEVICE_TO_HOST,
                  .from = b,
                  .length_bytes = 920,
                  .host_to = out.data()}),
            TENON_OK);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[19], 2);
  EXPECT_EQ(std::memcmp(out.data() + 20, in.data() + 10, 900), 0);
  api_->free(api_->self, device_, a);
  api_->free(api_->self, device_, b);
}

TEST_F(NullDevice, RefusesWhatIsOutside) {
  tenon_buffer_t* a = alloc(16);
  uint8_t bytes[32] = {};
  EXPECT_EQ(copy({.direction = TENON_COPY_HOST_TO_DEVICE,
                  .to = a,
                  .length_bytes = 17,
                  .host_from = bytes}),
            TENON_OUT_OF_RANGE);
  EXPECT_EQ(copy({.direction = TENON_COPY_DEVICE_TO_HOST,
                  .from = a,
                  .from_offset_bytes = UINT64_MAX - 3,
                  .length_bytes = 8,
                  .host_to = bytes}),
            TENON_OUT_OF_RANGE);
  EXPECT_EQ(copy({.direction = TENON_COPY_FILL,
                  .to = a,
                  .to_offset_bytes = 16,
                  .length_bytes = 0,
                  .pattern_bytes = 1}),
            TENON_OK);
  for (uint32_t pattern_bytes : {0u, 3u, 5u, 16u, UINT32_MAX}) {
    EXPECT_EQ(copy({.direction = TENON_COPY_FILL,
                    .to = a,
                    .length_bytes = 16,
                    .pattern_bytes = pattern_bytes}),
              TENON_INVALID_ARGUMENT)
        << pattern_bytes;
  }
  tenon_buffer_t* huge = nullptr;
  EXPECT_EQ(api_->alloc(api_->self, device_, UINT64_MAX - 63, &huge), TENON_RESOURCE_EXHAUSTED);
  tenon_buffer_t* empty = alloc(0);
  EXPECT_NE(empty, nullptr);
  api_->free(api_->self, device_, empty);
  api_->free(api_->self, device_, a);
}

}  // namespace
}  // namespace tenon::host
