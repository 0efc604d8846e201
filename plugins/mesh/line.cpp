#include "line.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <utility>

namespace tenon::mesh {
namespace {

constexpr uint32_t kEager = 20, kYields = 2000;
constexpr long kNapNs = 50'000;

void give(const tenon_fence_point_t& point, const Fault& fault) {
  tenon_fence_t* fence = point.fence;
  if (fence == nullptr) return;
  if (fault.code == TENON_OK) {
    fence->value = std::max(fence->value, point.value);
  } else if (point.value < fence->failed_at) {
    fence->failed_at = point.value;
    fence->fault = fault;
  }
}

bool meet(const std::vector<Range>& a, const std::vector<Range>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Range& x) {
    return std::any_of(b.begin(), b.end(), [&](const Range& y) { return x.overlaps(y); });
  });
}

// Whether `later` must see what `earlier` does.
bool depends(const Job& later, const Job& earlier) {
  return meet(later.reads(), earlier.writes()) || meet(later.writes(), earlier.writes()) ||
         meet(later.writes(), earlier.reads());
}

}  // namespace

Fault Fault::last(tenon_code_t code) {
  auto failure = sized<tenon_failure_t>();
  const tenon_host_t* host = context().host;
  if (host->last_failure(host->self, &failure) != TENON_OK || failure.code != code)
    return {code, "T0906: the mesh failed"};
  const std::string_view id = view(failure.id), message = view(failure.message);
  // The host splits the code off a message; it is put back for the thread that waits.
  return {code,
          id.empty() || message.starts_with(id) ? std::string(message) : cat(id, ": ", message)};
}

bool Range::overlaps(const Range& other) const {
  const auto a = reinterpret_cast<uintptr_t>(data), b = reinterpret_cast<uintptr_t>(other.data);
  return size_bytes != 0 && other.size_bytes != 0 && a < b + other.size_bytes && b < a + size_bytes;
}

uint64_t now_ns() {
  timespec now = {};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void Patience::pause() {
  ++turns_;
  if (turns_ <= kEager) return;
  if (turns_ <= kEager + kYields) {
    (void)sched_yield();
    return;
  }
  const timespec nap = {0, kNapNs};
  (void)nanosleep(&nap, nullptr);
}

Queue* Line::add_queue() {
  const std::lock_guard lock(mutex_);
  return &queues_.emplace_back();
}

// A cancelled call does not wait for other processes: its transfers are left to the engine.
void Line::remove(Queue* queue) {
  for (Patience patience;; patience.pause()) {
    const std::lock_guard lock(mutex_);
    advance_all();
    if (!queue->items.empty() && !cancelled()) continue;
    queues_.remove_if([&](const Queue& one) { return &one == queue; });
    return;
  }
}

Status Line::submit(Queue* queue, std::unique_ptr<Job> job, const tenon_fence_point_t* waits,
                    uint32_t wait_count, tenon_fence_point_t signal) {
  const std::lock_guard lock(mutex_);
  for (const Queue& other : queues_) {
    const bool is_busy = &other != queue && job->transfers() &&
                         std::any_of(other.items.begin(), other.items.end(),
                                     [](const Queue::Item& item) { return item.job->transfers(); });
    if (is_busy) {
      return fail(TENON_FAILED_PRECONDITION,
                  "T0907: two calls exchange data between processes at once; make one after the "
                  "other, in the same order in all processes");
    }
  }
  queue->items.push_back({{waits, waits + wait_count}, signal, std::move(job), false, false, {}});
  advance_all();
  return {};
}

Status Line::query(const Fence* fence, uint64_t* out_value) {
  const std::lock_guard lock(mutex_);
  advance_all();
  if (fence->failed_at != UINT64_MAX) return fence->fault.report();
  *out_value = fence->value;
  return {};
}

void Line::signal(Fence* fence, uint64_t value) {
  const std::lock_guard lock(mutex_);
  fence->value = std::max(fence->value, value);
  advance_all();
}

Status Line::wait(const Fence* fence, uint64_t value, uint64_t timeout_ns) {
  const uint64_t begin = now_ns();
  for (Patience patience;;) {
    bool has_lingered = false;
    {
      const std::lock_guard lock(mutex_);
      advance_all();
      if (fence->failed_at <= value) return fence->fault.report();
      if (fence->value >= value) return {};
      has_lingered = linger();
    }
    if (!has_lingered) patience.pause();
    if (cancelled()) return fail(TENON_CANCELLED, "T0001: stopped");
    if (timeout_ns != UINT64_MAX && now_ns() - begin >= timeout_ns) {
      return fail(TENON_DEADLINE_EXCEEDED,
                  cat("mesh: the fence did not reach ", value, " within ", timeout_ns, " ns"));
    }
  }
}

Status Line::run(Job& job) {
  for (Patience patience;; patience.pause()) {
    const std::lock_guard lock(mutex_);
    bool done = false;
    TENON_TRY(job.advance(&done));
    if (done) return {};
    if (cancelled()) return fail(TENON_CANCELLED, "T0001: stopped");
  }
}

// All waits of an item are over, its memory is not in use by an earlier one, and no earlier one may
// still start a transfer.
bool Line::is_ready(const Queue& queue, size_t index, Fault* out_fault) const {
  const Queue::Item& item = queue.items[index];
  for (const tenon_fence_point_t& point : item.waits) {
    const tenon_fence_t* fence = point.fence;
    if (fence == nullptr) continue;
    if (!fence->settled(point.value)) return false;
    if (fence->failed_at <= point.value) *out_fault = fence->fault;
  }
  // Work whose failure no signal has taken yet spoils what follows.
  if (queue.fault.code != TENON_OK) *out_fault = queue.fault;
  for (size_t i = 0; i < index; ++i) {
    const Queue::Item& earlier = queue.items[i];
    if (earlier.done && earlier.fault.code != TENON_OK && earlier.signal.fence == nullptr)
      *out_fault = earlier.fault;
    if (earlier.done) continue;
    if (!earlier.begun || earlier.job->may_start() || depends(*item.job, *earlier.job))
      return false;
  }
  return true;
}

bool Line::begin(Queue& queue, size_t index) {
  Queue::Item& item = queue.items[index];
  if (!is_ready(queue, index, &item.fault)) return false;
  item.begun = true;
  item.done = item.fault.code != TENON_OK;
  return true;
}

void Line::advance_all() {
  for (Queue& queue : queues_) {
    for (size_t i = 0; i < queue.items.size(); ++i) {
      Queue::Item& item = queue.items[i];
      if (item.done) continue;
      if (!item.begun && !begin(queue, i)) break;
      if (item.done) continue;
      if (const Status status = item.job->advance(&item.done); !status.ok()) {
        item.fault = Fault::last(status.code());
        item.done = true;
      }
    }
    settle(queue);
  }
}

// Waits for the first transfer that is on its way. False if it cannot be waited for.
bool Line::linger() {
  for (Queue& queue : queues_) {
    for (Queue::Item& item : queue.items) {
      if (item.begun && !item.done && item.job->transfers()) return item.job->linger();
    }
  }
  return false;
}

// Signals in the order of submission.
void Line::settle(Queue& queue) {
  while (!queue.items.empty() && queue.items.front().done) {
    const Queue::Item& first = queue.items.front();
    if (queue.fault.code == TENON_OK) queue.fault = first.fault;
    if (first.signal.fence != nullptr) give(first.signal, std::exchange(queue.fault, {}));
    queue.items.pop_front();
  }
}

}  // namespace tenon::mesh
