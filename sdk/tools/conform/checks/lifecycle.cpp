// Group I: how a process that uses the plugin continues and ends.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>

#include "sdk/tools/conform/checks/tables.h"

#include "sdk/tools/conform/fixtures/compile/exercise.h"
#include "sdk/tools/conform/fixtures/device/open_device.h"
#include "sdk/tools/conform/fixtures/device/open_queue.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/process_state.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// Loads the plugin and uses what it offers: memory, a queue, a kernel, a compilation, a frontend.
Outcome load_and_use(Session& s) {
  CONFORM_TRY(s.load());
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  const bool has_devices = find_devices(s, &api, &count).verdict == Verdict::kPass;
  const Outcome used = exercise(s);
  if (used.verdict == Verdict::kFail)
    return skipped("it does not work so far, as other checks report: " + used.text);
  return has_devices && used.verdict == Verdict::kSkip ? used : pass();
}

// A device with a buffer; both stay open.
Outcome open_and_keep(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  auto* device = new OpenDevice(api, 0);
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(device->open());
  CONFORM_TRY(device->alloc(1000, &buffer));
  return device->write(buffer, pattern_bytes(1000, 1));
}

// A queue that has run work and stays open: most of a device's threads belong to its queues.
Outcome work_and_keep(Session& s, const tenon_queue_api_t* queues) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  auto* open = new OpenQueues(api, queues, 0);
  tenon_queue_t* queue = nullptr;
  tenon_fence_t* fence = nullptr;
  tenon_buffer_t* buffer = nullptr;
  CONFORM_TRY(open->open());
  CONFORM_TRY(open->queue(&queue));
  CONFORM_TRY(open->fence(0, &fence));
  CONFORM_TRY(open->memory().alloc(64, &buffer));
  CONFORM_TRY(open->submit(queue, async_fill(buffer, 0, 64, 1, 1), {nullptr, 0}, {fence, 1}));
  return open->reaches(fence, 1, "a fill");
}

// How a process ended, from waitpid's status.
Outcome ended_well(int status, std::string_view how) {
  CONFORM_EXPECT(!WIFSIGNALED(status), "{}, the process ends with signal {}", how,
                 WTERMSIG(status));
  CONFORM_EXPECT(WEXITSTATUS(status) == 0, "{}, the process ends with status {}", how,
                 WEXITSTATUS(status));
  return pass();
}

// In a fork, since the process ends: runs `before`, then exit() with its handlers and static
// destructors.
template <typename Before>
Outcome ends_after(Session& s, std::string_view how, Before before) {
  constexpr int kNotReached = 77;
  const pid_t child = ::fork();
  if (child < 0) return skipped("no process apart");
  if (child == 0) {
    ::alarm(kApartSeconds);
    std::exit(before().verdict == Verdict::kPass ? 0 : kNotReached);
  }
  int status = 0;
  s.step(how);
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotReached)
    return skipped("the plugin does not work so far, as other checks report");
  return ended_well(status, how);
}

Outcome shutdown_while_open(Session& s) {
  CONFORM_TRY(s.load());
  if (s.record()->shutdown == nullptr) return not_offered("shutdown");
  CONFORM_TRY(open_and_keep(s));
  s.step("shutdown with a device and a buffer open");
  const tenon_code_t code = s.record()->shutdown(s.record()->self);
  CONFORM_EXPECT(code == TENON_OK, "with a device and a buffer open it gives {}", code_text(code));
  return pass();
}

Outcome ends_without_shutdown(Session& s) {
  return ends_after(s, "without shutdown", [&] { return load_and_use(s); });
}

Outcome ends_while_open(Session& s) {
  CONFORM_TRY(s.load());
  if (s.offered(TENON_DEVICE_ID) == nullptr) return not_offered(TENON_DEVICE_ID);
  return ends_after(s, "with a device and a buffer open", [&] { return open_and_keep(s); });
}

// The thread sanitizer's own exit hangs in the child of a process that has threads.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TENON_CONFORM_NO_EXIT_AFTER_FORK
#endif
#endif
#ifdef TENON_CONFORM_NO_EXIT_AFTER_FORK
constexpr bool kExitsAfterFork = false;
#else
constexpr bool kExitsAfterFork = true;
#endif

Outcome starts_program(Session& s) {
  CONFORM_TRY(s.load());
  const Outcome opened = open_and_keep(s);
  if (opened.verdict == Verdict::kFail)
    return skipped("its memory does not work, as group C reports");
  s.step("starting another program after a fork");
  const pid_t child = ::fork();
  if (child < 0) return skipped("no process apart");
  if (child == 0) {
    ::alarm(kApartSeconds);
    ::execl("/bin/true", "true", nullptr);
    ::_exit(0);  // a system without it: surviving the fork is enough
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CONFORM_TRY(ended_well(status, "after a fork that starts another program"));
  return kExitsAfterFork
             ? ends_after(s, "after a fork, by exit() in the child", [] { return pass(); })
             : pass();
}

std::set<std::string> thread_ids() {
  const std::vector<std::string> names = list_folder("/proc/self/task");
  return {names.begin(), names.end()};
}

// In the form of /proc: bit n - 1 for signal n. Leaves out signals that a fault raises, SIGPROF,
// which a thread may take, and signals that cannot be blocked.
uint64_t blockable_signals() {
  uint64_t mask = 0x7fffffff;
  for (int signal : {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF})
    mask &= ~(uint64_t{1} << (signal - 1));
  return mask;
}

// The signals that a thread accepts. A thread that was just started blocks all until it runs, so
// this waits until its mask changes.
uint64_t open_signals(const std::string& id) {
  constexpr int kLooks = 40;
  constexpr auto kBetween = std::chrono::milliseconds(25);
  for (int look = 0; look < kLooks; ++look) {
    const std::string text = read_system_file("/proc/self/task/" + id + "/status");
    const size_t at = text.find("SigBlk:");
    if (at == std::string::npos) return 0;
    const std::string_view digits = trim(std::string_view(text).substr(at + 7, 17));
    uint64_t blocked = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), blocked, 16);
    const uint64_t open = blockable_signals() & ~blocked;
    if (open != 0 || text.find("State:\tS") != std::string::npos) return open;
    std::this_thread::sleep_for(kBetween);
  }
  return 0;
}

