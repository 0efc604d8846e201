#include "sdk/tools/conform/runner/runner.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "sdk/tools/conform/runner/answers.h"
#include "sdk/tools/conform/runner/check_process.h"
#include "sdk/tools/conform/runner/progress.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/process_state.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One check in progress.
struct Running {
  Finding* finding = nullptr;
  std::unique_ptr<CheckProcess> process;
  Clock::time_point begin;
  double limit = 0;  // seconds
  // A limit that the user gave is not scaled.
  bool limit_is_fixed = false;
  double patience() const { return limit_is_fixed ? 1 : load_factor(); }
};

void finish(Running& run, double timed_out) {
  run.finding->outcome = run.process->finish(timed_out);
  run.finding->notes = run.process->notes();
  run.finding->seconds = seconds_since(run.begin);
}

// Waits until one of them ends or times out, and removes it from the list.
void wait_for_one(std::vector<Running>& running, Progress& progress) {
  for (;;) {
    std::vector<pollfd> polls;
    for (const Running& run : running) run.process->add_polls(&polls);
    (void)::poll(polls.data(), polls.size(), 50);
    for (size_t i = 0; i < running.size(); ++i) {
      Running& run = running[i];
      const bool ended = run.process->advance();
      const double seconds = seconds_since(run.begin);
      const bool late = seconds > run.limit * run.patience();
      if (!ended && !late) continue;
      finish(run, ended ? -1 : seconds);
      progress.ended(run.finding->outcome.verdict == Verdict::kFail);
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
  }
}

// Starts it once the machine has a process for it: now, or when another check has ended.
Error start(Finding& finding, const Subject& subject, const RunOptions& options,
            std::vector<Running>& running, Progress& progress) {
  const std::string name = full_name(*finding.group, *finding.check);
  for (;;) {
    Result<std::unique_ptr<CheckProcess>> process =
        CheckProcess::start(subject.manifest_path, name, options.examples);
    if (process.ok()) {
      progress.began(name);
      Running run;
      run.finding = &finding;
      run.process = std::move(*process);
      run.begin = Clock::now();
      run.limit_is_fixed = options.limit_seconds > 0;
      run.limit = options.limit_seconds > 0 ? options.limit_seconds : finding.group->limit_seconds;
      running.push_back(std::move(run));
      return {};
    }
    if (running.empty()) return process.error();
    wait_for_one(running, progress);
  }
}

const Selected* find_check(std::string_view name) {
  static const auto* all = new std::vector<Selected>(all_checks());
  for (const Selected& selected : *all) {
    if (full_name(*selected.group, *selected.check) == name) return &selected;
  }
  return nullptr;
}

// The host's message when it refuses to use a plugin at all.
bool is_refusal(const std::string& text, const std::string& plugin) {
  const std::string name = "plugin " + quoted(plugin);
  return text.find(name + ": P0") != std::string::npos ||
         text.find(name + " describes device ") != std::string::npos;
}

// If the host refuses the plugin for a reason that one check reports, other checks that fail only
// for that refusal are no findings of their own. Drops the advice to run this very command.
void attribute_refusals(std::vector<Finding>& findings, const std::string& plugin) {
  const Finding *cause = nullptr, *nulls = nullptr;
  for (Finding& finding : findings) {
    std::string& text = finding.outcome.text;
    if (const size_t at = text.find("; run `tenon conform "); at != std::string::npos) {
      const size_t end = text.find('`', at + 7);
      if (end != std::string::npos) text.erase(at, end + 1 - at);
    }
    if (finding.outcome.verdict != Verdict::kFail) continue;
    // The fixtures' message for a null handle, which is the subject of B.handles.
    if (nulls != nullptr && text.find("gives OK and no ") != std::string::npos) {
      finding.outcome = skipped(
          fmt::format("a handle is null, as {} reports", full_name(*nulls->group, *nulls->check)));
      continue;
    }
    if (std::string_view(finding.check->requirement) == "R-B30") nulls = &finding;
    if (!is_refusal(text, plugin)) {
      if (cause == nullptr && finding.group->letter <= 'C') cause = &finding;
    } else if (cause != nullptr) {
      finding.outcome = skipped(fmt::format("the host does not use it, as {} reports",
                                            full_name(*cause->group, *cause->check)));
    }
  }
}

bool matches(const std::vector<std::string>& filters, const Group& group, const Check& check) {
  return filters.empty() ||
         std::any_of(filters.begin(), filters.end(), [&](const std::string& filter) {
           return glob_match(filter, full_name(group, check)) ||
                  glob_match(filter, check.requirement);
         });
}

}  // namespace

