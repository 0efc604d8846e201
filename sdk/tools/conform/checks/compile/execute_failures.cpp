// Group E: executions that fail or are cancelled.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/compile/loaded_graph.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// Calls with a wrong number of something.
std::vector<std::pair<std::string, tenon_call_t>> wrong_calls(
    const tenon_call_t& good, const std::vector<tenon_span_t>& inputs,
    const std::vector<tenon_span_t>& outputs, const int64_t* symbols) {
  std::vector<std::pair<std::string, tenon_call_t>> out(6, {"", good});
  for (auto& [what, call] : out) {
    call.span_bytes = sizeof(tenon_span_t);
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

// `execution` belongs to `l` and is not prepared yet.
Outcome failing_execute(Session& s, tenon_queue_t* queue, OpenQueues* queues, Loaded& l,
                        Execution* execution) {
  CONFORM_TRY(execution->prepare(l.inputs, 0x21));
  const tenon_call_t good = execution->call();
  std::vector<tenon_span_t> inputs = copy_of_rows(good.inputs, good.input_count, good.span_bytes),
                            outputs =
                                copy_of_rows(good.outputs, good.output_count, good.span_bytes);
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
    const tenon_compile_api_t& c = l.fixture.compiler();
    const tenon_code_t code = c.execute(c.self, l.compiled.executable, &call);
    CONFORM_EXPECT(code == TENON_INVALID_ARGUMENT, "execute with {} gives {}", what,
                   code_text(code));
    CONFORM_EXPECT(heard_failure().any, "execute with {} fails without a reason", what);
    CONFORM_TRY(execution->outputs(&after));
    CONFORM_TRY(same_bits(after, before, "outputs of an execute that failed"));
    if (queues != nullptr) {
      uint64_t value = 0;
      CONFORM_TRY(queues->value_of(signal, &value));
      CONFORM_EXPECT(value == 3, "the signal of an execute that failed is at {} and was at 3",
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

// The graph has no symbols, so that devices of fixed sizes are asked too.
Outcome wrong_needs_of_plain(Session& s) {
  Loaded l(s);
  CONFORM_TRY(l.make(chain_graph()));
  Needs needs;
  s.step("needs with a symbol of none");
  const tenon_code_t code =
      needs_code(l.fixture, l.compiled.executable, *l.part, Symbols{5}, &needs);
  CONFORM_EXPECT(code == TENON_INVALID_ARGUMENT, "needs with a symbol of none gives {}",
                 code_text(code));
  CONFORM_EXPECT(heard_failure().any, "needs with a symbol of none fails without a reason");
  return right_needs(l, {});
}

Outcome wrong_needs(Session& s) {
  CONFORM_TRY(wrong_needs_of_plain(s));
  Loaded l(s);
  const Outcome symbolic = l.make(symbolic_graph(), {5, 3});
  if (symbolic.verdict == Verdict::kSkip) return {Verdict::kPass, "without symbols"};
  CONFORM_TRY(symbolic);
  Needs needs;
  for (const Symbols& symbols : {Symbols{5}, Symbols{}, Symbols{5, 3, 7}}) {
    s.step(fmt::format("needs with {} symbols of 2", symbols.size()));
    const tenon_code_t code =
        needs_code(l.fixture, l.compiled.executable, *l.part, symbols, &needs);
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
  const tenon_host_session_t& session = *l.fixture.api().session;
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

constexpr Check kChecks[] = {
    {"R-E16", "failing-on-queue", failing_on_queue},
    {"R-E23", "wrong-counts", wrong_counts},
    {"R-E23", "wrong-symbols", wrong_needs},
    {"R-E24", "cancelled-run", cancelled_run},
};

}  // namespace

std::span<const Check> execute_failure_checks() {
  return kChecks;
}

}  // namespace tenon::conform
