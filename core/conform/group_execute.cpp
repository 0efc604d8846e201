// Group E, second part: sizes and executions.
#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/conform/compile_bench.h"
#include "core/conform/compile_graphs.h"
#include "core/conform/group_tables.h"
#include "core/conform/open_queue.h"
#include "core/conform/process_state.h"
#include "core/conform/session.h"

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;
using Symbols = std::vector<int64_t>;

// A graph compiled and loaded on device 0, with inputs and what the reference makes of them.
struct Loaded {
  explicit Loaded(Session& session) : bench(session) {}
  CompileBench bench;
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  Compiled compiled;
  std::vector<Named> inputs, expected;

  // Makes it all; symbols as the graph has them.
  Outcome make(const std::string& text, const Symbols& symbols = {}) {
    CONFORM_TRY(bench.find());
    CONFORM_TRY(bench.taken(text, &part));
    CONFORM_TRY(bench.open(0, &device));
    CONFORM_TRY(bench.load(*device, *part, &compiled));
    return with(symbols);
  }
  Outcome with(const Symbols& symbols) {
    inputs = part->inputs(symbols, fill_normal);
    return part->expected(inputs, &expected);
  }
  std::unique_ptr<Execution> execution(const Symbols& symbols = {}) {
    return std::make_unique<Execution>(bench, *device, *part, compiled.executable, symbols);
  }
  // One execution in new buffers.
  Outcome run(const Symbols& symbols, unsigned char filler, std::vector<Named>* out) {
    const std::unique_ptr<Execution> made = execution(symbols);
    CONFORM_TRY(made->prepare(inputs, filler));
    bench.session().step(fmt::format("execute, with {:#x} in all memory", filler));
    CONFORM_TRY(made->run());
    return made->outputs(out);
  }
};

// ---- Sizes
// ---------------------------------------------------------------------------------------------

// What needs says, against what the graph says.
Outcome right_needs(Loaded& l, const Symbols& symbols) {
  Needs needs;
  l.bench.session().step(fmt::format("needs for {}", fmt::join(symbols, ", ")));
  const tenon_code_t code = needs_code(l.bench, l.compiled.executable, *l.part, symbols, &needs);
  CONFORM_EXPECT(code == TENON_OK, "needs for symbols [{}] gives {}", fmt::join(symbols, ", "),
                 code_text(code));
  for (uint32_t i = 0; i < l.part->main().yield_count; ++i) {
    const tenon_value_t yield = l.part->main().yields[i];
    tools::Dense tensor;
    tensor.dtype = l.part->value(yield).type.dtype;
    tensor.dims = l.part->dims_of(yield, symbols).value_or(Symbols());
    CONFORM_EXPECT(needs.dims[i] == tensor.dims,
                   "for symbols [{}] needs says that output {} is [{}], and it is [{}]",
                   fmt::join(symbols, ", "), i, fmt::join(needs.dims[i], ", "),
                   fmt::join(tensor.dims, ", "));
    const uint64_t size = needs.outputs[i].size_bytes_max;
    CONFORM_EXPECT(size == tensor.size_bytes(),
                   "for symbols [{}] needs says that output {} has {} bytes, and it has {}",
                   fmt::join(symbols, ", "), i, size, tensor.size_bytes());
    const uint32_t alias = needs.outputs[i].alias_input;
    CONFORM_EXPECT(alias == TENON_NO_ALIAS || alias < l.part->main().argument_count,
                   "needs says that output {} may share input {} of {}", i, alias,
                   l.part->main().argument_count);
  }
  CONFORM_EXPECT(needs.needs.lower_bound_bytes <= needs.needs.workspace_bytes,
                 "needs says that {} bytes live at once in a workspace of {}",
                 needs.needs.lower_bound_bytes, needs.needs.workspace_bytes);
  return pass();
}

Outcome needs_of_plain(Session& s) {
  Loaded l(s);
  for (const std::string& text : {pair_graph(), chain_graph(), constant_graph(100)}) {
    Loaded one(s);
    CONFORM_TRY(one.make(text));
    for (int i = 0; i < 2; ++i) CONFORM_TRY(right_needs(one, {}));
  }
  return pass();
}

const std::vector<Symbols>& symbol_values() {
  static const auto* values = new std::vector<Symbols>{
      {5, 3}, {0, 4}, {7, 0}, {1, 1}, {0, 0}, {1, 9}, {8, 1}, {16, 2}, {33, 65}, {3, 200}, {5, 3}};
  return *values;
}

Outcome needs_of_symbols(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(symbolic_graph(), {5, 3}));
  for (const Symbols& symbols : symbol_values()) CONFORM_TRY(right_needs(l, symbols));
  return pass();
}

