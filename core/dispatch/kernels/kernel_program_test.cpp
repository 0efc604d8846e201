// Lists of kernels on a device in host memory, with a set that sums any number of vectors.
#include <tenon/cpp/record.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/errors/failure.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/dispatch/kernels/kernel_device.h"
#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

struct tenon_buffer_t {
  std::vector<float> values;
};

namespace tenon::dispatch {
namespace {

constexpr uint64_t kScratchBytes = 64;
constexpr tenon_str_t kTarget = {"t", 1};

struct Seen {
  int creates = 0, restores = 0, packs = 0, ends = 0, allocations = 0;
  std::atomic<int> parts{0};
  std::vector<std::pair<uint32_t, bool>> submitted;  // waits, whether it signals
  std::vector<uint32_t> epilogues;                   // of created kernels
  int fail_at = -1;                                  // this submission fails
} seen;

// ---- The device ----

tenon_code_t device_info(void*, uint32_t, tenon_device_info_t* out) {
  out->target = kTarget;
  out->alignment_bytes = 64;
  out->threading = TENON_THREADING_FREE;
  return TENON_OK;
}
tenon_code_t alloc(void*, tenon_device_t*, uint64_t bytes, tenon_buffer_t** out) {
  ++seen.allocations;
  *out = new tenon_buffer_t{std::vector<float>(bytes / 4 + 1)};
  return TENON_OK;
}
tenon_code_t copy(void*, tenon_device_t*, const tenon_copy_t* c) {
  std::memcpy(c->to->values.data(), c->host_from, c->length_bytes);
  return TENON_OK;
}
const tenon_device_api_t* device() {
  static auto api = sized<tenon_device_api_t>();
  api.count = [](void*, uint32_t* out) { return *out = 1, TENON_OK; };
  api.info = device_info;
  api.alloc = alloc;
  api.free = [](void*, tenon_device_t*, tenon_buffer_t* buffer) { return delete buffer, TENON_OK; };
  api.copy = copy;
  return &api;
}

// A queue whose work is done at once. Fences have the name of what they stand for.
struct Copies {
  std::vector<std::pair<uint32_t, tenon_fence_point_t>> of_nothing;  // waits, signal
  int fences = 0;
  bool stuck = false;      // no wait is ever over
  bool holds = false;      // a copy that waits, and all later work, is held until the host waits
  bool all_there = false;  // the device says that it holds nothing
  bool held = false;
} copies;

const tenon_queue_api_t* queue_api() {
  static auto api = sized<tenon_queue_api_t>();
  api.copy_async = [](void*, tenon_queue_t*, const tenon_copy_t* copy, const tenon_fence_point_t*,
                      uint32_t waits, tenon_fence_point_t signal) {
    EXPECT_EQ(copy->length_bytes, 0u);
    EXPECT_NE(copy->to, nullptr);
    copies.of_nothing.emplace_back(waits, signal);
    copies.held |= copies.holds && waits != 0;
    return TENON_OK;
  };
  api.fence_create = [](void*, tenon_device_t*, uint64_t, tenon_fence_t** out) {
    // A number, since the fence of a device that was given up stays.
    *out = reinterpret_cast<tenon_fence_t*>(static_cast<uintptr_t>(++copies.fences) * 16);
    return TENON_OK;
  };
  api.fence_destroy = [](void*, tenon_fence_t*) { return --copies.fences, TENON_OK; };
  api.fence_query = [](void*, tenon_fence_t*, uint64_t* out) {
    return *out = copies.stuck ? 0 : UINT64_MAX, TENON_OK;
  };
  api.fence_wait = [](void*, tenon_fence_t*, uint64_t, uint64_t) {
    copies.held = false;
    return ++seen.ends, copies.stuck ? TENON_DEADLINE_EXCEEDED : TENON_OK;
  };
  return &api;
}

const tenon_exchange_api_t* exchange_api() {
  static auto api = sized<tenon_exchange_api_t>();
  api.export_queue = [](void*, tenon_queue_t* queue, tenon_str_t kind, tenon_native_handle_t* out) {
    out->kind = kind;
    out->handle = reinterpret_cast<uintptr_t>(queue);
    out->flags = copies.all_there ? TENON_NATIVE_ALL_THERE : 0;
    return TENON_OK;
  };
  return &api;
}

// ---- The set: plus, and every plus after it; constants are packed as their negatives ----

struct Kernel {
  uint32_t operands;
  uint32_t packed;  // bits
};

bool is_plus(const tenon_kernel_call_t* call, tenon_node_t n) {
  return ir::Graph::from(call->graph)->op_name(n) == "plus";
}
uint32_t packed_of(const tenon_kernel_call_t* call) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < call->operand_count; ++i)
    mask |= (tenon_kernel_operand(call, i)->flags & TENON_KERNEL_OPERAND_CONSTANT) << i;
  return mask;
}

