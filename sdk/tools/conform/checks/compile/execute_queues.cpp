// Group E: executions on queues, and when they are complete.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/compile/loaded_graph.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

Outcome queue_waits(Session& s) {
  auto* q = new Queued(s);
  CONFORM_TRY(q->make());
  for (uint64_t round = 1; round <= 2; ++round) {
    tenon_fence_t* second = nullptr;
    CONFORM_TRY(q->queues->fence(0, &second));
    s.step("execute on a queue, after two fences");
    const tenon_fence_point_t waits[] = {{q->gate, round}, {nullptr, 0}, {second, 5}};
    const tenon_code_t code =
        q->submit_to(round == 1 ? q->queue : q->other, waits, {q->done, round});
    CONFORM_EXPECT(code == TENON_OK, "execute on a queue gives {}", code_text(code));
    CONFORM_TRY(q->queues->stays_below(q->done, round, "an execution that waits for two fences"));
    CONFORM_TRY(q->queues->signal(q->gate, round));
    CONFORM_TRY(
        q->queues->stays_below(q->done, round, "an execution that waits for a second fence"));
    CONFORM_TRY(q->queues->signal(second, 5));
    CONFORM_TRY(q->queues->reaches(q->done, round, "an execution"));
    CONFORM_TRY(q->right("an execution on a queue"));
    CONFORM_TRY(q->execution->kept_all());
  }
  CONFORM_TRY(q->end());
  delete q;
  return pass();
}

// All arguments of execute except buffers are overwritten as soon as it has returned.
Outcome queue_borrows(Session& s) {
  auto* q = new Queued(s);
  CONFORM_TRY(q->make(symbolic_graph(), {33, 5}));
  // A decoy: an execution that reads too late finds inputs and puts outputs here.
  q->more.push_back(q->loaded.execution({33, 5}));
  CONFORM_TRY(q->more[0]->prepare(q->loaded.inputs, 0x21));
  const tenon_compile_api_t& c = q->loaded.fixture.compiler();
  for (uint64_t round = 1; round <= 2; ++round) {
    const tenon_call_t call = q->execution->call(), other = q->more[0]->call();
    for (uint32_t i = 0; i < call.output_count; ++i) {
      const tenon_span_t& span = *tenon_call_output(&call, i);
      CONFORM_EXPECT(q->loaded.device->fill(span.buffer, span.offset_bytes,
                                            q->execution->needs().outputs[i].size_bytes_max, 0x21,
                                            1) == TENON_OK,
                     "a fill fails");
    }
    std::vector<int64_t> symbols(call.symbols.values, call.symbols.values + call.symbols.count);
    std::vector<tenon_span_t> inputs = copy_of_rows(call.inputs, call.input_count, call.span_bytes),
                              outputs =
                                  copy_of_rows(call.outputs, call.output_count, call.span_bytes);
    std::vector<tenon_fence_point_t> waits = {{q->gate, 2 * round - 1}, {q->gate, 2 * round}};
    auto record = std::make_unique<tenon_call_t>(call);
    record->symbols.values = symbols.data();
    record->span_bytes = sizeof(tenon_span_t);
    record->inputs = inputs.data();
    record->outputs = outputs.data();
    record->queue = round == 1 ? q->queue : q->other;
    record->waits = waits.data();
    record->wait_count = 2;
    record->signal = {q->done, round};
    s.step("changing the record and the arrays of execute after it returned");
    const tenon_code_t code = c.execute(c.self, q->loaded.compiled.executable, record.get());
    symbols.assign(symbols.size(), 1);
    inputs = copy_of_rows(other.inputs, other.input_count, other.span_bytes);
    outputs = copy_of_rows(other.outputs, other.output_count, other.span_bytes);
    waits.assign(2, tenon_fence_point_t{nullptr, 0});
    *record = other;
    CONFORM_EXPECT(code == TENON_OK, "execute on a queue gives {}", code_text(code));
    CONFORM_TRY(q->queues->stays_below(q->done, round,
                                       "an execution whose waits were changed after execute"));
    CONFORM_TRY(q->queues->signal(q->gate, 2 * round - 1));
    CONFORM_TRY(q->queues->stays_below(q->done, round,
                                       "an execution whose waits were changed after execute"));
    CONFORM_TRY(q->queues->signal(q->gate, 2 * round));
    CONFORM_TRY(q->queues->reaches(q->done, round, "an execution"));
    CONFORM_TRY(q->right("an execution whose record and arrays were changed after execute"));
  }
  CONFORM_TRY(q->end());
  delete q;
  return pass();
}

