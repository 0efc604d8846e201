#include "core/base/errors/failure.h"

#include <algorithm>
#include <exception>

#include "core/base/process/thread_kept.h"
#include "core/base/str.h"

namespace tenon {
namespace {

thread_local ThreadKept<Status> tls_failure;

void keep(Status&& failure) {
  free_at_thread_end(tls_failure);
  tls_failure.value = std::move(failure);
}

constexpr size_t kFailureTextMax = 16 * 1024;  // a plugin must not fill memory with its message
constexpr size_t kDetailKeyMax = 256, kDetailValueMax = 4096, kDetailsMax = 64;
constexpr uint64_t kSizeThatIsNone =
    uint64_t{1} << 30;  // no real message is this long: such a text is not read

std::string bounded(std::string_view text, size_t max_bytes) {
  if (text.size() >= kSizeThatIsNone)
    return fmt::format("(a text that claims to have {} bytes)", text.size());
  return std::string(text.substr(0, max_bytes));
}

bool is_error_code(std::string_view text) {
  if (text.size() < 5 || (text[0] != 'T' && text[0] != 'P')) return false;
  for (size_t i = 1; i < 5; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
  }
  return true;
}

}  // namespace

void record_failure(tenon_code_t code, std::string_view text,
                    std::span<const tenon_key_value_t> evidence) noexcept try {
  std::string kept;
  if (text.size() >= kSizeThatIsNone) text = kept = bounded(text, 0);
  std::string_view id;
  if (is_error_code(text) && text.substr(5, 2) == ": ") {
    id = text.substr(0, 5);
    text.remove_prefix(7);
  }
  Status status(code == TENON_OK ? TENON_UNKNOWN : code, id, printable(text, kFailureTextMax));
  for (const tenon_key_value_t& pair : evidence.first(std::min(evidence.size(), kDetailsMax))) {
    status.add(bounded(from_abi_str(pair.key), kDetailKeyMax),
               bounded(from_abi_str(pair.value), kDetailValueMax));
  }
  keep(std::move(status));
} catch (const std::exception&) {  // no memory for the text
  tls_failure.value = Status();
}

tenon_code_t out_of_memory(std::string_view text) noexcept {
  record_failure(TENON_RESOURCE_EXHAUSTED, text, {});
  return TENON_RESOURCE_EXHAUSTED;
}

tenon_code_t to_abi(const Status& status) {
  if (!status.ok()) keep(Status(status));
  return status.code();
}

tenon_code_t to_abi(Status&& status) {
  tenon_code_t code = status.code();
  if (code != TENON_OK) keep(std::move(status));
  return code;
}

Status from_abi(tenon_code_t code, std::string_view who) {
  Status recorded = std::exchange(tls_failure.value, Status());
  if (code == TENON_OK) return Status();
  if (!recorded.ok() && recorded.code() == code) return recorded;
  if (!recorded.ok()) {
    // The function returned another code than it recorded: keep the recorded text, trust the
    // returned code.
    Status status(code, recorded.error_code(), std::string(recorded.message()));
    for (const KeyValue& pair : recorded.evidence()) status.add(pair.key, pair.value);
    return status;
  }
  if (code == TENON_CANCELLED) return error(code, "T0001", "{} was cancelled", who);
  return error(code, "T0002", "{} failed with {} and gave no reason", who, code_name(code));
}

const Status& last_failure() {
  return tls_failure.value;
}

void clear_failure() {
  tls_failure.value = Status();
}

}  // namespace tenon
