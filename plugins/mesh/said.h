// What a process says of an operation: a hash that all processes must have in common, and a text
// for people. It has one size, so that it can be exchanged.
#ifndef TENON_PLUGINS_MESH_SAID_H_
#define TENON_PLUGINS_MESH_SAID_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tenon::mesh {

inline constexpr size_t kSaidBytes = 256;
using Said = std::array<char, kSaidBytes>;

// All of `text` counts; of `shown`, the beginning is kept.
inline Said said(std::string_view text, std::string_view shown) {
  Said out = {};
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::memcpy(out.data(), &hash, sizeof hash);
  shown = shown.substr(0, kSaidBytes - sizeof hash - 1);
  std::memcpy(out.data() + sizeof hash, shown.data(), shown.size());
  return out;
}
inline bool agree(const Said& a, const Said& b) {
  return std::memcmp(a.data(), b.data(), sizeof(uint64_t)) == 0;
}
inline std::string shown_of(const Said& one) {
  const std::string_view text(one.data() + sizeof(uint64_t), kSaidBytes - sizeof(uint64_t));
  return std::string(text.substr(0, text.find('\0')));
}

}  // namespace tenon::mesh

#endif
