// The text functions of the SDK, under the names that the runner and its checks call them by.
#pragma once
#include <tenon/cpp/text.hpp>

namespace tenon::conform {

using text::glob_match;
using text::is_valid_utf8;
using text::join_names;
using text::parse_u64;
using text::printable;
using text::quoted;
using text::split;
using text::trim;

}  // namespace tenon::conform
