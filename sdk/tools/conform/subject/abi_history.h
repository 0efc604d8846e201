// The layouts that the ABI has had: the size of every interface's table in each layout that
// sdk/tenon/abi/CHANGELOG.md names, oldest first. Written by tests/abi/history.py; a test compares
// them.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace tenon::conform {

struct TableSize {
  const char* id;
  uint32_t size_bytes;
};
struct AbiLayout {
  uint32_t major, minor;
  const char* digest;
  std::span<const TableSize> tables;
  // 0 if this layout did not have the interface.
  uint32_t size_of(std::string_view id) const {
    for (const TableSize& table : tables) {
      if (table.id == id) return table.size_bytes;
    }
    return 0;
  }
};
std::span<const AbiLayout> abi_layouts();

}  // namespace tenon::conform
