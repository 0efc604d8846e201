// Names and widths of element types, and conversions of the narrow floats.
#pragma once
#include <tenon/abi/base.h>

#include <cstdint>
#include <string_view>

namespace tenon::ir {

// "f32"; empty for a number that is no element type.
std::string_view dtype_name(tenon_dtype_t dtype);
// TENON_DTYPE_NONE when the word names none.
tenon_dtype_t dtype_from_name(std::string_view name);
bool dtype_valid(tenon_dtype_t dtype);
uint32_t dtype_bits(tenon_dtype_t dtype);  // 0 for none
bool dtype_is_float(tenon_dtype_t dtype);  // f8 to f64
bool dtype_is_integer(tenon_dtype_t dtype);
bool dtype_is_signed(tenon_dtype_t dtype);  // integers
bool dtype_is_complex(tenon_dtype_t dtype);

// Narrow floats, rounded to nearest even; NaN stays NaN, quiet.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);
float f8e4m3fn_to_f32(uint8_t bits);
uint8_t f32_to_f8e4m3fn(float value);  // beyond the range: NaN, the format has no infinity
float f8e5m2_to_f32(uint8_t bits);
uint8_t f32_to_f8e5m2(float value);

}  // namespace tenon::ir
