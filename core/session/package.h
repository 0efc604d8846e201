// Programs in files: a compiled program as the records of core/package and back, and
// tenon.host.package/1.
//
// Threads: safe.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include <tenon/abi/package.h>

#include "core/package/record.h"
#include "core/session/program.h"

namespace tenon::session {

// Writes a program that was compiled for_file. T0520 for constants that cannot be read; what a
// device's pack fails with; T0101, T0108, T0109 for the file.
Status save_package(const Program& program, std::string_view path);

// Loads code on the devices that the package names. check_constants: reads all of the file. T0521,
// T0522, T0523; T0502, T0503 for devices; what a device's load fails with.
Result<std::shared_ptr<Program>> load_package(std::string_view path, bool check_constants);

// What a package holds, as JSON; checks the whole file. T0521, T0522.
Result<std::string> describe_package(std::string_view path);

// A package that was opened: its file stays mapped while `bytes` is kept.
struct OpenPackage {
  std::string name;  // for messages
  std::shared_ptr<const MappedRegion> bytes;
  package::Extents extents;
  package::ProgramRecord record;
  std::string placement, summary;
};
Result<OpenPackage> open_package(std::string_view path, bool check_constants);

const tenon_host_package_t* host_package_table();

}  // namespace tenon::session