// The inputs arrive by a copy on another queue, which ends when the gate opens: an execution that
// starts too early sees other values.
Outcome queue_reads_late(Session& s) {
  auto* q = new Queued(s);
  CONFORM_TRY(q->make());
  s.step("execute after a copy of its inputs");
  tenon_call_t call = q->execution->call();
  const Bytes& fresh = q->queues->keep(q->loaded.inputs[0].bytes);
  const uint64_t offset = tenon_call_input(&call, 0)->offset_bytes;
  CONFORM_EXPECT(q->loaded.device->fill(tenon_call_input(&call, 0)->buffer, offset, fresh.size(), 0,
                                        1) == TENON_OK,
                 "a fill fails");
  CONFORM_TRY(q->queues->submit(
      q->other, async_write(tenon_call_input(&call, 0)->buffer, offset, fresh.data(), fresh.size()),
      {q->gate, 1}, {q->done, 1}));
  std::vector<tenon_span_t> inputs = copy_of_rows(call.inputs, call.input_count, call.span_bytes),
                            outputs =
                                copy_of_rows(call.outputs, call.output_count, call.span_bytes);
  std::vector<tenon_fence_point_t> waits = {{q->done, 1}};
  call.span_bytes = sizeof(tenon_span_t);
  call.inputs = inputs.data();
  call.outputs = outputs.data();
  call.queue = q->queue;
  call.waits = waits.data();
  call.wait_count = 1;
  call.signal = {q->done, 2};
  const tenon_compile_api_t& c = q->loaded.fixture.compiler();
  const tenon_code_t code = c.execute(c.self, q->loaded.compiled.executable, &call);
  CONFORM_EXPECT(code == TENON_OK, "execute on a queue gives {}", code_text(code));
  CONFORM_TRY(q->queues->stays_below(q->done, 1, "an execution after a copy that waits"));
  CONFORM_TRY(q->queues->signal(q->gate, 1));
  CONFORM_TRY(q->queues->reaches(q->done, 2, "an execution after a copy"));
  CONFORM_TRY(q->right("an execution after a copy of its inputs"));
  CONFORM_TRY(q->end());
  delete q;
  return pass();
}

// The outputs are read by a queue that waits only for the execution's signal.
Outcome queue_signals(Session& s) {
  auto* q = new Queued(s);
  CONFORM_TRY(q->make(large_graph()));
  const tenon_call_t call = q->execution->call();
  const uint64_t size = q->execution->needs().outputs[0].size_bytes_max;
  Bytes& got = q->queues->keep(Bytes(size));
  for (uint64_t round = 1; round <= 12; ++round) {
    s.step("reading what an execution wrote, after its signal");
    std::fill(got.begin(), got.end(), static_cast<unsigned char>(0));
    const tenon_span_t& span = *tenon_call_output(&call, 0);
    CONFORM_EXPECT(
        q->loaded.device->fill(span.buffer, span.offset_bytes, size, 0x21, 1) == TENON_OK,
        "a fill fails");
    const tenon_code_t code = q->submit({}, {q->gate, round});
    CONFORM_EXPECT(code == TENON_OK, "execute on a queue gives {}", code_text(code));
    CONFORM_TRY(q->queues->submit(q->other,
                                  async_read(got.data(), span.buffer, span.offset_bytes, size),
                                  {q->gate, round}, {q->done, round}));
    CONFORM_TRY(q->queues->reaches(q->done, round, "a copy after an execution"));
    std::vector<Named> out(1), expected(1);
    out[0].tensor = q->loaded.expected[0].tensor;
    out[0].tensor.data = got.data();
    expected[0].tensor = q->loaded.expected[0].tensor;
    CONFORM_TRY(same_tensors(out, expected, "what stands in an output when the signal is made"));
  }
  CONFORM_TRY(q->end());
  delete q;
  return pass();
}