Outcome threads_block_signals(Session& s) {
  std::string why;
  if (installed_host(&why) == nullptr) return skipped("the installed host does not start: " + why);
  const std::set<std::string> before = thread_ids();
  CONFORM_TRY(load_and_use(s));
  const tenon_queue_api_t* queues = nullptr;
  if (find_queues(s, &queues).verdict == Verdict::kPass) {
    if (work_and_keep(s, queues).verdict == Verdict::kFail)
      return skipped("its queues do not work, as group D reports");
  } else {
    CONFORM_TRY(s.offered(TENON_DEVICE_ID) == nullptr ? pass() : open_and_keep(s));
  }
  size_t started = 0;
  // The C library blocks all signals in a thread that is being created.
  ::usleep(100'000);
  for (const std::string& id : thread_ids()) {
    if (before.count(id) != 0) continue;
    ++started;
    const uint64_t open = open_signals(id);
    CONFORM_EXPECT(open == 0, "a thread that it started takes the signals of the mask {:x}", open);
  }
  return started == 0 ? skipped("it starts no thread that stays") : pass();
}

Outcome keeps_float_state(Session& s) {
  CONFORM_TRY(s.load());
  const ProcessState before = process_state_now();
  CONFORM_TRY(load_and_use(s));
  const ProcessState after = process_state_now();
  CONFORM_EXPECT(before.rounding == after.rounding && before.control == after.control,
                 "its calls changed the floating-point state");
  return pass();
}

Outcome keeps_process_state(Session& s) {
  CONFORM_TRY(s.load());
  ProcessState before = process_state_now();
  CONFORM_TRY(load_and_use(s));
  ProcessState after = process_state_now();
  after.rounding = before.rounding;  // tested by another check
  after.control = before.control;
  return compare_process_state(before, after, "a call");
}

std::string info_text(const tenon_device_info_t& info) {
  return fmt::format("{} {} {} {} {} {}", info.threading, view(info.kind), view(info.description),
                     view(info.target), info.memory_bytes, info.alignment_bytes);
}

// Calls count and info of all devices, and compares them with their earlier answers.
Outcome ask_often(const tenon_device_api_t* api, const std::vector<std::string>& before) {
  for (int round = 0; round < 300; ++round) {
    uint32_t count = 0;
    CONFORM_EXPECT(api->count(api->self, &count) == TENON_OK && count == before.size(),
                   "in one of several threads it counts {} devices of {}", count, before.size());
    const uint32_t ordinal = static_cast<uint32_t>(round) % count;
    auto info = sized<tenon_device_info_t>();
    CONFORM_EXPECT(api->info(api->self, ordinal, &info) == TENON_OK,
                   "in one of several threads info fails");
    CONFORM_EXPECT(info_text(info) == before[ordinal],
                   "in one of several threads info of device {} says {}, and {} before", ordinal,
                   printable(info_text(info)), printable(before[ordinal]));
  }
  return pass();
}

Outcome safe_calls(Session& s) {
  const tenon_device_api_t* api = nullptr;
  uint32_t count = 0;
  CONFORM_TRY(find_devices(s, &api, &count));
  std::vector<std::string> before;
  for (uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    auto info = sized<tenon_device_info_t>();
    if (api->info(api->self, ordinal, &info) != TENON_OK)
      return skipped("info fails, as C.info reports");
    before.push_back(info_text(info));
  }
  constexpr unsigned kThreads = 4;
  Outcome outcomes[kThreads];
  s.step("count and info in four threads");
  {
    std::vector<std::jthread> threads;
    for (Outcome& outcome : outcomes)
      threads.emplace_back([&] { outcome = ask_often(api, before); });
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

constexpr Check kChecks[] = {
    {"R-I01", "safe-calls", safe_calls},
    {"R-I03", "shutdown-while-open", shutdown_while_open},
    {"R-I04", "ends-without-shutdown", ends_without_shutdown},
    {"R-I05", "ends-while-open", ends_while_open},
    {"R-I06", "starts-program", starts_program},
    {"R-I07", "threads-block-signals", threads_block_signals},
    {"R-I08", "float-state", keeps_float_state},
    {"R-I10", "process-state", keeps_process_state},
};

}  // namespace

std::span<const Check> lifecycle_checks() {
  return kChecks;
}

}  // namespace tenon::conform
