// The data of one run: where values are, what each device has been given, and what has to stay
// until all work has ended.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/base/str.h"
#include "core/runtime/device/queue.h"
#include "core/runtime/device/relay.h"
#include "core/runtime/run/arguments.h"
#include "core/runtime/run/plan.h"

namespace tenon::runtime {

inline std::string kernel_context(const Device& device) {
  return fmt::format("running on device {}", device.name());
}

// A value in memory of one device.
struct SlotPlace {
  std::shared_ptr<Buffer> buffer;  // null: it is not there
  bool pooled = false;             // false: imported host memory
  tenon_fence_point_t after{};     // readers wait for this; null: the queue's order suffices
  tenon_fence_point_t made{};      // of the device's queue, once the value is there; null: it is
  bool lent = false;  // another queue reads it, so it stays as it is until the run ends
};

struct DeviceState {
  explicit DeviceState(std::shared_ptr<Device> opened, size_t device_count)
      : device(std::move(opened)),
        tainted(std::make_unique<Tainted>(false)),
        from(device_count),
        reach(device_count, Reach::kUnknown) {}

  std::shared_ptr<Device> device;
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
  // Null: it has none.
  std::array<Queue*, 2> queues() const { return {queue.get(), copies.get()}; }
  bool has_work() const {
    return std::ranges::any_of(
        queues(), [](const Queue* q) { return q != nullptr && q->progress() < q->submitted(); });
  }
  bool failed() const {
    return (queue != nullptr && (queue->failed() || device->abandoned())) ||
           (copies != nullptr && copies->failed());
  }
  // Its next piece of work waits for another device.
  bool waits() const {
    const uint64_t next = queue->progress() + 1;
    return std::ranges::any_of(dependences,
                               [next](const Dependence& d) { return d.work == next && d.open(); });
  }
};

// Where a value is.
struct SlotState {
  // In all runs.
  std::vector<uint32_t> targets;  // the devices that it is copied to
  bool relayed = false;           // one of them has a queue
  // As the caller of this run wants it.
  bool stays = true;  // no output of it must be on the host
  Home home;          // of its first output that has one

  std::vector<SlotPlace> places;  // one per device
  Tensor* tensor = nullptr;       // an input that is this, and has its memory
  bool donated = false;           // an input whose memory the run may have
  const void* host = nullptr;
  std::shared_ptr<void> host_owner;  // null: the caller's or the graph's memory
  bool has_host = false;
  bool held = false;  // the buffer of `host` stays until the run ends, since queued work reads it
  // Host memory is filled once the queue of this device has reached `ready`; 0: it is filled.
  uint32_t source = kHostPlace;
  uint64_t ready = 0;
  bool apart = false;  // that queue is the one for copies

  uint32_t reads = 0;  // how often the step that runs reads it, if it does

  // Once its places are empty.
  void forget() {
    tensor = nullptr;
    host = nullptr;
    host_owner.reset();
    donated = has_host = held = apart = false;
    source = kHostPlace;
    ready = 0;
  }
};

struct RunState {
  explicit RunState(const Plan& of) : plan(of), slots(of.slots.size()) {
    for (const auto& device : plan.devices) devices.emplace_back(device, plan.devices.size());
    for (SlotState& slot : slots) slot.places.resize(plan.devices.size());
    for (const Step& step : plan.steps) {
      if (step.kind != Step::Kind::kCopy || step.device == kHostPlace) continue;
      slots[step.slot].targets.push_back(step.device);
      if (plan.devices[step.device]->has_queue()) slots[step.slot].relayed = true;
    }
  }
  SlotPlace& place(uint32_t slot, uint32_t device) { return slots[slot].places[device]; }

  const Plan& plan;
  std::vector<DeviceState> devices;
  std::vector<SlotState> slots;
  std::vector<std::shared_ptr<void>> kept;       // what copies read: uploads, tensors given up
  std::deque<std::vector<int64_t>> out_symbols;  // lent to devices, which may write them until
                                                 // their queues have ended
  RunStatistics statistics;
};

}  // namespace tenon::runtime
