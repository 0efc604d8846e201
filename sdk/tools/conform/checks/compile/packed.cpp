// Group E: constants in the device's own form, for programs in files: what is packed, and what is
// computed with it.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/compile/loaded_graph.h"
#include "sdk/tools/conform/fixtures/compile/packing.h"
#include "sdk/tools/conform/subject/process_state.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

Outcome slots(Session& s) {
  CompileFixture fixture(s);
  CONFORM_TRY(fixture.find());
  const tenon_compile_api_t& c = fixture.compiler();
  if (c.pack == nullptr && c.load_packed == nullptr) return not_offered("pack and load_packed");
  CONFORM_EXPECT(c.load_packed != nullptr, "it has pack, and no load_packed");
  CONFORM_EXPECT(c.pack != nullptr, "it has load_packed, and no pack");
  return pass();
}

// "" if both have the same blobs.
std::string difference_of(const std::vector<Bytes>& got, const std::vector<Bytes>& expected) {
  if (got.size() != expected.size())
    return fmt::format("{} blobs instead of {}", got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].size() != expected[i].size())
      return fmt::format("blob {} has {} bytes instead of {}", i, got[i].size(),
                         expected[i].size());
    const std::string difference = first_difference(got[i], expected[i]);
    if (!difference.empty()) return fmt::format("blob {}: {}", i, difference);
  }
  return {};
}

// ---- Packing ----

Outcome packs_again(Session& s) {
  return each_packing(s, [&](Packing& p) {
    std::vector<Bytes> first, again;
    s.step("pack, while no device is open");
    CONFORM_TRY(p.pack(&first));
    for (int i = 0; i < 3; ++i) {
      CONFORM_TRY(p.pack(&again));
      const std::string difference = difference_of(again, first);
      CONFORM_EXPECT(difference.empty(), "pack gives something else at another call: {}",
                     difference);
    }
    return pass();
  });
}

Outcome packs_in_threads(Session& s) {
  return each_packing(s, [&](Packing& p) {
    std::vector<Bytes> expected;
    CONFORM_TRY(p.pack(&expected));
    s.step("pack in four threads");
    Outcome outcomes[4];
    std::vector<Bytes> got[4];
    {
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < 4; ++t)
        threads.emplace_back([&, t] { outcomes[t] = p.pack(&got[t]); });
    }
    for (size_t t = 0; t < 4; ++t) {
      CONFORM_TRY(std::move(outcomes[t]));
      const std::string difference = difference_of(got[t], expected);
      CONFORM_EXPECT(difference.empty(), "pack in one of several threads gives something else: {}",
                     difference);
    }
    return pass();
  });
}

// Takes so many blobs, and then fails.
struct FailingSink {
  size_t takes = 0, calls = 0;
  static tenon_code_t blob(void* self, const void*, uint64_t) {
    auto* sink = static_cast<FailingSink*>(self);
    return ++sink->calls > sink->takes ? TENON_ABORTED : TENON_OK;
  }
};

Outcome packing_stops(Session& s) {
  return each_packing(s, [&](Packing& p) {
    std::vector<Bytes> good, again;
    CONFORM_TRY(p.pack(&good));
    if (good.empty()) return skipped("it packs the constants of the graph into no blob");
    for (size_t takes = 0; takes < good.size(); ++takes) {
      FailingSink failing = {takes};
      s.step(fmt::format("pack with a sink that fails for blob {}", takes));
      const std::vector<tenon_blob_t*> constants = p.part->constants();
      const tenon_code_t code =
          p.pack_code(constants, {sizeof(tenon_packed_sink_t), 0, &failing, FailingSink::blob});
      CONFORM_EXPECT(code == TENON_ABORTED, "with a sink that gives ABORTED, pack gives {}",
                     code_text(code));
      CONFORM_EXPECT(failing.calls == takes + 1,
                     "the sink failed for blob {}, and pack called it {} times", takes,
                     failing.calls);
    }
    CONFORM_TRY(p.pack(&again));
    const std::string difference = difference_of(again, good);
    CONFORM_EXPECT(difference.empty(), "after a sink that failed, pack gives something else: {}",
                   difference);
    return pass();
  });
}

// ---- Computing ----

Outcome outputs_of(Packing& p, OpenDevice& device, tenon_executable_t* executable,
                   std::vector<Named>* out) {
  Execution execution(p.fixture, device, *p.part, executable, {});
  CONFORM_TRY(execution.prepare(p.part->inputs({}, fill_normal), 0));
  CONFORM_TRY(execution.run());
  return execution.outputs(out);
}

