#include "sdk/tools/tenon/console/console.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "sdk/tools/tenon/console/progress.h"

namespace tenon::tools {
namespace {

std::atomic<bool> g_interrupted{false};
std::atomic<void (*)(void*, unsigned)> g_cancel{nullptr};
std::atomic<void*> g_cancel_self{nullptr};
int g_out_error = 0;
std::string g_out_buffer;

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void handle_interrupt(int) {
  if (g_interrupted.exchange(true)) _exit(kInterrupted);  // the second Ctrl-C ends at once
  if (auto* cancel = g_cancel.load()) cancel(g_cancel_self.load(), 1);
  alarm(1);
}
void handle_alarm(int) {
  _exit(kInterrupted);
}

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return length;
}

// Escapes for a terminal; newlines are kept if `keep_lines`.
std::string escape(std::string_view text, size_t max_bytes, bool keep_lines) {
  std::string result;
  while (!text.empty()) {
    if (result.size() >= max_bytes) return result + "...";
    const size_t length = utf8_length(text);
    const auto c = static_cast<unsigned char>(text[0]);
    // C1 controls are two bytes in UTF-8, and some terminals act on them too.
    const bool c1 = length == 2 && c == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0 || c1) {
      result += fmt::format("\\x{:02x}", c);
      text.remove_prefix(1);
      if (c1) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
        text.remove_prefix(1);
      }
      continue;
    }
    if (c == '\n' && keep_lines) {
      result += '\n';
    } else if (c < 0x20 || c == 0x7f) {
      result += c == '\n' ? "\\n" : c == '\t' ? "\\t" : fmt::format("\\x{:02x}", c);
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return result;
}

constexpr int kUnfinished = -1;
int g_status = kUnfinished;
int (*g_look)() = nullptr;

// At this point only ending the process can change its exit status.
void at_end() {
  if (g_status == kUnfinished) {
    fail(kDevice, "T0009",
         "a plugin, or a library that it uses, ended the process in the middle of the command.",
         "TENON_LOGS=+plugins shows what was loaded; TENON_PLUGINS_DISABLE=NAME disables one.");
    _exit(kDevice);
  }
  const int status = g_look == nullptr ? kOk : g_look();
  if (status == kOk || g_status != kOk) return;
  fflush(nullptr);
  _exit(status);
}

}  // namespace

void console_at_end(int (*look)()) {
  g_look = look;
}

void console_start() {
  (void)atexit(at_end);  // registered before the host's handler, so it runs after it
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", O_RDWR);
  }
  signal(SIGPIPE, SIG_IGN);
}

int console_finish(int status) {
  flush_out();
  // A reader that left early (`| head`) is not our failure; a full disk is.
  if (g_out_error != 0 && g_out_error != EPIPE && status == kOk) {
    status = fail(kUsage, "T0107",
                  fmt::format("standard output cannot be written: {}.", strerror(g_out_error)));
  }
  g_status = status;
  return status;
}

void flush_out() {
  if (g_out_error == 0 && !write_all(STDOUT_FILENO, g_out_buffer)) g_out_error = errno;
  g_out_buffer.clear();
}

void write_out(std::string_view text) {
  g_out_buffer += text;
  if (g_out_buffer.size() > 1 << 16) flush_out();
}
void write_err(std::string_view text) {
  Progress::make_way();
  flush_out();  // keeps the order if both go to one place
  (void)write_all(STDERR_FILENO, text);
}

bool color_on_stderr() {
  static const bool on = [] {
    const char* no_color = getenv("NO_COLOR");
    if (no_color != nullptr && *no_color != 0) return false;
    const char* force = getenv("CLICOLOR_FORCE");
    if (force != nullptr && *force != 0 && strcmp(force, "0") != 0) return true;
    const char* term = getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && term != nullptr && strcmp(term, "dumb") != 0;
  }();
  return on;
}

int fail(int status, std::string_view id, std::string_view message, std::string_view advice) {
  const char* error = color_on_stderr() ? "\033[1;31merror:\033[0m" : "error:";
  std::string text = fmt::format("tenon: {} ", error);
  if (!id.empty() && !message.starts_with(id)) text += fmt::format("{}: ", id);
  text += escape(message, 16384, true);
  if (text.back() != '\n') text += '\n';
  if (!advice.empty()) text += "  " + escape(advice, 1024, true) + "\n";
  write_err(text);
  return status;
}

std::string safe(std::string_view text, size_t max_bytes) {
  return escape(text, max_bytes, false);
}
std::string in_quotes(std::string_view text) {
  return "`" + safe(text) + "`";
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain = "+,-./:=@_%";
  const auto plain = [&](unsigned char c) {
    return isalnum(c) || kPlain.find(static_cast<char>(c)) != kPlain.npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const auto c = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      result += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      result += {'\\', static_cast<char>(c)};
    } else if (c < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04x}", c);
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result + '"';
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, 64);
  b = b.substr(0, 64);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

void on_interrupt(void (*cancel)(void*, unsigned), void* self) {
  g_cancel_self.store(self);
  g_cancel.store(cancel);
  struct sigaction action = {};
  action.sa_handler = handle_interrupt;
  sigaction(SIGINT, &action, nullptr);
  action.sa_handler = handle_alarm;
  sigaction(SIGALRM, &action, nullptr);
}
bool interrupted() {
  return g_interrupted.load();
}

}  // namespace tenon::tools
