#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>

#include "core/base/errors/failure.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/runtime/run/run.h"

namespace tenon::runtime {
namespace {

// ---- A toy device: host memory, and an executable that adds all i32 inputs ----

struct Toy {
  bool hidden = false;  // the host cannot access its memory
  bool queued = false;
  tenon_code_t fail_execute = TENON_OK;
  uint64_t output_bytes = 16;                               // that it asks for
  uint64_t workspace_bytes = 64, more_workspace_bytes = 0;  // more for each further executable
  int64_t found = 2;  // the value of symbols that an execution defines
  int buffers = 0, executions = 0, imports = 0, imported = 0, releases = 0;
  int fail_allocs = 0;  // this many further allocations fail
  tenon_code_t fail_import = TENON_OK, fail_map = TENON_OK, fail_load = TENON_OK,
               refuse_execute = TENON_OK;
  bool no_queue = false;  // returns OK and null
  double latency_ns = 0;
  tenon_str_t description{};
  uint64_t memory_at_queue_end = 0;
  int fences = 0;
  uint32_t threading = TENON_THREADING_SERIAL;
  uint64_t submitted = 0;                // the last values of any fence
  std::atomic<uint64_t> fence_waits{0};  // also from relay threads
  std::atomic<int> fail_relay_waits{0};  // this many more relay waits fail; the fence is fine
  std::atomic<int> refuse_signals{0};    // this many more signals take effect but report a refusal
  bool hung = false;                     // from here on no submitted work begins
  int queues = 0;
  std::thread::id home = std::this_thread::get_id();
};

// Signalled by work that completes at submission, and by the host on a thread of its own.
class ToyFence {
 public:
  void signal(uint64_t value, tenon_code_t code = TENON_OK) {
    const std::lock_guard lock(mutex_);
    value_ = value;
    if (code != TENON_OK) code_ = code;
    changed_.notify_all();
  }
  tenon_code_t query(uint64_t* out) {
    const std::lock_guard lock(mutex_);
    *out = value_;
    return code_;
  }
  tenon_code_t wait(uint64_t value, uint64_t timeout_ns) {
    std::unique_lock lock(mutex_);
    const auto done = [&] { return code_ != TENON_OK || value_ >= value; };
    const auto longest =
        std::chrono::nanoseconds(std::min(timeout_ns, uint64_t{3'600'000'000'000}));
    if (!changed_.wait_for(lock, longest, done)) return TENON_DEADLINE_EXCEEDED;
    return code_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t value_ = 0;
  tenon_code_t code_ = TENON_OK;
};
ToyFence* toy_fence_of(const tenon_fence_point_t& point) {
  return reinterpret_cast<ToyFence*>(point.fence);
}

// The queue does its work at submission, which therefore waits. The fence that a failure reached
// reports it.
void toy_await(const tenon_fence_point_t* waits, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (waits[i].fence != nullptr) (void)toy_fence_of(waits[i])->wait(waits[i].value, UINT64_MAX);
  }
}

struct ToyBuffer {
  std::vector<std::byte> own;
  std::byte* data;
};

tenon_code_t toy_count(void*, uint32_t* out) {
  return *out = 1, TENON_OK;
}
tenon_code_t toy_info(void* self, uint32_t, tenon_device_info_t* out) {
  out->kind = {"toy", 3};
  out->target = {"toy", 3};
  out->alignment_bytes = 16;
  out->threading = static_cast<Toy*>(self)->threading;
  out->copy_latency_ns = static_cast<Toy*>(self)->latency_ns;
  out->description = static_cast<Toy*>(self)->description;
  return TENON_OK;
}
tenon_code_t toy_open(void* self, uint32_t, tenon_device_t** out) {
  *out = reinterpret_cast<tenon_device_t*>(self);
  return TENON_OK;
}
tenon_code_t toy_close(void*, tenon_device_t*) {
  return TENON_OK;
}
tenon_code_t toy_alloc(void* self, tenon_device_t*, uint64_t size, tenon_buffer_t** out) {
  auto* b = new ToyBuffer{std::vector<std::byte>(size), nullptr};
  b->data = b->own.data();
  if (static_cast<Toy*>(self)->fail_allocs > 0) {
    --static_cast<Toy*>(self)->fail_allocs;
    delete b;
    *out = reinterpret_cast<tenon_buffer_t*>(1);  // garbage with an error
    return TENON_RESOURCE_EXHAUSTED;
  }
  ++static_cast<Toy*>(self)->buffers;
  *out = reinterpret_cast<tenon_buffer_t*>(b);
  return TENON_OK;
}
tenon_code_t toy_free(void* self, tenon_device_t*, tenon_buffer_t* buffer) {
  --static_cast<Toy*>(self)->buffers;
  if (reinterpret_cast<ToyBuffer*>(buffer)->own.empty()) --static_cast<Toy*>(self)->imported;
  delete reinterpret_cast<ToyBuffer*>(buffer);
  return TENON_OK;
}
tenon_code_t toy_copy(void*, tenon_device_t*, const tenon_copy_t* c) {
  if (c->direction == TENON_COPY_HOST_TO_DEVICE) {
    std::memcpy(reinterpret_cast<ToyBuffer*>(c->to)->data + c->to_offset_bytes, c->host_from,
                c->length_bytes);
  } else {
    std::memcpy(c->host_to, reinterpret_cast<ToyBuffer*>(c->from)->data + c->from_offset_bytes,
                c->length_bytes);
  }
  return TENON_OK;
}
tenon_code_t toy_map(void* self, tenon_device_t*, tenon_buffer_t* buffer, void** out) {
  if (static_cast<Toy*>(self)->fail_map != TENON_OK) return static_cast<Toy*>(self)->fail_map;
  *out = reinterpret_cast<ToyBuffer*>(buffer)->data;
  return TENON_OK;
}
tenon_code_t toy_import(void* self, tenon_device_t*, const tenon_memory_import_t* memory,
                        tenon_buffer_t** out) {
  auto* toy = static_cast<Toy*>(self);
  if (toy->fail_import != TENON_OK) return toy->fail_import;
  ++toy->imports;
  ++toy->imported;
  ++toy->buffers;
  *out =
      reinterpret_cast<tenon_buffer_t*>(new ToyBuffer{{}, static_cast<std::byte*>(memory->data)});
  return TENON_OK;
}

tenon_code_t toy_load(void* self, tenon_device_t*, const void*, uint64_t, tenon_blob_t* const*,
                      uint32_t, tenon_executable_t** out) {
  *out = reinterpret_cast<tenon_executable_t*>(self);
  return static_cast<Toy*>(self)->fail_load;
}
void toy_release(void* self, tenon_executable_t*) {
  ++static_cast<Toy*>(self)->releases;
}
tenon_code_t toy_executable_info(void*, tenon_executable_t*, tenon_executable_info_t*) {
  return TENON_OK;
}
tenon_code_t toy_needs(void* self, tenon_executable_t*, tenon_symbols_t, tenon_needs_t* needs) {
  for (uint32_t i = 0; i < needs->output_count; ++i) {
    tenon_need(needs, i)[0].size_bytes_max = static_cast<Toy*>(self)->output_bytes;
    tenon_need(needs, i)[0].dims[0] = 4;
  }
  auto* toy = static_cast<Toy*>(self);
  needs->workspace_bytes = toy->workspace_bytes;
  toy->workspace_bytes += toy->more_workspace_bytes;
  needs->lower_bound_bytes = 32;
  return TENON_OK;
}
tenon_code_t toy_execute(void* self, tenon_executable_t*, const tenon_call_t* call) {
  auto* toy = static_cast<Toy*>(self);
  toy_await(call->waits, call->wait_count);
  ++toy->executions;
  if (toy->refuse_execute != TENON_OK) return toy->refuse_execute;
  if (toy->fail_execute != TENON_OK && !toy->queued) return toy->fail_execute;
  auto at = [](const tenon_span_t& s) {
    return reinterpret_cast<int32_t*>(reinterpret_cast<ToyBuffer*>(s.buffer)->data +
                                      s.offset_bytes);
  };
  for (int i = 0; i < 4; ++i) {
    int32_t sum = 1;
    for (uint32_t k = 0; k < call->input_count; ++k) sum += at(*tenon_call_input(call, k))[i];
    for (uint32_t k = 0; k < call->output_count; ++k) at(*tenon_call_output(call, k))[i] = sum;
  }
  for (uint32_t k = 0; k < call->out_symbol_count; ++k) call->out_symbols[k] = toy->found;
  if (call->profile != nullptr) {
    const tenon_profile_event_t event = {sizeof event, 2, {"add\"1", 5}, {"n", 1}, 10, 30, 4, 16};
    call->profile->event(call->profile->self, &event);
  }
  if (ToyFence* fence = toy_fence_of(call->signal)) {
    fence->signal(toy->submitted = call->signal.value, toy->fail_execute);
  }
  return TENON_OK;
}
tenon_code_t toy_queue(void* self, tenon_device_t*, tenon_queue_t** out) {
  ++static_cast<Toy*>(self)->queues;
  *out = static_cast<Toy*>(self)->no_queue ? nullptr : static_cast<tenon_queue_t*>(self);
  return TENON_OK;
}
tenon_code_t toy_queue_destroy(void* self, tenon_queue_t*) {
  --static_cast<Toy*>(self)->queues;
  static_cast<Toy*>(self)->memory_at_queue_end = memory_in_use();
  return TENON_OK;
}
tenon_code_t toy_copy_async(void* self, tenon_queue_t*, const tenon_copy_t* c,
                            const tenon_fence_point_t* waits, uint32_t wait_count,
                            tenon_fence_point_t signal) {
  if (static_cast<Toy*>(self)->hung) return TENON_OK;
  toy_await(waits, wait_count);
  const tenon_code_t code = toy_copy(self, nullptr, c);
  toy_fence_of(signal)->signal(static_cast<Toy*>(self)->submitted = signal.value, code);
  return code;
}
tenon_code_t toy_fence(void* self, tenon_device_t*, uint64_t, tenon_fence_t** out) {
  ++static_cast<Toy*>(self)->fences;
  *out = reinterpret_cast<tenon_fence_t*>(new ToyFence);
  return TENON_OK;
}
tenon_code_t toy_fence_destroy(void* self, tenon_fence_t* fence) {
  --static_cast<Toy*>(self)->fences;
  delete reinterpret_cast<ToyFence*>(fence);
  return TENON_OK;
}
tenon_code_t toy_fence_query(void*, tenon_fence_t* fence, uint64_t* out) {
  return reinterpret_cast<ToyFence*>(fence)->query(out);
}
// True that many times.
bool counts_down(std::atomic<int>& left) {
  if (left.fetch_sub(1) > 0) return true;
  ++left;
  return false;
}
tenon_code_t toy_fence_signal(void* self, tenon_fence_t* fence, uint64_t value) {
  reinterpret_cast<ToyFence*>(fence)->signal(value);
  return counts_down(static_cast<Toy*>(self)->refuse_signals) ? TENON_INTERNAL : TENON_OK;
}
tenon_code_t toy_fence_wait(void* self, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  auto* toy = static_cast<Toy*>(self);
  toy->fence_waits = value;
  if (std::this_thread::get_id() != toy->home && counts_down(toy->fail_relay_waits))
    return TENON_RESOURCE_EXHAUSTED;
  return reinterpret_cast<ToyFence*>(fence)->wait(value, timeout_ns);
}

// ---- A graph of three arguments: as much of the table as Shapes needs ----

struct Fixture : testing::Test {
  Toy toy;
  tenon_device_api_t device_api{sizeof(device_api), &toy,      toy_count,  toy_info,
                                toy_open,           toy_close, toy_alloc,  toy_free,
                                toy_copy,           toy_map,   toy_import, nullptr};
  tenon_compile_api_t compile_api{};
  tenon_queue_api_t queue_api{sizeof(queue_api),
                              &toy,
                              toy_queue,
                              toy_queue_destroy,
                              toy_copy_async,
                              toy_fence,
                              toy_fence_destroy,
                              toy_fence_query,
                              toy_fence_signal,
                              toy_fence_wait,
                              nullptr};
  tenon_host_graph_t graph_api{};
  tenon_value_t arguments[2] = {0, 1}, yields[1] = {2};
  tenon_dim_t four[1] = {4};

