// What is copied, and on which queue: values that go from device to device without the host, bytes
// that a device makes instead of getting them, and copies while work runs (ADR 0053).
#include "devices.h"

#include <chrono>
#include <thread>

#include <tenon/abi/exchange.h>

#include "plugins/sim/device/native.h"

namespace tenon::devices_test {
namespace {

constexpr int64_t kElements = 16384;  // 64 KiB: copies of this size have a queue of their own
constexpr uint64_t kBytes = kElements * sizeof(float);

// A chain over two devices: x goes to both, p from one to the other and q back.
constexpr std::string_view kChain = R"(tenon.tir 1
graph @g(%x: f32[16384], %z: f32[16384]) -> (r: f32[16384]) {
  %p = add(%x, %z) : f32[16384]
  %q = mul(%p, %z) : f32[16384]
  %r = add(%q, %p) : f32[16384]
  yield %r
}
)";

tenon_run_info_t run_chain(bool apart) {
  setenv("TENON_SIM_OPS", "0/add,1/mul", 1);
  setenv("TENON_SIM_APART", apart ? "1" : "0", 1);
  Case c(kChain, {"x", "z"}, {"r"}, kElements);
  Program program;
  Binding binding;
  EXPECT_TRUE(c.compile("sim,sim:1", &program).ok()) << failure_text();
  EXPECT_TRUE(program.bind(&binding).ok());
  for (int run = 0; run < 3; ++run) {
    EXPECT_TRUE(c.run(&binding).ok()) << failure_text();
    c.expect_right(&binding);
  }
  tenon_run_info_t info{};
  EXPECT_TRUE(binding.info(&info).ok());
  return info;
}

void straight() {
  const tenon_run_info_t info = run_chain(false);
  EXPECT_EQ(info.direct_bytes, 2 * kBytes);       // p there, q back
  EXPECT_EQ(info.transferred_bytes, 4 * kBytes);  // x, z twice, r
  end_process();
}
TEST(Copies, ValuesGoFromDeviceToDeviceWithoutTheHost) {
  IN_A_PROCESS(straight);
}

void through_the_host() {
  const tenon_run_info_t info = run_chain(true);
  EXPECT_EQ(info.direct_bytes, 0u);
  EXPECT_EQ(info.transferred_bytes, 8 * kBytes);
  end_process();
}
TEST(Copies, DevicesThatDoNotReachEachOtherUseTheHost) {
  IN_A_PROCESS(through_the_host);
}

// Two queues for each of two devices, each order of them possible.
void any_order() {
  setenv("TENON_SIM_OPS", "0/add,1/mul", 1);
  Case c(kChain, {"x", "z"}, {"r"}, kElements);
  for (const char* devices : {"sim,sim:1", "sim,cpu", "sim:1,sim"}) {
    Program program;
    Binding binding;
    EXPECT_TRUE(c.compile(devices, &program).ok()) << failure_text();
    EXPECT_TRUE(program.bind(&binding).ok());
    for (int seed = 1; seed < 12; ++seed) {
      setenv("TENON_SIM_LATENCY", cat("launch=0-900,copy=0-900,seed=", seed).c_str(), 1);
      EXPECT_TRUE(c.run(&binding).ok()) << failure_text();
      c.expect_right(&binding);
    }
  }
  EXPECT_EQ(counts(0).queues + counts(1).queues + counts(0).fences + counts(1).buffers, 0u);
  end_process();
}
TEST(Copies, LargeValuesUnderRandomLatencies) {
  IN_A_PROCESS(any_order);
}

// Every copy and launch fails once: the error is clear, nothing is lost, and the next run is right.
void every_fault() {
  setenv("TENON_SIM_OPS", "0/add,1/mul", 1);
  Case c(kChain, {"x", "z"}, {"r"}, kElements);
  Program program;
  Binding binding;
  EXPECT_TRUE(c.compile("sim,sim:1", &program).ok()) << failure_text();
  EXPECT_TRUE(program.bind(&binding).ok());
  for (const char* what : {"copy", "launch"}) {
    for (int n = 1; n < 6; ++n) {
      for (int ordinal = 0; ordinal < 2; ++ordinal) {
        setenv("TENON_SIM_FAULTS", cat(ordinal, "/", what, "=", n).c_str(), 1);
        if (const Status status = c.run(&binding); !status.ok()) {
          EXPECT_NE(failure_text().find(ordinal == 0 ? "device `sim`" : "device `sim:1`"),
                    std::string::npos)
              << failure_text();
        }
        unsetenv("TENON_SIM_FAULTS");
        EXPECT_TRUE(c.run(&binding).ok()) << failure_text();
        c.expect_right(&binding);
      }
    }
  }
  end_process();
}
TEST(Copies, EveryFaultIsReportedForItsDevice) {
  IN_A_PROCESS(every_fault);
}

// A tensor on a device that the program does not use.
void tensor_next_to_host(bool apart) {
  setenv("TENON_SIM_APART", apart ? "1" : "0", 1);
  Session session;
  Program program;
  ASSERT_TRUE(compile(session, R"(tenon.tir 1
graph @g(%x: f32[16384]) -> (y: f32[16384]) {
  %y = neg(%x) : f32[16384]
  yield %y
}
)",
                      "sim:1", &program)
                  .ok());
  std::vector<float> values(kElements, 1.0f);
  values[7] = 3;
  Tensor x;
  ASSERT_TRUE(Tensor::copy(ArrayView::of(values, {kElements}), &x, "sim").ok());
  const uint64_t there = counts(0).copies, here = counts(1).copies;
  Output y;
  for (const bool donated : {false, true}) {
    const std::vector<Input> inputs = {donated ? Input::donate(x) : Input(x)};
    ASSERT_TRUE(program.call(inputs, {&y, 1}).ok()) << failure_text();
    EXPECT_EQ(y.as<float>()[7], -3);
  }
  // The first call keeps its copy for the second.
  EXPECT_EQ(counts(0).copies - there, apart ? 1u : 0u);
  EXPECT_EQ(counts(1).copies - here, 3u) << apart;  // x once, y twice
  end_process();
}
TEST(Copies, ATensorOnAnotherDeviceIsFetched) {
  for (const bool apart : {false, true}) IN_A_PROCESS([apart] { tensor_next_to_host(apart); });
}

