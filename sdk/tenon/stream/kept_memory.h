// A pool of device memory for runtimes that have none: what is freed is kept for the next
// allocation of about its size, because allocations of the runtime are slow, or wait for all work.
//
// Nothing is ordered here. Whoever frees a buffer says that no submitted work refers to it any more
// (tenon_device_api_t::free), so the next owner may have it at once, on any stream.
//
// Threads: safe. Users: plugins/intel.
#ifndef TENON_STREAM_KEPT_MEMORY_H_
#define TENON_STREAM_KEPT_MEMORY_H_

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tenon/stream/runtime.h"

namespace tenon::stream {

class KeptMemory {
 public:
  using Take = std::function<Status(uint64_t size_bytes, Address* out)>;
  using Give = std::function<Status(Address address)>;

  // limit_bytes: of the device. What is in use and what is kept is no more together; 0: no limit.
  KeptMemory(uint64_t limit_bytes, Take take, Give give)
      : limit_bytes_(limit_bytes), take_(std::move(take)), give_(std::move(give)) {}
  // What is still in use is the owner's to free. The runtime's functions are called once more.
  ~KeptMemory() {
    const std::lock_guard lock(mutex_);
    give_back();
  }
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  Status alloc(uint64_t size_bytes, Address* out) {
    const uint64_t size = size_of_class(size_bytes);
    const std::lock_guard lock(mutex_);
    if (const auto kept = kept_.find(size); kept != kept_.end() && !kept->second.empty()) {
      *out = kept->second.back();
      kept->second.pop_back();
      if (kept->second.empty()) kept_.erase(kept);
      kept_bytes_ -= size;
      return {};
    }
    if (limit_bytes_ != 0 && taken_bytes_ + size > limit_bytes_) give_back();
    Status taken = take_(size, out);
    if (taken.code() == TENON_RESOURCE_EXHAUSTED && kept_bytes_ != 0) {
      // Other sizes are kept, or other libraries use more than before.
      give_back();
      taken = take_(size, out);
    }
    // Perhaps without what was added for the next ones to fit.
    if (taken.code() == TENON_RESOURCE_EXHAUSTED && size != size_bytes)
      return take_(size_bytes, out);
    TENON_TRY(taken);
    sizes_.emplace(*out, size);
    taken_bytes_ += size;
    return {};
  }

  Status free(Address address) {
    const std::lock_guard lock(mutex_);
    const auto known = sizes_.find(address);
    if (known == sizes_.end()) return give_(address);
    kept_[known->second].push_back(address);
    kept_bytes_ += known->second;
    return {};
  }

  uint64_t kept_bytes() const {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

 private:
  // Eight sizes for each power of two, so at most an eighth is added.
  static uint64_t size_of_class(uint64_t size_bytes) {
    constexpr uint64_t kLeast = 256;
    const uint64_t step = std::max(kLeast, std::bit_floor(size_bytes) / 8);
    return size_bytes > UINT64_MAX - step ? size_bytes : (size_bytes + step - 1) / step * step;
  }

  void give_back() {
    for (const auto& [size, addresses] : kept_) {
      for (const Address address : addresses) {
        // A runtime that fails to free keeps the memory; it is nobody's any more.
        (void)give_(address);
        sizes_.erase(address);
        taken_bytes_ -= size;
      }
    }
    kept_.clear();
    kept_bytes_ = 0;
  }

  const uint64_t limit_bytes_;
  const Take take_;
  const Give give_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::vector<Address>> kept_;  // by size of class
  std::unordered_map<Address, uint64_t> sizes_;    // of all that was taken so
  uint64_t taken_bytes_ = 0, kept_bytes_ = 0;
};

}  // namespace tenon::stream
#endif
