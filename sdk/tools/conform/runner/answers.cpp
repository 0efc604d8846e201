#include "sdk/tools/conform/runner/answers.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>

#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {
namespace {

constexpr size_t kTokenBytes = 16, kLineMax = 8192, kNotesMax = 4096;

}  // namespace

std::string make_token() {
  unsigned char bytes[kTokenBytes] = {};
  // Without random bytes a plugin could guess the token, so the runner does not start the check.
  if (::getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) return "";
  std::string token;
  for (unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

Reporter Reporter::take(int descriptor) {
  std::string token(kTokenBytes * 2, '\0');
  size_t got = 0;
  while (got < token.size()) {
    const ssize_t read = ::read(0, token.data() + got, token.size() - got);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return {};
    got += static_cast<size_t>(read);
  }
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing > 0) {
    ::dup2(nothing, 0);
    ::close(nothing);
  }
  const int wanted = 200 + token[0] * 7 + token[1] * 3 % 64;
  int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, wanted);
  // The process may be limited to few open files.
  if (moved < 0) moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 8);
  ::close(descriptor);
  return {moved, std::move(token)};
}

bool Reporter::line(std::string_view word, std::string_view text, size_t most) {
  if (descriptor_ < 0) return false;
  const std::string line = fmt::format("{} {} {}\n", token_, word, printable(text, most));
  const ssize_t written = ::write(descriptor_, line.data(), line.size());
  if (written < 0) descriptor_ = -1;
  return written == static_cast<ssize_t>(line.size());
}

bool Reporter::result(const Outcome& outcome) {
  const std::string text =
      fmt::format("{} {}", static_cast<int>(outcome.verdict), printable(outcome.text, 2000));
  return line("result", text, 3000);
}

void Answers::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (partial_.size() + piece.size() > kLineMax) too_long_ = true;
    if (!too_long_) partial_ += piece;
    if (end == std::string_view::npos) return;
    if (!too_long_) take_line(partial_);
    partial_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

void Answers::take_line(std::string_view line) {
  // The token may follow output of a plugin that did not end its line.
  const size_t at = line.rfind(token_);
  if (token_.empty() || at == std::string_view::npos) return;
  line.remove_prefix(at + token_.size());
  const auto is = [&](std::string_view word) {
    if (!line.starts_with(word)) return false;
    line.remove_prefix(word.size());
    return true;
  };
  if (is(" step ")) {
    last_step_ = line;
  } else if (is(" note ")) {
    if (notes_.size() < kNotesMax) notes_.emplace_back(line);
  } else if (is(" died")) {
    died_ = true;
  } else if (is(" result ")) {
    if (line.size() < 2 || line[0] < '0' || line[0] > '3' || line[1] != ' ') return;
    result_ = {static_cast<Verdict>(line[0] - '0'), std::string(line.substr(2))};
  }
}

}  // namespace tenon::conform
