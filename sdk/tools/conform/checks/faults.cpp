// Group J: failures in mid-operation. Those that the device itself can be made to produce are tried
// directly; for others the layer `faults` refuses calls in its place, in a program that then
// continues.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <tenon/abi/compile.h>
#include <tenon/abi/kernels.h>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/compile/compile_graphs.h"
#include "sdk/tools/conform/fixtures/device/open_queue.h"
#include "sdk/tools/conform/fixtures/graphs/program.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// ---- Directly ----

Outcome first_device(Session& s, const tenon_device_api_t** api) {
  uint32_t count = 0;
  return find_devices(s, api, &count);
}

uint64_t address_space_bytes() {
  const std::string text = read_system_file("/proc/self/statm");
  uint64_t pages = 0;
  (void)parse_u64(std::string_view(text).substr(0, text.find(' ')), &pages);
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Allocates until memory runs out, with little left for the process, and frees it all again.
Outcome exhaust(Session& s, OpenDevice& d, size_t* refused) {
  constexpr uint64_t kRoom = uint64_t{192} << 20, kBlock = uint64_t{16} << 20;
  rlimit before = {};
  if (::getrlimit(RLIMIT_AS, &before) != 0) return skipped("this system limits no memory");
  std::vector<tenon_buffer_t*> buffers;
  buffers.reserve(64);
  rlimit tight = before;
  tight.rlim_cur = std::min<uint64_t>(before.rlim_max, address_space_bytes() + kRoom);
  s.step("allocating with little memory left");
  ::setrlimit(RLIMIT_AS, &tight);
  tenon_code_t code = TENON_OK;
  for (int i = 0; i < 64 && code == TENON_OK; ++i) {
    tenon_buffer_t* buffer = nullptr;
    code = d.api().alloc(d.api().self, d.device(), kBlock, &buffer);
    if (code == TENON_OK) buffers.push_back(buffer);
  }
  ::setrlimit(RLIMIT_AS, &before);
  const bool reason = heard_failure().any;
  for (tenon_buffer_t* buffer : buffers) (void)d.api().free(d.api().self, d.device(), buffer);
  if (code == TENON_OK) return pass();  // its memory is not this process's
  ++*refused;
  CONFORM_EXPECT(code == TENON_RESOURCE_EXHAUSTED, "alloc without memory left gives {}",
                 code_text(code));
  CONFORM_EXPECT(reason, "alloc without memory left fails without a reason");
  return pass();
}

Outcome exhaustion(Session& s) {
  const tenon_device_api_t* api = nullptr;
  CONFORM_TRY(first_device(s, &api));
  OpenDevice d(api, 0);
  CONFORM_TRY(d.open());
  const Bytes bytes = pattern_bytes(4096, 3);
  tenon_buffer_t* kept = nullptr;
  CONFORM_TRY(d.alloc(bytes.size(), &kept));
  CONFORM_TRY(d.write(kept, bytes));
  uint64_t used[2] = {}, peak = 0;
  size_t refused = 0;
  if (api->memory != nullptr) (void)api->memory(api->self, d.device(), &used[0], &peak);
  for (int round = 0; round < 3; ++round) CONFORM_TRY(exhaust(s, d, &refused));
  if (api->memory != nullptr) (void)api->memory(api->self, d.device(), &used[1], &peak);
  CONFORM_EXPECT(used[0] == used[1],
                 "{} bytes were in use before allocations that failed, and {} after", used[0],
                 used[1]);
  CONFORM_TRY(d.holds(kept, bytes, "a buffer, after allocations that failed"));
  tenon_buffer_t* again = nullptr;
  CONFORM_TRY(d.alloc(uint64_t{16} << 20, &again));
  CONFORM_TRY(d.close());
  return refused == 0 ? skipped("its memory is not limited with this process's") : pass();
}

// Every way in which a copy fails, each followed by correct work.
Outcome after_failing_copies(Session& s) {
  const tenon_device_api_t* api = nullptr;
  CONFORM_TRY(first_device(s, &api));
  for (int way = 0; way < 5; ++way) {
    OpenDevice d(api, 0);
    CONFORM_TRY(d.open());
    tenon_buffer_t *a = nullptr, *b = nullptr;
    const Bytes bytes = pattern_bytes(1000, static_cast<uint32_t>(way));
    Bytes host(2000, 0);
    CONFORM_TRY(d.alloc(1000, &a));
    CONFORM_TRY(d.alloc(1000, &b));
    CONFORM_TRY(d.write(a, bytes));
    s.step("working after a copy that failed");
    for (int round = 0; round < 3; ++round) {
      const tenon_code_t code = way == 0   ? d.to_device(b, 900, host.data(), 200)
                                : way == 1 ? d.to_host(host.data(), a, 1, 1000)
                                : way == 2 ? d.between(b, 0, a, 1001, 1)
                                : way == 3 ? d.fill(b, 0, 999, 1, 3)
                                           : d.fill(b, UINT64_MAX, 8, 1, 8);
      CONFORM_EXPECT(code != TENON_OK, "a copy that cannot work gives OK");
      const tenon_code_t next = d.between(b, 0, a, 0, 1000);
      CONFORM_EXPECT(next == TENON_OK, "a copy after one that failed gives {}{}", code_text(next),
                     said());
      CONFORM_TRY(d.holds(b, bytes, "a copy after one that failed"));
    }
    tenon_buffer_t* another = nullptr;
    CONFORM_TRY(d.alloc(100, &another));
    CONFORM_TRY(d.close());
  }
  return pass();
}

Outcome again_after_timeout(Session& s) {
  const tenon_device_api_t* api = nullptr;
  const tenon_queue_api_t* queues = nullptr;
  CONFORM_TRY(find_queues(s, &queues));
  CONFORM_TRY(first_device(s, &api));
  auto* d = new OpenQueues(api, queues, 0);
  CONFORM_TRY(d->open());
  tenon_queue_t* queue = nullptr;
  tenon_fence_t *gate = nullptr, *done = nullptr;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d->queue(&queue));
  CONFORM_TRY(d->fence(0, &gate));
  CONFORM_TRY(d->fence(0, &done));
  CONFORM_TRY(d->memory().alloc(64, &buffer));
  s.step("waiting again for a fence that timed out");
  CONFORM_TRY(d->submit(queue, async_fill(buffer, 0, 64, 9, 1), {gate, 1}, {done, 1}));
  for (uint64_t timeout : {0, 1000, 1'000'000, 20'000'000, 0}) {
    const tenon_code_t code = d->wait_code(done, 1, timeout);
    CONFORM_EXPECT(code == TENON_DEADLINE_EXCEEDED, "a wait of {} ns for work that waits gives {}",
                   timeout, code_text(code));
  }
  CONFORM_TRY(d->signal(gate, 1));
  CONFORM_TRY(d->reaches(done, 1, "a fence whose waits timed out before"));
  CONFORM_TRY(d->memory().holds(buffer, Bytes(64, 9), "work whose fence timed out before"));
  CONFORM_TRY(d->end());
  delete d;
  return pass();
}

