// A guard for calls into a vendor's runtime that start threads or install handlers. Threads started
// inside it receive no signals, which are for the program's own threads (thread.hpp names the two
// exceptions). Afterwards handlers, locale, environment and floating-point state are restored.
// POSIX.
#ifndef TENON_CPP_PROCESS_GUARD_HPP_
#define TENON_CPP_PROCESS_GUARD_HPP_

#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "tenon/cpp/thread.hpp"

namespace tenon::inline sdk {

// One at a time per plugin: a second thread waits. Must not be nested. Costs a system call per
// signal: use it for opening and compiling, not for every launch.
class ProcessGuard {
 public:
  ProcessGuard() : lock_(mutex()) {
    // Allocations come first: if memory is short, nothing has been changed yet.
    if (const char* name = ::setlocale(LC_ALL, nullptr)) locale_ = name;
    environment_ = environment();
    const sigset_t others = signals_of_others();
    pthread_sigmask(SIG_BLOCK, &others, &mask_);
    for (int s = 1; s < kSignals; ++s)
      known_[index(s)] = ::sigaction(s, nullptr, &actions_[index(s)]) == 0;
    ::fegetenv(&float_state_);
  }
  ~ProcessGuard() {
    for (int s = 1; s < kSignals; ++s) {
      struct sigaction now = {};
      const bool changed = known_[index(s)] && ::sigaction(s, nullptr, &now) == 0 &&
                           now.sa_sigaction != actions_[index(s)].sa_sigaction;
      if (changed) ::sigaction(s, &actions_[index(s)], nullptr);
    }
    const char* name = ::setlocale(LC_ALL, nullptr);
    if (!locale_.empty() && (name == nullptr || locale_ != name))
      ::setlocale(LC_ALL, locale_.c_str());
    try {
      restore_environment();
    } catch (const std::bad_alloc&) {
      // Without memory to compare them, variables stay as the runtime left them.
    }
    ::fesetenv(&float_state_);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  ProcessGuard(const ProcessGuard&) = delete;

 private:
  static constexpr int kSignals = 65;
  static size_t index(int signal) { return static_cast<size_t>(signal); }
  using Environment = std::map<std::string, std::string>;
  static Environment environment() {
    Environment out;
    for (char** variable = environ; variable && *variable; ++variable) {
      const std::string text = *variable;
      const size_t equals = text.find('=');
      if (equals != std::string::npos) out[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return out;
  }
  // Writes only what differs: another thread may be reading its variables.
  void restore_environment() const {
    for (const auto& [name, value] : environment()) {
      if (!environment_.contains(name)) ::unsetenv(name.c_str());
    }
    const Environment now = environment();
    for (const auto& [name, value] : environment_) {
      const auto it = now.find(name);
      if (it == now.end() || it->second != value) ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }

  std::lock_guard<std::mutex> lock_;
  sigset_t mask_;
  std::array<struct sigaction, kSignals> actions_ = {};
  std::array<bool, kSignals> known_ = {};
  std::string locale_;
  Environment environment_;
  fenv_t float_state_;
};

}  // namespace tenon::inline sdk
#endif
