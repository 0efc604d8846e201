// Programs in files: a compiled program as the records of core/package and back, and
// tenon.host.package/1.
//
// Threads: safe.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <tenon/abi/package.h>

#include "core/base/file.h"
#include "core/package/record.h"
#include "core/session/compile/program.h"

namespace tenon::session {

// Writes a program that was compiled for_file, and commits the file. T0520 for constants that
// cannot be read, and as check_portable; what a device's pack fails with; T0107, T0108 for the
// file.
Status save_package(const Program& program, AtomicFile file);
// T0520 for an op of the program that means something in this process only, and for code that its
// device does not take for the target; what else a device's fits fails with.
Status check_portable(const Program& program);
// Why a device does not take code for its target; nothing if it takes it. Fails where the device's
// `fits` fails for another reason: with too little memory, say.
Result<std::optional<std::string>> refusal_of(runtime::Device& device,
                                              const tenon_compile_api_t& api,
                                              std::string_view code);

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
