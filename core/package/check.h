// Whether the records of a package fit together.
#pragma once
#include <string_view>

#include "core/package/record.h"

namespace tenon::package {

// T0521 naming the first record that does not.
Status check(const ProgramRecord& record, const Extents& extents, std::string_view name);

}  // namespace tenon::package
