// Timeline fences in host memory, for devices whose runtime has none: a counter that only grows,
// failures that propagate along it, threads that wait, and callbacks when a value is reached.
// tenon.queue/1 defines the terms.
#ifndef TENON_CPP_TIMELINE_HPP_
#define TENON_CPP_TIMELINE_HPP_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "tenon/cpp/plugin.hpp"

namespace tenon::inline sdk {

// A failure on one thread, to be reported again on the thread that waits.
struct Fault {
  tenon_code_t code = TENON_OK;
  std::string text;

  bool ok() const { return code == TENON_OK; }
  Status tell() const { return ok() ? Status() : fail(code, text); }
};

// The last failure reported to the host on this thread, with `code`.
inline Fault fault_of(tenon_code_t code) {
  if (code == TENON_OK) return {};
  auto failure = sized<tenon_failure_t>();
  const tenon_host_t* host = context().host;
  const bool known = host != nullptr && host->last_failure(host->self, &failure) == TENON_OK &&
                     failure.code == code;
  return {code, std::string(known ? view(failure.message) : "the work failed")};
}

// Safe. May be destroyed once a wait for its last value has returned.
class Timeline {
 public:
  explicit Timeline(uint64_t initial) : value_(initial) {}
  Timeline(const Timeline&) = delete;

  void signal(uint64_t value) {
    settle([&] {
      if (value > value_) value_ = value;
    });
  }
  // Waiters of `value` or a later value get the fault. The fault of the lowest value is kept; for
  // equal values, the first.
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

  // Calls `call` once, when the value is reached or can no longer be reached, on the thread that
  // causes it; immediately if this is already so. The call must not block, and may come from a
  // thread of the vendor's runtime, also when a thread that waited has destroyed this object.
  // `keep` lives until the call has returned, or will not come.
  void when(uint64_t value, void (*call)(void* self, const Fault& fault), void* self,
            std::shared_ptr<void> keep = {}) {
    Fault fault;
    {
      const std::lock_guard lock(mutex_);
      if (!settled_for(value)) return waiters_.push_back({value, call, self, std::move(keep), {}});
      if (failed_at_ <= value) fault = fault_;
    }
    call(self, fault);
  }
  bool reached(uint64_t value) const {
    const std::lock_guard lock(mutex_);
    return value_ >= value && failed_at_ > value;
  }
  // Whether waiters of the value get a fault.
  bool failed(uint64_t value) const {
    const std::lock_guard lock(mutex_);
    return failed_at_ <= value;
  }

 private:
  struct Waiter {
    uint64_t value;
    void (*call)(void* self, const Fault& fault);
    void* self;
    std::shared_ptr<void> keep;
    Fault fault;
  };

  bool settled_for(uint64_t value) const { return value_ >= value || failed_at_ <= value; }

  // Notifies under the lock: a waiter may destroy this object as soon as it can take the lock.
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
