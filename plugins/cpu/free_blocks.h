// Large blocks that were freed, kept for the next buffer of the same size.
//
// A program that runs again asks for its results again. What the C library gives then lies
// elsewhere, as it joins and cuts blocks: outside the caches, or on pages that the system must
// clear first. That can take longer than the kernels.
#ifndef TENON_PLUGINS_CPU_FREE_BLOCKS_H_
#define TENON_PLUGINS_CPU_FREE_BLOCKS_H_

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <mutex>

namespace tenon::cpu {

class FreeBlocks {
 public:
  // Smaller blocks are found fast anyway. Together, kept blocks have at most kMostBytes, about what
  // a last-level cache holds.
  static constexpr uint64_t kLeastBytes = 256 << 10, kMostBytes = 32 << 20;

  ~FreeBlocks() {
    release();
    ended_ = true;
  }

  // The last block of `bytes` that was given back; null: there is none.
  void* take(uint64_t bytes) {
    if (bytes < kLeastBytes) return nullptr;
    const std::lock_guard lock(mutex_);
    for (uint32_t i = count_; i-- > 0;) {
      if (blocks_[i].bytes == bytes) return remove(i);
    }
    return nullptr;
  }

  // Keeps a block from malloc, or frees it. Those that were kept longest go first.
  void give_back(void* block, uint64_t bytes) {
    if (!kKeeps || ended_ || bytes < kLeastBytes || bytes > kMostBytes) return std::free(block);
    const std::lock_guard lock(mutex_);
    while (count_ == std::size(blocks_) || (count_ != 0 && kept_ + bytes > kMostBytes)) {
      std::free(remove(0));
    }
    blocks_[count_++] = {block, bytes};
    kept_ += bytes;
  }

  // Frees all of them, where no memory is left.
  void release() {
    const std::lock_guard lock(mutex_);
    while (count_ != 0) std::free(remove(count_ - 1));
  }

  uint64_t kept_bytes() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

 private:
  struct Block {
    void* data;
    uint64_t bytes;
  };

  void* remove(uint32_t i) {
    void* const data = blocks_[i].data;
    kept_ -= blocks_[i].bytes;
    for (--count_; i < count_; ++i) blocks_[i] = blocks_[i + 1];
    return data;
  }

// Where a sanitizer looks for uses of freed memory, it is freed.
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool kKeeps = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  static constexpr bool kKeeps = false;
#else
  static constexpr bool kKeeps = true;
#endif
#else
  static constexpr bool kKeeps = true;
#endif

  std::mutex mutex_;
  Block blocks_[16] = {};
  uint32_t count_ = 0;
  uint64_t kept_ = 0;
  bool ended_ = false;  // buffers may be freed after the process' own end of statics
};

}  // namespace tenon::cpu

#endif
