#include "core/ir/dtype.h"

#include <bit>
#include <cmath>

namespace tenon::ir {
namespace {

// Rounds a finite, non-negative f32 to a float of `exponent` and `mantissa` bits, nearest even.
// Returns the bits without sign; a result above `largest` becomes `beyond`.
uint32_t narrow(float magnitude, int exponent, int mantissa, uint32_t largest, uint32_t beyond) {
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  const int bias = (1 << (exponent - 1)) - 1;
  const int e = static_cast<int>(bits >> 23) - 127 + bias;
  uint64_t significand = bits & 0x7fffff;
  if (bits >> 23) significand |= 0x800000;
  // Below the smallest normal number every step down costs one bit more.
  int shift = 23 - mantissa;
  if (e < 1) shift += 1 - e;
  if (shift > 40) return 0;
  const uint64_t half = uint64_t{1} << (shift - 1);
  uint64_t rounded = significand >> shift;
  const uint64_t rest = significand & ((half << 1) - 1);
  if (rest > half || (rest == half && (rounded & 1))) ++rounded;
  // A carry out of the mantissa runs into the exponent, which is what is wanted.
  uint64_t out = rounded;
  if (e >= 1) out += static_cast<uint64_t>(e - 1) << mantissa;
  return out > largest ? beyond : static_cast<uint32_t>(out);
}

float widen(uint32_t bits, int exponent, int mantissa) {
  const int bias = (1 << (exponent - 1)) - 1;
  const uint32_t e = bits >> mantissa & ((1u << exponent) - 1);
  const uint32_t m = bits & ((1u << mantissa) - 1);
  if (e == 0) return std::ldexp(static_cast<float>(m), 1 - bias - mantissa);
  return std::ldexp(static_cast<float>(m | (1u << mantissa)),
                    static_cast<int>(e) - bias - mantissa);
}

}  // namespace

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t rest = bits & 0x7fff;
  uint32_t out;
  if (rest >= 0x7c00) {
    out = 0x7f800000 | (rest & 0x3ff) << 13;
    if (rest > 0x7c00) out |= 0x400000;
  } else {
    out = std::bit_cast<uint32_t>(widen(rest, 5, 10));
  }
  return std::bit_cast<float>(out | sign);
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  if (std::isinf(value)) return sign | 0x7c00;
  return static_cast<uint16_t>(sign | narrow(std::fabs(value), 5, 10, 0x7bff, 0x7c00));
}

float bf16_to_f32(uint16_t bits) {
  uint32_t out = static_cast<uint32_t>(bits) << 16;
  if ((bits & 0x7fff) > 0x7f80) out |= 0x400000;
  return std::bit_cast<float>(out);
}

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  const uint32_t rounding = 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>((bits + rounding) >> 16);
}

float f8e4m3fn_to_f32(uint8_t bits) {
  const uint32_t rest = bits & 0x7f;
  const float magnitude = rest == 0x7f ? std::bit_cast<float>(0x7fc00000u) : widen(rest, 4, 3);
  return bits & 0x80 ? -magnitude : magnitude;
}

uint8_t f32_to_f8e4m3fn(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (!std::isfinite(value)) return sign | 0x7f;
  return static_cast<uint8_t>(sign | narrow(std::fabs(value), 4, 3, 0x7e, 0x7f));
}

float f8e5m2_to_f32(uint8_t bits) {
  return f16_to_f32(static_cast<uint16_t>(bits << 8));
}

uint8_t f32_to_f8e5m2(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7e;
  if (std::isinf(value)) return sign | 0x7c;
  return static_cast<uint8_t>(sign | narrow(std::fabs(value), 5, 2, 0x7b, 0x7c));
}

}  // namespace tenon::ir