  void SetUp() override {
    compile_api.size_bytes = sizeof(compile_api);
    compile_api.self = &toy;
    compile_api.load = toy_load;
    compile_api.executable_release = toy_release;
    compile_api.executable_info = toy_executable_info;
    compile_api.needs = toy_needs;
    compile_api.execute = toy_execute;
    graph_api.self = this;
    graph_api.graph_view = [](void*, tenon_graph_t*, tenon_graph_view_t* v) {
      return v->main = 0, TENON_OK;
    };
    graph_api.region_view = [](void* self, tenon_graph_t*, tenon_region_t,
                               tenon_region_view_t* v) -> tenon_code_t {
      auto* f = static_cast<Fixture*>(self);
      v->argument_count = 2;
      v->arguments = f->arguments;
      v->yield_count = 1;
      v->yields = f->yields;
      return TENON_OK;
    };
    graph_api.value_view = [](void* self, tenon_graph_t*, tenon_value_t,
                              tenon_value_view_t* v) -> tenon_code_t {
      v->type = {TENON_I32, TENON_KIND_TENSOR, 1, static_cast<Fixture*>(self)->four, 0};
      return TENON_OK;
    };
  }

  std::shared_ptr<Device> make_device() {
    if (toy.hidden) device_api.map = nullptr, device_api.import = nullptr;
    auto made = Device::create(
        {"toy-plugin", &device_api, &compile_api, toy.queued ? &queue_api : nullptr}, 0);
    EXPECT_TRUE(made.ok());
    return *made;
  }

