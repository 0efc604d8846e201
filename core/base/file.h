// Files. Only this file opens files in core/. All input (models, weights, text, manifests, cache)
// passes through it, so a FIFO, a device, a link or a path out of its folder is refused in one
// place.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"

namespace tenon {

// What stat reports about a file, for caches that verify a file by it.
struct FileIdentity {
  uint64_t device = 0, inode = 0, size_bytes = 0;
  int64_t mtime_ns = 0, ctime_ns = 0;
  uint32_t mode = 0, owner = 0, links = 0;
  bool operator==(const FileIdentity&) const = default;
};

// An open, regular file. Movable; closes itself. Threads: reads are safe.
class File {
 public:
  File() = default;
  File(int descriptor, std::string path, const FileIdentity& identity)
      : descriptor_(descriptor), path_(std::move(path)), identity_(identity) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }  // for messages
  const FileIdentity& identity() const { return identity_; }
  uint64_t size_bytes() const { return identity_.size_bytes; }

 private:
  int descriptor_ = -1;
  std::string path_;
  FileIdentity identity_;
};

// Opens a file that the user named. Links are followed; anything but a regular file is refused
// (never blocks on a FIFO). Errors: T0101 (NOT_FOUND or PERMISSION_DENIED), T0103, T0104 for a name
// that is empty or contains NUL.
Result<File> open_user_file(std::string_view path);

// Opens `relative`, a name found inside some file, beneath `folder`. The name must be relative,
// without "..", backslash or NUL, and lead through no symbolic link to a regular file with one hard
// link. Errors: T0101, T0103, T0104, T0105. The folder itself is the user's and may be reached
// through links.
Result<File> open_beneath(std::string_view folder, std::string_view relative);

namespace detail {
// open_beneath for kernels without openat2, one folder at a time. Declared here for its test.
Result<File> open_beneath_by_steps(std::string_view folder, std::string_view relative);
}  // namespace detail

// Opens a file of our own (cache, manifest): its last component must not be a symbolic link.
Result<File> open_no_follow(std::string_view path);

// A read-only mapping of bytes of a file, shared by everything that needs them to stay.
class MappedRegion {
 public:
  ~MappedRegion();
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  friend Result<std::shared_ptr<const MappedRegion>> map_region(const File&, uint64_t, uint64_t);
  MappedRegion() = default;
  void* base_ = nullptr;
  size_t mapped_ = 0;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Maps [offset, offset + length) of `file`. Errors: T0106 if that range is not inside, T0102 above
// kFileBytes, T0111. The mapping outlives the File.
Result<std::shared_ptr<const MappedRegion>> map_region(const File& file, uint64_t offset,
                                                       uint64_t length);
Result<std::shared_ptr<const MappedRegion>> map_file(const File& file);

// Reads a whole file of at most `max_bytes`; T0102, naming `what`, if it is larger.
Result<std::string> read_all(const File& file, uint64_t max_bytes, std::string_view what);

// The first `max_bytes` of a file whose size stat does not report (/proc, /sys). T0101.
Result<std::string> read_system_file(std::string_view path, size_t max_bytes = 64 * 1024);

// A file that appears whole or not at all: written under a temporary name in the same folder,
// renamed by commit(), removed if never committed. An existing target is replaced; a symbolic link
// is refused (T0109). A character device such as /dev/null is written to as it is.
class AtomicFile {
 public:
  static Result<AtomicFile> create(std::string_view path, uint32_t mode = 0644);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) {
    return write(std::as_bytes(std::span(text.data(), text.size())));
  }
  // write or commit reports a full disk as T0108 (RESOURCE_EXHAUSTED).
  Status commit();

 private:
  AtomicFile() = default;
  int descriptor_ = -1;
  std::string path_, temporary_;
};

// Writes a whole file atomically.
Status write_file(std::string_view path, std::string_view contents, uint32_t mode = 0644);

// Makes `path` and its missing parents, with `mode` for the new ones.
Status make_folders(std::string_view path, uint32_t mode = 0777);

// The names in a folder, sorted, without "." and ".."; hidden ones included. T0101.
Result<std::vector<std::string>> list_folder(std::string_view path);

// stat without opening; follows links. T0101.
Result<FileIdentity> identify(std::string_view path);
// The same for the link itself.
Result<FileIdentity> identify_link(std::string_view path);
FileIdentity identity_of(const struct stat& status);

// Removes a file; OK if it is absent.
Status remove_file(std::string_view path);

// The absolute path without links. T0101.
Result<std::string> real_path(std::string_view path);

std::string_view folder_of(std::string_view path);     // "." if there is none
std::string_view file_name_of(std::string_view path);  // after the last '/'
std::string join_path(std::string_view folder, std::string_view name);

// A Status for errno `number` about `path`: T0108 for a full disk, T0101 otherwise ("cannot VERB
// PATH: reason").
Status errno_status(int number, std::string_view verb, std::string_view path);

}  // namespace tenon
