// tenon.host.threads/1, tenon.host.cache/1 and tenon.host.files/1: thin tables over core/base.
#include <tenon/abi/host.h>
#include <tenon/abi/memory.h>

#include "core/base/cache.h"
#include "core/base/errors/guard.h"
#include "core/base/file.h"
#include "core/base/process/environment.h"
#include "core/base/process/memory.h"
#include "core/base/process/thread_pool.h"
#include "core/base/str.h"
#include "core/host/discovery/places.h"
#include "core/host/host_interfaces.h"
#include "core/ir/blob.h"

namespace tenon::host {
namespace {

std::span<const std::byte> bytes_of(const void* data, uint64_t size) {
  return {static_cast<const std::byte*>(data), data == nullptr ? 0 : size};
}

// ---- Threads ----

tenon_code_t threads_parallel(void*, tenon_range_fn_t fn, void* context, int64_t n, int64_t grain) {
  return guarded([&] { return parallel(fn, context, n, grain); });
}
uint32_t threads_count(void*) {
  return guarded_or(1u, [] { return thread_count(); });
}
void threads_use_team(void*, const tenon_team_t* team) {
  use_team(team);
}
tenon_code_t threads_set_count(void*, uint32_t count) {
  return guarded([&] {
    if (count > kThreadCountMax) {
      return to_abi(error(TENON_INVALID_ARGUMENT, "T0004",
                          "{} threads are more than the {} of a pool", count, kThreadCountMax));
    }
    set_thread_count(count);
    return tenon_code_t{TENON_OK};
  });
}
uint32_t threads_limit(void*, uint32_t count) {
  return limit_threads(count);
}
constexpr tenon_host_threads_t kThreads = {sizeof(kThreads), nullptr,          threads_parallel,
                                           threads_count,    threads_use_team, threads_set_count,
                                           threads_limit};

// ---- Cache ----

bool is_kind(std::string_view kind) {
  if (kind.empty() || kind.size() > 32) return false;
  for (char c : kind) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return false;
  }
  return true;
}
Status check_kind(std::string_view kind) {
  if (is_kind(kind)) return Status();
  return error(TENON_INVALID_ARGUMENT, "T0804",
               "the kind {} of a cache entry must be 1 to 32 of a-z 0-9 -", quoted(kind));
}

// The cache that the installation ships: TENON_SEED_DIR, else `seed` beside the plugins.
const std::string& seed_folder() {
  static const std::string* folder = [] {
    if (const auto chosen = env("TENON_SEED_DIR"))  // a privileged process: the program's setting
      return new std::string(*chosen);
    return new std::string(join_path(own_folder(), "tenon/seed"));
  }();
  return *folder;
}

tenon_code_t cache_get(void*, tenon_str_t kind, const void* key, uint64_t key_bytes,
                       tenon_blob_t** out_blob) {
  return guarded([&]() -> Status {
    TENON_RETURN_IF_ERROR(check_kind(from_abi_str(kind)));
    Result<CacheEntry> entry = Cache::process().get(from_abi_str(kind), bytes_of(key, key_bytes));
    using Found = CacheLookup::Found;
    Found found = entry.ok() ? Found::kHere : Found::kNothing;
    if (!entry.ok()) {
      Result<CacheEntry> shipped =
          Cache::read_shared(seed_folder(), from_abi_str(kind), bytes_of(key, key_bytes));
      if (shipped.ok()) {
        entry = std::move(shipped);
        found = Found::kShipped;
      }
    }
    Cache::process().report_lookup(found, from_abi_str(kind), bytes_of(key, key_bytes));
    if (!entry.ok()) return entry.status();
    const std::byte* base = entry->region->bytes().data();
    TENON_ASSIGN_OR_RETURN(
        ir::Ref<ir::Blob> blob,
        ir::blob_range(ir::blob_mapped(entry->region),
                       static_cast<uint64_t>(entry->bytes.data() - base), entry->bytes.size()));
    *out_blob = std::move(blob).detach()->abi();
    return {};
  });
}

tenon_code_t cache_put(void*, tenon_str_t kind, const void* key, uint64_t key_bytes,
                       const void* data, uint64_t size_bytes) {
  return guarded([&]() -> Status {
    TENON_RETURN_IF_ERROR(check_kind(from_abi_str(kind)));
    (void)Cache::process().put(from_abi_str(kind), bytes_of(key, key_bytes),
                               bytes_of(data, size_bytes));
    return {};
  });
}

Status give_scratch_path(std::string_view name, const tenon_sink_t& out_path) {
  if (name.empty() || name.size() > 200 || name.find('/') != std::string_view::npos ||
      name[0] == '.' || name.find('\0') != std::string_view::npos) {
    return error(TENON_INVALID_ARGUMENT, "T0104", "{} is not a plain file name", quoted(name));
  }
  TENON_ASSIGN_OR_RETURN(const std::string folder, scratch_folder());
  const std::string path = join_path(folder, name);
  return from_abi(out_path.write(out_path.self, path.data(), path.size()), "writing to the caller");
}
tenon_code_t cache_scratch_path(void*, tenon_str_t name, const tenon_sink_t* out_path) {
  return guarded([&] { return give_scratch_path(from_abi_str(name), *out_path); });
}
constexpr tenon_host_cache_t kCache = {sizeof(kCache), nullptr, cache_get, cache_put,
                                       cache_scratch_path};

// ---- Files ----

void give_mapped(std::shared_ptr<const MappedRegion> region, tenon_blob_t** out_blob) {
  *out_blob = ir::blob_mapped(std::move(region)).detach()->abi();
}

tenon_code_t files_map(void*, tenon_str_t path, tenon_blob_t** out_blob) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const File file, open_user_file(from_abi_str(path)));
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<const MappedRegion> region, map_file(file));
    give_mapped(std::move(region), out_blob);
    return {};
  });
}

