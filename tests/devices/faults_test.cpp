// Faults injected into a simulated device: each gives a clear error, the process goes on, other
// devices are unharmed, nothing leaks.
#include "devices.h"

#include <thread>

namespace tenon::devices_test {
namespace {

// The constant becomes device memory when the program is loaded; sim claims everything.
std::string model_text() {
  std::string weights;
  for (int i = 0; i < 64; ++i) weights += cat(i == 0 ? "" : ", ", 0.03125 * (i % 13));
  return cat(R"(tenon.tir 1
graph @g(%x: f32[64], %z: f32[64]) -> (y: f32[64], e: f32[64]) {
  %y = add(%x, %z) : f32[64]
  %w = const f32[64] [)",
             weights, R"(]
  %m = mul(%y, %w) : f32[64]
  %e = exp(%m) : f32[64]
  yield %y, %e
}
)");
}

Case model() {
  return Case(model_text(), {"x", "z"}, {"y", "e"}, 64);
}

void expect_nothing_held(uint32_t ordinal = 0) {
  const tenon_sim_counts_t c = counts(ordinal);
  EXPECT_EQ(c.buffers, 0u);
  EXPECT_EQ(c.bytes, 0u);
  EXPECT_EQ(c.queues, 0u);
  EXPECT_EQ(c.fences, 0u);
}

// Compiles and runs under the fault. Returns the code of the failure, OK if there is none.
Status attempt(Case& c, std::string_view device, std::string* text) {
  Program program;
  Binding binding;
  Status status = c.compile(device, &program);
  if (status.ok()) status = program.bind(&binding);
  if (status.ok()) status = c.run(&binding);
  if (status.ok()) {
    c.expect_right(&binding);
  } else {
    *text = failure_text();
  }
  return status;
}

void every_allocation() {
  Case c = model();
  int failed = 0;
  for (int n = 1; n < 100; ++n) {
    setenv("TENON_SIM_FAULTS", cat("alloc=", n, "+").c_str(), 1);
    std::string text;
    const Status status = attempt(c, "sim", &text);
    expect_nothing_held();
    if (status.ok()) break;
    ++failed;
    EXPECT_EQ(status.code(), TENON_RESOURCE_EXHAUSTED) << text;
    EXPECT_TRUE(text.starts_with("T0609")) << text;
    EXPECT_NE(text.find("device `sim`"), std::string::npos) << text;
  }
  EXPECT_GE(failed, 3) << "the fault did not reach every allocation";
  unsetenv("TENON_SIM_FAULTS");
  c.expect_works("sim");
  end_process();
}
TEST(Faults, EveryAllocationMayFail) {
  IN_A_PROCESS(every_allocation);
}

// A single failure in the middle: unused memory is returned, and the run succeeds.
void allocation_in_a_later_run() {
  Case c = model();
  Program program;
  Binding binding;
  ASSERT_TRUE(c.compile("sim", &program).ok()) << failure_text();
  ASSERT_TRUE(program.bind(&binding).ok());
  for (int n = 1; n < 8; ++n) {
    setenv("TENON_SIM_FAULTS", cat("alloc=", n).c_str(), 1);
    if (!c.run(&binding).ok()) EXPECT_TRUE(failure_text().starts_with("T0609")) << failure_text();
    unsetenv("TENON_SIM_FAULTS");
    ASSERT_TRUE(c.run(&binding).ok()) << failure_text();
    c.expect_right(&binding);
  }
  end_process();
}
TEST(Faults, ABindingGoesOnAfterAnAllocationFailed) {
  IN_A_PROCESS(allocation_in_a_later_run);
}

void every_command(std::string_view what, tenon_code_t code) {
  Case c = model();
  int failed = 0;
  for (int n = 1; n < 20; ++n) {
    setenv("TENON_SIM_FAULTS", cat(what, "=", n).c_str(), 1);
    std::string text;
    const Status status = attempt(c, "sim", &text);
    expect_nothing_held();
    if (status.ok()) break;
    ++failed;
    EXPECT_EQ(status.code(), code) << text;
    EXPECT_NE(text.find("device `sim`"), std::string::npos) << text;
    EXPECT_NE(text.find("injected"), std::string::npos) << text;
    c.expect_works("cpu");
    unsetenv("TENON_SIM_FAULTS");
    c.expect_works("sim");
  }
  EXPECT_GE(failed, what == "copy" ? 4 : 1);
  end_process();
}
TEST(Faults, EveryCopyMayFail) {
  IN_A_PROCESS([] { every_command("copy", TENON_DATA_LOSS); });
}
TEST(Faults, EveryExecutionMayFail) {
  IN_A_PROCESS([] { every_command("launch", TENON_INTERNAL); });
}

// A wait that times out is repeated.
void fences() {
  Case c = model();
  for (int n = 1; n < 6; ++n) {
    setenv("TENON_SIM_FAULTS", cat("fence=", n).c_str(), 1);
    c.expect_works("sim");
    expect_nothing_held();
  }
  end_process();
}
TEST(Faults, AFenceThatTimesOutIsWaitedForAgain) {
  IN_A_PROCESS(fences);
}

void lost(int n) {
  Case c = model();
  setenv("TENON_SIM_FAULTS", cat("0/lost=", n).c_str(), 1);
  std::string text;
  EXPECT_EQ(attempt(c, "sim", &text).code(), TENON_DEVICE_LOST);
  EXPECT_NE(text.find("device `sim`"), std::string::npos) << text;
  EXPECT_NE(text.find("lost"), std::string::npos) << text;
  expect_nothing_held();
  // The device stays lost, with a code of its own, and other devices are unaffected.
  unsetenv("TENON_SIM_FAULTS");
  EXPECT_EQ(attempt(c, "sim", &text).code(), TENON_DEVICE_LOST);
  EXPECT_TRUE(text.find("T0611") != std::string::npos) << text;
  c.expect_works("sim:1");
  c.expect_works("cpu");
  end_process();
}
TEST(Faults, ADeviceMayBeLostAtEveryCommand) {
  for (int n = 1; n <= 5; ++n) IN_A_PROCESS([n] { lost(n); });
}

// Several threads use the device when it is lost.
void lost_under_load() {
  Case c = model();
  c.expect_works("sim");
  setenv("TENON_SIM_LATENCY", "copy=100-500,launch=100-500", 1);
  setenv("TENON_SIM_FAULTS", "0/lost=40", 1);
  std::vector<std::thread> threads;
  std::atomic<int> lost{0}, well{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const std::string device = t < 4 ? "sim" : "sim:1";
      for (int i = 0; i < 10; ++i) {
        std::string text;
        const Status status = attempt(c, device, &text);
        if (t >= 4) EXPECT_TRUE(status.ok()) << text;
        if (!status.ok()) EXPECT_EQ(status.code(), TENON_DEVICE_LOST) << text;
        ++(status.ok() ? well : lost);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(lost.load(), 0);
  EXPECT_GE(well.load(), 20);
  expect_nothing_held();
  expect_nothing_held(1);
  end_process();
}
TEST(Faults, ADeviceMayBeLostUnderSeveralThreads) {
  IN_A_PROCESS(lost_under_load);
}

void nonsense() {
  Case c = model();
  for (const char* text : {"alloc", "alloc=0", "alloc=x", "allocs=1", "9x/alloc=1"}) {
    setenv("TENON_SIM_FAULTS", text, 1);
    std::string why;
    EXPECT_EQ(attempt(c, "sim", &why).code(), TENON_INVALID_ARGUMENT) << text;
    EXPECT_NE(why.find("TENON_SIM_FAULTS"), std::string::npos) << why;
  }
  unsetenv("TENON_SIM_FAULTS");
  setenv("TENON_SIM_LATENCY", "copy=9-3", 1);
  std::string why;
  EXPECT_EQ(attempt(c, "sim:1", &why).code(), TENON_INVALID_ARGUMENT);
  unsetenv("TENON_SIM_LATENCY");
  c.expect_works("sim");
  end_process();
}
TEST(Faults, AVariableThatMakesNoSenseIsRefused) {
  IN_A_PROCESS(nonsense);
}

}  // namespace
}  // namespace tenon::devices_test
