// Group E, first part: claims, artifacts and loading. group_execute.cpp has executions.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/conform/compile_bench.h"
#include "core/conform/compile_graphs.h"
#include "core/conform/group_tables.h"
#include "core/conform/op_cases.h"
#include "core/conform/session.h"
#include "core/host/requirements.h"

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;

// ---- Claims
// ---------------------------------------------------------------------------------------------

// Graphs that are asked about, and one of every op.
Outcome asked_graphs(CompileBench& bench, std::vector<std::unique_ptr<Part>>* out) {
  const std::vector<OpCase> examples = generate_cases(
      bench.session().host(),
      [](const OpCase& example, std::vector<OpCase>* cases) { cases->push_back(example); });
  for (const std::string& text : {pair_graph(), chain_graph(), inner_graph(), mixed_graph(),
                                  symbolic_graph(), graph_of(examples)}) {
    std::unique_ptr<Part> part;
    CONFORM_TRY(Part::read(bench.api(), text, &part));
    out->push_back(std::move(part));
  }
  return pass();
}

template <typename Judge>
Outcome judge_claims(Session& s, Judge judge) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::vector<std::unique_ptr<Part>> parts;
  CONFORM_TRY(asked_graphs(bench, &parts));
  for (const auto& part : parts) {
    Claims claims;
    CONFORM_TRY(bench.claim(*part, &claims));
    CONFORM_TRY(judge(bench, *part, claims));
  }
  return pass();
}

Outcome claim_without_device(Session& s) {
  return judge_claims(s, [](CompileBench&, const Part&, const Claims&) { return pass(); });
}

Outcome claim_keeps_graph(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  for (const std::string& text : {mixed_graph(), inner_graph()}) {
    std::unique_ptr<Part> part;
    CONFORM_TRY(Part::read(bench.api(), text, &part));
    const std::string before = part->text();
    Claims claims;
    CONFORM_TRY(bench.claim(*part, &claims));
    CONFORM_EXPECT(part->text() == before, "the graph is another one after claim");
  }
  return pass();
}

struct LateSink {
  std::atomic<bool> open{true};
  std::atomic<int> late{0};
};

Outcome claim_ends(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(Part::read(bench.api(), mixed_graph(), &part));
  auto* heard = new LateSink;  // stays, since it may be called too late
  static tenon_claim_sink_t sink;
  sink.self = heard;
  sink.claim = [](void* self, const tenon_node_t*, uint32_t, double) -> tenon_code_t {
    auto* late = static_cast<LateSink*>(self);
    if (!late->open) ++late->late;
    return TENON_OK;
  };
  sink.refuse = [](void* self, tenon_node_t, tenon_code_t, tenon_str_t) -> tenon_code_t {
    auto* late = static_cast<LateSink*>(self);
    if (!late->open) ++late->late;
    return TENON_OK;
  };
  s.step("claim, and what comes after it");
  const tenon_code_t code =
      bench.compiler().claim(bench.compiler().self, bench.target(), part->graph(), &sink);
  heard->open = false;
  CONFORM_EXPECT(code == TENON_OK, "claim gives {}", code_text(code));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CONFORM_EXPECT(heard->late == 0, "the sink is called {} times after claim returned",
                 heard->late.load());
  return pass();
}

// A sink that has enough is not told more.
Outcome claim_stops(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(Part::read(bench.api(), chain_graph(), &part));
  Claims claims;
  CONFORM_TRY(bench.claim(*part, &claims));
  if (claims.claims.empty()) return skipped("the device takes nothing of add, mul and max");
  const tenon_claim_sink_t sink = {
      nullptr,
      [](void*, const tenon_node_t*, uint32_t, double) -> tenon_code_t { return TENON_ABORTED; },
      [](void*, tenon_node_t, tenon_code_t, tenon_str_t) -> tenon_code_t { return TENON_OK; }};
  s.step("claim with a sink that fails");
  const tenon_code_t code =
      bench.compiler().claim(bench.compiler().self, bench.target(), part->graph(), &sink);
  CONFORM_EXPECT(code == TENON_ABORTED, "with a sink that gives ABORTED, claim gives {}",
                 code_text(code));
  return pass();
}

