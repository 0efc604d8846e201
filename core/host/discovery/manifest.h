// A plugin's manifest: JSON in `NAME.plugin.json` next to the library. Known keys are typed
// strictly, unknown keys are recorded for `explain` and otherwise ignored, and an unknown schema is
// refused. Reading a manifest opens nothing else.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"

namespace tenon::host {

// One thing that a plugin provides: ("device", "sim"), ("op", "add"), ("extension", ".x"). Kinds
// are device, kernels (of a device kind), op, pass, frontend, extension, toolchain (a dialect),
// layer, collective.
struct Provided {
  std::string kind, name;
};

struct InterfaceId {
  std::string id;
  uint32_t minor = 0;
};

struct Manifest {
  uint32_t schema = 0;
  std::string name, version, vendor, license, homepage, summary;
  std::string library;  // as written
  std::string sha256;   // of the library; empty: not given
  // platform
  std::string os, arch, libc_min;
  // abi; major 0 and minor 0 if the manifest gives none
  bool has_abi = false;
  uint32_t abi_major = 0, abi_min_minor = 0;
  std::vector<InterfaceId> interfaces;
  // build
  std::string compiler, sanitizer, build_id;
  std::vector<Provided> provides;
  // requires
  std::vector<std::string> required_plugins, required_libraries, required_cpu_features;
  // probe: what must be present before loading is worthwhile
  std::vector<std::string> probe_paths, probe_pci;  // "10de:*" or "10de:2330"
  std::vector<std::string> environment;             // variables of its own
  // Shown in the report; this host does not act on them.
  std::string threading, min_driver, signature;
  std::vector<std::string> deprecates;
  int64_t priority = 0;
  bool experimental = false;
  std::vector<std::string> unknown_keys;
  std::vector<std::string>
      idle_keys;  // known keys that were given but that this host does not act on
};

// Limits besides Limit::kManifestBytes: levels of nesting, and entries of any list.
inline constexpr uint32_t kManifestDepthMax = 16;
inline constexpr size_t kManifestListMax = 20000;
inline constexpr size_t kManifestWantsMax =
    64;  // entries of a list of `requires` and `probe`, which are looked up one by one

// Whose manifest it is: that of a library next to it, or that of a plugin that a program registers,
// which has neither `library` nor `sha256`.
enum class ManifestOf : uint8_t { kLibrary, kProgram };

// Reads the text of a manifest. `path` is for messages. P0201 not JSON, P0202 too large, P0203 too
// deep, P0204 unknown schema, P0205 key missing, P0206 key of a wrong type or value.
Result<Manifest> parse_manifest(std::string_view text, std::string_view path,
                                ManifestOf of = ManifestOf::kLibrary);

}  // namespace tenon::host
