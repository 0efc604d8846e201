// The meaning of each op of one argument, in double precision by the C library: far more precise
// than f32.
#pragma once
#include <string_view>

namespace tenon::every_f32 {

using Function = double (*)(double);

// Null for an op that is not listed. Attributes have their defaults, as f32.
Function meaning_of(std::string_view op);

}  // namespace tenon::every_f32
