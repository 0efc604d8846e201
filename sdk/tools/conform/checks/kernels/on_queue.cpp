// Group F, fourth part: kernels that go to a queue.
#include <algorithm>
#include <array>
#include <cstring>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/kernel_fixture.h"
#include "sdk/tools/conform/fixtures/device/queue_fixture.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

constexpr uint64_t kCount = 5, kBytes = kCount * sizeof(float);
constexpr std::string_view kSum =
    "tenon.tir 1\ngraph @k(%a: f32[5], %b: f32[5]) -> (c: f32[5]) {\n  %c = add(%a, %b) : f32[5]\n"
    "  yield %c\n}\n";
using Floats = std::array<float, kCount>;

// c = a + b on a queue.
class QueuedSum {
 public:
  QueuedSum(Session& session, OpenQueues& queues, const tenon_kernels_api_t& kernels)
      : session_(session), d_(queues), k_(kernels) {}
  ~QueuedSum() {
    if (kernel_ != nullptr) k_.destroy(k_.self, kernel_);
  }

  Outcome make(const Part& part, tenon_str_t target) {
    const KernelCall call(part, 0);
    candidate_ = {};
    candidate_.size_bytes = sizeof(candidate_);
    forget_failure();
    if (k_.query(k_.self, target, &call.call(), &candidate_) != TENON_OK)
      return skipped("its kernels take no sum of f32");
    CONFORM_TRY(d_.queue(&queue_));
    if (candidate_.workspace_bytes != 0)
      CONFORM_TRY(d_.memory().alloc(candidate_.workspace_bytes, &workspace_));
    const tenon_code_t code = k_.create(k_.self, d_.memory().device(), &call.call(), &kernel_);
    CONFORM_EXPECT(code == TENON_OK, "create gives {}", code_text(code));
    return pass();
  }

  // All parts; the first waits, the last signals.
  Outcome run(const tenon_buffer_t* a, const tenon_buffer_t* b, tenon_buffer_t* c,
              tenon_fence_point_t wait, tenon_fence_point_t signal) {
    constexpr int64_t kDims[] = {kCount};
    const tenon_buffer_t* const inputs[] = {a, b};
    tenon_buffer_t* const outputs[] = {c};
    const uint64_t zeros[] = {0, 0};
    const int64_t* const dims[] = {kDims, kDims};
    for (uint32_t part = 0; part < candidate_.part_count; ++part) {
      auto args = sized<tenon_kernel_args_t>();
      args.input_count = 2;
      args.output_count = 1;
      args.part_index = part;
      args.part_count = candidate_.part_count;
      args.inputs = inputs;
      args.outputs = outputs;
      args.input_offsets_bytes = args.output_offsets_bytes = zeros;
      args.input_dims = args.output_dims = dims;
      args.workspace = workspace_;
      args.queue = queue_;
      args.waits = &wait;
      args.wait_count = part == 0 && wait.fence != nullptr ? 1 : 0;
      if (part + 1 == candidate_.part_count) args.signal = signal;
      session_.step("running a kernel on a queue");
      const tenon_code_t code = k_.run(k_.self, kernel_, &args);
      CONFORM_EXPECT(code == TENON_OK, "run on a queue gives {}", code_text(code));
    }
    return pass();
  }

 private:
  Session& session_;
  OpenQueues& d_;
  const tenon_kernels_api_t& k_;
  tenon_kernel_candidate_t candidate_ = {};
  tenon_kernel_t* kernel_ = nullptr;
  tenon_queue_t* queue_ = nullptr;
  tenon_buffer_t* workspace_ = nullptr;
};

Outcome holds(OpenQueues& d, tenon_buffer_t* buffer, const Floats& expected,
              std::string_view what) {
  Floats found = {};
  CONFORM_EXPECT(d.memory().to_host(found.data(), buffer, 0, kBytes) == TENON_OK,
                 "a copy from the device fails");
  for (size_t i = 0; i < kCount; ++i)
    CONFORM_EXPECT(found[i] == expected[i], "element {} of {} is {} instead of {}", i, what,
                   found[i], expected[i]);
  return pass();
}

Outcome waits_and_signals(Session& s, OpenQueues& d) {
  const auto* kernels = static_cast<const tenon_kernels_api_t*>(s.table(TENON_KERNELS_ID));
  const auto* devices = static_cast<const tenon_device_api_t*>(s.table(TENON_DEVICE_ID));
  Api api;
  CONFORM_TRY(find_api(&api));
  auto info = sized<tenon_device_info_t>();
  if (devices->info(devices->self, 0, &info) != TENON_OK)
    return skipped("info fails, as C.info reports");
  std::unique_ptr<Part> part;
  CONFORM_TRY(Part::read(api, std::string(kSum), &part));
  QueuedSum sum(s, d, *kernels);
  CONFORM_TRY(sum.make(*part, info.target));
  tenon_queue_t* copies = nullptr;
  tenon_fence_t *gate = nullptr, *written = nullptr, *done = nullptr;
  tenon_buffer_t *a = nullptr, *b = nullptr, *c = nullptr, *e = nullptr;
  CONFORM_TRY(d.queue(&copies));
  for (tenon_fence_t** fence : {&gate, &written, &done}) CONFORM_TRY(d.fence(0, fence));
  for (tenon_buffer_t** buffer : {&a, &b, &c, &e}) CONFORM_TRY(d.memory().alloc(kBytes, buffer));
  const Floats zeros = {}, first = {1, 2, 3, 4, 5}, second = {10, 20, 30, 40, 50};
  CONFORM_EXPECT(d.memory().to_device(a, 0, zeros.data(), kBytes) == TENON_OK &&
                     d.memory().to_device(b, 0, second.data(), kBytes) == TENON_OK,
                 "a copy to the device fails");
  // What the first kernel reads is written by another queue, when the host opens the gate.
  Bytes& late = d.keep(Bytes(kBytes));
  std::memcpy(late.data(), first.data(), kBytes);
  CONFORM_TRY(d.submit(copies, async_write(a, 0, late.data(), kBytes), {gate, 1}, {written, 1}));
  CONFORM_TRY(sum.run(a, b, c, {written, 1}, {done, 1}));
  CONFORM_TRY(sum.run(c, b, e, kNoPoint, {done, 2}));  // after the first, in order
  CONFORM_TRY(d.stays_below(done, 1, "a kernel whose wait is not met"));
  CONFORM_TRY(d.signal(gate, 1));
  CONFORM_TRY(d.reaches(done, 2, "two kernels"));
  CONFORM_TRY(holds(d, c, {11, 22, 33, 44, 55}, "a sum"));
  return holds(d, e, {21, 42, 63, 84, 105}, "a sum of a sum");
}

Outcome on_queue(Session& s) {
  CONFORM_TRY(s.load());
  const auto* kernels = static_cast<const tenon_kernels_api_t*>(s.table(TENON_KERNELS_ID));
  if (kernels == nullptr || (kernels->flags & TENON_KERNELS_ON_QUEUE) == 0)
    return not_offered("kernels that go to a queue");
  return with_queues<waits_and_signals>(s);
}

constexpr Check kChecks[] = {{"R-F19", "on-queue", on_queue}};

}  // namespace

std::span<const Check> kernel_queue_checks() {
  return kChecks;
}

}  // namespace tenon::conform