// Sizes of more than 32 bits; nothing is run. A device that cannot have them says so.
Outcome needs_of_large(Session& s) {
  constexpr int64_t kMany = int64_t{1} << 31;
  Loaded l(s);
  CONFORM_TRY(l.make(symbolic_graph(), {5, 3}));
  size_t refused = 0;
  const std::vector<Symbols> large = {{kMany - 1, 3}, {2, kMany - 1}, {1 << 16, (1 << 16) + 1},
                                      {1 << 15, 1 << 15}, {kMany + 1, 1}};
  for (const Symbols& symbols : large) {
    Needs needs;
    s.step(fmt::format("needs for {}", fmt::join(symbols, ", ")));
    const tenon_code_t code = needs_code(l.bench, l.compiled.executable, *l.part, symbols, &needs);
    if (code == TENON_RESOURCE_EXHAUSTED) {
      CONFORM_EXPECT(heard_failure().any, "needs for symbols [{}] gives {} without a reason",
                     fmt::join(symbols, ", "), code_text(code));
      ++refused;
      continue;
    }
    CONFORM_TRY(right_needs(l, symbols));
  }
  CONFORM_TRY(right_needs(l, {5, 3}));
  return refused == large.size() ? skipped("it has no tensors of 4 GiB") : pass();
}

Outcome runs_symbols(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(symbolic_graph(), {5, 3}));
  for (const Symbols& symbols : symbol_values()) {
    std::vector<Named> got;
    CONFORM_TRY(l.with(symbols));
    const std::unique_ptr<Execution> execution = l.execution(symbols);
    CONFORM_TRY(execution->prepare(l.inputs, 0x5a));
    s.step(fmt::format("execute for symbols [{}]", fmt::join(symbols, ", ")));
    CONFORM_TRY(execution->run());
    CONFORM_TRY(execution->outputs(&got));
    CONFORM_TRY(
        same_tensors(got, l.expected, fmt::format("symbols [{}]", fmt::join(symbols, ", "))));
    CONFORM_TRY(execution->kept_all());
  }
  return pass();
}

// ---- Memory
// ---------------------------------------------------------------------------------------------

Outcome writes_outputs(Session& s) {
  for (const std::string& text : {pair_graph(), chain_graph(), constant_graph(777)}) {
    Loaded l(s);
    CONFORM_TRY(l.make(text));
    for (unsigned char filler : {0x00, 0xff, 0x5a}) {
      std::vector<Named> got;
      CONFORM_TRY(l.run({}, filler, &got));
      CONFORM_TRY(
          same_tensors(got, l.expected, fmt::format("with {:#x} in all memory before", filler)));
    }
  }
  return pass();
}

Outcome keeps_the_rest(Session& s) {
  for (const std::string& text : {pair_graph(), chain_graph(), constant_graph(777)}) {
    Loaded l(s);
    CONFORM_TRY(l.make(text));
    for (unsigned char filler : {0xa5, 0x3c}) {
      const std::unique_ptr<Execution> execution = l.execution();
      CONFORM_TRY(execution->prepare(l.inputs, filler));
      s.step("execute between guards");
      CONFORM_TRY(execution->run());
      CONFORM_TRY(execution->kept_all());
    }
  }
  return pass();
}

// Every output in the memory of the input that needs offers for it.
Outcome aliases(Session& s) {
  size_t offered = 0;
  for (const std::string& text : {pair_graph(), chain_graph(), sum_graph(), equal_sizes_graph()}) {
    Loaded l(s);
    const Outcome made = l.make(text);
    if (made.verdict == Verdict::kSkip) continue;
    CONFORM_TRY(made);
    Needs needs;
    CONFORM_EXPECT(needs_code(l.bench, l.compiled.executable, *l.part, {}, &needs) == TENON_OK,
                   "needs fails");
    for (uint32_t i = 0; i < needs.outputs.size(); ++i) {
      const uint32_t alias = needs.outputs[i].alias_input;
      if (alias == TENON_NO_ALIAS) continue;
      ++offered;
      CONFORM_EXPECT(alias < l.inputs.size(), "output {} may share input {} of {}", i, alias,
                     l.inputs.size());
      const tools::Dense& input = l.inputs[alias].tensor;
      CONFORM_EXPECT(input.size_bytes() == needs.outputs[i].size_bytes_max &&
                         input.dtype == l.expected[i].tensor.dtype,
                     "output {}, which is {}, may share input {}, which is {}", i,
                     tools::type_text(l.expected[i].tensor), alias, tools::type_text(input));
      const std::unique_ptr<Execution> execution = l.execution();
      std::vector<Named> got;
      CONFORM_TRY(execution->prepare(l.inputs, 0x77, i, alias));
      s.step(fmt::format("execute with output {} in the memory of input {}", i, alias));
      CONFORM_TRY(execution->run());
      CONFORM_TRY(execution->outputs(&got));
      CONFORM_TRY(same_tensors(got, l.expected,
                               fmt::format("output {} in the memory of input {}", i, alias)));
      CONFORM_TRY(execution->kept_all());
    }
  }
  return offered == 0 ? skipped("it offers no alias") : pass();
}

// ---- The same every time
// ---------------------------------------------------------------------------------------------

Outcome same_again(Session& s) {
  size_t tried = 0;
  for (const std::string& text : {chain_graph(), sum_graph()}) {
    Loaded l(s);
    const Outcome made = l.make(text);
    if (made.verdict == Verdict::kSkip) continue;
    CONFORM_TRY(made);
    ++tried;
    std::vector<Named> first, got;
    CONFORM_TRY(l.run({}, 0, &first));
    CONFORM_TRY(same_tensors(first, l.expected, "the first execution"));
    for (unsigned char filler = 1; filler < 8; ++filler) {
      CONFORM_TRY(l.run({}, filler, &got));
      CONFORM_TRY(same_bits(got, first, "another execution with the same inputs"));
    }
  }
  return tried == 0 ? skipped("the device does not take the graphs") : pass();
}

