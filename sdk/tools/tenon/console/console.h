// The terminal side of the command: results go to stdout, messages and errors to stderr, with text
// from models made safe to print; exit statuses; Ctrl-C. Threads: one.
#pragma once
#include <fmt/core.h>

#include <string>
#include <string_view>

namespace tenon::tools {

// Exit statuses that others rely on.
inline constexpr int kOk = 0;
inline constexpr int kWrongResult = 1;  // a check failed
inline constexpr int kUsage = 2;        // usage or input, including an unknown name
inline constexpr int kDevice = 3;       // a known plugin or device failed
inline constexpr int kInterrupted = 130;

// Opens /dev/null for closed standard streams, so that no file of ours takes their numbers, and
// ignores SIGPIPE. From here on the process ends with one of our statuses: if a plugin calls exit
// in the middle of a command, that is kDevice, with T0009.
void console_start();
// Flushes stdout. Returns `status`, or kUsage with a message if results could not be written (a
// full disk). Call it last in main.
int console_finish(int status);
// `look` is called after all plugins were shut down; if it does not return kOk, the process ends
// with its status. For what a layer finds out at the end.
void console_at_end(int (*look)());

void write_out(std::string_view text);
// Flushes what has been written, for programs that wait for a line.
void flush_out();
void write_err(std::string_view text);
template <typename... Args>
void out(fmt::format_string<Args...> format, Args&&... args) {
  write_out(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void talk(fmt::format_string<Args...> format, Args&&... args) {
  write_err(fmt::format(format, std::forward<Args>(args)...));
}

// "tenon: error: T0004: ...\n" on stderr; returns `status`. `advice` is printed on a line of its
// own.
int fail(int status, std::string_view id, std::string_view message, std::string_view advice = "");

// Text from a model or file: control characters and bytes that are not UTF-8 are escaped; cut after
// `max_bytes`.
std::string safe(std::string_view text, size_t max_bytes = 256);
// safe() in backquotes.
std::string in_quotes(std::string_view text);
// A word as a shell takes it: in single quotes if it needs them.
std::string shell_word(std::string_view word);
// A JSON string literal, quotes included.
std::string json_string(std::string_view text);
// A JSON number; null if JSON cannot express the value.
std::string json_number(double value);

// The nearest of the candidates if it is near enough to be what was meant; else empty.
template <typename Range>
std::string nearest(std::string_view name, const Range& candidates);
size_t edit_distance(std::string_view a, std::string_view b);
// "; did you mean `X`?" or nothing.
template <typename Range>
std::string did_you_mean(std::string_view name, const Range& candidates) {
  const std::string best = nearest(name, candidates);
  return best.empty() ? std::string() : "; did you mean " + in_quotes(best) + "?";
}
template <typename Range>
std::string nearest(std::string_view name, const Range& candidates) {
  std::string best;
  size_t best_distance = name.size() / 3 + 1;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance <= best_distance && distance < std::string_view(candidate).size()) {
      if (!best.empty() && distance == best_distance) continue;
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}
// "`a`, `b` and 3 more".
template <typename Range>
std::string list_names(const Range& names, size_t most = 12) {
  std::string text;
  size_t count = 0;
  for (const auto& name : names) {
    if (++count > most) continue;
    text += (count > 1 ? ", " : "") + in_quotes(name);
  }
  if (count > most) text += fmt::format(" and {} more", count - most);
  return text;
}

// Whether escape sequences may be written to stderr, by terminal, NO_COLOR and CLICOLOR_FORCE.
bool color_on_stderr();

// ---- Ctrl-C ----

// From now on SIGINT calls cancel(self, 1), async-signal-safe, and ends the process with 130 if it
// is still running after a second.
void on_interrupt(void (*cancel)(void* self, unsigned on), void* self);
bool interrupted();

}  // namespace tenon::tools