// Two threads fail alternately; each must see its own failure.
Outcome failures_of_threads(Session& s) {
  const tenon_device_api_t* api = nullptr;
  CONFORM_TRY(first_device(s, &api));
  OpenDevice d(api, 0);
  CONFORM_TRY(d.open());
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(d.alloc(64, &buffer));
  std::atomic<int> turn{0};
  Outcome outcomes[2];
  constexpr int kRounds = 50;
  s.step("failing in two threads, in turn");
  auto work = [&](int self) -> Outcome {
    unsigned char host[64] = {};
    for (int round = 0; round < kRounds; ++round) {
      while (turn != round * 4 + self) std::this_thread::yield();
      const tenon_code_t code =
          self == 0 ? d.to_device(buffer, 60, host, 64) : d.fill(buffer, 0, 60, 1, 3);
      ++turn;
      while (turn < round * 4 + 2 + self)
        std::this_thread::yield();  // the other has failed as well
      const HeardFailure heard = heard_failure();
      ++turn;
      CONFORM_EXPECT(code != TENON_OK, "a copy that cannot work gives OK");
      CONFORM_EXPECT(heard.any, "a failure of one thread is not heard in it");
      CONFORM_EXPECT(heard.code == code, "a thread's call gives {}, and {} is heard in it",
                     code_text(code), code_text(heard.code));
    }
    return pass();
  };
  {
    std::jthread first([&] {
      outcomes[0] = work(0);
      if (outcomes[0].verdict != Verdict::kPass) turn = 1 << 30;
    });
    std::jthread second([&] {
      outcomes[1] = work(1);
      if (outcomes[1].verdict != Verdict::kPass) turn = 1 << 30;
    });
    // If a thread gives up, the other keeps waiting for its turn.
    const auto begin = std::chrono::steady_clock::now();
    while (turn < kRounds * 4 &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(kApartSeconds))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (turn != kRounds * 4) {
      first.detach();
      second.detach();
      for (const Outcome& outcome : outcomes) {
        if (outcome.verdict == Verdict::kFail) return outcome;
      }
      return failed("two threads whose calls fail do not come to an end");
    }
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

// ---- Through the layer ----

// The kind of its device; nothing is loaded in this process.
Outcome kind_of(Session& s, std::string* kind) {
  CONFORM_TRY(s.apart([&]() -> Outcome {
    const tenon_device_api_t* api = nullptr;
    CONFORM_TRY(first_device(s, &api));
    if (s.offered(TENON_KERNELS_ID) == nullptr && s.offered(TENON_COMPILE_ID) == nullptr)
      return not_offered(TENON_KERNELS_ID " and " TENON_COMPILE_ID);
    return pass();
  }));
  for (const host::Provided& provided : s.subject().manifest.provides) {
    if (provided.kind != "device") continue;
    *kind = provided.name;
    return pass();
  }
  return skipped("the manifest names no device, as A.provides-all reports");
}

struct Attempt {
  bool ran = false, whole = false;
  std::string why;
};

// Compiles and runs the graph on the device; what the device does not take runs on the reference.
Outcome attempt(const Api& api, const std::string& kind, const std::vector<Named>& expected,
                Attempt* out) {
  *out = {};
  Program program(api);
  if (program.compile(chain_graph(), kind, false) != TENON_OK)
    return out->why = last_failure(api), pass();
  const std::vector<std::string> devices = program.devices();
  out->whole = std::any_of(devices.begin(), devices.end(),
                           [&](const std::string& d) { return d.starts_with(kind); });
  const std::vector<Named> inputs =
      make_inputs(program.info(),
                  [](tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
                    tools::fill_random(dtype, 7, stream, count, bytes);
                  });
  std::vector<Named> got;
  if (!run_program(program, inputs, &got, &out->why)) return pass();
  out->ran = true;
  for (size_t i = 0; i < got.size() && i < expected.size(); ++i) {
    const tools::Comparison compared = tools::compare(got[i].tensor, expected[i].tensor, 1e-4);
    CONFORM_EXPECT(compared.ok, "element {} of output {} is {} and the reference says {}",
                   compared.worst, got[i].name, tools::element_text(got[i].tensor, compared.worst),
                   tools::element_text(expected[i].tensor, compared.worst));
  }
  return pass();
}

// In a process with the layer: runs until one run after a failure is correct. `fired`: whether any
// failed.
Outcome run_with(const std::string& layers, const std::string& kind, bool comes_back, bool* fired) {
  ::setenv("TENON_LAYERS", layers.c_str(), 1);
  Api api;
  CONFORM_TRY(find_api(&api));
  Program reference(api);
  std::vector<Named> expected;
  std::string why;
  if (reference.compile(chain_graph(), kReference, false) != TENON_OK)
    return skipped("the reference does not take the graph: " + last_failure(api));
  if (!run_program(reference,
                   make_inputs(reference.info(),
                               [](tenon_dtype_t dtype, uint64_t stream, int64_t count,
                                  unsigned char* bytes) {
                                 tools::fill_random(dtype, 7, stream, count, bytes);
                               }),
                   &expected, &why))
    return skipped("the reference does not run the graph: " + why);
  *fired = false;
  Attempt last;
  for (int round = 0; round < 6; ++round) {
    CONFORM_TRY(attempt(api, kind, expected, &last));
    if (!last.ran) *fired = true;
  }
  CONFORM_EXPECT(!comes_back || last.ran, "after a fault it goes on failing: {}",
                 printable(last.why));
  Program other(api);
  std::vector<Named> got;
  CONFORM_EXPECT(other.compile(chain_graph(), kReference, false) == TENON_OK,
                 "after a fault no other device compiles");
  CONFORM_EXPECT(run_program(other,
                             make_inputs(other.info(),
                                         [](tenon_dtype_t dtype, uint64_t stream, int64_t count,
                                            unsigned char* bytes) {
                                           tools::fill_random(dtype, 7, stream, count, bytes);
                                         }),
                             &got, &why),
                 "after a fault no other device runs: {}", why);
  return pass();
}

// Each in a process that ends as programs do: with shutdown, and open objects released.
Outcome with_fault(Session& s, const std::string& fault, const std::string& kind, bool comes_back,
                   size_t* fired) {
  static constexpr std::string_view kFired = "fired";
  s.step("running with " + fault);
  Outcome outcome = s.apart(
      [&] {
        bool did = false;
        Outcome found =
            run_with(fmt::format("faults:{},device={}", fault, kind), kind, comes_back, &did);
        if (found.verdict == Verdict::kPass && did) found.text = kFired;
        return found;
      },
      Session::End::kAsPrograms);
  CONFORM_EXPECT(outcome.verdict != Verdict::kFail, "with {}: {}", fault, outcome.text);
  if (outcome.verdict == Verdict::kPass && outcome.text == kFired) ++*fired;
  return outcome.verdict == Verdict::kPass ? pass() : outcome;
}

Outcome sweep(Session& s, std::span<const std::string_view> sites, bool comes_back) {
  std::string kind;
  CONFORM_TRY(kind_of(s, &kind));
  if (kind == kReference) return skipped("it is the device that the others are compared with");
  size_t fired = 0;
  for (std::string_view site : sites) {
    for (int n : {1, 2, 3, 5}) {
      const size_t before = fired;
      CONFORM_TRY(with_fault(s, fmt::format("{}={}", site, n), kind, comes_back, &fired));
      if (fired == before) break;  // there are fewer calls than that
    }
  }
  return fired == 0 ? skipped("no fault of the layer reached the device") : pass();
}

Outcome injected(Session& s) {
  static constexpr std::string_view kSites[] = {"open",  "alloc",   "copy", "copy_async", "queue",
                                                "fence", "compile", "load", "execute",    "late"};
  return sweep(s, kSites, true);
}

Outcome lost(Session& s) {
  static constexpr std::string_view kSites[] = {"lost"};
  return sweep(s, kSites, false);
}

constexpr Check kChecks[] = {
    {"R-J01", "exhaustion", exhaustion},
    {"R-J02", "after-failing-copies", after_failing_copies},
    {"R-J03", "again-after-timeout", again_after_timeout},
    {"R-J04", "lost", lost},
    {"R-J05", "failures-of-threads", failures_of_threads},
    {"R-J06", "injected", injected},
};

}  // namespace

std::span<const Check> fault_checks() {
  return kChecks;
}

}  // namespace tenon::conform
