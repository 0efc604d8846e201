#include "core/host/discovery/places.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/str.h"

namespace tenon::host {
namespace {

constexpr std::string_view kSuffix = ".plugin.json";
constexpr std::string_view kSystemFolders[] = {"/usr/", "/lib/", "/lib64/", "/opt/", "/nix/store/"};

void append_list(std::string_view variable, std::vector<Place>& places) {
  auto value = env(variable);
  if (!value) return;
  std::string_view rest = *value;
  for (bool more = true; more;) {
    size_t colon = rest.find(':');
    std::string_view part = rest.substr(0, colon);
    more = colon != std::string_view::npos;
    if (more) rest.remove_prefix(colon + 1);
    if (part.starts_with('/')) {
      places.push_back({std::string(part), std::string(variable), true, false});
    } else {
      log_warning("plugins", "P0104: {} contains {}, which is not an absolute path and is skipped",
                  variable, part.empty() ? "an empty part" : quoted(part));
    }
  }
}

// The folder tenon_plugins in the site-packages of an active Python environment.
void append_virtual_env(std::vector<Place>& places) {
  auto root = env("VIRTUAL_ENV");
  if (!root || !root->starts_with('/')) return;
  std::string lib = join_path(*root, "lib");
  for (const std::string& name : list_folder(lib).value_or({})) {
    if (!name.starts_with("python3")) continue;
    std::string folder = join_path(join_path(lib, name), "site-packages/tenon_plugins");
    if (identify(folder).ok()) places.push_back({folder, "VIRTUAL_ENV", false, false});
  }
}

bool is_manifest_name(std::string_view name) {
  return name.size() > kSuffix.size() && name.ends_with(kSuffix);
}

// A folder that was named but holds no manifest: often the source folder, with the manifest in the
// build folder.
void warn_of_no_manifest(const Place& place, const std::vector<std::string>& names) {
  constexpr size_t kFoldersAsked = 64;
  std::string instead;
  for (size_t i = 0; i < std::min(names.size(), kFoldersAsked) && instead.empty(); ++i) {
    const std::string below = join_path(place.path, names[i]);
    const std::vector<std::string> inside = list_folder(below).value_or({});
    if (std::any_of(inside.begin(), inside.end(), is_manifest_name))
      instead = fmt::format("; {} does", quoted(below));
  }
  log_warning("plugins", "P0105: {} names the folder {}, which holds no *{}{}", place.origin,
              quoted(place.path), kSuffix, instead);
}

bool under(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) &&
         (folder.ends_with('/') || path[folder.size()] == '/');
}

}  // namespace

const std::string& own_folder() {
  static const std::string* folder = [] {
    Dl_info info = {};
    std::string path;
    if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) != 0 &&
        info.dli_fname != nullptr) {
      path = real_path(info.dli_fname).value_or("");
    }
    if (path.empty()) path = real_path("/proc/self/exe").value_or("/nowhere/tenon");
    return new std::string(folder_of(path));
  }();
  return *folder;
}

std::string prefix_plugin_folder() {
  return join_path(own_folder(), "tenon/plugins.d");
}

Result<std::string> helper_program(std::string_view name) {
  std::string tried;
  std::vector<std::string> folders;
  if (auto chosen = env("TENON_LIBEXEC_DIR"); chosen && chosen->starts_with('/'))
    folders.emplace_back(*chosen);
  for (std::string_view relative : {"../libexec/tenon", "../../libexec/tenon", "libexec/tenon"}) {
    folders.push_back(join_path(own_folder(), relative));
  }
  for (const std::string& folder : folders) {
    std::string path = join_path(folder, name);
    if (::access(path.c_str(), X_OK) == 0) return real_path(path);
    tried += (tried.empty() ? "" : ", ") + folder;
  }
  return error(TENON_NOT_FOUND, "P0603", "the helper program {} is not in {}", quoted(name), tried);
}

std::vector<Place> search_places(const std::vector<std::string>& explicit_paths) {
  std::vector<Place> places;
  for (const std::string& path : explicit_paths)
    places.push_back({path, "the program", true, false});
  if (env("TENON_PLUGIN_FILES")) {
    append_list("TENON_PLUGIN_FILES", places);
    return places;
  }
  append_list("TENON_PLUGIN_ADD", places);
  append_virtual_env(places);
  if (!is_privileged_process()) {
    auto xdg = env("XDG_DATA_HOME");
    auto home = env("HOME");
    if (xdg && xdg->starts_with('/')) {
      places.push_back({join_path(*xdg, "tenon/plugins.d"), "XDG_DATA_HOME", false, false});
    } else if (home && home->starts_with('/')) {
      places.push_back(
          {join_path(*home, ".local/share/tenon/plugins.d"), "the home folder", false, false});
    }
  }
  places.push_back({"/etc/tenon/plugins.d", "/etc", false, false});
  places.push_back({prefix_plugin_folder(), "the installation", false, true});
  return places;
}

