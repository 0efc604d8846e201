#include "core/base/cache.h"

#include <dirent.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/checked.h"
#include "core/base/limits.h"
#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/str.h"

namespace tenon {
namespace {

constexpr char kMagic[8] = {'T', 'E', 'N', 'O', 'N', 'C', '1', '\n'};
constexpr uint64_t kAlignment = 64;
constexpr int64_t kTemporaryAgeNs = int64_t{3600} * 1000000000;
constexpr int64_t kTouchAfterNs =
    int64_t{3600} * 1000000000;  // use times are kept to the hour, so that most reads write nothing

struct Header {
  char magic[8];
  uint64_t key_bytes, payload_bytes;
  uint64_t kind_hash;
  uint64_t key_digest[2];
  uint64_t payload_digest[2];
};
static_assert(sizeof(Header) == kAlignment);

XXH128_hash_t digest(std::span<const std::byte> bytes) {
  return XXH3_128bits(bytes.data(), bytes.size());
}

std::string hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Header make_header(std::string_view kind, std::span<const std::byte> key,
                   std::span<const std::byte> payload) {
  Header header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.key_bytes = key.size();
  header.payload_bytes = payload.size();
  header.kind_hash = XXH3_64bits(kind.data(), kind.size());
  XXH128_hash_t of_key = digest(key), of_payload = digest(payload);
  header.key_digest[0] = of_key.low64;
  header.key_digest[1] = of_key.high64;
  header.payload_digest[0] = of_payload.low64;
  header.payload_digest[1] = of_payload.high64;
  return header;
}

// Null, with the payload in *out_payload, if everything about the file's bytes is right; else the
// reason.
const char* check_entry(std::span<const std::byte> bytes, std::string_view kind,
                        std::span<const std::byte> key, std::span<const std::byte>* out_payload) {
  Header header;
  if (bytes.size() < sizeof(header)) return "it is cut short";
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0)
    return "it is not a cache entry of this version";
  uint64_t begin = 0, end = 0;
  if (!checked_add(uint64_t{sizeof(header)}, header.key_bytes, &begin) ||
      !checked_align_up(begin, kAlignment, &begin) ||
      !checked_add(begin, header.payload_bytes, &end) || end != bytes.size()) {
    return "its size is not what its header says";
  }
  if (header.key_bytes != key.size() ||
      std::memcmp(bytes.data() + sizeof(header), key.data(), key.size()) != 0) {
    return "it belongs to another key";
  }
  std::span<const std::byte> payload = bytes.subspan(begin, header.payload_bytes);
  Header expected = make_header(kind, key, payload);
  if (std::memcmp(&header, &expected, sizeof(header)) != 0) return "its digest does not match";
  *out_payload = payload;
  return nullptr;
}

// Why the folder must not be used; empty if it may be.
std::string why_unusable(const std::string& folder) {
  if (Status made = make_folders(folder, 0700); !made.ok()) return made.text();
  Result<FileIdentity> identity = identify_link(folder);
  if (!identity.ok()) return identity.status().text();
  if (S_ISLNK(identity->mode)) return "it is a symbolic link";
  if (!S_ISDIR(identity->mode)) return "it is not a folder";
  if (identity->owner != ::geteuid()) return fmt::format("it belongs to user {}", identity->owner);
  if ((identity->mode & 0022) != 0) return "other users may write to it";
  return {};
}

std::string default_folder() {
  if (auto chosen = env("TENON_CACHE_DIR")) return std::string(*chosen);
  if (is_privileged_process()) return {};
  if (auto xdg = env("XDG_CACHE_HOME"); xdg && xdg->starts_with('/'))
    return join_path(*xdg, "tenon");
  if (auto home = env("HOME"); home && home->starts_with('/'))
    return join_path(*home, ".cache/tenon");
  return {};
}

// Different in each process.
uint64_t random_number() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
    number = static_cast<uint64_t>(::getpid()) * 0x9e3779b97f4a7c15u;
  return number;
}

int64_t wall_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

}  // namespace

std::string content_name(std::span<const std::byte> bytes) {
  return hex(digest(bytes));
}

