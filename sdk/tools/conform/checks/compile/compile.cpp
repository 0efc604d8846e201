// Group E: compiling claimed nodes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/tools/conform/checks/kernels/op_cases.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_fixture.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;

// Compiles these nodes of a graph as a graph of their own, runs it, and compares.
Outcome cut_compile_compare(CompileFixture& fixture, OpenDevice& device, const Part& from,
                            std::span<const tenon_node_t> nodes) {
  std::unique_ptr<Part> part;
  const Outcome cut = cut_out(from, nodes, &part);
  if (cut.verdict != Verdict::kPass) return pass();  // the host cannot cut it
  const std::string what =
      fmt::format("{} claimed nodes from {}", nodes.size(), from.op_of(nodes[0]));
  std::vector<Named> expected, got;
  const std::vector<Named> inputs = part->inputs({}, fill_normal);
  Compiled compiled;
  CONFORM_TRY(fixture.load(device, *part, &compiled));
  if (part->expected(inputs, &expected).verdict != Verdict::kPass) return pass();
  Execution execution(fixture, device, *part, compiled.executable, {});
  const Outcome prepared = execution.prepare(inputs, 0x5a);
  if (prepared.verdict == Verdict::kSkip) return pass();
  CONFORM_TRY(prepared);
  fixture.session().step("running " + what);
  CONFORM_TRY(execution.run());
  CONFORM_TRY(execution.outputs(&got));
  return same_tensors(got, expected, what);
}

std::vector<tenon_node_t> claimed_nodes(const Part& part, const Claims& claims) {
  std::vector<tenon_node_t> out;
  for (tenon_node_t node : part.nodes()) {
    if (claims.takes(node)) out.push_back(node);
  }
  return out;
}

// One node of every op, each by itself.
Outcome each_alone(Session& s) {
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  CONFORM_TRY(fixture.find());
  CONFORM_TRY(fixture.open(0, &device));
  std::string last;
  const std::vector<OpCase> examples = generate_cases(
      fixture.session().host(), [&](const OpCase& example, std::vector<OpCase>* cases) {
        if (example.op != last) cases->push_back(example);
        last = example.op;
      });
  std::unique_ptr<Part> part;
  CONFORM_TRY(Part::read(fixture.api(), graph_of(examples), &part));
  Claims claims;
  CONFORM_TRY(fixture.claim(*part, &claims));
  const std::vector<tenon_node_t> nodes = claimed_nodes(*part, claims);
  for (const std::string& text : {mixed_graph(), widths_graph()}) {
    std::unique_ptr<Part> mixed;
    CONFORM_TRY(Part::read(fixture.api(), text, &mixed));
    CONFORM_TRY(fixture.claim(*mixed, &claims));
    for (tenon_node_t node : claimed_nodes(*mixed, claims))
      CONFORM_TRY(cut_compile_compare(fixture, *device, *mixed, {&node, 1}));
  }
  const auto begin = Clock::now();
  size_t tried = 0;
  for (tenon_node_t node : nodes) {
    // As many as there is time for: with a slow compiler, only the first ones.
    if (Clock::now() - begin > std::chrono::seconds(12)) break;
    std::unique_ptr<Part> alone;
    if (cut_out(*part, {&node, 1}, &alone).verdict != Verdict::kPass) continue;
    Compiled compiled;
    CONFORM_TRY(fixture.load(*device, *alone, &compiled));
    ++tried;
  }
  if (nodes.empty()) return not_offered("a claim of a node by itself");
  return {Verdict::kPass, fmt::format("{} of {} claimed nodes", tried, nodes.size())};
}

