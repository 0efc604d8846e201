// Short names for what the runner and its checks use from the SDK and from sdk/tools/support.
#pragma once
#include <tenon/cpp/text.hpp>

#include "sdk/tools/support/files.h"

namespace tenon::conform {

using text::glob_match;
using text::is_valid_utf8;
using text::join_names;
using text::parse_u64;
using text::printable;
using text::quoted;
using text::split;
using text::trim;
using tools::check_readable;
using tools::Error;
using tools::file_name_of;
using tools::folder_of;
using tools::is_folder;
using tools::join_path;
using tools::list_folder;
using tools::MappedFile;
using tools::read_file;
using tools::read_system_file;
using tools::real_path;
using tools::Result;
using tools::write_file;

}  // namespace tenon::conform
