#include "core/package/container.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <new>

#include "core/base/checked.h"
#include "core/base/process/log.h"
#include "core/base/str.h"

namespace tenon::package {
namespace {

struct Header {
  char magic[8];
  uint32_t version, sections;
  uint64_t total, zero;
  Digest digest;
};
static_assert(sizeof(Header) == 48);

struct Row {
  uint32_t kind, alignment;
  uint64_t offset, size;
  Digest digest;
  uint64_t zero;
};
static_assert(sizeof(Row) == 48);

constexpr size_t kHeadBytes = offsetof(Header, digest);
constexpr uint64_t kFront = sizeof(Header) + kSections * sizeof(Row);

Digest from_xxh(const XXH128_hash_t& hash) {
  return {hash.low64, hash.high64};
}

std::string_view bytes_at(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

Digest digest_of_front(const Header& header, std::span<const Row> rows) {
  Digester digester;
  digester.add(bytes_at(&header, kHeadBytes));
  digester.add(bytes_at(rows.data(), rows.size_bytes()));
  return digester.end();
}

Status too_large() {
  return error(TENON_RESOURCE_EXHAUSTED, "T0110", "the package does not fit in 64 bits");
}

Status lay_out(const std::array<Content, kSections>& contents, std::array<Row, kSections>* rows,
               uint64_t* total) {
  *total = kFront;
  for (size_t i = 0; i < kSections; ++i) {
    Row& row = (*rows)[i];
    const auto section = static_cast<Section>(i);
    row = {
        static_cast<uint32_t>(i), static_cast<uint32_t>(section_alignment(section)), 0, 0, {}, 0};
    row.size = contents[i].size;
    if (!checked_align_up(*total, row.alignment, &row.offset) ||
        !checked_add(row.offset, row.size, total))
      return too_large();
    Digester digester;
    TENON_RETURN_IF_ERROR(contents[i].pieces([&](std::string_view piece) {
      digester.add(piece);
      return Status();
    }));
    row.digest = digester.end();
  }
  return {};
}

}  // namespace

std::string_view section_name(Section section) {
  constexpr std::string_view kNames[kSections] = {"program", "report", "code", "constants"};
  return kNames[static_cast<size_t>(section)];
}

uint64_t section_alignment(Section section) {
  return section == Section::kCode || section == Section::kConstants ? kPageBytes : 64;
}

Digest digest_of(std::string_view bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

Digester::Digester() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();  // as any other allocation of this room
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_));
}
Digester::~Digester() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}
void Digester::add(std::string_view bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}
Digest Digester::end() const {
  return from_xxh(XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_)));
}

Status write_container(const std::array<Content, kSections>& contents,
                       const std::function<Status(std::string_view)>& sink) {
  std::array<Row, kSections> rows;
  Header header{};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.version = kVersion;
  header.sections = kSections;
  TENON_RETURN_IF_ERROR(lay_out(contents, &rows, &header.total));
  header.digest = digest_of_front(header, rows);
  TENON_RETURN_IF_ERROR(sink(bytes_at(&header, sizeof header)));
  TENON_RETURN_IF_ERROR(sink(bytes_at(rows.data(), sizeof rows)));
  static constexpr char kZeros[kPageBytes] = {};
  uint64_t at = kFront;
  for (size_t i = 0; i < kSections; ++i) {
    TENON_RETURN_IF_ERROR(sink(bytes_at(kZeros, rows[i].offset - at)));
    uint64_t written = 0;
    TENON_RETURN_IF_ERROR(contents[i].pieces([&](std::string_view piece) {
      written += piece.size();
      return sink(piece);
    }));
    TENON_CHECK(written == rows[i].size, "a section of {} bytes came as {}", rows[i].size, written);
    at = rows[i].offset + rows[i].size;
  }
  return {};
}

Result<Extents> read_container(std::span<const std::byte> file, std::string_view name) {
  Header header;
  if (file.size() < kMagic.size() || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    return error(TENON_DATA_LOSS, "T0521", "{} is not a package: it does not begin as one",
                 quoted(name));
  if (file.size() < sizeof header) return damaged(name, "it is cut within its header");
  std::memcpy(&header, file.data(), sizeof header);
  if (header.version != kVersion) {
    return error(TENON_FAILED_PRECONDITION, "T0522",
                 "{} has version {} of the format, and this libtenon reads version {}",
                 quoted(name), header.version, kVersion);
  }
  if (header.total != file.size()) {
    return damaged(
        name, fmt::format("it has {} bytes, and its header says {}", file.size(), header.total));
  }
  std::array<Row, kSections> rows;
  if (header.sections != kSections || file.size() < kFront)
    return damaged(name, "its table of sections has another length");
  std::memcpy(rows.data(), file.data() + sizeof header, sizeof rows);
  if (digest_of_front(header, rows) != header.digest)
    return damaged(name, "the digest of its header and table does not match");
  Extents extents;
  uint64_t end = kFront;
  for (size_t i = 0; i < kSections; ++i) {
    const Row& row = rows[i];
    uint64_t begin = 0;
    const bool sound = row.kind == i && row.zero == 0 &&
                       row.alignment == section_alignment(static_cast<Section>(i)) &&
                       checked_align_up(end, row.alignment, &begin) && row.offset == begin &&
                       range_inside(row.offset, row.size, file.size());
    if (!sound) return damaged(name, fmt::format("section {} lies where it cannot", i));
    for (uint64_t k = end; k < begin; ++k) {
      if (file[k] != std::byte{0}) return damaged(name, "bytes between its sections are not zero");
    }
    extents[i] = {row.offset, row.size, row.digest};
    end = row.offset + row.size;
  }
  if (header.zero != 0 || end != file.size()) return damaged(name, "bytes follow its last section");
  return extents;
}

std::string_view bytes_of(std::span<const std::byte> file, const Extent& extent) {
  return {reinterpret_cast<const char*>(file.data()) + extent.offset, extent.size};
}

Status check_section(std::span<const std::byte> file, const Extents& extents, Section section,
                     std::string_view name) {
  const Extent& extent = extents[static_cast<size_t>(section)];
  if (digest_of(bytes_of(file, extent)) == extent.digest) return {};
  return damaged(name,
                 fmt::format("the digest of its section {} does not match", section_name(section)));
}

Status damaged(std::string_view name, std::string_view what) {
  return error(TENON_DATA_LOSS, "T0521", "{} is damaged: {}", quoted(name), what);
}

}  // namespace tenon::package
