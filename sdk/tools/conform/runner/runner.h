// Runs checks, each in a process of its own with a time limit, several at once: a crash and a hang
// are findings.
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/conform/runner/check.h"
#include "sdk/tools/conform/subject/subject.h"

namespace tenon::conform {

// A known failure: a glob on full names, and the reason.
struct KnownFailure {
  std::string glob, reason;
  bool used = false;  // a check that it matches was run
};

struct Finding {
  const Group* group = nullptr;
  const Check* check = nullptr;
  Outcome outcome;
  double seconds = 0;
  std::vector<std::string> notes;  // what the check reported besides its outcome
  std::string known;               // reason of the known failure that covers it; empty if none
  bool stale() const { return !known.empty() && outcome.verdict == Verdict::kPass; }
  // Counts against the plugin.
  bool counts() const {
    return outcome.verdict == Verdict::kFail && known.empty() && group->letter != kSpeed;
  }
};

struct RunOptions {
  int level = 0;                     // run groups up to this level
  std::vector<std::string> filters;  // globs on full names or requirements; empty: all
  unsigned jobs = 1;
  bool kernel_set = false;            // kernels for another plugin's device: F counts for level 2
  std::vector<std::string> examples;  // files of a frontend's format
  double limit_seconds = 0;           // time limit per check; 0: that of its group
};

// The selected checks, in order.
struct Selected {
  const Group* group;
  const Check* check;
};
std::vector<Selected> select_checks(const RunOptions& options);
std::vector<Selected> all_checks();

// Fails if the machine cannot start a process for a check: without a run there is no finding.
Result<std::vector<Finding>> run_checks(const Subject& subject, const RunOptions& options);

// Marks findings that known failures cover. Lines are `GLOB reason`; empty lines and lines that
// begin with # are skipped.
Result<std::vector<KnownFailure>> read_known_failures(const std::string& path);
void apply_known_failures(std::vector<KnownFailure>& known, std::vector<Finding>& findings);

// The level that the findings earn: all its groups were run, with the passes they require and no
// failure.
struct Reached {
  int level = 0;  // 0 for none
  // The device takes patterns alone, so that no kernels are asked of it: group F does not count,
  // and from level 3 on R-E29 and R-E37 must pass instead.
  bool of_patterns = false;
  // What keeps the next level from being reached, if it was run: checks that failed or, if a pass
  // is required, did not pass. Or a text, if no check says it.
  std::vector<const Finding*> missing;
  std::string why;
};
Reached level_reached(const std::vector<Finding>& findings, int level_asked);

// What the findings say of one group, whatever the level: a device of few ops can hold E without
// the rest of level 3.
struct GroupResult {
  const Group* group = nullptr;
  size_t passed = 0, failed = 0, skipped = 0, not_offered = 0;
  std::vector<const Finding*> open;  // requirements that every check of theirs skipped
  size_t seen = 0;                   // requirements of which a check passed
  bool whole = false;                // all its checks were run
  bool computes = true;              // of E: something that the device claims was computed
  // Nothing was seen to be broken, and more was seen to hold than was left open, so that a device
  // that takes nothing holds nothing. Open requirements are listed next to the group.
  bool holds() const { return whole && computes && failed == 0 && seen > open.size(); }
};
std::vector<GroupResult> group_results(const std::vector<Finding>& findings);

// Requirements of the groups up to this level that were left open: every check that names one was
// skipped. In order.
std::vector<const Finding*> unchecked(const std::vector<Finding>& findings, int level);

// The descriptor on which a check's process finds the pipe to the runner.
inline constexpr int kAnswerDescriptor = 3;
// The child's side: runs one check and reports its outcome. Returns an exit status.
int run_child(const std::string& manifest_path, const std::string& name,
              std::vector<std::string> examples);

}  // namespace tenon::conform
