#include "core/runtime/fill.h"

#include <tenon/abi/copy.h>

namespace tenon::runtime {
namespace {

// Of fewer bytes, the time is that of starting the copy.
constexpr uint64_t kFewestBytes = 1024;
// Drivers fill with at most 4 bytes at a time. Of 8 that differ, a device makes a beginning and
// doubles it: some twenty commands.
constexpr uint64_t kFewestBytesOfWide = 1 << 20;

}  // namespace

bool make_fill(tenon_buffer_t* to, const void* data, uint64_t size_bytes, tenon_copy_t* out) {
  if (size_bytes < kFewestBytes) return false;
  const uint32_t width = tenon_copy_pattern(data, size_bytes, &out->pattern);
  if (width == 0 || (width == 8 && size_bytes < kFewestBytesOfWide)) return false;
  out->direction = TENON_COPY_FILL;
  out->to = to;
  out->length_bytes = size_bytes;
  out->pattern_bytes = width;
  return true;
}

}  // namespace tenon::runtime