Outcome claim_nodes(Session& s) {
  return judge_claims(s, [](CompileBench&, const Part& part, const Claims& claims) -> Outcome {
    for (const Claims::Claim& claim : claims.claims) {
      CONFORM_EXPECT(!claim.nodes.empty(), "a claim names no node");
      CONFORM_EXPECT(std::isfinite(claim.cost_ns) && claim.cost_ns >= 0, "a claim costs {} ns",
                     claim.cost_ns);
      std::set<tenon_node_t> once(claim.nodes.begin(), claim.nodes.end());
      CONFORM_EXPECT(once.size() == claim.nodes.size(), "a claim names a node twice");
      for (tenon_node_t node : claim.nodes)
        CONFORM_EXPECT(node < part.whole().node_limit && part.node(node).parent != TENON_NONE,
                       "a claim names node {}, which the graph does not have", node);
      // One inside of a region can only be named by itself: it is kept whole, not compiled.
      CONFORM_EXPECT(claim.nodes.size() == 1 || std::all_of(claim.nodes.begin(), claim.nodes.end(),
                                                            [&](tenon_node_t node) {
                                                              return part.node(node).parent ==
                                                                     part.whole().main;
                                                            }),
                     "a claim of several nodes names one inside of a region");
    }
    return pass();
  });
}

Outcome refusals(Session& s) {
  return judge_claims(s, [](CompileBench&, const Part& part, const Claims& claims) -> Outcome {
    const std::span<const tenon_node_t> nodes = part.nodes();
    for (const Claims::Refusal& refusal : claims.refusals) {
      CONFORM_EXPECT(std::find(nodes.begin(), nodes.end(), refusal.node) != nodes.end(),
                     "a refusal names node {}, which is none of the main region", refusal.node);
      CONFORM_EXPECT(refusal.code == TENON_UNIMPLEMENTED, "{} is refused with {}",
                     part.op_of(refusal.node), code_text(refusal.code));
      CONFORM_EXPECT(!refusal.reason.empty(), "{} is refused without a reason",
                     part.op_of(refusal.node));
      CONFORM_EXPECT(!claims.takes(refusal.node), "{} is claimed and refused",
                     part.op_of(refusal.node));
    }
    return pass();
  });
}

Outcome claim_again(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::vector<std::unique_ptr<Part>> parts;
  CONFORM_TRY(asked_graphs(bench, &parts));
  std::vector<Claims> first(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    CONFORM_TRY(bench.claim(*parts[i], &first[i]));
    for (int time = 0; time < 2; ++time) {
      Claims again;
      CONFORM_TRY(bench.claim(*parts[i], &again));
      CONFORM_EXPECT(again.claims == first[i].claims && again.refusals == first[i].refusals,
                     "asked again about the same graph claim gives another answer");
    }
  }
  constexpr unsigned kThreads = 4;
  Outcome outcomes[kThreads];
  s.step("claim in four threads");
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < parts.size() && outcomes[t].verdict == Verdict::kPass; ++i) {
          Claims again;
          outcomes[t] = bench.claim(*parts[i], &again);
          if (outcomes[t].verdict == Verdict::kPass &&
              (again.claims != first[i].claims || again.refusals != first[i].refusals))
            outcomes[t] = failed("for the same graph and target claim gives another answer");
        }
      });
    }
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

// ---- Compiling
// ---------------------------------------------------------------------------------------------

