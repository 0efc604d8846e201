// macOS: Mach-O. Compiled against a POSIX system in the tests, and never yet run on a Mac.
#include <cstdlib>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/host/binary/binary.h"
#include "core/host/platform/platform.h"

namespace tenon::host::platform {
std::string_view os_name() {
  return "macos";
}

std::string_view libc_version() {
  return {};  // the linker compares the minimum version of the system itself
}

// dladdr does not say it, so the file is read.
bool is_function(const std::string& path, const char* name, void*) {
  const Result<File> file = open_user_file(path);
  if (!file.ok()) return false;
  const auto region = map_file(*file);
  if (!region.ok()) return false;
  const Result<Binary> binary = read_binary((*region)->bytes(), arch_name());
  if (!binary.ok()) return false;
  const Result<Exported> kind = exported(*binary, name);
  return kind.ok() && *kind == Exported::kFunction;
}

// Libraries of the system itself are in the loader's cache alone and have no file.
std::string library_file(std::string_view name) {
  std::string folders = "/usr/local/lib:/opt/homebrew/lib:/usr/lib";
  if (const char* more = std::getenv("DYLD_LIBRARY_PATH"); more != nullptr)
    folders = std::string(more) + ":" + folders;
  for (std::string_view folder : split(folders, ':')) {
    if (folder.empty()) continue;
    std::string path = join_path(folder, name);
    if (identify(path).ok()) return path;
  }
  return {};
}

}  // namespace tenon::host::platform
