// The bytes of tensors that the process holds, against TENON_MEMORY_LIMIT. Whoever allocates for
// tensors counts first; the count is all that is kept here.
//
// Threads: safe.
#pragma once
#include <cstdint>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon {

uint64_t memory_in_use();

// T0609, which names `what`, the bytes asked for, those in use and the limit; or OK, and to be
// given back.
Status memory_reserve(uint64_t bytes, std::string_view what);
void memory_return(uint64_t bytes);

}  // namespace tenon
