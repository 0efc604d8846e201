#include "sdk/tools/conform/runner/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace tenon::conform {
namespace {

constexpr std::string_view kErase = "\r\033[K";

bool on_terminal() {
  const char* const term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

void print(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // it is only a line of talk
}

}  // namespace

Progress::Progress(size_t checks) : checks_(checks), shown_(on_terminal()) {}

Progress::~Progress() {
  if (shown_) print(kErase);
}

void Progress::began(std::string_view name) {
  if (!shown_) return;
  const std::string failed = failed_ == 0 ? "" : fmt::format(", {} failed", failed_);
  print(fmt::format("{}{} of {} checks{}: {}", kErase, ended_, checks_, failed, name));
}

void Progress::ended(bool failed) {
  ++ended_;
  failed_ += failed;
}

}  // namespace tenon::conform
