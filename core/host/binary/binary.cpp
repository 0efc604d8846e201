#include "core/host/binary/binary.h"

#include <tenon/abi/note.h>

#include "core/base/str.h"
#include "core/host/binary/bytes.h"

namespace tenon::host {
namespace binary {

// Notes follow one another: sizes of name and content, a type, then both, filled up to 4 bytes.
std::span<const std::byte> find_note(Bytes notes) {
  constexpr uint64_t kHead = 12;
  const auto up = [](uint64_t size) { return (size + 3) / 4 * 4; };
  for (uint64_t at = 0; at + kHead <= notes.size();) {
    const uint64_t name = up(notes.get<uint32_t>(at));
    const uint64_t size = kHead + name + up(notes.get<uint32_t>(at + 4));
    const std::optional<Bytes> note = notes.part(at, size);
    if (!note) return {};
    if (name == 8 && note->get<uint32_t>(8) == TENON_NOTE_TYPE && note->has(kHead, TENON_NOTE_NAME))
      return note->span();
    at += size;
  }
  return {};
}

}  // namespace binary

using binary::Bytes;

Result<Binary> read_binary(std::span<const std::byte> bytes, std::string_view arch) {
  Bytes file(bytes);
  Binary out;
  if (binary::elf_begins(file)) {
    out.format = BinaryFormat::kElf;
    TENON_RETURN_IF_ERROR(binary::read_elf(file, &out));
  } else if (binary::pe_begins(file)) {
    out.format = BinaryFormat::kPe;
    TENON_RETURN_IF_ERROR(binary::read_pe(file, &out));
  } else {
    TENON_ASSIGN_OR_RETURN(file, binary::macho_part(file, arch));
    if (!binary::macho_begins(file)) {
      return error(TENON_INVALID_ARGUMENT, "P0704",
                   "it is neither an ELF nor a Mach-O nor a PE file of 64 bits");
    }
    out.format = BinaryFormat::kMachO;
    TENON_RETURN_IF_ERROR(binary::read_macho(file, &out));
  }
  out.bytes = file.span();
  return out;
}

Result<Exported> exported(const Binary& binary, std::string_view symbol) {
  const Bytes file(binary.bytes);
  switch (binary.format) {
    case BinaryFormat::kElf:
      return binary::elf_exports(file, symbol);
    case BinaryFormat::kMachO:
      return binary::macho_exports(file, symbol);
    case BinaryFormat::kPe:
      return binary::pe_exports(file, symbol);
  }
  return Exported::kAbsent;
}

namespace {

bool take_line(std::string_view line, PluginNote* out) {
  const auto rest = [&](std::string_view word, std::string* value) {
    if (!line.starts_with(word)) return false;
    *value = line.substr(word.size());
    return true;
  };
  std::string offered;
  if (rest("name ", &out->name) || rest("version ", &out->version) ||
      rest("build_id ", &out->build_id) || !rest("interface ", &offered))
    return true;
  const size_t space = offered.rfind(' ');
  uint64_t minor = 0;
  if (space == std::string::npos || !parse_u64(std::string_view(offered).substr(space + 1), &minor))
    return false;
  out->interfaces.push_back({offered.substr(0, space), static_cast<uint32_t>(minor)});
  return minor <= UINT32_MAX;
}

}  // namespace

Result<PluginNote> read_note(const Binary& binary) {
  if (binary.note.size() < sizeof(tenon_note_t)) {
    return error(TENON_NOT_FOUND, "P0705",
                 "the library has no note of its facts (tenon/abi/note.h)");
  }
  const Bytes note(binary.note);
  PluginNote out;
  out.abi = note.get<uint32_t>(offsetof(tenon_note_t, abi));
  const std::string_view text =
      note.field(sizeof(tenon_note_t), binary.note.size() - sizeof(tenon_note_t));
  if (!is_valid_utf8(text))
    return error(TENON_INVALID_ARGUMENT, "P0705", "the library's note is not UTF-8");
  for (std::string_view line : split(text, '\n')) {
    if (!take_line(line, &out)) {
      return error(TENON_INVALID_ARGUMENT, "P0705", "the library's note has the line {}",
                   quoted(line));
    }
  }
  if (out.name.empty() || out.interfaces.empty()) {
    return error(TENON_NOT_FOUND, "P0705",
                 "the library's note does not name {}: make the array of interfaces constexpr",
                 out.name.empty() ? "the plugin" : "its interfaces");
  }
  return out;
}

}  // namespace tenon::host
