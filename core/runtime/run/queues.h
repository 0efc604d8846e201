// The queues of a run's devices, and the streams of other libraries that it joins.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "core/runtime/device/native.h"
#include "core/runtime/run/run_state.h"

namespace tenon::runtime {

struct RunContext;

// Makes the queues of the devices when they are needed, waits for their work, finds out which
// device failed, and gives up one that finishes nothing.
class Queues {
 public:
  explicit Queues(RunState& run) : run_(run) {}
  void begin_run();

  // The queue of the device's work.
  Result<Queue*> of(uint32_t device);
  // The queue for a copy of so many bytes that need not be in the order of the device's work.
  Result<Queue*> for_copies(uint32_t device, uint64_t bytes);
  // Whether `device` copies from `from` without the host. Asked once for each queue of its work.
  Result<bool> reaches(uint32_t device, uint32_t from);

  // Waits for all work of the device so far. A cancelled operation still waits, since buffers are
  // in use, and then reports the cancellation.
  Status wait(uint32_t device);
  // The same, until the value is in host memory.
  Status wait_for_host(uint32_t slot);
  // Waits for all devices. The first failure of a device; if there is none, what only a relay saw;
  // then failures of devices that worked on what others did not make. Leaves nothing in the relays.
  Status wait_all();
  // Waits, also for what follows failed work, and ends all queues. A device that was abandoned
  // keeps its queue.
  void end();

 private:
  Status wait_for(uint32_t device, Queue& queue, uint64_t value);
  uint64_t progress() const;
  void give_up_one(uint32_t waited_for);
  bool release_abandoned();
  void release_readers(uint32_t given_up);
  Status drain_relays();

  RunState& run_;
  Status given_up_;  // of this run: why a device was abandoned
};

// Lets a run take part in the order of other libraries' work: a device's work goes to their stream
// in place of its own queue, and the run waits for their fences and signals them (ADR 0040).
class Streams {
 public:
  explicit Streams(RunContext& run) : run_(run) {}
  // Before anything is submitted.
  Status join(const Natives& natives);
  // After all work of each device, and before the run waits for it.
  Status signal();
  // All work has ended, or its device was given up.
  void leave();

 private:
  using DeviceFence = std::pair<uint32_t, std::unique_ptr<NativeFence>>;
  Result<uint32_t> device_of(const Native& native, std::string_view what) const;
  Result<DeviceFence> import(const Native& native, std::string_view what, bool to_signal) const;
  template <class Submit>
  Status with_buffer(uint32_t device, Submit submit);
  Status join_stream(const Native& native);
  Status follow(uint32_t device, const Native& native);

  RunContext& run_;
  std::vector<DeviceFence> signals_;
};

}  // namespace tenon::runtime
