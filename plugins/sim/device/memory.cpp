#include "plugins/sim/device/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {
uint64_t rounded(uint64_t size) {
  return (std::max<uint64_t>(size, 1) + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}
}  // namespace

Status DeviceMemory::reserve() {
  file_ = memfd_create("tenon-sim", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(capacity_)) != 0) {
    return fail(TENON_UNAVAILABLE,
                cat("sim: cannot create a memory file of ", capacity_, " bytes"));
  }
  void* p = mmap(nullptr, capacity_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (p == MAP_FAILED)
    return fail(TENON_UNAVAILABLE,
                cat("sim: no address space for ", capacity_, " bytes of device memory"));
  base_ = static_cast<char*>(p);
  gaps_[0] = capacity_;
  return {};
}

DeviceMemory::~DeviceMemory() {
  if (base_ != nullptr) munmap(base_, capacity_);
  if (file_ >= 0) ::close(file_);
}

bool DeviceMemory::find_gap(uint64_t reserved, uint64_t* out_offset) {
  for (auto it = gaps_.begin(); it != gaps_.end(); ++it) {
    if (it->second < reserved) continue;
    const auto [offset, size] = *it;
    gaps_.erase(it);
    if (size > reserved) gaps_[offset + reserved] = size - reserved;
    *out_offset = offset;
    return true;
  }
  return false;
}

Status DeviceMemory::alloc(uint64_t size_bytes, uint64_t* out_handle) {
  const std::lock_guard lock(mutex_);
  uint64_t offset = 0;
  if (size_bytes > capacity_ || !find_gap(rounded(size_bytes), &offset)) {
    return fail(TENON_RESOURCE_EXHAUSTED, cat("sim: ", size_bytes, " bytes requested, ",
                                              capacity_ - used_, " of ", capacity_, " bytes free"));
  }
  *out_handle = next_handle_++;
  blocks_[*out_handle] = {offset, size_bytes, rounded(size_bytes)};
  used_ += rounded(size_bytes);
  peak_ = std::max(peak_, used_);
  return {};
}

Status DeviceMemory::free(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(handle);
  if (it == blocks_.end())
    return fail(TENON_INVALID_ARGUMENT, "sim: this buffer was freed before, or never allocated");
  auto [offset, size, reserved] = it->second;
  blocks_.erase(it);
  if (reserved == 0) return {};
  used_ -= reserved;
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && next->first == offset + reserved) {
    reserved += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += reserved;
      return {};
    }
  }
  gaps_[offset] = reserved;
  return {};
}

Status DeviceMemory::size(uint64_t handle, uint64_t* out_bytes) const {
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(handle);
  if (it == blocks_.end())
    return fail(TENON_INVALID_ARGUMENT, "sim: this buffer was freed before, or never allocated");
  *out_bytes = it->second.size;
  return {};
}

Status DeviceMemory::alias(uint64_t handle, uint64_t offset_bytes, uint64_t length_bytes,
                           uint64_t* out_handle) {
  uint64_t at = 0;
  TENON_TRY(place(handle, offset_bytes, length_bytes, &at));
  const std::lock_guard lock(mutex_);
  *out_handle = next_handle_++;
  blocks_[*out_handle] = {at, length_bytes, 0};
  return {};
}

Status DeviceMemory::translate(uint64_t handle, uint64_t offset_bytes, uint64_t length_bytes,
                               void** out) {
  uint64_t at = 0;
  TENON_TRY(place(handle, offset_bytes, length_bytes, &at));
  *out = base_ + at;
  return {};
}

Status DeviceMemory::place(uint64_t handle, uint64_t offset_bytes, uint64_t length_bytes,
                           uint64_t* out) {
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(handle);
  if (it == blocks_.end())
    return fail(TENON_INVALID_ARGUMENT, "sim: this buffer was freed before, or never allocated");
  const Block& block = it->second;
  if (offset_bytes > block.size || length_bytes > block.size - offset_bytes) {
    return fail(TENON_OUT_OF_RANGE,
                cat("sim: bytes [", offset_bytes, ", ", offset_bytes, " + ", length_bytes,
                    ") lie outside a buffer of ", block.size, " bytes"));
  }
  *out = block.offset + offset_bytes;
  return {};
}

DeviceMemory::Views::~Views() {
  for (const auto& [address, bytes] : mappings_) munmap(address, bytes);
}

Status DeviceMemory::Views::add(uint64_t place, uint64_t length_bytes, void** out) {
  constexpr uint64_t kPage = 4096, kApart = 1 << 20;
  const uint64_t first = place / kPage * kPage,
                 pages = (place + length_bytes - first + kPage - 1) / kPage * kPage;
  const uint64_t bytes = pages + 2 * kApart;
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return fail(TENON_UNAVAILABLE, "sim: no address space for a view of device memory");
  mappings_.emplace_back(p, bytes);
  char* const begin = static_cast<char*>(p) + kApart;
  if (pages != 0 && mmap(begin, pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                         memory_.file_, static_cast<off_t>(first)) == MAP_FAILED) {
    return fail(TENON_UNAVAILABLE, "sim: device memory cannot be viewed");
  }
  *out = begin + (place - first);
  return {};
}

uint64_t DeviceMemory::count() const {
  const std::lock_guard lock(mutex_);
  return blocks_.size();
}

uint64_t DeviceMemory::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

uint64_t DeviceMemory::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void DeviceMemory::open() {
  const std::lock_guard lock(access_mutex_);
  if (++accesses_ == 1) mprotect(base_, capacity_, PROT_READ | PROT_WRITE);
}

void DeviceMemory::close() {
  const std::lock_guard lock(access_mutex_);
  if (--accesses_ == 0) mprotect(base_, capacity_, PROT_NONE);
}

}  // namespace tenon::sim
