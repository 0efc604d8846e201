#include "sdk/tools/support/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <tenon/cpp/text.hpp>

namespace tenon::tools {
namespace {

using text::quoted;

constexpr size_t kSystemFileBytes = 64 * 1024;

// Closes itself.
struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

Error cannot(int number, std::string_view verb, const std::string& path) {
  const bool full = number == ENOSPC || number == EDQUOT;
  return {full ? "T0108" : "T0101",
          fmt::format("cannot {} {}: {}", verb, quoted(path), ::strerror(number)),
          {}};
}

Error not_written(int number, std::string_view verb, const std::string& path) {
  Error error = cannot(number, verb, path);
  if (error.code != "T0108") error.code = "T0107";
  return error;
}

// A regular file, opened; its size if requested.
Error open_regular(const std::string& path, Descriptor* out, uint64_t* size_bytes = nullptr) {
  if (path.empty()) return {"T0104", "the name of a file is empty", {}};
  do {
    out->value = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  } while (out->value < 0 && errno == EINTR);
  if (out->value < 0) return cannot(errno, "open", path);
  struct stat status;
  if (::fstat(out->value, &status) != 0) return cannot(errno, "look at", path);
  if (size_bytes != nullptr) *size_bytes = static_cast<uint64_t>(status.st_size);
  if (S_ISREG(status.st_mode)) return {};
  const std::string_view what = S_ISDIR(status.st_mode)    ? "a folder"
                                : S_ISFIFO(status.st_mode) ? "a FIFO"
                                                           : "a device";
  return {"T0103", fmt::format("{} is {}, and a regular file is needed", quoted(path), what), {}};
}

// Reads `out->size()` bytes from the current position. At the end of the file, `out` becomes
// shorter.
Error read_bytes(int descriptor, const std::string& path, std::string* out) {
  size_t done = 0;
  while (done < out->size()) {
    const ssize_t got = ::read(descriptor, out->data() + done, out->size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot(errno, "read", path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  out->resize(done);
  return {};
}

}  // namespace

Error check_readable(const std::string& path) {
  Descriptor file;
  return open_regular(path, &file);
}

Result<std::string> read_file(const std::string& path, uint64_t max_bytes, std::string_view what) {
  Descriptor file;
  uint64_t size_bytes = 0;
  if (Error error = open_regular(path, &file, &size_bytes); error.failed()) return error;
  if (size_bytes > max_bytes) {
    return Error{"T0102",
                 fmt::format("{} has {} bytes, and the limit for {} is {}", quoted(path),
                             size_bytes, what, max_bytes),
                 {}};
  }
  std::string contents(size_bytes, '\0');
  if (Error error = read_bytes(file.value, path, &contents); error.failed()) return error;
  if (contents.size() < size_bytes)
    return Error{"T0106", fmt::format("{} shrank while it was read", quoted(path)), {}};
  return contents;
}

std::string read_system_file(const std::string& path) {
  Descriptor file;
  std::string contents(kSystemFileBytes, '\0');
  if (open_regular(path, &file).failed()) return "";
  return read_bytes(file.value, path, &contents).failed() ? "" : contents;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  Descriptor file;
  uint64_t size_bytes = 0;
  if (Error error = open_regular(path, &file, &size_bytes); error.failed()) return error;
  MappedFile mapped;
  if (size_bytes == 0) return mapped;
  void* base = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (base == MAP_FAILED) {
    return Error{
        "T0111",
        fmt::format("cannot map {} bytes of {}: {}", size_bytes, quoted(path), ::strerror(errno)),
        {}};
  }
  mapped.bytes_ = {static_cast<const std::byte*>(base), size_bytes};
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Error write_file(const std::string& path, std::string_view contents) {
  if (path.empty()) return {"T0104", "the name of a file is empty", {}};
  struct stat status;
  if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    if (S_ISLNK(status.st_mode))
      return {"T0109",
              fmt::format("{} is a symbolic link, and is not written through", quoted(path)),
              {}};
    return {"T0103", fmt::format("{} exists and is not a regular file", quoted(path)), {}};
  }
  // In the same folder, so that renaming it is one step.
  const std::string temporary =
      fmt::format("{}/.tmp.{}.{}", folder_of(path), ::getpid(), file_name_of(path));
  Descriptor file;
  file.value =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file.value < 0) return not_written(errno, "create", path);
  while (!contents.empty()) {
    const ssize_t written = ::write(file.value, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int number = errno;
      ::unlink(temporary.c_str());
      return not_written(number, "write", path);
    }
    contents.remove_prefix(static_cast<size_t>(written));
  }
  // Closing reports errors that network file systems and quotas deferred.
  if (::close(std::exchange(file.value, -1)) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0)
    return {};
  const int number = errno;
  ::unlink(temporary.c_str());
  return not_written(number, "write", path);
}

std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> names;
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

bool is_folder(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

Result<std::string> real_path(const std::string& path) {
  if (path.empty()) return Error{"T0104", "the name of a file is empty", {}};
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return cannot(errno, "find", path);
  std::string out(resolved);
  std::free(resolved);
  return out;
}

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

std::string file_name_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  std::string out(folder);
  if (out.back() != '/') out += '/';
  return out += name;
}

}  // namespace tenon::tools
