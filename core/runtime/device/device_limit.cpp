#include "core/runtime/device/device_limit.h"

#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/str.h"

namespace tenon::runtime {

std::optional<uint64_t> device_memory_limit(std::string_view text, std::string_view device) {
  std::optional<uint64_t> found;
  for (std::string_view entry : split(text, ',')) {
    entry = trim(entry);
    if (entry.empty()) continue;
    const size_t equals = entry.find('=');
    uint64_t bytes = 0;
    if (equals == 0 || equals == std::string_view::npos ||
        !parse_u64(trim(entry.substr(equals + 1)), &bytes)) {
      log_warning("runtime", "TENON_DEVICE_MEMORY_LIMIT: {} is not DEVICE=BYTES; it is left out",
                  quoted(entry));
    } else if (trim(entry.substr(0, equals)) == device) {
      found = bytes;
    }
  }
  return found;
}

std::optional<uint64_t> device_memory_limit(std::string_view device) {
  const auto text = env("TENON_DEVICE_MEMORY_LIMIT");
  return text ? device_memory_limit(*text, device) : std::nullopt;
}

}  // namespace tenon::runtime