// Several executions of one executable on one queue, each with its own buffers.
Outcome queue_many(Session& s) {
  constexpr uint64_t kCount = 20;
  auto* q = new Queued(s);
  CONFORM_TRY(q->make());
  std::vector<std::unique_ptr<Execution>>& executions = q->more;
  s.step("many executions on a queue");
  for (uint64_t i = 0; i < kCount; ++i) {
    executions.push_back(q->loaded.execution());
    CONFORM_TRY(executions.back()->prepare(q->loaded.inputs, 0x42));
  }
  const tenon_compile_api_t& c = q->loaded.fixture.compiler();
  for (uint64_t i = 0; i < kCount; ++i) {
    tenon_call_t call = executions[i]->call();
    const tenon_fence_point_t wait = {q->gate, 1};
    call.queue = i % 2 == 0 ? q->queue : q->other;
    call.waits = &wait;
    call.wait_count = 1;
    if (i + 2 >= kCount) call.signal = {q->done, i + 3 - kCount};
    if (i + 1 == kCount) {
      // The last signal waits for the one before.
      const tenon_fence_point_t both[] = {{q->gate, 1}, {q->done, 1}};
      call.waits = both;
      call.wait_count = 2;
      const tenon_code_t code = c.execute(c.self, q->loaded.compiled.executable, &call);
      CONFORM_EXPECT(code == TENON_OK, "execute on a queue gives {}", code_text(code));
      continue;
    }
    const tenon_code_t code = c.execute(c.self, q->loaded.compiled.executable, &call);
    CONFORM_EXPECT(code == TENON_OK, "execute on a queue gives {}", code_text(code));
  }
  CONFORM_TRY(q->queues->signal(q->gate, 1));
  CONFORM_TRY(q->queues->reaches(q->done, 2, "many executions"));
  for (const auto& execution : executions) {
    std::vector<Named> got;
    CONFORM_TRY(execution->outputs(&got));
    CONFORM_TRY(same_tensors(got, q->loaded.expected, "one of many executions on two queues"));
  }
  CONFORM_TRY(q->end());
  delete q;
  return pass();
}

// One executable on several queues at once: a gate that the host opens lets all of them begin
// together, whatever the threading of the device. Each must give what it gives alone.
Outcome queues_at_once(Session& s) {
  constexpr size_t kQueues = 4;
  constexpr uint64_t kRounds = 60;
  auto* q = new Queued(s);
  CONFORM_TRY(q->make());
  std::vector<tenon_queue_t*> queues(kQueues);
  std::vector<tenon_fence_t*> ends(kQueues);
  std::vector<std::vector<Named>> alone(kQueues);
  for (size_t i = 0; i < kQueues; ++i) {
    CONFORM_TRY(q->queues->queue(&queues[i]));
    CONFORM_TRY(q->queues->fence(0, &ends[i]));
    const std::vector<Named> inputs = q->loaded.part->inputs(
        {}, [i](tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
          fill_normal(dtype, stream + 10 * i, count, bytes);
        });
    q->more.push_back(q->loaded.execution());
    CONFORM_TRY(q->more[i]->prepare(inputs, 0x42));
    CONFORM_TRY(q->more[i]->run());
    CONFORM_TRY(q->more[i]->outputs(&alone[i]));
  }
  const tenon_compile_api_t& c = q->loaded.fixture.compiler();
  s.step("execute on four queues at once");
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const tenon_fence_point_t wait = {q->gate, round};
    for (size_t i = 0; i < kQueues; ++i) {
      tenon_call_t call = q->more[i]->call();
      call.queue = queues[i];
      call.waits = &wait;
      call.wait_count = 1;
      call.signal = {ends[i], round};
      const tenon_code_t code = c.execute(c.self, q->loaded.compiled.executable, &call);
      CONFORM_EXPECT(code == TENON_OK, "execute on a queue gives {}", code_text(code));
    }
    CONFORM_TRY(q->queues->signal(q->gate, round));
    for (size_t i = 0; i < kQueues; ++i)
      CONFORM_TRY(q->queues->reaches(ends[i], round, "one of four executions at once"));
    for (size_t i = 0; i < kQueues; ++i) {
      std::vector<Named> got;
      CONFORM_TRY(q->more[i]->outputs(&got));
      CONFORM_TRY(same_tensors(got, alone[i], "one of four executions at once, and one alone"));
    }
  }
  CONFORM_TRY(q->end());
  delete q;
  return pass();
}