tenon_code_t query(void*, tenon_str_t, const tenon_kernel_call_t* call,
                   tenon_kernel_candidate_t* out) {
  if (!is_plus(call, call->anchor))
    return to_abi(error(TENON_UNIMPLEMENTED, "T0512", "plus alone"));
  while (out->epilogue_taken < call->epilogue_count &&
         is_plus(call, call->epilogue[out->epilogue_taken]))
    ++out->epilogue_taken;
  if (out->epilogue_taken == call->epilogue_count) out->prepack_mask = packed_of(call);
  out->part_count = 2;
  out->cost_ns = 10;
  out->workspace_bytes = kScratchBytes;
  out->name = {"sum", 3};
  return TENON_OK;
}
tenon_code_t create(void*, tenon_device_t*, const tenon_kernel_call_t* call, tenon_kernel_t** out) {
  ++seen.creates;
  seen.epilogues.push_back(call->epilogue_count);
  *out = reinterpret_cast<tenon_kernel_t*>(new Kernel{call->operand_count, packed_of(call)});
  return TENON_OK;
}
tenon_code_t prepack(void*, tenon_kernel_t*, uint32_t, const void* data, uint64_t bytes,
                     const tenon_sink_t* sink) {
  ++seen.packs;
  for (uint64_t i = 0; i < bytes / 4; ++i) {
    const float packed = -static_cast<const float*>(data)[i];
    if (sink->write(sink->self, &packed, sizeof packed) != TENON_OK) return TENON_INTERNAL;
  }
  return TENON_OK;
}

const float* at(const tenon_buffer_t* buffer, uint64_t offset) {
  return buffer->values.data() + offset / 4;
}

tenon_code_t run(void*, tenon_kernel_t* kernel, const tenon_kernel_args_t* args) {
  const auto& k = *reinterpret_cast<Kernel*>(kernel);
  if (args->native_queue != nullptr) {
    EXPECT_EQ(args->queue, nullptr);
    EXPECT_EQ(from_abi_str(args->native_queue->kind), "t.stream");
    EXPECT_FALSE(copies.held);  // else the kernel would overtake the work that it needs
    seen.submitted.emplace_back(0, false);
  }
  if (args->queue != nullptr) {
    if (static_cast<int>(seen.submitted.size()) == seen.fail_at) return TENON_INTERNAL;
    seen.submitted.emplace_back(args->wait_count, args->signal.fence != nullptr);
  }
  ++seen.parts;
  EXPECT_EQ(args->input_count, k.operands);
  EXPECT_NE(args->workspace, nullptr);
  EXPECT_EQ(args->workspace_offset_bytes % 64, 0u);
  const int64_t n = args->output_dims[0][0];
  auto* out = const_cast<float*>(at(args->outputs[0], args->output_offsets_bytes[0]));
  for (int64_t i = args->part_index; i < n; i += args->part_count) {
    out[i] = 0;
    for (uint32_t j = 0; j < k.operands; ++j)
      out[i] +=
          (k.packed >> j & 1 ? -1.0f : 1.0f) * at(args->inputs[j], args->input_offsets_bytes[j])[i];
  }
  return TENON_OK;
}

tenon_code_t save(void*, tenon_kernel_t* kernel, const tenon_sink_t* sink) {
  return sink->write(sink->self, kernel, sizeof(Kernel));
}
tenon_code_t restore(void*, tenon_device_t*, const void* bytes, uint64_t size,
                     tenon_kernel_t** out) {
  if (size != sizeof(Kernel)) return TENON_FAILED_PRECONDITION;
  ++seen.restores;
  *out = reinterpret_cast<tenon_kernel_t*>(new Kernel(*static_cast<const Kernel*>(bytes)));
  return TENON_OK;
}

tenon_kernels_api_t set_table() {
  auto api = sized<tenon_kernels_api_t>();
  api.query = query;
  api.create = create;
  api.destroy = [](void*, tenon_kernel_t* k) { delete reinterpret_cast<Kernel*>(k); };
  api.run = run;
  api.prepack = prepack;
  return api;
}

