// Shared by the files of dims and the text form only.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon::ir {

struct DimPoly;

// Failures of making a dim: T0303 for an overflow, T0305 for a limit, and whichever of the two
// applies to a sum or product of these.
Status overflow();
Status too_large(std::string_view what, uint32_t limit);
Status why_not(const DimPoly& a, const DimPoly& b);

int64_t floor_div(int64_t a, int64_t b);  // b > 0 or a/b does not overflow
int64_t floor_mod(int64_t a, int64_t b);  // in [0, b) for b > 0

// As .tir writes them: a symbol's name, a quoted string.
std::string symbol_text(std::string_view name);
std::string string_text(std::string_view text);

}  // namespace tenon::ir
