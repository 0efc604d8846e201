// ELF of 64 bits, by what the system's loader reads: segments and the dynamic table. Section
// headers may be gone.
#include <elf.h>

#include "core/host/binary/bytes.h"

namespace tenon::host::binary {
namespace {

// Where addresses lie in the file.
class Elf {
 public:
  static Result<Elf> open(Bytes file) {
    Elf elf;
    elf.file_ = file;
    if (!file.at(0, &elf.header)) return damaged("ELF", "it ends within its head");
    if (elf.header.e_ident[EI_CLASS] != ELFCLASS64 || elf.header.e_ident[EI_DATA] != ELFDATA2LSB)
      return damaged("ELF", "it is not of 64 bits with the low byte first");
    if (elf.header.e_phentsize != sizeof(Elf64_Phdr) && elf.header.e_phnum != 0)
      return damaged("ELF", "its segments have heads of another size");
    for (uint16_t i = 0; i < elf.header.e_phnum; ++i) {
      Elf64_Phdr segment;
      if (!file.at(elf.header.e_phoff + uint64_t{i} * sizeof(segment), &segment))
        return damaged("ELF", "the head of a segment lies outside");
      elf.segments.push_back(segment);
    }
    return elf;
  }

  // From an address to the end of what the file has of its segment.
  std::optional<Bytes> from(uint64_t address) const {
    for (const Elf64_Phdr& s : segments) {
      if (s.p_type != PT_LOAD || address < s.p_vaddr || address - s.p_vaddr >= s.p_filesz) continue;
      const std::optional<Bytes> whole = file_.part(s.p_offset, s.p_filesz);
      return whole ? whole->part(address - s.p_vaddr, s.p_filesz - (address - s.p_vaddr))
                   : std::nullopt;
    }
    return std::nullopt;
  }

  Elf64_Ehdr header = {};
  std::vector<Elf64_Phdr> segments;

