// Any bytes as a file, and any bytes as records: an error with a code, or records that fit
// together.
#include <cstdint>

#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/package/record.h"

namespace {

void check(const tenon::Status& status) {
  TENON_CHECK(!status.error_code().empty());
  TENON_CHECK(tenon::is_valid_utf8(status.text()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tenon;  // NOLINT
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<package::Extents> extents = package::read_container(bytes, "fuzz.tpk");
  if (!extents.ok()) check(extents.status());
  // The digests would keep the fuzzer from the records.
  package::Extents any;
  for (package::Extent& extent : any) extent = {0, uint64_t{1} << 20, {}};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<package::ProgramRecord> record = package::from_bytes(text, any, "fuzz.tpk");
  if (!record.ok()) {
    check(record.status());
  } else {
    TENON_CHECK(package::to_bytes(*record) == text);
  }
  return 0;
}