// Compiles these nodes of a graph as a graph of their own, runs it, and compares.
Outcome cut_compile_compare(CompileBench& bench, OpenDevice& device, const Part& from,
                            std::span<const tenon_node_t> nodes) {
  std::unique_ptr<Part> part;
  const Outcome cut = cut_out(from, nodes, &part);
  if (cut.verdict != Verdict::kPass) return pass();  // of a host that cannot
  const std::string what =
      fmt::format("{} claimed nodes from {}", nodes.size(), from.op_of(nodes[0]));
  std::vector<Named> expected, got;
  const std::vector<Named> inputs = part->inputs({}, fill_normal);
  Compiled compiled;
  CONFORM_TRY(bench.load(device, *part, &compiled));
  if (part->expected(inputs, &expected).verdict != Verdict::kPass) return pass();
  Execution execution(bench, device, *part, compiled.executable, {});
  const Outcome prepared = execution.prepare(inputs, 0x5a);
  if (prepared.verdict == Verdict::kSkip) return pass();
  CONFORM_TRY(prepared);
  bench.session().step("running " + what);
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

// One node of every op.
Outcome each_alone(Session& s) {
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  CONFORM_TRY(bench.find());
  CONFORM_TRY(bench.open(0, &device));
  std::string last;
  const std::vector<OpCase> examples = generate_cases(
      bench.session().host(), [&](const OpCase& example, std::vector<OpCase>* cases) {
        if (example.op != last) cases->push_back(example);
        last = example.op;
      });
  std::unique_ptr<Part> part;
  CONFORM_TRY(Part::read(bench.api(), graph_of(examples), &part));
  Claims claims;
  CONFORM_TRY(bench.claim(*part, &claims));
  const std::vector<tenon_node_t> nodes = claimed_nodes(*part, claims);
  for (const std::string& text : {mixed_graph(), widths_graph()}) {
    std::unique_ptr<Part> mixed;
    CONFORM_TRY(Part::read(bench.api(), text, &mixed));
    CONFORM_TRY(bench.claim(*mixed, &claims));
    for (tenon_node_t node : claimed_nodes(*mixed, claims))
      CONFORM_TRY(cut_compile_compare(bench, *device, *mixed, {&node, 1}));
  }
  const auto begin = Clock::now();
  size_t tried = 0;
  for (tenon_node_t node : nodes) {
    // As many as there is time for: of a compiler that is slow, the first ones.
    if (Clock::now() - begin > std::chrono::seconds(12)) break;
    std::unique_ptr<Part> alone;
    if (cut_out(*part, {&node, 1}, &alone).verdict != Verdict::kPass) continue;
    Compiled compiled;
    CONFORM_TRY(bench.load(*device, *alone, &compiled));
    ++tried;
  }
  return {Verdict::kPass, fmt::format("{} of {} claimed nodes", tried, nodes.size())};
}

Outcome together(Session& s) {
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  CONFORM_TRY(bench.find());
  CONFORM_TRY(bench.open(0, &device));
  size_t tried = 0;
  for (const std::string& text : {chain_graph(), mixed_graph(), widths_graph()}) {
    const bool whole_alone = text == widths_graph();  // its pieces are compiled in each-alone
    std::unique_ptr<Part> part;
    CONFORM_TRY(Part::read(bench.api(), text, &part));
    Claims claims;
    CONFORM_TRY(bench.claim(*part, &claims));
    const std::vector<tenon_node_t> nodes = claimed_nodes(*part, claims);
    // Neighbours in order: no path leaves such a piece and comes back, but through what was not
    // claimed, which becomes an argument.
    for (size_t length = whole_alone ? std::max<size_t>(nodes.size(), 1) : 1;
         length <= nodes.size(); ++length) {
      const size_t step = length == 1 || length == nodes.size() ? 1 : 2;
      for (size_t at = 0; at + length <= nodes.size(); at += step) {
        CONFORM_TRY(
            cut_compile_compare(bench, *device, *part, std::span(nodes).subspan(at, length)));
        ++tried;
      }
    }
  }
  return tried == 0 ? skipped("the device takes nothing of the graphs") : pass();
}

Outcome compile_in_threads(Session& s) {
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  CONFORM_TRY(bench.find());
  CONFORM_TRY(bench.open(0, &device));
  std::unique_ptr<Part> parts[3];
  CONFORM_TRY(bench.taken(chain_graph(), &parts[0]));
  CONFORM_TRY(bench.taken(pair_graph(), &parts[1]));
  CONFORM_TRY(bench.taken(constant_graph(64), &parts[2]));
  constexpr unsigned kThreads = 4;
  constexpr int kRounds = 3;
  Compiled compiled[kThreads][kRounds];
  Outcome outcomes[kThreads];
  s.step("compiling in four threads");
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < kRounds && outcomes[t].verdict == Verdict::kPass; ++round)
          outcomes[t] =
              bench.compile(*parts[(t + static_cast<unsigned>(round)) % 3], &compiled[t][round]);
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
      CONFORM_TRY(bench.load(*device, part, &compiled[t][round]));
      Execution execution(bench, *device, part, compiled[t][round].executable, {});
      CONFORM_TRY(execution.prepare(inputs, 0));
      CONFORM_TRY(execution.run());
      CONFORM_TRY(execution.outputs(&got));
      CONFORM_TRY(same_tensors(got, expected, "what one of several threads compiled"));
    }
  }
  return pass();
}

