// A thread for one piece of work at a time, made for the first one.
//
// Threads: safe; one thread waits at a time.
#pragma once
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/errors/status.h"

namespace tenon::session {

class Background {
 public:
  Background() = default;
  ~Background();  // waits for the work
  Background(const Background&) = delete;

  // In a forked child it must be left where it is: its thread is not there, and its locks may be
  // held.
  bool of_parent() const { return process_ != 0 && process_ != getpid(); }

  // Begins `work` and returns; `ended` gets its result when wait() has it. Both throw nothing.
  // T0622 while other work was not waited for.
  Status start(std::function<Status()> work, std::function<void(tenon_code_t)> ended);
  // Waits until there is no work. What it returned is still there for wait().
  void settle();
  // What the work returned. DEADLINE_EXCEEDED T0622 if it has not ended in time; T0622 if there is
  // none.
  Status wait(uint64_t timeout_ns);

 private:
  enum class State : uint8_t { kIdle, kGiven, kWorking, kEnded, kStopping };
  Status check_process() const;
  void settle(std::unique_lock<std::mutex>& lock);
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;
  std::function<Status()> work_;
  std::function<void(tenon_code_t)> ended_;
  Status result_;
  int telling_ = 0;  // 1 while `ended` is called
  std::thread thread_;
  pid_t process_ = 0;  // that has the thread: a forked child has not
};

}  // namespace tenon::session
