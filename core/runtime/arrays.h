// Callers' arrays as dense bytes.
#pragma once
#include <cstddef>
#include <vector>

#include <tenon/abi/session.h>

#include "core/base/errors/status.h"

namespace tenon::runtime {

// Row-major without gaps.
bool is_dense(const tenon_array_t& array);
// Copies a checked, non-empty array of whole bytes, with strides, into dense bytes at `out`.
void pack(const tenon_array_t& array, std::byte* out);
// The same into new memory; also accepts empty arrays, and arrays whose elements share bytes.
Result<std::vector<std::byte>> dense_bytes(const tenon_array_t& array);

}  // namespace tenon::runtime
