// Element types in C++: names, widths, classes, and conversion of single elements between memory
// and numbers. Bit-exact with nearest-even rounding, but not fast; generated code has its own
// conversions.
#ifndef TENON_CPP_DTYPE_HPP_
#define TENON_CPP_DTYPE_HPP_

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "tenon/abi/base.h"
#include "tenon/cpp/elements.hpp"

namespace tenon::inline sdk {

constexpr tenon_dtypes_t dtype_bit(tenon_dtype_t dtype) {
  return TENON_DTYPE_BIT(dtype);
}
inline constexpr tenon_dtypes_t kPred = dtype_bit(TENON_PRED);
inline constexpr tenon_dtypes_t kSigned =
    dtype_bit(TENON_I8) | dtype_bit(TENON_I16) | dtype_bit(TENON_I32) | dtype_bit(TENON_I64);
inline constexpr tenon_dtypes_t kUnsigned =
    dtype_bit(TENON_U8) | dtype_bit(TENON_U16) | dtype_bit(TENON_U32) | dtype_bit(TENON_U64);
inline constexpr tenon_dtypes_t kInt = kSigned | kUnsigned;
inline constexpr tenon_dtypes_t kFloat =
    dtype_bit(TENON_F16) | dtype_bit(TENON_BF16) | dtype_bit(TENON_F32) | dtype_bit(TENON_F64);
inline constexpr tenon_dtypes_t kNumber = kInt | kFloat;
inline constexpr tenon_dtypes_t kComplex = dtype_bit(TENON_C64) | dtype_bit(TENON_C128);
// Including the integers narrower than a byte, and the floats of one byte.
inline constexpr tenon_dtypes_t kAnyInt = kInt | dtype_bit(TENON_I4) | dtype_bit(TENON_U4);
inline constexpr tenon_dtypes_t kAnyFloat =
    kFloat | dtype_bit(TENON_F8E4M3FN) | dtype_bit(TENON_F8E5M2);
inline constexpr tenon_dtypes_t kIndex = dtype_bit(TENON_I32) | dtype_bit(TENON_I64);
// Types stored in whole bytes, that is, all but i4 and u4; and none, which tokens have. Types that
// later hosts know are not in it.
inline constexpr tenon_dtypes_t kWhole =
    dtype_bit(TENON_DTYPE_NONE) | kPred | kInt | kAnyFloat | kComplex;

constexpr bool is_in(tenon_dtype_t dtype, tenon_dtypes_t set) {
  return (set >> dtype & 1) != 0;
}
constexpr bool is_float(tenon_dtype_t dtype) {
  return is_in(dtype, kFloat);
}
constexpr bool is_int(tenon_dtype_t dtype) {
  return is_in(dtype, kInt);
}

constexpr bool is_complex(tenon_dtype_t dtype) {
  return is_in(dtype, kComplex);
}
// The type of the parts of complex numbers, and of complex numbers with such parts (f32 or f64).
constexpr tenon_dtype_t part_of(tenon_dtype_t complex) {
  return complex == TENON_C64 ? TENON_F32 : TENON_F64;
}
constexpr tenon_dtype_t complex_of(tenon_dtype_t part) {
  return part == TENON_F32 ? TENON_C64 : TENON_C128;
}

using elements::dtype_bits;

constexpr uint32_t dtype_bytes(tenon_dtype_t dtype) {
  return dtype_bits(dtype) / 8;
}
// "none" for none, "?" for a number that is not a type.
constexpr std::string_view dtype_name(tenon_dtype_t dtype) {
  if (dtype == TENON_DTYPE_NONE) return "none";
  return elements::dtype_valid(dtype) ? elements::dtype_name(dtype) : "?";
}
constexpr tenon_dtype_t dtype_of(std::string_view name) {
  return elements::dtype_from_name(name);
}

// ---- Narrow floats ----

using elements::bf16_from;
using elements::f16_from;
using elements::float_pattern;

inline float f16_to(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  float value = 0;
  if (exponent == 31) {
    value = fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                          : std::numeric_limits<float>::infinity();
  } else {
    value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                          : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}
inline float bf16_to(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// ---- One element ----

using elements::load_as;
using elements::store_as;

// float to integer: truncates and saturates, NaN gives 0 (scalar.h).
template <class T>
T saturate(double x) {
  if (std::isnan(x)) return 0;
  if (x <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (x >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(x);
}

// An element as double. u64 and i64 beyond 2^53 lose low bits; use load_int for them.
inline double load_double(tenon_dtype_t dtype, const void* at) {
  if (dtype == TENON_U64) return static_cast<double>(load_as<uint64_t>(at));
  if (is_in(dtype, kInt | kPred)) return static_cast<double>(elements::load_integer(dtype, at));
  switch (dtype) {
    case TENON_F16:
      return f16_to(load_as<uint16_t>(at));
    case TENON_BF16:
      return bf16_to(load_as<uint16_t>(at));
    case TENON_F32:
      return load_as<float>(at);
    case TENON_F64:
      return load_as<double>(at);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}
// An integer element (or pred), sign- or zero-extended; u64 keeps its bit pattern.
inline int64_t load_int(tenon_dtype_t dtype, const void* at) {
  if (is_in(dtype, kInt | kPred)) return elements::load_integer(dtype, at);
  return saturate<int64_t>(load_double(dtype, at));
}
// Stores the low bits (integers wrap).
inline void store_int(tenon_dtype_t dtype, void* at, int64_t value) {
  elements::store_integer(dtype, at, value);
}
inline void store_double(tenon_dtype_t dtype, void* at, double value) {
  if (dtype == TENON_PRED) return store_as<uint8_t>(at, value != 0);
  if (is_int(dtype)) return store_int(dtype, at, elements::saturated(dtype, value));
  switch (dtype) {
    case TENON_F16:
      return store_as(at, f16_from(value));
    case TENON_BF16:
      return store_as(at, bf16_from(value));
    case TENON_F32:
      return store_as(at, static_cast<float>(value));
    case TENON_F64:
      return store_as(at, value);
    case TENON_C64:
    case TENON_C128:  // a real number
      store_double(part_of(dtype), at, value);
      return store_double(part_of(dtype), static_cast<char*>(at) + dtype_bytes(dtype) / 2, 0);
    default:
      return;
  }
}

}  // namespace tenon::inline sdk

#endif