// What a second of the requirement becomes for one that is judged: of the processor, since by the
// clock a machine that does much else takes longer; and two of them, for caches that others use.
constexpr double kStopsSeconds = 2;

// A compile that is cancelled in its cancel_at-th poll; 0: before it begins.
Outcome stops(CompileBench& bench, const Part& part, uint64_t cancel_at) {
  const tenon_host_session_t& session = *bench.api().session;
  const std::string when =
      cancel_at == 0 ? "before it begins" : fmt::format("with its {}. poll", cancel_at);
  bench.session().step(
      fmt::format("compiling {} nodes with a cancel {}", part.nodes().size(), when));
  tenon_artifact_t* artifact = nullptr;
  if (cancel_at == 0) session.cancel(session.self, 1);
  watch_polls(cancel_at, [&session] { session.cancel(session.self, 1); });
  const tenon_code_t code = bench.compile_code(part, &artifact);
  const Polls polls = end_of_watch();
  const HeardFailure why = heard_failure();
  session.cancel(session.self, 0);
  if (code == TENON_OK) bench.compiler().artifact_release(bench.compiler().self, artifact);
  CONFORM_EXPECT(code == TENON_OK || code == TENON_CANCELLED,
                 "compile of an operation that is cancelled {} gives {}{}", when, code_text(code),
                 why.any ? " (" + printable(why.text) + ")" : "");
  CONFORM_EXPECT(code == TENON_CANCELLED || !polls.told,
                 "compile polls, hears that the operation is cancelled {}, and gives OK", when);
  CONFORM_EXPECT(polls.seconds_told <= kStopsSeconds,
                 "compile of an operation that is cancelled {} goes on for {:.1f} s of the "
                 "processor",
                 when, polls.seconds_told);
  return pass();
}

// No verdict depends on how long anything takes by the clock: the cancel comes with a poll.
Outcome compile_cancelled(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  uint64_t in_the_middle = 2;
  for (size_t nodes : {60, 400, 200, 61}) {
    CONFORM_TRY(bench.taken(long_graph(nodes), &part));
    if (nodes == 60) {
      s.step("compiling 60 nodes");
      Compiled compiled;
      watch_polls(0, nullptr);
      const Outcome done = bench.compile(*part, &compiled);
      in_the_middle = std::max<uint64_t>(end_of_watch().count / 2, 2);
      CONFORM_TRY(done);
      continue;
    }
    CONFORM_TRY(stops(bench, *part, nodes == 400 ? 0 : nodes == 200 ? 1 : in_the_middle));
  }
  Compiled compiled;
  return bench.compile(*part, &compiled);
}

Outcome compile_polls(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.taken(long_graph(62), &part));
  Compiled compiled;
  watch_polls(0, nullptr);
  const Outcome done = bench.compile(*part, &compiled);
  const Polls polls = end_of_watch();
  CONFORM_TRY(done);
  CONFORM_EXPECT(polls.seconds_longest <= kStopsSeconds,
                 "compile of {} nodes polls `cancelled` {} times, and goes on for {:.1f} s of the "
                 "processor without",
                 part->nodes().size(), polls.count, polls.seconds_longest);
  return {Verdict::kPass, fmt::format("{} polls, at most {:.2f} s of the processor between them",
                                      polls.count, polls.seconds_longest)};
}

// ---- Artifacts
// ---------------------------------------------------------------------------------------------

