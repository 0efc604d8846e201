// Runs checks, each in a process of its own with a time limit, several at once: a crash and a hang
// are findings.
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/conform/runner/check.h"
#include "sdk/tools/conform/subject/subject.h"

namespace tenon::conform {

// A failure that is known: a glob on full names, and why.
struct KnownFailure {
  std::string glob, reason;
  bool used = false;  // some check that it names was run
};

struct Finding {
  const Group* group = nullptr;
  const Check* check = nullptr;
  Outcome outcome;
  double seconds = 0;
  std::vector<std::string> notes;  // what the check told beside its outcome
  std::string known;               // reason of the known failure that covers it; empty: none
  bool stale() const { return !known.empty() && outcome.verdict == Verdict::kPass; }
  // Counts against the plugin.
  bool counts() const {
    return outcome.verdict == Verdict::kFail && known.empty() && group->letter != kSpeed;
  }
};

struct RunOptions {
  int level = 0;                     // groups up to this one
  std::vector<std::string> filters;  // globs on full names or on requirements; none for all
  unsigned jobs = 1;
  bool kernel_set = false;            // kernels for another plugin's device: level 2 has group F
  std::vector<std::string> examples;  // files of a frontend's format
  double limit_seconds = 0;           // that one check may take; 0: what its group says
};

// The checks that the options choose, in order.
struct Selected {
  const Group* group;
  const Check* check;
};
std::vector<Selected> select_checks(const RunOptions& options);
std::vector<Selected> all_checks();

// Fails where the machine has no process for a check: what was not asked is no finding.
Result<std::vector<Finding>> run_checks(const Subject& subject, const RunOptions& options);

// Marks findings that known failures cover. Lines are `GLOB reason`; empty ones and those that
// begin with # are skipped.
Result<std::vector<KnownFailure>> read_known_failures(const std::string& path);
void apply_known_failures(std::vector<KnownFailure>& known, std::vector<Finding>& findings);

// The level that findings earn: all its groups were run, each with a pass and without a failure.
struct Reached {
  int level = 0;  // 0 for none
  // What keeps the next one from being reached, where that was asked for: checks that failed or,
  // where a pass is needed, did not pass. Or what no check says.
  std::vector<const Finding*> missing;
  std::string why;
};
Reached level_reached(const std::vector<Finding>& findings, int level_asked);

// Requirements of the groups up to this level that were asked about and not answered: every check
// that names one was skipped. In order.
std::vector<const Finding*> unchecked(const std::vector<Finding>& findings, int level);

// Where the process of a check finds the pipe to the runner when it starts.
inline constexpr int kAnswerDescriptor = 3;
// The child's side: runs one check and tells its outcome. An exit status.
int run_child(const std::string& manifest_path, const std::string& name,
              std::vector<std::string> examples);

}  // namespace tenon::conform