std::vector<Selected> select_checks(const RunOptions& options) {
  std::vector<Selected> out;
  for (const Group& group : groups()) {
    for (const Check& check : group.checks) {
      const bool own = options.kernel_set && group.letter == 'F';
      if ((own ? 2 : group.level) > options.level) continue;
      if (matches(options.filters, group, check)) out.push_back({&group, &check});
    }
  }
  return out;
}

std::vector<Selected> all_checks() {
  RunOptions options;
  options.level = highest_level();
  return select_checks(options);
}

Result<std::vector<Finding>> run_checks(const Subject& subject, const RunOptions& options) {
  end_checks_with_runner();
  std::vector<Finding> findings;
  for (const Selected& selected : select_checks(options))
    findings.push_back({selected.group, selected.check, {}, 0, {}, {}});
  std::vector<Running> running;
  Error started;
  Progress progress(findings.size());
  for (Finding& finding : findings) {
    if (running.size() >= options.jobs) wait_for_one(running, progress);
    started = start(finding, subject, options, running, progress);
    if (started.failed()) break;
  }
  while (!running.empty()) wait_for_one(running, progress);
  end_orphans();
  if (started.failed()) return started;
  attribute_refusals(findings, subject.manifest.name);
  return findings;
}

Result<std::vector<KnownFailure>> read_known_failures(const std::string& path) {
  Result<std::string> text = read_file(path, uint64_t{1} << 20, "a list of known failures");
  if (!text.ok()) return text.error();
  std::vector<KnownFailure> known;
  for (std::string_view line : split(*text, '\n')) {
    line = trim(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t blank = line.find_first_of(" \t");
    if (blank == std::string_view::npos) {
      return Error{
          "T0004",
          fmt::format("{} in {} gives no reason: write GLOB REASON", quoted(line), quoted(path)),
          {}};
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

// What a level requires of the checks of one group: all were run, none failed, and the needed ones
// passed. If not, returns false and adds those that fell short.
bool group_holds(const std::vector<Finding>& findings, const Group& group, bool ask_needed,
                 std::vector<const Finding*>* missing) {
  if (group.letter == kSpeed) return true;
  size_t run = 0, held = 0;
  for (const Finding& finding : findings) {
    if (finding.group != &group) continue;
    ++run;
    const Verdict verdict = finding.outcome.verdict;
    const bool holds = verdict != Verdict::kFail &&
                       (verdict == Verdict::kPass || !ask_needed || !finding.check->needed);
    held += holds;
    if (!holds) missing->push_back(&finding);
  }
  return run == group.checks.size() && held == run;
}

size_t passes_in(const std::vector<Finding>& findings, char letter) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& finding) {
        return finding.group->letter == letter && finding.outcome.verdict == Verdict::kPass;
      }));
}

}  // namespace

namespace {

Verdict verdict_of(const std::vector<Finding>& findings, std::string_view name) {
  for (const Finding& finding : findings) {
    if (full_name(*finding.group, *finding.check) == name) return finding.outcome.verdict;
  }
  return Verdict::kSkip;
}

// It claims several nodes together, and none by itself.
bool takes_patterns_alone(const std::vector<Finding>& findings) {
  return verdict_of(findings, "E.each-alone") == Verdict::kNotOffered &&
         verdict_of(findings, "E.atomic-claims") == Verdict::kPass &&
         verdict_of(findings, "F.query") == Verdict::kNotOffered;
}

// What stands for group F in a device of patterns alone.
bool patterns_hold(const std::vector<Finding>& findings, std::vector<const Finding*>* missing) {
  bool holds = true;
  for (const Finding& finding : findings) {
    const std::string_view id = finding.check->requirement;
    if ((id != "R-E29" && id != "R-E37") || finding.outcome.verdict == Verdict::kPass) continue;
    holds = false;
    missing->push_back(&finding);
  }
  return holds;
}

}  // namespace

