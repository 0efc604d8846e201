#include "plugins/sim/device/queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/thread.hpp"

namespace tenon::sim {
namespace {

constexpr uint64_t kForGoodNs = uint64_t{1} << 62;

Fault last_fault(tenon_code_t code) {
  auto failure = sized<tenon_failure_t>();
  const tenon_host_t* host = context().host;
  if (host->last_failure(host->self, &failure) == TENON_OK && failure.code == code) {
    // The host splits the code (T0123) off a message. It is put back, because the message is
    // recorded again on the waiting thread.
    const std::string_view id = view(failure.id), message = view(failure.message);
    return {code,
            id.empty() || message.starts_with(id) ? std::string(message) : cat(id, ": ", message)};
  }
  return {code, "sim: a command failed"};
}

}  // namespace

// Notifies under the lock: a waiter may destroy the fence as soon as it can take the lock.
template <class Change>
void Fence::settle(Change change) {
  std::vector<std::pair<Watcher, Fault>> due;
  {
    const std::lock_guard lock(mutex_);
    change();
    for (size_t i = 0; i < watchers_.size();) {
      const uint64_t value = watchers_[i].value;
      if (value_ < value && failed_at_ > value) {
        ++i;
        continue;
      }
      due.emplace_back(std::move(watchers_[i]), failed_at_ <= value ? fault_ : Fault{});
      watchers_.erase(watchers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    changed_.notify_all();
  }
  for (const auto& [watcher, fault] : due) watcher.call(fault);
}

void Fence::signal(uint64_t value) {
  settle([&] {
    if (value > value_) value_ = value;
  });
}

void Fence::fail(uint64_t value, Fault fault) {
  settle([&] {
    if (value >= failed_at_) return;
    failed_at_ = value;
    fault_ = std::move(fault);
  });
}

void Fence::when(uint64_t value, std::function<void(const Fault&)> call) {
  {
    const std::lock_guard lock(mutex_);
    watchers_.push_back({value, std::move(call)});
  }
  settle([] {});
}

Status Fence::query(uint64_t* out_value) const {
  const std::lock_guard lock(mutex_);
  if (failed_at_ != UINT64_MAX) return tenon::fail(fault_.code, fault_.message);
  *out_value = value_;
  return {};
}

Status Fence::wait(uint64_t value, uint64_t timeout_ns) const {
  std::unique_lock lock(mutex_);
  const auto done = [&] { return value_ >= value || failed_at_ <= value; };
  if (timeout_ns > kForGoodNs) {  // wait_for would overflow its time type
    changed_.wait(lock, done);
  } else if (!changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), done)) {
    return tenon::fail(TENON_DEADLINE_EXCEEDED,
                       cat("sim: the fence is at ", value_, " and did not reach ", value,
                           " within ", timeout_ns, " ns"));
  }
  return failed_at_ <= value ? tenon::fail(fault_.code, fault_.message) : Status();
}

bool Fence::settled(uint64_t value) const {
  const std::lock_guard lock(mutex_);
  return value_ >= value || failed_at_ <= value;
}

Fault Fence::wait_quietly(uint64_t value) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return value_ >= value || failed_at_ <= value; });
  return failed_at_ <= value ? fault_ : Fault{};
}

Queue::Queue() : thread_(start_thread([this] { work(); })) {}

Queue::~Queue() {
  finish();
}

void Queue::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  submitted_.notify_all();
  released_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Queue::wait_for_own() {
  Fence done(0);
  submit({}, {&done, 1}, [](Queue&) { return Status(); });
  (void)done.wait_quietly(1);
}

Status Queue::stall() {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [&] { return stopping_ || release_; });
  return tenon::fail(TENON_ABORTED, "sim: the command did not end before its queue did (injected)");
}

void Queue::release() {
  {
    const std::lock_guard lock(mutex_);
    release_ = true;
  }
  released_.notify_all();
}

void Queue::submit(std::vector<FencePoint> waits, FencePoint signal, Command run,
                   bool can_be_held) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({std::move(waits), signal, std::move(run), can_be_held});
  }
  submitted_.notify_one();
}

bool Queue::Item::is_held() const {
  return can_be_held && std::ranges::any_of(waits, [](const FencePoint& point) {
           return point.fence != nullptr && !point.fence->settled(point.value);
         });
}

bool Queue::holds() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(items_, &Item::is_held);
}

std::deque<Queue::Item>::iterator Queue::next() {
  if (!items_.front().is_held()) return items_.begin();
  return std::ranges::find(items_, false, &Item::can_be_held);
}

Fault Queue::perform(Item& item) {
  for (const FencePoint& point : item.waits) {
    if (point.fence == nullptr) continue;
    if (Fault fault = point.fence->wait_quietly(point.value); fault.code != TENON_OK) return fault;
  }
  const tenon_code_t code = detail::guarded(context().host, [&] { return item.run(*this); });
  return code == TENON_OK ? Fault{} : last_fault(code);
}

void Queue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    submitted_.wait(lock, [&] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    const auto chosen = next();
    if (chosen == items_.end()) {  // fences do not wake the queue
      submitted_.wait_for(lock, std::chrono::microseconds(100));
      continue;
    }
    Item item = std::move(*chosen);
    items_.erase(chosen);
    lock.unlock();
    Fault fault = perform(item);
    if (item.signal.fence != nullptr) {
      fault.code == TENON_OK ? item.signal.fence->signal(item.signal.value)
                             : item.signal.fence->fail(item.signal.value, fault);
    }
    lock.lock();
  }
}

}  // namespace tenon::sim
