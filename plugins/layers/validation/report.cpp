#include "report.h"

#include <cstdlib>

#include "tenon/cpp/plugin.hpp"

namespace tenon::validation {

std::string hex(const void* handle) {
  constexpr char kDigits[] = "0123456789abcdef";
  auto value = reinterpret_cast<uintptr_t>(handle);
  std::string digits;
  do {
    digits.insert(digits.begin(), kDigits[value & 15]);
  } while ((value >>= 4) != 0);
  return "0x" + digits;
}

void Report::broken(std::string_view requirement, std::string_view slot, std::string_view text) {
  uint64_t times = 0;
  {
    const std::lock_guard lock(mutex_);
    times = ++found_[std::string(requirement)];
  }
  if (times <= most_) {
    const std::string_view who = requirement.starts_with("R-M") ? "host" : "plugin";
    const std::string_view more =
        times == most_ ? "; further ones of this requirement are counted only" : "";
    log("validation", TENON_LOG_ERROR, requirement, " is broken by the ", who, ": ", slot, " of ",
        quoted(plugin_), ": ", text, more);
  }
  if (aborts_) std::abort();
}

void Report::note(std::string_view text) {
  log("validation", TENON_LOG_WARN, "plugin ", quoted(plugin_), ": ", text);
}

void Report::sum_up() {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [requirement, times] : found_)
    text += cat(text.empty() ? "" : ", ", requirement, " ", times, times == 1 ? " time" : " times");
  log("validation", found_.empty() ? TENON_LOG_INFO : TENON_LOG_ERROR, "plugin ", quoted(plugin_),
      ": ", calls_.load(), " calls, ",
      found_.empty() ? std::string("nothing wrong") : cat("broken: ", text));
}

}  // namespace tenon::validation