// What device 0 makes of the sums and of the chain, in a process with so many threads: a digest.
Outcome digest_with_threads(Session& s, int threads, std::string* out) {
  const Outcome outcome = s.apart([&]() -> Outcome {
    ::setenv("TENON_NUM_THREADS", std::to_string(threads).c_str(), 1);
    uint64_t digest = 1469598103934665603u;
    for (const std::string& text : {sum_graph(), chain_graph()}) {
      auto* l = new Loaded(s);  // the process ends soon
      std::vector<Named> got;
      const Outcome made = l->make(text);
      if (made.verdict == Verdict::kNotOffered) return made;
      if (made.verdict == Verdict::kSkip) continue;
      if (made.verdict != Verdict::kPass || l->run({}, 0, &got).verdict != Verdict::kPass)
        return skipped(
            fmt::format("with {} threads it does not run, as other checks tell", threads));
      for (const Named& output : got) {
        for (unsigned char byte : output.bytes) digest = (digest ^ byte) * 1099511628211u;
      }
    }
    return {Verdict::kPass, fmt::format("{:016x}", digest)};
  });
  CONFORM_EXPECT(outcome.verdict != Verdict::kFail, "with {} threads: {}", threads, outcome.text);
  *out = outcome.text;
  return outcome.verdict == Verdict::kPass ? pass() : outcome;
}

Outcome same_with_threads(Session& s) {
  std::string one, more;
  s.step("executing with one thread");
  CONFORM_TRY(digest_with_threads(s, 1, &one));
  for (int threads : {2, 3, 7}) {
    s.step(fmt::format("executing with {} threads", threads));
    CONFORM_TRY(digest_with_threads(s, threads, &more));
    CONFORM_EXPECT(one == more, "with {} threads the results are other bits than with one",
                   threads);
  }
  return pass();
}

// Four threads begin together, again and again, and each has outputs of its own to find.
Outcome reentrant(Session& s) {
  constexpr int kRounds = 60;
  Loaded l(s);
  CONFORM_TRY(l.make(chain_graph()));
  if (l.bench.info().threading != TENON_THREADING_FREE)
    return skipped("the device does not take calls from several threads at once");
  constexpr unsigned kThreads = 4;
  std::unique_ptr<Execution> executions[kThreads];
  std::vector<Named> expected[kThreads], alone[kThreads];
  for (unsigned t = 0; t < kThreads; ++t) {
    const std::vector<Named> inputs = l.part->inputs(
        {}, [t](tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
          fill_normal(dtype, stream + 10 * t, count, bytes);
        });
    CONFORM_TRY(l.part->expected(inputs, &expected[t]));
    executions[t] = l.execution();
    CONFORM_TRY(executions[t]->prepare(inputs, 0x11));
    CONFORM_TRY(executions[t]->run());
    CONFORM_TRY(executions[t]->outputs(&alone[t]));
    CONFORM_TRY(same_tensors(alone[t], expected[t], "a run by itself"));
  }
  Outcome outcomes[kThreads];
  std::barrier together(kThreads);
  s.step("execute in four threads");
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < kRounds; ++round) {
          std::vector<Named> got;
          together.arrive_and_wait();
          if (outcomes[t].verdict == Verdict::kPass) outcomes[t] = executions[t]->run();
          if (outcomes[t].verdict == Verdict::kPass) outcomes[t] = executions[t]->outputs(&got);
          if (outcomes[t].verdict == Verdict::kPass)
            outcomes[t] = same_bits(got, alone[t], "one of several threads, and a run by itself");
        }
      });
    }
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

Outcome needs_in_threads(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(symbolic_graph(), {5, 3}));
  constexpr unsigned kThreads = 4;
  Outcome outcomes[kThreads];
  s.step("needs in four threads");
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t round = 0; round < 200 && outcomes[t].verdict == Verdict::kPass; ++round)
          outcomes[t] = right_needs(l, {round % 7 + t, (round * 5 + t) % 11});
      });
    }
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

// ---- Queues
// ---------------------------------------------------------------------------------------------

// An execution on a queue, behind a gate. Left alone when the check fails.
struct Queued {
  explicit Queued(Session& session) : loaded(session) {}
  Loaded loaded;
  std::unique_ptr<OpenQueues> queues;
  tenon_queue_t *queue = nullptr, *other = nullptr;
  tenon_fence_t *gate = nullptr, *done = nullptr;
  std::unique_ptr<Execution> execution;
  std::vector<std::unique_ptr<Execution>> more;