Outcome bytes_stay(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.taken(chain_graph(), &part));
  Compiled compiled;
  CONFORM_TRY(bench.compile(*part, &compiled));
  CONFORM_EXPECT(!compiled.bytes.empty(), "an artifact has no bytes");
  for (int i = 0; i < 3; ++i) {
    Bytes again;
    CONFORM_TRY(bench.bytes_of(compiled.artifact, &again));
    const std::string difference = first_difference(again, compiled.bytes);
    CONFORM_EXPECT(difference.empty(), "artifact_bytes gives other bytes at another call: {}",
                   difference);
  }
  return pass();
}

Outcome bytes_sink(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.taken(chain_graph(), &part));
  Compiled compiled;
  CONFORM_TRY(bench.compile(*part, &compiled));
  const tenon_sink_t sink = {
      nullptr, [](void*, const void*, uint64_t) -> tenon_code_t { return TENON_ABORTED; }};
  s.step("artifact_bytes with a sink that fails");
  const tenon_code_t code =
      bench.compiler().artifact_bytes(bench.compiler().self, compiled.artifact, &sink);
  CONFORM_EXPECT(code == TENON_ABORTED, "with a sink that gives ABORTED, artifact_bytes gives {}",
                 code_text(code));
  return pass();
}

Outcome no_constants(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.taken(constant_graph(8192), &part));
  Compiled compiled;
  CONFORM_TRY(bench.compile(*part, &compiled));
  for (tenon_blob_t* blob : part->constants()) {
    const void* data = nullptr;
    uint64_t size = 0;
    const tenon_host_graph_t& graph = *bench.api().graph;
    if (graph.blob_data(graph.self, blob, &data, &size) != TENON_OK) return skipped("no constants");
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (uint64_t at : {uint64_t{0}, size / 2, size - 64}) {
      const auto found =
          std::search(compiled.bytes.begin(), compiled.bytes.end(), bytes + at, bytes + at + 64);
      CONFORM_EXPECT(found == compiled.bytes.end(),
                     "64 bytes of a constant of {} bytes stand in the artifact", size);
    }
  }
  return pass();
}

// The ranges of memory of this process, those of the lowest 4 GiB left out: they look like sizes. So are the terabytes that
// sanitizers reserve for their records: next to any number would lie in them.
std::vector<std::pair<uint64_t, uint64_t>> mapped_ranges() {
  std::vector<std::pair<uint64_t, uint64_t>> out;
  const std::string maps = read_system_file("/proc/self/maps").value_or("");
  for (std::string_view line : split(maps, '\n')) {
    const size_t dash = line.find('-'), end = line.find(' ');
    if (dash == std::string_view::npos || end == std::string_view::npos) continue;
    const uint64_t from = std::strtoull(std::string(line.substr(0, dash)).c_str(), nullptr, 16),
                   to = std::strtoull(std::string(line.substr(dash + 1)).c_str(), nullptr, 16);
    if (from > UINT32_MAX && from < uint64_t{1} << 47 && to - from < uint64_t{1} << 40) out.push_back({from, to});
  }
  return out;
}

Outcome no_addresses(Session& s) {
  if (host::host_sanitizer() == "thread")
    return skipped("the thread sanitizer puts memory where text looks like an address");
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.taken(chain_graph(), &part));
  Compiled compiled;
  CONFORM_TRY(bench.compile(*part, &compiled));
  const auto ranges = mapped_ranges();
  for (size_t at = 0; at + 8 <= compiled.bytes.size(); ++at) {
    uint64_t value = 0;
    std::memcpy(&value, compiled.bytes.data() + at, sizeof(value));
    for (const auto& [from, to] : ranges)
      CONFORM_EXPECT(value < from || value >= to,
                     "byte {} of the artifact begins an address of this process, {:x}", at, value);
  }
  return pass();
}

Outcome artifact_facts(Session& s) {
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.ready(chain_graph(), &device, &part));
  Compiled compiled;
  CONFORM_TRY(bench.load(*device, *part, &compiled));
  const tenon_compile_api_t& c = bench.compiler();
  s.step("artifact_info and executable_info");
  tenon_artifact_info_t artifact = {};
  artifact.size_bytes = sizeof(artifact);
  tenon_code_t code = c.artifact_info(c.self, compiled.artifact, &artifact);
  CONFORM_EXPECT(code == TENON_OK, "artifact_info gives {}", code_text(code));
  tenon_executable_info_t executable = {};
  executable.size_bytes = sizeof(executable);
  code = c.executable_info(c.self, compiled.executable, &executable);
  CONFORM_EXPECT(code == TENON_OK, "executable_info gives {}", code_text(code));
  return pass();
}

