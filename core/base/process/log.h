// Logging by component, to stderr, and TENON_CHECK. TENON_LOGS=+codegen,-dispatch selects what is
// shown: a bare name shows information, `+name` details as well, `-name` errors only; `all` means
// every component. By default warnings and errors are shown.
#pragma once
#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDetail };

// True if a message of this component and level is shown. Cost: a hash look-up under a shared lock;
// keep the result outside a loop. Threads: safe.
bool log_enabled(std::string_view component, LogLevel level);

// Writes one message as whole lines: "tenon: warning: [plugins] text". Control characters in `text`
// are escaped. Threads: safe; messages do not interleave.
void log_write(std::string_view component, LogLevel level, std::string_view text);

// Formatted forms; the text is only built if it is shown.
template <typename... Args>
void log_message(LogLevel level, std::string_view component, fmt::format_string<Args...> format,
                 Args&&... args) {
  if (log_enabled(component, level)) {
    log_write(component, level, fmt::vformat(format, fmt::make_format_args(args...)));
  }
}
template <typename... Args>
void log_error(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kError, component, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kWarning, component, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kInfo, component, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_detail(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kDetail, component, format, std::forward<Args>(args)...);
}

// Receives every shown message instead of stderr (Python's logging, tests). Null restores stderr.
using LogReceiver = void (*)(void* self, std::string_view component, LogLevel level,
                             std::string_view text);
void set_log_receiver(LogReceiver receiver, void* self);

// Replaces the value of TENON_LOGS. An empty text restores the defaults.
void set_logs(std::string_view specification);

// Warns once for each name in TENON_LOGS that is neither a component of core nor in `more` (names
// of plugins), and lists the known names. Never stops anything.
void warn_unknown_log_names(std::span<const std::string> more);

// True for the first call with `key` in this process: guards a warning that should appear once.
bool log_once(std::string_view key);

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string text);
inline std::string check_text() {
  return {};
}
template <typename... Args>
std::string check_text(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::vformat(format, fmt::make_format_args(args...));
}
}  // namespace detail

}  // namespace tenon

// Aborts with context, in release builds too, when one of our own rules is broken. For bugs only,
// never in response to input.
#define TENON_CHECK(condition, ...)                                    \
  (static_cast<bool>(condition)                                        \
       ? void(0)                                                       \
       : ::tenon::detail::check_failed(__FILE__, __LINE__, #condition, \
                                       ::tenon::detail::check_text(__VA_ARGS__)))
