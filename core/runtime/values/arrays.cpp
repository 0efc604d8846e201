#include "core/runtime/values/arrays.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "core/base/checked.h"
#include "core/ir/dtype.h"

namespace tenon::runtime {

using ir::dtype_bits;

bool is_dense(const tenon_array_t& array) {
  if (array.strides_bytes == nullptr) return true;
  if (std::find(array.dims, array.dims + array.rank, 0) != array.dims + array.rank) return true;
  int64_t expected = dtype_bits(array.dtype) / 8;
  for (uint32_t i = array.rank; i-- > 0;) {
    if (array.dims[i] != 1 && array.strides_bytes[i] != expected) return false;
    expected *= array.dims[i];
  }
  return true;
}

namespace {

// Calls each(address) for the elements in row-major order. The array is not empty.
template <class Each>
void walk(const tenon_array_t& array, Each&& each) {
  std::array<int64_t, TENON_RANK_MAX> index{};  // nothing is allocated between two outputs
  auto* at = static_cast<std::byte*>(array.data);
  while (true) {
    each(at);
    uint32_t axis = array.rank;
    for (; axis-- > 0; index[axis] = 0) {
      if (++index[axis] < array.dims[axis]) {
        at += array.strides_bytes[axis];
        break;
      }
      at -= array.strides_bytes[axis] * (array.dims[axis] - 1);
    }
    if (axis == UINT32_MAX) return;
  }
}

bool is_empty(const tenon_array_t& array) {
  return std::find(array.dims, array.dims + array.rank, 0) != array.dims + array.rank;
}

// As byte_range, of an array with strides and elements; nothing if some byte has no address.
std::optional<std::pair<uintptr_t, uintptr_t>> strided_range(const tenon_array_t& array) {
  const auto base = reinterpret_cast<uintptr_t>(array.data);
  uint64_t below = 0, above = dtype_bits(array.dtype) / 8;
  for (uint32_t i = 0; i < array.rank; ++i) {
    const int64_t stride = array.strides_bytes[i];
    const uint64_t step = stride < 0 ? 0 - static_cast<uint64_t>(stride) : stride;
    uint64_t reach = 0, &side = stride < 0 ? below : above;
    if (!checked_mul(step, static_cast<uint64_t>(array.dims[i] - 1), &reach) ||
        !checked_add(side, reach, &side))
      return std::nullopt;
  }
  if (below > PTRDIFF_MAX || above > PTRDIFF_MAX - below) return std::nullopt;
  uintptr_t begin = 0, end = 0;
  if (!checked_sub(base, below, &begin) || !checked_add(base, above, &end)) return std::nullopt;
  return std::pair(begin, end);
}

}  // namespace

void pack(const tenon_array_t& array, std::byte* out) {
  const uint64_t item = dtype_bits(array.dtype) / 8;
  walk(array, [&](const std::byte* at) {
    std::memcpy(out, at, item);
    out += item;
  });
}

void unpack(const std::byte* dense, const tenon_array_t& array) {
  if (is_empty(array)) return;
  const uint64_t item = dtype_bits(array.dtype) / 8;
  if (!is_dense(array)) {
    walk(array, [&](std::byte* at) {
      std::memcpy(at, dense, item);
      dense += item;
    });
    return;
  }
  uint64_t bytes = item;
  for (uint32_t i = 0; i < array.rank; ++i) bytes *= static_cast<uint64_t>(array.dims[i]);
  std::memcpy(array.data, dense, bytes);
}

bool elements_overlap(const tenon_array_t& array) {
  if (array.strides_bytes == nullptr || is_empty(array)) return false;
  std::vector<std::pair<uint64_t, uint64_t>> axes;  // stride and steps, longer than one
  for (uint32_t i = 0; i < array.rank; ++i) {
    const int64_t stride = array.strides_bytes[i];
    if (array.dims[i] > 1)
      axes.emplace_back(
          stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride),
          static_cast<uint64_t>(array.dims[i] - 1));
  }
  std::ranges::sort(axes);
  uint64_t span = dtype_bits(array.dtype) / 8;  // bytes that the axes so far reach over
  for (const auto& [stride, steps] : axes) {
    uint64_t reach = 0;
    if (stride < span || __builtin_mul_overflow(stride, steps, &reach) ||
        __builtin_add_overflow(span, reach, &span) || span > INT64_MAX)
      return true;
  }
  return false;
}

std::pair<uintptr_t, uintptr_t> byte_range(const tenon_array_t& array) {
  if (is_empty(array)) return {0, 0};
  const auto base = reinterpret_cast<uintptr_t>(array.data);
  if (array.strides_bytes == nullptr) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < array.rank; ++i) count *= static_cast<uint64_t>(array.dims[i]);
    return {base, base + (count * dtype_bits(array.dtype) + 7) / 8};
  }
  return strided_range(array).value_or(std::pair<uintptr_t, uintptr_t>(0, UINTPTR_MAX));
}

bool has_addresses(const tenon_array_t& array) {
  return array.strides_bytes == nullptr || is_empty(array) || strided_range(array).has_value();
}

Result<std::vector<std::byte>> dense_bytes(const tenon_array_t& array) {
  TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count({array.dims, array.rank}));
  TENON_ASSIGN_OR_RETURN(const uint64_t size, packed_bytes(count, dtype_bits(array.dtype)));
  std::vector<std::byte> bytes(size);
  if (size == 0) return bytes;
  if (is_dense(array)) {
    std::memcpy(bytes.data(), array.data, size);
  } else {
    pack(array, bytes.data());
  }
  return bytes;
}

}  // namespace tenon::runtime