Cache::Cache(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) {
    why_not_ = "there is no home folder, and TENON_CACHE_DIR names none";
    // Every run then compiles again, and its time alone would not show why.
    if (log_once("no cache folder"))
      log_warning("cache", "T0801: nothing is cached: {}; each run compiles again", why_not_);
    return;
  }
  std::string trouble = folder_[0] == '/' ? why_unusable(folder_) : "its path is not absolute";
  root_ = join_path(folder_, "v1");
  if (trouble.empty()) {
    if (Status made = make_folders(root_, 0700); !made.ok()) {
      // A read-only cache that has entries is still worth reading.
      if (!identify(root_).ok()) trouble = made.text();
    }
  }
  usable_ = trouble.empty();
  why_not_ = trouble;
  if (!usable_) {
    log_warning("cache", "T0801: the cache folder {} is not used: {}", quoted(folder_), trouble);
  }
}

Cache& Cache::process() {
  static Cache* instance =
      new Cache(default_folder());  // never destroyed: threads may use it during exit
  return *instance;
}

std::string Cache::reproducers() const {
  return join_path(folder_, "reproducers");
}

std::string Cache::entry_path(std::string_view kind, std::span<const std::byte> key) const {
  std::string name = content_name(key);
  return fmt::format("{}/{}/{}/{}", root_, kind, name.substr(0, 2), name);
}

Result<CacheEntry> Cache::read_shared(const std::string& folder, std::string_view kind,
                                      std::span<const std::byte> key) {
  auto not_found = [&] {
    return error(TENON_NOT_FOUND, "T0802", "no cached {} under this key", kind);
  };
  const auto trusted = [](const FileIdentity& i) {
    return (i.owner == 0 || i.owner == ::geteuid()) && (i.mode & 0022) == 0;
  };
  if (folder.empty() || folder[0] != '/') return not_found();
  const Result<FileIdentity> place = identify_link(folder);
  if (!place.ok() || !S_ISDIR(place->mode) || !trusted(*place)) return not_found();
  const std::string name = content_name(key);
  Result<File> file =
      open_no_follow(join_path(folder, fmt::format("v1/{}/{}/{}", kind, name.substr(0, 2), name)));
  if (!file.ok() || !trusted(file->identity()) || file->size_bytes() > limit(Limit::kCacheBytes))
    return not_found();
  CacheEntry entry;
  TENON_ASSIGN_OR_RETURN(entry.region, map_file(*file));
  if (check_entry(entry.region->bytes(), kind, key, &entry.bytes) != nullptr) return not_found();
  return entry;
}

Result<CacheEntry> Cache::get(std::string_view kind, std::span<const std::byte> key) {
  auto not_found = [&] {
    return error(TENON_NOT_FOUND, "T0802", "no cached {} under this key", kind);
  };
  if (!usable_) return not_found();
  std::string path = entry_path(kind, key);
  Result<File> file = open_no_follow(path);
  if (!file.ok()) return not_found();
  const char* trouble = nullptr;
  CacheEntry entry;
  if (file->identity().owner != ::geteuid()) {
    trouble = "it belongs to another user";
  } else if (file->size_bytes() > limit(Limit::kCacheBytes)) {
    trouble = "it is larger than the cache may be";
  } else {
    TENON_ASSIGN_OR_RETURN(entry.region, map_file(*file));
    trouble = check_entry(entry.region->bytes(), kind, key, &entry.bytes);
  }
  if (trouble != nullptr) {
    log_warning("cache", "T0802: the cached file {} is ignored and removed: {}", quoted(path),
                trouble);
    (void)remove_file(path);
    return not_found();
  }
  if (wall_ns() - file->identity().mtime_ns > kTouchAfterNs) {
    (void)::futimens(file->descriptor(), nullptr);
  }
  return entry;
}

