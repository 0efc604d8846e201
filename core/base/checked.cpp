#include "core/base/checked.h"

namespace tenon {

Result<uint64_t> element_count(std::span<const int64_t> dims) {
  uint64_t count = 1;
  bool overflow = false;
  bool zero = false;
  for (int64_t dim : dims) {
    if (dim < 0)
      return error(TENON_INVALID_ARGUMENT, "T0110", "a dimension is {}, and must not be negative",
                   dim);
    zero |= dim == 0;
    overflow |= !checked_mul(count, static_cast<uint64_t>(dim), &count);
  }
  if (zero) return uint64_t{0};
  if (overflow || count > static_cast<uint64_t>(INT64_MAX)) {
    return error(TENON_INVALID_ARGUMENT, "T0110",
                 "the element count of a shape of rank {} does not fit in 63 bits", dims.size());
  }
  return count;
}

Result<uint64_t> packed_bytes(uint64_t count, uint32_t bits) {
  uint64_t total = 0;
  if (!checked_mul(count, uint64_t{bits}, &total) || !checked_add(total, uint64_t{7}, &total)) {
    return error(TENON_INVALID_ARGUMENT, "T0110",
                 "{} elements of {} bits do not fit in 64-bit sizes", count, bits);
  }
  return total / 8;
}

}  // namespace tenon
