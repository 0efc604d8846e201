// The binary form: a versioned container of checked sections.
//
//   0   magic, 8 bytes
//   8   u32 version (1), u32 section count
//   16  per section: u32 id, u32 zero, u64 offset, u64 size, u64 XXH3-64 of its bytes (0 for BYTES)
//   ... sections, each at a multiple of 64, in order, without overlap; zeros between
//
// Section TEXT is the .tir text of the graph. Section BYTES holds what a text's companion file
// would: constants, whose digests are in the text, so that they are ranges of this file and are not
// copied. All numbers are little-endian. Rationale: one grammar and one checked reader serve both
// forms, and large data is raw bytes.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

#include "core/base/checked.h"
#include "core/base/str.h"
#include "core/ir/serial/serial.h"

namespace tenon::ir {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the binary form is written as memory has it");

constexpr uint32_t kVersion = 1;
constexpr uint32_t kText = 0x54584554;   // "TEXT"
constexpr uint32_t kBytes = 0x45545942;  // "BYTE"
constexpr uint32_t kSectionsMax = 16;
constexpr uint64_t kAlign = 64;

struct SectionHeader {
  uint32_t id, zero;
  uint64_t offset, size, checksum;
};
static_assert(sizeof(SectionHeader) == 32);

Status damaged(std::string_view name, std::string_view what) {
  return error(TENON_DATA_LOSS, "T0210", "{}: {}", quoted(name), what);
}

}  // namespace

Result<std::string> write_binary(const Graph& graph) {
  TENON_ASSIGN_OR_RETURN(const TextForm form, write_text(graph));
  TENON_ASSIGN_OR_RETURN(const std::string bytes, sidecar_bytes(form));
  SectionHeader sections[2] = {
      {kText, 0, 0, form.text.size(), XXH3_64bits(form.text.data(), form.text.size())},
      {kBytes, 0, 0, bytes.size(), 0}};
  auto align = [](uint64_t v) { return (v + kAlign - 1) & ~(kAlign - 1); };
  sections[0].offset = align(16 + sizeof sections);
  sections[1].offset = align(sections[0].offset + sections[0].size);
  std::string out(kBinaryMagic);
  const uint32_t head[2] = {kVersion, 2};
  out.append(reinterpret_cast<const char*>(head), sizeof head);
  out.append(reinterpret_cast<const char*>(sections), sizeof sections);
  out.resize(sections[0].offset, '\0');
  out += form.text;
  out.resize(sections[1].offset, '\0');
  return out + bytes;
}

Result<Ref<Graph>> read_binary(Ref<Blob> blob, std::string_view name) {
  TENON_ASSIGN_OR_RETURN(const void* raw, blob->data());
  const char* data = static_cast<const char*>(raw);
  const uint64_t size = blob->size_bytes();
  uint32_t head[2];
  if (size < kBinaryMagic.size() + sizeof head ||
      std::memcmp(data, kBinaryMagic.data(), kBinaryMagic.size()) != 0) {
    return damaged(name, "the file is cut within its head");
  }
  std::memcpy(head, data + kBinaryMagic.size(), sizeof head);
  if (head[0] != kVersion) {
    return error(TENON_UNIMPLEMENTED, "T0209",
                 "{}: version {} of the binary form is not known here; {} is", quoted(name),
                 head[0], kVersion);
  }
  if (head[1] > kSectionsMax || size < 16 + head[1] * sizeof(SectionHeader)) {
    return damaged(name, "the table of sections is cut or too long");
  }
  std::string_view text;
  Ref<Blob> bytes;
  bool has_text = false;
  uint64_t end = 16 + head[1] * sizeof(SectionHeader);
  for (uint32_t i = 0; i < head[1]; ++i) {
    SectionHeader s;
    std::memcpy(&s, data + 16 + i * sizeof s, sizeof s);
    if (s.offset % kAlign != 0 || s.offset < end || s.offset - end >= kAlign ||
        !range_inside(s.offset, s.size, size)) {
      return damaged(name, "a section lies outside the file, overlaps another or leaves a gap");
    }
    for (uint64_t k = end; k < s.offset; ++k) {
      if (data[k] != 0) return damaged(name, "the bytes between sections are not zero");
    }
    end = s.offset + s.size;
    const bool checked =
        s.id == kBytes ? s.checksum == 0 : XXH3_64bits(data + s.offset, s.size) == s.checksum;
    if (s.zero != 0 || !checked) return damaged(name, "a section fails its checksum");
    if (s.id == kText && !has_text) {
      text = {data + s.offset, static_cast<size_t>(s.size)};
      has_text = true;
    } else if (s.id == kBytes && !bytes) {
      TENON_ASSIGN_OR_RETURN(bytes, blob_range(blob, s.offset, s.size));
    } else {
      return damaged(name, "a section is unknown or occurs twice");
    }
  }
  if (end != size) return damaged(name, "bytes follow the last section");
  if (!has_text) return damaged(name, "there is no TEXT section");
  return read_text(text, name, std::move(bytes), true);
}

}  // namespace tenon::ir
