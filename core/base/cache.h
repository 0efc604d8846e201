// The cache folder: files by content, shared by all processes of one user. Entries are created by
// rename, and checked (kind, key, digest) each time they are read. A killed writer, two writers, a
// full disk or a flipped bit therefore cost a recompilation, never a wrong result.
//
// Layout: DIR/v1/KIND/xx/HEX32 where HEX32 is the XXH3-128 of the key. Each file is a header of 64
// bytes, the key, padding to 64, the payload. The folder must be 0700 and owned by this user, or it
// is not used.
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

// The bytes of an entry, checked when it was found; mapped while the object lives.
struct CacheEntry {
  std::shared_ptr<const MappedRegion> region;
  std::span<const std::byte> bytes;
};

struct CacheListing {
  std::string kind, path;
  uint64_t size_bytes = 0;
  int64_t used_ns = 0;  // time of last use
};

// What a look-up found, for `Cache::watch`.
struct CacheLookup {
  enum class Found : uint8_t { kNothing, kHere, kShipped };
  Found found = Found::kNothing;
  std::string_view kind;
  std::string name;        // of the entry's file
  std::string difference;  // kNothing: from the most similar entry, in words; may be empty
};

// Threads: safe. A cache that is off finds nothing and stores nothing.
class Cache {
 public:
  // Opens the folder, making it if needed. If it cannot be used (T0801: another owner, a link,
  // writable by other users, cannot be made), warns with the reason; the cache is then off.
  explicit Cache(std::string folder);
  // The cache of the process: TENON_CACHE_DIR, or tenon in XDG_CACHE_HOME, or ~/.cache/tenon; off
  // without a home folder.
  static Cache& process();

  bool usable() const { return usable_; }
  const std::string& why_not() const { return why_not_; }  // in words, if it is not usable
  const std::string& folder() const { return folder_; }

  // An entry of a read-only folder, such as an installation ships. NOT_FOUND if there is none, if
  // it is damaged, if the folder or file belongs to neither root nor this user, or if others may
  // write to it.
  static Result<CacheEntry> read_shared(const std::string& folder, std::string_view kind,
                                        std::span<const std::byte> key);

  // NOT_FOUND if there is no entry. A damaged entry is removed with a warning and counts as none.
  Result<CacheEntry> get(std::string_view kind, std::span<const std::byte> key);
  // Stores atomically. On a full disk, a read-only folder or an oversized entry, warns once and
  // returns false.
  bool put(std::string_view kind, std::span<const std::byte> key,
           std::span<const std::byte> payload);
  // Removes one entry.
  void drop(std::string_view kind, std::span<const std::byte> key);

  // From now on `watcher` is called with each look-up of this process, one at a time; null stops.
  // For the search of similar entries the first miss of a kind reads the keys of its entries. Setup
  // only.
  static void watch(void (*watcher)(void* self, const CacheLookup& lookup), void* self);
  // Passes a look-up to the watcher, if there is one. Called by the code that looked in all places.
  void report_lookup(CacheLookup::Found found, std::string_view kind,
                     std::span<const std::byte> key) const;

  // The folder for graphs that crashes leave.
  std::string reproducers() const;

  // All entries and reproducers, least recently used first.
  std::vector<CacheListing> list() const;
  // Removes least recently used entries until at most `max_bytes` are left, and temporary files
  // older than an hour. Returns the bytes removed.
  uint64_t prune(uint64_t max_bytes);

 private:
  std::string entry_path(std::string_view kind, std::span<const std::byte> key) const;
  std::string difference(std::string_view kind, std::span<const std::byte> key) const;
  void count_written(uint64_t bytes);
  std::string folder_, root_, why_not_;
  bool usable_ = false;
};

// A private folder (0700) of this process, removed when the process ends normally. It is for files
// that must have a path, such as code to be mapped. In the cache folder if that is usable, else in
// TMPDIR or /tmp.
Result<std::string> scratch_folder();

// XXH3-128 as 32 hexadecimal digits: the name of content.
std::string content_name(std::span<const std::byte> bytes);

}  // namespace tenon