  // out = (a + b + 1) + 1, with the second execution on another device.
  std::shared_ptr<Plan> make_plan(std::shared_ptr<Device> first, std::shared_ptr<Device> second) {
    auto plan = std::make_shared<Plan>();
    plan->api = &graph_api;
    plan->shapes = *Shapes::create(graph_api, nullptr, {});
    plan->devices = {first, second};
    for (const auto& d : plan->devices) {
      auto loaded = Executable::load(d, {}, {{}, {1}});
      EXPECT_TRUE(loaded.ok());
      plan->executables.push_back(std::move(*loaded));
    }
    auto slot = [](Slot::Source source, uint32_t input, uint32_t last) {
      Slot s;
      s.source = source;
      s.input = input;
      s.dtype = TENON_I32;
      s.dims = {4};
      s.last_step = last;
      return s;
    };
    plan->slots = {slot(Slot::Source::kInput, 0, 2), slot(Slot::Source::kInput, 1, 2),
                   slot(Slot::Source::kSegment, 0, 4), slot(Slot::Source::kSegment, 0, UINT32_MAX)};
    auto copy = [](uint32_t s, uint32_t d) {
      Step step;
      step.kind = Step::Kind::kCopy;
      step.slot = s;
      step.device = d;
      return step;
    };
    Step one, two;
    one.inputs = {0, 1};
    one.outputs = {2};
    two.device = 1;
    two.executable = 1;
    two.inputs = {2};
    two.outputs = {3};
    plan->steps = {copy(0, 0), copy(1, 0), one, copy(2, 1), two};
    plan->output_slots = {3};
    return plan;
  }

  // out = a + b + 1 on one device; with `twice`, executed once more.
  std::shared_ptr<Plan> one_device_plan(bool twice = false) {
    std::shared_ptr<Device> device = make_device();
    std::shared_ptr<Plan> plan = make_plan(device, device);
    plan->devices.pop_back();
    plan->steps.erase(plan->steps.begin() + 3);
    plan->steps[3].device = 0;
    plan->slots[2].last_step = 3;
    if (twice) return plan;
    plan->steps.pop_back();
    plan->slots[2].last_step = UINT32_MAX;
    plan->output_slots = {2};
    return plan;
  }
  // Everything of a device that is given up is kept; for leak checkers, in memory of the device.
  static void keep_for_good(const std::shared_ptr<Device>& device) {
    static auto* kept = new std::vector<std::shared_ptr<Device>>();
    kept->push_back(device);
  }

  alignas(16) int32_t a[4] = {1, 2, 3, 4};
  alignas(16) int32_t b[4] = {10, 20, 30, 40};
  int64_t dims[1] = {4};
  tenon_array_t array(void* data) {
    return {sizeof(tenon_array_t), TENON_I32, 0, 1, 0, data, dims, nullptr};
  }

  Status run(Runner& runner) {
    const tenon_array_t x = array(a), y = array(b);
    const Argument inputs[] = {{&x}, {&y}};
    return runner.run(inputs);
  }
  void expect_right(const Runner& runner) {
    ASSERT_EQ(runner.outputs().size(), 1u);
    const auto* out = static_cast<const int32_t*>(runner.outputs()[0].data);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], a[i] + b[i] + 2);
  }
};

TEST_F(Fixture, SharedMemoryIsImportedAndBuffersComeBack) {
  const uint64_t before = memory_in_use();
  {
    Runner runner(make_plan(make_device(), make_device()));
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(run(runner).ok());
      expect_right(runner);
    }
    EXPECT_EQ(toy.imports, 9);  // two inputs and the value between the devices, each run
    EXPECT_EQ(runner.statistics().transferred_bytes, 0u);
    EXPECT_EQ(runner.statistics().arena_lower_bound_bytes, 32u);
  }
  EXPECT_EQ(toy.buffers, 0);
  EXPECT_EQ(memory_in_use(), before);
}

TEST_F(Fixture, HiddenMemoryIsCopiedAndCounted) {
  toy.hidden = true;
  Runner runner(make_plan(make_device(), make_device()));
  ASSERT_TRUE(run(runner).ok());
  expect_right(runner);
  EXPECT_EQ(runner.statistics().transferred_bytes,
            16u * 5);  // two in, one out and in again, one out
}

TEST_F(Fixture, QueuesGiveTheSame) {
  toy.hidden = toy.queued = true;
  Runner runner(make_plan(make_device(), make_device()));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(run(runner).ok());
    expect_right(runner);
  }
}

// The fence's value shows that work is done: no run waits until the device would be given up.
TEST_F(Fixture, WaitsThatAlwaysEndTooEarlyDoNotHoldARun) {
  toy.hidden = toy.queued = true;
  queue_api.fence_wait = [](void*, tenon_fence_t*, uint64_t, uint64_t) -> tenon_code_t {
    return TENON_DEADLINE_EXCEEDED;
  };
  Runner runner(make_plan(make_device(), make_device()));
  ASSERT_TRUE(run(runner).ok());
  expect_right(runner);
}

TEST_F(Fixture, KernelsOfAnotherPluginWaitForTheQueueAndUseNone) {
  toy.hidden = toy.queued = true;
  static bool queue_was_empty, on_queue;
  static Toy* the_toy;
  the_toy = &toy;
  tenon_compile_api_t set = compile_api;
  set.execute = [](void* self, tenon_executable_t* e, const tenon_call_t* call) {
    queue_was_empty = the_toy->fence_waits == the_toy->submitted;
    on_queue = call->queue != nullptr || call->signal.fence != nullptr;
    return toy_execute(self, e, call);
  };
  auto with_set = [&] {
    device_api.map = nullptr, device_api.import = nullptr;
    const DeviceApis apis{"toy-plugin", &device_api, &compile_api, &queue_api};
    apis.kernel_sets->add({"set", &set});
    return *Device::create(apis, 0);
  };
  auto plan = make_plan(with_set(), with_set());
  // Both on one device, the second by the kernel set.
  plan->executables[1] = *Executable::load(plan->devices[0], {}, {{}, {1}, 1});
  plan->steps[4].device = 0;
  plan->steps.erase(plan->steps.begin() + 3);
  plan->slots[2].last_step = 3;
  Runner runner(plan);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(run(runner).ok());
    expect_right(runner);
    EXPECT_TRUE(queue_was_empty);
    EXPECT_FALSE(on_queue);
  }
}

