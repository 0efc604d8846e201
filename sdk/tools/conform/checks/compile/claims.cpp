// Group E: what a device claims, and how it reports claims.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/tools/conform/checks/kernels/op_cases.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_fixture.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/device/open_queue.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// The graphs that are tried, and one for every op.
Outcome asked_graphs(CompileFixture& fixture, std::vector<std::unique_ptr<Part>>* out) {
  const std::vector<OpCase> examples = generate_cases(
      fixture.session().host(),
      [](const OpCase& example, std::vector<OpCase>* cases) { cases->push_back(example); });
  std::vector<std::string> texts = pattern_graphs();
  for (std::string text : {pair_graph(), inner_graph(), symbolic_graph(), graph_of(examples)})
    texts.push_back(std::move(text));
  for (const std::string& text : texts) {
    std::unique_ptr<Part> part;
    CONFORM_TRY(Part::read(fixture.api(), text, &part));
    out->push_back(std::move(part));
  }
  return pass();
}

template <typename Judge>
Outcome judge_claims(Session& s, Judge judge) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  std::vector<std::unique_ptr<Part>> parts;
  CONFORM_TRY(asked_graphs(fixture, &parts));
  for (const auto& part : parts) {
    Claims claims;
    CONFORM_TRY(fixture.claim(*part, &claims));
    CONFORM_TRY(judge(fixture, *part, claims));
  }
  return pass();
}

Outcome claim_without_device(Session& s) {
  return judge_claims(s, [](CompileFixture&, const Part&, const Claims&) { return pass(); });
}

Outcome claim_keeps_graph(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  for (const std::string& text : {mixed_graph(), inner_graph()}) {
    std::unique_ptr<Part> part;
    CONFORM_TRY(Part::read(fixture.api(), text, &part));
    const std::string before = part->text();
    Claims claims;
    CONFORM_TRY(fixture.claim(*part, &claims));
    CONFORM_EXPECT(part->text() == before, "the graph is another one after claim");
  }
  return pass();
}

struct LateSink {
  std::atomic<bool> open{true};
  std::atomic<int> late{0};
};

Outcome claim_ends(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(Part::read(fixture.api(), mixed_graph(), &part));
  auto* heard = new LateSink;  // leaked, since it may be called too late
  static tenon_claim_sink_t sink;
  sink.size_bytes = sizeof sink;
  sink.self = heard;
  sink.claim = [](void* self, const tenon_claim_t*) -> tenon_code_t {
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
  const tenon_compile_options_t options = fixture.compile_options();
  const tenon_code_t code = fixture.compiler().claim(fixture.compiler().self, fixture.target(),
                                                     part->graph(), &options, &sink);
  heard->open = false;
  CONFORM_EXPECT(code == TENON_OK, "claim gives {}", code_text(code));
  pause_a_while(std::chrono::milliseconds(200));
  CONFORM_EXPECT(heard->late == 0, "the sink is called {} times after claim returned",
                 heard->late.load());
  return pass();
}

// If its sink fails, claim stops and returns the sink's code.
Outcome claim_stops(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  std::unique_ptr<Part> part;
  Claims claims;
  for (const std::string& text : pattern_graphs()) {
    CONFORM_TRY(Part::read(fixture.api(), text, &part));
    CONFORM_TRY(fixture.claim(*part, &claims));
    if (!claims.claims.empty()) break;
  }
  if (claims.claims.empty()) return skipped("the device takes nothing of the graphs");
  const tenon_compile_options_t options = fixture.compile_options();
  const tenon_claim_sink_t sink = {
      sizeof sink, 0, nullptr,
      [](void*, const tenon_claim_t*) -> tenon_code_t { return TENON_ABORTED; },
      [](void*, tenon_node_t, tenon_code_t, tenon_str_t) -> tenon_code_t { return TENON_OK; }};
  s.step("claim with a sink that fails");
  const tenon_code_t code = fixture.compiler().claim(fixture.compiler().self, fixture.target(),
                                                     part->graph(), &options, &sink);
  CONFORM_EXPECT(code == TENON_ABORTED, "with a sink that gives ABORTED, claim gives {}",
                 code_text(code));
  return pass();
}

Outcome claim_nodes(Session& s) {
  return judge_claims(s, [](CompileFixture&, const Part& part, const Claims& claims) -> Outcome {
    for (const Claims::Claim& claim : claims.claims) {
      CONFORM_EXPECT(!claim.nodes.empty(), "a claim names no node");
      CONFORM_EXPECT(std::isfinite(claim.cost_ns) && claim.cost_ns >= 0, "a claim costs {} ns",
                     claim.cost_ns);
      std::set<tenon_node_t> once(claim.nodes.begin(), claim.nodes.end());
      CONFORM_EXPECT(once.size() == claim.nodes.size(), "a claim names a node twice");
      for (tenon_node_t node : claim.nodes)
        CONFORM_EXPECT(node < part.whole().node_limit && part.node(node).parent != TENON_NONE,
                       "a claim names node {}, which the graph does not have", node);
      CONFORM_EXPECT((claim.flags & ~TENON_CLAIM_ATOMIC) == 0,
                     "a claim has the unknown flags {:#x}", claim.flags);
      // A node inside a region must be claimed by itself: it is kept whole, not compiled.
      const bool by_itself = claim.nodes.size() == 1 && !claim.atomic();
      CONFORM_EXPECT(by_itself || std::all_of(claim.nodes.begin(), claim.nodes.end(),
                                              [&](tenon_node_t node) {
                                                return part.node(node).parent == part.whole().main;
                                              }),
                     "a claim of several nodes, or an atomic one, names one inside of a region");
    }
    return pass();
  });
}

Outcome refusals(Session& s) {
  return judge_claims(s, [](CompileFixture&, const Part& part, const Claims& claims) -> Outcome {
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
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  std::vector<std::unique_ptr<Part>> parts;
  CONFORM_TRY(asked_graphs(fixture, &parts));
  std::vector<Claims> first(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    CONFORM_TRY(fixture.claim(*parts[i], &first[i]));
    for (int time = 0; time < 2; ++time) {
      Claims again;
      CONFORM_TRY(fixture.claim(*parts[i], &again));
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
          outcomes[t] = fixture.claim(*parts[i], &again);
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

// What a device declares, in words that the ABI has, and always the same.
Outcome properties_stay(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  if (fixture.compiler().properties == nullptr) return not_offered("properties");
  uint32_t first = 0, again = 0;
  s.step("properties");
  CONFORM_TRY(fixture.properties(&first));
  CONFORM_EXPECT((first & ~(TENON_COMPILE_SAME_BITS | TENON_COMPILE_ONE_LONG_CALL |
                            TENON_COMPILE_LATE_CONSTANTS | TENON_COMPILE_STATIC)) == 0,
                 "properties gives the unknown flags {:#x}", first);
  CONFORM_TRY(fixture.properties(&again));
  CONFORM_EXPECT(first == again, "properties gives {:#x} and then {:#x}", first, again);
  return pass();
}

constexpr Check kChecks[] = {
    {"R-E30", "properties", properties_stay},
    {"R-E01", "claim-without-device", claim_without_device},
    {"R-E01", "claim-keeps-graph", claim_keeps_graph},
    {"R-E01", "claim-ends", claim_ends},
    {"R-E02", "claim-nodes", claim_nodes},
    {"R-E04", "refusals", refusals},
    {"R-E19", "claim-again", claim_again},
    {"R-E20", "claim-stops", claim_stops},
};

}  // namespace

std::span<const Check> claim_checks() {
  return kChecks;
}

}  // namespace tenon::conform