Outcome together(Session& s) {
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  CONFORM_TRY(fixture.find());
  CONFORM_TRY(fixture.open(0, &device));
  size_t tried = 0;
  for (const std::string& text : {chain_graph(), mixed_graph(), widths_graph()}) {
    const bool whole_alone = text == widths_graph();  // each-alone compiles its pieces
    std::unique_ptr<Part> part;
    CONFORM_TRY(Part::read(fixture.api(), text, &part));
    Claims claims;
    CONFORM_TRY(fixture.claim(*part, &claims));
    const std::vector<tenon_node_t> nodes = claimed_nodes(*part, claims);
    // Consecutive nodes: a path that leaves such a piece and comes back goes through unclaimed
    // nodes, and what those make becomes an argument.
    for (size_t length = whole_alone ? std::max<size_t>(nodes.size(), 1) : 1;
         length <= nodes.size(); ++length) {
      const size_t step = length == 1 || length == nodes.size() ? 1 : 2;
      for (size_t at = 0; at + length <= nodes.size(); at += step) {
        CONFORM_TRY(
            cut_compile_compare(fixture, *device, *part, std::span(nodes).subspan(at, length)));
        ++tried;
      }
    }
  }
  if (tried != 0) return pass();
  std::unique_ptr<Part> pattern;
  return fixture.claimed_together(false, &pattern).verdict == Verdict::kPass
             ? not_offered("a claim of a node by itself")
             : skipped("the device takes nothing of the graphs");
}

Outcome compile_in_threads(Session& s) {
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  CONFORM_TRY(fixture.find());
  CONFORM_TRY(fixture.open(0, &device));
  std::unique_ptr<Part> parts[3];
  CONFORM_TRY(fixture.taken(chain_graph(), &parts[0]));
  CONFORM_TRY(fixture.taken(pair_graph(), &parts[1]));
  // Without constants if the device takes none.
  if (fixture.taken(constant_graph(64), &parts[2]).verdict != Verdict::kPass)
    CONFORM_TRY(fixture.taken(large_graph(), &parts[2]));
  constexpr unsigned kThreads = 4;
  constexpr int kRounds = 3;
  Compiled compiled[kThreads][kRounds];
  Outcome outcomes[kThreads];
  std::barrier together(kThreads);  // on a busy machine they would hardly coincide otherwise
  s.step("compiling in four threads");
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < kRounds; ++round) {
          const Part& part = *parts[(t + static_cast<unsigned>(round)) % 3];
          together.arrive_and_wait();
          if (outcomes[t].verdict == Verdict::kPass)
            outcomes[t] = fixture.compile(part, &compiled[t][round]);
        }
      });
    }
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  for (unsigned t = 0; t < kThreads; ++t) {
    for (int round = 0; round < kRounds; ++round) {
      const Part& part = *parts[(t + static_cast<unsigned>(round)) % 3];
      const std::vector<Named> inputs = part.inputs({}, fill_normal);
      std::vector<Named> expected, got;
      CONFORM_TRY(part.expected(inputs, &expected));
      CONFORM_TRY(fixture.load(*device, part, &compiled[t][round]));
      Execution execution(fixture, *device, part, compiled[t][round].executable, {});
      CONFORM_TRY(execution.prepare(inputs, 0));
      CONFORM_TRY(execution.run());
      CONFORM_TRY(execution.outputs(&got));
      CONFORM_TRY(same_tensors(got, expected, "what one of several threads compiled"));
    }
  }
  return pass();
}

// The limit that is judged for the requirement's second: processor time, since a busy machine takes
// longer by the clock; and two of them, since others use the caches.
constexpr double kStopsSeconds = 2;

