// TENON_DEVICE_MEMORY_LIMIT: limits for the memory of single devices.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon::runtime {

// What the variable allows this device ("sim:1"); none if it does not name it. Entries that make no
// sense are left out with a warning.
std::optional<uint64_t> device_memory_limit(std::string_view device);
// The same for a text: "sim=512m,sim:1=2g".
std::optional<uint64_t> device_memory_limit(std::string_view text, std::string_view device);

}  // namespace tenon::runtime