// ---- A program ----

ir::Ref<ir::Graph> read(std::string_view text) {
  test::use_test_ops();
  ir::Ref<ir::Graph> graph = *ir::read_text(text, "test", {});
  graph->freeze();
  return graph;
}

struct Loaded {
  const tenon_compile_api_t* api;
  tenon_executable_t* executable = nullptr;
  Loaded(const tenon_compile_api_t* a, const ir::Graph& graph) : api(a) {
    seen.~Seen();
    new (&seen) Seen;
    const tenon_compile_options_t options{sizeof options, 0, nullptr, 0, 0};
    tenon_artifact_t* artifact = nullptr;
    EXPECT_EQ(
        api->compile(api->self, kTarget, const_cast<ir::Graph&>(graph).abi(), &options, &artifact),
        TENON_OK);
    std::string bytes;
    const tenon_sink_t sink = {&bytes, [](void* self, const void* data, uint64_t size) {
                                 static_cast<std::string*>(self)->append(
                                     static_cast<const char*>(data), size);
                                 return TENON_OK;
                               }};
    EXPECT_EQ(api->artifact_bytes(api->self, artifact, &sink), TENON_OK);
    api->artifact_release(api->self, artifact);
    EXPECT_EQ(api->load(api->self, nullptr, bytes.data(), bytes.size(), nullptr, 0, &executable),
              TENON_OK);
  }
  ~Loaded() { api->executable_release(api->self, executable); }

  tenon_code_t run(std::vector<tenon_buffer_t*> inputs, tenon_buffer_t* output,
                   tenon_queue_t* queue = nullptr) {
    int64_t dims[1] = {};
    tenon_output_need_t need{0, dims, 0};
    tenon_needs_t needs{sizeof needs, 1, sizeof need, 0, &need, 0, 0};
    EXPECT_EQ(api->needs(api->self, executable, {}, &needs), TENON_OK);
    tenon_buffer_t workspace{std::vector<float>(needs.workspace_bytes / 4)};
    std::vector<tenon_span_t> in;
    for (tenon_buffer_t* buffer : inputs) in.push_back({buffer, 0});
    const tenon_span_t out{output, 0};
    const tenon_fence_point_t wait{reinterpret_cast<tenon_fence_t*>(&wait_object), 1};
    auto call = sized<tenon_call_t>();
    call.input_count = static_cast<uint32_t>(in.size());
    call.output_count = 1;
    call.inputs = in.data();
    call.outputs = &out;
    call.span_bytes = sizeof out;
    call.workspace = needs.workspace_bytes == 0 ? nullptr : &workspace;
    call.queue = queue;
    if (queue != nullptr) {
      call.waits = &wait;
      call.wait_count = 1;
      call.signal = {reinterpret_cast<tenon_fence_t*>(&wait_object), 2};
    }
    return api->execute(api->self, executable, &call);
  }
  int wait_object = 0;
};

constexpr std::string_view kChain =
    "tenon.tir 1\ngraph @g(%x: f32[3], %y: f32[3]) -> (b: f32[3]) {\n  %c = const f32[3] [1, 2, "
    "3]\n  %0 = plus(%x, %c) : f32[3]\n  %1 = plus(%0, %y) : f32[3]\n  yield %1\n}\n";

TEST(Chains, StopWhereAResultIsReadElsewhere) {
  const auto graph = read(
      "tenon.tir 1\ngraph @g(%x: f32[3]) -> (a: f32[3], b: f32[3]) {\n  %0 = plus(%x, %x) : "
      "f32[3]\n  %1 = plus(%0, %0) : f32[3]\n  %2 = plus(%1, %x) : f32[3]\n  yield %1, %2\n}\n");
  const std::span<const ir::Node> n = graph->nodes(graph->main());
  const Chains chains(*graph);
  EXPECT_EQ(chains.chain_after(n[0]), std::vector<ir::Node>{n[1]});
  EXPECT_TRUE(chains.chain_after(n[1]).empty());  // an output, and read by n[2]
  EXPECT_TRUE(chains.chain_after(n[0], {true, true, true, true}).empty());
}

TEST(Chains, HoldWhatFeedsThemAlone) {
  const auto graph = read(
      "tenon.tir 1\ngraph @g(%x: f32[3], %y: f32[3]) -> (b: f32[3]) {\n  %0 = every(%y) : f32[3]\n"
      "  %1 = plus(%x, %x) : f32[3]\n  %2 = plus(%1, %0) : f32[3]\n  yield %2\n}\n");
  const std::span<const ir::Node> n = graph->nodes(graph->main());
  EXPECT_EQ(Chains(*graph).chain_after(n[1]), (std::vector<ir::Node>{n[0], n[2]}));
}

