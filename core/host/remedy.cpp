#include "core/host/remedy.h"

#include <fmt/format.h>

#include <cstdlib>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/host/places.h"

namespace tenon::host {
namespace {

constexpr uint64_t kCacheBytesMax = uint64_t{16} << 20;

// Run-time libraries that devices stand on, as Debian names what has them.
struct Package {
  std::string_view library, package;
};
constexpr Package kPackages[] = {
    {"libOpenCL.so.1", "ocl-icd-libopencl1"},
    {"libvulkan.so.1", "libvulkan1"},
    {"libcuda.so.1", "libcuda1"},
    {"libcudart.so.11.0", "libcudart11.0"},
    {"libze_loader.so.1", "libze1"},
    {"libamdhip64.so.5", "libamdhip64-5"},
    {"libopenblas.so.0", "libopenblas0"},
    {"libgomp.so.1", "libgomp1"},
    {"libtbb.so.12", "libtbb12"},
    {"libnuma.so.1", "libnuma1"},
    {"libhwloc.so.15", "libhwloc15"},
    {"libdrm.so.2", "libdrm2"},
    {"libusb-1.0.so.0", "libusb-1.0-0"},
    {"libprotobuf.so.32", "libprotobuf32"},
    {"libpocl.so.2", "libpocl2"},
    {"libnvidia-ml.so.1", "libnvidia-ml1"},
    {"librocblas.so.0", "librocblas0"},
    {"libmpi.so.40", "libopenmpi3"},
};

bool in_folder(std::string_view folder, std::string_view name) {
  return !folder.empty() && identify(join_path(folder, name)).ok();
}

// The loader's cache holds the paths of all libraries as texts that end in a zero byte.
bool in_loader_cache(std::string_view name) {
  static const auto* text =
      new std::string(read_system_file("/etc/ld.so.cache", kCacheBytesMax).value_or(""));
  const std::string entry = "/" + std::string(name) + '\0';
  return text->find(entry) != std::string::npos;
}

bool library_is_there(std::string_view name) {
  const char* more = std::getenv("LD_LIBRARY_PATH");
  for (std::string_view folder : split(more == nullptr ? "" : more, ':')) {
    if (in_folder(folder, name)) return true;
  }
  if (in_loader_cache(name)) return true;
  for (std::string_view folder : {"/lib", "/usr/lib", "/lib64", "/usr/lib64"}) {
    if (in_folder(folder, name)) return true;
  }
  return in_folder(own_folder(), name);
}

// By the code of the gate that stopped it.
std::string command_for(const Candidate& c, std::string_view code) {
  const std::string manifest = c.manifest_path,
                    library = c.library_path.empty() ? c.manifest.library : c.library_path;
  if (code == "P0101" || code == "P0103" || code == "P0102") return "ls -ld " + manifest;
  if (code == "P0207" || code == "P0208" || code.starts_with("P02"))
    return "tenon conform " + manifest + " --filter 'A.*'";
  if (code == "P0301" || code == "P0303") return "file " + library;
  if (code == "P0302") return "ldd --version";
  if (code == "P0304" || code == "P0305") return "tenon --version";
  if (code == "P0401") return "unset TENON_PLUGINS_DISABLE";
  if (code == "P0402") return "unset TENON_PLUGINS_SELECT";
  if (code == "P0403") return "unset TENON_PLUGIN_AUTOLOAD";
  if (code == "P0405" || code == "P0407") return "tenon plugins lock -o FILE";
  if (code == "P0406") return "tenon plugins explain " + c.name();
  if (code == "P0501" && !c.manifest.required_plugins.empty())
    return "tenon plugins explain " + c.manifest.required_plugins.front();
  if (code == "P0502") return "grep -m1 flags /proc/cpuinfo";
  if (code == "P0503" && !c.manifest.probe_paths.empty())
    return "ls -l " + c.manifest.probe_paths.front();
  if (code == "P0504") return "lspci -nn";
  if (code == "P0901" || code.starts_with("P10")) return "unset TENON_LAYERS";  // a layer that it names
  if (code == "P0604") return "sha256sum " + library;
  if (code == "P0701") return "ldd " + library;
  return "tenon conform " + manifest;
}

}  // namespace

std::string missing_library(const Manifest& manifest) {
  for (const std::string& name : manifest.required_libraries) {
    if (!library_is_there(name)) return name;
  }
  return "";
}

std::string_view package_of(std::string_view library) {
  for (const Package& known : kPackages) {
    if (known.library == library) return known.package;
  }
  return {};
}

std::string Remedy::suffix() const {
  std::string text;
  if (!package.empty())
    text += fmt::format("; {} is in the package {}", quoted(library), quoted(package));
  if (!command.empty()) text += fmt::format("; run {}", quoted(command));
  return text;
}

Remedy remedy_of(const Candidate& c) {
  Remedy remedy;
  const GateResult* stopped = c.stopped_by();
  remedy.library = missing_library(c.manifest);
  if (stopped == nullptr && remedy.library.empty()) return remedy;
  remedy.package = package_of(remedy.library);
  const bool about_library = stopped == nullptr || stopped->code == "P0505";
  if (about_library && !remedy.package.empty()) {
    remedy.command = "apt install " + remedy.package;
  } else if (about_library) {
    remedy.command =
        "ldconfig -p | grep " + (remedy.library.empty() ? c.manifest.name : remedy.library);
  } else {
    remedy.command = command_for(c, stopped->code);
  }
  return remedy;
}

}  // namespace tenon::host