Outcome dumps(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  const tenon_compile_api_t& c = bench.compiler();
  if (c.dump == nullptr) return not_offered("dump");
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.taken(chain_graph(), &part));
  Compiled compiled;
  CONFORM_TRY(bench.compile(*part, &compiled));
  for (std::string_view what : {"l1", "l2", "source", "plan", "asm", "no such thing", ""}) {
    s.step(fmt::format("dump of {}", quoted(what)));
    std::string text;
    const tenon_sink_t sink = {&text, [](void* self, const void* data, uint64_t size) {
                                 static_cast<std::string*>(self)->append(
                                     static_cast<const char*>(data), size);
                                 return tenon_code_t{TENON_OK};
                               }};
    forget_failure();
    const tenon_code_t code = c.dump(c.self, compiled.artifact, {what.data(), what.size()}, &sink);
    CONFORM_EXPECT(code == TENON_OK || code == TENON_NOT_FOUND, "dump of {} gives {}", quoted(what),
                   code_text(code));
    CONFORM_EXPECT(code == TENON_OK || heard_failure().any, "dump of {} gives no reason",
                   quoted(what));
    CONFORM_EXPECT(what.find("such") == std::string_view::npos || code == TENON_NOT_FOUND,
                   "dump of something unknown gives OK");
    CONFORM_EXPECT(is_valid_utf8(text), "dump of {} is no UTF-8", quoted(what));
  }
  return pass();
}

// ---- Bytes
// ---------------------------------------------------------------------------------------------

tenon_code_t fits_code(CompileBench& bench, tenon_str_t target, const Bytes& bytes) {
  forget_failure();
  // At the end of its own allocation, where reading too far is found.
  return bench.compiler().fits(bench.compiler().self, target, bytes.data(), bytes.size());
}
tenon_code_t fits_code(CompileBench& bench, const Bytes& bytes) {
  return fits_code(bench, bench.target(), bytes);
}

Outcome fits_own(Session& s) {
  CompileBench bench(s);
  CONFORM_TRY(bench.find());
  for (const std::string& text : {pair_graph(), chain_graph(), constant_graph(16)}) {
    std::unique_ptr<Part> part;
    CONFORM_TRY(bench.taken(text, &part));
    Compiled compiled;
    CONFORM_TRY(bench.compile(*part, &compiled));
    s.step("fits of what compile made");
    const tenon_code_t code = fits_code(bench, compiled.bytes);
    CONFORM_EXPECT(code == TENON_OK, "fits of what compile made gives {}", code_text(code));
  }
  return pass();
}

// Bytes cut short, cleared, turned, put together wrongly, and others.
std::vector<std::pair<std::string, Bytes>> damaged(const Bytes& good) {
  std::vector<std::pair<std::string, Bytes>> out;
  out.push_back({"no bytes", {}});
  for (size_t parts = 1; parts < 16; ++parts) {
    const size_t size = good.size() * parts / 16;
    out.push_back({fmt::format("the first {} of {} bytes", size, good.size()),
                   Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(size))});
  }
  out.push_back({"all but the last byte", Bytes(good.begin(), good.end() - 1)});
  out.push_back({"zeros", Bytes(good.size(), 0)});
  out.push_back({"ones", Bytes(good.size(), 0xff)});
  out.push_back({"random bytes", pattern_bytes(good.size(), 77)});
  Bytes second_half = good;
  std::fill(second_half.begin() + static_cast<ptrdiff_t>(good.size() / 2), second_half.end(), 0xff);
  out.push_back({"a second half of ones", std::move(second_half)});
  Bytes longer = good;
  longer.insert(longer.end(), 64, 0xee);
  out.push_back({"64 bytes more", std::move(longer)});
  const Bytes where = pattern_bytes(256, 78);
  for (size_t i = 0; i < 64; ++i) {
    // The first bytes one by one, since heads stand there; then anywhere.
    const size_t at =
        i < 32 ? i * 4 % good.size() : (where[i] * 256u + where[i + 64]) % good.size();
    Bytes flipped = good;
    flipped[at] ^= static_cast<unsigned char>(1u << where[i + 128] % 8);
    out.push_back(
        {fmt::format("a bit of byte {} of {} turned", at, good.size()), std::move(flipped)});
  }
  return out;
}