bool Cache::put(std::string_view kind, std::span<const std::byte> key,
                std::span<const std::byte> payload) {
  if (!usable_) return false;
  auto write = [&]() -> Status {
    std::string path = entry_path(kind, key);
    TENON_RETURN_IF_ERROR(make_folders(folder_of(path), 0700));
    TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path, 0600));
    Header header = make_header(kind, key, payload);
    static constexpr std::byte kPadding[kAlignment] = {};
    TENON_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(&header, 1))));
    TENON_RETURN_IF_ERROR(file.write(key));
    TENON_RETURN_IF_ERROR(
        file.write(std::span(kPadding).first((kAlignment - key.size() % kAlignment) % kAlignment)));
    TENON_RETURN_IF_ERROR(file.write(payload));
    return file.commit();
  };
  Status status = check_limit(Limit::kCacheBytes, payload.size(), "a cache entry");
  if (status.ok()) status = write();
  if (!status.ok()) {
    if (log_once(fmt::format("cache write {}", folder_))) {
      log_warning("cache", "T0803: nothing is written to the cache {}: {}", quoted(folder_),
                  status.text());
    }
    return false;
  }
  count_written(payload.size());
  return true;
}

void Cache::count_written(uint64_t bytes) {
  // Listing the folder means walking it, so the bound is checked once for every 64 MB that are
  // written. Each process begins to count at a random number: then many processes that write little
  // check as often as one that writes as much as all of them.
  constexpr uint64_t kCheckEvery = uint64_t{64} << 20;
  const uint64_t step = std::min(kCheckEvery, limit(Limit::kCacheBytes) / 4 + 1);
  static std::atomic<uint64_t> written{random_number() % step};
  const uint64_t before = written.fetch_add(bytes);
  if (before / step != (before + bytes) / step) prune(limit(Limit::kCacheBytes));
}

void Cache::drop(std::string_view kind, std::span<const std::byte> key) {
  if (usable_) (void)remove_file(entry_path(kind, key));
}

namespace {
template <typename Visit>
void each_file(const std::string& root, Visit visit) {
  std::vector<std::string> none;
  for (const std::string& kind : list_folder(root).value_or(none)) {
    std::string kind_folder = join_path(root, kind);
    for (const std::string& part : list_folder(kind_folder).value_or(none)) {
      std::string folder = join_path(kind_folder, part);
      for (const std::string& name : list_folder(folder).value_or(none))
        visit(kind, join_path(folder, name), name);
    }
  }
}
}  // namespace

namespace {
std::mutex g_watch_mutex;
void (*g_watcher)(void* self, const CacheLookup& lookup) = nullptr;
void* g_watcher_self = nullptr;
std::atomic<bool> g_watched{false};

constexpr size_t kDigestBytes = 16;  // keys of two digests: of the content, and of the conditions

// The key of an entry's file, if its header is right as far as it goes.
std::string key_of(const std::string& path) {
  const Result<File> file = open_no_follow(path);
  if (!file.ok()) return "";
  const Result<std::shared_ptr<const MappedRegion>> region = map_file(*file);
  Header header;
  if (!region.ok() || (*region)->bytes().size() < sizeof header) return "";
  const std::span<const std::byte> bytes = (*region)->bytes();
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 ||
      header.key_bytes > bytes.size() - sizeof header)
    return "";
  return {reinterpret_cast<const char*>(bytes.data()) + sizeof header, header.key_bytes};
}

// The keys of a kind's entries as of the first question, of so many that it takes no more than a
// moment; a similar entry among further ones is then not found.
constexpr size_t kKeysRead = 20000;
const std::vector<std::string>& keys_of(const std::string& kind_folder) {
  static std::mutex mutex;
  static auto* by_kind = new std::map<std::string, std::vector<std::string>>;
  const std::lock_guard lock(mutex);
  const auto [found, fresh] = by_kind->try_emplace(kind_folder);
  if (!fresh) return found->second;
  for (const std::string& part : list_folder(kind_folder).value_or(std::vector<std::string>())) {
    const std::string folder = join_path(kind_folder, part);
    for (const std::string& name : list_folder(folder).value_or(std::vector<std::string>())) {
      if (found->second.size() == kKeysRead) return found->second;
      found->second.push_back(key_of(join_path(folder, name)));
    }
  }
  return found->second;
}
}  // namespace

void Cache::watch(void (*watcher)(void* self, const CacheLookup& lookup), void* self) {
  const std::lock_guard lock(g_watch_mutex);
  g_watcher = watcher;
  g_watcher_self = self;
  g_watched = watcher != nullptr;
}

