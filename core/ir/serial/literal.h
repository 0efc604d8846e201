// Elements of constants as text, and back. Used by the text form only.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"
#include "tenon/abi/base.h"

namespace tenon::ir {

// Appends element `index` of packed elements of `dtype`.
void write_element(tenon_dtype_t dtype, const std::byte* data, uint64_t index, std::string* out);
// True if write_element loses nothing: all elements but a NaN with a payload.
bool element_is_plain(tenon_dtype_t dtype, const std::byte* data, uint64_t index);
// An f64 attribute. It always has a point or an exponent, or is inf or nan, so that it reads back
// as a float.
std::string float_text(double value);

// Stores a number written as `text` (without sign; also "inf", "nan", "true", "false") into element
// `index`. OUT_OF_RANGE T0204 if it does not fit, INVALID_ARGUMENT if it is not a number of that
// type.
Status read_element(tenon_dtype_t dtype, bool negative, std::string_view text, std::byte* data,
                    uint64_t index);

std::string hex_text(std::span<const std::byte> bytes);
bool read_hex(std::string_view text, std::vector<std::byte>* out);

}  // namespace tenon::ir
