// The plugin's kinds of entries in tenon.host.cache/1. Keys contain the instruction set and a
// digest of everything that affects generated code (this plugin, kernelgen, clang's version), so
// that a new build never uses an old entry.
#ifndef TENON_PLUGINS_CPU_TOOLCHAIN_OBJECT_CACHE_H_
#define TENON_PLUGINS_CPU_TOOLCHAIN_OBJECT_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "isa.h"

namespace tenon::cpu {

enum class CacheKind : uint8_t {
  kArtifact,  // A whole compiled subgraph, by the hash of the graph.
  kKernel,    // Where a kernel's code is: its structural hash leads to the key of an object.
  kObject,    // The object of a batch of kernels, by the hash of its text.
  kGeneral,   // A shared object with one kernel for any sizes, by its structural hash (the seed).
  kAttempt,   // A mark, under an object's key, that its compilation was started.
  kModule,    // A shared object that tenon.toolchain/1 made, by the hash of its text.
};

// 32 bytes: XXH3-128 of the content and XXH3-128 of the conditions.
std::string cache_key(CacheKind kind, Isa isa, std::string_view options, std::string_view content);

// Nullopt when there is no entry, when it is damaged, or when caching is off. Threads: safe.
std::optional<std::string> cache_get(CacheKind kind, std::string_view key);

// If storing fails, the host warns and nothing else happens. Threads: safe.
void cache_put(CacheKind kind, std::string_view key, std::string_view data);

// Version, and the digest of everything that affects generated code.
std::string_view code_version();

}  // namespace tenon::cpu
#endif