  Outcome make(const std::string& text = chain_graph(), const Symbols& symbols = {}) {
    CONFORM_TRY(loaded.make(text, symbols));
    if (loaded.bench.queues() == nullptr) return not_offered(TENON_QUEUE_ID);
    const tenon_device_api_t& api = loaded.device->api();
    queues = std::make_unique<OpenQueues>(&api, loaded.bench.queues(), *loaded.device);
    CONFORM_TRY(queues->queue(&queue));
    CONFORM_TRY(queues->queue(&other));
    CONFORM_TRY(queues->fence(0, &gate));
    CONFORM_TRY(queues->fence(0, &done));
    execution = loaded.execution(symbols);
    return execution->prepare(loaded.inputs, 0x21);
  }
  tenon_code_t submit(std::span<const tenon_fence_point_t> waits, tenon_fence_point_t signal) {
    return submit_to(queue, waits, signal);
  }
  tenon_code_t submit_to(tenon_queue_t* to, std::span<const tenon_fence_point_t> waits,
                         tenon_fence_point_t signal) {
    tenon_call_t call = execution->call();
    call.queue = to;
    call.waits = waits.data();
    call.wait_count = static_cast<uint32_t>(waits.size());
    call.signal = signal;
    forget_failure();
    const tenon_compile_api_t& c = loaded.bench.compiler();
    return c.execute(c.self, loaded.compiled.executable, &call);
  }
  Outcome right(std::string_view what) {
    std::vector<Named> got;
    CONFORM_TRY(execution->outputs(&got));
    return same_tensors(got, loaded.expected, what);
  }
  Outcome end() {
    execution.reset();
    more.clear();
    loaded.compiled.release_executable();
    return queues->end_queues();
  }
};

