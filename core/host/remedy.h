// What to do about a plugin that cannot be used: what is missing, who has it, and a command to run.
// For `tenon plugins explain` and for the error of whoever named what the plugin provides.
#pragma once
#include <string>
#include <string_view>

#include "core/host/candidate.h"

namespace tenon::host {

struct Remedy {
  std::string library;  // a required one that is not on this machine
  std::string package;  // Debian's that has it, where known
  std::string command;  // to run next; empty when nothing stopped the candidate
  // "; libcuda.so.1 is in the package `libcuda1`; run `apt install libcuda1`", or empty.
  std::string suffix() const;
};
Remedy remedy_of(const Candidate& candidate);

// The first of the manifest's required libraries that the system's loader would not find, told
// without opening one: LD_LIBRARY_PATH, the loader's cache, the standard folders and the host's own
// are looked into. Empty when all are there.
std::string missing_library(const Manifest& manifest);
// Debian's package that has a library, by its soname; empty when it is not known here.
std::string_view package_of(std::string_view library);

}  // namespace tenon::host