Outcome good_bytes(CompileBench& bench, std::unique_ptr<Part>* part, Compiled* compiled) {
  CONFORM_TRY(bench.find());
  CONFORM_TRY(bench.taken(chain_graph(), part));
  return bench.compile(**part, compiled);
}

Outcome fits_others(Session& s) {
  CompileBench bench(s);
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(good_bytes(bench, &part, &compiled));
  for (const auto& [what, bytes] : damaged(compiled.bytes)) {
    s.step("fits of " + what);
    const tenon_code_t code = fits_code(bench, bytes);
    const bool turned = what.starts_with("a bit") || what.ends_with("more");
    CONFORM_EXPECT(turned || code != TENON_OK, "fits of {} gives OK", what);
    CONFORM_EXPECT(code == TENON_OK || code == TENON_FAILED_PRECONDITION, "fits of {} gives {}",
                   what, code_text(code));
    CONFORM_EXPECT(code == TENON_OK || heard_failure().any, "fits of {} fails without a reason",
                   what);
  }
  return pass();
}

// Targets that no device has, and that of another device of the plugin.
Outcome fits_targets(Session& s) {
  CompileBench bench(s);
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(good_bytes(bench, &part, &compiled));
  const std::string own(view(bench.target()));
  for (const std::string& target : {own + "x", "not-" + own, own.substr(0, own.size() / 2) + "?",
                                    std::string("a conformance check's"), std::string()}) {
    s.step("fits for the target " + quoted(target));
    const tenon_code_t code = fits_code(bench, {target.data(), target.size()}, compiled.bytes);
    CONFORM_EXPECT(code == TENON_FAILED_PRECONDITION,
                   "fits of bytes for {} gives {} for the target {}, which no device has",
                   quoted(own), code_text(code), quoted(target));
    CONFORM_EXPECT(heard_failure().any, "fits for another target fails without a reason");
    CONFORM_EXPECT(fits_code(bench, compiled.bytes) == TENON_OK,
                   "fits of what compile made fails after it was asked for the target {}",
                   quoted(target));
  }
  if (bench.device_count() < 2) return pass();
  OpenDevice* second = nullptr;
  CONFORM_TRY(bench.open(1, &second));
  tenon_device_info_t info = {};
  info.size_bytes = sizeof(info);
  const tenon_device_api_t& api = second->api();
  if (api.info(api.self, 1, &info) != TENON_OK) return skipped("info fails, as C.info tells");
  const std::string other(view(info.target));
  s.step("fits for the target of device 1");
  const tenon_code_t code = fits_code(bench, info.target, compiled.bytes);
  CONFORM_EXPECT(code == TENON_OK || (other != own && code == TENON_FAILED_PRECONDITION),
                 "fits of bytes for {} gives {} for {}, the target of device 1", quoted(own),
                 code_text(code), quoted(other));
  if (code != TENON_OK) return pass();
  tenon_executable_t* executable = nullptr;
  const tenon_code_t loaded =
      bench.load_code(*second, compiled.bytes, part->constants(), &executable);
  CONFORM_EXPECT(loaded == TENON_OK,
                 "fits says OK for the target of device 1, and load there gives {}{}",
                 code_text(loaded), said());
  bench.compiler().executable_release(bench.compiler().self, executable);
  return pass();
}