Outcome queue_waits(Session& s) {
  auto* q = new Queued(s);
  CONFORM_TRY(q->make());
  for (uint64_t round = 1; round <= 2; ++round) {
    tenon_fence_t* second = nullptr;
    CONFORM_TRY(q->queues->fence(0, &second));
    s.step("execute on a queue, behind two fences");
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

// What execute was given, but for buffers, is other things as soon as it has returned.
Outcome queue_borrows(Session& s) {
  auto* q = new Queued(s);
  CONFORM_TRY(q->make(symbolic_graph(), {33, 5}));
  // Where what reads too late finds inputs and puts outputs.
  q->more.push_back(q->loaded.execution({33, 5}));
  CONFORM_TRY(q->more[0]->prepare(q->loaded.inputs, 0x21));
  const tenon_compile_api_t& c = q->loaded.bench.compiler();
  for (uint64_t round = 1; round <= 2; ++round) {
    const tenon_call_t call = q->execution->call(), other = q->more[0]->call();
    for (uint32_t i = 0; i < call.output_count; ++i) {
      const tenon_span_t& span = call.outputs[i];
      CONFORM_EXPECT(q->loaded.device->fill(span.buffer, span.offset_bytes,
                                            q->execution->needs().outputs[i].size_bytes_max, 0x21,
                                            1) == TENON_OK,
                     "a fill fails");
    }
    std::vector<int64_t> symbols(call.symbols.values, call.symbols.values + call.symbols.count);
    std::vector<tenon_span_t> inputs(call.inputs, call.inputs + call.input_count),
        outputs(call.outputs, call.outputs + call.output_count);
    std::vector<tenon_fence_point_t> waits = {{q->gate, 2 * round - 1}, {q->gate, 2 * round}};
    auto record = std::make_unique<tenon_call_t>(call);
    record->symbols.values = symbols.data();
    record->inputs = inputs.data();
    record->outputs = outputs.data();
    record->queue = round == 1 ? q->queue : q->other;
    record->waits = waits.data();
    record->wait_count = 2;
    record->signal = {q->done, round};
    s.step("changing the record and the arrays of execute after it returned");
    const tenon_code_t code = c.execute(c.self, q->loaded.compiled.executable, record.get());
    symbols.assign(symbols.size(), 1);
    std::copy_n(other.inputs, inputs.size(), inputs.begin());
    std::copy_n(other.outputs, outputs.size(), outputs.begin());
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

// The inputs come by a copy on another queue, which ends when the gate opens: an execution that
// starts early sees others.
Outcome queue_reads_late(Session& s) {
  auto* q = new Queued(s);
  CONFORM_TRY(q->make());
  s.step("execute behind a copy of its inputs");
  tenon_call_t call = q->execution->call();
  const Bytes& fresh = q->queues->keep(q->loaded.inputs[0].bytes);
  const uint64_t offset = call.inputs[0].offset_bytes;
  CONFORM_EXPECT(
      q->loaded.device->fill(call.inputs[0].buffer, offset, fresh.size(), 0, 1) == TENON_OK,
      "a fill fails");
  CONFORM_TRY(q->queues->submit(
      q->other, async_write(call.inputs[0].buffer, offset, fresh.data(), fresh.size()),
      {q->gate, 1}, {q->done, 1}));
  std::vector<tenon_span_t> inputs(call.inputs, call.inputs + call.input_count),
      outputs(call.outputs, call.outputs + call.output_count);
  std::vector<tenon_fence_point_t> waits = {{q->done, 1}};
  call.inputs = inputs.data();
  call.outputs = outputs.data();
  call.queue = q->queue;
  call.waits = waits.data();
  call.wait_count = 1;
  call.signal = {q->done, 2};
  const tenon_compile_api_t& c = q->loaded.bench.compiler();
  const tenon_code_t code = c.execute(c.self, q->loaded.compiled.executable, &call);
  CONFORM_EXPECT(code == TENON_OK, "execute on a queue gives {}", code_text(code));
  CONFORM_TRY(q->queues->stays_below(q->done, 1, "an execution behind a copy that waits"));
  CONFORM_TRY(q->queues->signal(q->gate, 1));
  CONFORM_TRY(q->queues->reaches(q->done, 2, "an execution behind a copy"));
  CONFORM_TRY(q->right("an execution behind a copy of its inputs"));
  CONFORM_TRY(q->end());
  delete q;
  return pass();
}

// What an execution wrote is read by a queue that waits for its signal and for nothing else.
Outcome queue_signals(Session& s) {
  auto* q = new Queued(s);
  CONFORM_TRY(q->make(large_graph()));
  const tenon_call_t call = q->execution->call();
  const uint64_t size = q->execution->needs().outputs[0].size_bytes_max;
  Bytes& got = q->queues->keep(Bytes(size));
  for (uint64_t round = 1; round <= 12; ++round) {
    s.step("reading what an execution wrote, behind its signal");
    std::fill(got.begin(), got.end(), static_cast<unsigned char>(0));
    const tenon_span_t& span = call.outputs[0];
    CONFORM_EXPECT(
        q->loaded.device->fill(span.buffer, span.offset_bytes, size, 0x21, 1) == TENON_OK,
        "a fill fails");
    const tenon_code_t code = q->submit({}, {q->gate, round});
    CONFORM_EXPECT(code == TENON_OK, "execute on a queue gives {}", code_text(code));
    CONFORM_TRY(q->queues->submit(q->other,
                                  async_read(got.data(), span.buffer, span.offset_bytes, size),
                                  {q->gate, round}, {q->done, round}));
    CONFORM_TRY(q->queues->reaches(q->done, round, "a copy behind an execution"));
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

// Several on one queue, of one executable, each with buffers of its own.
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
  const tenon_compile_api_t& c = q->loaded.bench.compiler();
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

// Looks at the outputs past the device's own order: by a mapped address, or on another queue.
Outcome complete_on_return(Session& s) {
  auto* l = new Loaded(s);
  CONFORM_TRY(l->make(chain_graph()));
  const std::unique_ptr<Execution> execution = l->execution();
  CONFORM_TRY(execution->prepare(l->inputs, 0x21));
  const tenon_device_api_t& api = l->device->api();
  const tenon_call_t call = execution->call();
  const tenon_span_t span = call.outputs[2];
  const uint64_t size = execution->needs().outputs[2].size_bytes_max;
  void* address = nullptr;
  const bool maps = api.map != nullptr &&
                    api.map(api.self, l->device->device(), span.buffer, &address) == TENON_OK;
  if (!maps && l->bench.queues() == nullptr) return skipped("its memory is seen by copies alone");
  for (int round = 0; round < 20; ++round) {
    CONFORM_EXPECT(l->device->fill(span.buffer, span.offset_bytes, size, 0x21, 1) == TENON_OK,
                   "a fill fails");
    s.step("execute without a queue, and looking at once");
    Bytes got(size, 0);
    if (maps) {
      CONFORM_TRY(execution->run());
      std::memcpy(got.data(), static_cast<const unsigned char*>(address) + span.offset_bytes, size);
    } else {
      OpenQueues queues(&api, l->bench.queues(), *l->device);
      tenon_queue_t* queue = nullptr;
      tenon_fence_t* done = nullptr;
      Bytes& read = queues.keep(Bytes(size));
      CONFORM_TRY(queues.queue(&queue));
      CONFORM_TRY(queues.fence(0, &done));
      CONFORM_TRY(execution->run());
      CONFORM_TRY(queues.submit(queue, async_read(read.data(), span.buffer, span.offset_bytes, size),
                                tenon_fence_point_t{nullptr, 0}, {done, 1}));
      CONFORM_TRY(queues.reaches(done, 1, "a copy"));
      got = read;
      CONFORM_TRY(queues.end_queues());
    }
    std::vector<Named> out(1), expected(1);
    out[0].tensor = expected[0].tensor = l->expected[2].tensor;
    out[0].tensor.data = got.data();
    CONFORM_TRY(same_tensors(out, expected, "what stands in an output when execute returns"));
  }
  return pass();
}

// ---- Failures
// ---------------------------------------------------------------------------------------------

// Calls with another number of something.
std::vector<std::pair<std::string, tenon_call_t>> wrong_calls(
    const tenon_call_t& good, const std::vector<tenon_span_t>& inputs,
    const std::vector<tenon_span_t>& outputs, const int64_t* symbols) {
  std::vector<std::pair<std::string, tenon_call_t>> out(6, {"", good});
  for (auto& [what, call] : out) {
    call.inputs = inputs.data();
    call.outputs = outputs.data();
  }
  out[0].first = "an input less";
  --out[0].second.input_count;
  out[1].first = "an input more";
  ++out[1].second.input_count;
  out[2].first = "an output less";
  --out[2].second.output_count;
  out[3].first = "an output more";
  ++out[3].second.output_count;
  out[4].first = "no inputs";
  out[4].second.input_count = 0;
  out[5].first = "a symbol more";
  out[5].second.symbols = {symbols, good.symbols.count + 1};
  return out;
}

// `execution` is of `l`, and not prepared yet.
Outcome failing_execute(Session& s, tenon_queue_t* queue, OpenQueues* queues, Loaded& l,
                        Execution* execution) {
  CONFORM_TRY(execution->prepare(l.inputs, 0x21));
  const tenon_call_t good = execution->call();
  std::vector<tenon_span_t> inputs(good.inputs, good.inputs + good.input_count),
      outputs(good.outputs, good.outputs + good.output_count);
  inputs.push_back(inputs[0]);
  outputs.push_back(outputs[0]);
  const int64_t symbols[] = {1, 1, 1, 1};
  std::vector<Named> before, after;
  CONFORM_TRY(execution->outputs(&before));
  for (auto& [what, call] : wrong_calls(good, inputs, outputs, symbols)) {
    s.step("execute with " + what);
    tenon_fence_t* signal = nullptr;
    if (queues != nullptr) {
      CONFORM_TRY(queues->fence(3, &signal));
      call.queue = queue;
      call.signal = {signal, 4};
    }
    forget_failure();
    const tenon_compile_api_t& c = l.bench.compiler();
    const tenon_code_t code = c.execute(c.self, l.compiled.executable, &call);
    CONFORM_EXPECT(code == TENON_INVALID_ARGUMENT, "execute with {} gives {}", what,
                   code_text(code));
    CONFORM_EXPECT(heard_failure().any, "execute with {} fails without a reason", what);
    CONFORM_TRY(execution->outputs(&after));
    CONFORM_TRY(same_bits(after, before, "outputs of an execute that failed"));
    if (queues != nullptr) {
      uint64_t value = 0;
      CONFORM_TRY(queues->value_of(signal, &value));
      CONFORM_EXPECT(value == 3, "the signal of an execute that failed stands at {} and stood at 3",
                     value);
      const tenon_code_t waited = queues->wait_code(signal, 4, 0);
      CONFORM_EXPECT(waited == TENON_DEADLINE_EXCEEDED,
                     "a wait for the signal of an execute that failed gives {}", code_text(waited));
    }
    s.step("execute after one with " + what);
    CONFORM_TRY(execution->run());
    CONFORM_TRY(execution->outputs(&before));
    CONFORM_TRY(same_tensors(before, l.expected, "an execution after one with " + what));
  }
  return execution->kept_all();
}

Outcome wrong_counts(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(chain_graph()));
  const std::unique_ptr<Execution> execution = l.execution();
  return failing_execute(s, nullptr, nullptr, l, execution.get());
}

Outcome failing_on_queue(Session& s) {
  auto* q = new Queued(s);
  CONFORM_TRY(q->make());
  q->more.push_back(q->loaded.execution());
  CONFORM_TRY(failing_execute(s, q->queue, q->queues.get(), q->loaded, q->more[0].get()));
  CONFORM_TRY(q->end());
  delete q;
  return pass();
}

Outcome wrong_needs(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(symbolic_graph(), {5, 3}));
  Needs needs;
  for (const Symbols& symbols : {Symbols{5}, Symbols{}, Symbols{5, 3, 7}}) {
    s.step(fmt::format("needs with {} symbols of 2", symbols.size()));
    const tenon_code_t code = needs_code(l.bench, l.compiled.executable, *l.part, symbols, &needs);
    CONFORM_EXPECT(code == TENON_INVALID_ARGUMENT, "needs with {} symbols of 2 gives {}",
                   symbols.size(), code_text(code));
    CONFORM_EXPECT(heard_failure().any, "needs with {} symbols of 2 fails without a reason",
                   symbols.size());
    CONFORM_TRY(right_needs(l, {5, 3}));
  }
  return pass();
}

Outcome cancelled_run(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(chain_graph()));
  const std::unique_ptr<Execution> execution = l.execution();
  CONFORM_TRY(execution->prepare(l.inputs, 0x21));
  const tenon_host_session_t& session = *l.bench.api().session;
  s.step("execute of a cancelled operation");
  session.cancel(session.self, 1);
  const tenon_code_t code = execution->run_code();
  const HeardFailure why = heard_failure();
  session.cancel(session.self, 0);
  CONFORM_EXPECT(code == TENON_OK || code == TENON_CANCELLED,
                 "execute of a cancelled operation gives {}", code_text(code));
  CONFORM_EXPECT(code == TENON_OK || why.any, "a cancelled execute gives no reason");
  std::vector<Named> got;
  if (code == TENON_OK) {
    CONFORM_TRY(execution->outputs(&got));
    CONFORM_TRY(same_tensors(got, l.expected, "an execution that was cancelled and gives OK"));
  }
  CONFORM_TRY(execution->run());
  CONFORM_TRY(execution->outputs(&got));
  return same_tensors(got, l.expected, "an execution after one that was cancelled");
}

// ---- Lifetimes
// ---------------------------------------------------------------------------------------------

Outcome after_release(Session& s) {
  constexpr size_t kElements = 1 << 16;  // constants of 256 KiB, which the system takes back
  Loaded l(s);
  CONFORM_TRY(l.make(constant_graph(kElements)));
  const std::unique_ptr<Execution> execution = l.execution();
  CONFORM_TRY(execution->prepare(l.inputs, 0));
  CONFORM_TRY(execution->run());
  s.step("execute after artifact, bytes, constants and graph are gone");
  l.compiled.release_artifact();
  std::fill(l.compiled.bytes.begin(), l.compiled.bytes.end(), static_cast<unsigned char>(0xee));
  const std::vector<Named> expected = std::move(l.expected);
  // The outputs' types are asked of the graph: a second one of the same text.
  std::unique_ptr<Part> second;
  CONFORM_TRY(Part::read(l.bench.api(),
                         "tenon.tir 1\ngraph @t(%x: f32[65536]) -> (a: f32[65536]) {\n"
                         "  %0 = add(%x, %x) : f32[65536]\n  yield %0\n}\n",
                         &second));
  Execution again(l.bench, *l.device, *second, l.compiled.executable, {});
  CONFORM_TRY(again.prepare(l.inputs, 0));
  l.part.reset();
  std::vector<Bytes> others(8, Bytes(kElements * 4, 0xee));  // where the constants were
  std::vector<Named> got;
  CONFORM_TRY(again.run());
  CONFORM_TRY(again.outputs(&got));
  for (size_t i = 0; i < got.size(); ++i) {
    const tools::Comparison compared = tools::compare(got[i].tensor, expected[i].tensor, 1e-4);
    CONFORM_EXPECT(compared.ok, "element {} is {} and was {} before", compared.worst,
                   tools::element_text(got[i].tensor, compared.worst),
                   tools::element_text(expected[i].tensor, compared.worst));
  }
  return pass();
}

Outcome gives_back(Session& s) {
  constexpr size_t kElements = 1 << 16;
  constexpr int kRounds = 100;
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.taken(constant_graph(kElements), &part));
  CONFORM_TRY(bench.open(0, &device));
  Compiled compiled;
  CONFORM_TRY(bench.compile(*part, &compiled));
  const std::vector<Named> inputs = part->inputs({}, fill_normal);
  const tenon_device_api_t& api = device->api();
  uint64_t used[2] = {}, peak = 0, before = 0;
  auto in_use = [&](uint64_t* out) {
    if (api.memory != nullptr) (void)api.memory(api.self, device->device(), out, &peak);
  };
  for (int round = -10; round < kRounds; ++round) {
    if (round == 0) {
      in_use(&used[0]);
      before = resident_bytes();
    }
    s.step("loading, running and releasing");
    tenon_executable_t* executable = nullptr;
    const tenon_code_t code =
        bench.load_code(*device, compiled.bytes, part->constants(), &executable);
    CONFORM_EXPECT(code == TENON_OK, "load gives {}", code_text(code));
    {
      Execution execution(bench, *device, *part, executable, {});
      CONFORM_TRY(execution.prepare(inputs, 0));
      // What each execution keeps adds up to more than what each executable may.
      for (int run = 0; run < 5; ++run) CONFORM_TRY(execution.run());
    }
    bench.compiler().executable_release(bench.compiler().self, executable);
  }
  in_use(&used[1]);
  const uint64_t after = resident_bytes();
  CONFORM_EXPECT(used[1] == used[0],
                 "{} bytes of the device were in use, and {} after {} executables were released",
                 used[0], used[1], kRounds);
  // A quarter of what the constants would add up to.
  const uint64_t most = kRounds * kElements * 4 / 4;
  CONFORM_EXPECT(after < before + most,
                 "after {} executables were loaded and released the process holds {} KiB more",
                 kRounds, (after - before) >> 10);
  return pass();
}

Outcome artifacts_given_back(Session& s) {
  constexpr int kRounds = 60;
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.taken(chain_graph(), &part));
  uint64_t before = 0, given_out = 0, artifact_bytes = 0;
  for (int round = -15; round < kRounds; ++round) {
    if (round == 0) before = resident_bytes(), given_out = allocated_bytes();
    Compiled compiled;
    CONFORM_TRY(bench.compile(*part, &compiled));
    artifact_bytes = compiled.bytes.size();
  }
  const uint64_t after = resident_bytes();
  // What an artifact keeps that is never released: at least its bytes.
  const uint64_t kept = allocated_bytes() - std::min(given_out, allocated_bytes());
  CONFORM_EXPECT(
      kept < kRounds * artifact_bytes,
      "after {} artifacts of {} bytes were compiled and released {} bytes more are in use", kRounds,
      artifact_bytes, kept);
  constexpr uint64_t kMost = uint64_t{8} << 20;
  CONFORM_EXPECT(after < before + kMost,
                 "after {} artifacts were compiled and released the process holds {} KiB more",
                 kRounds, (after - before) >> 10);
  return pass();
}

// Two executables of one artifact, and one on another device.
Outcome two_executables(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(constant_graph(300)));
  Compiled second;
  second.bytes = l.compiled.bytes;
  second.api = &l.bench.compiler();
  OpenDevice* other = l.device;
  if (l.bench.device_count() > 1) CONFORM_TRY(l.bench.open(1, &other));
  s.step("loading one artifact twice");
  const tenon_code_t code =
      l.bench.load_code(*other, second.bytes, l.part->constants(), &second.executable);
  CONFORM_EXPECT(code == TENON_OK, "a second load gives {}", code_text(code));
  const std::unique_ptr<Execution> first = l.execution();
  CONFORM_TRY(first->prepare(l.inputs, 1));
  std::vector<Named> got;
  {
    Execution another(l.bench, *other, *l.part, second.executable, {});
    CONFORM_TRY(another.prepare(l.inputs, 2));
    CONFORM_TRY(another.run());
    CONFORM_TRY(first->run());
    CONFORM_TRY(another.outputs(&got));
    CONFORM_TRY(same_tensors(got, l.expected, "the second of two executables"));
  }
  second.release_executable();
  CONFORM_TRY(first->run());
  CONFORM_TRY(first->outputs(&got));
  return same_tensors(got, l.expected,
                      "the first of two executables, after the second was released");
}

