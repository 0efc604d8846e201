// Waiting for devices, finding out which one failed, and deciding when to give one up.
#include "core/base/errors/failure.h"
#include "core/base/limits.h"
#include "core/base/process/operation.h"
#include "core/runtime/run/run_state.h"

namespace tenon::runtime {

// A cancelled operation still waits, since buffers are in use, and then reports the cancellation.
Status Runner::wait_for(uint32_t device, Queue& queue, uint64_t value) {
  if (queue.reached(value)) return {};
  uint64_t seen = progress(), since = now_ns();
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const bool reached, queue.poll(value));
    (void)cancelled();  // lets the operation ask its owner
    if (reached) return check_cancelled();
    if (plan_->devices[device]->abandoned())
      return given_up_.ok() ? plan_->devices[device]->alive() : given_up_;
    if (const uint64_t now = progress(); now != seen) {
      seen = now;
      since = now_ns();
    } else if ((now_ns() - since) / 1'000'000'000 >= limit(Limit::kDeviceWaitSeconds)) {
      if (!release_abandoned()) give_up_one(device);
      since = now_ns();
    }
  }
}

// For both queues, also if the first one reports an error, such as a cancellation: the second may
// still copy.
Status Runner::wait(uint32_t device) {
  Status first;
  for (Queue* queue : {devices_[device].queue.get(), devices_[device].copies.get()}) {
    if (queue == nullptr) continue;
    Status status = wait_for(device, *queue, queue->submitted());
    if (first.ok()) first = std::move(status);
  }
  return first;
}

uint64_t Runner::progress() const {
  uint64_t sum = 0;
  for (const DeviceState& device : devices_) {
    if (device.queue != nullptr) sum += device.queue->progress();
    if (device.copies != nullptr) sum += device.copies->progress();
  }
  return sum;
}

// No device makes progress: gives up the first one with work left that waits for no other.
void Runner::give_up_one(uint32_t waited_for) {
  uint32_t culprit = waited_for;
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    const DeviceState& state = devices_[d];
    if (state.queue == nullptr || plan_->devices[d]->abandoned()) continue;
    if (!state.has_work() || state.waits()) continue;
    culprit = d;
    break;
  }
  Device& device = *plan_->devices[culprit];
  device.abandon();
  release_readers(culprit);
  given_up_ = error(TENON_DEVICE_LOST, "T0618",
                    "device {} finished none of its work for {} s; it is given up, and what it "
                    "holds is not freed",
                    quoted(device.name()), limit(Limit::kDeviceWaitSeconds))
                  .with("device", device.name());
}

// Of devices that another run gave up. False if this run released all of those before.
bool Runner::release_abandoned() {
  bool any = false;
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    if (devices_[d].released || !plan_->devices[d]->abandoned()) continue;
    release_readers(d);
    any = true;
  }
  return any;
}

// Devices that read its memory wait for its fence, which the host now signals. They find there what
// it left.
void Runner::release_readers(uint32_t given_up) {
  DeviceState& source = devices_[given_up];
  source.released = true;
  bool any = false;
  for (DeviceState& device : devices_) {
    if (!device.reads(source)) continue;
    device.tainted->store(true, std::memory_order_release);
    any = true;
  }
  if (!any) return;
  const tenon_queue_api_t* api = plan_->devices[given_up]->apis().queue;
  (void)api->fence_signal(api->self, source.queue->fence(), source.queue->submitted());
  clear_failure();
}

// The first failure of a device. If there is none, what only a relay saw; then failures of devices
// that worked on what others did not make. Leaves nothing in the relays.
Status Runner::wait_all() {
  std::vector<Status> failures(devices_.size());
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    Status status = wait(d);
    if (!status.ok())
      failures[d] = std::move(status).with_context(kernel_context(*plan_->devices[d]));
  }
  Status first = given_up_, relayed, tainted;
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    if (failures[d].ok()) continue;
    const bool excused =
        devices_[d].tainted->load(std::memory_order_acquire) || devices_[d].failed_by_others();
    Status& kept = excused ? tainted : first;
    if (kept.ok()) kept = std::move(failures[d]);
  }
  // Every queue has ended, failed or was given up, so no relay waits for long.
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    if (devices_[d].relay == nullptr) continue;
    devices_[d].relay->drain();
    Status status = devices_[d].relay->take_failure();
    if (relayed.ok() && !status.ok())
      relayed = std::move(status).with_context(kernel_context(*plan_->devices[d]));
  }
  if (!first.ok()) return first;
  return relayed.ok() ? tainted : relayed;
}

// Waits, also for what follows failed work. A device that was abandoned keeps its queue. Fences go
// when no queue is left whose work may wait for them.
void Runner::end_queues() {
  for (DeviceState& device : devices_) {
    if (device.relay != nullptr) device.relay->drain();
  }
  for (DeviceState& device : devices_) {
    for (Queue* queue : {device.queue.get(), device.copies.get()}) {
      if (queue != nullptr) queue->end();
    }
  }
  for (DeviceState& device : devices_) {
    device.queue.reset();
    device.forget_reach();
    device.copies.reset();
    for (auto& fence : device.from) fence.reset();
  }
}

}  // namespace tenon::runtime
