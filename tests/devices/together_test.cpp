// Several devices in one graph: two of one kind, two vendors', and the cpu. Asynchronous devices
// really work at the same time, under any timing, and a failure is attributed to the right one.
#include "devices.h"

#include <thread>

namespace tenon::devices_test {
namespace {

// sim:0 adds, sim:1 multiplies, `null` adds (of two vendors that can, the first named one does),
// and the cpu gets the rest. apart: the two sim devices do not reach each other, so that values go
// through the host.
void split_ops(bool apart = false) {
  setenv("TENON_SIM_OPS", "0/add,1/mul,1/sub", 1);
  setenv("TENON_SIM_APART", apart ? "1" : "0", 1);
}

// Two chains that change device at each node, one beginning on each device.
std::string crossing_chains(int length) {
  std::string text =
      "tenon.tir 1\ngraph @g(%x: f32[64], %z: f32[64]) -> (p: f32[64], q: f32[64]) {\n";
  std::string p = "%x", q = "%x";
  for (int i = 0; i < length; ++i) {
    const bool even = i % 2 == 0;
    text += cat("  %p", i, " = ", even ? "add" : "mul", "(", p, ", %z) : f32[64]\n");
    text += cat("  %q", i, " = ", even ? "mul" : "add", "(", q, ", %z) : f32[64]\n");
    p = cat("%p", i);
    q = cat("%q", i);
  }
  return text + cat("  yield ", p, ", ", q, "\n}\n");
}

// Ops of four devices; each reads any earlier value.
std::string random_graph(uint32_t seed, int nodes) {
  std::string text =
      "tenon.tir 1\ngraph @g(%v0: f32[64], %v1: f32[64]) -> (a: f32[64], b: f32[64]) {\n";
  const char* const ops[] = {"add", "mul", "sub", "max", "min", "add", "mul"};
  uint32_t state = seed;
  auto next = [&state](uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
  };
  for (int i = 2; i < nodes + 2; ++i) {
    const auto recent = static_cast<uint32_t>(i);
    // Values stay near 1: an average below halves a product.
    text += cat("  %v", i, " = ", ops[next(7)], "(%v", next(recent), ", %v", next(recent),
                ") : f32[64]\n");
  }
  return text + cat("  yield %v", nodes + 1, ", %v", nodes, "\n}\n");
}

void overlap(bool apart) {
  split_ops(apart);
  Case c(crossing_chains(8), {"x", "z"}, {"p", "q"}, 64);
  Program program;
  Binding binding;
  EXPECT_TRUE(c.compile("sim,sim:1", &program).ok()) << failure_text();
  EXPECT_TRUE(program.bind(&binding).ok());
  EXPECT_TRUE(c.run(&binding).ok()) << failure_text();
  // Each step takes 20 ms on each device; the steps overlap, because no step waits for a whole
  // device to drain.
  setenv("TENON_SIM_LATENCY", "launch=20000", 1);
  statistics().overlap_ns(nullptr);
  EXPECT_TRUE(c.run(&binding).ok()) << failure_text();
  c.expect_right(&binding);
  EXPECT_GE(statistics().at_once(nullptr), 2u);
  EXPECT_GE(statistics().overlap_ns(nullptr), 60'000'000u) << "of 160 ms that could be";
  end_process();
}
TEST(Together, TwoDevicesOfOneKindWorkAtTheSameTime) {
  for (const bool apart : {false, true}) IN_A_PROCESS([apart] { overlap(apart); });
}

// The cpu works while the device does: asynchronous work is submitted first, and its results are
// fetched when they are read.
void next_to_the_host() {
  setenv("TENON_SIM_OPS", "add", 1);
  Case c(R"(tenon.tir 1
graph @g(%x: f32[64], %z: f32[64]) -> (p: f32[64], q: f32[64], r: f32[64]) {
  %p = add(%x, %z) : f32[64]
  %e = exp(%x) : f32[64]
  %q = mul(%e, %z) : f32[64]
  %r = sub(%p, %q) : f32[64]
  yield %p, %q, %r
}
)",
         {"x", "z"}, {"p", "q", "r"}, 64);
  for (const char* latency : {"", "launch=5000,copy=1000"}) {
    setenv("TENON_SIM_LATENCY", latency, 1);
    for (const char* devices : {"sim,cpu", "cpu,sim", "sim", "sim:1,null,cpu"})
      c.expect_works(devices);
  }
  end_process();
}
TEST(Together, ADeviceNextToTheCpu) {
  IN_A_PROCESS(next_to_the_host);
}

void random_latencies(bool apart) {
  split_ops(apart);
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    setenv("TENON_SIM_LATENCY", cat("launch=0-700,copy=0-400,seed=", seed).c_str(), 1);
    Case c(random_graph(seed, 24), {"v0", "v1"}, {"a", "b"}, 64);
    for (const char* devices : {"sim,sim:1", "sim:1,sim,null", "null,sim:1,cpu"}) {
      Program program;
      Binding binding;
      EXPECT_TRUE(c.compile(devices, &program).ok()) << failure_text();
      EXPECT_TRUE(program.bind(&binding).ok());
      for (int run = 0; run < 3; ++run) {
        EXPECT_TRUE(c.run(&binding).ok()) << devices << ": " << failure_text();
        c.expect_right(&binding);
      }
    }
  }
  EXPECT_EQ(counts(0).buffers + counts(1).buffers + counts(0).queues + counts(1).fences, 0u);
  end_process();
}
TEST(Together, RandomGraphsUnderRandomLatencies) {
  for (const bool apart : {false, true}) IN_A_PROCESS([apart] { random_latencies(apart); });
}

