// Text that comes from input, made fit to show; names, globs and suggestions: what
// tenon/cpp/text.hpp has, under the names that core calls it by.
#pragma once
#include <tenon/cpp/text.hpp>

namespace tenon {

using text::did_you_mean;
using text::equals_ignoring_case;
using text::glob_match;
using text::is_valid_utf8;
using text::join_names;
using text::json_quoted;
using text::nearest;
using text::parse_u64;
using text::printable;
using text::quoted;
using text::shell_quoted;
using text::split;
using text::trim;

}  // namespace tenon
