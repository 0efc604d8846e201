#include "core/base/errors/status.h"

#include <cstdio>
#include <cstdlib>

#include "core/base/errors/error_codes.h"

namespace tenon {

std::string_view code_name(tenon_code_t code) {
  static constexpr std::string_view kNames[] = {"OK",
                                                "CANCELLED",
                                                "UNKNOWN",
                                                "INVALID_ARGUMENT",
                                                "DEADLINE_EXCEEDED",
                                                "NOT_FOUND",
                                                "ALREADY_EXISTS",
                                                "PERMISSION_DENIED",
                                                "RESOURCE_EXHAUSTED",
                                                "FAILED_PRECONDITION",
                                                "ABORTED",
                                                "OUT_OF_RANGE",
                                                "UNIMPLEMENTED",
                                                "INTERNAL",
                                                "UNAVAILABLE",
                                                "DATA_LOSS",
                                                "DEVICE_LOST"};
  return code < std::size(kNames) ? kNames[code] : "UNKNOWN";
}

Status::Status(tenon_code_t code, std::string_view error_code, std::string message) {
  if (code == TENON_OK) return;
  rep_ = std::make_unique<Rep>(Rep{code, std::string(error_code), std::move(message), {}, {}});
}

const std::vector<std::string>& Status::contexts() const {
  static const std::vector<std::string> kNone;
  return rep_ ? rep_->contexts : kNone;
}

const std::vector<KeyValue>& Status::evidence() const {
  static const std::vector<KeyValue> kNone;
  return rep_ ? rep_->evidence : kNone;
}

std::string_view Status::evidence_value(std::string_view key) const {
  for (const KeyValue& pair : evidence()) {
    if (pair.key == key) return pair.value;
  }
  return {};
}

Status& Status::add_context(std::string text) & {
  if (rep_) rep_->contexts.push_back(std::move(text));
  return *this;
}

Status&& Status::with_context(std::string text) && {
  return std::move(add_context(std::move(text)));
}

Status& Status::add(std::string_view key, std::string_view value) & {
  if (rep_) rep_->evidence.push_back({std::string(key), std::string(value)});
  return *this;
}

Status&& Status::with(std::string_view key, std::string_view value) && {
  return std::move(add(key, value));
}

std::string Status::text() const {
  if (!rep_) return "ok";
  std::string out;
  if (!rep_->error_code.empty()) out = rep_->error_code + ": ";
  out += rep_->message;
  for (size_t i = rep_->contexts.size(); i-- > 0;) {
    out += i + 1 == rep_->contexts.size() ? " (while " : "; while ";
    out += rep_->contexts[i];
    if (i == 0) out += ")";
  }
  return out;
}

std::string Status::text_with_advice() const {
  std::string out = text();
  const ErrorEntry* entry = rep_ ? find_error_entry(rep_->error_code) : nullptr;
  if (entry != nullptr && !entry->what_to_do.empty()) {
    out += "\n  ";
    out += entry->what_to_do;
  }
  return out;
}

Status internal_error(std::string message) {
  return Status(TENON_INTERNAL, "T0003", std::move(message));
}

namespace detail {
void abort_result_ok() {
  std::fputs("tenon: check failed: a Result was made from an OK status\n", stderr);
  std::abort();
}
void abort_result_failed(const Status& status) {
  std::fprintf(stderr, "tenon: check failed: value() of a failed Result: %s\n",
               status.text().c_str());
  std::abort();
}
}  // namespace detail

}  // namespace tenon
