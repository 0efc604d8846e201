#include "gates.h"

#include <algorithm>

#include "tenon/cpp/thread.hpp"

namespace tenon::jitter {

uint64_t Gates::draw() {
  const std::lock_guard lock(mutex_);
  return most_us_ == 0 ? 0 : random_() % (most_us_ + 1);
}

void Gates::hold(const Held& held) {
  const uint64_t delay = draw();
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
  ++count_;
  // A gate opens for later work after it has opened for earlier work.
  Clock::time_point due = Clock::now() + std::chrono::microseconds(delay);
  for (const Item& item : items_) {
    if (item.held.gate.fence == held.gate.fence) due = std::max(due, item.due);
  }
  items_.push_back({held, due});
  changed_.notify_all();
}

void Gates::report(Item& item) {
  if (!item.reported) breach_(item.held);
  item.reported = true;
}

// Its gate is closed, so the signal cannot have been made yet.
void Gates::open(Item& item) {
  const tenon_queue_api_t& api = *item.held.api;
  uint64_t value = 0;
  if (item.held.signal.fence != nullptr &&
      api.fence_query(api.self, item.held.signal.fence, &value) == TENON_OK &&
      value >= item.held.signal.value)
    report(item);
  (void)api.fence_signal(api.self, item.held.opens.fence, item.held.opens.value);
}

void Gates::run() {
  std::unique_lock lock(mutex_);
  while (!ends_ || !items_.empty()) {
    const auto next = std::min_element(items_.begin(), items_.end(),
                                       [](const Item& a, const Item& b) { return a.due < b.due; });
    if (next == items_.end()) {
      changed_.wait(lock);
    } else if (!ends_ && next->due > Clock::now()) {
      changed_.wait_until(lock, next->due);
    } else {
      open(*next);
      items_.erase(next);
    }
  }
}

void Gates::forget(const tenon_queue_t* queue) {
  const std::lock_guard lock(mutex_);
  for (Item& item : items_) {
    if (item.held.queue != queue) continue;
    // The work is over, and its gate is closed.
    if (item.held.submitted) report(item);
    // The copy that opens the gate would wait for ever, and who destroys its queue with it.
    (void)item.held.api->fence_signal(item.held.api->self, item.held.opens.fence,
                                      item.held.opens.value);
  }
  items_.remove_if([&](const Item& item) { return item.held.queue == queue; });
}

void Gates::forget(const tenon_fence_t* fence) {
  const std::lock_guard lock(mutex_);
  for (Item& item : items_) {
    if (item.held.signal.fence == fence) item.held.signal = {};
  }
}

void Gates::seen(const tenon_fence_t* fence, uint64_t value) {
  const std::lock_guard lock(mutex_);
  for (Item& item : items_) {
    if (item.held.signal.fence == fence && item.held.signal.value <= value) report(item);
  }
}

void Gates::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace tenon::jitter
