// Linux with glibc: ELF.
#include <dlfcn.h>
#include <elf.h>
#include <gnu/libc-version.h>
#include <link.h>

#include <cstdlib>

#include "core/base/file.h"
#include "core/base/str.h"
#include "core/host/platform/platform.h"

namespace tenon::host::platform {
namespace {

constexpr uint64_t kLoaderCacheBytesMax = uint64_t{16} << 20;

std::string in_folder(std::string_view folder, std::string_view name) {
  const std::string path = folder.empty() ? std::string() : join_path(folder, name);
  return !path.empty() && identify(path).ok() ? path : std::string();
}

// The loader's cache holds the paths of all libraries as zero-terminated strings.
std::string in_loader_cache(std::string_view name) {
  static const auto* text =
      new std::string(read_system_file("/etc/ld.so.cache", kLoaderCacheBytesMax).value_or(""));
  const std::string entry = "/" + std::string(name) + '\0';
  const size_t at = text->find(entry);
  if (at == std::string::npos) return {};
  const size_t before = text->rfind('\0', at);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return text->substr(begin, at + entry.size() - 1 - begin);
}

}  // namespace

std::string_view os_name() {
  return "linux";
}

std::string_view libc_version() {
  return gnu_get_libc_version();
}

// The dynamic linker returns data and functions alike; only the symbol's own record says which it
// is.
bool is_function(const std::string&, const char*, void* address) {
  Dl_info info = {};
  const ElfW(Sym)* symbol = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
                RTLD_DL_SYMENT) == 0) {
    return false;
  }
  const unsigned type = symbol == nullptr ? STT_NOTYPE : symbol->st_info & 0xfu;
  return type == STT_FUNC || type == STT_GNU_IFUNC;
}

std::string library_file(std::string_view name) {
  const char* more = std::getenv("LD_LIBRARY_PATH");
  std::string found;
  for (std::string_view folder : split(more == nullptr ? "" : more, ':')) {
    if (found = in_folder(folder, name); !found.empty()) return found;
  }
  if (found = in_loader_cache(name); !found.empty()) return found;
  for (std::string_view folder : {"/lib", "/usr/lib", "/lib64", "/usr/lib64"}) {
    if (found = in_folder(folder, name); !found.empty()) return found;
  }
  return {};
}

}  // namespace tenon::host::platform