// ---- Fills ----

constexpr std::string_view kSum = R"(tenon.tir 1
graph @g(%x: f32[16384], %z: f32[16384]) -> (r: f32[16384]) {
  %r = add(%x, %z) : f32[16384]
  yield %r
}
)";

void one_element() {
  Session session;
  Program program;
  Binding binding;
  ASSERT_TRUE(compile(session, kSum, "sim", &program).ok()) << failure_text();
  ASSERT_TRUE(program.bind(&binding).ok());
  std::vector<float> x(kElements, 0.0f), z(kElements, 2.5f);
  const auto sum_is = [&](float first, float last, uint64_t filled_bytes) {
    ASSERT_TRUE(binding.input("x", ArrayView::of(x, {kElements})).ok());
    ASSERT_TRUE(binding.input("z", ArrayView::of(z, {kElements})).ok());
    ASSERT_TRUE(binding.run().ok()) << failure_text();
    ArrayView r;
    ASSERT_TRUE(binding.output("r", &r).ok());
    EXPECT_EQ(r.as<float>()[0], first);
    EXPECT_EQ(r.as<float>()[kElements - 1], last);
    tenon_run_info_t info{};
    ASSERT_TRUE(binding.info(&info).ok());
    EXPECT_EQ(info.filled_bytes, filled_bytes);
    EXPECT_EQ(info.transferred_bytes, 3 * kBytes - filled_bytes);
  };
  sum_is(2.5f, 2.5f, 2 * kBytes);  // zeros, and an element of four bytes that differ
  x[kElements / 2] = 1;            // seen, although both ends are alike
  sum_is(2.5f, 2.5f, kBytes);
  z[kElements - 1] = 3;
  sum_is(2.5f, 3.0f, 0);
  // State that begins as zeros.
  const uint64_t copies = counts().pinned_copies;
  Tensor state;
  const std::vector<float> zeros(kElements);
  ASSERT_TRUE(Tensor::copy(ArrayView::of(zeros, {kElements}), &state, "sim").ok());
  EXPECT_EQ(counts().pinned_copies, copies);
  end_process();
}
TEST(Copies, OneElementRepeatedIsMadeByTheDevice) {
  IN_A_PROCESS(one_element);
}

// ---- Copies while work runs ----

const tenon_sim_native_t& native() {
  static const auto* table = [] {
    const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
    const void* found = nullptr;
    registry->plugin_interface(registry->self, str("device"), str("sim"), str(SIM_NATIVE_ID),
                               &found);
    return static_cast<const tenon_sim_native_t*>(found);
  }();
  return *table;
}