// ---- Profiles
// ---------------------------------------------------------------------------------------------

// Stays, since it may be called too late.
struct Events {
  std::mutex mutex;
  bool open = true;
  int count = 0, odd = 0, late = 0;
  uint64_t first = UINT64_MAX, last = 0;
  std::string why;
};

uint64_t monotonic_ns() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void heard_event(void* self, tenon_str_t name, tenon_str_t origins, uint64_t begin, uint64_t end,
                 double flops, double bytes, uint32_t) {
  auto* events = static_cast<Events*>(self);
  const std::lock_guard lock(events->mutex);
  if (!events->open) ++events->late;
  ++events->count;
  events->first = std::min(events->first, begin);
  events->last = std::max(events->last, end);
  std::string_view why;
  if (view(name).empty()) why = "an event has no name";
  if (!is_valid_utf8(view(name)) || !is_valid_utf8(view(origins)))
    why = "a text of an event is no UTF-8";
  if (begin > end) why = "an event ends before it begins";
  if (!(flops >= 0) || !(bytes >= 0)) why = "an event has a negative number of operations or bytes";
  if (why.empty()) return;
  ++events->odd;
  events->why = why;
}

// By which a device's clock may differ from the host's, in ns. What is the wrong clock or the wrong
// unit differs by more.
constexpr uint64_t kClockError = 100'000'000;

