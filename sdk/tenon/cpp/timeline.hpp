// Timeline fences in host memory, for devices whose runtime has none of its own: a counter that
// only grows, failures that travel along it, threads that wait and calls to be made when a value is
// reached. tenon.queue/1 says what the words mean.
#ifndef TENON_CPP_TIMELINE_HPP_
#define TENON_CPP_TIMELINE_HPP_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "tenon/cpp/plugin.hpp"

namespace tenon::inline sdk {

// What went wrong on one thread, to be told again on the thread that waits.
struct Fault {
  tenon_code_t code = TENON_OK;
  std::string text;

  bool ok() const { return code == TENON_OK; }
  Status tell() const { return ok() ? Status() : fail(code, text); }
};

// What the host was told last on this thread, when it was told `code`.
inline Fault fault_of(tenon_code_t code) {
  if (code == TENON_OK) return {};
  auto failure = sized<tenon_failure_t>();
  const tenon_host_t* host = context().host;
  const bool told = host != nullptr && host->last_failure(host->self, &failure) == TENON_OK &&
                    failure.code == code;
  return {code, std::string(told ? view(failure.message) : "the work failed")};
}

// Safe. May be destroyed when a wait for its last value has returned.
class Timeline {
 public:
  explicit Timeline(uint64_t initial) : value_(initial) {}
  Timeline(const Timeline&) = delete;

  void signal(uint64_t value) {
    settle([&] {
      if (value > value_) value_ = value;
    });
  }
  // Waiters of `value` or a later one get the fault; the first fault of the lowest value stays.
  void fail(uint64_t value, Fault fault) {
    settle([&] {
      if (value >= failed_at_) return;
      failed_at_ = value;
      fault_ = std::move(fault);
    });
  }

  Status query(uint64_t* out_value) const {
    const std::lock_guard lock(mutex_);
    if (!fault_.ok()) return fault_.tell();
    *out_value = value_;
    return {};
  }
  Status wait(uint64_t value, uint64_t timeout_ns) const {
    constexpr uint64_t kForGood = uint64_t{1} << 60;  // more would overflow the clock
    std::unique_lock lock(mutex_);
    const auto settled = [&] { return settled_for(value); };
    if (timeout_ns >= kForGood) {
      changed_.wait(lock, settled);
    } else if (!changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), settled)) {
      return sdk::fail(TENON_DEADLINE_EXCEEDED,
                       cat("The fence stands at ", value_, " and did not reach ", value, " within ",
                           timeout_ns, " ns."));
    }
    return failed_at_ <= value ? fault_.tell() : Status();
  }

  // Calls once, when the value is reached or cannot be any more, on the thread that brings it
  // there; at once if it is so already. The call must not block, and may come from a thread of the
  // vendor's runtime.
  void when(uint64_t value, void (*call)(void* self, const Fault& fault), void* self) {
    Fault fault;
    {
      const std::lock_guard lock(mutex_);
      if (!settled_for(value)) return waiters_.push_back({value, call, self});
      if (failed_at_ <= value) fault = fault_;
    }
    call(self, fault);
  }
  bool reached(uint64_t value) const {
    const std::lock_guard lock(mutex_);
    return value_ >= value && failed_at_ > value;
  }

 private:
  struct Waiter {
    uint64_t value;
    void (*call)(void* self, const Fault& fault);
    void* self;
    Fault fault;
  };

  bool settled_for(uint64_t value) const { return value_ >= value || failed_at_ <= value; }

  // Threads are told under the lock: whoever waited may destroy this as soon as it can take the
  // lock.
  template <class Change>
  void settle(Change change) {
    std::vector<Waiter> due;
    {
      const std::lock_guard lock(mutex_);
      change();
      for (size_t i = 0; i < waiters_.size();) {
        if (!settled_for(waiters_[i].value)) {
          ++i;
          continue;
        }
        due.push_back(std::move(waiters_[i]));
        if (failed_at_ <= due.back().value) due.back().fault = fault_;
        waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      changed_.notify_all();
    }
    for (const Waiter& waiter : due) waiter.call(waiter.self, waiter.fault);
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t value_;
  uint64_t failed_at_ = UINT64_MAX;
  Fault fault_;
  std::vector<Waiter> waiters_;
};

}  // namespace tenon::inline sdk
#endif
