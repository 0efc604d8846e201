// What the requirements say: the sentences of docs/spec/plugin.md, taken in by the build.
#pragma once
#include <string_view>

namespace tenon::conform {

// The sentence of "R-A01" as it stands in the specification; empty for a number that it does not
// have. Lives as long as the program.
std::string_view requirement_sentence(std::string_view id);

}  // namespace tenon::conform