Outcome profiles(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(chain_graph()));
  const std::unique_ptr<Execution> execution = l.execution();
  CONFORM_TRY(execution->prepare(l.inputs, 0));
  tenon_call_t call = execution->call();
  auto* events = new Events;
  const auto* sink = new tenon_profile_sink_t{events, heard_event};
  call.profile = sink;
  s.step("execute with a profile");
  const tenon_compile_api_t& c = l.bench.compiler();
  const uint64_t before = monotonic_ns();
  const tenon_code_t code = c.execute(c.self, l.compiled.executable, &call);
  const uint64_t after = monotonic_ns();
  int count = 0;
  {
    const std::lock_guard lock(events->mutex);
    events->open = false;
    count = events->count;
  }
  CONFORM_EXPECT(code == TENON_OK, "execute with a profile gives {}", code_text(code));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CONFORM_TRY(execution->run());
  const std::lock_guard lock(events->mutex);
  CONFORM_EXPECT(events->late == 0, "{} events are told after execute returned", events->late);
  CONFORM_EXPECT(events->odd == 0, "{}", events->why);
  CONFORM_EXPECT(count == 0 || (events->first + kClockError >= before &&
                                events->last <= after + kClockError),
                 "events are told from {} to {}, and the call went from {} to {} ns of "
                 "CLOCK_MONOTONIC",
                 events->first, events->last, before, after);
  std::vector<Named> got;
  CONFORM_TRY(execution->outputs(&got));
  CONFORM_TRY(same_tensors(got, l.expected, "an execution with a profile"));
  return count == 0 ? skipped("it tells of no event") : pass();
}