Outcome load_damaged(Session& s) {
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(good_bytes(bench, &part, &compiled));
  CONFORM_TRY(bench.open(0, &device));
  tenon_executable_t* sound = nullptr;
  CONFORM_EXPECT(bench.load_code(*device, compiled.bytes, part->constants(), &sound) == TENON_OK,
                 "load of what compile made fails");
  bench.compiler().executable_release(bench.compiler().self, sound);
  for (const auto& [what, bytes] : damaged(compiled.bytes)) {
    s.step("load of " + what);
    tenon_executable_t* executable = nullptr;
    const tenon_code_t code = bench.load_code(*device, bytes, part->constants(), &executable);
    CONFORM_EXPECT(code != TENON_OK, "load of {} gives OK", what);
    CONFORM_EXPECT(executable == nullptr, "load of {} fails and gives an executable", what);
    CONFORM_EXPECT(heard_failure().any, "load of {} fails without a reason", what);
    s.step("load of what compile made, after " + what);
    const tenon_code_t after =
        bench.load_code(*device, compiled.bytes, part->constants(), &executable);
    CONFORM_EXPECT(after == TENON_OK, "load of what compile made gives {} after that of {}{}",
                   code_text(after), what, said());
    bench.compiler().executable_release(bench.compiler().self, executable);
  }
  return bench.load(*device, *part, &compiled);
}

Outcome load_counts(Session& s) {
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.ready(constant_graph(1024), &device, &part));
  Compiled compiled;
  CONFORM_TRY(bench.compile(*part, &compiled));
  const std::vector<tenon_blob_t*> good = part->constants();
  for (size_t count : {good.size() - 1, good.size() + 1, size_t{0}, good.size() * 2}) {
    s.step(fmt::format("load with {} constants of {}", count, good.size()));
    std::vector<tenon_blob_t*> constants = good;
    constants.resize(count, good[0]);
    tenon_executable_t* executable = nullptr;
    const tenon_code_t code = bench.load_code(*device, compiled.bytes, constants, &executable);
    CONFORM_EXPECT(code != TENON_OK, "load with {} constants instead of {} gives OK", count,
                   good.size());
    CONFORM_EXPECT(heard_failure().any, "load with {} constants fails without a reason", count);
  }
  return bench.load(*device, *part, &compiled);
}

Outcome load_order(Session& s) {
  CompileBench bench(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  CONFORM_TRY(bench.ready(constant_graph(1024), &device, &part));
  const std::vector<Named> inputs = part->inputs({}, fill_normal);
  std::vector<Named> expected, got;
  CONFORM_TRY(part->expected(inputs, &expected));
  Compiled compiled;
  CONFORM_TRY(bench.load(*device, *part, &compiled));
  Execution execution(bench, *device, *part, compiled.executable, {});
  CONFORM_TRY(execution.prepare(inputs, 0));
  s.step("running with constants");
  CONFORM_TRY(execution.run());
  CONFORM_TRY(execution.outputs(&got));
  return same_tensors(got, expected, "a graph with two constants");
}

constexpr Check kChecks[] = {
    {"R-E01", "claim-without-device", claim_without_device},
    {"R-E01", "claim-keeps-graph", claim_keeps_graph},
    {"R-E01", "claim-ends", claim_ends},
    {"R-E02", "claim-nodes", claim_nodes},
    {"R-E03", "each-alone", each_alone},
    {"R-E03", "together", together},
    {"R-E04", "refusals", refusals},
    {"R-E05", "compile-threads", compile_in_threads},
    {"R-E05", "compile-cancelled", compile_cancelled},
    {"R-E05", "compile-polls", compile_polls},
    {"R-E06", "bytes-stay", bytes_stay},
    {"R-E06", "no-constants", no_constants},
    {"R-E06", "no-addresses", no_addresses},
    {"R-E07", "fits-own", fits_own},
    {"R-E07", "fits-others", fits_others},
    {"R-E07", "fits-targets", fits_targets},
    {"R-E08", "load-count", load_counts},
    {"R-E08", "load-order", load_order},
    {"R-E09", "load-damaged", load_damaged},
    {"R-E19", "claim-again", claim_again},
    {"R-E20", "claim-stops", claim_stops},
    {"R-E20", "bytes-stop", bytes_sink},
    {"R-E21", "info", artifact_facts},
    {"R-E22", "dump", dumps},
};

}  // namespace

std::span<const Check> compile_checks() {
  static const auto* all = new std::vector<Check>(joined({kChecks, execute_checks()}));
  return *all;
}

}  // namespace tenon::conform
