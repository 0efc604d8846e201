// Reading and writing files for the tools, with the reason for a failure; uses only the standard
// library.
#pragma once
#include <stdint.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::tools {

// Why something failed: a stable error code ("T0101") and one sentence. Empty if nothing failed.
struct [[nodiscard]] Error {
  std::string code, message;
  std::string context;  // " (while reading ...)", or empty
  bool failed() const { return !message.empty(); }
  // "T0101: cannot open `x`: No such file or directory".
  std::string text() const { return code + ": " + message + context; }
};

// A value, or why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design
  bool ok() const { return value_.has_value(); }
  const Error& error() const { return error_; }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  T value_or(T other) && { return value_ ? std::move(*value_) : std::move(other); }

 private:
  std::optional<T> value_;
  Error error_;
};

// A whole regular file of at most `max_bytes`; a FIFO or a device is refused without waiting for
// it. T0101, T0102 for a larger file, T0103 for one that is not regular. `what`: "a manifest".
Result<std::string> read_file(const std::string& path, uint64_t max_bytes, std::string_view what);
// Empty if read_file could open the file.
Error check_readable(const std::string& path);
// The beginning of a file whose size is not known in advance (/proc); empty if it cannot be read.
std::string read_system_file(const std::string& path);

// The bytes of a regular file, mapped.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile() = default;
  std::span<const std::byte> bytes_;
};

// Writes a file that appears whole or not at all, replacing an existing regular file. T0107, T0108
// for a full disk, T0109 for a symbolic link.
Error write_file(const std::string& path, std::string_view contents);

// The names in a folder, sorted; none if it cannot be read.
std::vector<std::string> list_folder(const std::string& path);
bool is_folder(const std::string& path);
// The absolute path without links. T0101.
Result<std::string> real_path(const std::string& path);

std::string folder_of(std::string_view path);     // "." if there is none
std::string file_name_of(std::string_view path);  // after the last '/'
std::string join_path(std::string_view folder, std::string_view name);

}  // namespace tenon::tools
