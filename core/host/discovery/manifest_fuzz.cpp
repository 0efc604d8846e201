// Any bytes as a manifest: the result is bounded, and every message is valid UTF-8.
#include <cstdint>

#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/host/discovery/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  tenon::Result<tenon::host::Manifest> manifest =
      tenon::host::parse_manifest(text, "fuzz.plugin.json");
  if (!manifest.ok()) {
    TENON_CHECK(!manifest.status().error_code().empty());
    TENON_CHECK(tenon::is_valid_utf8(manifest.status().text()));
    return 0;
  }
  TENON_CHECK(manifest->schema == 1 && !manifest->name.empty());
  for (const std::string& key : manifest->unknown_keys) (void)tenon::quoted(key);
  return 0;
}
