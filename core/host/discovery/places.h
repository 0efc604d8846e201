// Where manifests are searched for, and whether a place can be trusted. Opens manifests only, never
// libraries.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"
#include "core/base/file.h"

namespace tenon::host {

// The folder of the running libtenon (or of the program that links it statically), without links.
const std::string& own_folder();

// The installation's plugin folder: own_folder()/tenon/plugins.d.
std::string prefix_plugin_folder();

// A helper program of the installation ("tenon-probe"); NOT_FOUND lists the places tried.
Result<std::string> helper_program(std::string_view name);

struct Place {
  std::string path;    // a manifest, or a folder of *.plugin.json
  std::string origin;  // what named it
  bool named_explicitly = false;
  bool in_prefix = false;
};

// The search path in order. Environment variables are ignored in a privileged process. Empty and
// relative parts of a path list are skipped with a warning, so that the current directory is never
// searched.
std::vector<Place> search_places(const std::vector<std::string>& explicit_paths);

struct FoundManifest {
  std::string path, origin;
  bool named_explicitly, in_prefix;
  Status status;  // P0101 cannot be read, P0102 others may write to it
};
// The manifests of a place, sorted by file name. A folder that does not exist gives none, or P0103
// if it was named.
std::vector<FoundManifest> manifests_in(const Place& place);

// P0102 unless `path` (a file or folder) belongs to root or this user and is not writable by
// others. Writable by its group is refused too, unless the user owns it.
Status check_trusted(std::string_view path);

// The library of a manifest, as an absolute path without links: either beside the manifest
// ("./x.so", "lib/x.so") and inside its folder, or absolute inside a system folder. P0207
// otherwise, P0208 if it is not there.
Result<std::string> library_path(std::string_view manifest_path, std::string_view library);

}  // namespace tenon::host
