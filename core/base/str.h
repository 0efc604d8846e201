// Text from input made safe to show; names, globs and suggestions: the functions of
// tenon/cpp/text.hpp under the names that core uses.
#pragma once
#include <tenon/cpp/text.hpp>

namespace tenon {

using text::did_you_mean;
using text::equals_ignoring_case;
using text::glob_match;
using text::is_valid_utf8;
using text::join_names;
using text::json_list;
using text::json_quoted;
using text::nearest;
using text::parse_u64;
using text::printable;
using text::quoted;
using text::shell_quoted;
using text::split;
using text::trim;

}  // namespace tenon
