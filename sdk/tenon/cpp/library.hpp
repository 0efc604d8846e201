// Opens a vendor's run-time library. The system's loader maps a file without asking whether it is
// whole, and a library that is cut short, by a full disk or a broken copy, ends the process with a
// bus error. Here it is an error with a sentence.
//
// open_library finds the file as the loader does (LD_LIBRARY_PATH, the loader's cache, the system's
// folders), compares its length with its own headers, and opens it by name. A file that is found in
// no such way is left to the loader. Linux, ELF of 64 bits.
//
// A plugin keeps the functions of its library in a record, one slot for each, filled by `load` on
// first use:
//
//   std::string load(Library* out) {  // why not; empty for success
//     const OpenedLibrary opened = open_library({"libvendor.so.1"});
//     ...
//     if (!find_function(opened.handle, "vendorStart", &out->start)) return "...";
//     return "";
//   }
//   const Library* library(std::string* why) { return loaded_once<Library, load>(why); }
#ifndef TENON_CPP_LIBRARY_HPP_
#define TENON_CPP_LIBRARY_HPP_

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/cpp/status.hpp"

namespace tenon::inline sdk {
namespace detail {

struct LibraryFile {
  explicit LibraryFile(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat state = {};
    if (fd >= 0 && ::fstat(fd, &state) == 0 && S_ISREG(state.st_mode))
      bytes = static_cast<uint64_t>(state.st_size);
  }
  ~LibraryFile() {
    if (fd >= 0) ::close(fd);
  }
  LibraryFile(const LibraryFile&) = delete;
  LibraryFile& operator=(const LibraryFile&) = delete;

  bool read(uint64_t at, void* to, uint64_t size) const {
    return at <= bytes && size <= bytes - at &&
           ::pread(fd, to, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
  }

  int fd;
  uint64_t bytes = 0;
};

// Whether all segments that the loader maps lie inside the file.
inline bool library_is_whole(const std::string& path) {
  const LibraryFile file(path);
  Elf64_Ehdr header = {};
  if (!file.read(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return true;  // the loader refuses it by itself
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment = {};
    if (!file.read(header.e_phoff + i * sizeof segment, &segment, sizeof segment)) return false;
    if (segment.p_type == PT_LOAD &&
        (segment.p_offset > file.bytes || segment.p_filesz > file.bytes - segment.p_offset))
      return false;
  }
  return true;
}

// The folders of LD_LIBRARY_PATH and of the system.
inline std::vector<std::string> library_folders() {
  std::vector<std::string> out;
  void* self = ::dlopen(nullptr, RTLD_NOW);
  Dl_serinfo size = {};
  if (self == nullptr || ::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return out;
  std::vector<uint64_t> bytes((size.dls_size + 7) / 8);
  auto* all = reinterpret_cast<Dl_serinfo*>(bytes.data());
  if (::dlinfo(self, RTLD_DI_SERINFOSIZE, all) == 0 && ::dlinfo(self, RTLD_DI_SERINFO, all) == 0) {
    for (unsigned i = 0; i < all->dls_cnt; ++i) out.emplace_back(all->dls_serpath[i].dls_name);
  }
  ::dlclose(self);
  return out;
}

// What /etc/ld.so.cache has for a name; empty if nothing. Its format is glibc's, version 1.1.
inline std::string library_in_cache(std::string_view name) {
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  constexpr uint64_t kHeader = 48, kEntry = 24, kMost = uint64_t{1} << 26;
  const LibraryFile file("/etc/ld.so.cache");
  if (file.bytes < kHeader || file.bytes > kMost) return {};
  std::string all(file.bytes, '\0');
  if (!file.read(0, all.data(), all.size()) || !all.starts_with(kMagic)) return {};
  const auto word = [&](uint64_t at) {
    uint32_t out = 0;
    std::memcpy(&out, all.data() + at, sizeof out);
    return out;
  };
  const uint64_t count = std::min<uint64_t>(word(20), (all.size() - kHeader) / kEntry);
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t key = word(kHeader + i * kEntry + 4), value = word(kHeader + i * kEntry + 8);
    if (key < all.size() && value < all.size() && name == all.c_str() + key)
      return all.c_str() + value;
  }
  return {};
}

// Where the loader would find a library; empty if only the loader knows.
inline std::string library_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const std::vector<std::string> folders = library_folders();
  const char* first = ::getenv("LD_LIBRARY_PATH");
  const size_t preferred =
      first == nullptr || *first == '\0'
          ? 0
          : static_cast<size_t>(std::count(first, first + std::strlen(first), ':')) + 1;
  for (size_t i = 0; i <= folders.size(); ++i) {
    if (i == std::min(preferred, folders.size())) {
      if (std::string cached = library_in_cache(name); !cached.empty()) return cached;
    }
    if (i == folders.size()) break;
    std::string path = folders[i] + "/" + name;
    if (::access(path.c_str(), R_OK) == 0) return path;
  }
  return {};
}

}  // namespace detail

// Where the loader would find a library; empty if it is not there. Opens nothing.
inline std::string library_location(const std::string& name) {
  return detail::library_path(name);
}

struct OpenedLibrary {
  void* handle = nullptr;  // stays open until the process ends
  bool missing = false;    // there is no such file
  std::string why;         // null handle, and not merely missing: a sentence without its end
};

// Opens the first of the names that there is. One that the process has open already comes before
// all others: two releases of a vendor's runtime in one process do not share what they hold, and
// spoil each other's. Threads: safe, as dlopen.
inline OpenedLibrary open_library(std::initializer_list<const char*> names) {
  constexpr int kHow = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  for (const char* name : names) {
    void* handle =
        ::dlopen(name, kHow | RTLD_NOLOAD);  // as another library of the process opened it
    if (handle != nullptr) return {handle, false, {}};
  }
  for (const char* name : names) {
    const std::string path = detail::library_path(name);
    if (!path.empty() && !detail::library_is_whole(path))
      return {nullptr, false,
              cat(path, " is cut short: it is shorter than its own headers say. Install it again")};
    void* handle = ::dlopen(name, kHow);
    if (handle != nullptr) return {handle, false, {}};
    const char* reason = ::dlerror();
    const std::string_view text = reason == nullptr ? "" : reason;
    // Also a library that it needs may be the one that is missing.
    if (!text.starts_with(name) || text.find("No such file") == std::string_view::npos)
      return {nullptr, false, cat(name, " cannot be opened: ", text)};
  }
  return {nullptr, true, {}};
}

// Identifies an opened library, also after it was replaced in its place: its path, length and time.
// For keys of what it has made; empty if the loader does not say.
inline std::string library_identity(void* library) {
  const link_map* map = nullptr;
  struct stat state = {};
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr ||
      ::stat(map->l_name, &state) != 0)
    return {};
  return cat(std::string_view(map->l_name), " ", state.st_size, " ", state.st_mtime);
}

// Looks up a function, and says whether the library has it.
template <class F>
bool find_function(void* library, const char* symbol, F* out) {
  *out = reinterpret_cast<F>(::dlsym(library, symbol));
  return *out != nullptr;
}

// What `load` fills in when this is called first; null, with the sentence that it returned, if it
// failed. Kept for the process. Threads: safe.
template <class Library, std::string (*load)(Library*)>
const Library* loaded_once(std::string* why) {
  struct Loaded {
    Library library;
    std::string why;
  };
  static const Loaded loaded = [] {
    Loaded made;
    made.why = load(&made.library);
    return made;
  }();
  *why = loaded.why;
  return loaded.why.empty() ? &loaded.library : nullptr;
}

}  // namespace tenon::inline sdk
#endif
