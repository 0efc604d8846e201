// Group E: artifacts, their bytes, and loading them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/abi/compile.h>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_fixture.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/compile/loaded_graph.h"
#include "sdk/tools/conform/fixtures/device/damaged.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/process_state.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// The part of the graph that the device takes, compiled.
Outcome compiled_of(CompileFixture& fixture, const std::string& text, std::unique_ptr<Part>* part,
                    Compiled* compiled) {
  CONFORM_TRY(fixture.find());
  CONFORM_TRY(fixture.taken(text, part));
  return fixture.compile(**part, compiled);
}

// ---- Artifacts ----

Outcome bytes_stay(Session& s) {
  CompileFixture fixture(s);
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(compiled_of(fixture, chain_graph(), &part, &compiled));
  CONFORM_EXPECT(!compiled.bytes.empty(), "an artifact has no bytes");
  for (int i = 0; i < 3; ++i) {
    Bytes again;
    CONFORM_TRY(fixture.bytes_of(compiled.artifact, &again));
    const std::string difference = first_difference(again, compiled.bytes);
    CONFORM_EXPECT(difference.empty(), "artifact_bytes gives other bytes at another call: {}",
                   difference);
  }
  return pass();
}

Outcome bytes_sink(Session& s) {
  CompileFixture fixture(s);
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(compiled_of(fixture, chain_graph(), &part, &compiled));
  const tenon_sink_t sink = {
      nullptr, [](void*, const void*, uint64_t) -> tenon_code_t { return TENON_ABORTED; }};
  s.step("artifact_bytes with a sink that fails");
  const tenon_code_t code =
      fixture.compiler().artifact_bytes(fixture.compiler().self, compiled.artifact, &sink);
  CONFORM_EXPECT(code == TENON_ABORTED, "with a sink that gives ABORTED, artifact_bytes gives {}",
                 code_text(code));
  return pass();
}

