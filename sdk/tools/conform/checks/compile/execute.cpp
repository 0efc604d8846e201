// Group E, second part: sizes, executions and what they write.
#include <fmt/format.h>
#include <stdlib.h>

#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/compile/loaded_graph.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// ---- Sizes ----

Outcome needs_of_plain(Session& s) {
  return each_taken(s, {pair_graph(), chain_graph(), constant_graph(100)}, [](Loaded& l) {
    CONFORM_TRY(right_needs(l, {}));
    return right_needs(l, {});
  });
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

// Sizes of more than 32 bits; nothing is run. A device that does not support them must say so.
Outcome needs_of_large(Session& s) {
  constexpr int64_t kMany = int64_t{1} << 31;
  Loaded l(s);
  CONFORM_TRY(l.make(symbolic_graph(), {5, 3}));
  size_t refused = 0;
  const std::vector<Symbols> large = {
      {kMany - 1, 3}, {2, kMany - 1}, {1 << 16, (1 << 16) + 1}, {1 << 15, 1 << 15}, {kMany + 1, 1}};
  for (const Symbols& symbols : large) {
    Needs needs;
    s.step(fmt::format("needs for {}", fmt::join(symbols, ", ")));
    const tenon_code_t code =
        needs_code(l.fixture, l.compiled.executable, *l.part, symbols, &needs);
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

// ---- Memory ----

Outcome writes_outputs(Session& s) {
  return each_taken(
      s, {pair_graph(), chain_graph(), constant_graph(777), product_graph()}, [](Loaded& l) {
        for (unsigned char filler : {0x00, 0xff, 0x5a}) {
          std::vector<Named> got;
          CONFORM_TRY(l.run({}, filler, &got));
          CONFORM_TRY(same_tensors(got, l.expected,
                                   fmt::format("with {:#x} in all memory before", filler)));
        }
        return pass();
      });
}

Outcome keeps_the_rest(Session& s) {
  return each_taken(s, {pair_graph(), chain_graph(), constant_graph(777)}, [&](Loaded& l) {
    for (unsigned char filler : {0xa5, 0x3c}) {
      const std::unique_ptr<Execution> execution = l.execution();
      CONFORM_TRY(execution->prepare(l.inputs, filler));
      s.step("execute between guards");
      CONFORM_TRY(execution->run());
      CONFORM_TRY(execution->kept_all());
    }
    return pass();
  });
}

// All inputs in one buffer, with the values of the first.
Outcome inputs_in_one_buffer(Session& s) {
  return each_taken(s, {pair_graph(), chain_graph(), product_graph()}, [&](Loaded& l) -> Outcome {
    for (const Named& input : l.inputs) {
      if (input.tensor.dims != l.inputs[0].tensor.dims)
        return skipped("what the device takes has inputs of several types");
    }
    for (Named& input : l.inputs) {
      input.bytes = l.inputs[0].bytes;
      input.tensor.data = input.bytes.data();
    }
    CONFORM_TRY(l.part->expected(l.inputs, &l.expected));
    const std::unique_ptr<Execution> execution = l.execution();
    std::vector<Named> got;
    execution->put_inputs_together();
    CONFORM_TRY(execution->prepare(l.inputs, 0x66));
    s.step("execute with one buffer for all inputs");
    CONFORM_TRY(execution->run());
    CONFORM_TRY(execution->outputs(&got));
    CONFORM_TRY(same_tensors(got, l.expected, "one buffer for all inputs"));
    return execution->kept_all();
  });
}

// Every output in the memory of the input that needs offers for it.
Outcome aliases(Session& s) {
  size_t offered = 0;
  auto each_alias = [&](Loaded& l) -> Outcome {
    Needs needs;
    CONFORM_EXPECT(needs_code(l.fixture, l.compiled.executable, *l.part, {}, &needs) == TENON_OK,
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
    return pass();
  };
  CONFORM_TRY(
      each_taken(s, {pair_graph(), chain_graph(), sum_graph(), equal_sizes_graph()}, each_alias));
  return offered == 0 ? skipped("it offers no alias") : pass();
}

// ---- The same result every time ----

// The ways of compiling in which the bits may not change: deterministic ones and, if the device
// declares it, all.
Outcome steady_ways(Session& s, std::vector<bool>* out) {
  CompileFixture fixture(s);
  uint32_t properties = 0;
  CONFORM_TRY(fixture.find());
  CONFORM_TRY(fixture.properties(&properties));
  *out = {true};
  if ((properties & TENON_COMPILE_SAME_BITS) != 0) out->push_back(false);
  return pass();
}

Outcome same_again_if(Session& s, bool deterministic) {
  const auto runs = [](Loaded& l) {
    std::vector<Named> first, got;
    CONFORM_TRY(l.run({}, 0, &first));
    CONFORM_TRY(same_tensors(first, l.expected, "the first execution"));
    for (unsigned char filler = 1; filler < 8; ++filler) {
      CONFORM_TRY(l.run({}, filler, &got));
      CONFORM_TRY(same_bits(got, first, "another execution with the same inputs"));
    }
    return pass();
  };
  return each_taken(s, {chain_graph(), sum_graph()}, runs, deterministic);
}

Outcome same_again(Session& s) {
  std::vector<bool> ways;
  CONFORM_TRY(steady_ways(s, &ways));
  for (const bool deterministic : ways) CONFORM_TRY(same_again_if(s, deterministic));
  return pass();
}

// A digest of device 0's results for the sums and the chain, in a process with `threads` threads.
Outcome digest_with_threads(Session& s, int threads, std::string* out) {
  const Outcome outcome = s.apart([&]() -> Outcome {
    ::setenv("TENON_NUM_THREADS", std::to_string(threads).c_str(), 1);
    uint64_t digest = 1469598103934665603u;
    // Asked here and not before: a driver that runs already does not survive the fork. Of the ways,
    // the most demanding one alone, since each process has to compile again.
    std::vector<bool> ways;
    CONFORM_TRY(steady_ways(s, &ways));
    for (const std::string& text : {sum_graph(), chain_graph()}) {
      auto* l = new Loaded(s);  // the process ends soon
      l->fixture.ask_deterministic(ways.back());
      std::vector<Named> got;
      const Outcome made = l->make(text);
      if (made.verdict == Verdict::kNotOffered) return made;
      if (made.verdict == Verdict::kSkip) continue;
      if (made.verdict != Verdict::kPass || l->run({}, 0, &got).verdict != Verdict::kPass)
        return skipped(
            fmt::format("with {} threads it does not run, as other checks report", threads));
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

// Four threads start together, again and again; each must get its own outputs.
Outcome reentrant(Session& s) {
  constexpr int kRounds = 60;
  std::vector<bool> ways;
  CONFORM_TRY(steady_ways(s, &ways));
  Loaded l(s);
  l.fixture.ask_deterministic(ways.back());
  CONFORM_TRY(l.make(chain_graph()));
  // PER_QUEUE takes calls without a queue from any thread.
  if (l.fixture.info().threading == TENON_THREADING_SERIAL)
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

// A device of concrete sizes refuses others, and computes what it refused once the sizes are known.
Outcome concrete_sizes(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  uint32_t flags = 0;
  CONFORM_TRY(fixture.properties(&flags));
  if ((flags & TENON_COMPILE_STATIC) == 0) return not_offered("TENON_COMPILE_STATIC");
  std::unique_ptr<Part> symbolic;
  CONFORM_TRY(Part::read(fixture.api(), symbolic_graph(), &symbolic));
  s.step("compiling a graph with symbolic sizes");
  tenon_artifact_t* artifact = nullptr;
  const tenon_code_t code = fixture.compile_code(*symbolic, &artifact);
  CONFORM_EXPECT(code == TENON_UNIMPLEMENTED,
                 "compile gives {} for a graph with symbolic sizes, and the device says that it "
                 "takes concrete ones alone",
                 code_text(code));
  CONFORM_EXPECT(heard_failure().any, "compile refuses symbolic sizes without a reason");
  for (const Symbols& sizes : {Symbols{5, 3}, Symbols{2, 7}, Symbols{5, 3}}) {
    Loaded l(s);
    std::vector<Named> got;
    CONFORM_TRY(l.make(symbolic_graph_at(sizes[0], sizes[1])));
    CONFORM_TRY(l.run({}, 0x3c, &got));
    CONFORM_TRY(same_tensors(got, l.expected, fmt::format("sizes {} and {}", sizes[0], sizes[1])));
  }
  return pass();
}

constexpr Check kChecks[] = {
    {"R-E31", "concrete-sizes", concrete_sizes},
    {"R-E10", "needs", needs_of_plain},
    {"R-E10", "needs-of-symbols", needs_of_symbols},
    {"R-E10", "needs-of-large", needs_of_large},
    {"R-E10", "needs-in-threads", needs_in_threads},
    {"R-E11", "writes-outputs", writes_outputs},
    {"R-E11", "keeps-the-rest", keeps_the_rest},
    {"R-E12", "same-again", same_again},
    {"R-E12", "same-with-threads", same_with_threads},
    {"R-E13", "reentrant", reentrant},
    {"R-E15", "alias", aliases},
    {"R-E18", "symbols", runs_symbols},
    {"R-E28", "inputs-in-one-buffer", inputs_in_one_buffer},
};

}  // namespace

std::span<const Check> execute_checks() {
  static const auto* all =
      new std::vector<Check>(joined({kChecks, execute_queue_checks(), execute_failure_checks(),
                                     execute_lifetime_checks(), execute_profile_checks()}));
  return *all;
}

}  // namespace tenon::conform
