// Mach-O of 64 bits, the files of macOS: load commands, and the trie of exported symbols. Universal
// files hold one such file for each processor.
#include "core/host/binary/bytes.h"

namespace tenon::host::binary {
namespace {

constexpr uint32_t kMagic = 0xfeedfacf, kUniversal = 0xbebafeca, kUniversal64 = 0xbfbafeca;
constexpr uint32_t kX86 = 0x01000007, kArm = 0x0100000c;
constexpr uint32_t kTypeLibrary = 6, kTypeBundle = 8;
constexpr uint32_t kPartsMax =
    32;  // a Java class begins like a universal file, with a larger number
// Load commands. The highest bit says that loaders must know the command.
constexpr uint32_t kSymbols = 0x2, kSegment = 0x19, kInfo = 0x22, kInfoOnly = 0x80000022,
                   kTrie = 0x80000033;
constexpr uint32_t kLibraries[] = {0xc, 0x20, 0x80000018, 0x8000001f, 0x80000023};
constexpr uint64_t kHeadBytes = 32, kSegmentBytes = 72, kSectionBytes = 80;
constexpr uint32_t kHasInstructions = 0x80000400;
constexpr uint64_t kReexported = 8;

uint32_t swapped(uint32_t v) {
  return v >> 24 | (v >> 8 & 0xff00) | (v << 8 & 0xff0000) | v << 24;
}

std::string arch_name(uint32_t type) {
  if (type == kX86) return "x86_64";
  if (type == kArm) return "aarch64";
  return "machine " + std::to_string(type);
}

// Calls fn(command, bytes) for each load command, until it returns a failure.
template <class Fn>
Status for_each_command(Bytes file, Fn fn) {
  const uint32_t count = file.get<uint32_t>(16);
  uint64_t at = kHeadBytes;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t size = file.get<uint32_t>(at + 4);
    const std::optional<Bytes> bytes = file.part(at, size);
    if (!bytes || size < 8) return damaged("Mach-O", "a load command lies outside");
    TENON_RETURN_IF_ERROR(fn(bytes->get<uint32_t>(0), *bytes));
    at += size;
  }
  return Status();
}

// Calls fn(section) for each section of a segment's command.
template <class Fn>
Status for_each_section(Bytes segment, Fn fn) {
  const uint32_t count = segment.get<uint32_t>(64);
  for (uint32_t i = 0; i < count; ++i) {
    const std::optional<Bytes> section =
        segment.part(kSegmentBytes + uint64_t{i} * kSectionBytes, kSectionBytes);
    if (!section) return damaged("Mach-O", "a section lies outside its segment's command");
    fn(*section);
  }
  return Status();
}

bool uleb(Bytes bytes, uint64_t* at, uint64_t* out) {
  *out = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    uint8_t byte = 0;
    if (!bytes.at((*at)++, &byte)) return false;
    *out |= uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

struct Places {
  struct Range {
    uint64_t begin, size;
    bool instructions;
  };
  uint64_t base = 0;  // the address of the file's first byte
  std::vector<Range> sections;
  Bytes trie;
  bool has_trie = false;

  Exported kind(uint64_t address) const {
    for (const Range& s : sections) {
      if (address >= s.begin && address - s.begin < s.size)
        return s.instructions ? Exported::kFunction : Exported::kData;
    }
    return Exported::kData;
  }
};

Status read_places(Bytes file, Places* out) {
  return for_each_command(file, [&](uint32_t command, Bytes bytes) -> Status {
    if (command == kSegment) {
      if (bytes.get<uint64_t>(40) == 0 && bytes.get<uint64_t>(48) != 0)
        out->base = bytes.get<uint64_t>(24);
      return for_each_section(bytes, [&](Bytes section) {
        out->sections.push_back({section.get<uint64_t>(32), section.get<uint64_t>(40),
                                 (section.get<uint32_t>(64) & kHasInstructions) != 0});
      });
    }
    if (command != kTrie && command != kInfo && command != kInfoOnly) return Status();
    const uint64_t field = command == kTrie ? 8 : 40;
    const std::optional<Bytes> trie =
        file.part(bytes.get<uint32_t>(field), bytes.get<uint32_t>(field + 4));
    if (!trie) return damaged("Mach-O", "its exported symbols lie outside");
    if (trie->size() == 0) return Status();
    out->trie = *trie;
    out->has_trie = true;
    return Status();
  });
}

// Follows the edges whose texts the name has. An edge without text could lead round in a circle and
// is refused, so each step makes the rest of the name shorter.
Result<Exported> look_up(const Places& places, std::string_view rest) {
  const Bytes trie = places.trie;
  for (uint64_t node = 0;;) {
    uint64_t at = node, size = 0;
    if (!uleb(trie, &at, &size) || size > trie.size())
      return damaged("Mach-O", "a node of its exported symbols lies outside");
    if (rest.empty()) {
      uint64_t flags = 0, address = 0;
      if (size == 0) return Exported::kAbsent;
      if (!uleb(trie, &at, &flags) || !uleb(trie, &at, &address))
        return damaged("Mach-O", "an exported symbol lies outside");
      return (flags & kReexported) != 0 ? Exported::kFunction : places.kind(places.base + address);
    }
    at += size;
    uint8_t children = 0;
    if (!trie.at(at++, &children))
      return damaged("Mach-O", "a node of its exported symbols lies outside");
    bool found = false;
    for (unsigned i = 0; i < children && !found; ++i) {
      const std::optional<std::string_view> edge = trie.text(at);
      if (!edge) return damaged("Mach-O", "the name of an exported symbol lies outside");
      at += edge->size() + 1;
      if (!uleb(trie, &at, &node))
        return damaged("Mach-O", "a node of its exported symbols lies outside");
      if (edge->empty() || !rest.starts_with(*edge)) continue;
      rest.remove_prefix(edge->size());
      found = true;
    }
    if (!found) return Exported::kAbsent;
  }
}

// The older table, where there is no trie.
Result<Exported> in_table(Bytes file, const Places& places, std::string_view name) {
  Exported found = Exported::kAbsent;
  TENON_RETURN_IF_ERROR(for_each_command(file, [&](uint32_t command, Bytes bytes) -> Status {
    if (command != kSymbols || found != Exported::kAbsent) return Status();
    const uint64_t count = bytes.get<uint32_t>(12);
    const std::optional<Bytes> table = file.part(bytes.get<uint32_t>(8), count * 16),
                               texts = file.part(bytes.get<uint32_t>(16), bytes.get<uint32_t>(20));
    if (!table || !texts) return damaged("Mach-O", "its table of symbols lies outside");
    for (uint64_t i = 0; i < count && found == Exported::kAbsent; ++i) {
      const auto type = table->get<uint8_t>(i * 16 + 4);
      const bool is_exported =
          (type & 0xe0) == 0 && (type & 0x1f) == 0x0f;  // external, in a section
      if (is_exported && texts->has(table->get<uint32_t>(i * 16), name))
        found = places.kind(table->get<uint64_t>(i * 16 + 8));
    }
    return Status();
  }));
  return found;
}

}  // namespace

bool macho_begins(Bytes file) {
  return file.get<uint32_t>(0) == kMagic && file.size() >= kHeadBytes;
}

Result<Bytes> macho_part(Bytes file, std::string_view arch) {
  const uint32_t magic = file.get<uint32_t>(0);
  if (magic != kUniversal && magic != kUniversal64) return file;
  const uint32_t count = swapped(file.get<uint32_t>(4));
  if (count == 0 || count > kPartsMax) return file;  // no file of this kind
  const bool wide = magic == kUniversal64;
  std::optional<Bytes> chosen;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t at = 8 + uint64_t{i} * (wide ? 32 : 20);
    const auto number = [&](uint64_t field) {
      const uint64_t high = swapped(file.get<uint32_t>(at + field));
      return wide ? high << 32 | swapped(file.get<uint32_t>(at + field + 4)) : high;
    };
    const std::optional<Bytes> part = file.part(number(8), number(wide ? 16 : 12));
    if (!part) return damaged("universal Mach-O", "the part for a processor lies outside");
    const bool wanted = arch_name(swapped(file.get<uint32_t>(at))) == arch;
    if (wanted || !chosen) chosen = part;
    if (wanted) break;
  }
  return *chosen;
}

