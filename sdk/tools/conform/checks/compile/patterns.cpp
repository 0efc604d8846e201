// Group E: what a device claims in the runner's graphs and in the examples, computed as it is and
// in variations.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/patterns.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;

// What was computed of one pattern, for the report.
struct Computed {
  std::set<std::string> shapes;
  size_t computed = 0, refused = 0, impossible = 0;
  double worst = 0;  // the largest difference, as a part of what is allowed
  bool exact = true;
  // With a slow compiler there is time for the first variations alone, and the outcome says so.
  Clock::time_point end = {};
  bool is_late() const { return Clock::now() > end; }
};

// How near the results are, as a part of the tolerance.
void note_tolerance(const std::vector<Named>& got, const std::vector<Named>& expected,
                    Computed* out) {
  for (size_t i = 0; i < got.size() && i < expected.size(); ++i) {
    const double tolerance = tools::default_tolerance(expected[i].tensor.dtype);
    const tools::Comparison compared = tools::compare(got[i].tensor, expected[i].tensor, tolerance);
    out->exact = out->exact && compared.difference == 0;
    if (tolerance > 0 && compared.scale > 0)
      out->worst = std::max(out->worst, compared.difference / (tolerance * compared.scale));
  }
}

// Compiles a claimed graph, runs it between guards, and compares it with the reference. Each
// symbolic size is `size`.
Outcome compute(CompileFixture& fixture, OpenDevice& device, const Part& part, const Fill& fill,
                int64_t size, const std::string& what, Computed* out) {
  std::vector<Named> expected, got;
  const std::vector<int64_t> symbols(part.main().symbol_count, size);
  const std::vector<Named> inputs = part.inputs(symbols, fill);
  const std::string shapes = inputs_text(inputs);
  const std::string where = fmt::format("{}, on {}", what, shapes);
  if (part.expected(inputs, &expected).verdict != Verdict::kPass) return ++out->impossible, pass();
  fixture.session().step("compiling " + where);
  Compiled compiled;
  const Outcome loaded = fixture.load(device, part, &compiled);
  CONFORM_EXPECT(loaded.verdict != Verdict::kFail, "{}: {}", where, loaded.text);
  fixture.session().step("running " + where);
  for (const unsigned char filler : {0x5a, 0xc3}) {
    Execution run(fixture, device, part, compiled.executable, symbols);
    const Outcome prepared = run.prepare(inputs, filler);
    if (prepared.verdict == Verdict::kSkip) return ++out->impossible, pass();
    CONFORM_EXPECT(prepared.verdict == Verdict::kPass, "{}: {}", where, prepared.text);
    const Outcome ran = run.run();
    CONFORM_EXPECT(ran.verdict == Verdict::kPass, "{}: {}", where, ran.text);
    CONFORM_TRY(run.outputs(&got));
    CONFORM_TRY(same_tensors(got, expected, where));
    const Outcome kept = run.kept_all();
    CONFORM_EXPECT(kept.verdict == Verdict::kPass, "{}: {}", where, kept.text);
  }
  note_tolerance(got, expected, out);
  out->shapes.insert(shapes);
  ++out->computed;
  return pass();
}

std::string shapes_text(const Computed& computed) {
  constexpr size_t kMost = 6;
  std::string out;
  size_t shown = 0;
  for (const std::string& shape : computed.shapes) {
    if (++shown > kMost) break;
    out += (out.empty() ? "" : "; ") + shape;
  }
  if (computed.shapes.size() > kMost)
    out += fmt::format("; {} more", computed.shapes.size() - kMost);
  return out;
}

// "pattern NAME | FROM | SHAPES | computed | refused | tolerance", which the reports read.
void report(Session& s, const Pattern& pattern, const Computed& computed) {
  s.note(fmt::format(
      "pattern {} | {} | {} | {} | {} | {}", pattern.name, pattern.from, shapes_text(computed),
      computed.computed, computed.refused,
      computed.exact ? "exact" : fmt::format("{:.3g} of the tolerance", computed.worst)));
}

constexpr int64_t kUsualSize = 3;

