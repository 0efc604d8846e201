// What the file of a shared library says: read as bytes and never opened, so that libraries of
// other systems and processors can be read, too. The file is input: every offset, length and count
// is checked, and names have at most kNameBytesMax bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"

namespace tenon::host {

enum class BinaryFormat { kElf, kMachO, kPe };

inline constexpr size_t kNameBytesMax = 4096;
inline constexpr size_t kNeededMax = 4096;

// Borrows the bytes that it was read from.
struct Binary {
  BinaryFormat format = BinaryFormat::kElf;
  std::string_view os;  // as manifests say it: "linux", "macos", "windows"
  std::string arch;     // "x86_64", "aarch64", or "machine 243"
  bool is_library = false;
  std::vector<std::string_view> needed;  // libraries that the system's loader opens with it
  std::span<const std::byte> note;       // the head and text of its note (note.h); empty: none
  std::span<const std::byte> bytes;      // the file; of a universal one, the part for one processor
};

enum class Exported { kAbsent, kData, kFunction };

// Reads a 64-bit little-endian ELF, Mach-O or PE file. arch: which part of a universal Mach-O file;
// empty or absent there: the first. P0704 for anything else and for damage.
Result<Binary> read_binary(std::span<const std::byte> bytes, std::string_view arch = {});

// Whether it exports a symbol of this name, as C names it. P0704 for damage.
Result<Exported> exported(const Binary& binary, std::string_view symbol);

// What a plugin's library says of itself (note.h).
struct PluginNote {
  struct Interface {
    std::string id;
    uint32_t minor = 0;
  };
  uint32_t abi = 0;
  std::string name, version, build_id;
  std::vector<Interface> interfaces;
};

// P0705 if there is no note, or it is damaged or names no interface.
Result<PluginNote> read_note(const Binary& binary);

}  // namespace tenon::host