Reached level_reached(const std::vector<Finding>& findings, int level_asked) {
  const bool has_device = passes_in(findings, 'C') != 0;
  // The highest level for a plugin without a device is that of its own group: G, and F for kernel
  // sets.
  const int highest = has_device ? kWholeLevels : std::min(2, kWholeLevels);
  const size_t own_passes = passes_in(findings, 'G') + passes_in(findings, 'F');
  Reached reached;
  reached.of_patterns = has_device && takes_patterns_alone(findings);
  for (int candidate = 1; candidate <= std::min(highest, level_asked); ++candidate) {
    bool holds = true;
    for (const Group& group : groups()) {
      const bool own =
          !has_device && candidate == 2 && group.letter == 'F' && passes_in(findings, 'G') == 0;
      if (group.level > candidate && !own) continue;
      if (group.letter == 'F' && reached.of_patterns) {
        holds &= patterns_hold(findings, &reached.missing);
        continue;
      }
      holds &= group_holds(findings, group, has_device || group.level == 1, &reached.missing);
    }
    if (holds && !has_device && candidate == 2 && own_passes == 0) {
      reached.why = "level 2 needs a check of group C, F or G that passes, and none does";
      holds = false;
    }
    if (!holds) return reached;
    reached.level = candidate;
  }
  if (reached.level < level_asked && !has_device)
    reached.why = fmt::format("level {} is the highest of a plugin without a device", highest);
  return reached;
}

namespace {

// Skipped findings that `counts` accepts, one for each requirement that no check answered.
template <typename Counts>
std::vector<const Finding*> open_requirements(const std::vector<Finding>& findings, Counts counts) {
  std::vector<const Finding*> out;
  for (const Finding& finding : findings) {
    if (finding.outcome.verdict != Verdict::kSkip || !counts(*finding.group)) continue;
    if (finding.group->letter == kSpeed) continue;
    const std::string_view id = finding.check->requirement;
    const bool listed = std::any_of(out.begin(), out.end(), [&](const Finding* other) {
      return other->check->requirement == id;
    });
    const bool answered = std::any_of(findings.begin(), findings.end(), [&](const Finding& other) {
      return other.check->requirement == id && other.outcome.verdict == Verdict::kPass;
    });
    if (!listed && !answered) out.push_back(&finding);
  }
  return out;
}

}  // namespace

std::vector<const Finding*> unchecked(const std::vector<Finding>& findings, int level) {
  const bool of_patterns = takes_patterns_alone(findings);
  return open_requirements(findings, [&](const Group& group) {
    return group.level <= level && !(of_patterns && group.letter == 'F');
  });
}

namespace {

// Whether a check passed that compares what the device computes of its claims with the reference.
bool computes(const std::vector<Finding>& findings) {
  return verdict_of(findings, "E.each-alone") == Verdict::kPass ||
         verdict_of(findings, "E.together") == Verdict::kPass ||
         verdict_of(findings, "E.atomic-claims") == Verdict::kPass;
}

}  // namespace

std::vector<GroupResult> group_results(const std::vector<Finding>& findings) {
  std::vector<GroupResult> out;
  for (const Group& group : groups()) {
    if (group.letter == kSpeed) continue;
    GroupResult result;
    result.group = &group;
    size_t run = 0;
    std::set<std::string_view> seen;
    for (const Finding& finding : findings) {
      if (finding.group != &group) continue;
      ++run;
      const Verdict verdict = finding.outcome.verdict;
      if (verdict == Verdict::kPass) seen.insert(finding.check->requirement);
      result.passed += verdict == Verdict::kPass;
      result.failed += verdict == Verdict::kFail;
      result.skipped += verdict == Verdict::kSkip;
      result.not_offered += verdict == Verdict::kNotOffered;
    }
    result.whole = run == group.checks.size();
    result.computes = group.letter != 'E' || computes(findings);
    result.seen = seen.size();
    result.open = open_requirements(findings, [&](const Group& other) { return &other == &group; });
    if (run != 0) out.push_back(std::move(result));
  }
  return out;
}

int run_child(const std::string& manifest_path, const std::string& name,
              std::vector<std::string> examples) {
  end_with_parent();
  const rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  Reporter reporter = Reporter::take(kAnswerDescriptor);
  const Selected* selected = find_check(name);
  Result<Subject> subject = find_subject(manifest_path);
  if (selected == nullptr || !subject.ok() || !reporter.is_connected()) return 2;
  Session session(std::move(*subject), std::move(reporter), std::move(examples));
  const Outcome outcome = selected->check->run(session);
  ::_exit(session.reporter().result(outcome) ? 0 : 1);  // no destructor of the plugin runs
}

}  // namespace tenon::conform
