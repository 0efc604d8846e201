// The element types: name, width and class of each, and their elements in memory. In a namespace of
// its own, for the core uses it too.
#ifndef TENON_CPP_ELEMENTS_HPP_
#define TENON_CPP_ELEMENTS_HPP_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "tenon/abi/base.h"

namespace tenon::elements {

enum class Class : uint8_t { kNone, kPred, kSigned, kUnsigned, kFloat, kComplex };

struct Element {
  std::string_view name;
  uint8_t bits;
  Class kind;
};

// One more than the last number that is a type.
inline constexpr tenon_dtype_t kDtypeEnd = TENON_C128 + 1;

inline constexpr Element kElements[kDtypeEnd] = {
    {"", 0, Class::kNone},          {"pred", 8, Class::kPred},      {"i4", 4, Class::kSigned},
    {"u4", 4, Class::kUnsigned},    {"i8", 8, Class::kSigned},      {"i16", 16, Class::kSigned},
    {"i32", 32, Class::kSigned},    {"i64", 64, Class::kSigned},    {"u8", 8, Class::kUnsigned},
    {"u16", 16, Class::kUnsigned},  {"u32", 32, Class::kUnsigned},  {"u64", 64, Class::kUnsigned},
    {"f8e4m3fn", 8, Class::kFloat}, {"f8e5m2", 8, Class::kFloat},   {"f16", 16, Class::kFloat},
    {"bf16", 16, Class::kFloat},    {"f32", 32, Class::kFloat},     {"f64", 64, Class::kFloat},
    {"c64", 64, Class::kComplex},   {"c128", 128, Class::kComplex},
};

// The entry of TENON_DTYPE_NONE for a number that is not an element type.
constexpr const Element& element(tenon_dtype_t dtype) {
  return kElements[dtype < kDtypeEnd ? dtype : TENON_DTYPE_NONE];
}

constexpr bool dtype_valid(tenon_dtype_t dtype) {
  return dtype > TENON_DTYPE_NONE && dtype < kDtypeEnd;
}
// "f32"; empty for a number that is not an element type.
constexpr std::string_view dtype_name(tenon_dtype_t dtype) {
  return element(dtype).name;
}
// TENON_DTYPE_NONE when the word names none.
constexpr tenon_dtype_t dtype_from_name(std::string_view name) {
  for (tenon_dtype_t d = 1; d < kDtypeEnd; ++d) {
    if (kElements[d].name == name) return d;
  }
  return TENON_DTYPE_NONE;
}
// Bits of one element; 0 for none.
constexpr uint32_t dtype_bits(tenon_dtype_t dtype) {
  return element(dtype).bits;
}
constexpr bool dtype_is_float(tenon_dtype_t dtype) {  // f8 to f64
  return element(dtype).kind == Class::kFloat;
}
constexpr bool dtype_is_signed(tenon_dtype_t dtype) {  // integers
  return element(dtype).kind == Class::kSigned;
}
constexpr bool dtype_is_integer(tenon_dtype_t dtype) {  // not pred
  return dtype_is_signed(dtype) || element(dtype).kind == Class::kUnsigned;
}
constexpr bool dtype_is_complex(tenon_dtype_t dtype) {
  return element(dtype).kind == Class::kComplex;
}

// ---- Elements in memory ----

template <class T>
T load_as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void store_as(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// An integer as its type holds it in 64 bits: sign- or zero-extended from its width; a predicate is
// 0 or 1. Other types stay as they are.
constexpr int64_t wrap(tenon_dtype_t dtype, int64_t v) {
  if (dtype == TENON_PRED) return v != 0;
  const uint32_t bits = dtype_bits(dtype);
  if (!dtype_is_integer(dtype) || bits < 8) return v;
  const uint64_t high = static_cast<uint64_t>(v) << (64 - bits);
  return dtype_is_signed(dtype) ? static_cast<int64_t>(high) >> (64 - bits)
                                : static_cast<int64_t>(high >> (64 - bits));
}
// Of a float: its pattern, sign-extended.
inline int64_t load_integer(tenon_dtype_t dtype, const void* at) {
  switch (dtype_bits(dtype)) {
    case 8:
      return wrap(dtype, load_as<int8_t>(at));
    case 16:
      return wrap(dtype, load_as<int16_t>(at));
    case 32:
      return wrap(dtype, load_as<int32_t>(at));
    default:
      return load_as<int64_t>(at);
  }
}
// The low bits.
inline void store_integer(tenon_dtype_t dtype, void* at, int64_t value) {
  switch (dtype_bits(dtype)) {
    case 8:
      return store_as(at, static_cast<uint8_t>(dtype == TENON_PRED ? value != 0 : value));
    case 16:
      return store_as(at, static_cast<uint16_t>(value));
    case 32:
      return store_as(at, static_cast<uint32_t>(value));
    default:
      return store_as(at, value);
  }
}

constexpr int64_t lowest_integer(tenon_dtype_t dtype) {
  if (!dtype_is_signed(dtype)) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - dtype_bits(dtype));
}
constexpr int64_t highest_integer(tenon_dtype_t dtype) {  // u64: its pattern
  if (dtype == TENON_PRED) return 1;
  if (!dtype_is_signed(dtype))
    return static_cast<int64_t>(~uint64_t{0} >> (64 - dtype_bits(dtype)));
  return std::numeric_limits<int64_t>::max() >> (64 - dtype_bits(dtype));
}
// A float as an integer (scalar.h): truncates and saturates, NaN gives 0. u64: its pattern.
inline int64_t saturated(tenon_dtype_t dtype, double x) {
  if (std::isnan(x)) return 0;
  if (dtype == TENON_U64)
    return x <= 0 ? 0 : x >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(x));
  const int64_t lo = lowest_integer(dtype), hi = highest_integer(dtype);
  if (x <= static_cast<double>(lo)) return lo;
  return x >= static_cast<double>(hi) ? hi : static_cast<int64_t>(x);
}

// Rounds to a binary format with `mantissa` stored bits, nearest even, from a double: one rounding
// only. Gives the pattern without sign; subnormals included.
inline uint16_t float_pattern(double magnitude, int mantissa, int exponent_bias,
                              uint16_t infinity) {
  if (magnitude == 0) return 0;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  int e = exponent - 1;
  if (e < 1 - exponent_bias) e = 1 - exponent_bias;  // subnormal range: fixed quantum
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa - e));
  // `units` counts quanta; the implicit bit adds one to the exponent field by itself.
  const auto pattern =
      static_cast<int64_t>(units) + (static_cast<int64_t>(e + exponent_bias - 1) << mantissa);
  return pattern >= infinity ? infinity : static_cast<uint16_t>(pattern);
}
// In 16 bits; nan: the pattern of a quiet NaN.
inline uint16_t narrowed(double x, int mantissa, int bias, uint16_t infinity, uint16_t nan) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | nan;
  if (std::isinf(x)) return sign | infinity;
  return sign | float_pattern(std::fabs(x), mantissa, bias, infinity);
}
inline uint16_t f16_from(double x) {
  return narrowed(x, 10, 15, 0x7c00, 0x7e00);
}
inline uint16_t bf16_from(double x) {
  return narrowed(x, 7, 127, 0x7f80, 0x7fc0);
}

}  // namespace tenon::elements

#endif
