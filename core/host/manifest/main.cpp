// tenon-manifest --library L --input manifest.json.in --output F.plugin.json [--digest] [--static]
//
// Completes a hand-written manifest from the library itself: fills in `library`, `abi`, `platform`,
// `build` and `provides`. Hand-written entries stay: a device that the build machine lacks is
// listed by hand. With --digest it adds the library's sha256.
//
// A library for this machine is opened and asked by its query. If the plugin refuses here, the
// hand-written entries are kept, provided they say what it provides. A library for another machine
// is not run, nor is any with --static: its note (tenon/abi/note.h) says what it is, and the
// hand-written part what it provides.
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstring>
#include <string>

#include <tenon/abi/device.h>
#include <tenon/cpp/sha256.hpp>

#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/host/discovery/manifest.h"
#include "core/host/discovery/places.h"
#include "core/host/discovery/probe.h"
#include "core/host/discovery/requirements.h"
#include "core/host/loading/library.h"
#include "core/host/loading/tables.h"
#include "core/host/manifest/facts.h"

namespace {

using tenon::Result;
using tenon::Status;
using tenon::manifest::Json;
using tenon::manifest::LibraryFile;

struct Arguments {
  std::string library, input, output;
  bool digest = false, is_static = false;
};

Result<Json> read_input(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(tenon::File file, tenon::open_user_file(path));
  TENON_ASSIGN_OR_RETURN(
      std::string text,
      tenon::read_all(file, tenon::limit(tenon::Limit::kManifestBytes), "a manifest"));
  try {
    Json json = Json::parse(text);
    if (json.is_object()) return json;
    return tenon::error(TENON_INVALID_ARGUMENT, "P0206", "{} must hold an object",
                        tenon::quoted(path));
  } catch (const std::exception& problem) {
    return tenon::error(TENON_INVALID_ARGUMENT, "P0201", "{} is not JSON: {}", tenon::quoted(path),
                        tenon::printable(problem.what()));
  }
}

void add_unique(Json& list, const Json& value) {
  for (const Json& known : list) {
    if (known == value || (known.is_object() && known.contains("name") && known["name"] == value))
      return;
  }
  list.push_back(value);
}

void fill_provides(Json& manifest, const tenon::host::AdoptedPlugin& plugin) {
  static constexpr std::pair<const char*, const char*> kKeys[] = {
      {"device", "devices"},     {"kernels", "kernels"},       {"op", "ops"},
      {"pass", "passes"},        {"toolchain", "toolchains"},  {"layer", "layers"},
      {"importer", "importers"}, {"collective", "collectives"}};
  Json& provides = manifest["provides"];
  if (!provides.is_object()) provides = Json::object();
  Json extensions = Json::array();
  std::string frontend;
  for (const tenon::host::OfferedName& offered : tenon::host::offered_names(plugin)) {
    for (const auto& [kind, key] : kKeys) {
      if (offered.kind == kind) add_unique(provides[key], offered.name);
    }
    if (offered.kind == "frontend") frontend = offered.name;
    if (offered.kind == "extension") extensions.push_back(offered.name);
  }
  if (frontend.empty()) return;
  Json& frontends = provides["frontends"];
  for (const Json& known : frontends) {
    if (known.is_object() && known.value("name", "") == frontend) return;
  }
  frontends.push_back({{"name", frontend}, {"extensions", extensions}});
}

bool says_provides(const Json& manifest) {
  return manifest.contains("provides") && manifest["provides"].is_object() &&
         !manifest["provides"].empty();
}

void warn_without_devices(const Json& manifest, const tenon::host::AdoptedPlugin& plugin,
                          const std::string& input) {
  const Json& provides = manifest["provides"];
  if (provides.contains("devices") && !provides["devices"].empty()) return;
  for (const tenon::host::AdoptedInterface& offered : plugin.interfaces) {
    if (offered.id != TENON_DEVICE_ID) continue;
    std::fprintf(stderr,
                 "tenon-manifest: warning: the plugin has %s and finds no device in this machine: "
                 "nothing names the "
                 "kinds that it drives; list them in %s as \"provides\": {\"devices\": [...]}\n",
                 TENON_DEVICE_ID, input.c_str());
  }
}

template <class Interfaces>
void fill_abi(Json& manifest, uint32_t abi, const Interfaces& offered) {
  Json interfaces = Json::array();
  for (const auto& one : offered) interfaces.push_back({{"id", one.id}, {"minor", one.minor}});
  manifest["abi"] = {{"major", abi >> 16}, {"min_minor", abi & 0xffff}, {"interfaces", interfaces}};
}

void fill_build(Json& manifest, const LibraryFile& library, const std::string& build_id) {
  Json& platform = manifest["platform"];
  if (!platform.contains("os")) platform["os"] = library.os;
  platform["arch"] = library.arch;
  Json& build = manifest["build"];
  if (!build.contains("build_id")) build["build_id"] = build_id;
}

// A query that does not return must not hold up a build forever.
constexpr unsigned kSecondsMax = 60;
void out_of_time(int) {
  static constexpr char kText[] =
      "tenon-manifest: P0602: the library's tenon_plugin_query has not returned for 60 seconds\n";
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(3);
}
// A crash of the library before it has answered ends this process; this reports why.
void crashed(int number) {
  static constexpr char kText[] =
      "tenon-manifest: P0601: the library crashed while it was opened, or in tenon_plugin_query\n";
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// What a library for another machine says of itself.
Status fill_from_note(const Arguments& arguments, const LibraryFile& file, const std::string& name,
                      Json* manifest) {
  if (file.note.name != name) {
    return tenon::error(
        TENON_INVALID_ARGUMENT, "P0803", "the library calls itself {}, and {} says {}",
        tenon::quoted(file.note.name), tenon::quoted(arguments.input), tenon::quoted(name));
  }
  if (!manifest->contains("version")) (*manifest)["version"] = file.note.version;
  fill_abi(*manifest, file.note.abi, file.note.interfaces);
  fill_build(*manifest, file, file.note.build_id);
  return tenon::manifest::complete_provides(file.note, arguments.input, manifest);
}

// What a library for this machine says when it is run.
Status fill_from_query(const Arguments& arguments, const LibraryFile& file,
                       const std::string& library, const std::string& name, Json* manifest) {
  TENON_ASSIGN_OR_RETURN(tenon_plugin_query_t query, tenon::host::open_library(library));
  Result<const tenon_plugin_t*> record =
      tenon::host::ask_plugin(query, tenon::host::listing_host(), name);
  tenon::host::AdoptedPlugin plugin;
  if (!record.ok() && record.status().error_code() == "P0801" && says_provides(*manifest)) {
    std::fprintf(stderr,
                 "tenon-manifest: warning: %s\ntenon-manifest: the manifest keeps what %s says\n",
                 record.status().text().c_str(), arguments.input.c_str());
  } else {
    TENON_RETURN_IF_ERROR(record.status());
    TENON_ASSIGN_OR_RETURN(plugin, tenon::host::adopt_plugin(*record, name));
    if (file.has_note) TENON_RETURN_IF_ERROR(tenon::manifest::check_note(file.note, plugin));
    if (!manifest->contains("version")) (*manifest)["version"] = plugin.version;
    fill_abi(*manifest, plugin.record.abi, plugin.interfaces);
    fill_provides(*manifest, plugin);
    warn_without_devices(*manifest, plugin, arguments.input);
  }
  fill_build(*manifest, file, plugin.build_id);
  if (!tenon::host::host_sanitizer().empty())
    (*manifest)["build"]["sanitizer"] = tenon::host::host_sanitizer();
  return Status();
}

Status run(const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(Json manifest, read_input(arguments.input));
  if (!manifest.contains("name") || !manifest["name"].is_string()) {
    return tenon::error(TENON_INVALID_ARGUMENT, "P0205", "the key `name` is missing in {}",
                        tenon::quoted(arguments.input));
  }
  const std::string name = manifest["name"].get<std::string>();
  TENON_ASSIGN_OR_RETURN(std::string library, tenon::real_path(arguments.library));
  TENON_ASSIGN_OR_RETURN(const LibraryFile file,
                         tenon::manifest::read_library(library, arguments.is_static));
  if (!manifest.contains("schema")) manifest["schema"] = 1;
  if (!manifest.contains("library"))
    manifest["library"] = "./" + std::string(tenon::file_name_of(arguments.library));
  if (arguments.is_static || !file.for_this_machine) {
    TENON_RETURN_IF_ERROR(fill_from_note(arguments, file, name, &manifest));
  } else {
    TENON_RETURN_IF_ERROR(fill_from_query(arguments, file, library, name, &manifest));
  }
  if (arguments.digest) {
    TENON_ASSIGN_OR_RETURN(tenon::File file, tenon::open_user_file(library));
    TENON_ASSIGN_OR_RETURN(auto region, tenon::map_file(file));
    manifest["sha256"] = tenon::digest::sha256_hex(region->bytes());
  }
  std::string text = manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  TENON_ASSIGN_OR_RETURN(tenon::host::Manifest parsed,
                         tenon::host::parse_manifest(text, arguments.output));
  if (!parsed.idle_keys.empty()) {
    std::fprintf(stderr, "tenon-manifest: warning: %s: keys that no host acts upon: %s\n",
                 arguments.input.c_str(), tenon::join_names(parsed.idle_keys).c_str());
  }
  if (!parsed.unknown_keys.empty()) {
    std::fprintf(stderr, "tenon-manifest: warning: %s: unknown keys: %s\n", arguments.input.c_str(),
                 tenon::join_names(parsed.unknown_keys).c_str());
  }
  return tenon::write_file(arguments.output, text);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    std::string_view flag = argv[i];
    std::string* target = flag == "--library"  ? &arguments.library
                          : flag == "--input"  ? &arguments.input
                          : flag == "--output" ? &arguments.output
                                               : nullptr;
    if (flag == "--digest") {
      arguments.digest = true;
    } else if (flag == "--static") {
      arguments.is_static = true;
    } else if (target != nullptr && i + 1 < argc) {
      *target = argv[++i];
    } else {
      std::fprintf(stderr, "tenon-manifest: unknown or incomplete option %s\n",
                   tenon::quoted(flag).c_str());
      return 2;
    }
  }
  if (arguments.library.empty() || arguments.input.empty() || arguments.output.empty()) {
    std::fprintf(stderr,
                 "usage: tenon-manifest --library L --input manifest.json.in --output "
                 "F.plugin.json [--digest] [--static]\n");
    return 2;
  }
  ::signal(SIGALRM, out_of_time);
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    if (auto* before = ::signal(number, crashed); before != SIG_DFL)
      ::signal(number, before);  // a sanitizer's handler, which reports more
  }
  ::alarm(kSecondsMax);
  Status status = run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "tenon-manifest: %s\n", status.text_with_advice().c_str());
  return 3;
}
