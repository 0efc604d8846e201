#include "core/host/discovery/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include <tenon/cpp/sha256.hpp>

#include "core/base/cache.h"
#include "core/base/file.h"
#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/host/discovery/places.h"
#include "core/host/discovery/requirements.h"

extern char** environ;

namespace tenon::host {
namespace {

constexpr int64_t kTimeLimitMs = 5000;
constexpr int64_t kHangKeptSeconds = 600;  // a loaded machine may have been the reason
constexpr size_t kAnswerMax = 64 * 1024;
constexpr std::string_view kPassed = "ok";

int64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000} + t.tv_nsec / 1000000;
}

std::string text_of(const FileIdentity& id) {
  return fmt::format("{} {} {} {} {}", id.device, id.inode, id.size_bytes, id.mtime_ns,
                     id.ctime_ns);
}

// A result applies to one state of one file, and to one build of this host.
std::string result_key(std::string_view what, const std::string& path, const FileIdentity& id) {
  return fmt::format("{}\n{}\n{}\nabi {} {} {}", what, path, text_of(id), TENON_ABI_VERSION,
                     __DATE__, __TIME__);
}

// A library that crashes under `ulimit -s 64` may work with more, so the limits of the process are
// part of the key.
std::string process_limits() {
  std::string text;
  for (auto what : {RLIMIT_STACK, RLIMIT_AS, RLIMIT_DATA, RLIMIT_NOFILE}) {
    rlimit now = {};
    ::getrlimit(what, &now);
    text += fmt::format(" {}", now.rlim_cur);
  }
  return text;
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

bool results_kept() {
  return !env_flag("TENON_PLUGIN_NO_CACHE", false);
}

int64_t seconds_now() {
  return static_cast<int64_t>(::time(nullptr));
}

// "ok", or "CODE\nABI code\ntext".
std::string to_text(const Status& status) {
  if (status.ok()) return std::string(kPassed);
  return fmt::format("{}\n{}\n{}", status.error_code(), status.code(), status.message());
}
Status from_text(std::string_view text) {
  if (text == kPassed) return Status();
  size_t first = text.find('\n'), second = text.find('\n', first + 1);
  uint64_t code = TENON_INTERNAL;
  if (first == std::string_view::npos || second == std::string_view::npos ||
      !parse_u64(text.substr(first + 1, second - first - 1), &code) || code == TENON_OK) {
    return error(TENON_INTERNAL, "P0601", "the helper process answered {}", quoted(text));
  }
  return Status(static_cast<tenon_code_t>(code), text.substr(0, first),
                printable(text.substr(second + 1), 4096));
}

// A result is kept if it depends on the file alone, or if repeating the probe would crash or hang
// again. What depends on the machine (a driver or library that is missing now, the helper program)
// is checked every time.
bool is_kept(std::string_view code) {
  static constexpr std::string_view kKept[] = {"",      "P0304", "P0305", "P0601",
                                               "P0602", "P0604", "P0702", "P0703",
                                               "P0802", "P0803", "P0805", "P0806"};
  return std::find(std::begin(kKept), std::end(kKept), code) != std::end(kKept);
}

// An entry is the time in seconds, a newline and the result. Returns nothing if it is malformed or
// has expired.
std::optional<Status> kept_status(std::string_view entry) {
  const size_t end = entry.find('\n');
  uint64_t then = 0;
  if (end == std::string_view::npos || !parse_u64(entry.substr(0, end), &then)) return std::nullopt;
  Status status = from_text(entry.substr(end + 1));
  const int64_t age = seconds_now() - static_cast<int64_t>(then);
  if (status.error_code() == "P0602" && (age < 0 || age > kHangKeptSeconds)) return std::nullopt;
  return status;
}

// `compute` may set its argument to false; then its result is not kept.
template <typename Compute>
Status kept_result(const std::string& key, Compute compute) {
  Cache& cache = Cache::process();
  if (results_kept()) {
    if (Result<CacheEntry> entry = cache.get("probe", as_bytes(key)); entry.ok()) {
      const std::string_view text(reinterpret_cast<const char*>(entry->bytes.data()),
                                  entry->bytes.size());
      if (std::optional<Status> status = kept_status(text)) return *std::move(status);
    }
  }
  bool lasting = true;
  Status status = compute(&lasting);
  if (results_kept() && lasting && is_kept(status.error_code())) {
    (void)cache.put("probe", as_bytes(key),
                    as_bytes(fmt::format("{}\n{}", seconds_now(), to_text(status))));
  }
  return status;
}

struct Child {
  pid_t pid = -1;
  int output = -1;
};

Result<Child> spawn(const std::string& program, const std::string& library, const std::string& name,
                    std::span<const std::string> required) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) {
    return error(TENON_RESOURCE_EXHAUSTED, "P0603", "no pipe to a helper process: {}",
                 strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 3);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<const char*> arguments = {program.c_str(), library.c_str(), name.c_str()};
  for (const std::string& soname : required) arguments.push_back(soname.c_str());
  arguments.push_back(nullptr);
  Child child;
  int problem = ::posix_spawn(&child.pid, program.c_str(), &actions, &attributes,
                              const_cast<char**>(arguments.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(pipe_ends[1]);
  if (problem != 0) {
    ::close(pipe_ends[0]);
    return error(TENON_UNAVAILABLE, "P0603", "the helper process {} cannot be started: {}",
                 quoted(program), strerror(problem));
  }
  child.output = pipe_ends[0];
  return child;
}

// Whether the child has ended. It is not reaped yet, so that its pid stays its own.
bool has_ended(pid_t pid) {
  siginfo_t info = {};
  const int result = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return result == 0 ? info.si_pid == pid
                     : errno == ECHILD;  // or another SIGCHLD handler reaped it
}

// Reads the child's answer until it closes its end or exits: processes that it started may hold the
// other end indefinitely. False if the time is up.
bool read_answer(const Child& child, int64_t deadline_ms, std::string* answer) {
  constexpr int64_t kLookMs = 20;
  char buffer[4096];
  for (bool ended = false;;) {
    const int64_t left = deadline_ms - now_ms();
    if (left <= 0) return false;
    pollfd waited = {child.output, POLLIN, 0};
    const int ready = ::poll(&waited, 1, ended ? 0 : static_cast<int>(std::min(left, kLookMs)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return false;
    if (ready == 0 && ended) return true;  // all that it wrote was there before it ended
    if (ready == 0) {
      ended = has_ended(child.pid);
      continue;
    }
    const ssize_t got = ::read(child.output, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    if (answer->size() < kAnswerMax) answer->append(buffer, static_cast<size_t>(got));
  }
}

// Waits for the child to end, and kills it when the time is up; processes that it started are
// killed in any case. False if the child was killed so.
bool wait_for(pid_t pid, int64_t deadline_ms, int* out_status) {
  bool in_time = true;
  for (int64_t pause_us = 100; !has_ended(pid); pause_us = std::min<int64_t>(pause_us * 2, 10000)) {
    if (in_time = now_ms() <= deadline_ms; !in_time) break;
    ::usleep(static_cast<useconds_t>(pause_us));
  }
  ::kill(-pid, SIGKILL);
  if (!in_time) ::kill(pid, SIGKILL);
  *out_status = 0;
  while (::waitpid(pid, out_status, 0) < 0 && errno == EINTR) {
  }
  return in_time;
}

// Signals that the code itself raises; others come from outside, as SIGKILL does when memory runs
// out.
bool is_own_fault(int signal) {
  constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  return std::find(std::begin(kFaults), std::end(kFaults), signal) != std::end(kFaults);
}

Status run_probe(const std::string& library, const std::string& name,
                 std::span<const std::string> required, bool* lasting) {
  TENON_ASSIGN_OR_RETURN(std::string program, helper_program("tenon-probe"));
  TENON_ASSIGN_OR_RETURN(Child child, spawn(program, library, name, required));
  const int64_t deadline = now_ms() + kTimeLimitMs;
  std::string answer;
  const bool answered = read_answer(child, deadline, &answer);
  int status = 0;
  const bool ended = wait_for(child.pid, answered ? deadline : now_ms() - 1, &status);
  ::close(child.output);
  if (!ended) {
    return error(
        TENON_DEADLINE_EXCEEDED, "P0602",
        "its query did not return within {} s in a helper process; the library is not opened",
        kTimeLimitMs / 1000);
  }
  const std::string what = required.empty()
                               ? "opening it or its query"
                               : "opening it, a library that it requires, or its query";
  if (WIFSIGNALED(status)) {
    *lasting = is_own_fault(WTERMSIG(status));
    return error(TENON_INTERNAL, "P0601",
                 "{} crashed a helper process ({}); the library is not opened", what,
                 strsignal(WTERMSIG(status)));
  }
  if (answer.empty()) {
    return error(TENON_INTERNAL, "P0601",
                 "{} ended a helper process with status {}; the library is not opened", what,
                 WEXITSTATUS(status));
  }
  return from_text(answer);
}

}  // namespace

ProbeMode probe_mode() {
  auto value = env("TENON_PLUGIN_PROBE");
  if (!value || equals_ignoring_case(*value, "child")) return ProbeMode::kChild;
  if (equals_ignoring_case(*value, "inproc")) return ProbeMode::kInProcess;
  if (equals_ignoring_case(*value, "off")) return ProbeMode::kOff;
  if (log_once("TENON_PLUGIN_PROBE")) {
    log_warning("plugins", "TENON_PLUGIN_PROBE={} is none of child, inproc and off; child is used",
                quoted(*value));
  }
  return ProbeMode::kChild;
}

Status probe_library(const std::string& library, const FileIdentity& seen,
                     const std::string& plugin_name, std::span<const std::string> required) {
  std::string what = "query " + plugin_name + process_limits();
  for (const std::string& soname : required) {
    const std::string file = library_file(soname);
    const Result<FileIdentity> identity = identify(file.empty() ? "/nowhere" : file);
    what += fmt::format("\n{} {}", soname, identity.ok() ? text_of(*identity) : "is not there");
  }
  return kept_result(result_key(what, library, seen), [&](bool* lasting) {
    Status status = run_probe(library, plugin_name, required, lasting);
    const Result<FileIdentity> now = identify(library);
    *lasting = *lasting && now.ok() &&
               *now == seen;  // the result is for this file, not for one that replaced it
    return status;
  });
}

namespace {
Status changed(std::string_view what, const std::string& path) {
  return error(TENON_FAILED_PRECONDITION, "P0605",
               "the {} {} is another file than the one that was looked at", what, quoted(path))
      .with("subject", path);
}

Result<std::string> digest_of_file(const File& file) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const MappedRegion> region, map_file(file));
  return digest::sha256_hex(region->bytes());
}
}  // namespace

Result<std::string> file_digest(const std::string& path) {
  Result<File> file = open_no_follow(path);
  if (!file.ok()) return error(TENON_NOT_FOUND, "P0208", "{}", file.status().message());
  return digest_of_file(*file);
}

Status check_digest(std::string_view what, const std::string& path, const FileIdentity& seen,
                    const std::string& sha256, std::string_view who) {
  return kept_result(
      result_key(fmt::format("sha256 {} {}", sha256, who), path, seen), [&](bool*) -> Status {
        Result<File> file = open_no_follow(path);
        if (!file.ok()) return error(TENON_NOT_FOUND, "P0208", "{}", file.status().message());
        if (file->identity() != seen) return changed(what, path);
        TENON_ASSIGN_OR_RETURN(const std::string actual, digest_of_file(*file));
        if (equals_ignoring_case(actual, sha256)) return Status();
        return error(TENON_DATA_LOSS, "P0604", "the {}'s sha256 is {}, and {} says {}", what,
                     actual, who, quoted(sha256))
            .with("subject", path);
      });
}

}  // namespace tenon::host
