#include "core/conform/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/conform/session.h"

extern char** environ;

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAnswerDescriptor = 3;
constexpr size_t kOutputShown = 400;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What the user has set for other work must not reach the plugin.
std::vector<std::string> clean_environment(const std::string& manifest_path) {
  static constexpr std::string_view kDropped[] = {
      "TENON_PLUGINS_SELECT=", "TENON_PLUGINS_DISABLE=", "TENON_PLUGIN_AUTOLOAD=",
      "TENON_PLUGIN_FILES=",   "TENON_PLUGIN_ADD=",      "TENON_PLUGIN_STRICT=",
      "TENON_PLUGIN_LOCK=",    "TENON_LAYERS=",          "TENON_DEVICE="};
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (std::none_of(std::begin(kDropped), std::end(kDropped),
                     [&](std::string_view drop) { return text.starts_with(drop); })) {
      out.emplace_back(text);
    }
  }
  out.push_back("TENON_PLUGIN_ADD=" + manifest_path);
  return out;
}

// One check under way.
struct Running {
  Finding* finding = nullptr;
  double limit = 0;  // seconds
  pid_t process = -1;
  int answer = -1, output = -1;
  std::string text;  // what came through `answer` so far
  Clock::time_point begin;
};

bool start(Running& run, const std::string& manifest_path) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  run.output = ::memfd_create("tenon-conform-output", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // Never equal to its target, or the close-on-exec flag would stay.
  const int high = ::fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, run.output, 1);
  ::posix_spawn_file_actions_adddup2(&actions, run.output, 2);
  ::posix_spawn_file_actions_adddup2(&actions, high, kAnswerDescriptor);
  std::vector<std::string> environment = clean_environment(manifest_path);
  std::vector<char*> env;
  for (std::string& entry : environment) env.push_back(entry.data());
  env.push_back(nullptr);
  std::string self = "/proc/self/exe", child = "--child", path = manifest_path;
  std::string name = full_name(*run.finding->group, *run.finding->check);
  char* const arguments[] = {self.data(), child.data(), path.data(), name.data(), nullptr};
  run.begin = Clock::now();
  const bool started =
      ::posix_spawn(&run.process, self.c_str(), &actions, nullptr, arguments, env.data()) == 0;
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ::close(high);
  run.answer = ends[0];
  return started;
}

// The last thing that the child said it was about to do.
std::string last_step(const std::string& text) {
  const size_t at = text.rfind("step ");
  if (at == std::string::npos) return "";
  return " while " + text.substr(at + 5, text.find('\n', at) - at - 5);
}

std::string output_of(int descriptor) {
  std::string text(kOutputShown, '\0');
  const ssize_t got = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text.empty() ? "" : "; it wrote: " + printable(text, kOutputShown);
}

Outcome outcome_of(const Running& run, int status, bool timed_out, double limit) {
  if (timed_out)
    return failed("no end after {:.0f} s{}{}", limit, last_step(run.text), output_of(run.output));
  if (WIFSIGNALED(status)) {
    return failed("it ended with signal {} ({}){}{}", WTERMSIG(status),
                  ::strsignal(WTERMSIG(status)), last_step(run.text), output_of(run.output));
  }
  const size_t at = run.text.rfind("result ");
  if (at == std::string::npos || at + 8 > run.text.size()) {
    return failed("the process ended with status {}{}{}", WEXITSTATUS(status), last_step(run.text),
                  output_of(run.output));
  }
  std::string text = run.text.substr(at + 8);
  if (!text.empty() && text[0] == ' ') text.erase(0, 1);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return {static_cast<Verdict>(run.text[at + 7] - '0'), std::move(text)};
}

// Reads what came; true once the child has closed its end.
bool drain(Running& run) {
  char bytes[4096];
  const ssize_t got = ::read(run.answer, bytes, sizeof(bytes));
  if (got > 0) run.text.append(bytes, static_cast<size_t>(got));
  return got <= 0;
}

void finish(Running& run, bool timed_out) {
  if (timed_out) ::kill(run.process, SIGKILL);
  int status = 0;
  ::waitpid(run.process, &status, 0);
  run.finding->outcome = outcome_of(run, status, timed_out, run.limit);
  run.finding->seconds = seconds_since(run.begin);
  ::close(run.answer);
  ::close(run.output);
}

