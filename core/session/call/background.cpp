#include "core/session/call/background.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "core/base/process/signal_mask.h"

namespace tenon::session {

Status Background::check_process() const {
  if (!of_parent()) return {};
  return error(TENON_FAILED_PRECONDITION, "T0622",
               "the operation belongs to the process that this one was forked from");
}

void Background::settle(std::unique_lock<std::mutex>& lock) {
  changed_.wait(
      lock, [&] { return (state_ == State::kIdle || state_ == State::kEnded) && telling_ == 0; });
}

void Background::settle() {
  std::unique_lock lock(mutex_);
  settle(lock);
}

Background::~Background() {
  {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) return;
    settle(lock);
    state_ = State::kStopping;
  }
  changed_.notify_all();
  thread_.join();
}

Status Background::start(std::function<Status()> work, std::function<void(tenon_code_t)> ended) {
  TENON_RETURN_IF_ERROR(check_process());
  const std::lock_guard lock(mutex_);
  if (state_ != State::kIdle) {
    return error(TENON_FAILED_PRECONDITION, "T0622",
                 "the operation has work that was not waited for");
  }
  work_ = std::move(work);
  ended_ = std::move(ended);
  try {
    const SignalsBlocked blocked;
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
    process_ = getpid();
  } catch (const std::system_error& e) {
    work_ = nullptr;
    ended_ = nullptr;
    return error(TENON_RESOURCE_EXHAUSTED, "T0111", "the system gives no thread: {}", e.what());
  }
  state_ = State::kGiven;
  changed_.notify_all();
  return {};
}

void Background::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return state_ == State::kGiven || state_ == State::kStopping; });
    if (state_ == State::kStopping) return;
    state_ = State::kWorking;
    const std::function<Status()> work = std::exchange(work_, nullptr);
    const std::function<void(tenon_code_t)> ended = std::exchange(ended_, nullptr);
    lock.unlock();
    Status result = work();
    const tenon_code_t code = result.code();
    lock.lock();
    result_ = std::move(result);
    state_ = State::kEnded;
    ++telling_;
    changed_.notify_all();
    lock.unlock();
    ended(code);
    lock.lock();
    --telling_;
    changed_.notify_all();
  }
}

Status Background::wait(uint64_t timeout_ns) {
  TENON_RETURN_IF_ERROR(check_process());
  std::unique_lock lock(mutex_);
  if (state_ == State::kIdle) {
    return error(TENON_FAILED_PRECONDITION, "T0622", "the operation has started nothing");
  }
  const auto ended = [&] { return state_ == State::kEnded; };
  if (timeout_ns == UINT64_MAX) {
    changed_.wait(lock, ended);
  } else {
    // Longer than a process lives, and still no overflow of the clock.
    constexpr uint64_t kLongestNs = uint64_t{1} << 60;
    const auto limit = std::chrono::nanoseconds(std::min(timeout_ns, kLongestNs));
    if (!changed_.wait_for(lock, limit, ended))
      return error(TENON_DEADLINE_EXCEEDED, "T0622", "the operation has not ended yet");
  }
  state_ = State::kIdle;
  return std::exchange(result_, Status());
}

}  // namespace tenon::session
