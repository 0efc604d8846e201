// Group E: how long artifacts and executables live, and what they leak.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/compile/loaded_graph.h"
#include "sdk/tools/conform/subject/growth.h"
#include "sdk/tools/conform/subject/process_state.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

Outcome after_release(Session& s) {
  constexpr size_t kElements = 1 << 16;  // 256 KiB constants, which the allocator unmaps when freed
  Loaded l(s);
  CONFORM_TRY(l.make(constant_graph(kElements)));
  const std::unique_ptr<Execution> execution = l.execution();
  CONFORM_TRY(execution->prepare(l.inputs, 0));
  CONFORM_TRY(execution->run());
  s.step("execute after artifact, bytes, constants and graph are gone");
  l.compiled.release_artifact();
  std::fill(l.compiled.bytes.begin(), l.compiled.bytes.end(), static_cast<unsigned char>(0xee));
  const std::vector<Named> expected = std::move(l.expected);
  // The types of the outputs are read from a graph: a second one, with constants of its own.
  std::unique_ptr<Part> second;
  CONFORM_TRY(Part::read(l.fixture.api(), l.part->text(), &second));
  Execution again(l.fixture, *l.device, *second, l.compiled.executable, {});
  CONFORM_TRY(again.prepare(l.inputs, 0));
  l.part.reset();
  std::vector<Bytes> others(8, Bytes(kElements * 4, 0xee));  // overwrites the old constants
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
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  CONFORM_TRY(fixture.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(fixture.taken(constant_graph(kElements), &part));
  CONFORM_TRY(fixture.open(0, &device));
  Compiled compiled;
  CONFORM_TRY(fixture.compile(*part, &compiled));
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
        fixture.load_code(*device, compiled.bytes, part->constants(), &executable);
    CONFORM_EXPECT(code == TENON_OK, "load gives {}", code_text(code));
    {
      Execution execution(fixture, *device, *part, executable, {});
      CONFORM_TRY(execution.prepare(inputs, 0));
      // What each execution leaks adds up to more than each executable may keep.
      for (int run = 0; run < 5; ++run) CONFORM_TRY(execution.run());
    }
    fixture.compiler().executable_release(fixture.compiler().self, executable);
  }
  in_use(&used[1]);
  const uint64_t after = resident_bytes();
  CONFORM_EXPECT(used[1] == used[0],
                 "{} bytes of the device were in use, and {} after {} executables were released",
                 used[0], used[1], kRounds);
  // A quarter of the total size of the constants.
  const uint64_t most = kRounds * kElements * 4 / 4;
  CONFORM_EXPECT(after < before + most,
                 "after {} executables were loaded and released the process holds {} KiB more",
                 kRounds, (after - before) >> 10);
  return pass();
}

// What each executable keeps, even if it is smaller than any constant.
Outcome every_byte(Session& s) {
  CompileFixture fixture(s);
  OpenDevice* device = nullptr;
  std::unique_ptr<Part> part;
  CONFORM_TRY(fixture.ready(chain_graph(), &device, &part));
  Compiled compiled;
  CONFORM_TRY(fixture.compile(*part, &compiled));
  const std::vector<tenon_blob_t*> constants = part->constants();
  s.step("loading and releasing an executable");
  return leaves_nothing(40, "executables were loaded and released", [&]() -> Outcome {
    tenon_executable_t* executable = nullptr;
    const tenon_code_t code = fixture.load_code(*device, compiled.bytes, constants, &executable);
    CONFORM_EXPECT(code == TENON_OK, "load gives {}", code_text(code));
    fixture.compiler().executable_release(fixture.compiler().self, executable);
    return pass();
  });
}

Outcome artifacts_given_back(Session& s) {
  constexpr int kRounds = 60;
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  std::unique_ptr<Part> part;
  CONFORM_TRY(fixture.taken(chain_graph(), &part));
  uint64_t before = 0, given_out = 0, artifact_bytes = 0;
  for (int round = -15; round < kRounds; ++round) {
    if (round == 0) before = resident_bytes(), given_out = allocated_bytes();
    Compiled compiled;
    CONFORM_TRY(fixture.compile(*part, &compiled));
    artifact_bytes = compiled.bytes.size();
  }
  const uint64_t after = resident_bytes();
  // What an artifact that is never released keeps: at least its bytes.
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
  second.api = &l.fixture.compiler();
  OpenDevice* other = l.device;
  if (l.fixture.device_count() > 1) CONFORM_TRY(l.fixture.open(1, &other));
  s.step("loading one artifact twice");
  const tenon_code_t code =
      l.fixture.load_code(*other, second.bytes, l.part->constants(), &second.executable);
  CONFORM_EXPECT(code == TENON_OK, "a second load gives {}", code_text(code));
  const std::unique_ptr<Execution> first = l.execution();
  CONFORM_TRY(first->prepare(l.inputs, 1));
  std::vector<Named> got;
  {
    Execution another(l.fixture, *other, *l.part, second.executable, {});
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

constexpr Check kChecks[] = {
    {"R-E17", "after-release", after_release},
    {"R-E25", "gives-back", gives_back},
    {"R-E25", "every-byte", every_byte},
    {"R-E25", "artifacts-given-back", artifacts_given_back},
    {"R-E26", "two-executables", two_executables},
};

}  // namespace

std::span<const Check> execute_lifetime_checks() {
  return kChecks;
}

}  // namespace tenon::conform
