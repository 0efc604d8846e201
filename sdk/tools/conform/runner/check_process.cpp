#include "sdk/tools/conform/runner/check_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "sdk/tools/conform/runner/runner.h"
#include "sdk/tools/conform/subject/names.h"

extern char** environ;

namespace tenon::conform {
namespace {

constexpr size_t kOutputShown = 400;
// How much is read at once, so that a process that writes without end does not starve the others.
constexpr size_t kReadAtOnce = size_t{64} << 10;
// Reads after a process has ended: enough for a full pipe, and a little more.
constexpr int kLastReads = 64;
// How long a killed process may take to end; one that sleeps in a driver may never end.
constexpr auto kDying = std::chrono::seconds(30);

// Leaders of the running process groups, for the signal handler. As many as --jobs allows.
constexpr size_t kGroups = 256;
std::atomic<pid_t> g_groups[kGroups];

void swap_group(pid_t from, pid_t to) {
  for (std::atomic<pid_t>& group : g_groups) {
    pid_t expected = from;
    if (group.compare_exchange_strong(expected, to)) return;
  }
}

void end_groups(int signal) {
  for (std::atomic<pid_t>& group : g_groups) {
    if (const pid_t leader = group.load(); leader > 0) ::kill(-leader, SIGKILL);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Variables that the user has set for other work must not reach the plugin.
std::vector<std::string> clean_environment(const std::string& manifest_path) {
  static constexpr std::string_view kDropped[] = {
      "TENON_PLUGINS_SELECT=", "TENON_PLUGINS_DISABLE=", "TENON_PLUGIN_AUTOLOAD=",
      "TENON_PLUGIN_FILES=",   "TENON_PLUGIN_ADD=",      "TENON_PLUGIN_STRICT=",
      "TENON_PLUGIN_LOCK=",    "TENON_LAYERS=",          "TENON_DEVICE="};
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (std::none_of(std::begin(kDropped), std::end(kDropped),
                     [&](std::string_view drop) { return text.starts_with(drop); })) {
      out.emplace_back(text);
    }
  }
  out.push_back("TENON_PLUGIN_ADD=" + manifest_path);
  return out;
}

// A pipe whose ends are not standard streams: dup2 of a descriptor to its own number would leave it
// close-on-exec.
struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  ~Pipe() {
    for (int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  bool open() {
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    for (int& end : ends) {
      const int high = ::fcntl(end, F_DUPFD_CLOEXEC, 10);
      if (high < 0) return false;
      ::close(end);
      end = high;
    }
    return true;
  }
  int take(int which) { return std::exchange(ends[which], -1); }
};

Error no_process(int number) {
  return {
      "T0112", fmt::format("no process for a check can be started: {}", ::strerror(number)), {}};
}

void dont_wait(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

// Reads once. False if there is nothing more, now or for good.
template <typename Take>
bool read_some(int* descriptor, Take take) {
  if (*descriptor < 0) return false;
  static char bytes[kReadAtOnce];  // the runner has one thread
  const ssize_t got = ::read(*descriptor, bytes, sizeof(bytes));
  if (got > 0) {
    take(std::string_view(bytes, static_cast<size_t>(got)));
    return true;
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    ::close(*descriptor);
    *descriptor = -1;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<CheckProcess>> CheckProcess::start(
    const std::string& manifest_path, const std::string& name,
    const std::vector<std::string>& examples) {
  std::string token = make_token();
  Pipe secret, answer, output;
  if (token.empty() || !secret.open() || !answer.open() || !output.open()) return no_process(errno);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, secret.ends[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.ends[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, output.ends[1], 2);
  ::posix_spawn_file_actions_adddup2(&actions, answer.ends[1], kAnswerDescriptor);
  // A process group of its own, so that what it starts can be ended with it.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<std::string> environment = clean_environment(manifest_path);
  std::vector<std::string> words = {"/proc/self/exe", "--child", manifest_path, name};
  words.insert(words.end(), examples.begin(), examples.end());
  std::vector<char*> env, arguments;
  for (std::string& entry : environment) env.push_back(entry.data());
  for (std::string& word : words) arguments.push_back(word.data());
  env.push_back(nullptr);
  arguments.push_back(nullptr);
  auto made = std::unique_ptr<CheckProcess>(new CheckProcess(token));
  const int failed = ::posix_spawn(&made->process_, words[0].c_str(), &actions, &attributes,
                                   arguments.data(), env.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    made->process_ = -1;
    return no_process(failed);
  }
  swap_group(0, made->process_);
  // An older system has no such descriptor; the end is then polled for.
  made->process_descriptor_ = static_cast<int>(::syscall(SYS_pidfd_open, made->process_, 0u));
  made->answer_ = answer.take(0);
  made->output_end_ = output.take(0);
  dont_wait(made->answer_);
  dont_wait(made->output_end_);
  // It fits in the pipe. If the process is already dead, the token is not needed.
  if (::write(secret.ends[1], token.data(), token.size()) < 0) return made;
  return made;
}

CheckProcess::~CheckProcess() {
  if (process_ > 0 && !reaped_) end_group();
  for (int descriptor : {process_descriptor_, answer_, output_end_}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

void CheckProcess::add_polls(std::vector<pollfd>* polls) const {
  for (int descriptor : {process_descriptor_, answer_, output_end_}) {
    if (descriptor >= 0) polls->push_back({descriptor, POLLIN, 0});
  }
}

bool CheckProcess::has_ended() {
  siginfo_t info = {};
  // Not reaped: its pid remains its group's until the group has been ended.
  return ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == process_;
}

bool CheckProcess::advance() {
  (void)read_some(&answer_, [&](std::string_view bytes) { answers_.take(bytes); });
  (void)read_some(&output_end_, [&](std::string_view bytes) {
    output_ += bytes.substr(0, kOutputShown - std::min(kOutputShown, output_.size()));
  });
  return has_ended();
}

void CheckProcess::read_all() {
  for (int i = 0; i < kLastReads; ++i) {
    if (!read_some(&answer_, [&](std::string_view bytes) { answers_.take(bytes); })) break;
  }
  (void)advance();
}

void CheckProcess::end_group() {
  ::kill(-process_, SIGKILL);
  ::kill(process_, SIGKILL);  // in case it left the group
  const auto begin = std::chrono::steady_clock::now();
  while (!reaped_ && std::chrono::steady_clock::now() - begin < kDying) {
    reaped_ = ::waitpid(process_, &status_, WNOHANG) == process_;
    if (!reaped_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  swap_group(process_, 0);
}

// What it was about to do last, and its output.
std::string CheckProcess::context() const {
  std::string text;
  if (!answers_.last_step().empty()) text = " while " + answers_.last_step();
  if (!output_.empty()) text += "; it wrote: " + printable(output_, kOutputShown);
  return text;
}

Outcome CheckProcess::outcome() const {
  if (WIFSIGNALED(status_)) {
    return failed("it ended with signal {} ({}){}", WTERMSIG(status_),
                  ::strsignal(WTERMSIG(status_)), context());
  }
  if (!answers_.result().has_value())
    return failed("the process ended with status {}{}", WEXITSTATUS(status_), context());
  Outcome outcome = *answers_.result();
  if (answers_.died() && outcome.verdict == Verdict::kFail && !output_.empty())
    outcome.text += "; it wrote: " + printable(output_, kOutputShown);
  return outcome;
}

Outcome CheckProcess::finish(double timed_out) {
  const bool ended = has_ended();
  read_all();
  end_group();
  if (!reaped_)
    return failed("no end after {:.0f} s, and killing it does not end it{}",
                  std::max(timed_out, 0.0), context());
  // A check that ended as it was timed out is judged by its report.
  if (timed_out >= 0 && !ended) return failed("no end after {:.0f} s{}", timed_out, context());
  return outcome();
}

void end_checks_with_runner() {
  // Processes that a check leaves running are reparented to the runner.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    // A signal that is ignored, as under nohup, stays ignored.
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::signal(signal, end_groups);
  }
}

void end_orphans() {
  // Several times: processes that are ended may leave others running.
  for (int round = 0; round < 8; ++round) {
    const std::string path = fmt::format("/proc/self/task/{}/children", ::getpid());
    const std::string text = read_system_file(path);
    size_t ended = 0;
    for (std::string_view word : split(trim(text), ' ')) {
      uint64_t process = 0;
      if (!parse_u64(word, &process) || process == 0) continue;
      ::kill(static_cast<pid_t>(process), SIGKILL);
      ++ended;
    }
    if (ended == 0) return;
    const auto begin = std::chrono::steady_clock::now();
    while (::waitpid(-1, nullptr, WNOHANG) >= 0 &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(1))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void end_with_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace tenon::conform
