// What a plugin's library says of itself, without the library being run.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include <string>

#include "core/base/errors/status.h"
#include "core/host/binary/binary.h"
#include "core/host/loading/tables.h"

namespace tenon::manifest {

using Json = nlohmann::ordered_json;

// A library's file. `readable` is false for what is neither ELF nor Mach-O nor PE of 64 bits: then
// the system's loader is the one to say what is wrong.
struct LibraryFile {
  bool readable = false, for_this_machine = true, has_note = false;
  std::string os, arch;
  host::PluginNote note;  // if has_note
};

// P0704 for damage, if `must_read`; P0702, P0703 for the symbol and P0705 for the note, too.
Result<LibraryFile> read_library(const std::string& path, bool must_read);

// The note against the record that the library returned when it was run. P0705.
Status check_note(const host::PluginNote& note, const host::AdoptedPlugin& plugin);

// Whether the hand-written part names what interfaces provide that cannot be asked. P0205.
// Kernels are for the plugin's own devices unless it says for which.
Status complete_provides(const host::PluginNote& note, const std::string& input, Json* manifest);

}  // namespace tenon::manifest
