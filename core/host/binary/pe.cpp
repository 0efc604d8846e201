// PE32+, the files of Windows: sections, the tables of imported and exported names.
#include "core/host/binary/bytes.h"

namespace tenon::host::binary {
namespace {

constexpr uint64_t kCoffBytes = 20, kSectionBytes = 40, kDirectories = 112;
constexpr uint16_t kPlus = 0x20b, kLibrary = 0x2000;
constexpr uint32_t kExecutable = 0x20000000;
constexpr uint16_t kSectionsMax = 96;  // what Windows itself takes
// Directories.
constexpr uint32_t kExports = 0, kImports = 1, kLateImports = 13;

class Pe {
 public:
  static Result<Pe> open(Bytes file) {
    Pe pe;
    pe.file_ = file;
    const uint64_t coff = uint64_t{file.get<uint32_t>(0x3c)} + 4;
    const uint64_t optional = coff + kCoffBytes;
    const auto optional_bytes = file.get<uint16_t>(coff + 16);
    const std::optional<Bytes> head = file.part(optional, optional_bytes);
    if (!head || head->size() < kDirectories || head->get<uint16_t>(0) != kPlus)
      return damaged("PE", "it is not of 64 bits, or its head lies outside");
    pe.head_ = *head;
    pe.machine = file.get<uint16_t>(coff);
    pe.is_library = (file.get<uint16_t>(coff + 18) & kLibrary) != 0;
    const auto count = file.get<uint16_t>(coff + 2);
    if (count > kSectionsMax) return damaged("PE", "it has too many sections");
    for (uint16_t i = 0; i < count; ++i) {
      const std::optional<Bytes> section =
          file.part(optional + optional_bytes + uint64_t{i} * kSectionBytes, kSectionBytes);
      if (!section) return damaged("PE", "the head of a section lies outside");
      pe.sections_.push_back(*section);
    }
    return pe;
  }

  // From an address, relative to where the file is loaded, to the end of its section's bytes.
  std::optional<Bytes> from(uint32_t address) const {
    const std::optional<Bytes> section = at(address);
    if (!section) return std::nullopt;
    const std::optional<Bytes> bytes = content(*section);
    const uint32_t offset = address - section->get<uint32_t>(12);
    return bytes && offset <= bytes->size() ? bytes->part(offset, bytes->size() - offset)
                                            : std::nullopt;
  }
  std::optional<std::string_view> text(uint32_t address) const {
    const std::optional<Bytes> bytes = from(address);
    return bytes ? bytes->text(0) : std::nullopt;
  }
  bool executable(uint32_t address) const {
    const std::optional<Bytes> section = at(address);
    return section && (section->get<uint32_t>(36) & kExecutable) != 0;
  }
  // Address and size of a directory; zeros if it is absent.
  std::pair<uint32_t, uint32_t> directory(uint32_t index) const {
    if (index >= head_.get<uint32_t>(108)) return {};
    const uint64_t at = kDirectories + uint64_t{index} * 8;
    return {head_.get<uint32_t>(at), head_.get<uint32_t>(at + 4)};
  }
  std::optional<Bytes> section_named(std::string_view name) const {
    for (const Bytes& section : sections_) {
      if (section.field(0, 8) == name) return content(section);
    }
    return std::nullopt;
  }

  uint16_t machine = 0;
  bool is_library = false;

 private:
  std::optional<Bytes> at(uint32_t address) const {
    for (const Bytes& section : sections_) {
      const auto begin = section.get<uint32_t>(12);
      const uint32_t size = std::max(section.get<uint32_t>(8), section.get<uint32_t>(16));
      if (address >= begin && address - begin < size) return section;
    }
    return std::nullopt;
  }
  std::optional<Bytes> content(Bytes section) const {
    return file_.part(section.get<uint32_t>(20), section.get<uint32_t>(16));
  }

  Bytes file_, head_;
  std::vector<Bytes> sections_;
};

std::string arch_name(uint16_t machine) {
  if (machine == 0x8664) return "x86_64";
  if (machine == 0xaa64) return "aarch64";
  return "machine " + std::to_string(machine);
}

// A table of records, ended by one without a name, whose field `name_at` has the name's address.
Status read_imports(const Pe& pe, uint32_t directory, uint64_t record, uint64_t name_at,
                    Binary* out) {
  const auto [address, size] = pe.directory(directory);
  if (address == 0) return Status();
  const std::optional<Bytes> table = pe.from(address);
  if (!table) return damaged("PE", "its table of needed libraries lies outside");
  for (uint64_t at = 0;; at += record) {
    uint32_t name = 0;
    if (!table->at(at + name_at, &name))
      return damaged("PE", "its table of needed libraries does not end");
    if (name == 0) return Status();
    const std::optional<std::string_view> text = pe.text(name);
    if (!text || !add_needed(*text, out))
      return damaged("PE", "the name of a library that it needs lies outside");
  }
}

}  // namespace

bool pe_begins(Bytes file) {
  const std::optional<Bytes> begin = file.part(0, 0x40);
  if (!begin || begin->get<uint16_t>(0) != 0x5a4d) return false;        // "MZ"
  return file.get<uint32_t>(begin->get<uint32_t>(0x3c)) == 0x00004550;  // "PE"
}

Status read_pe(Bytes file, Binary* out) {
  TENON_ASSIGN_OR_RETURN(const Pe pe, Pe::open(file));
  out->os = "windows";
  out->arch = arch_name(pe.machine);
  out->is_library = pe.is_library;
  if (const std::optional<Bytes> notes = pe.section_named(".tenon")) out->note = find_note(*notes);
  TENON_RETURN_IF_ERROR(read_imports(pe, kImports, 20, 12, out));
  return read_imports(pe, kLateImports, 32, 4, out);
}

Result<Exported> pe_exports(Bytes file, std::string_view symbol) {
  TENON_ASSIGN_OR_RETURN(const Pe pe, Pe::open(file));
  const auto [address, size] = pe.directory(kExports);
  if (address == 0) return Exported::kAbsent;
  const std::optional<Bytes> table = pe.from(address);
  if (!table || table->size() < 40) return damaged("PE", "its exported symbols lie outside");
  const uint32_t functions = table->get<uint32_t>(20), count = table->get<uint32_t>(24);
  const std::optional<Bytes> names = pe.from(table->get<uint32_t>(32)),
                             places = pe.from(table->get<uint32_t>(28)),
                             ordinals = pe.from(table->get<uint32_t>(36));
  if (count == 0) return Exported::kAbsent;
  if (!names || !places || !ordinals) return damaged("PE", "its exported symbols lie outside");
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t name = 0, place = 0;
    uint16_t ordinal = 0;
    if (!names->at(i * 4, &name) || !ordinals->at(i * 2, &ordinal))
      return damaged("PE", "its table of exported names ends early");
    const std::optional<Bytes> text = pe.from(name);
    if (!text || !text->has(0, symbol)) continue;
    if (ordinal >= functions || !places->at(uint64_t{ordinal} * 4, &place))
      return damaged("PE", "an exported symbol lies outside");
    // A place inside the directory is the name of another library's function.
    const bool forwarded = place >= address && place - address < size;
    return forwarded || pe.executable(place) ? Exported::kFunction : Exported::kData;
  }
  return Exported::kAbsent;
}

}  // namespace tenon::host::binary
