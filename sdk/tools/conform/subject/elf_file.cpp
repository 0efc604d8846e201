#include "sdk/tools/conform/subject/elf_file.h"

#include <elf.h>
#include <fmt/core.h>

#include <cstring>
#include <span>

#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

// Copies a record out of the file, so that alignment does not matter.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  bool at(uint64_t offset, T* out) const {
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) return false;
    std::memcpy(out, bytes_.data() + offset, sizeof(T));
    return true;
  }
  // A string that ends inside [offset, end).
  std::string text(uint64_t offset, uint64_t end) const {
    std::string out;
    for (char c = 0; offset < end && at(offset, &c) && c != 0; ++offset) out += c;
    return out;
  }

 private:
  std::span<const std::byte> bytes_;
};

Error damaged(const std::string& path, std::string_view what) {
  return {"P0701", fmt::format("{} is not a sound ELF file: {}", quoted(path), what), {}};
}

std::string arch_name(uint16_t machine) {
  if (machine == EM_X86_64) return "x86_64";
  if (machine == EM_AARCH64) return "aarch64";
  return fmt::format("machine {}", machine);
}

bool read_segments(const Reader& file, const Elf64_Ehdr& header, ElfFile* out) {
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!file.at(header.e_phoff + uint64_t{i} * sizeof(segment), &segment)) return false;
    if (segment.p_type == PT_LOAD)
      out->writable_code |= (segment.p_flags & PF_W) != 0 && (segment.p_flags & PF_X) != 0;
    if (segment.p_type != PT_GNU_STACK) continue;
    out->says_stack = true;
    out->executable_stack = (segment.p_flags & PF_X) != 0;
  }
  return true;
}

bool read_symbols(const Reader& file, const Elf64_Shdr& table, const Elf64_Shdr& texts,
                  ElfFile* out) {
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    if (!file.at(table.sh_offset + at, &symbol)) return false;
    const unsigned binding = ELF64_ST_BIND(symbol.st_info);
    if (binding == STB_LOCAL) continue;
    ElfSymbol& s = out->symbols.emplace_back();
    s.name = file.text(texts.sh_offset + symbol.st_name, texts.sh_offset + texts.sh_size);
    s.defined = symbol.st_shndx != SHN_UNDEF;
    s.function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
    s.weak = binding == STB_WEAK;
  }
  return true;
}

bool read_dynamic(const Reader& file, const Elf64_Shdr& table, const Elf64_Shdr& texts,
                  ElfFile* out) {
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= table.sh_size; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    if (!file.at(table.sh_offset + at, &entry)) return false;
    auto text = [&] {
      return file.text(texts.sh_offset + entry.d_un.d_val, texts.sh_offset + texts.sh_size);
    };
    switch (entry.d_tag) {
      case DT_NEEDED:
        out->needed.push_back(text());
        break;
      case DT_RPATH:
      case DT_RUNPATH:
        out->search_paths.push_back(text());
        break;
      case DT_BIND_NOW:
        out->bind_now = true;
        break;
      case DT_TEXTREL:
        out->text_relocations = true;
        break;
      case DT_FLAGS:
        out->bind_now |= (entry.d_un.d_val & DF_BIND_NOW) != 0;
        out->text_relocations |= (entry.d_un.d_val & DF_TEXTREL) != 0;
        break;
      case DT_FLAGS_1:
        out->bind_now |= (entry.d_un.d_val & DF_1_NOW) != 0;
        break;
      case DT_NULL:
        return true;
      default:
        break;
    }
  }
  return true;
}

bool read_sections(const Reader& file, const Elf64_Ehdr& header, ElfFile* out) {
  auto section = [&](uint64_t index, Elf64_Shdr* s) {
    return index < header.e_shnum && file.at(header.e_shoff + index * sizeof(*s), s);
  };
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table, texts;
    if (!section(i, &table)) return false;
    if (table.sh_type != SHT_DYNSYM && table.sh_type != SHT_DYNAMIC) continue;
    if (!section(table.sh_link, &texts)) return false;
    if (table.sh_type == SHT_DYNSYM && !read_symbols(file, table, texts, out)) return false;
    if (table.sh_type == SHT_DYNAMIC && !read_dynamic(file, table, texts, out)) return false;
  }
  return true;
}

}  // namespace

Result<ElfFile> read_elf(const std::string& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped.ok()) return mapped.error();
  const Reader file(mapped->bytes());
  Elf64_Ehdr header;
  if (!file.at(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return damaged(path, "it does not begin as one");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return damaged(path, "it is not 64-bit and little-endian");
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr))) {
    return damaged(path, "its headers have another size");
  }
  if (header.e_shnum == 0)
    return damaged(
        path, "its section headers were removed, and without them its symbols cannot be listed");
  ElfFile out;
  out.arch = arch_name(header.e_machine);
  out.is_shared_object = header.e_type == ET_DYN;
  if (!read_segments(file, header, &out)) return damaged(path, "a segment lies outside the file");
  if (!read_sections(file, header, &out)) return damaged(path, "a section lies outside the file");
  return out;
}

}  // namespace tenon::conform