TEST_F(Fixture, FailureOfQueuedWorkIsToldAndTheNextRunIsRight) {
  toy.hidden = toy.queued = true;
  Runner runner(make_plan(make_device(), make_device()));
  toy.fail_execute = TENON_INTERNAL;
  EXPECT_EQ(run(runner).code(), TENON_INTERNAL);
  EXPECT_TRUE(runner.outputs().empty());
  toy.fail_execute = TENON_OK;
  ASSERT_TRUE(run(runner).ok());
  expect_right(runner);
}

TEST_F(Fixture, FailedQueueEndsBeforeItsMemoryGoes) {
  toy.hidden = toy.queued = true;
  Runner runner(make_plan(make_device(), make_device()));
  toy.fail_execute = TENON_INTERNAL;  // copies to the host follow it, one from each device
  EXPECT_EQ(run(runner).code(), TENON_INTERNAL);
  EXPECT_EQ(toy.memory_at_queue_end, memory_in_use() + 32);
}

// Outputs of 1 MiB took buffers of 2 MiB, and held them as long as the caller kept the outputs.
TEST_F(Fixture, WhatLeavesAPoolWastesLittle) {
  BufferPool pool(make_device(), [] { return Status(); });
  pool.give_back(*pool.take(2 << 20));
  const auto leaves = *pool.take(1 << 20, nullptr, true);
  EXPECT_EQ(leaves->size_bytes(), uint64_t{1} << 20);
  const auto comes_back = *pool.take(1 << 20);
  EXPECT_EQ(comes_back->size_bytes(), uint64_t{2} << 20);
}

// A forward and a backward program held as much as both need, at all times.
TEST_F(Fixture, PoolsBetweenCallsLendTheirBuffers) {
  const auto device = make_device();
  const auto wait = [] { return Status(); };
  BufferPool first(device, wait), second(device, wait);
  constexpr uint64_t kBytes = 1 << 20;
  first.give_back(*first.take(kBytes));
  EXPECT_EQ(second.take(kBytes).ok(), true);  // the other one has a call
  EXPECT_EQ(toy.buffers, 1);                  // so it was another buffer, which is gone
  first.offer();
  auto taken = *second.take(kBytes);
  EXPECT_EQ(toy.buffers, 1);
  EXPECT_EQ(first.held_bytes(), 0u);
  second.give_back(std::move(taken));
  second.offer();
  first.withdraw();
  EXPECT_EQ((*first.take(kBytes))->size_bytes(), kBytes);  // it comes back
  EXPECT_EQ(second.held_bytes(), kBytes);                  // of the one that is gone
}

TEST_F(Fixture, PoolsOfDevicesWithQueuesLendNothing) {
  toy.queued = true;
  const auto device = make_device();
  const auto wait = [] { return Status(); };
  BufferPool first(device, wait), second(device, wait);
  first.give_back(*first.take(1 << 20));
  first.offer();
  const auto taken = *second.take(1 << 20);
  EXPECT_EQ(toy.buffers, 2);
}

// Steps that need more and more workspace kept one for each.
TEST_F(Fixture, OneWorkspaceServesAllSteps) {
  toy.workspace_bytes = toy.more_workspace_bytes = 1 << 20;
  Runner runner(one_device_plan(true));
  ASSERT_TRUE(run(runner).ok());
  EXPECT_GE(runner.statistics().arena_bytes, uint64_t{3} << 20);
  ASSERT_TRUE(run(runner).ok());
  ASSERT_TRUE(run(runner).ok());
  EXPECT_LT(runner.statistics().arena_bytes, (uint64_t{2} << 20) + 4096);
  expect_right(runner);
}

// A run failed for want of a workspace as large as that of the run before, though its step needs
// less.
TEST_F(Fixture, AStepTakesTheWorkspaceThatItNeedsWhereThereIsNoMoreMemory) {
  toy.more_workspace_bytes = 1 << 20;  // for the second step
  const std::shared_ptr<Plan> plan = one_device_plan(true);
  Runner runner(plan);
  ASSERT_TRUE(run(runner).ok());
  runner.end_call();
  BufferPool other(plan->devices[0], [] { return Status(); });
  const auto lent = *other.take(1 << 20);
  runner.begin_call();
  toy.fail_allocs = 2;
  const Status status = run(runner);
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(toy.fail_allocs, 0);
  expect_right(runner);
}

TEST_F(Fixture, RefusedSubmissionEndsItsQueue) {
  toy.hidden = toy.queued = true;
  Runner runner(make_plan(make_device(), make_device()));
  toy.refuse_execute = TENON_INTERNAL;
  EXPECT_EQ(run(runner).code(), TENON_INTERNAL);
  EXPECT_EQ(toy.queues, 0);
  toy.refuse_execute = TENON_OK;
  ASSERT_TRUE(run(runner).ok());
  expect_right(runner);
}

// ---- Handles of other libraries ----

tenon_code_t toy_kinds(void*, uint32_t, tenon_str_t* out) {
  return *out = to_abi_str("toy.pointer,toy.page"), TENON_OK;
}
tenon_code_t toy_queue_kinds(void*, uint32_t, tenon_str_t* streams, tenon_str_t*) {
  return *streams = to_abi_str("toy.stream"), TENON_OK;
}
tenon_code_t toy_import_memory(void*, tenon_device_t*, const tenon_native_memory_t*,
                               tenon_buffer_t**) {
  return TENON_UNIMPLEMENTED;
}
tenon_code_t toy_import_queue(void*, tenon_device_t*, const tenon_native_handle_t*,
                              tenon_queue_t**) {
  return TENON_UNIMPLEMENTED;
}
tenon_code_t toy_import_fence(void*, tenon_device_t*, const tenon_native_handle_t*,
                              tenon_fence_point_t*) {
  return TENON_UNIMPLEMENTED;
}

