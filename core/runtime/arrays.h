// Arrays of callers as dense bytes.
#pragma once
#include <cstddef>
#include <vector>

#include <tenon/abi/session.h>

#include "core/base/errors/status.h"

namespace tenon::runtime {

// Row-major without gaps.
bool is_dense(const tenon_array_t& array);
// Copies a checked array of whole bytes, with strides, into dense bytes at `out`. The array is not
// empty.
void pack(const tenon_array_t& array, std::byte* out);
// The same in memory of its own; also of an empty array, and of one whose elements share bytes.
Result<std::vector<std::byte>> dense_bytes(const tenon_array_t& array);

}  // namespace tenon::runtime
