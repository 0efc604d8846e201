// The lines in which two texts differ, for people.
#pragma once
#include <string>
#include <string_view>

namespace tenon::pass {

// Lines with "-" are of `before`, those with "+" of `after`, and those with " " of both: up to
// `context` of them around each change, with "..." where others are left out. Empty if the texts
// are equal.
std::string line_diff(std::string_view before, std::string_view after, size_t context = 2);

}  // namespace tenon::pass
