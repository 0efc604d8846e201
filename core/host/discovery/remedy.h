// What to do about a plugin that cannot be used: what is missing, who has it, and a command to run.
// For `tenon plugins explain` and for the error of whoever named what the plugin provides.
#pragma once
#include <string>
#include <string_view>

#include "core/host/discovery/candidate.h"

namespace tenon::host {

struct Remedy {
  std::string library;  // a required one that is not on this machine
  std::string package;  // Debian's that has it, where known
  std::string command;  // to run next; empty when nothing stopped the candidate
  // "; `libx.so.1` is in the package `libx1`; run `apt install libx1`", or empty.
  std::string suffix() const;
};
Remedy remedy_of(const Candidate& candidate);

// The first of the manifest's required libraries that the system's loader would not find, told
// without opening one: LD_LIBRARY_PATH, the loader's cache, the standard folders and the host's own
// are looked into. Empty when all are there.
std::string missing_library(const Manifest& manifest);
// Debian's package that has a library, by its soname, as the table says that is installed beside
// the plugins; empty when it does not know the library.
std::string package_of(std::string_view library);
// The same of a table's text: a line is a soname and a package, # begins a remark.
std::string package_in(std::string_view table, std::string_view library);

}  // namespace tenon::host
