// Names and widths of element types, and conversions of the narrow floats.
#pragma once
#include <tenon/cpp/elements.hpp>

#include <cstdint>

namespace tenon::ir {

using elements::dtype_bits;
using elements::dtype_from_name;
using elements::dtype_is_complex;
using elements::dtype_is_float;
using elements::dtype_is_integer;
using elements::dtype_is_signed;
using elements::dtype_name;
using elements::dtype_valid;

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