Outcome values(Session& s) {
  return each_packing(s, [&](Packing& p) {
    std::vector<Bytes> packed;
    OpenDevice* device = nullptr;
    CONFORM_TRY(p.pack(&packed));
    CONFORM_TRY(p.fixture.open(0, &device));
    s.step("load_packed of what pack gave, in memory that cannot be written");
    CONFORM_TRY(p.works(*device, packed, "packed constants"));
    uint32_t flags = 0;
    CONFORM_TRY(p.fixture.properties(&flags));
    if ((flags & TENON_COMPILE_SAME_BITS) == 0) return pass();
    CONFORM_TRY(p.fixture.load(*device, *p.part, &p.compiled));
    LentBlobs blobs(p.fixture.api());
    CONFORM_TRY(blobs.add_all(packed));
    Compiled loaded;
    CONFORM_TRY(p.load(*device, blobs, &loaded));
    std::vector<Named> got, expected;
    CONFORM_TRY(outputs_of(p, *device, loaded.executable, &got));
    CONFORM_TRY(outputs_of(p, *device, p.compiled.executable, &expected));
    return same_bits(got, expected, "packed constants, against those of load");
  });
}

// Memory that two processes share, with an artifact and blobs in it: each after its size.
class Shelf {
 public:
  Shelf() {
    void* at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED) begin_ = at_ = static_cast<char*>(at);
  }
  Shelf(const Shelf&) = delete;
  ~Shelf() {
    if (begin_ != nullptr) ::munmap(begin_, kBytes);
  }
  bool there() const { return begin_ != nullptr; }
  bool put(const Bytes& bytes) {
    const uint64_t size = bytes.size() + 1;  // nothing is there where it is 0
    if (bytes.size() + 2 * sizeof size > kBytes - static_cast<size_t>(at_ - begin_)) return false;
    std::memcpy(at_, &size, sizeof size);
    std::memcpy(at_ + sizeof size, bytes.data(), bytes.size());
    at_ += sizeof size + bytes.size();
    return true;
  }
  std::vector<Bytes> take_all() const {
    std::vector<Bytes> out;
    const char* at = begin_;
    for (uint64_t size = 0;;) {
      std::memcpy(&size, at, sizeof size);
      if (size == 0) return out;
      at += sizeof size;
      out.emplace_back(at, at + size - 1);
      at += size - 1;
    }
  }

 private:
  static constexpr size_t kBytes = size_t{64} << 20;
  char *begin_ = nullptr, *at_ = nullptr;
};

// Another process compiles and packs; this one never does.
Outcome packed_elsewhere(Session& s, const std::string& text) {
  Shelf shelf;
  if (!shelf.there()) return skipped("no memory for two processes");
  const Outcome made = s.apart([&] {
    Packing p(s);
    std::vector<Bytes> packed;
    CONFORM_TRY(p.make(text));
    CONFORM_TRY(p.pack(&packed));
    bool fits = shelf.put(p.compiled.bytes);
    for (const Bytes& blob : packed) fits = fits && shelf.put(blob);
    return fits ? pass() : skipped("what it packs is larger than the check's memory");
  });
  if (made.verdict == Verdict::kFail) return skipped("it does not pack, as E.packed-again reports");
  CONFORM_TRY(made);
  std::vector<Bytes> packed = shelf.take_all();
  Packing p(s);
  OpenDevice* device = nullptr;
  CONFORM_TRY(p.fixture.ready(text, &device, &p.part));
  p.compiled.bytes = std::move(packed.front());
  packed.erase(packed.begin());
  return p.works(*device, packed, "constants that another process packed");
}

Outcome elsewhere(Session& s) {
  if (kThreadSanitizer) return skipped("the thread sanitizer starts no threads after a fork");
  CONFORM_TRY(s.load());
  Outcome none = pass();
  size_t tried = 0;
  for (const std::string& text : {constant_graph(2048), weights_graph()}) {
    Outcome made = packed_elsewhere(s, text);
    if (made.verdict == Verdict::kFail) return made;
    if (made.verdict == Verdict::kPass)
      ++tried;
    else
      none = made;
  }
  return tried == 0 ? none : pass();
}

// ---- What is kept ----