void many_threads() {
  split_ops();
  setenv("TENON_SIM_LATENCY", "launch=0-300,copy=0-200", 1);
  Case c(crossing_chains(6), {"x", "z"}, {"p", "q"}, 64);
  Program program;
  EXPECT_TRUE(c.compile("sim,sim:1", &program).ok()) << failure_text();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Binding binding;
      EXPECT_TRUE(program.bind(&binding).ok());
      for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(c.run(&binding).ok()) << failure_text();
        c.expect_right(&binding);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  end_process();
}
TEST(Together, OneProgramOnTwoDevicesFromManyThreads) {
  IN_A_PROCESS(many_threads);
}

// The error names the device that failed, although others used what it did not produce; the next
// run is right.
void root_cause(bool apart) {
  split_ops(apart);
  Case c(crossing_chains(6), {"x", "z"}, {"p", "q"}, 64);
  Program program;
  Binding binding;
  EXPECT_TRUE(c.compile("sim,sim:1", &program).ok()) << failure_text();
  EXPECT_TRUE(program.bind(&binding).ok());
  setenv("TENON_SIM_LATENCY", "launch=0-300,copy=0-200", 1);
  for (int ordinal = 0; ordinal < 2; ++ordinal) {
    for (const char* what : {"copy", "launch"}) {
      for (int n = 1; n < 9; ++n) {
        setenv("TENON_SIM_FAULTS", cat(ordinal, "/", what, "=", n).c_str(), 1);
        const Status status = c.run(&binding);
        if (!status.ok()) {
          EXPECT_EQ(status.code(),
                    what == std::string_view("copy") ? TENON_DATA_LOSS : TENON_INTERNAL)
              << failure_text();
          EXPECT_NE(failure_text().find(ordinal == 0 ? "device `sim`" : "device `sim:1`"),
                    std::string::npos)
              << failure_text();
        } else {
          c.expect_right(&binding);
        }
        unsetenv("TENON_SIM_FAULTS");
        EXPECT_TRUE(c.run(&binding).ok()) << failure_text();
        c.expect_right(&binding);
      }
    }
  }
  // One of the two is lost.
  setenv("TENON_SIM_FAULTS", "1/lost=4", 1);
  EXPECT_EQ(c.run(&binding).code(), TENON_DEVICE_LOST);
  EXPECT_NE(failure_text().find("`sim:1`"), std::string::npos) << failure_text();
  unsetenv("TENON_SIM_OPS");
  c.expect_works("sim");  // not lost with it
  end_process();
}
TEST(Together, TheDeviceThatFailedIsNamed) {
  for (const bool apart : {false, true}) IN_A_PROCESS([apart] { root_cause(apart); });
}

// Work that never ends: the device is given up, its objects are abandoned, and others go on.
void stalled(int ordinal, bool apart) {
  split_ops(apart);
  setenv("TENON_LIMIT_DEVICE_WAIT_SECONDS", "5",
         1);  // on a busy machine a device may wait for a second or two
  Case c(crossing_chains(6), {"x", "z"}, {"p", "q"}, 64);
  {
    Program program;
    Binding binding;
    EXPECT_TRUE(c.compile("sim,sim:1", &program).ok()) << failure_text();
    EXPECT_TRUE(program.bind(&binding).ok());
    setenv("TENON_SIM_FAULTS", cat(ordinal, "/stall=3").c_str(), 1);
    const Status status = c.run(&binding);
    EXPECT_EQ(status.code(), TENON_DEVICE_LOST) << failure_text();
    EXPECT_NE(failure_text().find("T0618"), std::string::npos) << failure_text();
    EXPECT_NE(failure_text().find(ordinal == 0 ? "`sim`" : "`sim:1`"), std::string::npos)
        << failure_text();
  }
  unsetenv("TENON_SIM_FAULTS");
  unsetenv("TENON_SIM_OPS");
  c.expect_works(ordinal == 0 ? "sim:1" : "sim");
  c.expect_works("cpu");
  Program program;
  EXPECT_EQ(c.compile(ordinal == 0 ? "sim" : "sim:1", &program).code(), TENON_DEVICE_LOST);
  end_process();
}
TEST(Together, ADeviceThatHangsIsGivenUp) {
  for (int n = 0; n < 4; ++n) IN_A_PROCESS([n] { stalled(n % 2, n >= 2); });
}

}  // namespace
}  // namespace tenon::devices_test
