// A Runner's state during a run: where values are, and what each device has been given. Only for
// run*.cpp.
#pragma once
#include <algorithm>
#include <string>

#include "core/base/str.h"
#include "core/runtime/run.h"

namespace tenon::runtime {

inline std::string kernel_context(const Device& device) {
  return fmt::format("running on device {}", device.name());
}

struct Runner::Place {
  std::shared_ptr<Buffer> buffer;
  bool pooled = false;          // false: imported host memory
  tenon_fence_point_t after{};  // readers wait for this; null: the queue's order suffices
};

struct Runner::DeviceState {
  BufferPool pool;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Queue> set_aside;  // the run's own, while `queue` is a stream of the caller's
  bool joined = false;
  std::unique_ptr<Tainted> tainted;  // some of its work used what another device failed to make
  std::unique_ptr<Relay> relay;      // carries its results to other devices
  std::vector<std::unique_ptr<RelayFence>>
      from;  // by source: signalled when a value from it has arrived
  // Which of its work waits for other devices: the value that it signals, and what it waits for.
  struct Dependence {
    uint64_t work = 0;
    const RelayFence* fence = nullptr;
    uint64_t value = 0;
  };
  std::vector<Dependence> dependences;

  void depends(tenon_fence_point_t point) {
    for (const auto& f : from) {
      if (f != nullptr && f->fence() == point.fence)
        dependences.push_back({queue->submitted(), f.get(), point.value});
    }
  }
  // Its next piece of work waits for another device.
  bool waits() const {
    const uint64_t next = queue->progress() + 1;
    return std::any_of(dependences.begin(), dependences.end(), [next](const Dependence& d) {
      return d.work == next && !d.fence->signalled(d.value);
    });
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
  bool held =
      false;  // the buffer behind `host` stays until the run ends, since queued work reads it
  uint32_t source =
      kHostPlace;      // host memory is filled once the queue of this device has reached `ready`
  uint64_t ready = 0;  // 0: it is filled already
};

}  // namespace tenon::runtime
