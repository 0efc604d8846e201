// Arithmetic on sizes that come from input: every product and sum reports whether it fitted.
#pragma once
#include <cstdint>
#include <span>

#include "core/base/errors/status.h"

namespace tenon {

// True and *out = a op b if it fits in T; false and *out unspecified otherwise.
template <typename T>
[[nodiscard]] constexpr bool checked_add(T a, T b, T* out) {
  return !__builtin_add_overflow(a, b, out);
}
template <typename T>
[[nodiscard]] constexpr bool checked_sub(T a, T b, T* out) {
  return !__builtin_sub_overflow(a, b, out);
}
template <typename T>
[[nodiscard]] constexpr bool checked_mul(T a, T b, T* out) {
  return !__builtin_mul_overflow(a, b, out);
}

// Rounds up to a power of two `alignment`.
[[nodiscard]] constexpr bool checked_align_up(uint64_t value, uint64_t alignment, uint64_t* out) {
  if (!checked_add(value, alignment - 1, out)) return false;
  *out &= ~(alignment - 1);
  return true;
}

// True if [offset, offset + length) lies inside [0, size).
[[nodiscard]] constexpr bool range_inside(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

// Product of non-negative dims. T0110 if one is negative or the product does not fit; a zero dim
// gives 0 even if the others would overflow.
Result<uint64_t> element_count(std::span<const int64_t> dims);

// Bytes of `count` elements of `bits` bits each, rounded up to whole bytes. T0110 on overflow.
Result<uint64_t> packed_bytes(uint64_t count, uint32_t bits);

}  // namespace tenon
