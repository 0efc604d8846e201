#include "artifact.h"

#include <cstddef>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tenon/cpp/plugin.hpp"
#include "toolchain/object_cache.h"

namespace tenon::cpu {
namespace {

constexpr char kMagic[8] = {'T', 'N', 'C', 'P', 'U', '0', '0', '2'};

struct Header {
  char magic[8];
  char version[32];  // code_version(): kernels of another build have other arguments.
  uint32_t isa, control;
  uint64_t program_bytes,
      code_bytes;      // code: for each shared object its length as a u64, then its bytes.
  uint64_t digest[2];  // XXH3-128 of the fields before it and of everything after the header.
};

void digest_of(const Header& header, std::string_view bytes, uint64_t out[2]) {
  const XXH128_hash_t head = XXH3_128bits(&header, offsetof(Header, digest));
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), head.low64);
  out[0] = hash.low64;
  out[1] = hash.high64;
}

std::string joined(const std::vector<std::string_view>& code) {
  std::string out;
  for (std::string_view module : code) {
    const uint64_t bytes = module.size();
    out.append(reinterpret_cast<const char*>(&bytes), sizeof bytes).append(module);
  }
  return out;
}

bool split(std::string_view rest, std::vector<std::string_view>& out) {
  while (!rest.empty()) {
    uint64_t bytes = 0;
    if (rest.size() < sizeof bytes) {
      return false;
    }
    memcpy(&bytes, rest.data(), sizeof bytes);
    rest.remove_prefix(sizeof bytes);
    if (bytes > rest.size()) {
      return false;
    }
    out.push_back(rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
  return true;
}

}  // namespace

std::string artifact_pack(const ArtifactParts& parts) {
  Header header = {};
  memcpy(header.magic, kMagic, sizeof kMagic);
  const std::string_view version = code_version().substr(0, sizeof header.version);
  memcpy(header.version, version.data(), version.size());
  header.isa = static_cast<uint32_t>(parts.isa);
  header.control = parts.control ? 1 : 0;
  header.program_bytes = parts.program.size();
  const std::string code = joined(parts.code);
  header.code_bytes = code.size();
  std::string out(sizeof header, '\0');
  out.append(parts.program).append(code);
  digest_of(header, std::string_view(out).substr(sizeof header), header.digest);
  memcpy(out.data(), &header, sizeof header);
  return out;
}

Status artifact_unpack(std::string_view bytes, ArtifactParts& out) {
  Header header;
  if (bytes.size() < sizeof header || memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    return fail(TENON_FAILED_PRECONDITION, "These bytes are not an artifact of the cpu device.");
  }
  memcpy(&header, bytes.data(), sizeof header);
  const std::string_view rest = bytes.substr(sizeof header);
  if (std::string_view(header.version, sizeof header.version) != code_version()) {
    return fail(TENON_FAILED_PRECONDITION,
                "The artifact was compiled by another build of the cpu plugin; compile it again.");
  }
  if (header.program_bytes > rest.size() ||
      header.code_bytes != rest.size() - header.program_bytes) {
    return fail(TENON_FAILED_PRECONDITION,
                cat("The artifact is cut short or too long: it has ", rest.size(),
                    " bytes after its header, which promises ", header.program_bytes, " and ",
                    header.code_bytes, "."));
  }
  uint64_t digest[2];
  digest_of(header, rest, digest);
  if (memcmp(digest, header.digest, sizeof digest) != 0) {
    return fail(TENON_FAILED_PRECONDITION, "The artifact's digest does not match its bytes.");
  }
  if (!is_isa(header.isa)) {
    return fail(TENON_FAILED_PRECONDITION, "The artifact uses an unknown instruction set.");
  }
  out.isa = static_cast<Isa>(header.isa);
  out.control = header.control != 0;
  out.program = rest.substr(0, header.program_bytes);
  out.code.clear();
  if (!split(rest.substr(header.program_bytes), out.code)) {
    return fail(TENON_FAILED_PRECONDITION, "The artifact's code is cut short.");
  }
  return {};
}

Status artifact_unpack_to_run(std::string_view bytes, ArtifactParts& out) {
  TENON_TRY(artifact_unpack(bytes, out));
  if (runs_here(out.isa)) {
    return {};
  }
  return fail(TENON_FAILED_PRECONDITION,
              cat("The artifact uses ", name_of(out.isa), ", and this processor has ",
                  name_of(detected_isa()), "."));
}

}  // namespace tenon::cpu
