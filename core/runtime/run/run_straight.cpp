// Copies that do not keep a device's work waiting: straight from device to device, and large ones
// from and to the host on a queue of their own (ADR 0053).
#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/process/log.h"
#include "core/runtime/run/run_state.h"

namespace tenon::runtime {
namespace {

// To order two queues takes about as long as to copy so many bytes.
constexpr uint64_t kApartFewestBytes = 32768;

}  // namespace

// The device's only one where it has no second, or where a second gains nothing.
Result<Queue*> Runner::queue_for_copies(uint32_t device, uint64_t bytes) {
  DeviceState& state = devices_[device];
  if (bytes < kApartFewestBytes || state.one_queue) return state.queue.get();
  if (state.copies != nullptr) return state.copies.get();
  auto made = Queue::create(plan_->devices[device]);
  const tenon_code_t code = made.ok() ? TENON_OK : made.status().code();
  if (!made.ok() && code != TENON_DEVICE_LOST) {
    log_info("runtime", "copies of device {} go where its work goes: {}",
             plan_->devices[device]->name(), made.status().message());
    clear_failure();
    state.one_queue = true;
    return state.queue.get();
  }
  TENON_ASSIGN_OR_RETURN(state.copies, std::move(made));
  return state.copies.get();
}

// Whether `device` copies from `from` without the host. Asked once for each queue of its work.
Result<bool> Runner::reaches(uint32_t device, uint32_t from) {
  using Reach = DeviceState::Reach;
  const std::shared_ptr<Device>&to = plan_->devices[device], &source = plan_->devices[from];
  if (device == from || !to->has_queue() || !to->same_plugin(*source)) return false;
  DeviceState& state = devices_[device];
  if (state.reach[from] == Reach::kUnknown) {
    TENON_RETURN_IF_ERROR(queue_of(device));
    TENON_ASSIGN_OR_RETURN(const bool yes, state.queue->reaches(*source));
    state.reach[from] = yes ? Reach::kYes : Reach::kNo;
  }
  return state.reach[from] == Reach::kYes;
}

// Whether a value that `from` has made goes to the host right after the work that made it: it is
// wanted there, or goes to a device that cannot fetch it.
Result<bool> Runner::leaves_at_once(uint32_t slot, uint32_t from) {
  if (!leaves_[slot] || !stays_[slot]) return leaves_[slot];
  for (const uint32_t target : targets_[slot]) {
    TENON_ASSIGN_OR_RETURN(const bool straight, reaches(target, from));
    if (!straight && target != from) return true;
  }
  return false;
}

// False if no device has the value that this one reaches, or if the host has it ready.
Result<bool> Runner::copy_straight(uint32_t slot, uint32_t device, uint64_t bytes) {
  SlotState& value = slots_[slot];
  if (bytes == 0) return false;
  if (value.has_host && value.ready == 0 && value.tensor == nullptr) return false;
  for (uint32_t from = 0; from < devices_.size(); ++from) {
    const Place& place = value.places[from];
    if (place.buffer == nullptr || (place.buffer->imported() && value.has_host)) continue;
    // What is still being uploaded there is on the host, and no work of that device makes it.
    const Queue* const uploads = devices_[from].copies.get();
    if (uploads != nullptr && value.has_host && place.made.fence == uploads->fence()) continue;
    TENON_ASSIGN_OR_RETURN(const bool straight, reaches(device, from));
    if (!straight) continue;
    value.places[from].lent = true;
    // A tensor that came with a stream may still be written there.
    const bool pending = place.made.fence == nullptr && devices_[from].joined;
    const tenon_fence_point_t made = pending ? devices_[from].queue->last() : place.made;
    TENON_RETURN_IF_ERROR(submit_straight(slot, *place.buffer, device, bytes, made));
    if (made.fence != nullptr && made.fence == devices_[from].queue->fence())
      devices_[device].depends(devices_[from], made.value);
    return true;
  }
  return copy_from_beside(slot, device, bytes);
}

// A tensor on a device that the program does not use. It is complete, and lives through the run.
Result<bool> Runner::copy_from_beside(uint32_t slot, uint32_t device, uint64_t bytes) {
  const Tensor* const tensor = slots_[slot].tensor;
  Buffer* const from = tensor == nullptr ? nullptr : tensor->in_reach_of(*plan_->devices[device]);
  if (from == nullptr) return false;
  TENON_RETURN_IF_ERROR(queue_of(device));
  TENON_ASSIGN_OR_RETURN(const bool straight, devices_[device].queue->reaches(from->device()));
  if (!straight) return false;
  TENON_RETURN_IF_ERROR(submit_straight(slot, *from, device, bytes, {}));
  return true;
}

// On the queue of the device that gets the value, after the work that made it. The memory that it
// reads stays as it is until the run ends.
Status Runner::submit_straight(uint32_t slot, const Buffer& from, uint32_t to, uint64_t bytes,
                               tenon_fence_point_t made) {
  TENON_RETURN_IF_ERROR(queue_of(to));  // it may have asked in an earlier run, on another queue
  TENON_ASSIGN_OR_RETURN(auto buffer, take_buffer(to, bytes));
  Place& here = slots_[slot].places[to];
  here = {buffer, true};
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_DEVICE_TO_DEVICE;
  copy.from = from.handle();
  copy.from_device = from.device().handle();
  copy.to = buffer->handle();
  copy.length_bytes = bytes;
  Queue& queue = *devices_[to].queue;
  here.lent = slots_[slot].tensor != nullptr;  // which keeps the copy
  queue.set_reads_others();
  TENON_RETURN_IF_ERROR(queue.copy(copy, {made}));
  here.after = here.made = queue.last();  // if the copy fails, what reads the value must not run
  statistics_.direct_bytes += bytes;
  return {};
}

}  // namespace tenon::runtime
