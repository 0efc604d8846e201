// Shared by the files of dims and the text form only.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <tenon/cpp/arithmetic.hpp>

#include "core/base/errors/status.h"

namespace tenon::ir {

struct DimPoly;

// Failures of making a dim: T0303 for an overflow, T0305 for a limit, and whichever of the two
// applies to a sum or product of these.
Status overflow();
Status too_large(std::string_view what, uint32_t limit);
Status why_not(const DimPoly& a, const DimPoly& b);

using arithmetic::floor_div;
using arithmetic::floor_mod;

// As .tir writes them: a symbol's name, a quoted string.
std::string symbol_text(std::string_view name);
std::string string_text(std::string_view text);

}  // namespace tenon::ir
