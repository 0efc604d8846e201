#include "artifact.h"

#include <cstddef>
#include <cstring>

#include <tenon/cpp/plugin.hpp>

namespace tenon::reference {
namespace {

struct Head {
  char magic[8];
  uint32_t constant_count, ordinal_count;
  uint64_t digest;  // of the fields before it and of everything after it
};
constexpr char kMagic[8] = {'T', 'N', 'R', 'E', 'F', '0', '0', '1'};

uint64_t digest_of(const Head& head, std::string_view rest) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a: detects damage, not tampering
  const auto add = [&](std::string_view bytes) {
    for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  };
  add({reinterpret_cast<const char*>(&head), offsetof(Head, digest)});
  add(rest);
  return hash;
}

}  // namespace

std::string artifact_head(const std::vector<uint32_t>& ordinals, uint32_t constant_count,
                          std::string_view graph) {
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.constant_count = constant_count;
  head.ordinal_count = static_cast<uint32_t>(ordinals.size());
  const std::string numbers(reinterpret_cast<const char*>(ordinals.data()),
                            ordinals.size() * sizeof(uint32_t));
  head.digest = digest_of(head, cat(numbers, graph));
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + numbers;
}

Status read_head(const void* bytes, uint64_t size_bytes, ArtifactView* out) {
  Head head{};
  const std::string_view all(static_cast<const char*>(bytes), size_bytes);
  if (all.size() < sizeof head || std::memcmp(all.data(), kMagic, sizeof kMagic) != 0) {
    return fail(TENON_FAILED_PRECONDITION,
                cat("These ", size_bytes, " bytes are not an artifact of the reference device."));
  }
  std::memcpy(&head, all.data(), sizeof head);
  const std::string_view rest = all.substr(sizeof head);
  if (head.ordinal_count > rest.size() / sizeof(uint32_t) || head.digest != digest_of(head, rest)) {
    return fail(TENON_FAILED_PRECONDITION, "The artifact is damaged: its digest does not match.");
  }
  out->constant_count = head.constant_count;
  out->ordinals.resize(head.ordinal_count);
  const uint64_t numbers = head.ordinal_count * sizeof(uint32_t);
  if (numbers != 0) std::memcpy(out->ordinals.data(), rest.data(), numbers);
  for (uint32_t ordinal : out->ordinals) {
    if (ordinal >= head.constant_count)
      return fail(TENON_FAILED_PRECONDITION, "The artifact names a constant that does not exist.");
  }
  out->graph = rest.substr(numbers);
  return {};
}

}  // namespace tenon::reference
