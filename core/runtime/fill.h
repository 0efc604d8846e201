// Bytes that repeat one element, zeros above all: devices make them, and nothing is uploaded.
#pragma once
#include <cstdint>

#include <tenon/abi/device.h>

namespace tenon::runtime {

// Makes *out the FILL that gives these bytes; false if they repeat nothing, or are so few that to
// copy them costs the same. Threads: safe.
bool make_fill(tenon_buffer_t* to, const void* data, uint64_t size_bytes, tenon_copy_t* out);

}  // namespace tenon::runtime