// Waits until one of them ended or is out of time, and takes it out of the list.
void wait_for_one(std::vector<Running>& running) {
  for (;;) {
    std::vector<pollfd> waits;
    for (const Running& run : running) waits.push_back({run.answer, POLLIN, 0});
    (void)::poll(waits.data(), waits.size(), 50);
    for (size_t i = 0; i < running.size(); ++i) {
      const bool ended = waits[i].revents != 0 && drain(running[i]);
      const bool late = seconds_since(running[i].begin) > running[i].limit;
      if (!ended && !late) continue;
      finish(running[i], !ended);
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
  }
}

const Selected* find_check(std::string_view name) {
  static const auto* all = new std::vector<Selected>(select_checks({highest_level(), "", 1, 0}));
  for (const Selected& selected : *all) {
    if (full_name(*selected.group, *selected.check) == name) return &selected;
  }
  return nullptr;
}

}  // namespace

std::vector<Selected> select_checks(const RunOptions& options) {
  std::vector<Selected> out;
  for (const Group& group : groups()) {
    for (const Check& check : group.checks) {
      if (group.level > options.level) continue;
      if (options.filter.empty() || glob_match(options.filter, full_name(group, check)))
        out.push_back({&group, &check});
    }
  }
  return out;
}

std::vector<Finding> run_checks(const Subject& subject, const RunOptions& options) {
  std::vector<Finding> findings;
  for (const Selected& selected : select_checks(options))
    findings.push_back({selected.group, selected.check, {}, 0, {}});
  std::vector<Running> running;
  for (Finding& finding : findings) {
    if (running.size() >= options.jobs) wait_for_one(running);
    Running run;
    run.finding = &finding;
    run.limit = options.limit_seconds > 0 ? options.limit_seconds : finding.group->limit_seconds;
    if (start(run, subject.manifest_path)) {
      running.push_back(std::move(run));
    } else {
      finding.outcome = failed("no process could be started for it");
    }
  }
  while (!running.empty()) wait_for_one(running);
  return findings;
}

Result<std::vector<KnownFailure>> read_known_failures(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(File file, open_user_file(path));
  TENON_ASSIGN_OR_RETURN(std::string text,
                         read_all(file, uint64_t{1} << 20, "a list of known failures"));
  std::vector<KnownFailure> known;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t blank = line.find_first_of(" \t");
    if (blank == std::string_view::npos) {
      return error(TENON_INVALID_ARGUMENT, "T0004", "{} in {} gives no reason: write GLOB REASON",
                   quoted(line), quoted(path));
    }
    known.push_back({std::string(line.substr(0, blank)), std::string(trim(line.substr(blank)))});
  }
  return known;
}

void apply_known_failures(std::vector<KnownFailure>& known, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    for (KnownFailure& k : known) {
      if (!glob_match(k.glob, full_name(*finding.group, *finding.check))) continue;
      k.used = true;
      finding.known = k.reason;
    }
  }
}

int level_of(const std::vector<Finding>& findings) {
  int level = 0;
  for (int candidate = 1; candidate <= kWholeLevels; ++candidate) {
    for (const Group& group : groups()) {
      if (group.level > candidate) continue;
      size_t run = 0;
      for (const Finding& finding : findings) {
        if (finding.group != &group) continue;
        ++run;
        const Verdict verdict = finding.outcome.verdict;
        if (verdict == Verdict::kFail || (finding.check->needed && verdict != Verdict::kPass))
          return level;
      }
      if (run != group.checks.size()) return level;  // not all of it was asked
    }
    level = candidate;
  }
  return level;
}

int run_child(const std::string& manifest_path, const std::string& name) {
  const rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const Selected* selected = find_check(name);
  Result<Subject> subject = find_subject(manifest_path);
  if (selected == nullptr || !subject.ok()) return 2;
  ::fcntl(kAnswerDescriptor, F_SETFD, FD_CLOEXEC);
  Session session(std::move(subject).value(), kAnswerDescriptor);
  const Outcome outcome = selected->check->run(session);
  const std::string line = fmt::format("result {} {}\n", static_cast<int>(outcome.verdict),
                                       printable(outcome.text, 2000));
  const ssize_t written = ::write(kAnswerDescriptor, line.data(), line.size());
  ::_exit(written == static_cast<ssize_t>(line.size()) ? 0
                                                       : 1);  // no destructor of the plugin runs
}

}  // namespace tenon::conform