TEST(KernelProgram, OneCallDoesAnAnchorAndItsEpilogueWithPackedConstants) {
  static const tenon_kernels_api_t kernels = set_table();
  static const auto* api = compile_from_kernels({device(), nullptr, &kernels, "sums", "1", {}});
  const auto graph = read(kChain);
  std::vector<uint32_t> claimed;
  const tenon_compile_options_t options{sizeof options, 0, nullptr, 0, 0};
  const tenon_claim_sink_t sink{
      sizeof sink, 0, &claimed,
      [](void* self, const tenon_claim_t* claim) {
        static_cast<std::vector<uint32_t>*>(self)->push_back(claim->flags * 100 +
                                                             claim->node_count);
        return TENON_OK;
      },
      [](void*, tenon_node_t, tenon_code_t, tenon_str_t) { return TENON_OK; }};
  EXPECT_EQ(api->claim(api->self, kTarget, graph->abi(), &options, &sink), TENON_OK);
  EXPECT_EQ(claimed, (std::vector<uint32_t>{1, 102, 1}));  // alone, both together, alone

  Loaded program(api, *graph);
  EXPECT_EQ(seen.epilogues, std::vector<uint32_t>{1});
  EXPECT_EQ(seen.packs, 1);
  EXPECT_EQ(seen.allocations, 1);  // the packed form alone
  tenon_buffer_t x{{10, 20, 30}}, y{{100, 200, 300}}, out{{0, 0, 0}};
  EXPECT_EQ(program.run({&x, &y}, &out), TENON_OK);
  EXPECT_EQ(out.values, (std::vector<float>{111, 222, 333}));
  EXPECT_EQ(seen.parts, 2);
}

TEST(KernelProgram, ASetOfSingleNodesTakesThemOneByOne) {
  static tenon_kernels_api_t kernels = set_table();
  kernels.query = [](void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                     tenon_kernel_candidate_t* out) -> tenon_code_t {
    if (call->epilogue_count != 0)
      return to_abi(error(TENON_UNIMPLEMENTED, "T0512", "single nodes alone"));
    return query(self, target, call, out);
  };
  static const auto* api = compile_from_kernels({device(), nullptr, &kernels, "single", "1", {}});
  Loaded program(api, *read(kChain));
  EXPECT_EQ(seen.epilogues, (std::vector<uint32_t>{0, 0}));
  tenon_buffer_t x{{10, 20, 30}}, y{{100, 200, 300}}, out{{0, 0, 0}};
  EXPECT_EQ(program.run({&x, &y}, &out), TENON_OK);
  EXPECT_EQ(out.values, (std::vector<float>{111, 222, 333}));
}

TEST(KernelProgram, AValueWithoutElementsHasAPlaceBetweenKernels) {
  static tenon_kernels_api_t kernels = set_table();
  kernels.query = [](void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                     tenon_kernel_candidate_t* out) -> tenon_code_t {
    if (call->epilogue_count != 0)
      return to_abi(error(TENON_UNIMPLEMENTED, "T0512", "single nodes alone"));
    const tenon_code_t code = query(self, target, call, out);
    out->workspace_bytes = 0;
    return code;
  };
  kernels.run = [](void*, tenon_kernel_t*, const tenon_kernel_args_t* args) -> tenon_code_t {
    EXPECT_EQ(args->output_dims[0][0], 0);
    EXPECT_NE(args->outputs[0], nullptr);
    ++seen.parts;
    return TENON_OK;
  };
  static const auto* api = compile_from_kernels({device(), nullptr, &kernels, "empty", "1", {}});
  Loaded program(api, *read("tenon.tir 1\ngraph @g(%x: f32[0]) -> (b: f32[0]) {\n  %0 = plus(%x, "
                            "%x) : f32[0]\n  %1 = plus(%0, %x) : f32[0]\n  yield %1\n}\n"));
  tenon_buffer_t x, out;
  EXPECT_EQ(program.run({&x}, &out), TENON_OK);
  EXPECT_EQ(seen.parts, 4);
}