// A pattern with symbolic sizes, at several of them.
Outcome vary_sizes(CompileFixture& fixture, OpenDevice& device, const Pattern& pattern,
                   Computed* out) {
  for (const int64_t size : {1, 2, 3, 8, 17, 67}) {
    if (out->is_late()) break;
    CONFORM_TRY(compute(
        fixture, device, *pattern.part, fill_normal, size,
        fmt::format("{} of {}, with symbolic sizes of {}", pattern.name, pattern.from, size), out));
  }
  return pass();
}

// One pattern in its variations. A device may refuse a variation: then nothing is computed.
Outcome vary(CompileFixture& fixture, OpenDevice& device, const Pattern& pattern, Computed* out) {
  if (pattern.part->main().symbol_count != 0) return vary_sizes(fixture, device, pattern, out);
  for (const Variation& variation : variations_of(*pattern.part)) {
    if (out->is_late()) break;
    tenon_graph_t* changed = remake(fixture.api().host, pattern.part->graph(), variation.change);
    if (changed == nullptr) continue;
    const Part made(fixture.api(), changed);
    std::vector<std::unique_ptr<Part>> parts;
    CONFORM_TRY(claimed_parts(fixture, made, &parts));
    out->refused += parts.empty();
    const std::string what =
        fmt::format("{} of {}, {}", pattern.name, pattern.from, variation.change.name);
    for (const auto& part : parts)
      CONFORM_TRY(compute(fixture, device, *part, variation.fill, kUsualSize, what, out));
  }
  return pass();
}

// Passes if there is a pattern.
Outcome find_patterns(CompileFixture& fixture, Patterns* out) {
  const bool examples = !fixture.session().examples().empty();
  const Outcome found = fixture.find();
  if (found.verdict == Verdict::kNotOffered && examples)
    return skipped("the plugin compiles nothing, so that no example is read");
  CONFORM_TRY(found);
  CONFORM_TRY(claimed_patterns(fixture, out));
  if (!out->list.empty()) return pass();
  if (out->claims + out->alone != 0)
    return skipped("the host cannot cut out what the device claims");
  return examples ? skipped("the device claims nothing in the examples" + out->refused)
                  : not_offered("a claim of several nodes together");
}

// Calls `check` for each pattern, for as long as there is time.
using CheckPattern =
    std::function<Outcome(CompileFixture&, OpenDevice&, const Pattern&, Computed*)>;
Outcome each_pattern(Session& s, int seconds, const CheckPattern& check) {
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  Patterns patterns;
  CONFORM_TRY(find_patterns(fixture, &patterns));
  CONFORM_TRY(fixture.open(0, &device));
  size_t computed = 0, tried = 0, refused = 0;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  for (const Pattern& pattern : patterns.list) {
    Computed of_one;
    of_one.end = end;
    if (of_one.is_late()) break;
    CONFORM_TRY(check(fixture, *device, pattern, &of_one));
    ++tried;
    computed += of_one.computed;
    refused += of_one.refused;
  }
  if (computed == 0) return skipped("the reference computes nothing of what the device claims");
  return {Verdict::kPass,
          fmt::format("{} of {} distinct patterns, computed {} times; {} variations not claimed{}",
                      tried, patterns.list.size(), computed, refused,
                      Clock::now() > end ? "; there was no time for more" : "")};
}

Outcome patterns_as_they_are(Session& s) {
  return each_pattern(
      s, 30,
      [](CompileFixture& fixture, OpenDevice& device, const Pattern& pattern, Computed* out) {
        return compute(fixture, device, *pattern.part, fill_normal, kUsualSize,
                       fmt::format("{} of {}", pattern.name, pattern.from), out);
      });
}

Outcome patterns_varied(Session& s) {
  return each_pattern(s, 40,
                      [&s](CompileFixture& fixture, OpenDevice& device, const Pattern& pattern,
                           Computed* out) -> Outcome {
                        CONFORM_TRY(vary(fixture, device, pattern, out));
                        report(s, pattern, *out);
                        return pass();
                      });
}

constexpr Check kChecks[] = {
    {"R-E29", "atomic-claims", patterns_as_they_are},
    {"R-E37", "variations", patterns_varied},
};

}  // namespace

std::span<const Check> pattern_checks() {
  return kChecks;
}

}  // namespace tenon::conform
