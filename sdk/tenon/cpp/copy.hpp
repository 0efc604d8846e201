// Checks of copies: tenon/abi/copy.h, with the numbers in the reason.
#ifndef TENON_CPP_COPY_HPP_
#define TENON_CPP_COPY_HPP_

#include "tenon/abi/copy.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::inline sdk {

// A copy as the host gave it, with the fields that it does not know as nothing. Threads: safe.
inline Status take_copy(const tenon_copy_t* given, tenon_copy_t* out) {
  if (tenon_record_take(out, sizeof *out, given) == TENON_OK) return {};
  return fail(TENON_INVALID_ARGUMENT, "a copy without its size");
}

// INVALID_ARGUMENT if the direction of the copy is unknown, a buffer is missing, or its pattern
// does not fit: all faults that can be found without the buffers. Threads: safe.
inline Status check_copy_kind(const tenon_copy_t& copy) {
  const char* fault = tenon_copy_kind_fault(&copy);
  if (fault == nullptr) return {};
  return fail(TENON_INVALID_ARGUMENT,
              cat(fault, ": direction ", copy.direction, ", ", copy.length_bytes,
                  " bytes, a pattern of ", copy.pattern_bytes));
}

// The same, and OUT_OF_RANGE if a range leaves its buffer. Sizes are those of copy.from and
// copy.to; any value for a buffer that is not used.
inline Status check_copy(const tenon_copy_t& copy, uint64_t from_size_bytes,
                         uint64_t to_size_bytes) {
  TENON_TRY(check_copy_kind(copy));
  const char* fault = tenon_copy_range_fault(&copy, from_size_bytes, to_size_bytes);
  if (fault == nullptr) return {};
  std::string reason = cat(fault, ": ", copy.length_bytes, " bytes");
  if (tenon_copy_reads(&copy))
    reason += cat(", from ", copy.from_offset_bytes, " of ", from_size_bytes);
  if (tenon_copy_writes(&copy)) reason += cat(", to ", copy.to_offset_bytes, " of ", to_size_bytes);
  return fail(TENON_OUT_OF_RANGE, reason);
}

}  // namespace tenon::inline sdk

#endif  // TENON_CPP_COPY_HPP_
