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
#include "core/conform/process_state.h"
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
  // A limit that the user gave is kept as it is.
  bool limit_is_fixed = false;
  double patience() const { return limit_is_fixed ? 1 : load_factor(); }
};

bool start(Running& run, const std::string& manifest_path, std::vector<std::string> examples) {
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
  std::vector<char*> arguments = {self.data(), child.data(), path.data(), name.data()};
  for (std::string& example : examples) arguments.push_back(example.data());
  arguments.push_back(nullptr);
  run.begin = Clock::now();
  const bool started = ::posix_spawn(&run.process, self.c_str(), &actions, nullptr,
                                     arguments.data(), env.data()) == 0;
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ::close(high);
  run.answer = ends[0];
  return started;
}

// Where the last line begins that starts with this word; npos when there is none. The words may
// stand inside of other lines.
size_t last_line(const std::string& text, const std::string& word) {
  for (size_t at = text.rfind(word); at != std::string::npos && at != 0;
       at = text.rfind(word, at - 1)) {
    if (text[at - 1] == '\n') return at;
  }
  return text.starts_with(word) ? 0 : std::string::npos;
}

// The last thing that the child said it was about to do.
std::string last_step(const std::string& text) {
  const size_t at = last_line(text, "step ");
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
  const size_t at = last_line(run.text, "result ");
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
  run.finding->outcome =
      outcome_of(run, status, timed_out, timed_out ? seconds_since(run.begin) : run.limit);
  for (std::string_view line : split(run.text, '\n')) {
    if (line.starts_with("note ")) run.finding->notes.emplace_back(line.substr(5));
  }
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
      const bool late = seconds_since(running[i].begin) > running[i].limit * running[i].patience();
      if (!ended && !late) continue;
      finish(running[i], !ended);
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
  }
}

const Selected* find_check(std::string_view name) {
  static const auto* all =
      new std::vector<Selected>(select_checks({highest_level(), "", 1, false, {}, 0}));
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
      const bool own = options.kernel_set && group.letter == 'F';
      if ((own ? 2 : group.level) > options.level) continue;
      if (options.filter.empty() || glob_match(options.filter, full_name(group, check)))
        out.push_back({&group, &check});
    }
  }
  return out;
}

std::vector<Finding> run_checks(const Subject& subject, const RunOptions& options) {
  std::vector<Finding> findings;
  for (const Selected& selected : select_checks(options))
    findings.push_back({selected.group, selected.check, {}, 0, {}, {}});
  std::vector<Running> running;
  for (Finding& finding : findings) {
    if (running.size() >= options.jobs) wait_for_one(running);
    Running run;
    run.finding = &finding;
    run.limit_is_fixed = options.limit_seconds > 0;
    run.limit = options.limit_seconds > 0 ? options.limit_seconds : finding.group->limit_seconds;
    if (start(run, subject.manifest_path, options.examples)) {
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

namespace {

// What a level asks of the checks of one group: that all were run, that none failed, and that those
// which are needed passed.
bool group_holds(const std::vector<Finding>& findings, const Group& group, bool ask_needed) {
  if (group.letter == kSpeed) return true;
  size_t run = 0;
  for (const Finding& finding : findings) {
    if (finding.group != &group) continue;
    ++run;
    const Verdict verdict = finding.outcome.verdict;
    if (verdict == Verdict::kFail) return false;
    if (ask_needed && finding.check->needed && verdict != Verdict::kPass) return false;
  }
  return run == group.checks.size();
}

size_t passes_in(const std::vector<Finding>& findings, char letter) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& finding) {
        return finding.group->letter == letter && finding.outcome.verdict == Verdict::kPass;
      }));
}

}  // namespace

int level_of(const std::vector<Finding>& findings) {
  const bool has_device = passes_in(findings, 'C') != 0;
  // What is no device ends with its own group: G, and F for kernel sets.
  const int highest = has_device ? kWholeLevels : std::min(2, kWholeLevels);
  int level = 0;
  for (int candidate = 1; candidate <= highest; ++candidate) {
    for (const Group& group : groups()) {
      const bool own =
          !has_device && candidate == 2 && group.letter == 'F' && passes_in(findings, 'G') == 0;
      if (group.level > candidate && !own) continue;
      if (!group_holds(findings, group, has_device || group.level == 1)) return level;
    }
    if (!has_device && candidate == 2 && passes_in(findings, 'G') + passes_in(findings, 'F') == 0)
      return level;
    level = candidate;
  }
  return level;
}

int run_child(const std::string& manifest_path, const std::string& name,
              std::vector<std::string> examples) {
  const rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const Selected* selected = find_check(name);
  Result<Subject> subject = find_subject(manifest_path);
  if (selected == nullptr || !subject.ok()) return 2;
  ::fcntl(kAnswerDescriptor, F_SETFD, FD_CLOEXEC);
  Session session(std::move(subject).value(), kAnswerDescriptor, std::move(examples));
  const Outcome outcome = selected->check->run(session);
  const std::string line = fmt::format("result {} {}\n", static_cast<int>(outcome.verdict),
                                       printable(outcome.text, 2000));
  const ssize_t written = ::write(kAnswerDescriptor, line.data(), line.size());
  ::_exit(written == static_cast<ssize_t>(line.size()) ? 0
                                                       : 1);  // no destructor of the plugin runs
}

}  // namespace tenon::conform