// A set that knows what only feeds the chain, and not what follows: the call would have ended
// there.
TEST(KernelProgram, AnEpilogueEndsOnItsChain) {
  static tenon_kernels_api_t kernels = set_table();
  kernels.query = [](void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                     tenon_kernel_candidate_t* out) -> tenon_code_t {
    const tenon_code_t code = query(self, target, call, out);
    out->epilogue_taken = call->epilogue_count == 2 ? 1 : 0;
    return code;
  };
  static const auto* api = compile_from_kernels({device(), nullptr, &kernels, "partly", "1", {}});
  Loaded program(api,
                 *read("tenon.tir 1\ngraph @g(%x: f32[3], %y: f32[3]) -> (b: f32[3]) {\n  %0 = "
                       "plus(%y, %y) : f32[3]\n  %1 = plus(%x, %x) : f32[3]\n  %2 = plus(%1, "
                       "%0) : f32[3]\n  yield %2\n}\n"));
  EXPECT_EQ(seen.epilogues, (std::vector<uint32_t>{0, 0, 0}));
  tenon_buffer_t x{{10, 20, 30}}, y{{100, 200, 300}}, out{{0, 0, 0}};
  EXPECT_EQ(program.run({&x, &y}, &out), TENON_OK);
  EXPECT_EQ(out.values, (std::vector<float>{220, 440, 660}));
}

// What the parts cost one by one is less: the chain is not taken as a whole.
TEST(KernelProgram, AChainThatCostsMoreThanItsNodesIsNotFused) {
  static tenon_kernels_api_t kernels = set_table();
  kernels.query = [](void* self, tenon_str_t target, const tenon_kernel_call_t* call,
                     tenon_kernel_candidate_t* out) -> tenon_code_t {
    const tenon_code_t code = query(self, target, call, out);
    if (call->epilogue_count != 0) out->cost_ns = 1000;
    return code;
  };
  static const auto* api = compile_from_kernels({device(), nullptr, &kernels, "dear", "1", {}});
  Loaded program(api, *read(kChain));
  EXPECT_EQ(seen.epilogues, (std::vector<uint32_t>{0, 0}));
}

constexpr std::string_view kFour =
    "tenon.tir 1\ngraph @g(%x: f32[3]) -> (b: f32[3]) {\n  %0 = plus(%x, %x) : f32[3]\n  %1 = "
    "plus(%0, %0) : f32[3]\n  %2 = plus(%1, %1) : f32[3]\n  %3 = plus(%2, %1) : f32[3]\n  yield "
    "%3\n}\n";
int a_queue = 0;
tenon_queue_t* const kQueue = reinterpret_cast<tenon_queue_t*>(&a_queue);

TEST(KernelProgram, OnAQueueTheFirstPartWaitsAndTheLastSignals) {
  static const tenon_kernels_api_t kernels = set_table();
  static const auto* api = compile_from_kernels({device(), queue_api(), &kernels, "sums", "1", {}});
  const auto graph = read(kFour);
  Loaded program(api, *graph);
  tenon_buffer_t x{{1, 2, 3}}, out{{0, 0, 0}};
  EXPECT_EQ(program.run({&x}, &out, kQueue), TENON_OK);
  ASSERT_GE(seen.submitted.size(), 4u);
  for (size_t i = 0; i < seen.submitted.size(); ++i) {
    EXPECT_EQ(seen.submitted[i].first, i == 0 ? 1u : 0u);
    EXPECT_EQ(seen.submitted[i].second, i + 1 == seen.submitted.size());
  }
  EXPECT_EQ(seen.ends, 0);
  // What was submitted before a failure is done when the execution fails.
  seen.submitted.clear();
  seen.fail_at = 2;
  EXPECT_EQ(program.run({&x}, &out, kQueue), TENON_INTERNAL);
  EXPECT_EQ(seen.ends, 1);
  seen.submitted.clear();
  seen.fail_at = 0;
  EXPECT_EQ(program.run({&x}, &out, kQueue), TENON_INTERNAL);
  EXPECT_EQ(seen.ends, 1);  // nothing was in flight
  EXPECT_EQ(copies.fences, 0);
}

// Work that does not end after a failed submission: the device is given up, in bounded time.
TEST(KernelProgram, TheEndOfAFailedExecutionIsNotAwaitedForEver) {
  static const tenon_kernels_api_t kernels = set_table();
  static const auto* api = compile_from_kernels({device(), queue_api(), &kernels, "sums", "1", {}});
  const auto graph = read(kFour);
  Loaded program(api, *graph);
  tenon_buffer_t x{{1, 2, 3}}, out{{0, 0, 0}};
  const uint64_t before = limit(Limit::kDeviceWaitSeconds);
  set_limit(Limit::kDeviceWaitSeconds, 0);
  seen.fail_at = 1;
  copies.stuck = true;
  EXPECT_EQ(program.run({&x}, &out, kQueue), TENON_DEVICE_LOST);
  EXPECT_EQ(from_abi(TENON_DEVICE_LOST, "run").error_code(), "T0618");
  copies = {};
  set_limit(Limit::kDeviceWaitSeconds, before);
}

