// Streams and fences of another library in calls, and kernels of another plugin on a device's
// native stream (ADR 0040). sim.native/1 plays the other library.
#include "devices.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include <tenon/abi/exchange.h>
#include <tenon/abi/kernels.h>
#include <tenon/abi/plugins.h>
#include <tenon/cpp/plugin.hpp>

#include "plugins/sim/device/native.h"

namespace tenon::devices_test {
namespace {

constexpr std::string_view kModel = R"(tenon.tir 1
graph @g(%x: f32[64]) -> (y: f32[64]) {
  %y = add(%x, %x) : f32[64]
  yield %y
}
)";
constexpr int64_t kDims[] = {64};
constexpr uint64_t kPatienceNs = 60'000'000'000;

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

tenon_native_handle_t handle(std::string_view kind, uint64_t number, uint64_t value = 0) {
  auto out = sized<tenon_native_handle_t>();
  out.kind = str(kind);
  out.handle = number;
  out.value = value;
  return out;
}

void fails(Status status, std::string_view why) {
  EXPECT_FALSE(status.ok());
  EXPECT_NE(failure_text().find(why), std::string::npos) << failure_text();
}

class Natives : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(compile(session, kModel, "sim", &program).ok()) << failure_text();
    // A tensor of the other library: zeros for now.
    ASSERT_TRUE(Tensor::copy(ArrayView::of(zeros, {64}), &owner, "sim").ok());
    ASSERT_TRUE(owner.native("sim", "sim.handle", &memory).ok());
    ASSERT_TRUE(Tensor::adopt(TENON_F32, kDims, "sim", memory, &x).ok()) << failure_text();
    ASSERT_EQ(native().stream_create(nullptr, 0, &stream), TENON_OK);
    ASSERT_EQ(native().fence_create(nullptr, 0, &fence), TENON_OK);
  }
  void TearDown() override {
    native().fence_signal(nullptr, fence, UINT64_MAX);
    native().stream_destroy(nullptr, stream);
    native().fence_destroy(nullptr, fence);
  }
  // Puts work into the stream that waits for the fence, and then fills the tensor.
  void fill_later(float value, uint64_t fence_value) {
    fill = {memory.handle, value};
    ASSERT_EQ(native().stream_submit(
                  nullptr, stream, fence, fence_value,
                  [](void* self) {
                    const auto& f = *static_cast<const Fill*>(self);
                    void* data = nullptr;
                    native().address(nullptr, f.memory, &data);
                    for (int i = 0; i < 64; ++i) static_cast<float*>(data)[i] = f.value;
                  },
                  &fill),
              TENON_OK);
  }
  struct Fill {
    uint64_t memory = 0;
    float value = 0;
  } fill;
  Session session;
  Program program;
  const std::vector<float> zeros = std::vector<float>(64);
  Tensor owner, x;
  tenon_native_memory_t memory{};
  uint64_t stream = 0, fence = 0;
  std::vector<Output> out = std::vector<Output>(1);
};

// What the stream's owner has put there is done before the call reads.
TEST_F(Natives, ACallFollowsTheStream) {
  fill_later(3, 1);
  Operation operation;
  ASSERT_TRUE(operation.open().ok());
  const std::vector<Input> inputs = {Input(x)};
  Call call(program, inputs, out);
  call.stream("sim", handle("sim.queue", stream));
  ASSERT_TRUE(call.start(operation).ok()) << failure_text();
  EXPECT_EQ(operation.wait(30'000'000).code(), TENON_DEADLINE_EXCEEDED);
  native().fence_signal(nullptr, fence, 1);
  ASSERT_TRUE(call.finish(operation).ok()) << failure_text();
  EXPECT_EQ(out[0].as<float>()[63], 6);
  // The stream is still its owner's.
  fill_later(4, 1);
  ASSERT_TRUE(call.run().ok()) << failure_text();
  EXPECT_EQ(out[0].as<float>()[0], 8);
  EXPECT_EQ(counts().queues, 1u);  // the run needed none of its own
}

