// Any bytes as a library of each format: an error with a code, or names that lie within the bytes.
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/host/binary/binary.h"

namespace {

using namespace tenon;  // NOLINT

void check(const Status& status) {
  TENON_CHECK(!status.error_code().empty());
  TENON_CHECK(is_valid_utf8(status.text()));
}

void read(std::span<const std::byte> bytes) {
  const Result<host::Binary> binary = host::read_binary(bytes, "aarch64");
  if (!binary.ok()) return check(binary.status());
  for (std::string_view name : binary->needed) TENON_CHECK(name.size() <= host::kNameBytesMax);
  for (const char* symbol : {"tenon_plugin_query", "a", ""}) {
    const Result<host::Exported> kind = host::exported(*binary, symbol);
    if (!kind.ok()) check(kind.status());
  }
  const Result<host::PluginNote> note = host::read_note(*binary);
  if (!note.ok()) return check(note.status());
  TENON_CHECK(!note->name.empty() && !note->interfaces.empty());
}

}  // namespace

// A format is known by its first bytes. With these in place the fuzzer is in the readers at once.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr uint8_t kElf[] = {0x7f, 'E', 'L', 'F', 2, 1, 1},
                           kMachO[] = {0xcf, 0xfa, 0xed, 0xfe}, kPe[] = {'M', 'Z'},
                           kUniversal[] = {0xca, 0xfe, 0xba, 0xbe, 0, 0, 0};
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  read({bytes, size});
  for (std::span<const uint8_t> magic :
       {std::span<const uint8_t>(kElf), std::span<const uint8_t>(kMachO),
        std::span<const uint8_t>(kPe), std::span<const uint8_t>(kUniversal)}) {
    if (size < magic.size()) continue;
    std::vector<std::byte> patched(bytes, bytes + size);
    std::memcpy(patched.data(), magic.data(), magic.size());
    read(patched);
  }
  return 0;
}
