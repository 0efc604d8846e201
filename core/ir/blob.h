// Bytes of constants: reference-counted, immutable, expanded or mapped on first use. This is the
// type behind tenon_blob_t.
//
// Threads: safe.
#pragma once
#include <tenon/abi/base.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/base/errors/status.h"
#include "core/base/file.h"
#include "core/ir/ref.h"

namespace tenon::ir {

struct Digest {
  uint64_t lo = 0, hi = 0;
  bool operator==(const Digest&) const = default;
};

// XXH3-128.
Digest digest_of(std::span<const std::byte> bytes);

class Blob {
 public:
  virtual ~Blob() = default;
  Blob(const Blob&) = delete;
  Blob& operator=(const Blob&) = delete;

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  uint64_t size_bytes() const { return size_bytes_; }
  // The bytes, valid while the blob is retained. The first call may read a file or allocate.
  virtual Result<const void*> data() = 0;
  // The element if all elements are equal to it, else empty.
  virtual std::span<const std::byte> splat_element() const { return {}; }
  // Of the bytes, computed once. A splat's digest is that of its expanded bytes, computed without
  // expanding them.
  Result<Digest> digest();

  tenon_blob_t* abi() { return reinterpret_cast<tenon_blob_t*>(this); }
  static Blob* from(tenon_blob_t* blob) { return reinterpret_cast<Blob*>(blob); }

 protected:
  explicit Blob(uint64_t size_bytes) : size_bytes_(size_bytes) {}
  virtual Result<Digest> compute_digest();

 private:
  std::atomic<uint32_t> references_{1};
  const uint64_t size_bytes_;
  std::once_flag digest_once_;
  Digest digest_;
  Status digest_status_;
};

// Each returns one reference.
Result<Ref<Blob>> blob_bytes(std::span<const std::byte> bytes);  // copies
Ref<Blob> blob_adopt(std::vector<std::byte> bytes);
// element_bytes 1, 2, 4, 8 or 16; size_bytes a multiple of it.
Result<Ref<Blob>> blob_splat(std::span<const std::byte> element, uint64_t size_bytes);
// OUT_OF_RANGE unless the range lies inside. Retains the parent.
Result<Ref<Blob>> blob_range(Ref<Blob> parent, uint64_t offset, uint64_t size_bytes);
Ref<Blob> blob_mapped(std::shared_ptr<const MappedRegion> region);
// Bytes that are known later, elsewhere: data() fails with T0695.
Ref<Blob> blob_late(uint64_t size_bytes);
// Memory of another owner, which `owner` keeps alive.
Ref<Blob> blob_borrowed(const void* data, uint64_t size_bytes, std::shared_ptr<void> owner);

}  // namespace tenon::ir