// Work goes to the first stream, and begins after what is in each of them.
TEST_F(Natives, ACallFollowsTwoStreams) {
  uint64_t other = 0;
  ASSERT_EQ(native().stream_create(nullptr, 0, &other), TENON_OK);
  const std::vector<Input> inputs = {Input(x)};
  float value = 3;
  for (const auto& [first, second] : {std::pair(other, stream), std::pair(stream, other)}) {
    fill_later(value, static_cast<uint64_t>(value));
    Operation operation;
    ASSERT_TRUE(operation.open().ok());
    Call call(program, inputs, out);
    call.stream("sim", handle("sim.queue", first));
    call.stream("sim", handle("sim.queue", second));
    ASSERT_TRUE(call.start(operation).ok()) << failure_text();
    EXPECT_EQ(operation.wait(30'000'000).code(), TENON_DEADLINE_EXCEEDED);
    native().fence_signal(nullptr, fence, static_cast<uint64_t>(value));
    ASSERT_TRUE(call.finish(operation).ok()) << failure_text();
    EXPECT_EQ(out[0].as<float>()[63], 2 * value);
    ++value;
  }
  native().stream_destroy(nullptr, other);
}

// Without a stream nothing orders the two: a call of its own does not wait.
TEST_F(Natives, ACallWithoutTheStreamDoesNotWait) {
  fill_later(3, 1);
  const std::vector<Input> inputs = {Input(x)};
  ASSERT_TRUE(program.call(inputs, out).ok()) << failure_text();
  EXPECT_EQ(out[0].as<float>()[0], 0);
}

TEST_F(Natives, WaitsAndSignals) {
  uint64_t done = 0;
  ASSERT_EQ(native().fence_create(nullptr, 0, &done), TENON_OK);
  Operation operation;
  ASSERT_TRUE(operation.open().ok());
  const std::vector<Input> inputs = {Input(x)};
  Call call(program, inputs, out);
  call.wait_for("sim", handle("sim.fence", fence, 5));
  call.signal("sim", handle("sim.fence", done, 7));
  ASSERT_TRUE(call.start(operation).ok()) << failure_text();
  native().fence_signal(nullptr, fence, 4);
  EXPECT_EQ(operation.wait(30'000'000).code(), TENON_DEADLINE_EXCEEDED);
  EXPECT_EQ(native().fence_wait(nullptr, done, 7, 0), TENON_DEADLINE_EXCEEDED);
  native().fence_signal(nullptr, fence, 5);
  ASSERT_TRUE(call.finish(operation).ok()) << failure_text();
  EXPECT_EQ(native().fence_wait(nullptr, done, 7, kPatienceNs), TENON_OK);
  EXPECT_EQ(native().fence_wait(nullptr, done, 8, 0), TENON_DEADLINE_EXCEEDED);
  EXPECT_EQ(counts().fences, 3u);  // both, and that of the run's queue
  native().fence_destroy(nullptr, done);
}

// A fence that never comes takes nothing with it.
TEST_F(Natives, WaitsAreCancelledAndFail) {
  Operation operation;
  ASSERT_TRUE(operation.open().ok());
  const std::vector<Input> inputs = {Input(x)};
  Call call(program, inputs, out);
  call.wait_for("sim", handle("sim.fence", fence, 1));
  ASSERT_TRUE(call.start(operation).ok()) << failure_text();
  EXPECT_EQ(operation.wait(20'000'000).code(), TENON_DEADLINE_EXCEEDED);
  operation.cancel();
  EXPECT_EQ(call.finish(operation).code(), TENON_CANCELLED);
  native().fence_fail(nullptr, fence, 1);
  fails(call.run(), "T0636");
  EXPECT_NE(failure_text().find("made it fail"), std::string::npos) << failure_text();
  EXPECT_TRUE(program.call(inputs, out).ok()) << failure_text();
}

