// Group E: packed constants that do not belong to an artifact are refused when they are loaded, not
// by the first call.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/loaded_graph.h"
#include "sdk/tools/conform/fixtures/compile/packing.h"
#include "sdk/tools/conform/fixtures/device/damaged.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// Good blobs of a graph, and a device for them.
struct Good {
  Packing& p;
  OpenDevice* device = nullptr;
  std::vector<Bytes> blobs;
  Outcome make() {
    CONFORM_TRY(p.pack(&blobs));
    return p.fixture.open(0, &device);
  }
};

Outcome each_good(Session& s, const std::function<Outcome(Good&)>& check) {
  return each_packing(s, [&](Packing& p) {
    Good good = {p};
    CONFORM_TRY(good.make());
    CONFORM_TRY(check(good));
    s.step("load_packed of what pack gave, after the others");
    return p.works(*good.device, good.blobs, "packed constants, after others were refused");
  });
}

// Fails unless load_packed refuses these blobs, with a reason.
Outcome refuses(Good& good, const Bytes& artifact, std::span<const Bytes> blobs,
                const std::string& what) {
  good.p.fixture.session().step("load_packed of " + what);
  LentBlobs lent(good.p.fixture.api());
  CONFORM_TRY(lent.add_all(blobs));
  Compiled loaded;
  loaded.api = &good.p.fixture.compiler();
  const tenon_code_t code =
      good.p.load_code(*good.device, artifact, lent.blobs(), &loaded.executable);
  CONFORM_EXPECT(code != TENON_OK, "load_packed of {} gives OK", what);
  CONFORM_EXPECT(loaded.executable == nullptr, "load_packed of {} fails and gives an executable",
                 what);
  CONFORM_EXPECT(heard_failure().any, "load_packed of {} fails without a reason", what);
  lent.release();
  CONFORM_EXPECT(lent.given_back() == blobs.size(),
                 "load_packed of {} fails, and of {} blobs {} are given back", what, blobs.size(),
                 lent.given_back());
  return pass();
}

Outcome counts(Session& s) {
  return each_good(s, [&](Good& good) {
    const size_t right = good.blobs.size();
    for (size_t count : {right + 1, right * 2, right - std::min<size_t>(right, 1), size_t{0}}) {
      if (count == right) continue;
      std::vector<Bytes> blobs = good.blobs;
      blobs.resize(count, right == 0 ? Bytes(64) : good.blobs.back());
      CONFORM_TRY(refuses(good, good.p.compiled.bytes, blobs,
                          fmt::format("{} blobs instead of {}", count, right)));
    }
    return pass();
  });
}

Outcome sizes(Session& s) {
  return each_good(s, [&](Good& good) {
    for (size_t i = 0; i < good.blobs.size(); ++i) {
      const size_t right = good.blobs[i].size();
      for (size_t size : {size_t{0}, right / 2, right - std::min<size_t>(right, 64),
                          right - std::min<size_t>(right, 4), right - std::min<size_t>(right, 1),
                          right + 1, right + 4, right + 64, right + 4096}) {
        if (size == right) continue;
        std::vector<Bytes> blobs = good.blobs;
        blobs[i].resize(size, 0x11);
        CONFORM_TRY(refuses(good, good.p.compiled.bytes, blobs,
                            fmt::format("blob {} with {} bytes instead of {}", i, size, right)));
      }
    }
    return pass();
  });
}

Outcome damaged_artifacts(Session& s) {
  return each_good(s, [&](Good& good) {
    for (const auto& [what, bytes] : damaged(good.p.compiled.bytes))
      CONFORM_TRY(refuses(good, bytes, good.blobs, "an artifact that is " + what));
    return pass();
  });
}

// Where a file has them they begin at a multiple of 64. A device that can read them elsewhere may.
Outcome alignment(Session& s) {
  return each_good(s, [&](Good& good) {
    for (size_t shift : {size_t{1}, size_t{4}, size_t{16}, size_t{32}, size_t{60}}) {
      s.step(fmt::format("load_packed of blobs {} bytes after a multiple of 64", shift));
      LentBlobs lent(good.p.fixture.api());
      CONFORM_TRY(lent.add_all(good.blobs, shift));
      Compiled loaded;
      loaded.api = &good.p.fixture.compiler();
      const tenon_code_t code =
          good.p.load_code(*good.device, good.p.compiled.bytes, lent.blobs(), &loaded.executable);
      CONFORM_EXPECT(code == TENON_OK || heard_failure().any,
                     "load_packed of blobs at odd addresses fails without a reason");
      if (code != TENON_OK) continue;
      CONFORM_TRY(runs_to(good.p.fixture, *good.device, *good.p.part, loaded.executable,
                          fmt::format("blobs {} bytes after a multiple of 64", shift)));
    }
    return pass();
  });
}

// The blob with other bytes of the same number; each with what was done.
std::vector<std::pair<std::string, Bytes>> altered(const Bytes& good) {
  std::vector<std::pair<std::string, Bytes>> out;
  for (auto& [what, bytes] : damaged(good)) {
    if (bytes.size() == good.size()) out.emplace_back(what, std::move(bytes));
  }
  return out;
}

// Other bytes are other constants, if the form has room for nothing else: then a call computes with
// them. It never reads or writes elsewhere.
Outcome other_bytes(Session& s) {
  return each_good(s, [&](Good& good) {
    for (size_t i = 0; i < good.blobs.size(); ++i) {
      if (good.blobs[i].empty()) continue;
      for (const auto& [what, bytes] : altered(good.blobs[i])) {
        s.step(fmt::format("load_packed with {} as blob {}, and a call", what, i));
        LentBlobs lent(good.p.fixture.api());
        for (size_t b = 0; b < good.blobs.size(); ++b)
          CONFORM_TRY(lent.add(b == i ? bytes : good.blobs[b]));
        Compiled loaded;
        loaded.api = &good.p.fixture.compiler();
        const tenon_code_t code =
            good.p.load_code(*good.device, good.p.compiled.bytes, lent.blobs(), &loaded.executable);
        CONFORM_EXPECT(code == TENON_OK || heard_failure().any,
                       "load_packed with {} as blob {} fails without a reason", what, i);
        if (code != TENON_OK) continue;
        Execution execution(good.p.fixture, *good.device, *good.p.part, loaded.executable, {});
        CONFORM_TRY(execution.prepare(good.p.part->inputs({}, fill_normal), 0));
        const tenon_code_t ran = execution.run_code();
        CONFORM_EXPECT(ran == TENON_OK,
                       "load_packed takes {} as blob {}, and the first call gives {}{}", what, i,
                       code_text(ran), said());
        CONFORM_TRY(execution.kept_all());
      }
    }
    return pass();
  });
}

constexpr Check kChecks[] = {
    {"R-E35", "packed-count", counts},
    {"R-E35", "packed-sizes", sizes},
    {"R-E35", "packed-artifact", damaged_artifacts},
    {"R-E35", "packed-alignment", alignment},
    {"R-E35", "packed-altered", other_bytes},
};

}  // namespace

std::span<const Check> packed_refusal_checks() {
  return kChecks;
}

}  // namespace tenon::conform