 private:
  Bytes file_;
};

struct Dynamic {
  uint64_t texts = 0, texts_bytes = 0, symbols = 0, hash = 0, gnu_hash = 0;
  std::vector<uint64_t> needed;  // offsets of texts
};

Status read_dynamic(const Elf& elf, Bytes file, Dynamic* out) {
  for (const Elf64_Phdr& segment : elf.segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::optional<Bytes> table = file.part(segment.p_offset, segment.p_filesz);
    if (!table) return damaged("ELF", "its dynamic table lies outside");
    Elf64_Dyn entry;
    for (uint64_t at = 0; table->at(at, &entry) && entry.d_tag != DT_NULL; at += sizeof(entry)) {
      const uint64_t value = entry.d_un.d_val;
      if (entry.d_tag == DT_STRTAB) out->texts = value;
      if (entry.d_tag == DT_STRSZ) out->texts_bytes = value;
      if (entry.d_tag == DT_SYMTAB) out->symbols = value;
      if (entry.d_tag == DT_HASH) out->hash = value;
      if (entry.d_tag == DT_GNU_HASH) out->gnu_hash = value;
      if (entry.d_tag != DT_NEEDED) continue;
      if (out->needed.size() >= kNeededMax) return damaged("ELF", "it needs too many libraries");
      out->needed.push_back(value);
    }
  }
  return Status();
}

std::string arch_name(uint16_t machine) {
  if (machine == EM_X86_64) return "x86_64";
  if (machine == EM_AARCH64) return "aarch64";
  return "machine " + std::to_string(machine);
}

std::optional<Bytes> texts_of(const Elf& elf, const Dynamic& dynamic) {
  const std::optional<Bytes> from = elf.from(dynamic.texts);
  return from ? from->part(0, dynamic.texts_bytes) : std::nullopt;
}

// The number of symbols. The GNU table has none: its chains reach the last symbol.
std::optional<uint64_t> symbol_count(const Elf& elf, const Dynamic& dynamic) {
  if (dynamic.hash != 0) {
    const std::optional<Bytes> table = elf.from(dynamic.hash);
    uint32_t count = 0;
    if (!table || !table->at(4, &count)) return std::nullopt;
    return count;
  }
  const std::optional<Bytes> table =
      dynamic.gnu_hash == 0 ? std::nullopt : elf.from(dynamic.gnu_hash);
  if (!table || table->size() < 16) return std::nullopt;
  const uint64_t buckets = table->get<uint32_t>(0), first = table->get<uint32_t>(4);
  const uint64_t at = 16 + uint64_t{8} * table->get<uint32_t>(8);
  uint64_t last = 0;
  for (uint64_t i = 0; i < buckets; ++i) {
    uint32_t symbol = 0;
    if (!table->at(at + 4 * i, &symbol)) return std::nullopt;
    last = std::max<uint64_t>(last, symbol);
  }
  if (last < first) return first;
  for (;; ++last) {  // the chain of the last bucket; an odd entry ends it
    uint32_t entry = 0;
    if (!table->at(at + 4 * buckets + 4 * (last - first), &entry)) return std::nullopt;
    if ((entry & 1) != 0) return last + 1;
  }
}

}  // namespace

bool elf_begins(Bytes file) {
  const std::optional<Bytes> magic = file.part(0, SELFMAG);
  return magic && std::memcmp(magic->span().data(), ELFMAG, SELFMAG) == 0;
}

Status read_elf(Bytes file, Binary* out) {
  TENON_ASSIGN_OR_RETURN(const Elf elf, Elf::open(file));
  out->os = "linux";
  out->arch = arch_name(elf.header.e_machine);
  out->is_library = elf.header.e_type == ET_DYN;
  for (const Elf64_Phdr& segment : elf.segments) {
    if (segment.p_type != PT_NOTE || segment.p_align == 8 || !out->note.empty()) continue;
    const std::optional<Bytes> notes = file.part(segment.p_offset, segment.p_filesz);
    if (!notes) return damaged("ELF", "a segment of notes lies outside");
    out->note = find_note(*notes);
  }
  Dynamic dynamic;
  TENON_RETURN_IF_ERROR(read_dynamic(elf, file, &dynamic));
  if (dynamic.needed.empty()) return Status();
  const std::optional<Bytes> texts = texts_of(elf, dynamic);
  if (!texts) return damaged("ELF", "its table of texts lies outside");
  for (uint64_t at : dynamic.needed) {
    const std::optional<std::string_view> name = texts->text(at);
    if (!name || !add_needed(*name, out))
      return damaged("ELF", "the name of a library that it needs lies outside");
  }
  return Status();
}

Result<Exported> elf_exports(Bytes file, std::string_view symbol) {
  TENON_ASSIGN_OR_RETURN(const Elf elf, Elf::open(file));
  Dynamic dynamic;
  TENON_RETURN_IF_ERROR(read_dynamic(elf, file, &dynamic));
  if (dynamic.symbols == 0) return Exported::kAbsent;
  const std::optional<Bytes> symbols = elf.from(dynamic.symbols), texts = texts_of(elf, dynamic);
  const std::optional<uint64_t> count = symbol_count(elf, dynamic);
  if (!symbols || !texts || !count) return damaged("ELF", "its table of symbols lies outside");
  for (uint64_t i = 0; i < *count; ++i) {
    Elf64_Sym entry;
    if (!symbols->at(i * sizeof(entry), &entry))
      return damaged("ELF", "its table of symbols ends early");
    const unsigned binding = ELF64_ST_BIND(entry.st_info), type = ELF64_ST_TYPE(entry.st_info);
    if (binding == STB_LOCAL || entry.st_shndx == SHN_UNDEF || !texts->has(entry.st_name, symbol))
      continue;
    return type == STT_FUNC || type == STT_GNU_IFUNC ? Exported::kFunction : Exported::kData;
  }
  return Exported::kAbsent;
}

}  // namespace tenon::host::binary
