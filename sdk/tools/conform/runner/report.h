// The results of a run, as text and in machine-readable forms.
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/conform/runner/runner.h"

namespace tenon::conform {

struct RunRecord {
  std::string path;  // as the user gave it
  Subject subject;
  std::string library_sha256;  // empty if it cannot be read
  int level_asked = 0;
  bool level_given = false;  // set by the user
  Reached reached;
  bool partial = false;  // a filter left out some checks, so no level can be determined
  double seconds = 0;
  std::string date, machine;  // of the run: in UTC, and a readable name
  std::vector<Finding> findings;
  std::vector<KnownFailure> known;
};

struct Counts {
  size_t passed = 0, failed = 0, known = 0, stale = 0, skipped = 0, not_offered = 0;
};
Counts count(const RunRecord& record);

// The verdict in a sentence: the level, and the groups that hold. Then what kept the next level
// from being reached, what could not be checked for this one, failures, stale known failures and
// skips with their reasons, and one line of totals. verbose: lists every check.
std::string text_report(const RunRecord& record, bool verbose);
std::string json_report(const RunRecord& record);
std::string junit_report(const RunRecord& record);
// One self-contained page, with a badge.
std::string html_report(const RunRecord& record);
// The badge alone, as an SVG file.
std::string badge_svg(const RunRecord& record);
std::string list_text(const std::vector<Selected>& checks);
std::string list_json(const std::vector<Selected>& checks);

// The current time, and this machine, for a record.
std::string date_text();
std::string machine_text();

}  // namespace tenon::conform
