// A graph of a check, compiled and loaded, and ready to be executed.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/conform/compile_bench.h"
#include "core/conform/compile_graphs.h"
#include "core/conform/open_queue.h"
#include "core/conform/session.h"

namespace tenon::conform {

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

// What `check` says of each of the graphs that the device takes; skipped where it takes none.
Outcome each_taken(Session& session, const std::vector<std::string>& texts,
                   const std::function<Outcome(Loaded&)>& check);

// What needs says, against what the graph says.
Outcome right_needs(Loaded& l, const Symbols& symbols);

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

}  // namespace tenon::conform