TEST_F(Fixture, ARefusalNamesTheKindsThatTheDeviceTakes) {
  tenon_exchange_api_t exchange{sizeof exchange,   &toy,    toy_kinds,
                                toy_import_memory, nullptr, nullptr,
                                nullptr,           nullptr, nullptr};
  const auto make = [&] {
    return *Device::create({"toy-plugin", &device_api, &compile_api, &queue_api, &exchange}, 0);
  };
  const auto expect = [](const Status& status, std::string_view code, std::string_view text) {
    EXPECT_EQ(status.code(), TENON_UNIMPLEMENTED);
    EXPECT_EQ(status.error_code(), code) << status.text();
    EXPECT_NE(status.text().find(text), std::string::npos) << status.text();
  };
  auto memory = sized<tenon_native_memory_t>();
  memory.kind = to_abi_str("their.pointer");
  expect(Buffer::adopt(make(), memory).status(), "T0633",
         "; the device takes memory of the kinds toy.pointer, toy.page");
  // One that the plugin refuses for another reason.
  memory.kind = to_abi_str("toy.page");
  const Status known = Buffer::adopt(make(), memory).status();
  expect(known, "T0002", "import of a handle");
  EXPECT_EQ(known.text().find("the device takes"), std::string::npos) << known.text();
  auto native = sized<tenon_native_handle_t>();
  native.kind = to_abi_str("their.stream");
  expect(Queue::import(make(), native).status(), "T0635", "imports none");
  exchange.queue_kinds = toy_queue_kinds;
  exchange.import_queue = toy_import_queue;
  exchange.import_fence = toy_import_fence;
  expect(Queue::import(make(), native).status(), "T0635",
         "; the device takes streams of the kind toy.stream");
  native.kind = to_abi_str("their.event");
  expect(NativeFence::import(make(), native, false).status(), "T0635",
         "; the device takes no fences of other libraries");
  EXPECT_EQ(make()->exchange_kinds().memory, (std::vector<std::string>{"toy.pointer", "toy.page"}));
  EXPECT_TRUE(make_device()->exchange_kinds().memory.empty());
}

TEST_F(Fixture, PoolWaitsForItsRunBeforeItIsEmptied) {
  int waits = 0;
  Status answer;
  BufferPool pool(make_device(), [&] { return ++waits, answer; });
  pool.give_back(*pool.take(16));
  toy.fail_allocs = 1;
  ASSERT_TRUE(pool.take(1 << 20).ok());
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(pool.held_bytes(), uint64_t{1} << 20);
  // Work that did not end may still use these buffers.
  pool.give_back(*pool.take(16));
  toy.fail_allocs = 1;
  answer = error(TENON_DEVICE_LOST, "T0618", "given up");
  EXPECT_EQ(pool.take(2 << 20).status().code(), TENON_DEVICE_LOST);
  EXPECT_EQ(pool.held_bytes(), (uint64_t{1} << 20) + 16);
}

// Everything is given up at the first check: nothing else makes progress here.
struct GivenUp : Fixture {
  static inline Toy* the_toy;
  const uint64_t old = limit(Limit::kDeviceWaitSeconds);
  void SetUp() override {
    Fixture::SetUp();
    set_limit(Limit::kDeviceWaitSeconds, 0);
    toy.hidden = toy.queued = true;
    the_toy = &toy;
  }
  void TearDown() override { set_limit(Limit::kDeviceWaitSeconds, old); }
  // The first execution never ends.
  static tenon_code_t hang(void*, tenon_executable_t*, const tenon_call_t*) {
    the_toy->hung = true;
    return ++the_toy->executions, TENON_OK;
  }
};

TEST_F(GivenUp, WhereASubmissionIsRefused) {
  compile_api.execute = [](void* self, tenon_executable_t* e, const tenon_call_t* call) {
    return the_toy->executions == 0 ? hang(self, e, call) : TENON_ABORTED;
  };
  const std::shared_ptr<Plan> plan = one_device_plan(true);
  keep_for_good(plan->devices[0]);
  Runner runner(plan);
  EXPECT_EQ(run(runner).error_code(), "T0618");
  EXPECT_TRUE(plan->devices[0]->abandoned());
}

TEST_F(GivenUp, WhereMemoryIsExhausted) {
  compile_api.needs = [](void* self, tenon_executable_t* e, tenon_symbols_t symbols,
                         tenon_needs_t* needs) {
    const tenon_code_t code = toy_needs(self, e, symbols, needs);
    return tenon_need(needs, 0)[0].size_bytes_max = 1 << 20, code;
  };
  compile_api.execute = [](void* self, tenon_executable_t* e, const tenon_call_t* call) {
    the_toy->fail_allocs =
        1;  // the second execution's output, if the first one's workspace lies there
    return hang(self, e, call);
  };
  const std::shared_ptr<Plan> plan = one_device_plan(true);
  keep_for_good(plan->devices[0]);
  Runner runner(plan);
  EXPECT_EQ(run(runner).error_code(), "T0618");
  EXPECT_EQ(toy.executions, 1);
}

// Work that was given up may end at any time, and then reports to the profile that it was lent.
TEST_F(GivenUp, TheProfileStays) {
  static const tenon_profile_sink_t* lent;
  compile_api.execute = [](void* self, tenon_executable_t* e, const tenon_call_t* call) {
    lent = call->profile;
    return hang(self, e, call);
  };
  const std::shared_ptr<Plan> plan = one_device_plan();
  keep_for_good(plan->devices[0]);
  auto trace = std::make_shared<Trace>();
  const std::weak_ptr<Trace> seen = trace;
  {
    Runner runner(plan);
    runner.set_trace(std::move(trace));
    EXPECT_EQ(run(runner).error_code(), "T0618");
    EXPECT_FALSE(run(runner).ok());  // with sinks of its own
  }
  ASSERT_FALSE(seen.expired());
  const tenon_profile_event_t late = {sizeof late, 0, {"late", 4}, {}, 1, 2, 0, 0};
  lent->event(lent->self, &late);
  EXPECT_EQ(seen.lock()->events().back().name, "late");
}

// The source's own fence is fine: only the relay knows that the second device may have worked on
// missing data.
TEST_F(Fixture, AWaitThatFailsOnARelayFailsTheRun) {
  toy.hidden = toy.queued = true;
  Runner runner(make_plan(make_device(), make_device()));
  ASSERT_TRUE(run(runner).ok());
  toy.fail_relay_waits = 1;
  const Status status = run(runner);
  EXPECT_EQ(status.code(), TENON_RESOURCE_EXHAUSTED) << status.text();
  EXPECT_NE(status.text().find("waiting for device `toy`"), std::string::npos) << status.text();
  EXPECT_TRUE(runner.outputs().empty());
  ASSERT_TRUE(run(runner).ok());
  expect_right(runner);
}