TEST_F(Natives, WhatCallersGetWrong) {
  const std::vector<Input> inputs = {Input(x)};
  const auto with = [&](auto prepare) {
    Call call(program, inputs, out);
    prepare(call);
    return call.run();
  };
  const auto mine = handle("sim.queue", stream);
  fails(with([&](Call& c) { c.stream("sim:1", mine); }), "T0634");
  fails(with([&](Call& c) { c.wait_for("cpu", handle("sim.fence", fence)); }), "T0634");
  fails(with([&](Call& c) { c.stream("sim", mine), c.stream("sim:1", mine); }), "T0634");
  const auto foreign_stream = [&](Call& c) { c.stream("sim", handle("cuda.stream", stream)); };
  fails(with(foreign_stream), "T0635");
  fails(with(foreign_stream), "the device takes streams of the kind sim.queue");
  for (const bool to_signal : {false, true}) {
    const auto foreign_fence = [&](Call& c) {
      const auto event = handle("cuda.event", fence);
      to_signal ? c.signal("sim", event) : c.wait_for("sim", event);
    };
    fails(with(foreign_fence), "T0635");
    fails(with(foreign_fence), "the device takes fences of the kind sim.fence");
  }
  fails(with([&](Call& c) { c.stream("sim", handle("sim.queue", stream + 1000)); }),
        "not one of a stream");
  // 0 may be a stream, so the plugin is asked.
  fails(with([&](Call& c) { c.stream("sim", handle("sim.queue", 0)); }), "not one of a stream");
  fails(with([&](Call& c) { c.stream("sim", handle("sim.queue", stream | uint64_t{1} << 56)); }),
        "of device 1");
  fails(with([&](Call& c) { c.signal("sim", handle("sim.fence", fence + 1000)); }),
        "not one of a fence");
  auto flagged = mine;
  flagged.flags = 8;
  fails(with([&](Call& c) { c.stream("sim", flagged); }), "T0616");
  Model model;
  Program other;
  ASSERT_TRUE(session.load_bytes(kModel, "g.tir", &model).ok());
  ASSERT_TRUE(model.compile({.device = "reference"}, &other).ok()) << failure_text();
  Call call(other, std::span(inputs), out);
  call.stream("reference", mine);
  fails(call.run(), "T0635");
  ASSERT_TRUE(program.call(inputs, out).ok()) << failure_text();
}

TEST_F(Natives, EachThreadHasAStream) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      uint64_t mine = 0, done = 0;
      if (native().stream_create(nullptr, 0, &mine) != TENON_OK ||
          native().fence_create(nullptr, 0, &done) != TENON_OK)
        return;
      const std::vector<float> values(64, static_cast<float>(t));
      const std::vector<Input> inputs = {Input(ArrayView::of(values, {64}))};
      for (uint64_t round = 1; round <= 25; ++round) {
        std::vector<Output> results(1);
        Call call(program, inputs, results);
        call.stream("sim", handle("sim.queue", mine));
        call.signal("sim", handle("sim.fence", done, round));
        const bool ok = call.run().ok() &&
                        native().fence_wait(nullptr, done, round, kPatienceNs) == TENON_OK &&
                        results[0].as<float>()[63] == 2.0f * static_cast<float>(t);
        if (ok) ++right;
      }
      native().stream_destroy(nullptr, mine);
      native().fence_destroy(nullptr, done);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 100);
}

// A fault in the middle of a call that goes to a stream, and signals.
void with_a_fault(const char* faults, std::string_view why) {
  setenv("TENON_LIMIT_DEVICE_WAIT_SECONDS", "1", 1);
  Session session;
  Program program;
  ASSERT_TRUE(compile(session, kModel, "sim", &program).ok()) << failure_text();
  const std::vector<float> values(64, 1);
  const std::vector<Input> inputs = {Input(ArrayView::of(values, {64}))};
  std::vector<Output> out(1);
  ASSERT_TRUE(program.call(inputs, out).ok()) << failure_text();
  uint64_t stream = 0, fence = 0;
  ASSERT_EQ(native().stream_create(nullptr, 0, &stream), TENON_OK);
  ASSERT_EQ(native().fence_create(nullptr, 0, &fence), TENON_OK);
  setenv("TENON_SIM_FAULTS", faults, 1);
  Call call(program, inputs, out);
  call.stream("sim", handle("sim.queue", stream));
  call.signal("sim", handle("sim.fence", fence, 1));
  fails(call.run(), why);
  unsetenv("TENON_SIM_FAULTS");
  native().stream_destroy(nullptr, stream);
  native().fence_destroy(nullptr, fence);
  end_process();
}

