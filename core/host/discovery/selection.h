// Which plugins the user chose: SELECT, then DISABLE, AUTOLOAD and the lock file.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/host/discovery/candidate.h"

namespace tenon::host {

struct LockedPlugin {
  std::string name, version;
  std::string sha256, manifest_sha256;  // of the library and of the manifest
};

struct Selection {
  std::vector<std::string> select, disable;  // globs on names
  bool autoload = true;
  std::optional<std::vector<LockedPlugin>> lock;
  Status lock_status;  // P0407 if the lock file cannot be read: then nothing is selected
};

// From the environment.
Selection read_selection();

// The entry of the lock file for a candidate; null if there is none.
const LockedPlugin* locked_as(const Selection& selection, const Candidate& candidate);

// OK, or P0401 disabled, P0402 not selected, P0403 AUTOLOAD is off, P0405 not in the lock file.
Status is_selected(const Selection& selection, const Candidate& candidate);

// Warns about each pattern that matches none of `names`.
void warn_unmatched(const Selection& selection, const std::vector<std::string>& names);

}  // namespace tenon::host
