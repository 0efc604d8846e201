// What each op of one argument means, in double precision by the C library: far more than exact for
// f32.
#pragma once
#include <string_view>

namespace tenon::every_f32 {

using Function = double (*)(double);

// Null for an op that nobody has told the meaning of. Attributes have their defaults, as f32.
Function meaning_of(std::string_view op);

}  // namespace tenon::every_f32
