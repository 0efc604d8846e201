// Callers' arrays as dense bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tenon/abi/session.h>

#include "core/base/errors/status.h"

namespace tenon::runtime {

// Row-major without gaps.
bool is_dense(const tenon_array_t& array);
// Copies a checked, non-empty array of whole bytes, with strides, into dense bytes at `out`.
void pack(const tenon_array_t& array, std::byte* out);
// The other way: dense bytes into a checked array of whole bytes, with strides or without.
void unpack(const std::byte* dense, const tenon_array_t& array);
// Whether two elements of an array of whole bytes may share bytes. Exact for strides of slices,
// transposes and reversals; true for the rare others that interleave without sharing.
bool elements_overlap(const tenon_array_t& array);
// The bytes between the first and the last byte of its elements, both in; empty: [0, 0); all, if
// strides lead out of the address space.
std::pair<uintptr_t, uintptr_t> byte_range(const tenon_array_t& array);
// Whether strides keep all elements inside of the address space. That they stay in the caller's
// memory only the caller knows.
bool has_addresses(const tenon_array_t& array);
// The same into new memory; also accepts empty arrays, and arrays whose elements share bytes.
Result<std::vector<std::byte>> dense_bytes(const tenon_array_t& array);

}  // namespace tenon::runtime
