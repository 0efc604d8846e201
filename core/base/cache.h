// The cache folder: files by content, shared by all processes of one user. Entries are made by
// rename and checked (kind, key, digest) each time they are read, so that a killed writer, two
// writers, a full disk or a flipped bit cost a recompile and never a wrong result.
//
// Layout: DIR/v1/KIND/xx/HEX32 where HEX32 is the XXH3-128 of the key. Each file is a header of 64
// bytes, the key, padding to 64, the payload. The folder is 0700 and ours, or is not used.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"
#include "core/base/file.h"

namespace tenon {

// The bytes of an entry, checked when it was found; mapped as long as the object lives.
struct CacheEntry {
  std::shared_ptr<const MappedRegion> region;
  std::span<const std::byte> bytes;
};

struct CacheListing {
  std::string kind, path;
  uint64_t size_bytes = 0;
  int64_t used_ns = 0;  // time of last use
};

// Threads: safe. Every method of a cache that is off finds nothing and stores nothing.
class Cache {
 public:
  // Opens the folder, making it if needed. When it cannot be used (T0801: foreign owner, a link,
  // other users may write, cannot be made) a warning tells why and the cache is off.
  explicit Cache(std::string folder);
  // The process's: TENON_CACHE_DIR, or tenon in XDG_CACHE_HOME, or ~/.cache/tenon; off when there
  // is no home.
  static Cache& process();

  bool usable() const { return usable_; }
  const std::string& folder() const { return folder_; }

  // An entry of a folder that is only read: what an installation ships. NOT_FOUND if there is none,
  // if it is damaged, or if folder or file belong to neither root nor this user, or others may
  // write to them.
  static Result<CacheEntry> read_shared(const std::string& folder, std::string_view kind,
                                        std::span<const std::byte> key);

  // NOT_FOUND if there is no entry; a damaged one is removed with a warning and not found.
  Result<CacheEntry> get(std::string_view kind, std::span<const std::byte> key);
  // Stores atomically. A full disk, a read-only folder or an oversized entry is a warning, once,
  // and false.
  bool put(std::string_view kind, std::span<const std::byte> key,
           std::span<const std::byte> payload);
  // Removes one entry.
  void drop(std::string_view kind, std::span<const std::byte> key);

  // All entries, least recently used first.
  std::vector<CacheListing> list() const;
  // Removes least recently used entries until at most `max_bytes` are left, and temporary files
  // older than an hour. Returns the bytes removed.
  uint64_t prune(uint64_t max_bytes);

 private:
  std::string entry_path(std::string_view kind, std::span<const std::byte> key) const;
  void count_written(uint64_t bytes);
  std::string folder_, root_;
  bool usable_ = false;
};

// A folder of this process alone (0700), removed when the process ends normally: for files that
// must have a path, such as code to be mapped. In the cache folder if that is usable, else in
// TMPDIR or /tmp.
Result<std::string> scratch_folder();

// XXH3-128 as 32 hexadecimal digits: the name under which content is known.
std::string content_name(std::span<const std::byte> bytes);

}  // namespace tenon
