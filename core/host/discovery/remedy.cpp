#include "core/host/discovery/remedy.h"

#include <fmt/format.h>

#include <vector>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/host/discovery/places.h"
#include "core/host/discovery/requirements.h"

namespace tenon::host {
namespace {

constexpr uint64_t kTableBytes = 64 * 1024;

// The command for the gate that stopped the plugin. Every word that is not ours is quoted: a
// manifest of a plugin that never ran must not get a command of its own run by a person who follows
// the advice.
std::string command_for(const Candidate& c, const GateResult& stopped) {
  const std::string_view code = stopped.code;
  const std::string manifest = shell_quoted(c.manifest_path),
                    library =
                        shell_quoted(c.library_path.empty() ? c.manifest.library : c.library_path),
                    subject =
                        shell_quoted(stopped.subject.empty() ? c.manifest_path : stopped.subject);
  if (code == "P0101" || code == "P0103" || code == "P0102") return "ls -ld " + subject;
  if (code == "P0207" || code == "P0208" || code.starts_with("P02"))
    return "tenon conform " + manifest + " --filter 'A.*'";
  if (code == "P0301" || code == "P0303") return "file " + library;
  if (code == "P0302") return "ldd --version";
  if (code == "P0304" || code == "P0305") return "tenon --version";
  if (code == "P0401") return "unset TENON_PLUGINS_DISABLE";
  if (code == "P0402") return "unset TENON_PLUGINS_SELECT";
  if (code == "P0403") return "unset TENON_PLUGIN_AUTOLOAD";
  if (code == "P0405" || code == "P0407") return "tenon plugins lock -o FILE";
  // The other manifest: the variable that put it first, or the file.
  if (code == "P0406")
    return stopped.subject.starts_with("TENON_") ? "unset " + stopped.subject : "ls -l " + subject;
  if (code == "P0501" && !c.manifest.required_plugins.empty())
    return "tenon plugins explain " + shell_quoted(c.manifest.required_plugins.front());
  if (code == "P0502") return "grep -m1 flags /proc/cpuinfo";
  if (code == "P0503" && !c.manifest.probe_paths.empty())
    return "ls -l -- " +
           shell_quoted(stopped.subject.empty() ? c.manifest.probe_paths.front() : stopped.subject);
  if (code == "P0504") return "lspci -nn";
  if (code == "P0601" || code == "P0602")
    return "TENON_PLUGIN_NO_CACHE=1 tenon plugins explain " + shell_quoted(c.name());
  if (code == "P0901" || code.starts_with("P10"))
    return "unset TENON_LAYERS";  // a layer named by it
  if (code == "P0604" || code == "P0605")
    return "sha256sum " + (stopped.subject.empty() ? library : subject);
  if (code == "P0701") return "ldd -r " + library;  // -r also lists missing symbols
  return "tenon conform " + manifest;
}

}  // namespace

std::string missing_library(const Manifest& manifest) {
  for (const std::string& name : manifest.required_libraries) {
    if (library_file(name).empty()) return name;
  }
  return "";
}

std::string package_in(std::string_view table, std::string_view library) {
  for (std::string_view line : split(table, '\n')) {
    const std::vector<std::string_view> words = split(line, ' ');
    if (words.size() == 2 && words[0] == library) return std::string(words[1]);
  }
  return "";
}

std::string package_of(std::string_view library) {
  Result<File> file = open_no_follow(join_path(own_folder(), "tenon/packages.txt"));
  if (!file.ok()) return "";
  return package_in(read_all(*file, kTableBytes, "a table of packages").value_or(""), library);
}

std::string Remedy::suffix() const {
  std::string text;
  if (!package.empty())
    text += fmt::format("; {} is in the package {}", quoted(library), quoted(package));
  if (!command.empty()) text += fmt::format("; run `{}`", command);
  return text;
}

Remedy remedy_of(const Candidate& c) {
  Remedy remedy;
  const GateResult* stopped = c.stopped_by();
  remedy.library = missing_library(c.manifest);
  if (stopped == nullptr && remedy.library.empty()) return remedy;
  if (!remedy.library.empty()) remedy.package = package_of(remedy.library);
  const bool about_library = stopped == nullptr || stopped->code == "P0505";
  if (about_library && !remedy.package.empty()) {
    remedy.command = "apt install " + shell_quoted(remedy.package);
  } else if (about_library) {
    remedy.command = "ldconfig -p | grep " +
                     shell_quoted(remedy.library.empty() ? c.manifest.name : remedy.library);
  } else {
    remedy.command = command_for(c, *stopped);
  }
  return remedy;
}

}  // namespace tenon::host
