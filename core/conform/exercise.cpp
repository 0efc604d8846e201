#include "core/conform/exercise.h"

#include <cmath>
#include <cstring>

#include <tenon/abi/frontend.h>
#include <tenon/abi/kernels.h>
#include <tenon/abi/queue.h>

#include "core/base/str.h"
#include "core/conform/compile_bench.h"
#include "core/conform/compile_graphs.h"
#include "core/conform/host_graph.h"
#include "core/conform/open_device.h"
#include "core/conform/open_queue.h"
#include "core/host/tables.h"

namespace tenon::conform {
namespace {

constexpr uint64_t kBytes = 256;

tenon_code_t append(void* self, const void* data, uint64_t size) {
  auto& bytes = *static_cast<Bytes*>(self);
  const auto* from = static_cast<const unsigned char*>(data);
  bytes.insert(bytes.end(), from, from + size);
  return TENON_OK;
}

std::string reason() {
  return printable(heard_failure().text, 300);
}

// A copy to the device and back, on a queue.
Outcome exercise_queue(Session& s, const tenon_device_api_t* device, const tenon_queue_api_t* api) {
  s.step("using a queue");
  OpenQueues queues(device, api, 0);
  tenon_queue_t* queue = nullptr;
  tenon_fence_t* fence = nullptr;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(queues.open());
  CONFORM_TRY(queues.queue(&queue));
  CONFORM_TRY(queues.fence(0, &fence));
  CONFORM_TRY(queues.memory().alloc(kBytes, &buffer));
  const Bytes& bytes = queues.keep(pattern_bytes(kBytes, 9));
  Bytes& found = queues.keep(Bytes(kBytes));
  CONFORM_TRY(
      queues.submit_behind(queue, async_write(buffer, 0, bytes.data(), kBytes), {}, {fence, 1}));
  CONFORM_TRY(
      queues.submit(queue, async_read(found.data(), buffer, 0, kBytes), {fence, 1}, {fence, 2}));
  CONFORM_TRY(queues.reaches(fence, 2, "two copies"));
  CONFORM_EXPECT(found == bytes, "what a queue copied to the device and back: {}",
                 first_difference(found, bytes));
  return queues.end();
}

// c = a + b on `n` floats, when the set takes that.
Outcome exercise_kernels(Session& s, const tenon_device_api_t* device_api,
                         const tenon_kernels_api_t* api) {
  constexpr uint32_t kCount = 5;
  s.step("using a kernel");
  tenon_device_info_t info = {};
  info.size_bytes = sizeof(info);
  HostTables host;
  GraphRef graph;
  Failure why;
  if (device_api->info(device_api->self, 0, &info) != TENON_OK ||
      view(info.kind) != view(api->device_kind) || find_host(&host).verdict != Verdict::kPass ||
      !read_graph(host,
                  "tenon.tir 1\ngraph @k(%a: f32[5], %b: f32[5]) -> (c: f32[5]) {\n  %c = add(%a, "
                  "%b) : f32[5]\n  yield %c\n}\n",
                  &graph, &why))
    return pass();
  host.graph->freeze(host.graph->self, graph.get());
  constexpr int64_t kDims[] = {kCount};
  const tenon_type_t type = {TENON_F32, TENON_KIND_TENSOR, 1, kDims, 0};
  const tenon_kernel_operand_t operands[] = {{type, TENON_LAYOUT_ROW_MAJOR, 0},
                                             {type, TENON_LAYOUT_ROW_MAJOR, 0}};
  tenon_kernel_call_t call = {};
  call.size_bytes = sizeof(call);
  call.anchor = main_region(host, graph.get()).nodes[0];
  call.graph = graph.get();
  call.operand_count = 2;
  call.result_count = 1;
  call.operands = operands;
  call.results = &type;
  tenon_kernel_candidate_t candidate = {};
  candidate.size_bytes = sizeof(candidate);
  if (api->query(api->self, info.target, &call, &candidate) != TENON_OK ||
      candidate.prepack_mask != 0)
    return pass();
  OpenDevice device(device_api, 0);
  CONFORM_TRY(device.open());
  tenon_buffer_t* buffers[4] = {};
  for (tenon_buffer_t*& buffer : buffers)
    CONFORM_TRY(device.alloc(std::max<uint64_t>(kBytes, candidate.workspace_bytes), &buffer));
  const float a[kCount] = {1, 2, 3, 4, 5}, b[kCount] = {10, 20, 30, 40, 50};
  CONFORM_EXPECT(device.to_device(buffers[0], 0, a, sizeof(a)) == TENON_OK &&
                     device.to_device(buffers[1], 0, b, sizeof(b)) == TENON_OK,
                 "a copy to the device fails: {}", reason());
  tenon_kernel_t* kernel = nullptr;
  forget_failure();
  CONFORM_EXPECT(api->create(api->self, device.device(), &call, &kernel) == TENON_OK,
                 "create of a kernel that query took fails: {}", reason());
  const tenon_buffer_t* const inputs[] = {buffers[0], buffers[1]};
  tenon_buffer_t* const outputs[] = {buffers[2]};
  const uint64_t zeros[] = {0, 0};
  const int64_t* const dims[] = {kDims, kDims};
  for (uint32_t part = 0; part < candidate.part_count; ++part) {
    tenon_kernel_args_t args = {};
    args.size_bytes = sizeof(args);
    args.input_count = 2;
    args.output_count = 1;
    args.part_index = part;
    args.part_count = candidate.part_count;
    args.inputs = inputs;
    args.outputs = outputs;
    args.input_offsets_bytes = args.output_offsets_bytes = zeros;
    args.input_dims = args.output_dims = dims;
    args.workspace = candidate.workspace_bytes == 0 ? nullptr : buffers[3];
    CONFORM_EXPECT(api->run(api->self, kernel, &args) == TENON_OK, "run of a kernel fails: {}",
                   reason());
  }
  CONFORM_EXPECT(device_api->sync(device_api->self, device.device()) == TENON_OK, "sync fails: {}",
                 reason());
  float c[kCount] = {};
  CONFORM_EXPECT(device.to_host(c, buffers[2], 0, sizeof(c)) == TENON_OK,
                 "a copy from the device fails: {}", reason());
  for (uint32_t i = 0; i < kCount; ++i)
    CONFORM_EXPECT(c[i] == a[i] + b[i], "element {} of a sum is {} instead of {}", i, c[i],
                   a[i] + b[i]);
  api->destroy(api->self, kernel);
  return device.close();
}

// a = x + y compiled, loaded and executed, when the device takes that.
Outcome exercise_compile(Session& s, size_t optional_slots) {
  s.step("using a compiler");
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  const Outcome found = bench.find(optional_slots);
  if (found.verdict != Verdict::kPass) return pass();
  const Outcome taken = bench.taken(pair_graph(), &part);
  if (taken.verdict == Verdict::kSkip) return pass();
  CONFORM_TRY(taken);
  CONFORM_TRY(bench.open(0, &device));
  Compiled compiled;
  CONFORM_TRY(bench.load(*device, *part, &compiled));
  const std::vector<Named> inputs = part->inputs({}, fill_normal);
  Execution execution(bench, *device, *part, compiled.executable, {});
  CONFORM_TRY(execution.prepare(inputs, 0x5a));
  s.step("executing what was compiled");
  CONFORM_TRY(execution.run());
  std::vector<Named> outputs;
  CONFORM_TRY(execution.outputs(&outputs));
  for (int64_t i = 0; i < inputs[0].tensor.count(); ++i) {
    const double sum = tools::element(inputs[0].tensor, i) + tools::element(inputs[1].tensor, i);
    const double got = tools::element(outputs[0].tensor, i);
    CONFORM_EXPECT(std::fabs(got - sum) <= 1e-5 * (1 + std::fabs(sum)),
                   "element {} of a compiled sum is {} instead of {}", i, got, sum);
  }
  return pass();
}

// A tensor written and read, where the frontend does both and takes f32 of one of these shapes.
Outcome exercise_frontend(Session& s, const tenon_frontend_api_t* api) {
  HostTables host;
  if (find_host(&host).verdict != Verdict::kPass) return pass();
  s.step("using a frontend");
  const std::vector<std::string_view> extensions = split(view(api->extensions), ',');
  const std::string name = "conform" + std::string(extensions.empty() ? "" : trim(extensions[0]));
  (void)api->accepts(api->self, {name.data(), name.size()}, "no such format", 14);
  if (api->write_tensor == nullptr || api->read_tensors == nullptr) return pass();
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 3}, {4}, {}, {1, 2, 2}}) {
    Array array = make_array(TENON_F32, shape);
    fill_tame(&array, 4);
    tenon_tensor_t tensor = {};
    tensor.size_bytes = sizeof(tensor);
    tensor.dtype = TENON_F32;
    tensor.rank = static_cast<uint32_t>(shape.size());
    tensor.dims = array.dims.data();
    Bytes written;
    const tenon_sink_t sink = {&written, append};
    if (host.graph->blob_bytes(host.graph->self, array.bytes.data(), array.bytes.size() - 8,
                               &tensor.blob) != TENON_OK)
      return pass();
    forget_failure();
    const tenon_code_t code = api->write_tensor(api->self, &tensor, &sink);
    if (code == TENON_UNIMPLEMENTED || code == TENON_INVALID_ARGUMENT) continue;  // it holds others
    CONFORM_EXPECT(code == TENON_OK, "write_tensor fails: {}", reason());
    tenon_source_t source = {};
    source.size_bytes = sizeof(source);
    source.name = {name.data(), name.size()};
    if (host.graph->blob_bytes(host.graph->self, written.data(), written.size(), &source.bytes) !=
        TENON_OK)
      return pass();
    size_t count = 0;
    const tenon_tensor_sink_t take = {&count, [](void* self, const tenon_tensor_t*) {
                                        ++*static_cast<size_t*>(self);
                                        return tenon_code_t{TENON_OK};
                                      }};
    CONFORM_EXPECT(api->read_tensors(api->self, &source, &take) == TENON_OK && count == 1,
                   "read_tensors of what write_tensor wrote gives {} tensors: {}", count, reason());
    return pass();
  }
  return pass();
}

}  // namespace

