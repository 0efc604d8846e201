#include "core/runtime/arrays.h"

#include <algorithm>
#include <cstring>
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

void pack(const tenon_array_t& array, std::byte* out) {
  const uint64_t item = dtype_bits(array.dtype) / 8;
  std::vector<int64_t> index(array.rank, 0);
  const auto* from = static_cast<const std::byte*>(array.data);
  while (true) {
    std::memcpy(out, from, item);
    out += item;
    uint32_t axis = array.rank;
    for (; axis-- > 0; index[axis] = 0) {
      from += array.strides_bytes[axis];
      if (++index[axis] < array.dims[axis]) break;
      from -= array.strides_bytes[axis] * array.dims[axis];
    }
    if (axis == UINT32_MAX) return;
  }
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
