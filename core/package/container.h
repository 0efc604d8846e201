// The file of a package: a header, a table of sections, and the sections, one after the other.
//
//   0    magic, 8 bytes; u32 version; u32 number of sections; u64 bytes of the file; u64 zero
//   32   128-bit digest of the bytes before it and of the table
//   48   per section: u32 kind, u32 alignment, u64 offset, u64 size, 128-bit digest of its bytes,
//        u64 zero
//   ...  the sections in order, each at the first multiple of its alignment, zeros before it
//
// All numbers are little-endian, digests are XXH3-128. Digests find damage, not forgery.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"

namespace tenon::package {

inline constexpr std::string_view kMagic("\x89TPK\r\n\x1a\n", 8);
inline constexpr uint32_t kVersion = 1;
inline constexpr uint64_t kPageBytes = 4096;

enum class Section : uint32_t { kProgram, kReport, kCode, kConstants, kCount };
inline constexpr size_t kSections = static_cast<size_t>(Section::kCount);
std::string_view section_name(Section section);
uint64_t section_alignment(Section section);

using Digest = std::array<uint64_t, 2>;
Digest digest_of(std::string_view bytes);

// A digest of bytes that come in pieces.
class Digester {
 public:
  Digester();
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;
  void add(std::string_view bytes);
  Digest end() const;

 private:
  void* state_;
};

// Where a section lies, and what its bytes must be.
struct Extent {
  uint64_t offset = 0, size = 0;
  Digest digest{};
};
using Extents = std::array<Extent, kSections>;

// Gives `size` bytes of a section in any number of pieces.
using Pieces = std::function<Status(const std::function<Status(std::string_view)>& take)>;
struct Content {
  uint64_t size = 0;
  Pieces pieces;  // called twice, with the same result: for the digest, and for the file
};

// Writes the file through `sink`, front to back. Fails as pieces and sink do.
Status write_container(const std::array<Content, kSections>& contents,
                       const std::function<Status(std::string_view)>& sink);

// Checks the header, the table, the layout and the zeros between sections, but no section's bytes.
// name: for messages. T0521 for damage or another kind of file, T0522 for another version.
Result<Extents> read_container(std::span<const std::byte> file, std::string_view name);
// T0521 if the bytes of a section are not those that were written. Reads all of them.
Status check_section(std::span<const std::byte> file, const Extents& extents, Section section,
                     std::string_view name);
std::string_view bytes_of(std::span<const std::byte> file, const Extent& extent);

// T0521: "`x.tpk` is damaged: ...".
Status damaged(std::string_view name, std::string_view what);

}  // namespace tenon::package
