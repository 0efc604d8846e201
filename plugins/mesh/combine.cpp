#include "combine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/elements.hpp"

namespace tenon::mesh {
namespace {

// Elements that are combined in f32.
template <tenon_dtype_t kType>
struct Narrow {
  uint16_t bits;
  operator float() const { return static_cast<float>(load_double(kType, &bits)); }
  static Narrow of(float value) {
    Narrow out = {};
    store_double(kType, &out.bits, static_cast<double>(value));
    return out;
  }
};

template <class T>
struct Number {
  using Wide = T;
  static T of(T value) { return value; }
};
template <tenon_dtype_t kType>
struct Number<Narrow<kType>> {
  using Wide = float;
  static Narrow<kType> of(float value) { return Narrow<kType>::of(value); }
};

template <class Wide>
Wide add(Wide a, Wide b) {
  if constexpr (std::is_integral_v<Wide>) {  // wraps
    using Bits = std::make_unsigned_t<Wide>;
    return static_cast<Wide>(static_cast<Bits>(static_cast<Bits>(a) + static_cast<Bits>(b)));
  } else {
    return a + b;
  }
}
template <class Wide>
Wide least(Wide a, Wide b) {
  if constexpr (std::is_floating_point_v<Wide>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return b < a ? b : a;
}
template <class Wide>
Wide greatest(Wide a, Wide b) {
  if constexpr (std::is_floating_point_v<Wide>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a < b ? b : a;
}

// Blocks stay in the cache while all parts are added to them.
constexpr uint64_t kBlock = 4096;

template <class T, class Function>
void fold_parts(const T* parts, int64_t count, uint64_t elements, T* out, Function function) {
  using Wide = typename Number<T>::Wide;
  Wide sums[kBlock];
  for (uint64_t first = 0; first < elements; first += kBlock) {
    const uint64_t length = std::min(kBlock, elements - first);
    for (uint64_t i = 0; i < length; ++i) sums[i] = static_cast<Wide>(parts[first + i]);
    for (int64_t p = 1; p < count; ++p) {
      const T* part = parts + static_cast<uint64_t>(p) * elements + first;
      for (uint64_t i = 0; i < length; ++i) sums[i] = function(sums[i], static_cast<Wide>(part[i]));
    }
    for (uint64_t i = 0; i < length; ++i) out[first + i] = Number<T>::of(sums[i]);
  }
}

template <class T>
void combine_as(uint32_t combine, const void* parts, int64_t count, uint64_t elements, void* out) {
  using Wide = typename Number<T>::Wide;
  const T* from = static_cast<const T*>(parts);
  T* to = static_cast<T*>(out);
  if (combine == TENON_COMBINE_SUM) return fold_parts(from, count, elements, to, add<Wide>);
  if (combine == TENON_COMBINE_MIN) return fold_parts(from, count, elements, to, least<Wide>);
  return fold_parts(from, count, elements, to, greatest<Wide>);
}

}  // namespace

void combine_parts(uint32_t combine, tenon_dtype_t dtype, const void* parts, int64_t count,
                   uint64_t elements, void* out) {
  const auto as = [&]<class T>(T) { combine_as<T>(combine, parts, count, elements, out); };
  switch (dtype) {
    case TENON_F16:
      return as(Narrow<TENON_F16>{});
    case TENON_BF16:
      return as(Narrow<TENON_BF16>{});
    case TENON_F32:
      return as(float{});
    case TENON_F64:
      return as(double{});
    case TENON_I8:
      return as(int8_t{});
    case TENON_I16:
      return as(int16_t{});
    case TENON_I32:
      return as(int32_t{});
    case TENON_I64:
      return as(int64_t{});
    case TENON_U8:
      return as(uint8_t{});
    case TENON_U16:
      return as(uint16_t{});
    case TENON_U32:
      return as(uint32_t{});
    default:
      return as(uint64_t{});
  }
}

}  // namespace tenon::mesh
