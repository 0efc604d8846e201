// Rules of arithmetic that the host, the SDK and generated code have to agree on, and a mixer for
// hash tables. In a namespace of its own, for the core uses it too.
#ifndef TENON_CPP_ARITHMETIC_HPP_
#define TENON_CPP_ARITHMETIC_HPP_

#include <cstdint>

#include "tenon/abi/graph.h"
#include "tenon/abi/scalar.h"

namespace tenon::arithmetic {

// Rounded down; b > 0, or a / b does not overflow.
constexpr int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
// In [0, b) for b > 0.
constexpr int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r < 0 ? r + b : r;
}

// Whether a TENON_REL_* holds between two sizes.
constexpr bool relation_holds(uint32_t rel, int64_t a, int64_t b) {
  switch (rel) {
    case TENON_REL_EQ:
      return a == b;
    case TENON_REL_LT:
      return a < b;
    case TENON_REL_LE:
      return a <= b;
    default:
      return b != 0 && (b == -1 || a % b == 0);
  }
}

// Whether a TENON_CMP_* holds between two elements.
template <class T>
constexpr bool comparison_holds(uint32_t direction, T a, T b) {
  switch (direction) {
    case TENON_CMP_EQ:
      return a == b;
    case TENON_CMP_NE:
      return a != b;
    case TENON_CMP_LT:
      return a < b;
    case TENON_CMP_LE:
      return a <= b;
    case TENON_CMP_GT:
      return a > b;
    default:
      return a >= b;
  }
}

// The hash of what has hash h so far and v as its next part.
constexpr uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdull;
}

}  // namespace tenon::arithmetic

#endif