Outcome no_constants(Session& s) {
  CompileFixture fixture(s);
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(compiled_of(fixture, constant_graph(8192), &part, &compiled));
  for (tenon_blob_t* blob : part->constants()) {
    const void* data = nullptr;
    uint64_t size = 0;
    const tenon_host_graph_t& graph = *fixture.api().graph;
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

// The mapped address ranges of this process. The lowest 4 GiB are left out, since addresses there
// look like sizes. So are the terabytes that sanitizers reserve, which would contain nearly any
// number.
std::vector<std::pair<uint64_t, uint64_t>> mapped_ranges() {
  std::vector<std::pair<uint64_t, uint64_t>> out;
  const std::string maps = read_system_file("/proc/self/maps");
  for (std::string_view line : split(maps, '\n')) {
    const size_t dash = line.find('-'), end = line.find(' ');
    if (dash == std::string_view::npos || end == std::string_view::npos) continue;
    const uint64_t from = std::strtoull(std::string(line.substr(0, dash)).c_str(), nullptr, 16),
                   to = std::strtoull(std::string(line.substr(dash + 1)).c_str(), nullptr, 16);
    if (from > UINT32_MAX && from < uint64_t{1} << 47 && to - from < uint64_t{1} << 40)
      out.push_back({from, to});
  }
  return out;
}

Outcome no_addresses(Session& s) {
  if (kThreadSanitizer)
    return skipped("the thread sanitizer puts memory where text looks like an address");
  CompileFixture fixture(s);
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(compiled_of(fixture, chain_graph(), &part, &compiled));
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
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  CONFORM_TRY(fixture.ready(chain_graph(), &device, &part));
  Compiled compiled;
  CONFORM_TRY(fixture.load(*device, *part, &compiled));
  const tenon_compile_api_t& c = fixture.compiler();
  s.step("artifact_info and executable_info");
  auto artifact = sized<tenon_artifact_info_t>();
  tenon_code_t code = c.artifact_info(c.self, compiled.artifact, &artifact);
  CONFORM_EXPECT(code == TENON_OK, "artifact_info gives {}", code_text(code));
  auto executable = sized<tenon_executable_info_t>();
  code = c.executable_info(c.self, compiled.executable, &executable);
  CONFORM_EXPECT(code == TENON_OK, "executable_info gives {}", code_text(code));
  return pass();
}

Outcome dumps(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  const tenon_compile_api_t& c = fixture.compiler();
  if (c.dump == nullptr) return not_offered("dump");
  std::unique_ptr<Part> part;
  CONFORM_TRY(fixture.taken(chain_graph(), &part));
  Compiled compiled;
  CONFORM_TRY(fixture.compile(*part, &compiled));
  for (std::string_view what : {"stages", "loops", "source", "plan", "asm", "no such thing", ""}) {
    s.step(fmt::format("dump of {}", quoted(what)));
    std::string text;
    const tenon_sink_t sink = sink_to(&text);
    forget_failure();
    const tenon_code_t code = c.dump(c.self, compiled.artifact, {what.data(), what.size()}, &sink);
    CONFORM_EXPECT(code == TENON_OK || code == TENON_NOT_FOUND, "dump of {} gives {}", quoted(what),
                   code_text(code));
    CONFORM_EXPECT(code == TENON_OK || heard_failure().any, "dump of {} gives no reason",
                   quoted(what));
    CONFORM_EXPECT(what.find("such") == std::string_view::npos || code == TENON_NOT_FOUND,
                   "dump of something unknown gives OK");
    CONFORM_EXPECT(is_valid_utf8(text), "dump of {} is not UTF-8", quoted(what));
  }
  return pass();
}

// ---- Bytes ----

tenon_code_t fits_code(CompileFixture& fixture, tenon_str_t target, const Bytes& bytes) {
  forget_failure();
  // In an allocation of its own size, where reading too far is detected.
  return fixture.compiler().fits(fixture.compiler().self, target, bytes.data(), bytes.size());
}
tenon_code_t fits_code(CompileFixture& fixture, const Bytes& bytes) {
  return fits_code(fixture, fixture.target(), bytes);
}

Outcome fits_own(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  size_t tried = 0;
  for (const std::string& text : {pair_graph(), chain_graph(), constant_graph(16)}) {
    std::unique_ptr<Part> part;
    const Outcome taken = fixture.taken(text, &part);
    if (taken.verdict == Verdict::kSkip) continue;
    CONFORM_TRY(taken);
    ++tried;
    Compiled compiled;
    CONFORM_TRY(fixture.compile(*part, &compiled));
    s.step("fits of what compile made");
    const tenon_code_t code = fits_code(fixture, compiled.bytes);
    CONFORM_EXPECT(code == TENON_OK, "fits of what compile made gives {}", code_text(code));
  }
  return tried == 0 ? skipped("the device does not take the graphs") : pass();
}

Outcome fits_others(Session& s) {
  CompileFixture fixture(s);
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(compiled_of(fixture, chain_graph(), &part, &compiled));
  for (const auto& [what, bytes] : damaged(compiled.bytes)) {
    s.step("fits of " + what);
    const tenon_code_t code = fits_code(fixture, bytes);
    const bool turned = what.starts_with("a bit") || what.ends_with("more");
    CONFORM_EXPECT(turned || code != TENON_OK, "fits of {} gives OK", what);
    CONFORM_EXPECT(code == TENON_OK || code == TENON_FAILED_PRECONDITION, "fits of {} gives {}",
                   what, code_text(code));
    CONFORM_EXPECT(code == TENON_OK || heard_failure().any, "fits of {} fails without a reason",
                   what);
  }
  return pass();
}

// Targets that no device has, and the target of another device of the plugin.
Outcome fits_targets(Session& s) {
  CompileFixture fixture(s);
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(compiled_of(fixture, chain_graph(), &part, &compiled));
  const std::string own(view(fixture.target()));
  for (const std::string& target : {own + "x", "not-" + own, own.substr(0, own.size() / 2) + "?",
                                    std::string("a conformance check's"), std::string()}) {
    s.step("fits for the target " + quoted(target));
    const tenon_code_t code = fits_code(fixture, {target.data(), target.size()}, compiled.bytes);
    CONFORM_EXPECT(code == TENON_FAILED_PRECONDITION,
                   "fits of bytes for {} gives {} for the target {}, which no device has",
                   quoted(own), code_text(code), quoted(target));
    CONFORM_EXPECT(heard_failure().any, "fits for another target fails without a reason");
    CONFORM_EXPECT(fits_code(fixture, compiled.bytes) == TENON_OK,
                   "fits of what compile made fails after it was asked for the target {}",
                   quoted(target));
  }
  if (fixture.device_count() < 2) return pass();
  OpenDevice* second = nullptr;
  CONFORM_TRY(fixture.open(1, &second));
  auto info = sized<tenon_device_info_t>();
  const tenon_device_api_t& api = second->api();
  if (api.info(api.self, 1, &info) != TENON_OK) return skipped("info fails, as C.info reports");
  const std::string other(view(info.target));
  s.step("fits for the target of device 1");
  const tenon_code_t code = fits_code(fixture, info.target, compiled.bytes);
  CONFORM_EXPECT(code == TENON_OK || (other != own && code == TENON_FAILED_PRECONDITION),
                 "fits of bytes for {} gives {} for {}, the target of device 1", quoted(own),
                 code_text(code), quoted(other));
  if (code != TENON_OK) return pass();
  tenon_executable_t* executable = nullptr;
  const tenon_code_t loaded =
      fixture.load_code(*second, compiled.bytes, part->constants(), &executable);
  CONFORM_EXPECT(loaded == TENON_OK,
                 "fits says OK for the target of device 1, and load there gives {}{}",
                 code_text(loaded), said());
  fixture.compiler().executable_release(fixture.compiler().self, executable);
  return pass();
}

Outcome load_damaged(Session& s) {
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  Compiled compiled;
  CONFORM_TRY(compiled_of(fixture, chain_graph(), &part, &compiled));
  CONFORM_TRY(fixture.open(0, &device));
  tenon_executable_t* sound = nullptr;
  CONFORM_EXPECT(fixture.load_code(*device, compiled.bytes, part->constants(), &sound) == TENON_OK,
                 "load of what compile made fails");
  fixture.compiler().executable_release(fixture.compiler().self, sound);
  for (const auto& [what, bytes] : damaged(compiled.bytes)) {
    s.step("load of " + what);
    tenon_executable_t* executable = nullptr;
    const tenon_code_t code = fixture.load_code(*device, bytes, part->constants(), &executable);
    CONFORM_EXPECT(code != TENON_OK, "load of {} gives OK", what);
    CONFORM_EXPECT(executable == nullptr, "load of {} fails and gives an executable", what);
    CONFORM_EXPECT(heard_failure().any, "load of {} fails without a reason", what);
    s.step("load of what compile made, after " + what);
    const tenon_code_t after =
        fixture.load_code(*device, compiled.bytes, part->constants(), &executable);
    CONFORM_EXPECT(after == TENON_OK, "load of what compile made gives {} after that of {}{}",
                   code_text(after), what, said());
    fixture.compiler().executable_release(fixture.compiler().self, executable);
  }
  return fixture.load(*device, *part, &compiled);
}

Outcome load_counts(Session& s) {
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  CONFORM_TRY(fixture.ready(constant_graph(1024), &device, &part));
  Compiled compiled;
  CONFORM_TRY(fixture.compile(*part, &compiled));
  const std::vector<tenon_blob_t*> good = part->constants();
  for (size_t count : {good.size() - 1, good.size() + 1, size_t{0}, good.size() * 2}) {
    s.step(fmt::format("load with {} constants of {}", count, good.size()));
    std::vector<tenon_blob_t*> constants = good;
    constants.resize(count, good[0]);
    tenon_executable_t* executable = nullptr;
    const tenon_code_t code = fixture.load_code(*device, compiled.bytes, constants, &executable);
    CONFORM_EXPECT(code != TENON_OK, "load with {} constants instead of {} gives OK", count,
                   good.size());
    CONFORM_EXPECT(heard_failure().any, "load with {} constants fails without a reason", count);
  }
  return fixture.load(*device, *part, &compiled);
}

Outcome load_order(Session& s) {
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  CONFORM_TRY(fixture.ready(constant_graph(1024), &device, &part));
  const std::vector<Named> inputs = part->inputs({}, fill_normal);
  std::vector<Named> expected, got;
  CONFORM_TRY(part->expected(inputs, &expected));
  Compiled compiled;
  CONFORM_TRY(fixture.load(*device, *part, &compiled));
  Execution execution(fixture, *device, *part, compiled.executable, {});
  CONFORM_TRY(execution.prepare(inputs, 0));
  s.step("running with constants");
  CONFORM_TRY(execution.run());
  CONFORM_TRY(execution.outputs(&got));
  return same_tensors(got, expected, "a graph with two constants");
}

// Whether all constants are among those whose values may come late.
bool all_large(const Part& part) {
  const std::vector<tenon_blob_t*> constants = part.constants();
  return !constants.empty() && std::ranges::all_of(constants, [&](tenon_blob_t* blob) {
    const void* data = nullptr;
    uint64_t size = 0;
    const tenon_host_graph_t& graph = *part.api().graph;
    return graph.blob_data(graph.self, blob, &data, &size) == TENON_OK &&
           size > TENON_COMPILE_EARLY_BYTES;
  });
}

// Compiled once, without the bytes of the constants; loaded with two sets of them.
Outcome late_constants(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  uint32_t flags = 0;
  CONFORM_TRY(fixture.properties(&flags));
  if ((flags & TENON_COMPILE_LATE_CONSTANTS) == 0)
    return not_offered("TENON_COMPILE_LATE_CONSTANTS");
  OpenDevice* device = nullptr;
  CONFORM_TRY(fixture.open(0, &device));
  std::unique_ptr<Part> first, second;
  CONFORM_TRY(fixture.taken(constant_graph(8192, 1), &first));
  CONFORM_TRY(fixture.taken(constant_graph(8192, 5), &second));
  if (!all_large(*first) || first->constants().size() != second->constants().size())
    return skipped("the device takes no graph with large constants alone");
  Compiled compiled;
  constants_come_late(true);
  const Outcome made = fixture.compile(*first, &compiled);
  constants_come_late(false);
  CONFORM_EXPECT(made.verdict == Verdict::kPass,
                 "it declares that compile needs no bytes of large constants, and without them {}",
                 made.text);
  CONFORM_TRY(fixture.load(*device, *first, &compiled));
  CONFORM_TRY(runs_to(fixture, *device, *first, compiled.executable, "the constants of load"));
  tenon_executable_t* other = nullptr;
  s.step("loading the artifact with other constants");
  const tenon_code_t code = fixture.load_code(*device, compiled.bytes, second->constants(), &other);
  CONFORM_EXPECT(code == TENON_OK, "load of the artifact with other constants gives {}{}",
                 code_text(code), said());
  Outcome right = runs_to(fixture, *device, *second, other, "the other constants of a second load");
  fixture.compiler().executable_release(fixture.compiler().self, other);
  CONFORM_TRY(std::move(right));
  return runs_to(fixture, *device, *first, compiled.executable,
                 "the constants of the first load after a second one");
}

constexpr Check kChecks[] = {
    {"R-E06", "bytes-stay", bytes_stay},         {"R-E06", "no-constants", no_constants},
    {"R-E06", "no-addresses", no_addresses},     {"R-E07", "fits-own", fits_own},
    {"R-E07", "fits-others", fits_others},       {"R-E07", "fits-targets", fits_targets},
    {"R-E08", "load-count", load_counts},        {"R-E08", "load-order", load_order},
    {"R-E09", "load-damaged", load_damaged},     {"R-E20", "bytes-stop", bytes_sink},
    {"R-E21", "info", artifact_facts},           {"R-E22", "dump", dumps},
    {"R-E32", "late-constants", late_constants},
};

}  // namespace

std::span<const Check> artifact_checks() {
  return kChecks;
}

}  // namespace tenon::conform
