#include "toolchain/object_cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tenon/abi/host.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon_cpu_digest.h"

namespace tenon::cpu {
namespace {

std::string_view name_of(CacheKind kind) {
  switch (kind) {
    case CacheKind::kArtifact:
      return "cpu-artifact";
    case CacheKind::kKernel:
      return "cpu-kernel";
    case CacheKind::kObject:
      return "cpu-object";
    case CacheKind::kGeneral:
      return "cpu-general";
    case CacheKind::kAttempt:
      return "cpu-attempt";
    case CacheKind::kModule:
      return "cpu-module";
  }
  return "";
}

const tenon_host_cache_t* host_cache() {
  static const auto* table = context().query<tenon_host_cache_t>(TENON_HOST_CACHE_ID);
  return table;
}

void append_hash(std::string& out, std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  out.append(reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest);
}

}  // namespace

std::string_view code_version() {
  return TENON_CPU_DIGEST;
}

std::string cache_key(CacheKind kind, Isa isa, std::string_view options, std::string_view content) {
  std::string key;
  append_hash(key, content);
  append_hash(key, cat(name_of(kind), "|", name_of(isa), "|", options, "|", code_version()));
  return key;
}

std::optional<std::string> cache_get(CacheKind kind, std::string_view key) {
  const tenon_host_cache_t* cache = host_cache();
  tenon_blob_t* blob = nullptr;
  if (!cache || !context().graph ||
      cache->get(cache->self, str(name_of(kind)), key.data(), key.size(), &blob) != TENON_OK) {
    return std::nullopt;
  }
  const tenon_host_graph_t& graph = *context().graph;
  const void* data = nullptr;
  uint64_t size = 0;
  std::optional<std::string> out;
  if (graph.blob_data(graph.self, blob, &data, &size) == TENON_OK) {
    out.emplace(static_cast<const char*>(data), size);
  }
  graph.blob_release(graph.self, blob);
  return out;
}

void cache_put(CacheKind kind, std::string_view key, std::string_view data) {
  const tenon_host_cache_t* cache = host_cache();
  if (cache) {
    cache->put(cache->self, str(name_of(kind)), key.data(), key.size(), data.data(), data.size());
  }
}

}  // namespace tenon::cpu
