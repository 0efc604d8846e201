// Bounded reading of a file's bytes, for the readers of single formats. Records are copied out, so
// that alignment does not matter.
#pragma once
#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

#include "core/host/binary/binary.h"

namespace tenon::host::binary {

class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t size() const { return bytes_.size(); }

  // The record or number at an offset; false outside the bytes.
  template <typename T>
  bool at(uint64_t offset, T* out) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (offset > size() || sizeof(T) > size() - offset) return false;
    std::memcpy(out, bytes_.data() + offset, sizeof(T));
    return true;
  }
  // The same with 0 outside, for fields of a record that is known to lie inside.
  template <typename T>
  T get(uint64_t offset) const {
    T value = {};
    (void)at(offset, &value);
    return value;
  }
  std::optional<Bytes> part(uint64_t offset, uint64_t length) const {
    if (offset > size() || length > size() - offset) return std::nullopt;
    return Bytes(bytes_.subspan(offset, length));
  }
  // A text that ends with a zero within kNameBytesMax.
  std::optional<std::string_view> text(uint64_t offset) const {
    if (offset >= size()) return std::nullopt;
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + offset;
    const size_t most = std::min<uint64_t>(size() - offset, kNameBytesMax + 1);
    const void* end = std::memchr(begin, 0, most);
    if (end == nullptr) return std::nullopt;
    return std::string_view(begin, static_cast<size_t>(static_cast<const char*>(end) - begin));
  }
  // Whether this text and its zero are at the offset.
  bool has(uint64_t offset, std::string_view text) const {
    const std::optional<Bytes> there = part(offset, text.size() + 1);
    return there && std::memcmp(there->bytes_.data(), text.data(), text.size()) == 0 &&
           there->bytes_.back() == std::byte{0};
  }
  // A text in a field of fixed size, which a zero ends if it is shorter.
  std::string_view field(uint64_t offset, size_t length) const {
    const std::optional<Bytes> there = part(offset, length);
    if (!there) return {};
    const auto* begin = reinterpret_cast<const char*>(there->bytes_.data());
    return {begin, ::strnlen(begin, length)};
  }
  std::span<const std::byte> span() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

inline Status damaged(std::string_view format, std::string_view what) {
  return error(TENON_INVALID_ARGUMENT, "P0704", "it is not a sound {} file: {}", format, what);
}

// Adds a library that is needed. False if there are too many.
inline bool add_needed(std::string_view name, Binary* out) {
  if (out->needed.size() >= kNeededMax) return false;
  out->needed.push_back(name);
  return true;
}

// The plugin's note among the notes in a section or segment; empty if it has none.
std::span<const std::byte> find_note(Bytes notes);

// Each format: `begins` looks at the first bytes; `read` fills everything but `bytes`.
bool elf_begins(Bytes file);
Status read_elf(Bytes file, Binary* out);
Result<Exported> elf_exports(Bytes file, std::string_view symbol);

bool macho_begins(Bytes file);
// The part of a universal file for this processor; the file itself if it is none.
Result<Bytes> macho_part(Bytes file, std::string_view arch);
Status read_macho(Bytes file, Binary* out);
Result<Exported> macho_exports(Bytes file, std::string_view symbol);

bool pe_begins(Bytes file);
Status read_pe(Bytes file, Binary* out);
Result<Exported> pe_exports(Bytes file, std::string_view symbol);

}  // namespace tenon::host::binary