TEST_F(Fixture, ASignalThatIsRefusedFailsTheRun) {
  toy.hidden = toy.queued = true;
  Runner runner(make_plan(make_device(), make_device()));
  toy.refuse_signals = 1;
  const Status status = run(runner);
  EXPECT_EQ(status.code(), TENON_INTERNAL) << status.text();
  EXPECT_NE(status.text().find("fence_signal"), std::string::npos) << status.text();
  ASSERT_TRUE(run(runner).ok());
  expect_right(runner);
}

TEST_F(Fixture, ImportsEndWithTheRun) {
  toy.queued = true;
  Runner runner(make_plan(make_device(), make_device()));
  ASSERT_TRUE(run(runner).ok());
  EXPECT_GT(toy.imports, 0);
  EXPECT_EQ(toy.imported, 0);
  expect_right(runner);
}

TEST_F(Fixture, ImportThatFailsIsACopy) {
  Runner runner(make_plan(make_device(), make_device()));
  toy.fail_import = TENON_INTERNAL;
  ASSERT_TRUE(run(runner).ok());
  expect_right(runner);
  toy.fail_import = TENON_DEVICE_LOST;
  EXPECT_EQ(run(runner).code(), TENON_DEVICE_LOST);
}

TEST_F(Fixture, BufferThatCannotBeMappedIsCopied) {
  Runner runner(make_plan(make_device(), make_device()));
  toy.fail_import = toy.fail_map = TENON_UNIMPLEMENTED;
  ASSERT_TRUE(run(runner).ok());
  expect_right(runner);
}

TEST_F(Fixture, WhatStandsBesideAnErrorIsNotReleased) {
  toy.fail_load = TENON_INTERNAL;
  EXPECT_EQ(Executable::load(make_device(), {}, {{}, {1}}).status().code(), TENON_INTERNAL);
  EXPECT_EQ(toy.releases, 0);
  toy.fail_allocs = 1;
  EXPECT_EQ(Buffer::allocate(make_device(), 16).status().code(), TENON_RESOURCE_EXHAUSTED);
  EXPECT_EQ(toy.buffers, 0);
  toy.queued = toy.no_queue = true;
  EXPECT_EQ(Queue::create(make_device()).status().error_code(), "T0612");
}

TEST_F(Fixture, GarbledRecordsAreRefused) {
  const DeviceApis apis{"toy-plugin", &device_api, &compile_api, nullptr};
  for (double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    toy.latency_ns = wrong;
    EXPECT_EQ(Device::create(apis, 0).status().error_code(), "T0503");
  }
  toy.latency_ns = 0;
  toy.description = {nullptr, 3};
  EXPECT_EQ(Device::create(apis, 0).status().error_code(), "T0503");
  toy.description = {};
  EXPECT_EQ((*Device::create(apis, 4, 1))->name(), "toy:1");
}

TEST_F(Fixture, LostDeviceStaysLost) {
  Runner runner(make_plan(make_device(), make_device()));
  toy.fail_execute = TENON_DEVICE_LOST;
  EXPECT_EQ(run(runner).code(), TENON_DEVICE_LOST);
  toy.fail_execute = TENON_OK;
  const Status again = run(runner);
  EXPECT_EQ(again.code(), TENON_DEVICE_LOST);
  EXPECT_EQ(again.error_code(), "T0611");
}

TEST_F(Fixture, MemoryLimitIsAnErrorAndPasses) {
  Runner runner(make_plan(make_device(), make_device()));
  const uint64_t old = limit(Limit::kMemoryBytes);
  set_limit(Limit::kMemoryBytes, memory_in_use() + 70);
  const Status status = run(runner);
  EXPECT_EQ(status.error_code(), "T0609") << status.text();
  set_limit(Limit::kMemoryBytes, old);
  ASSERT_TRUE(run(runner).ok());
  expect_right(runner);
}

TEST_F(Fixture, StridedInputIsPacked) {
  int32_t wide[8] = {1, 0, 2, 0, 3, 0, 4, 0};
  const int64_t strides[1] = {8};
  Runner runner(make_plan(make_device(), make_device()));
  tenon_array_t x = array(wide);
  x.strides_bytes = strides;
  const tenon_array_t y = array(b);
  const Argument inputs[] = {{&x}, {&y}};
  ASSERT_TRUE(runner.run(inputs).ok());
  expect_right(runner);
}

TEST_F(Fixture, DimsThatOnlyTheRunKnows) {
  graph_api.graph_view = [](void*, tenon_graph_t*, tenon_graph_view_t* v) {
    return v->main = 0, v->symbol_limit = 1, TENON_OK;
  };
  graph_api.symbol_view = [](void*, tenon_graph_t*, tenon_symbol_t, tenon_symbol_view_t* v) {
    return v->hi = INT64_MAX, TENON_OK;
  };
  graph_api.dim_evaluate = [](void*, tenon_graph_t*, tenon_dim_t, const int64_t* values, uint32_t,
                              int64_t* out) -> tenon_code_t {
    *out = values[0];
    return TENON_OK;
  };
  for (bool queued : {false, true}) {
    toy.queued = toy.hidden = queued;
    std::shared_ptr<Plan> plan = make_plan(make_device(), make_device());
    plan->slots[3].dims = {-1};
    plan->steps[4].out_symbols = {0};
    Runner runner(plan);
    toy.found = 2;
    const Status status = run(runner);
    ASSERT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(runner.outputs()[0].dims, std::vector<int64_t>{2});
    EXPECT_EQ(static_cast<const int32_t*>(runner.outputs()[0].data)[1], a[1] + b[1] + 2);
    toy.found = 5;  // more than the needs that it reported
    EXPECT_EQ(run(runner).error_code(), "T0612");
    toy.found = -1;
    EXPECT_EQ(run(runner).error_code(), "T0612");
  }
}

// An executable that requests the buffer of each output while it runs.
tenon_code_t asking_needs(void* self, tenon_executable_t* e, tenon_symbols_t symbols,
                          tenon_needs_t* needs) {
  const tenon_code_t code = toy_needs(self, e, symbols, needs);
  for (uint32_t i = 0; i < needs->output_count; ++i)
    tenon_need(needs, i)[0].size_bytes_max = TENON_SIZE_UNKNOWN;
  return code;
}
tenon_code_t asking_execute(void* self, tenon_executable_t* e, const tenon_call_t* call) {
  if (call->output == nullptr || call->queue != nullptr ||
      tenon_call_output(call, 0)->buffer != nullptr)
    return TENON_INTERNAL;
  tenon_span_t made{};
  if (const tenon_code_t code =
          call->output(call->output_self, 0, 16, &made.buffer, &made.offset_bytes);
      code != TENON_OK)
    return code;
  tenon_call_t with_buffer = *call;
  with_buffer.outputs = &made;
  with_buffer.span_bytes = sizeof made;
  return toy_execute(self, e, &with_buffer);
}

