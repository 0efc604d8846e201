// The contents of an ELF file, read without opening it as a library. Every offset is checked: the
// file is input.
#pragma once
#include <string>
#include <vector>

#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {

struct ElfSymbol {
  std::string name;
  bool defined = false, function = false, weak = false;
};

struct ElfFile {
  std::string arch;  // "x86_64", "aarch64", or a number
  bool is_shared_object = false;
  std::vector<ElfSymbol> symbols;  // global and weak symbols of the dynamic table
  std::vector<std::string> needed, search_paths;
  bool bind_now = false, text_relocations = false;
  bool says_stack = false, executable_stack = false, writable_code = false;
};

// Fails for a file that is damaged or not 64-bit little-endian ELF.
Result<ElfFile> read_elf(const std::string& path);

}  // namespace tenon::conform
