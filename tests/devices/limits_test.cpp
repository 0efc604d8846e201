// TENON_DEVICE_MEMORY_LIMIT: the memory of one device, apart from that of the host and of others.
#include "devices.h"

namespace tenon::devices_test {
namespace {

constexpr std::string_view kModel = R"(tenon.tir 1
graph @g(%x: f32[4096]) -> (y: f32[4096]) {
  %y = neg(%x) : f32[4096]
  yield %y
}
)";

void a_device_of_little_memory() {
  setenv("TENON_DEVICE_MEMORY_LIMIT", "sim=20k ,sim:1=1m", 1);
  Session session, other;
  Program first, second;
  ASSERT_TRUE(compile(session, kModel, "sim", &first).ok()) << failure_text();
  ASSERT_TRUE(compile(other, kModel, "sim:1", &second).ok()) << failure_text();
  const std::vector<float> x(4096, 2.0f);
  const std::vector<Input> inputs = {ArrayView::of(x, {4096})};
  std::vector<Output> out(1);
  ASSERT_FALSE(first.call(inputs, out).ok());
  const std::string why = failure_text();
  EXPECT_NE(why.find("T0609"), std::string::npos) << why;
  EXPECT_NE(why.find("TENON_DEVICE_MEMORY_LIMIT is 20480"), std::string::npos) << why;
  ASSERT_TRUE(second.call(inputs, out).ok()) << failure_text();
  EXPECT_EQ(out[0].as<float>()[4095], -2.0f);
  end_process();
}

TEST(DeviceLimit, IsOfOneDevice) {
  IN_A_PROCESS(a_device_of_little_memory);
}

// What is on such a device does not count for the host.
void the_host_is_apart() {
  setenv("TENON_DEVICE_MEMORY_LIMIT", "sim=1m", 1);
  setenv("TENON_MEMORY_LIMIT", "40k", 1);  // the result and what inputs are staged in, no buffer
  Session session;
  Program program;
  ASSERT_TRUE(compile(session, kModel, "sim", &program).ok()) << failure_text();
  const std::vector<float> x(4096, 2.0f);
  const std::vector<Input> inputs = {ArrayView::of(x, {4096})};
  std::vector<Output> out(1);
  EXPECT_TRUE(program.call(inputs, out).ok()) << failure_text();
  end_process();
}

TEST(DeviceLimit, TheHostIsApart) {
  IN_A_PROCESS(the_host_is_apart);
}

}  // namespace
}  // namespace tenon::devices_test
