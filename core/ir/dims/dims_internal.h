// Shared by the files of dims and by the text form. Not for others.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <tenon/cpp/arithmetic.hpp>

#include "core/base/errors/status.h"

namespace tenon::ir {

struct DimPoly;

// Failures of making a dim: T0303, T0305, and whichever of the two a sum or product of these would
// be.
Status overflow();
Status too_large(std::string_view what, uint32_t limit);
Status why_not(const DimPoly& a, const DimPoly& b);

using arithmetic::floor_div;
using arithmetic::floor_mod;

// As .tir writes them: a symbol's name, a quoted string.
std::string symbol_text(std::string_view name);
std::string string_text(std::string_view text);

}  // namespace tenon::ir
