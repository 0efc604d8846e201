#include "code_object.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace {

constexpr unsigned kAmdGpu = 224, kHsa = 64, kVersion5 = 3;
constexpr int kMarked = EI_NIDENT - 1;  // a byte that ELF leaves free

// The low byte of e_flags, EF_AMDGPU_MACH, of the architectures that the plugin compiles for.
const std::map<unsigned, std::string>& machines() {
  static const std::map<unsigned, std::string> all = {
      {0x2f, "gfx906"},  {0x30, "gfx908"},  {0x3f, "gfx90a"},  {0x4c, "gfx942"},
      {0x36, "gfx1030"}, {0x41, "gfx1100"}, {0x46, "gfx1101"}, {0x47, "gfx1102"},
      {0x48, "gfx1200"}, {0x4e, "gfx1201"}};
  return all;
}

template <class T>
T at(const unsigned char* image, uint64_t offset) {
  T out;
  std::memcpy(&out, image + offset, sizeof out);
  return out;
}

// What plugin/plugin.cpp appends to an image: the mark, the size of the text, the text. An image
// comes without its size, so nothing past its end is read unless its header says that this is
// there.
std::string appended_text(const unsigned char* image, const Elf64_Ehdr& header) {
  constexpr char kMark[] = "PTX of the tests' HIP\n";
  if (header.e_ident[kMarked] != 1) return "";
  uint64_t end = header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = at<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  const unsigned char* const appended = image + end;
  constexpr size_t kMarkSize = sizeof kMark - 1;
  if (std::memcmp(appended, kMark, kMarkSize) != 0) return "";
  const auto size = at<uint64_t>(appended, kMarkSize);
  return {reinterpret_cast<const char*>(appended) + kMarkSize + sizeof size, size};
}

}  // namespace

bool CodeObject::parse(const unsigned char* image, std::string* why) {
  const auto header = at<Elf64_Ehdr>(image, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kAmdGpu ||
      header.e_ident[EI_OSABI] != kHsa || header.e_ident[EI_ABIVERSION] != kVersion5 ||
      header.e_type != ET_DYN) {
    *why = "the image is not a code object of version 5 for HSA";
    return false;
  }
  const auto known = machines().find(header.e_flags & 0xff);
  if (known == machines().end()) {
    *why = "the image is for an unknown machine";
    return false;
  }
  architecture = known->second;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = at<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_DYNSYM) continue;
    const auto names = at<Elf64_Shdr>(image, header.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
    for (uint64_t s = 1; s < section.sh_size / sizeof(Elf64_Sym); ++s) {
      const auto symbol = at<Elf64_Sym>(image, section.sh_offset + s * sizeof(Elf64_Sym));
      const std::string name =
          reinterpret_cast<const char*>(image + names.sh_offset + symbol.st_name);
      if (symbol.st_shndx == SHN_UNDEF) {
        *why = "the image needs " + name + ", which no other image has";
        return false;
      }
      if (name.ends_with(".kd")) kernels.insert(name.substr(0, name.size() - 3));
    }
  }
  ptx = appended_text(image, header);
  return true;
}
