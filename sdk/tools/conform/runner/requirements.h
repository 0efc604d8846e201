// The text of the requirements: the sentences of docs/spec/plugin.md, embedded by the build.
#pragma once
#include <string_view>

namespace tenon::conform {

// The sentence of "R-A01" as in the specification; empty for an unknown number. Lives as long as
// the program.
std::string_view requirement_sentence(std::string_view id);

}  // namespace tenon::conform