Outcome exercise(Session& s, const Cut& cut) {
  const tenon_device_api_t* device = nullptr;
  uint32_t count = 0;
  const Outcome devices = find_devices(s, &device, &count, cut.of(TENON_DEVICE_ID));
  if (devices.verdict == Verdict::kSkip) return devices;
  const bool has_device = devices.verdict == Verdict::kPass;
  if (has_device) CONFORM_TRY(exercise_memory(s, device, count));
  const tenon_queue_api_t* complete = nullptr;
  const bool has_queues = has_device && find_queues(s, &complete).verdict == Verdict::kPass;
  if (has_queues) {
    const auto* queues =
        static_cast<const tenon_queue_api_t*>(s.table(TENON_QUEUE_ID, cut.of(TENON_QUEUE_ID)));
    CONFORM_TRY(exercise_queue(s, device, queues));
  }
  const auto* kernels =
      static_cast<const tenon_kernels_api_t*>(s.table(TENON_KERNELS_ID, cut.of(TENON_KERNELS_ID)));
  const bool has_kernels = kernels != nullptr && kernels->query != nullptr &&
                           kernels->create != nullptr && kernels->run != nullptr &&
                           kernels->destroy != nullptr;
  if (has_device && has_kernels) CONFORM_TRY(exercise_kernels(s, device, kernels));
  if (has_device && s.offered(TENON_COMPILE_ID) != nullptr)
    CONFORM_TRY(exercise_compile(s, cut.of(TENON_COMPILE_ID)));
  const auto* frontend = static_cast<const tenon_frontend_api_t*>(
      s.table(TENON_FRONTEND_ID, cut.of(TENON_FRONTEND_ID)));
  if (frontend != nullptr && frontend->accepts != nullptr)
    CONFORM_TRY(exercise_frontend(s, frontend));
  return has_device || frontend != nullptr ? pass()
                                           : not_offered("what could be used without a host");
}

}  // namespace tenon::conform
