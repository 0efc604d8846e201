#include "core/ir/blob.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <new>

namespace tenon::ir {
namespace {

Status no_memory(uint64_t bytes) {
  return error(TENON_RESOURCE_EXHAUSTED, "T0111", "cannot allocate {} bytes for a constant", bytes);
}

class BytesBlob final : public Blob {
 public:
  explicit BytesBlob(std::vector<std::byte> bytes) : Blob(bytes.size()), bytes_(std::move(bytes)) {}
  Result<const void*> data() override { return static_cast<const void*>(bytes_.data()); }

 private:
  const std::vector<std::byte> bytes_;
};

class MappedBlob final : public Blob {
 public:
  explicit MappedBlob(std::shared_ptr<const MappedRegion> region)
      : Blob(region->bytes().size()), region_(std::move(region)) {}
  Result<const void*> data() override { return static_cast<const void*>(region_->bytes().data()); }

 private:
  const std::shared_ptr<const MappedRegion> region_;
};

class RangeBlob final : public Blob {
 public:
  RangeBlob(Ref<Blob> parent, uint64_t offset, uint64_t size_bytes)
      : Blob(size_bytes), parent_(std::move(parent)), offset_(offset) {}
  Result<const void*> data() override {
    TENON_ASSIGN_OR_RETURN(const void* whole, parent_->data());
    return static_cast<const void*>(static_cast<const std::byte*>(whole) + offset_);
  }

 private:
  const Ref<Blob> parent_;
  const uint64_t offset_;
};

class SplatBlob final : public Blob {
 public:
  SplatBlob(std::span<const std::byte> element, uint64_t size_bytes)
      : Blob(size_bytes), element_bytes_(element.size()) {
    std::memcpy(element_, element.data(), element.size());
  }
  std::span<const std::byte> splat_element() const override { return {element_, element_bytes_}; }
  Result<const void*> data() override {
    std::call_once(once_, [this] { expand(); });
    if (size_bytes() != 0 && !expanded_) return no_memory(size_bytes());
    return static_cast<const void*>(expanded_.get());
  }

 protected:
  Result<Digest> compute_digest() override {
    XXH3_state_t* state = XXH3_createState();
    if (state == nullptr) return no_memory(1024);
    XXH3_128bits_reset(state);
    std::byte chunk[4096];
    for (size_t i = 0; i < sizeof chunk; i += element_bytes_)
      std::memcpy(chunk + i, element_, element_bytes_);
    for (uint64_t left = size_bytes(); left != 0;) {
      const size_t n = left < sizeof chunk ? static_cast<size_t>(left) : sizeof chunk;
      XXH3_128bits_update(state, chunk, n);
      left -= n;
    }
    const XXH128_hash_t h = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return Digest{h.low64, h.high64};
  }

 private:
  void expand() {
    std::unique_ptr<std::byte[]> bytes(new (std::nothrow)
                                           std::byte[size_bytes() == 0 ? 1 : size_bytes()]);
    if (!bytes) return;
    for (uint64_t i = 0; i < size_bytes(); i += element_bytes_) {
      std::memcpy(bytes.get() + i, element_, element_bytes_);
    }
    expanded_ = std::move(bytes);
  }
  std::byte element_[16];
  const size_t element_bytes_;
  std::once_flag once_;
  std::unique_ptr<std::byte[]> expanded_;
};

class LateBlob final : public Blob {
 public:
  explicit LateBlob(uint64_t size_bytes) : Blob(size_bytes) {}
  Result<const void*> data() override {
    return error(TENON_FAILED_PRECONDITION, "T0695",
                 "a constant's {} bytes are known when the program is called, not before",
                 size_bytes());
  }
};

class BorrowedBlob final : public Blob {
 public:
  BorrowedBlob(const void* data, uint64_t size_bytes, std::shared_ptr<void> owner)
      : Blob(size_bytes), data_(data), owner_(std::move(owner)) {}
  Result<const void*> data() override { return data_; }

 private:
  const void* const data_;
  const std::shared_ptr<void> owner_;
};

}  // namespace

Digest digest_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.low64, h.high64};
}

Result<Digest> Blob::compute_digest() {
  TENON_ASSIGN_OR_RETURN(const void* bytes, data());
  return digest_of({static_cast<const std::byte*>(bytes), size_bytes_});
}

Result<Digest> Blob::digest() {
  std::call_once(digest_once_, [this] {
    Result<Digest> r = compute_digest();
    if (r.ok())
      digest_ = *r;
    else
      digest_status_ = r.status();
  });
  if (!digest_status_.ok()) return digest_status_;
  return digest_;
}

Result<Ref<Blob>> blob_bytes(std::span<const std::byte> bytes) {
  return blob_adopt(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

Ref<Blob> blob_adopt(std::vector<std::byte> bytes) {
  return Ref<Blob>::adopt(new BytesBlob(std::move(bytes)));
}

Result<Ref<Blob>> blob_splat(std::span<const std::byte> element, uint64_t size_bytes) {
  const size_t n = element.size();
  if (n != 1 && n != 2 && n != 4 && n != 8 && n != 16) {
    return error(TENON_INVALID_ARGUMENT, "T0319",
                 "the element of a splat has {} bytes; 1, 2, 4, 8 or 16 are possible", n);
  }
  if (size_bytes % n != 0) {
    return error(TENON_INVALID_ARGUMENT, "T0319",
                 "a splat of {} bytes is not a multiple of its element's {}", size_bytes, n);
  }
  return Ref<Blob>::adopt(new SplatBlob(element, size_bytes));
}

Result<Ref<Blob>> blob_range(Ref<Blob> parent, uint64_t offset, uint64_t size_bytes) {
  if (offset > parent->size_bytes() || size_bytes > parent->size_bytes() - offset) {
    return error(TENON_OUT_OF_RANGE, "T0106",
                 "bytes {} to {} + {} do not lie inside the {} bytes of the blob", offset, offset,
                 size_bytes, parent->size_bytes());
  }
  return Ref<Blob>::adopt(new RangeBlob(std::move(parent), offset, size_bytes));
}

Ref<Blob> blob_late(uint64_t size_bytes) {
  return Ref<Blob>::adopt(new LateBlob(size_bytes));
}

Ref<Blob> blob_borrowed(const void* data, uint64_t size_bytes, std::shared_ptr<void> owner) {
  return Ref<Blob>::adopt(new BorrowedBlob(data, size_bytes, std::move(owner)));
}

Ref<Blob> blob_mapped(std::shared_ptr<const MappedRegion> region) {
  return Ref<Blob>::adopt(new MappedBlob(std::move(region)));
}

}  // namespace tenon::ir