void Cache::report_lookup(CacheLookup::Found found, std::string_view kind,
                          std::span<const std::byte> key) const {
  if (!g_watched) return;
  CacheLookup lookup{found, kind, content_name(key), ""};
  if (found == CacheLookup::Found::kNothing) lookup.difference = difference(kind, key);
  const std::lock_guard lock(g_watch_mutex);
  if (g_watcher != nullptr) g_watcher(g_watcher_self, lookup);
}

std::string Cache::difference(std::string_view kind, std::span<const std::byte> key) const {
  if (!usable_ || key.size() != 2 * kDigestBytes) return "";
  const std::string_view mine(reinterpret_cast<const char*>(key.data()), key.size());
  bool conditions = false;
  for (const std::string& other : keys_of(join_path(root_, kind))) {
    if (other.size() != mine.size()) continue;
    if (mine.starts_with(std::string_view(other).substr(0, kDigestBytes)))
      return "the same was compiled under other conditions: another build of the plugin, "
             "instruction set or option";
    conditions |= mine.ends_with(std::string_view(other).substr(kDigestBytes));
  }
  return conditions ? "other content was compiled under these conditions, this was not" : "";
}

std::vector<CacheListing> Cache::list() const {
  std::vector<CacheListing> entries;
  if (!usable_) return entries;
  const auto add = [&](const std::string& kind, std::string path, const std::string& name) {
    Result<FileIdentity> identity = identify_link(path);
    if (!identity.ok() || !S_ISREG(identity->mode) || name.starts_with('.')) return;
    entries.push_back({kind, std::move(path), identity->size_bytes, identity->mtime_ns});
  };
  each_file(root_, add);
  const std::string left = reproducers();
  // A link may lead to files that are not ours to remove.
  if (const Result<FileIdentity> place = identify_link(left); place.ok() && S_ISDIR(place->mode)) {
    for (const std::string& name : list_folder(left).value_or(std::vector<std::string>()))
      add("reproducers", join_path(left, name), name);
  }
  std::sort(entries.begin(), entries.end(), [](const CacheListing& a, const CacheListing& b) {
    return a.used_ns != b.used_ns ? a.used_ns < b.used_ns : a.path < b.path;
  });
  return entries;
}

uint64_t Cache::prune(uint64_t max_bytes) {
  if (!usable_) return 0;
  uint64_t total = 0, removed = 0;
  std::vector<CacheListing> entries = list();
  for (const CacheListing& entry : entries) total += entry.size_bytes;
  for (const CacheListing& entry : entries) {
    if (total - removed <= max_bytes) break;
    if (remove_file(entry.path).ok()) removed += entry.size_bytes;
  }
  each_file(root_, [&](const std::string&, const std::string& path, const std::string& name) {
    if (!name.starts_with(".tmp.")) return;
    Result<FileIdentity> identity = identify_link(path);
    if (identity.ok() && wall_ns() - identity->mtime_ns > kTemporaryAgeNs) (void)remove_file(path);
  });
  return removed;
}

namespace {
std::string& scratch_path() {
  static std::string* path = new std::string;
  return *path;
}
pid_t scratch_owner = 0;

void remove_scratch() {
  if (scratch_owner != ::getpid()) return;
  const std::string& folder = scratch_path();
  for (const std::string& name : list_folder(folder).value_or({}))
    (void)remove_file(join_path(folder, name));
  ::rmdir(folder.c_str());
}
}  // namespace

Result<std::string> scratch_folder() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (scratch_owner == ::getpid()) return scratch_path();
  Cache& cache = Cache::process();
  std::string tried;
  for (std::string parent :
       {cache.usable() ? cache.folder() : std::string(), std::string(env("TMPDIR").value_or("")),
        std::string("/tmp"), std::string("/dev/shm")}) {
    if (parent.empty() || parent[0] != '/') continue;
    std::string pattern = join_path(parent, "scratch.XXXXXX");
    if (::mkdtemp(pattern.data()) == nullptr) {
      tried += (tried.empty() ? "" : ", ") + parent;
      continue;
    }
    scratch_path() = pattern;
    if (scratch_owner == 0) std::atexit(remove_scratch);
    scratch_owner = ::getpid();
    return pattern;
  }
  return error(TENON_UNAVAILABLE, "T0107", "no folder for temporary files can be written; tried {}",
               tried);
}

}  // namespace tenon