TEST_F(Fixture, SizesThatOnlyTheRunTellsAreAskedWithoutAQueue) {
  toy.queued = toy.hidden = true;
  toy.threading = TENON_THREADING_FREE;
  compile_api.needs = asking_needs;
  compile_api.execute = asking_execute;
  Runner runner(make_plan(make_device(), make_device()));
  for (int i = 0; i < 2; ++i) {
    const Status status = run(runner);
    ASSERT_TRUE(status.ok()) << status.text();
    expect_right(runner);
  }
}

// An output of known size is checked too: a device that requests no buffer, or too small a one,
// leaves nothing to read.
TEST_F(Fixture, AnOutputOfKnownSizeThatIsAskedForIsChecked) {
  compile_api.needs = asking_needs;
  using Execute = tenon_code_t (*)(void*, tenon_executable_t*, const tenon_call_t*);
  const Execute asks_nothing = [](void*, tenon_executable_t*, const tenon_call_t*) -> tenon_code_t {
    return TENON_OK;
  };
  const Execute asks_little = [](void*, tenon_executable_t*, const tenon_call_t* call) {
    tenon_span_t made{};
    return call->output(call->output_self, 0, 4, &made.buffer, &made.offset_bytes);
  };
  toy.threading = TENON_THREADING_FREE;
  for (bool queued : {false, true}) {
    toy.queued = toy.hidden = queued;
    Runner runner(make_plan(make_device(), make_device()));
    for (const Execute execute : {asks_nothing, asks_little}) {
      compile_api.execute = execute;
      EXPECT_EQ(run(runner).error_code(), "T0612");
    }
    compile_api.execute = asking_execute;
    ASSERT_TRUE(run(runner).ok());
    expect_right(runner);
  }
}

// The caller may bind another input and keep the output until the next run.
TEST_F(Fixture, AnInputThatIsAnOutputIsCopied) {
  for (bool queued : {false, true}) {
    toy.queued = toy.hidden = queued;
    std::shared_ptr<Plan> plan = make_plan(make_device(), make_device());
    plan->slots[0].last_step = UINT32_MAX;
    plan->output_slots = {3, 0, 0};
    Runner runner(plan);
    ASSERT_TRUE(run(runner).ok());
    ASSERT_EQ(runner.outputs().size(), 3u);
    const auto* same = static_cast<const int32_t*>(runner.outputs()[1].data);
    EXPECT_NE(same, a);
    EXPECT_EQ(runner.outputs()[2].data, same);
    EXPECT_TRUE(std::equal(a, a + 4, same));
  }
}

// The host allocated within the turn of the requesting call, and waited for itself.
TEST_F(Fixture, SerialDeviceAsksForItsOutputsDuringTheCall) {
  toy.threading = TENON_THREADING_SERIAL;
  compile_api.needs = asking_needs;
  using Execute = tenon_code_t (*)(void*, tenon_executable_t*, const tenon_call_t*);
  const Execute from_its_own_thread = [](void* self, tenon_executable_t* e,
                                         const tenon_call_t* call) {
    tenon_code_t code = TENON_INTERNAL;
    std::thread([&] { code = asking_execute(self, e, call); }).join();
    return code;
  };
  // The device has no memory at first: the host waits for it and frees unused buffers, all within
  // the call.
  const Execute short_of_memory = [](void* self, tenon_executable_t* e, const tenon_call_t* call) {
    static_cast<Toy*>(self)->fail_allocs = 1;
    tenon_span_t large{};
    if (const tenon_code_t code = call->output(call->output_self, 0, uint64_t{1} << 20,
                                               &large.buffer, &large.offset_bytes);
        code != TENON_OK)
      return code;
    tenon_call_t with_buffer = *call;
    with_buffer.outputs = &large;
    with_buffer.span_bytes = sizeof large;
    return toy_execute(self, e, &with_buffer);
  };
  {
    Runner runner(make_plan(make_device(), make_device()));
    for (const Execute execute : {&asking_execute, from_its_own_thread, short_of_memory}) {
      compile_api.execute = execute;
      const Status status = run(runner);
      ASSERT_TRUE(status.ok()) << status.text();
      expect_right(runner);
    }
    EXPECT_EQ(toy.fail_allocs, 0);
  }
  EXPECT_EQ(toy.buffers, 0);
}

TEST_F(Fixture, WrongInputsAreNamed) {
  const Shapes shapes = *Shapes::create(graph_api, nullptr, {});
  tenon_array_t x = array(a);
  EXPECT_TRUE(shapes.check_input(0, x).ok());
  x.dtype = TENON_F32;
  EXPECT_EQ(shapes.check_input(0, x).error_code(), "T0603");
  x = array(a);
  x.rank = 0;
  EXPECT_EQ(shapes.check_input(0, x).error_code(), "T0604");
  const int64_t five[1] = {5};
  x = array(a);
  x.dims = five;
  EXPECT_EQ(shapes.check_input(0, x).error_code(), "T0605");
  x = array(nullptr);
  EXPECT_EQ(shapes.check_input(0, x).error_code(), "T0613");
}

TEST_F(Fixture, TraceIsJsonAndTheTableIsSorted) {
  auto trace = std::make_shared<Trace>();
  Runner runner(make_plan(make_device(), make_device()));
  runner.set_trace(trace);
  ASSERT_TRUE(run(runner).ok());
  std::string text;
  const tenon_sink_t sink{&text, [](void* self, const void* data, uint64_t size) -> tenon_code_t {
                            static_cast<std::string*>(self)->append(static_cast<const char*>(data),
                                                                    size);
                            return TENON_OK;
                          }};
  ASSERT_TRUE(trace->write_perfetto(sink).ok());
  EXPECT_NE(text.find("\"traceEvents\":["), std::string::npos);
  EXPECT_NE(text.find("add\\\"1"), std::string::npos);
  text.clear();
  ASSERT_TRUE(trace->write_table(sink).ok());
  EXPECT_NE(text.find("\"count\":2"), std::string::npos) << text;
}