std::vector<FoundManifest> manifests_in(const Place& place) {
  auto found = [&](std::string path, Status status) {
    return FoundManifest{std::move(path), place.origin, place.named_explicitly, place.in_prefix,
                         std::move(status)};
  };
  std::vector<FoundManifest> out;
  Result<FileIdentity> identity = identify(place.path);
  if (!identity.ok()) {
    if (place.named_explicitly) {
      out.push_back(
          found(place.path, error(TENON_NOT_FOUND, "P0103", "{} names {}, which is not there",
                                  place.origin, quoted(place.path))));
    }
    return out;
  }
  std::vector<std::string> paths;
  std::string folder = place.path;
  if (S_ISDIR(identity->mode)) {
    Result<std::vector<std::string>> names = list_folder(place.path);
    if (!names.ok()) {
      out.push_back(found(place.path,
                          error(TENON_PERMISSION_DENIED, "P0101", "{}", names.status().message())));
      return out;
    }
    for (const std::string& name : *names) {
      if (is_manifest_name(name)) paths.push_back(join_path(place.path, name));
    }
    if (paths.empty() && place.named_explicitly) warn_of_no_manifest(place, *names);
  } else {
    folder = std::string(folder_of(place.path));
    paths.push_back(place.path);
  }
  Status folder_trusted = check_trusted(folder);
  for (std::string& path : paths) {
    Status status = folder_trusted.ok() ? check_trusted(path) : folder_trusted;
    out.push_back(found(std::move(path), std::move(status)));
  }
  return out;
}

namespace {
Status whom_it_belongs_to(std::string_view path) {
  Result<FileIdentity> identity = identify(path);
  if (!identity.ok()) return error(TENON_NOT_FOUND, "P0101", "{}", identity.status().message());
  const uint32_t self = ::geteuid();
  if (identity->owner != 0 && identity->owner != self) {
    return error(TENON_PERMISSION_DENIED, "P0102",
                 "{} belongs to user {}, and only root's and your own files are trusted",
                 quoted(path), identity->owner);
  }
  if ((identity->mode & 0002) != 0) {
    return error(TENON_PERMISSION_DENIED, "P0102", "everybody may write to {}", quoted(path));
  }
  if ((identity->mode & 0020) != 0 && identity->owner != self) {
    return error(TENON_PERMISSION_DENIED, "P0102", "a group may write to {}", quoted(path));
  }
  return Status();
}
}  // namespace

Status check_trusted(std::string_view path) {
  return whom_it_belongs_to(path).with("subject", path);
}

Result<std::string> library_path(std::string_view manifest_path, std::string_view library) {
  auto refuse = [&](std::string_view why) {
    return error(TENON_PERMISSION_DENIED, "P0207", "the library {} {}", quoted(library), why);
  };
  if (library.empty() || library.find('\0') != std::string_view::npos)
    return refuse("is not a file name");
  if (library.find('/') == std::string_view::npos) {
    return refuse("is a bare name, which the system would search for: write ./ before it");
  }
  const bool absolute = library[0] == '/';
  Result<std::string> home = real_path(folder_of(manifest_path));
  if (!home.ok()) return error(TENON_NOT_FOUND, "P0101", "{}", home.status().message());
  const std::string_view relative = library.starts_with("./") ? library.substr(2) : library;
  const std::string written = absolute ? std::string(library) : join_path(*home, relative);
  Result<std::string> resolved = real_path(written);
  if (!resolved.ok()) {
    return error(TENON_NOT_FOUND, "P0208", "the library {} is not there", quoted(written));
  }
  bool inside = under(*resolved, *home);
  if (absolute) {
    for (std::string_view folder : kSystemFolders) inside |= under(*resolved, folder);
    if (!inside)
      return refuse("is absolute, and neither in the manifest's folder nor in a system folder");
  } else if (!inside) {
    return refuse("lies outside the folder of its manifest");
  }
  TENON_RETURN_IF_ERROR(check_trusted(*resolved));
  TENON_RETURN_IF_ERROR(check_trusted(folder_of(*resolved)));
  return *resolved;
}

}  // namespace tenon::host