tenon_code_t files_map_beneath(void*, tenon_str_t folder, tenon_str_t name, uint64_t offset,
                               uint64_t size_bytes, tenon_blob_t** out_blob) {
  return guarded([&]() -> Status {
    const std::string_view where = from_abi_str(folder);
    TENON_ASSIGN_OR_RETURN(const File file,
                           open_beneath(where.empty() ? "." : where, from_abi_str(name)));
    const uint64_t rest = offset <= file.size_bytes() ? file.size_bytes() - offset : size_bytes;
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<const MappedRegion> region,
                           map_region(file, offset, size_bytes == UINT64_MAX ? rest : size_bytes));
    give_mapped(std::move(region), out_blob);
    return {};
  });
}

tenon_code_t files_write(void*, tenon_str_t path, const void* data, uint64_t size_bytes) {
  return guarded([&] {
    return write_file(from_abi_str(path),
                      {static_cast<const char*>(data), data == nullptr ? 0 : size_bytes});
  });
}
constexpr tenon_host_files_t kFiles = {sizeof(kFiles), nullptr, files_map, files_map_beneath,
                                       files_write};

// ---- Memory ----

tenon_code_t count_memory(void*, uint64_t bytes, tenon_str_t what) {
  return guarded([&] { return memory_reserve(bytes, printable(from_abi_str(what))); });
}
void return_memory(void*, uint64_t bytes) {
  memory_return(bytes);
}
constexpr tenon_host_memory_t kMemory = {sizeof(kMemory), nullptr, count_memory, return_memory};

}  // namespace

void register_service_interfaces() {
  register_host_interface(TENON_HOST_MEMORY_ID, TENON_HOST_MEMORY_MINOR, &kMemory);
  register_host_interface(TENON_HOST_THREADS_ID, TENON_HOST_THREADS_MINOR, &kThreads);
  register_host_interface(TENON_HOST_CACHE_ID, TENON_HOST_CACHE_MINOR, &kCache);
  register_host_interface(TENON_HOST_FILES_ID, TENON_HOST_FILES_MINOR, &kFiles);
}

}  // namespace tenon::host
