#include "core/base/process/log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <vector>

#include "core/base/process/environment.h"
#include "core/base/str.h"

namespace tenon {
namespace {

constexpr size_t kMessageBytesMax = 64 * 1024;
constexpr std::string_view kComponents[] = {
    "base", "cache", "codegen", "compile", "dispatch", "frontend", "host", "ir", "op", "pass",
    "plan", "plugins", "runtime", "threads", "toolchain", "tools", "fuse", "schedule",
    // Used by the programs around the host, such as the Python package.
    "fusion", "graph_breaks", "guards", "perf", "progress", "recompiles"};

struct State {
  std::shared_mutex mutex;
  LogLevel all = LogLevel::kWarning;
  std::map<std::string, LogLevel, std::less<>> levels;
  std::set<std::string, std::less<>> said;
  LogReceiver receiver = nullptr;
  void* receiver_self = nullptr;
  State() { parse(env("TENON_LOGS").value_or("")); }

  void parse(std::string_view specification) {
    all = LogLevel::kWarning;
    levels.clear();
    for (std::string_view part : split(specification, ',')) {
      LogLevel level = LogLevel::kInfo;
      if (part[0] == '+' || part[0] == '-') {
        level = part[0] == '+' ? LogLevel::kDetail : LogLevel::kError;
        part.remove_prefix(1);
      }
      if (part == "all") {
        all = level;
      } else {
        levels[std::string(part)] = level;
      }
    }
  }
};

State& state() {
  static State* instance = new State;  // never destroyed: threads may log during exit
  return *instance;
}

void write_to_stderr(std::string_view line) {
  while (!line.empty()) {  // if stderr is closed, messages are lost and nothing else happens
    ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<size_t>(written));
  }
}

std::string_view level_prefix(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error: ";
    case LogLevel::kWarning:
      return "warning: ";
    default:
      return "";
  }
}

}  // namespace

bool log_enabled(std::string_view component, LogLevel level) {
  State& s = state();
  std::shared_lock lock(s.mutex);
  auto found = s.levels.find(component);
  return level <= (found == s.levels.end() ? s.all : found->second);
}

void log_write(std::string_view component, LogLevel level, std::string_view text) {
  State& s = state();
  std::string shown = printable(text, kMessageBytesMax);
  LogReceiver receiver;
  void* self;
  {
    std::shared_lock lock(s.mutex);
    receiver = s.receiver;
    self = s.receiver_self;
  }
  if (receiver != nullptr) return receiver(self, component, level, shown);
  write_to_stderr(
      fmt::format("tenon: {}[{}] {}\n", level_prefix(level), printable(component, 64), shown));
}

void set_log_receiver(LogReceiver receiver, void* self) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  s.receiver = receiver;
  s.receiver_self = self;
}

void set_logs(std::string_view specification) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  s.parse(specification);
}

void warn_unknown_log_names(std::span<const std::string> more) {
  std::vector<std::string> names(std::begin(kComponents), std::end(kComponents));
  names.insert(names.end(), more.begin(), more.end());
  std::vector<std::string> unknown;
  {
    std::shared_lock lock(state().mutex);
    for (const auto& [name, level] : state().levels) {
      bool known = false;
      for (const std::string& candidate : names) known |= candidate == name;
      if (!known) unknown.push_back(name);
    }
  }
  for (const std::string& name : unknown) {
    if (!log_once("TENON_LOGS:" + name)) continue;
    log_warning("base", "TENON_LOGS names {}, which is not a component{}; the names are all, {}",
                quoted(name), did_you_mean(name, std::span<const std::string>(names)),
                join_names(names, 100));
  }
}

bool log_once(std::string_view key) {
  std::unique_lock lock(state().mutex);
  return state().said.emplace(key).second;
}

namespace detail {
void check_failed(const char* file, int line, const char* condition, std::string text) {
  const char* base = std::strrchr(file, '/');
  write_to_stderr(fmt::format("tenon: check failed at {}:{}: {}{}{}\n",
                              base != nullptr ? base + 1 : file, line, condition,
                              text.empty() ? "" : ": ", printable(text, 4096)));
  std::abort();
}
}  // namespace detail

}  // namespace tenon
