// The bytes of tensors that the process holds, counted against TENON_MEMORY_LIMIT. Code that
// allocates tensors reserves here first; nothing is kept here but the count.
//
// Threads: safe.
#pragma once
#include <cstdint>
#include <string_view>

#include "core/base/errors/status.h"

namespace tenon {

uint64_t memory_in_use();

// Reserves `bytes`. T0609, naming `what`, the bytes asked for, those in use and the limit, if that
// is too many. After OK the bytes must be given back with memory_return.
Status memory_reserve(uint64_t bytes, std::string_view what);
void memory_return(uint64_t bytes);

}  // namespace tenon
