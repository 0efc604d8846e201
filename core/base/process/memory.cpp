#include "core/base/process/memory.h"

#include <atomic>

#include "core/base/limits.h"

namespace tenon {
namespace {
std::atomic<uint64_t> g_memory_in_use{0};
}

uint64_t memory_in_use() {
  return g_memory_in_use.load(std::memory_order_relaxed);
}

Status memory_reserve(uint64_t bytes, std::string_view what) {
  const uint64_t allowed = limit(Limit::kMemoryBytes);
  uint64_t used = g_memory_in_use.load(std::memory_order_relaxed);
  do {
    if (bytes > allowed || used > allowed - bytes) {
      return error(TENON_RESOURCE_EXHAUSTED, "T0609",
                   "{} needs {} bytes; {} are in use and TENON_MEMORY_LIMIT is {}", what, bytes,
                   used, allowed);
    }
  } while (!g_memory_in_use.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return {};
}

void memory_return(uint64_t bytes) {
  g_memory_in_use.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace tenon