constexpr Check kChecks[] = {
    {"R-E10", "needs", needs_of_plain},
    {"R-E10", "needs-of-symbols", needs_of_symbols},
    {"R-E10", "needs-of-large", needs_of_large},
    {"R-E10", "needs-in-threads", needs_in_threads},
    {"R-E11", "writes-outputs", writes_outputs},
    {"R-E11", "keeps-the-rest", keeps_the_rest},
    {"R-E12", "same-again", same_again},
    {"R-E12", "same-with-threads", same_with_threads},
    {"R-E13", "reentrant", reentrant},
    {"R-E14", "complete-on-return", complete_on_return},
    {"R-E14", "queue-waits", queue_waits},
    {"R-E14", "queue-reads-late", queue_reads_late},
    {"R-E14", "queue-borrows", queue_borrows},
    {"R-E14", "queue-signals", queue_signals},
    {"R-E14", "queue-many", queue_many},
    {"R-E15", "alias", aliases},
    {"R-E16", "failing-on-queue", failing_on_queue},
    {"R-E17", "after-release", after_release},
    {"R-E18", "symbols", runs_symbols},
    {"R-E23", "wrong-counts", wrong_counts},
    {"R-E23", "wrong-symbols", wrong_needs},
    {"R-E24", "cancelled-run", cancelled_run},
    {"R-E25", "gives-back", gives_back},
    {"R-E25", "artifacts-given-back", artifacts_given_back},
    {"R-E26", "two-executables", two_executables},
    {"R-E27", "profile", profiles},
};

}  // namespace

std::span<const Check> execute_checks() {
  return kChecks;
}

}  // namespace tenon::conform
