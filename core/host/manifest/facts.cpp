#include "core/host/manifest/facts.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include <tenon/abi/collective.h>
#include <tenon/abi/compile.h>
#include <tenon/abi/device.h>
#include <tenon/abi/frontend.h>
#include <tenon/abi/importers.h>
#include <tenon/abi/kernels.h>
#include <tenon/abi/layer.h>
#include <tenon/abi/ops.h>
#include <tenon/abi/pass.h>
#include <tenon/abi/toolchain.h>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/host/platform/platform.h"

namespace tenon::manifest {
namespace {

constexpr const char* kSymbol = "tenon_plugin_query";
constexpr std::pair<std::string_view, const char*> kProvided[] = {
    {TENON_DEVICE_ID, "devices"},
    {TENON_KERNELS_ID, "kernels"},
    {TENON_OPS_ID, "ops"},
    {TENON_PASS_ID, "passes"},
    {TENON_FRONTEND_ID, "frontends"},
    {TENON_TOOLCHAIN_ID, "toolchains"},
    {TENON_LAYER_ID, "layers"},
    {TENON_COLLECTIVE_ID, "collectives"},
    {TENON_IMPORTERS_ID, "importers"}};

Status check_symbol(const host::Binary& binary, const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const host::Exported kind, host::exported(binary, kSymbol));
  if (kind == host::Exported::kFunction) return Status();
  if (kind == host::Exported::kData) {
    return error(TENON_INVALID_ARGUMENT, "P0703", "the symbol {} of {} is data and no function",
                 kSymbol, quoted(path));
  }
  return error(TENON_NOT_FOUND, "P0702", "the library {} exports no {}", quoted(path), kSymbol);
}

bool names_any(const Json& provides, const char* key) {
  return provides.is_object() && provides.contains(key) && provides[key].is_array() &&
         !provides[key].empty();
}

}  // namespace

Result<LibraryFile> read_library(const std::string& path, bool must_read) {
  TENON_ASSIGN_OR_RETURN(const File file, open_user_file(path));
  TENON_ASSIGN_OR_RETURN(const auto region, map_file(file));
  LibraryFile out;
  Result<host::Binary> binary = host::read_binary(region->bytes(), host::platform::arch_name());
  if (!binary.ok() && !must_read) return out;
  TENON_RETURN_IF_ERROR(binary.status(), "reading {}", quoted(path));
  out.readable = true;
  out.os = binary->os;
  out.arch = binary->arch;
  out.for_this_machine =
      out.os == host::platform::os_name() && out.arch == host::platform::arch_name();
  Result<host::PluginNote> note = host::read_note(*binary);
  out.has_note = note.ok();
  if (note.ok()) out.note = std::move(note).value();
  if (out.for_this_machine && !must_read) return out;
  TENON_RETURN_IF_ERROR(check_symbol(*binary, path));
  TENON_RETURN_IF_ERROR(note.status(), "reading {}, which is for {} on {} and was not run",
                        quoted(path), out.os, out.arch);
  return out;
}

Status check_note(const host::PluginNote& note, const host::AdoptedPlugin& plugin) {
  const auto differs = [](std::string_view what, const auto& noted, const auto& returned) {
    return error(TENON_FAILED_PRECONDITION, "P0705",
                 "the note of the library says {} {}, and its query returned {}", what, noted,
                 returned);
  };
  if (note.name != plugin.name) return differs("name", quoted(note.name), quoted(plugin.name));
  if (note.version != plugin.version)
    return differs("version", quoted(note.version), quoted(plugin.version));
  if (note.abi != plugin.record.abi) return differs("ABI", note.abi, plugin.record.abi);
  const auto texts = [](const auto& interfaces) {
    std::vector<std::string> out;
    for (const auto& offered : interfaces)
      out.push_back(offered.id + " " + std::to_string(offered.minor));
    std::ranges::sort(out);
    return out;
  };
  const std::vector<std::string> noted = texts(note.interfaces),
                                 returned = texts(plugin.interfaces);
  return noted == returned ? Status()
                           : differs("interfaces", join_names(noted), join_names(returned));
}

Status complete_provides(const host::PluginNote& note, const std::string& input, Json* manifest) {
  Json& provides = (*manifest)["provides"];
  if (!provides.is_object()) provides = Json::object();
  for (const host::PluginNote::Interface& offered : note.interfaces) {
    for (const auto& [id, key] : kProvided) {
      if (offered.id != id || names_any(provides, key)) continue;
      if (id == TENON_KERNELS_ID && names_any(provides, "devices")) {
        provides[key] = provides["devices"];
        continue;
      }
      return error(TENON_INVALID_ARGUMENT, "P0205",
                   "the library is for another machine, so it cannot be asked what its {} "
                   "provides: list it in {} as \"provides\": {{\"{}\": [...]}}",
                   id, quoted(input), key);
    }
  }
  return Status();
}

}  // namespace tenon::manifest