// What the run before has found out is used, and nothing is kept from one run to the next that is
// not the runner's.
TEST_F(Fixture, ARunLikeTheOneBefore) {
  toy.threading = TENON_THREADING_FREE;
  {
    Runner runner(one_device_plan());
    Repeat* const repeat = runner.repeat();
    ASSERT_NE(repeat, nullptr);
    EXPECT_FALSE(repeat->ready());
    ASSERT_TRUE(run(runner).ok());
    const int buffers = toy.buffers;
    alignas(16) int32_t other[4] = {5, 5, 5, 5};
    for (int32_t* const second : {b, other, b}) {
      ASSERT_TRUE(repeat->ready());
      EXPECT_FALSE(repeat->outputs_leave());
      ASSERT_TRUE(repeat->take(0, array(a)) && repeat->take(1, array(second)));
      const std::optional<Status> status = runner.run_again(false);
      ASSERT_TRUE(status && status->ok());
      const auto* out = static_cast<const int32_t*>(runner.outputs()[0].data);
      for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], a[i] + second[i] + 1);
      EXPECT_EQ(toy.buffers, buffers);
      EXPECT_EQ(toy.imported, 0);
    }
    EXPECT_EQ(toy.executions, 4);
    EXPECT_EQ(toy.imports, 8);
    // The device takes the memory no longer: a whole run copies it.
    toy.fail_import = TENON_UNIMPLEMENTED;
    EXPECT_FALSE(runner.run_again(false).has_value());
    EXPECT_FALSE(repeat->ready());
    EXPECT_EQ(toy.executions, 4);
    ASSERT_TRUE(run(runner).ok());
    toy.fail_import = TENON_OK;
    ASSERT_TRUE(run(runner).ok());
    ASSERT_TRUE(repeat->ready());
    // A failed run has no outputs, and what failed is named as in any other run.
    toy.fail_execute = TENON_DEVICE_LOST;
    const std::optional<Status> status = runner.run_again(false);
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(status->error_code(), "T0611") << status->text();
    EXPECT_NE(status->text().find("running on device toy"), std::string::npos) << status->text();
    EXPECT_TRUE(runner.outputs().empty());
    EXPECT_FALSE(repeat->ready());
    EXPECT_EQ(toy.imported, 0);
  }
  EXPECT_EQ(toy.buffers, 0);
}

// Outputs go to the caller's memory if the device asks for no more than that is, and become tensors
// if little of their memory would lie idle.
TEST_F(Fixture, OutputsOfARunLikeTheOneBefore) {
  toy.threading = TENON_THREADING_FREE;
  alignas(16) int32_t out[4] = {};
  const tenon_array_t x = array(a), y = array(b);
  const Argument inputs[] = {{&x}, {&y}};
  const uint8_t leaves[] = {0};
  for (const uint64_t bytes : {16, 32, 16384}) {
    toy.output_bytes = bytes;
    Runner runner(one_device_plan());
    ASSERT_TRUE(runner.run(inputs, leaves).ok());
    Repeat& repeat = *runner.repeat();
    ASSERT_TRUE(repeat.ready() && repeat.outputs_leave());
    runner.end_call();
    ASSERT_TRUE(repeat.ready() && repeat.take(0, x) && repeat.take(1, y));
    EXPECT_FALSE(repeat.give(0, array(nullptr)));
    EXPECT_EQ(repeat.give(0, array(out)), bytes == 16);
    if (bytes == 16) {
      const std::optional<Status> status = runner.run_again(false);
      ASSERT_TRUE(status && status->ok());
      for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], a[i] + b[i] + 1);
      ASSERT_TRUE(repeat.give(0, array(a)));  // which is an input
      EXPECT_FALSE(runner.run_again(false).has_value());
      ASSERT_TRUE(runner.run(inputs, leaves).ok());
    }
    EXPECT_EQ(repeat.make(0), bytes != 16384);
    if (bytes == 16384) continue;
    const std::optional<Status> status = runner.run_again(false);
    ASSERT_TRUE(status && status->ok());
    const std::shared_ptr<Tensor> made = runner.take_made(0);
    EXPECT_EQ(made->size_bytes(), 16u);
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(static_cast<const int32_t*>(made->host())[i], a[i] + b[i] + 1);
  }
  EXPECT_EQ(toy.buffers, 0);
}

TEST_F(Fixture, RunsThatAreNotRepeated) {
  EXPECT_EQ(Runner(one_device_plan()).repeat(), nullptr);  // its calls take turns
  toy.threading = TENON_THREADING_FREE;
  EXPECT_EQ(Runner(one_device_plan(true)).repeat(), nullptr);
  EXPECT_EQ(Runner(make_plan(make_device(), make_device())).repeat(), nullptr);
  Runner runner(one_device_plan());
  ASSERT_TRUE(run(runner).ok());
  EXPECT_TRUE(runner.repeat()->ready());
  runner.set_trace(std::make_shared<Trace>());  // which whole runs take
  EXPECT_FALSE(runner.repeat()->ready());
  ASSERT_TRUE(run(runner).ok());
  EXPECT_FALSE(runner.repeat()->ready());
  runner.set_trace(nullptr);
  const tenon_array_t x = array(a);
  auto memory = std::shared_ptr<void>(std::shared_ptr<void>(), b);
  Tensor tensor(TENON_I32, {4}, sizeof b, memory, true),
      same(TENON_I32, {4}, sizeof b, memory, true);
  EXPECT_NE(tensor.value(), same.value());
  const Argument inputs[] = {{&x}, {&x, &tensor}};
  ASSERT_TRUE(runner.run(inputs).ok());
  Repeat& repeat = *runner.repeat();
  ASSERT_TRUE(repeat.ready());
  EXPECT_TRUE(repeat.keeps(1, tensor));
  EXPECT_FALSE(repeat.keeps(1, same));
  EXPECT_FALSE(repeat.take(1, same));      // it is nowhere yet
  EXPECT_FALSE(repeat.take(1, array(b)));  // another kind
  EXPECT_FALSE(repeat.take(0, tensor));
  (void)tensor.take();
  EXPECT_EQ(tensor.value(), 0u);
  EXPECT_FALSE(repeat.keeps(1, tensor));
  EXPECT_FALSE(repeat.take(1, tensor));
}

TEST(NeedsCache, ForgetsTheOldest) {
  NeedsCache cache;
  for (int64_t i = 0; i < 100; ++i) cache.put(std::vector<int64_t>{i}, std::make_shared<Needs>());
  EXPECT_EQ(cache.size(), NeedsCache::kEntriesMax);
  EXPECT_EQ(cache.find(std::vector<int64_t>{0}), nullptr);
  EXPECT_NE(cache.find(std::vector<int64_t>{99}), nullptr);
}

}  // namespace
}  // namespace tenon::runtime