TEST(NativeFaults, AFailedExecution) {
  IN_A_PROCESS([] { with_a_fault("launch=1", "injected"); });
}
TEST(NativeFaults, AFailedCopy) {
  IN_A_PROCESS([] { with_a_fault("copy=2", "injected"); });
}
TEST(NativeFaults, ALostDevice) {
  IN_A_PROCESS([] { with_a_fault("lost=2", "T0611"); });
}
// The device is lost in a call that uses memory of another library: the error has its code, and the
// library gets its memory back once.
void lost_with_adopted_memory() {
  Session session;
  Program program;
  ASSERT_TRUE(compile(session, kModel, "sim", &program).ok()) << failure_text();
  const std::vector<float> values(64, 1);
  Tensor owner, x;
  tenon_native_memory_t memory{};
  ASSERT_TRUE(Tensor::copy(ArrayView::of(values, {64}), &owner, "sim").ok());
  ASSERT_TRUE(owner.native("sim", "sim.handle", &memory).ok()) << failure_text();
  auto array = sized<tenon_array_t>();
  array.dtype = TENON_F32;
  array.rank = 1;
  array.dims = kDims;
  int released = 0;
  const auto& calls = *context().query<tenon_host_call_t>(TENON_HOST_CALL_ID);
  ASSERT_EQ(calls.tensor_adopt(
                calls.self, &array, str("sim"), &memory, &released,
                [](void* self) { ++*static_cast<int*>(self); }, x.out()),
            TENON_OK)
      << failure_text();
  setenv("TENON_SIM_FAULTS", "lost=1", 1);
  {
    const std::vector<Input> inputs = {Input(x)};
    std::vector<Output> out(1);
    const Status status = program.call(inputs, out);
    EXPECT_EQ(status.code(), TENON_DEVICE_LOST);
    fails(status, "T0611");
    fails(program.call(inputs, out), "T0611");
  }
  unsetenv("TENON_SIM_FAULTS");
  EXPECT_EQ(released, 0);
  x = Tensor();
  EXPECT_EQ(released, 1);
  owner = Tensor();
  program = Program();
  EXPECT_EQ(released, 1);
  end_process();
}
TEST(NativeFaults, ALostDeviceWithAdoptedMemory) {
  IN_A_PROCESS(lost_with_adopted_memory);
}
TEST(NativeFaults, AStreamThatStandsStill) {
  IN_A_PROCESS([] { with_a_fault("stall=2", "T0618"); });
}

// ---- Kernels of another plugin ----

const tenon_exchange_api_t& exchange() {
  static const auto* table = [] {
    const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
    const void* found = nullptr;
    registry->plugin_interface(registry->self, str("device"), str("sim"), str(TENON_EXCHANGE_ID),
                               &found);
    return static_cast<const tenon_exchange_api_t*>(found);
  }();
  return *table;
}

struct Triple {
  tenon_device_t* device;
};
std::atomic<int> g_runs{0};

tenon_code_t query_triple(void*, tenon_str_t, const tenon_kernel_call_t* call,
                          tenon_kernel_candidate_t* out) {
  if (call->operand_count != 1 || call->result_count != 1 || call->epilogue_count != 0)
    return fail(TENON_UNIMPLEMENTED, "triple: of one operand alone").code();
  const tenon_type_t& type = tenon_kernel_operand(call, 0)->type;
  if (type.dtype != TENON_F32 || type.rank != 1)
    return fail(TENON_UNIMPLEMENTED, "triple: of f32 vectors").code();
  out->part_count = 1;
  out->cost_ns = 0;
  out->name = str("triple");
  return TENON_OK;
}

// The address of a buffer is known on the stream only, so the work finds it there.
struct Work {
  uint64_t from, to;
  int64_t count;
};

tenon_code_t run_triple(void*, tenon_kernel_t* kernel, const tenon_kernel_args_t* args) {
  EXPECT_EQ(args->queue, nullptr);
  EXPECT_EQ(args->wait_count, 0u);
  EXPECT_EQ(args->signal.fence, nullptr);
  if (args->native_queue == nullptr) return TENON_INTERNAL;
  tenon_device_t* const device = reinterpret_cast<Triple*>(kernel)->device;
  auto from = sized<tenon_native_memory_t>(), to = sized<tenon_native_memory_t>();
  const tenon_exchange_api_t& x = exchange();
  x.export_memory(x.self, device, const_cast<tenon_buffer_t*>(args->inputs[0]), str("sim.handle"),
                  &from);
  x.export_memory(x.self, device, args->outputs[0], str("sim.handle"), &to);
  auto* const work = new Work{from.handle, to.handle, args->output_dims[0][0]};
  return native().stream_submit(
      nullptr, args->native_queue->handle, 0, 0,
      [](void* self) {
        const std::unique_ptr<Work> w(static_cast<Work*>(self));
        void *a = nullptr, *b = nullptr;
        native().address(nullptr, w->from, &a);
        native().address(nullptr, w->to, &b);
        for (int64_t i = 0; i < w->count; ++i)
          static_cast<float*>(b)[i] = 3 * static_cast<const float*>(a)[i];
        ++g_runs;
      },
      work);
}

