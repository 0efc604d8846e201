#include "control/control_arena.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {

GrowingBlock::GrowingBlock(GrowingBlock&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}

GrowingBlock::~GrowingBlock() {
  std::free(data_);
  return_memory(capacity_);
}

Status GrowingBlock::reserve(uint64_t bytes) {
  if (data_ != nullptr && bytes <= capacity_) return {};
  const uint64_t wanted = std::max({bytes, capacity_ * 2, kAlignmentBytes});
  const uint64_t size = (wanted + kAlignmentBytes - 1) & ~(kAlignmentBytes - 1);
  TENON_TRY(count_memory(size, "a value whose size is known only in the run"));
  char* grown =
      size >= bytes ? static_cast<char*>(std::aligned_alloc(kAlignmentBytes, size)) : nullptr;
  if (grown == nullptr) {
    return_memory(size);
    return fail(TENON_RESOURCE_EXHAUSTED,
                cat("T0609: There is no memory for ", bytes,
                    " bytes of a value whose size is known only in the run."));
  }
  if (data_ != nullptr) memcpy(grown, data_, capacity_);
  std::free(data_);
  return_memory(capacity_);
  data_ = grown;
  capacity_ = size;
  return {};
}

}  // namespace tenon::cpu