// A compilation that is cancelled in poll number cancel_at; 0: before it begins.
Outcome stops(CompileFixture& fixture, const Part& part, uint64_t cancel_at) {
  const tenon_host_session_t& session = *fixture.api().session;
  const std::string when =
      cancel_at == 0 ? "before it begins" : fmt::format("with its {}. poll", cancel_at);
  fixture.session().step(
      fmt::format("compiling {} nodes with a cancel {}", part.nodes().size(), when));
  tenon_artifact_t* artifact = nullptr;
  if (cancel_at == 0) session.cancel(session.self, 1);
  watch_polls(cancel_at, [&session] { session.cancel(session.self, 1); });
  const tenon_code_t code = fixture.compile_code(part, &artifact);
  const Polls polls = end_of_watch();
  const HeardFailure why = heard_failure();
  session.cancel(session.self, 0);
  if (code == TENON_OK) fixture.compiler().artifact_release(fixture.compiler().self, artifact);
  CONFORM_EXPECT(code == TENON_OK || code == TENON_CANCELLED,
                 "compile of an operation that is cancelled {} gives {}{}", when, code_text(code),
                 why.any ? " (" + printable(why.text) + ")" : "");
  CONFORM_EXPECT(code == TENON_CANCELLED || !polls.cancelled,
                 "compile polls, hears that the operation is cancelled {}, and gives OK", when);
  CONFORM_EXPECT(polls.seconds_after <= kStopsSeconds,
                 "compile of an operation that is cancelled {} goes on for {:.1f} s of the "
                 "processor",
                 when, polls.seconds_after);
  return pass();
}

// No verdict depends on the clock: the cancel comes with a poll.
Outcome compile_cancelled(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  std::unique_ptr<Part> part;
  uint64_t in_the_middle = 2;
  for (size_t nodes : {60, 400, 200, 61}) {
    CONFORM_TRY(fixture.taken(long_graph(nodes), &part));
    if (nodes == 60) {
      s.step("compiling 60 nodes");
      Compiled compiled;
      watch_polls(0, nullptr);
      const Outcome done = fixture.compile(*part, &compiled);
      in_the_middle = std::max<uint64_t>(end_of_watch().count / 2, 2);
      CONFORM_TRY(done);
      continue;
    }
    CONFORM_TRY(stops(fixture, *part, nodes == 400 ? 0 : nodes == 200 ? 1 : in_the_middle));
  }
  Compiled compiled;
  return fixture.compile(*part, &compiled);
}

Outcome compile_polls(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(fixture.taken(long_graph(62), &part));
  Compiled compiled;
  watch_polls(0, nullptr);
  const Outcome done = fixture.compile(*part, &compiled);
  const Polls polls = end_of_watch();
  CONFORM_TRY(done);
  uint32_t properties = 0;
  CONFORM_TRY(fixture.properties(&properties));
  // One call of a vendor's compiler may take its time, between two polls.
  const bool one_long_call = (properties & TENON_COMPILE_ONE_LONG_CALL) != 0;
  CONFORM_EXPECT(
      !one_long_call || polls.count >= 2,
      "compile of {} nodes declares one long call, and polls `cancelled` {} times instead "
      "of before and after it",
      part->nodes().size(), polls.count);
  CONFORM_EXPECT((one_long_call ? polls.seconds_second : polls.seconds_longest) <= kStopsSeconds,
                 "compile of {} nodes polls `cancelled` {} times, and goes on for {:.1f} s of the "
                 "processor without",
                 part->nodes().size(), polls.count,
                 one_long_call ? polls.seconds_second : polls.seconds_longest);
  return {Verdict::kPass, fmt::format("{} polls, at most {:.2f} s of the processor between them",
                                      polls.count, polls.seconds_longest)};
}

constexpr Check kChecks[] = {
    {"R-E03", "each-alone", each_alone},
    {"R-E03", "together", together},
    {"R-E05", "compile-threads", compile_in_threads},
    {"R-E05", "compile-cancelled", compile_cancelled},
    {"R-E05", "compile-polls", compile_polls},
};

}  // namespace

std::span<const Check> compile_checks() {
  static const auto* all =
      new std::vector<Check>(joined({kChecks, pattern_checks(), claim_checks(), artifact_checks(),
                                     packed_checks(), packed_refusal_checks(), execute_checks()}));
  return *all;
}

}  // namespace tenon::conform