Status read_macho(Bytes file, Binary* out) {
  out->os = "macos";
  out->arch = arch_name(file.get<uint32_t>(4));
  const auto type = file.get<uint32_t>(12);
  out->is_library = type == kTypeLibrary || type == kTypeBundle;
  return for_each_command(file, [&](uint32_t command, Bytes bytes) -> Status {
    if (std::ranges::count(kLibraries, command) != 0) {
      const std::optional<std::string_view> name = bytes.text(bytes.get<uint32_t>(8));
      if (!name || !add_needed(*name, out))
        return damaged("Mach-O", "the name of a library that it needs lies outside");
    }
    if (command != kSegment) return Status();
    return for_each_section(bytes, [&](Bytes section) {
      if (section.field(0, 16) != "__tenon" || section.field(16, 16) != "__TEXT") return;
      const std::optional<Bytes> notes =
          file.part(section.get<uint32_t>(48), section.get<uint64_t>(40));
      if (notes && out->note.empty()) out->note = find_note(*notes);
    });
  });
}

Result<Exported> macho_exports(Bytes file, std::string_view symbol) {
  Places places;
  TENON_RETURN_IF_ERROR(read_places(file, &places));
  const std::string name = "_" + std::string(symbol);
  return places.has_trie ? look_up(places, name) : in_table(file, places, name);
}

}  // namespace tenon::host::binary
