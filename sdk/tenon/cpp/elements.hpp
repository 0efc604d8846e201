// The element types as data: name, width and class of each. In a namespace of its own, for the
// core uses it too.
#ifndef TENON_CPP_ELEMENTS_HPP_
#define TENON_CPP_ELEMENTS_HPP_

#include <cstdint>
#include <string_view>

#include "tenon/abi/base.h"

namespace tenon::elements {

enum class Class : uint8_t { kNone, kPred, kSigned, kUnsigned, kFloat, kComplex };

struct Element {
  std::string_view name;
  uint8_t bits;
  Class kind;
};

inline constexpr Element kElements[TENON_DTYPE_COUNT] = {
    {"", 0, Class::kNone},          {"pred", 8, Class::kPred},      {"i4", 4, Class::kSigned},
    {"u4", 4, Class::kUnsigned},    {"i8", 8, Class::kSigned},      {"i16", 16, Class::kSigned},
    {"i32", 32, Class::kSigned},    {"i64", 64, Class::kSigned},    {"u8", 8, Class::kUnsigned},
    {"u16", 16, Class::kUnsigned},  {"u32", 32, Class::kUnsigned},  {"u64", 64, Class::kUnsigned},
    {"f8e4m3fn", 8, Class::kFloat}, {"f8e5m2", 8, Class::kFloat},   {"f16", 16, Class::kFloat},
    {"bf16", 16, Class::kFloat},    {"f32", 32, Class::kFloat},     {"f64", 64, Class::kFloat},
    {"c64", 64, Class::kComplex},   {"c128", 128, Class::kComplex},
};

// The entry of TENON_DTYPE_NONE for a number that is no element type.
constexpr const Element& element(tenon_dtype_t dtype) {
  return kElements[dtype < TENON_DTYPE_COUNT ? dtype : TENON_DTYPE_NONE];
}

constexpr bool dtype_valid(tenon_dtype_t dtype) {
  return dtype > TENON_DTYPE_NONE && dtype < TENON_DTYPE_COUNT;
}
// "f32"; empty for a number that is no element type.
constexpr std::string_view dtype_name(tenon_dtype_t dtype) {
  return element(dtype).name;
}
// TENON_DTYPE_NONE when the word names none.
constexpr tenon_dtype_t dtype_from_name(std::string_view name) {
  for (tenon_dtype_t d = 1; d < TENON_DTYPE_COUNT; ++d) {
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

}  // namespace tenon::elements

#endif