Outcome keeps_blobs(Session& s) {
  return each_packing(s, [&](Packing& p) {
    std::vector<Bytes> packed;
    OpenDevice* device = nullptr;
    CONFORM_TRY(p.pack(&packed));
    CONFORM_TRY(p.fixture.open(0, &device));
    LentBlobs blobs(p.fixture.api());
    CONFORM_TRY(blobs.add_all(packed));
    Compiled loaded;
    loaded.api = &p.fixture.compiler();
    std::vector<tenon_blob_t*> given(blobs.blobs().begin(), blobs.blobs().end());
    Bytes artifact = p.compiled.bytes;
    s.step("load_packed");
    const tenon_code_t code = p.load_code(*device, artifact, given, &loaded.executable);
    CONFORM_EXPECT(code == TENON_OK, "load_packed of what pack gave gives {}{}", code_text(code),
                   said());
    std::ranges::fill(given, nullptr);
    std::ranges::fill(artifact, static_cast<unsigned char>(0xee));
    p.compiled.release_artifact();
    blobs.release();
    CONFORM_TRY(runs_to(p.fixture, *device, *p.part, loaded.executable,
                        "packed constants, after bytes, array and references are gone"));
    s.step("releasing the executable of packed constants");
    loaded.release_executable();
    CONFORM_EXPECT(blobs.given_back() == packed.size(),
                   "of {} packed blobs {} are given back when the executable is gone",
                   packed.size(), blobs.given_back());
    return pass();
  });
}

Outcome keeps_no_constants(Session& s) {
  return each_packing(s, [&](Packing& p) {
    LentBlobs constants(p.fixture.api());
    for (tenon_blob_t* blob : p.part->constants()) {
      const void* data = nullptr;
      uint64_t size = 0;
      const tenon_host_graph_t& graph = *p.fixture.api().graph;
      if (graph.blob_data(graph.self, blob, &data, &size) != TENON_OK)
        return skipped("no constants");
      const auto* bytes = static_cast<const unsigned char*>(data);
      CONFORM_TRY(constants.add({bytes, bytes + size}));
    }
    std::vector<Bytes> packed;
    CONFORM_TRY(p.pack(&packed));  // skipped where nothing can be packed
    FailingSink counts = {SIZE_MAX};
    s.step("pack of constants that cannot be written");
    const tenon_code_t code = p.pack_code(
        constants.blobs(), {sizeof(tenon_packed_sink_t), 0, &counts, FailingSink::blob});
    CONFORM_EXPECT(code == TENON_OK, "pack gives {}{}", code_text(code), said());
    const size_t count = constants.blobs().size();
    constants.release();
    CONFORM_EXPECT(constants.given_back() == count,
                   "of {} constants {} are given back when pack has returned", count,
                   constants.given_back());
    return pass();
  });
}

Outcome gives_back(Session& s) {
  constexpr int kRounds = 60;
  Packing p(s);
  CONFORM_TRY(p.make(constant_graph(size_t{1} << 16)));
  std::vector<Bytes> packed;
  OpenDevice* device = nullptr;
  CONFORM_TRY(p.pack(&packed));
  CONFORM_TRY(p.fixture.open(0, &device));
  LentBlobs blobs(p.fixture.api());
  CONFORM_TRY(blobs.add_all(packed));
  const tenon_device_api_t& api = device->api();
  uint64_t used[2] = {}, peak = 0, before = 0;
  auto in_use = [&](uint64_t* out) {
    if (api.memory != nullptr) (void)api.memory(api.self, device->device(), out, &peak);
  };
  for (int round = -10; round < kRounds; ++round) {
    if (round == 0) in_use(&used[0]), before = resident_bytes();
    s.step("packing, loading and releasing");
    std::vector<Bytes> again;
    CONFORM_TRY(p.pack(&again));
    Compiled loaded;
    CONFORM_TRY(p.load(*device, blobs, &loaded));
    CONFORM_TRY(runs_to(p.fixture, *device, *p.part, loaded.executable, "packed constants"));
  }
  in_use(&used[1]);
  const uint64_t after = resident_bytes();
  CONFORM_EXPECT(used[1] == used[0],
                 "{} bytes of the device were in use, and {} after {} rounds of pack and "
                 "load_packed",
                 used[0], used[1], kRounds);
  // A quarter of the constants' size, each round.
  constexpr uint64_t kMost = kRounds * (uint64_t{1} << 16);
  CONFORM_EXPECT(after < before + kMost,
                 "after {} rounds of pack and load_packed the process holds {} KiB more", kRounds,
                 (after - before) >> 10);
  return pass();
}

constexpr Check kChecks[] = {
    {"R-E33", "packed-slots", slots},
    {"R-E33", "packed-values", values},
    {"R-E33", "packed-elsewhere", elsewhere},
    {"R-E34", "packed-again", packs_again},
    {"R-E34", "packed-in-threads", packs_in_threads},
    {"R-E20", "packed-stops", packing_stops},
    {"R-E36", "packed-kept", keeps_blobs},
    {"R-E36", "packed-constants", keeps_no_constants},
    {"R-E36", "packed-gives-back", gives_back},
};

}  // namespace

std::span<const Check> packed_checks() {
  return kChecks;
}

}  // namespace tenon::conform