const tenon_compile_api_t* native_sums() {
  static tenon_kernels_api_t kernels = set_table();
  kernels.queue_kind = to_abi_str("t.stream");
  static const auto* api =
      compile_from_kernels({device(), queue_api(), &kernels, "sums", "1", {}, exchange_api()});
  return api;
}

// What an execution waits for may be held back, so it is awaited before kernels go to the stream.
TEST(KernelProgram, KernelsForANativeStreamOvertakeNothing) {
  const auto graph = read(kFour);
  Loaded program(native_sums(), *graph);
  tenon_buffer_t x{{1, 2, 3}}, out{{0, 0, 0}};
  copies = {};
  copies.holds = true;
  for (int round = 1; round <= 2; ++round) {
    copies.of_nothing.clear();
    EXPECT_EQ(program.run({&x}, &out, kQueue), TENON_OK);
    EXPECT_EQ(seen.ends, round);
    ASSERT_EQ(copies.of_nothing.size(), 2u);
    EXPECT_EQ(copies.of_nothing[0].first, 1u);
    EXPECT_EQ(copies.of_nothing[1].first, 0u);
    EXPECT_EQ(copies.of_nothing[1].second.value, 2u);  // that of the call
    EXPECT_EQ(copies.fences, 0);
  }
  EXPECT_FALSE(seen.submitted.empty());
  tenon_buffer_t alone{{0, 0, 0}};
  EXPECT_EQ(program.run({&x}, &alone), TENON_OK);
  EXPECT_EQ(out.values, alone.values);
  copies = {};
}

// The device says that the stream has everything: then its order suffices, if all points that the
// execution waits for are reached.
TEST(KernelProgram, KernelsForAFullStreamAreNotAwaited) {
  const auto graph = read(kFour);
  Loaded program(native_sums(), *graph);
  tenon_buffer_t x{{1, 2, 3}}, out{{0, 0, 0}};
  copies = {};
  copies.all_there = true;
  EXPECT_EQ(program.run({&x}, &out, kQueue), TENON_OK);
  EXPECT_EQ(seen.ends, 0);
  EXPECT_EQ(copies.of_nothing.size(), 1u);
  copies.stuck = true;
  const uint64_t before = limit(Limit::kDeviceWaitSeconds);
  set_limit(Limit::kDeviceWaitSeconds, 0);
  const size_t submitted = seen.submitted.size();
  EXPECT_EQ(program.run({&x}, &out, kQueue), TENON_DEVICE_LOST);
  EXPECT_EQ(seen.submitted.size(), submitted);
  set_limit(Limit::kDeviceWaitSeconds, before);
  copies = {};
}

TEST(KernelProgram, SavedKernelsComeBackFromTheCache) {
  std::string folder = std::filesystem::temp_directory_path() / "tenon_kernels_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("TENON_CACHE_DIR", folder.c_str(), 1);
  static tenon_kernels_api_t kernels = set_table();
  kernels.save = save;
  kernels.restore = restore;
  static const auto* api = compile_from_kernels({device(), nullptr, &kernels, "saved", "1", {}});
  const auto graph = read(kChain);
  for (int round = 0; round < 2; ++round) {
    Loaded program(api, *graph);
    EXPECT_EQ(seen.creates, round == 0 ? 1 : 0);
    EXPECT_EQ(seen.restores, round);
    EXPECT_EQ(seen.packs, 1);
    tenon_buffer_t x{{10, 20, 30}}, y{{100, 200, 300}}, out{{0, 0, 0}};
    EXPECT_EQ(program.run({&x, &y}, &out), TENON_OK);
    EXPECT_EQ(out.values, (std::vector<float>{111, 222, 333}));
  }
  kernels.restore = [](void*, tenon_device_t*, const void*, uint64_t, tenon_kernel_t**) {
    return TENON_FAILED_PRECONDITION;
  };
  Loaded program(api, *graph);  // bytes that are refused cost a create
  EXPECT_EQ(seen.creates, 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tenon::dispatch
