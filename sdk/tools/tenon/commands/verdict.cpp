#include "sdk/tools/tenon/commands/verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "sdk/tools/tenon/console/console.h"

namespace tenon::tools {
namespace {

constexpr size_t kMessagesMax = 1 << 16;

int64_t now_ms() {
  timespec t = {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000} + t.tv_nsec / 1000000;
}

// A process whose messages are read until it ends or its time is over.
class Child {
 public:
  explicit Child(const std::vector<std::string>& line) {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    read_end_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    std::vector<char*> argv;
    for (const std::string& word : line) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0)
      pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0 && !ended_) {
      kill(pid_, SIGKILL);
      (void)waitpid(pid_, nullptr, 0);
    }
    if (read_end_ >= 0) close(read_end_);
  }

  bool started() const { return pid_ > 0; }

  // False if the time is over, or after Ctrl-C.
  bool wait(int64_t timeout_ms, std::string& messages, int& status) {
    const int64_t end = now_ms() + timeout_ms;
    char buffer[4096];
    while (!interrupted() && now_ms() < end) {
      pollfd one = {read_end_, POLLIN, 0};
      if (poll(&one, 1, 200) <= 0) continue;
      const ssize_t n = read(read_end_, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      if (messages.size() < kMessagesMax) messages.append(buffer, static_cast<size_t>(n));
    }
    while (!interrupted() && now_ms() < end) {
      const pid_t done = waitpid(pid_, &status, WNOHANG);
      if (done == pid_) return ended_ = true;
      usleep(2000);
    }
    return false;
  }

 private:
  pid_t pid_ = -1;
  int read_end_ = -1;
  bool ended_ = false;
};

constexpr std::string_view kError = "tenon: error: ";

// "T0505" and the rest of the first line "tenon: error: T0505: ...".
void read_message(const std::string& messages, Verdict& out) {
  size_t at = messages.find(kError);
  if (at == std::string::npos) {
    out.message = messages.substr(0, messages.find('\n'));
    return;
  }
  at += kError.size();
  out.message = messages.substr(at, messages.find('\n', at) - at);
  const size_t colon = out.message.find(':');
  if (colon == 5) out.code = out.message.substr(0, colon);
}

// Codes of names, files and values that options give.
bool is_of_options(const std::string& code) {
  constexpr std::string_view kCodes[] = {
      "T0004", "T0005", "T0006", "T0101", "T0103", "T0104", "T0105", "T0401", "T0402", "T0403",
      "T0404", "T0502", "T0503", "T0513", "T0602", "T0603", "T0604", "T0605", "T0606", "T0793"};
  return std::ranges::find(kCodes, code) != std::end(kCodes);
}

}  // namespace

std::vector<std::string> trial_command(const BisectOptions& options, const std::string& file,
                                       const std::string& passes, bool with_inputs) {
  const RunOptions& o = options.model;
  std::vector<std::string> line = {"tenon",   "run",   file,       "--seed", std::to_string(o.seed),
                                   "--check", o.check, "--passes", passes};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) line.insert(line.end(), {name, value});
  };
  add("--device", o.device);
  if (o.tolerance_given) add("--tolerance", fmt::format("{}", o.tolerance));
  if (o.threads > 0) add("--threads", std::to_string(o.threads));
  if (o.no_fallback) line.push_back("--no-fallback");
  if (o.autotune) line.push_back("--autotune");
  for (const std::string& option : o.device_options) add("--option", option);
  if (!with_inputs) return line;
  for (const std::string& input : o.inputs) add("--input", input);
  for (const std::string& dim : o.dims) add("--dim", dim);
  for (const std::string& value : o.values) add("--value", value);
  for (const std::string& name : o.overrides) add("--override", name);
  return line;
}

Verdict verdict_of(const BisectOptions& options, const std::string& file, const std::string& passes,
                   bool with_inputs, int& status) {
  Verdict verdict;
  std::vector<std::string> line = trial_command(options, file, passes, with_inputs);
  line.push_back("--json");
  Child child(line);
  std::string messages;
  int ended = 0;
  status = kOk;
  if (!child.started()) {
    status = fail(
        kDevice, "T0653",
        fmt::format("a process for a part of the model cannot be started: {}.", strerror(errno)));
    return verdict;
  }
  if (!child.wait(options.timeout_seconds * 1000, messages, ended)) {
    if (interrupted()) status = fail(kInterrupted, "T0001", "interrupted.");
    verdict.kind = Verdict::Kind::kHangs;
    verdict.message = fmt::format("it did not end within {} s", options.timeout_seconds);
    return verdict;
  }
  if (WIFEXITED(ended) && WEXITSTATUS(ended) == kOk) return verdict;
  read_message(messages, verdict);
  if (WIFSIGNALED(ended)) {
    verdict.kind = Verdict::Kind::kFails;
    verdict.code = fmt::format("signal {}", WTERMSIG(ended));
  } else {
    verdict.kind = WEXITSTATUS(ended) == kWrongResult && verdict.code == "T0007"
                       ? Verdict::Kind::kWrong
                       : Verdict::Kind::kFails;
    if (WEXITSTATUS(ended) == kUsage && is_of_options(verdict.code))
      verdict.misuse = messages.substr(messages.find(kError));
  }
  return verdict;
}

}  // namespace tenon::tools
