// SHA-256 (FIPS 180-4), for the `sha256` of manifests: trust, where core/base's XXH3 is only identity.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace tenon::host {

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace tenon::host
