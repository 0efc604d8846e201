#include "core/host/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/cache.h"
#include "core/base/environment.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/str.h"
#include "core/host/places.h"
#include "core/host/sha256.h"

extern char** environ;

namespace tenon::host {
namespace {

constexpr int64_t kTimeLimitMs = 5000;
constexpr size_t kAnswerMax = 64 * 1024;
constexpr std::string_view kPassed = "ok";

int64_t now_ms() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000} + t.tv_nsec / 1000000;
}

// Results are of one file at one time, asked by one build of this host.
std::string result_key(std::string_view what, const std::string& path, const FileIdentity& id) {
  return fmt::format("{}\n{}\n{} {} {} {} {}\nabi {} {} {}", what, path, id.device, id.inode, id.size_bytes, id.mtime_ns,
                     id.ctime_ns, TENON_ABI_VERSION, __DATE__, __TIME__);
}

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

bool results_kept() { return !env_flag("TENON_PLUGIN_NO_CACHE", false); }

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
  return Status(static_cast<tenon_code_t>(code), text.substr(0, first), printable(text.substr(second + 1), 4096));
}

// A result is kept when the file alone decides it, and when asking again would crash or hang again. What the machine
// decides (a driver or library that is missing now, the helper program) is asked every time.
bool is_kept(std::string_view code) {
  static constexpr std::string_view kKept[] = {"", "P0304", "P0305", "P0601", "P0602", "P0604", "P0702", "P0703",
                                               "P0802", "P0803", "P0805", "P0806"};
  return std::find(std::begin(kKept), std::end(kKept), code) != std::end(kKept);
}

template <typename Compute>
Status kept_result(std::string_view what, const std::string& path, Compute compute) {
  Result<FileIdentity> identity = identify(path);
  if (!identity.ok()) return error(TENON_NOT_FOUND, "P0208", "{}", identity.status().message());
  const std::string key = result_key(what, path, *identity);
  Cache& cache = Cache::process();
  if (results_kept()) {
    Result<CacheEntry> entry = cache.get("probe", as_bytes(key));
    if (entry.ok()) {
      return from_text({reinterpret_cast<const char*>(entry->bytes.data()), entry->bytes.size()});
    }
  }
  Status status = compute();
  if (results_kept() && is_kept(status.error_code())) (void)cache.put("probe", as_bytes(key), as_bytes(to_text(status)));
  return status;
}

struct Child {
  pid_t pid = -1;
  int output = -1;
};

Result<Child> spawn(const std::string& program, const std::string& library, const std::string& name) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) {
    return error(TENON_RESOURCE_EXHAUSTED, "P0603", "no pipe to a helper process: {}", strerror(errno));
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
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const char* arguments[] = {program.c_str(), library.c_str(), name.c_str(), nullptr};
  Child child;
  int problem = ::posix_spawn(&child.pid, program.c_str(), &actions, &attributes, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(pipe_ends[1]);
  if (problem != 0) {
    ::close(pipe_ends[0]);
    return error(TENON_UNAVAILABLE, "P0603", "the helper process {} cannot be started: {}", quoted(program), strerror(problem));
  }
  child.output = pipe_ends[0];
  return child;
}

// Reads the child's answer until it closes its end. False when the time is up.
bool read_answer(int output, int64_t deadline_ms, std::string* answer) {
  char buffer[4096];
  for (;;) {
    int64_t left = deadline_ms - now_ms();
    if (left <= 0) return false;
    pollfd waited = {output, POLLIN, 0};
    int ready = ::poll(&waited, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    ssize_t got = ::read(output, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    if (answer->size() < kAnswerMax) answer->append(buffer, static_cast<size_t>(got));
  }
}

// Waits for the child to end; kills it and what it started when the time is up. False if it was killed so.
bool wait_for(pid_t pid, int64_t deadline_ms, int* out_status) {
  for (int64_t pause_us = 100;; pause_us = std::min<int64_t>(pause_us * 2, 10000)) {
    pid_t ended = ::waitpid(pid, out_status, WNOHANG);
    if (ended == pid) return true;
    if (ended < 0 && errno != EINTR) {
      *out_status = 0;  // somebody else's SIGCHLD handler took it
      return true;
    }
    if (now_ms() > deadline_ms) break;
    ::usleep(static_cast<useconds_t>(pause_us));
  }
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, out_status, 0) < 0 && errno == EINTR) {
  }
  return false;
}

Status run_probe(const std::string& library, const std::string& name) {
  TENON_ASSIGN_OR_RETURN(std::string program, helper_program("tenon-probe"));
  TENON_ASSIGN_OR_RETURN(Child child, spawn(program, library, name));
  const int64_t deadline = now_ms() + kTimeLimitMs;
  std::string answer;
  const bool answered = read_answer(child.output, deadline, &answer);
  int status = 0;
  const bool ended = wait_for(child.pid, answered ? deadline : now_ms() - 1, &status);
  ::close(child.output);
  if (!ended) {
    return error(TENON_DEADLINE_EXCEEDED, "P0602",
                 "its query did not return within {} s in a helper process; the library is not opened", kTimeLimitMs / 1000);
  }
  if (WIFSIGNALED(status)) {
    return error(TENON_INTERNAL, "P0601", "opening it or its query crashed a helper process ({}); the library is not opened",
                 strsignal(WTERMSIG(status)));
  }
  if (answer.empty()) {
    return error(TENON_INTERNAL, "P0601", "opening it or its query ended a helper process with status {}; the library is not opened",
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
    log_warning("plugins", "TENON_PLUGIN_PROBE={} is none of child, inproc and off; child is used", quoted(*value));
  }
  return ProbeMode::kChild;
}

Status probe_library(const std::string& library, const std::string& plugin_name) {
  return kept_result("query " + plugin_name, library, [&] { return run_probe(library, plugin_name); });
}

Result<std::string> file_digest(const std::string& path) {
  Result<File> file = open_no_follow(path);
  if (!file.ok()) return error(TENON_NOT_FOUND, "P0208", "{}", file.status().message());
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const MappedRegion> region, map_file(*file));
  return sha256_hex(region->bytes());
}

Status check_digest(std::string_view what, const std::string& path, const std::string& sha256, std::string_view who) {
  return kept_result(fmt::format("sha256 {} {}", sha256, who), path, [&]() -> Status {
    TENON_ASSIGN_OR_RETURN(std::string actual, file_digest(path));
    if (equals_ignoring_case(actual, sha256)) return Status();
    return error(TENON_DATA_LOSS, "P0604", "the {}'s sha256 is {}, and {} says {}", what, actual, who, quoted(sha256));
  });
}

}  // namespace tenon::host
