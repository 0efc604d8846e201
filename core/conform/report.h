// What a run found, for people and for machines.
#pragma once
#include <string>
#include <vector>

#include "core/conform/runner.h"

namespace tenon::conform {

struct RunRecord {
  std::string path;  // as the user gave it
  Subject subject;
  std::string library_sha256;  // empty when it cannot be read
  int level_asked = 0, level = 0;
  bool partial = false;  // some checks were left out by a filter: no level can be told
  double seconds = 0;
  std::vector<Finding> findings;
  std::vector<KnownFailure> known;
};

struct Counts {
  size_t passed = 0, failed = 0, known = 0, stale = 0, skipped = 0, not_offered = 0;
};
Counts count(const RunRecord& record);

// Failures, stale known failures and skips with their reasons, then one line of sums. verbose:
// every check.
std::string text_report(const RunRecord& record, bool verbose);
std::string json_report(const RunRecord& record);
std::string junit_report(const RunRecord& record);
// One page without anything from elsewhere, with a badge.
std::string html_report(const RunRecord& record);
// The badge alone, as an SVG file.
std::string badge_svg(int level);
std::string list_text();
std::string list_json();

}  // namespace tenon::conform