// The caller's stream holds the work of both calls back; their inputs are on the device all the
// same.
void uploads_do_not_wait() {
  constexpr int kCalls = 2;
  Session session;
  Program program;
  ASSERT_TRUE(compile(session, kSum, "sim", &program).ok()) << failure_text();
  std::vector<float> x(kElements, 1.0f), z(kElements, 2.0f);
  x[1] = z[1] = 7;
  const std::vector<Input> inputs = {ArrayView::of(x, {kElements}), ArrayView::of(z, {kElements})};
  std::vector<Output> warm(1);
  ASSERT_TRUE(program.call(inputs, warm).ok()) << failure_text();
  uint64_t stream = 0, fence = 0;
  ASSERT_EQ(native().stream_create(nullptr, 0, &stream), TENON_OK);
  ASSERT_EQ(native().fence_create(nullptr, 0, &fence), TENON_OK);
  ASSERT_EQ(native().stream_submit(nullptr, stream, fence, 1, [](void*) {}, nullptr), TENON_OK);
  const tenon_sim_counts_t before = counts();
  std::vector<Output> out[kCalls];
  Operation operations[kCalls];
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto queue = sized<tenon_native_handle_t>();
    queue.kind = str("sim.queue");
    queue.handle = stream;
    out[i].resize(1);
    ASSERT_TRUE(operations[i].open().ok());
    calls.push_back(std::make_unique<Call>(program, inputs, out[i]));
    calls.back()->stream("sim", queue);
    ASSERT_TRUE(calls.back()->start(operations[i]).ok()) << failure_text();
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (counts().copies < before.copies + 2 * kCalls && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(counts().copies, before.copies + 2 * kCalls);
  EXPECT_EQ(counts().launches, before.launches);
  native().fence_signal(nullptr, fence, 1);
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(calls[i]->finish(operations[i]).ok()) << failure_text();
    EXPECT_EQ(out[i][0].as<float>()[1], 14);
    EXPECT_EQ(out[i][0].as<float>()[kElements - 1], 3);
  }
  EXPECT_EQ(counts().launches, before.launches + kCalls);
  native().stream_destroy(nullptr, stream);
  native().fence_destroy(nullptr, fence);
  end_process();
}
TEST(Copies, InputsOfTheNextCallArriveWhileWorkIsHeldBack) {
  IN_A_PROCESS(uploads_do_not_wait);
}

// The run is cancelled while the first device works. It hears of that when p is there; of the
// second device, when its work has ended: by then q and s are still on their way to the host, on a
// queue of their own. When the run returns, nothing is copied any more.
void cancelled_before_downloads() {
  setenv("TENON_SIM_OPS", "0/add,1/mul", 1);
  Case c(R"(tenon.tir 1
graph @g(%x: f32[16384], %z: f32[16384]) -> (p: f32[16384], q: f32[16384], s: f32[16384]) {
  %p = add(%x, %z) : f32[16384]
  %q = mul(%p, %z) : f32[16384]
  %s = mul(%p, %x) : f32[16384]
  yield %p, %q, %s
}
)",
         {"x", "z"}, {"p", "q", "s"}, kElements);
  Program program;
  Binding binding;
  ASSERT_TRUE(c.compile("sim,sim:1", &program).ok()) << failure_text();
  ASSERT_TRUE(program.bind(&binding).ok());
  ASSERT_TRUE(c.run(&binding).ok()) << failure_text();
  setenv("TENON_SIM_LATENCY", "launch=150000-150000,copy=50000-50000", 1);
  const uint64_t launches = counts(0).launches;
  Operation operation;
  ASSERT_TRUE(operation.open().ok());
  std::thread canceller([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (counts(0).launches == launches && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    operation.cancel();
  });
  const Status status = operation.run([&] { return c.run(&binding); });
  const uint64_t copies = counts(0).copies + counts(1).copies;
  canceller.join();
  EXPECT_EQ(status.code(), TENON_CANCELLED);
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  EXPECT_EQ(counts(0).copies + counts(1).copies, copies);
  unsetenv("TENON_SIM_LATENCY");
  ASSERT_TRUE(c.run(&binding).ok()) << failure_text();
  c.expect_right(&binding);
  binding = Binding();
  program = Program();
  for (uint32_t d = 0; d < 2; ++d)
    EXPECT_EQ(counts(d).buffers + counts(d).queues + counts(d).fences, 0u) << d;
  end_process();
}
TEST(Copies, ACancelledRunLeavesNothingInUse) {
  IN_A_PROCESS(cancelled_before_downloads);
}

}  // namespace
}  // namespace tenon::devices_test