// Reads the outputs outside the device's own order: by a mapped address, or on another queue.
Outcome complete_on_return(Session& s) {
  auto* l = new Loaded(s);
  CONFORM_TRY(l->make(chain_graph()));
  const std::unique_ptr<Execution> execution = l->execution();
  CONFORM_TRY(execution->prepare(l->inputs, 0x21));
  const tenon_device_api_t& api = l->device->api();
  const tenon_call_t call = execution->call();
  const uint32_t last = call.output_count - 1;
  const tenon_span_t span = *tenon_call_output(&call, last);
  const uint64_t size = execution->needs().outputs[last].size_bytes_max;
  void* address = nullptr;
  const bool maps = api.map != nullptr &&
                    api.map(api.self, l->device->device(), span.buffer, &address) == TENON_OK;
  if (!maps && l->fixture.queues() == nullptr) return skipped("its memory is seen by copies alone");
  for (int round = 0; round < 20; ++round) {
    CONFORM_EXPECT(l->device->fill(span.buffer, span.offset_bytes, size, 0x21, 1) == TENON_OK,
                   "a fill fails");
    s.step("execute without a queue, and looking at once");
    Bytes got(size, 0);
    if (maps) {
      CONFORM_TRY(execution->run());
      std::memcpy(got.data(), static_cast<const unsigned char*>(address) + span.offset_bytes, size);
    } else {
      OpenQueues queues(&api, l->fixture.queues(), *l->device);
      tenon_queue_t* queue = nullptr;
      tenon_fence_t* done = nullptr;
      Bytes& read = queues.keep(Bytes(size));
      CONFORM_TRY(queues.queue(&queue));
      CONFORM_TRY(queues.fence(0, &done));
      CONFORM_TRY(execution->run());
      CONFORM_TRY(queues.submit(queue,
                                async_read(read.data(), span.buffer, span.offset_bytes, size),
                                tenon_fence_point_t{nullptr, 0}, {done, 1}));
      CONFORM_TRY(queues.reaches(done, 1, "a copy"));
      got = read;
      CONFORM_TRY(queues.end_queues());
    }
    std::vector<Named> out(1), expected(1);
    out[0].tensor = expected[0].tensor = l->expected[last].tensor;
    out[0].tensor.data = got.data();
    CONFORM_TRY(same_tensors(out, expected, "what stands in an output when execute returns"));
  }
  return pass();
}

constexpr Check kChecks[] = {
    {"R-E14", "complete-on-return", complete_on_return}, {"R-E14", "queue-waits", queue_waits},
    {"R-E14", "queue-reads-late", queue_reads_late},     {"R-E14", "queue-borrows", queue_borrows},
    {"R-E14", "queue-signals", queue_signals},           {"R-E14", "queue-many", queue_many},
    {"R-E13", "queues-at-once", queues_at_once},
};

}  // namespace

std::span<const Check> execute_queue_checks() {
  return kChecks;
}

}  // namespace tenon::conform
