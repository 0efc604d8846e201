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

namespace tenon::inline sdk {

constexpr uint32_t dtype_bit(tenon_dtype_t dtype) {
  return 1u << dtype;
}
inline constexpr uint32_t kPred = 1u << TENON_PRED;
inline constexpr uint32_t kSigned =
    1u << TENON_I8 | 1u << TENON_I16 | 1u << TENON_I32 | 1u << TENON_I64;
inline constexpr uint32_t kUnsigned =
    1u << TENON_U8 | 1u << TENON_U16 | 1u << TENON_U32 | 1u << TENON_U64;
inline constexpr uint32_t kInt = kSigned | kUnsigned;
inline constexpr uint32_t kFloat =
    1u << TENON_F16 | 1u << TENON_BF16 | 1u << TENON_F32 | 1u << TENON_F64;
inline constexpr uint32_t kNumber = kInt | kFloat;
// Including the integers narrower than a byte, and the floats of one byte.
inline constexpr uint32_t kAnyInt = kInt | 1u << TENON_I4 | 1u << TENON_U4;
inline constexpr uint32_t kAnyFloat = kFloat | 1u << TENON_F8E4M3FN | 1u << TENON_F8E5M2;
inline constexpr uint32_t kIndex = 1u << TENON_I32 | 1u << TENON_I64;
// Types stored in whole bytes, that is, all but i4 and u4.
inline constexpr uint32_t kWhole = 0xffffffffu & ~(1u << TENON_I4 | 1u << TENON_U4);

constexpr bool is_in(tenon_dtype_t dtype, uint32_t set) {
  return (set >> dtype & 1u) != 0;
}
constexpr bool is_float(tenon_dtype_t dtype) {
  return is_in(dtype, kFloat);
}
constexpr bool is_int(tenon_dtype_t dtype) {
  return is_in(dtype, kInt);
}

// Bits of one element; 0 for an unknown type.
constexpr uint32_t dtype_bits(tenon_dtype_t dtype) {
  constexpr uint8_t kBits[TENON_DTYPE_COUNT] = {0,  8,  4, 4, 8,  16, 32, 64, 8,  16,
                                                32, 64, 8, 8, 16, 16, 32, 64, 64, 128};
  return dtype < TENON_DTYPE_COUNT ? kBits[dtype] : 0;
}
constexpr uint32_t dtype_bytes(tenon_dtype_t dtype) {
  return dtype_bits(dtype) / 8;
}

constexpr std::string_view dtype_name(tenon_dtype_t dtype) {
  constexpr std::string_view kNames[TENON_DTYPE_COUNT] = {
      "none", "pred", "i4",       "u4",     "i8",  "i16",  "i32", "i64", "u8",  "u16",
      "u32",  "u64",  "f8e4m3fn", "f8e5m2", "f16", "bf16", "f32", "f64", "c64", "c128"};
  return dtype < TENON_DTYPE_COUNT ? kNames[dtype] : std::string_view("?");
}
constexpr tenon_dtype_t dtype_of(std::string_view name) {
  for (tenon_dtype_t d = 1; d < TENON_DTYPE_COUNT; ++d) {
    if (dtype_name(d) == name) return d;
  }
  return TENON_DTYPE_NONE;
}

// ---- Narrow floats ----

// Rounds a double to a binary format with `mantissa` stored bits, to nearest even, in a single
// rounding. Returns the pattern without the sign; handles subnormals.
inline uint16_t float_pattern(double magnitude, int mantissa, int exponent_bias,
                              uint16_t infinity) {
  if (magnitude == 0) return 0;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  int e = exponent - 1;
  if (e < 1 - exponent_bias) e = 1 - exponent_bias;  // subnormal range: fixed quantum
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa - e));
  // `units` counts quanta; its implicit bit adds one to the exponent field.
  const auto pattern =
      static_cast<int64_t>(units) + (static_cast<int64_t>(e + exponent_bias - 1) << mantissa);
  return pattern >= infinity ? infinity : static_cast<uint16_t>(pattern);
}
inline uint16_t f16_from(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7e00;
  if (std::isinf(x)) return sign | 0x7c00;
  return sign | float_pattern(std::fabs(x), 10, 15, 0x7c00);
}
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
inline uint16_t bf16_from(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7fc0;
  if (std::isinf(x)) return sign | 0x7f80;
  return sign | float_pattern(std::fabs(x), 7, 127, 0x7f80);
}
inline float bf16_to(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// ---- One element ----

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
  switch (dtype) {
    case TENON_PRED:
      return load_as<uint8_t>(at) != 0;
    case TENON_I8:
      return load_as<int8_t>(at);
    case TENON_I16:
      return load_as<int16_t>(at);
    case TENON_I32:
      return load_as<int32_t>(at);
    case TENON_I64:
      return static_cast<double>(load_as<int64_t>(at));
    case TENON_U8:
      return load_as<uint8_t>(at);
    case TENON_U16:
      return load_as<uint16_t>(at);
    case TENON_U32:
      return load_as<uint32_t>(at);
    case TENON_U64:
      return static_cast<double>(load_as<uint64_t>(at));
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
  switch (dtype) {
    case TENON_PRED:
      return load_as<uint8_t>(at) != 0;
    case TENON_I8:
      return load_as<int8_t>(at);
    case TENON_I16:
      return load_as<int16_t>(at);
    case TENON_I32:
      return load_as<int32_t>(at);
    case TENON_U8:
      return load_as<uint8_t>(at);
    case TENON_U16:
      return load_as<uint16_t>(at);
    case TENON_U32:
      return load_as<uint32_t>(at);
    case TENON_I64:
    case TENON_U64:
      return load_as<int64_t>(at);
    default:
      return saturate<int64_t>(load_double(dtype, at));
  }
}
// Stores the low bits (integers wrap).
inline void store_int(tenon_dtype_t dtype, void* at, int64_t value) {
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
inline void store_double(tenon_dtype_t dtype, void* at, double value) {
  switch (dtype) {
    case TENON_PRED:
      return store_as<uint8_t>(at, value != 0);
    case TENON_I8:
      return store_as(at, saturate<int8_t>(value));
    case TENON_I16:
      return store_as(at, saturate<int16_t>(value));
    case TENON_I32:
      return store_as(at, saturate<int32_t>(value));
    case TENON_I64:
      return store_as(at, saturate<int64_t>(value));
    case TENON_U8:
      return store_as(at, saturate<uint8_t>(value));
    case TENON_U16:
      return store_as(at, saturate<uint16_t>(value));
    case TENON_U32:
      return store_as(at, saturate<uint32_t>(value));
    case TENON_U64:
      return store_as(at, saturate<uint64_t>(value));
    case TENON_F16:
      return store_as(at, f16_from(value));
    case TENON_BF16:
      return store_as(at, bf16_from(value));
    case TENON_F32:
      return store_as(at, static_cast<float>(value));
    case TENON_F64:
      return store_as(at, value);
    default:
      return;
  }
}

}  // namespace tenon::inline sdk

#endif