// The set "computes" each op of one operand as a triple, so that the result says who ran. All else
// is sim's, so its kernels stand between others.
class NativeKernels : public Natives {
 protected:
  void SetUp() override {
    Natives::SetUp();
    plugins = context().query<tenon_host_plugins_t>(TENON_HOST_PLUGINS_ID);
    static tenon_kernels_api_t kernels = {};
    kernels.size_bytes = sizeof kernels;
    kernels.flags = TENON_KERNELS_ON_QUEUE;
    kernels.device_kind = str("sim");
    kernels.queue_kind = str("sim.queue");
    kernels.query = query_triple;
    kernels.create = [](void*, tenon_device_t* device, const tenon_kernel_call_t*,
                        tenon_kernel_t** out) -> tenon_code_t {
      *out = reinterpret_cast<tenon_kernel_t*>(new Triple{device});
      return TENON_OK;
    };
    kernels.destroy = [](void*, tenon_kernel_t* k) { delete reinterpret_cast<Triple*>(k); };
    kernels.run = run_triple;
    static const tenon_interface_t interfaces[] = {offer(TENON_KERNELS_ID, kernels)};
    static tenon_plugin_t plugin = {sizeof plugin, TENON_TARGET_ABI,
                                    str("triple"), str("1.0.0"),
                                    str("test"),   nullptr,
                                    interfaces,    1,
                                    nullptr,       sizeof(tenon_interface_t)};
    ASSERT_EQ(
        plugins->plugin_register(
            plugins->self, &plugin,
            str(R"({"schema": 1, "name": "triple", "version": "1.0.0", "provides": {"kernels": ["sim"]}})")),
        TENON_OK)
        << failure_text();
    setenv("TENON_SIM_LATENCY", "copy=200-2000,launch=200-2000,seed=3", 1);
  }
  void TearDown() override {
    for (const char* name : {"TENON_SIM_LATENCY", "TENON_SIM_HOLD", "TENON_SIM_OPS"})
      unsetenv(name);
    Natives::TearDown();
    mixed = Program();
    ASSERT_EQ(plugins->plugin_unregister(plugins->self, str("triple")), TENON_OK) << failure_text();
  }
  // Runs the nodes, which make %z of %x, on ones: as often as `rounds` says.
  void expect(const char* nodes, const char* devices, int rounds, float right) {
    const std::string text =
        cat("tenon.tir 1\ngraph @g(%x: f32[64]) -> (z: f32[64]) {\n", nodes, "  yield %z\n}\n");
    Model model;
    ASSERT_TRUE(session.load_bytes(text, "m.tir", &model).ok()) << failure_text();
    ASSERT_TRUE(model.compile({.device = devices}, &mixed).ok()) << failure_text();
    const std::vector<float> ones(64, 1);
    const int before = g_runs;
    for (int round = 0; round < rounds; ++round) {
      const std::vector<Input> inputs = {Input(ArrayView::of(ones, {64}))};
      ASSERT_TRUE(mixed.call(inputs, out).ok()) << failure_text();
      for (int i = 0; i < 64; ++i) ASSERT_EQ(out[0].as<float>()[i], right) << i;
    }
    EXPECT_EQ(g_runs - before, rounds);
  }
  const tenon_host_plugins_t* plugins = nullptr;
  Program mixed;
};

TEST_F(NativeKernels, RunInTheOrderOfTheDevicesOwn) {
  expect("  %y = add(%x, %x) : f32[64]\n  %n = neg(%y) : f32[64]\n  %z = add(%n, %n) : f32[64]\n",
         "sim", 20, 12);
}

// The copy of a value that comes from another device is held back, and does not reach the stream
// before that value is there. A kernel in the stream must not come before it.
TEST_F(NativeKernels, DoNotOvertakeWhatIsHeld) {
  setenv("TENON_SIM_HOLD", "1", 1);
  setenv("TENON_SIM_OPS", "0/sub,1/add", 1);
  expect("  %y = add(%x, %x) : f32[64]\n  %n = neg(%y) : f32[64]\n  %z = sub(%n, %x) : f32[64]\n",
         "sim,sim:1", 20, 5);
}

}  // namespace
}  // namespace tenon::devices_test
