// How to fix a plugin that cannot be used: what is missing, which package has it, and a command to
// run. Used by `tenon plugins explain` and in the error for a request that the plugin would serve.
#pragma once
#include <string>
#include <string_view>

#include "core/host/discovery/candidate.h"

namespace tenon::host {

struct Remedy {
  std::string library;  // a required one that this machine lacks
  std::string package;  // the Debian package that has it, if known
  std::string command;  // to run next; empty if nothing stopped the candidate
  // "; `libx.so.1` is in the package `libx1`; run `apt install libx1`", or empty.
  std::string suffix() const;
};
Remedy remedy_of(const Candidate& candidate);

// The first of the manifest's required libraries that the system's loader would not find; empty if
// all are present. Opens none: it searches LD_LIBRARY_PATH, the loader's cache, the standard
// folders and the host's own.
std::string missing_library(const Manifest& manifest);
// The Debian package that has a library, by its soname, from the table installed beside the
// plugins; empty if the table lacks the library.
std::string package_of(std::string_view library);
// The same for the text of a table: each line is a soname and a package; # begins a comment.
std::string package_in(std::string_view table, std::string_view library);

}  // namespace tenon::host
