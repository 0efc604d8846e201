// The plugin under test, as files: its manifest and its library. Opens no library.
#pragma once
#include <string>

#include "core/host/discovery/manifest.h"
#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {

struct Subject {
  std::string manifest_path;  // absolute
  std::string manifest_text;  // empty if it cannot be read
  Error manifest_error;       // why the host would refuse it
  host::Manifest manifest;    // as far as it could be read
  Error library_error;        // why there is no library
  std::string library_path;   // absolute, without links; empty if there is none
};

// `path` is a manifest, a library with its manifest next to it, or a folder with one manifest.
// Fails if it does not lead to a manifest; errors in that manifest are left to the checks.
Result<Subject> find_subject(const std::string& path);

}  // namespace tenon::conform
