// A pool of device memory for runtimes that have none: what is freed is kept for the next
// allocation of about its size, because allocations of the runtime are slow, or wait for all work.
//
// Nothing is ordered here. A caller that frees a buffer says that no submitted work refers to it
// (tenon_device_api_t::free), so the next owner may have it at once, on any stream.
//
// Threads: safe. Users: plugins/intel.
#ifndef TENON_STREAM_KEPT_MEMORY_H_
#define TENON_STREAM_KEPT_MEMORY_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/stream/runtime.h"

namespace tenon::stream {

class KeptMemory;

// The pools of all who share a device's memory, as sessions of a process do: what one keeps is
// given back where another runs short. Threads: safe.
class KeptTogether {
 public:
  // limit_bytes: of the device, for what is in use and what is kept together; 0: no limit.
  // most_kept_bytes: what is freed above that goes back at once.
  explicit KeptTogether(uint64_t limit_bytes, uint64_t most_kept_bytes = UINT64_MAX)
      : limit_bytes_(limit_bytes), most_kept_bytes_(most_kept_bytes) {}
  KeptTogether(const KeptTogether&) = delete;

  // Gives back all that is kept. Whether that was anything. For calls that are short of memory.
  bool give_back();

 private:
  friend class KeptMemory;
  const uint64_t limit_bytes_, most_kept_bytes_;
  std::atomic<uint64_t> taken_bytes_{0}, kept_bytes_{0};
  std::mutex mutex_;  // locked before those of the pools
  std::vector<KeptMemory*> all_;
};

class KeptMemory {
 public:
  using Take = std::function<Status(uint64_t size_bytes, Address* out)>;
  using Give = std::function<Status(Address address)>;

  // Threads of the others that share the memory call `give`, too.
  KeptMemory(std::shared_ptr<KeptTogether> together, Take take, Give give)
      : together_(std::move(together)), take_(std::move(take)), give_(std::move(give)) {
    const std::lock_guard lock(together_->mutex_);
    together_->all_.push_back(this);
  }
  // What is still in use is the owner's to free. The runtime's functions are called once more.
  ~KeptMemory() {
    {
      const std::lock_guard lock(together_->mutex_);
      std::erase(together_->all_, this);
    }
    (void)give_back();
    for (const auto& [address, size] : sizes_) together_->taken_bytes_ -= size;
  }
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  Status alloc(uint64_t size_bytes, Address* out) {
    const uint64_t size = size_of_class(size_bytes);
    if (reuse(size, out)) return {};
    KeptTogether& all = *together_;
    if (all.limit_bytes_ != 0 && all.taken_bytes_ + size > all.limit_bytes_) (void)all.give_back();
    Status taken = take_(size, out);
    // Other sizes are kept, or by others, or other libraries use more than before.
    if (taken.code() == TENON_RESOURCE_EXHAUSTED && all.give_back()) taken = take_(size, out);
    // Perhaps without what was added for the next ones to fit.
    if (taken.code() == TENON_RESOURCE_EXHAUSTED && size != size_bytes)
      return take_(size_bytes, out);
    TENON_TRY(taken);
    const std::lock_guard lock(mutex_);
    sizes_.emplace(*out, size);
    all.taken_bytes_ += size;
    return {};
  }

  Status free(Address address) {
    const std::lock_guard lock(mutex_);
    const auto known = sizes_.find(address);
    if (known == sizes_.end()) return give_(address);
    const uint64_t size = known->second;
    if (together_->kept_bytes_ + size > together_->most_kept_bytes_) {
      sizes_.erase(known);
      together_->taken_bytes_ -= size;
      return give_(address);
    }
    kept_[size].push_back(address);
    kept_bytes_ += size;
    together_->kept_bytes_ += size;
    return {};
  }

  uint64_t kept_bytes() const {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

 private:
  friend class KeptTogether;

  // Eight sizes for each power of two, so at most an eighth is added.
  static uint64_t size_of_class(uint64_t size_bytes) {
    constexpr uint64_t kLeast = 256;
    const uint64_t step = std::max(kLeast, std::bit_floor(size_bytes) / 8);
    return size_bytes > UINT64_MAX - step ? size_bytes : (size_bytes + step - 1) / step * step;
  }

  bool reuse(uint64_t size, Address* out) {
    const std::lock_guard lock(mutex_);
    const auto kept = kept_.find(size);
    if (kept == kept_.end()) return false;
    *out = kept->second.back();
    kept->second.pop_back();
    if (kept->second.empty()) kept_.erase(kept);
    kept_bytes_ -= size;
    together_->kept_bytes_ -= size;
    return true;
  }

  bool give_back() {
    const std::lock_guard lock(mutex_);
    const bool any = !kept_.empty();
    for (const auto& [size, addresses] : kept_) {
      for (const Address address : addresses) {
        // A runtime that fails to free keeps the memory; it has no owner any more.
        (void)give_(address);
        sizes_.erase(address);
        together_->taken_bytes_ -= size;
      }
    }
    kept_.clear();
    together_->kept_bytes_ -= std::exchange(kept_bytes_, 0);
    return any;
  }

  const std::shared_ptr<KeptTogether> together_;
  const Take take_;
  const Give give_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::vector<Address>> kept_;  // by size of class
  std::unordered_map<Address, uint64_t> sizes_;    // of all that was taken so
  uint64_t kept_bytes_ = 0;
};

inline bool KeptTogether::give_back() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (KeptMemory* const one : all_) any = one->give_back() || any;
  return any;
}

}  // namespace tenon::stream
#endif
