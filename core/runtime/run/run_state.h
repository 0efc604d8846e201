// A Runner's state during a run: where values are, and what each device has been given. Only for
// run*.cpp.
#pragma once
#include <algorithm>
#include <string>

#include "core/base/str.h"
#include "core/runtime/run/run.h"

namespace tenon::runtime {

inline std::string kernel_context(const Device& device) {
  return fmt::format("running on device {}", device.name());
}

struct Runner::Place {
  std::shared_ptr<Buffer> buffer;
  bool pooled = false;          // false: imported host memory
  tenon_fence_point_t after{};  // readers wait for this; null: the queue's order suffices
  tenon_fence_point_t made{};   // of the device's queue, once the value is there; null: it is
  bool lent = false;            // another queue reads it, so it stays as it is until the run ends
};

struct Runner::DeviceState {
  DeviceState(BufferPool buffers, size_t device_count)
      : pool(std::move(buffers)),
        tainted(std::make_unique<Tainted>(false)),
        from(device_count),
        reach(device_count, Reach::kUnknown) {}

  BufferPool pool;
  // The largest of this run so far, and of the run before: every step takes as much, so that one
  // buffer serves all of them.
  uint64_t workspace_bytes = 0, last_workspace_bytes = 0;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Queue> copies;     // for large copies from and to the host
  bool one_queue = false;            // it gave no queue for them
  std::unique_ptr<Queue> set_aside;  // the run's own, while `queue` is a stream of the caller's
  bool joined = false;
  std::vector<std::unique_ptr<Queue>> followed;  // further streams of the caller's
  std::unique_ptr<Tainted> tainted;  // some of its work used what another device failed to make
  std::unique_ptr<Relay> relay;      // carries its results to other devices
  std::vector<std::unique_ptr<RelayFence>>
      from;  // by source: signalled when a value from it has arrived
  enum class Reach : uint8_t { kUnknown, kNo, kYes };
  std::vector<Reach> reach;  // by source: whether `queue` reads its memory
  void forget_reach() { std::ranges::fill(reach, Reach::kUnknown); }  // `queue` is another one
  // Which of its work waits for other devices: the value that it signals, and what it waits for.
  struct Dependence {
    uint64_t work = 0;
    const RelayFence* fence = nullptr;     // of what goes through the host
    const DeviceState* reached = nullptr;  // the source of what goes straight
    uint64_t value = 0;
    bool open() const {
      if (fence != nullptr) return !fence->signalled(value);
      return !reached->queue->device().abandoned() && reached->queue->progress() < value;
    }
  };
  std::vector<Dependence> dependences;
  bool released = false;  // it was given up, and what waits for its fence no longer does

  void depends(tenon_fence_point_t point) {
    for (const auto& f : from) {
      if (f != nullptr && f->fence() == point.fence)
        dependences.push_back({queue->submitted(), f.get(), nullptr, point.value});
    }
  }
  void depends(const DeviceState& source, uint64_t value) {
    dependences.push_back({queue->submitted(), nullptr, &source, value});
  }
  // Some of its work read what this device made.
  bool reads(const DeviceState& source) const {
    return std::ranges::any_of(dependences,
                               [&](const Dependence& d) { return d.reached == &source; });
  }
  // Its first piece of work that failed had waited for failed work of a device whose memory it
  // reads. All work has ended.
  bool failed_by_others() const {
    if (std::ranges::none_of(dependences, [](const auto& d) { return d.reached != nullptr; }))
      return false;
    const uint64_t first = queue->first_failed();
    return std::ranges::any_of(dependences, [&](const Dependence& d) {
      if (d.reached == nullptr || d.work != first) return false;
      const uint64_t cause = d.reached->queue->first_failed();
      return cause != 0 && cause <= d.value;
    });
  }
  bool has_work() const {
    return (queue != nullptr && queue->progress() < queue->submitted()) ||
           (copies != nullptr && copies->progress() < copies->submitted());
  }
  bool failed() const {
    return (queue != nullptr && (queue->failed() || queue->device().abandoned())) ||
           (copies != nullptr && copies->failed());
  }
  // Its next piece of work waits for another device.
  bool waits() const {
    const uint64_t next = queue->progress() + 1;
    return std::any_of(dependences.begin(), dependences.end(),
                       [next](const Dependence& d) { return d.work == next && d.open(); });
  }
};

struct Runner::SlotState {
  std::vector<Place> places;  // one per device
  Tensor* tensor = nullptr;   // an input that is this, and has its memory
  bool donated = false;       // an input whose memory the run may have
  const void* host = nullptr;
  std::shared_ptr<void> host_owner;  // null: the caller's or the graph's memory
  bool has_host = false;
  bool stable_host = false;  // host memory that stays until the run ends
  bool held = false;  // the buffer of `host` stays until the run ends, since queued work reads it
  uint32_t source =
      kHostPlace;      // host memory is filled once the queue of this device has reached `ready`
  uint64_t ready = 0;  // 0: it is filled already
  bool apart = false;  // that queue is the one for copies
};

}  // namespace tenon::runtime
