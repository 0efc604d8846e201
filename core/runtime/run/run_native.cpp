// How a run joins the order of other libraries' work: their streams, waits and signals.
#include "core/runtime/run/run_state.h"

namespace tenon::runtime {

Result<uint32_t> Runner::device_of(const Native& native, std::string_view what) const {
  for (uint32_t d = 0; d < plan_->devices.size(); ++d) {
    if (plan_->devices[d]->name() == native.device) {
      TENON_RETURN_IF_ERROR(plan_->devices[d]->exchanges_queues());
      return d;
    }
  }
  std::vector<std::string> names;
  for (const auto& device : plan_->devices) names.push_back(device->name());
  return error(TENON_INVALID_ARGUMENT, "T0634",
               "a {} is for device {}, and the program works on {}", what, quoted(native.device),
               names.empty() ? "none" : join_names(names));
}

// Nothing of the run was submitted yet, so a fence that never comes leaves nothing in flight.
Status Runner::await_natives(std::span<const Native> waits) {
  for (const Native& native : waits) {
    TENON_ASSIGN_OR_RETURN(const uint32_t d, device_of(native, "fence to wait for"));
    TENON_ASSIGN_OR_RETURN(auto fence,
                           NativeFence::import(plan_->devices[d], native.handle, false));
    TENON_RETURN_IF_ERROR(fence->wait());
  }
  return {};
}

// Uses a queue on the stream in place of the run's own queue, until leave_streams().
Status Runner::join_stream(const Native& native) {
  TENON_ASSIGN_OR_RETURN(const uint32_t d, device_of(native, "stream"));
  DeviceState& state = devices_[d];
  if (state.joined) return follow_stream(d, native);
  TENON_ASSIGN_OR_RETURN(auto queue, Queue::import(plan_->devices[d], native.handle));
  state.set_aside = std::exchange(state.queue, std::move(queue));
  state.joined = true;
  state.forget_reach();
  // A wait for this queue then includes what was in the stream.
  return mark(d);
}

// The run's work on the device begins after what is in this stream, too. The device waits for it,
// and not the host.
Status Runner::follow_stream(uint32_t device, const Native& native) {
  DeviceState& state = devices_[device];
  TENON_ASSIGN_OR_RETURN(auto queue, Queue::import(plan_->devices[device], native.handle));
  TENON_ASSIGN_OR_RETURN(auto buffer, take_buffer(device, 0));
  Status status = queue->mark(buffer->handle());
  if (status.ok()) status = state.queue->copy(copy_of_nothing(buffer->handle()), {queue->last()});
  state.pool.give_back(std::move(buffer));
  state.followed.push_back(std::move(queue));
  return status;
}

Status Runner::mark(uint32_t device) {
  TENON_ASSIGN_OR_RETURN(auto buffer, take_buffer(device, 0));
  Status status = devices_[device].queue->mark(buffer->handle());
  devices_[device].pool.give_back(std::move(buffer));
  return status;
}

Status Runner::join(const Natives& natives) {
  TENON_RETURN_IF_ERROR(await_natives(natives.waits));
  for (const Native& native : natives.signals) {
    TENON_ASSIGN_OR_RETURN(const uint32_t d, device_of(native, "fence to signal"));
    TENON_ASSIGN_OR_RETURN(auto fence, NativeFence::import(plan_->devices[d], native.handle, true));
    signals_.push_back({d, std::move(fence)});
  }
  for (const Native& native : natives.streams) TENON_RETURN_IF_ERROR(join_stream(native));
  return {};
}

// After all work of each device, and before the run waits for it.
Status Runner::signal_natives() {
  for (const auto& [d, fence] : signals_) {
    TENON_RETURN_IF_ERROR(queue_of(d));
    TENON_ASSIGN_OR_RETURN(auto buffer, take_buffer(d, 0));
    Queue& queue = *devices_[d].queue;
    const Queue* const copies = devices_[d].copies.get();
    Status status = queue.signal(buffer->handle(), fence->point(),
                                 copies == nullptr ? tenon_fence_point_t{} : copies->last());
    // So that the run waits for the signal too.
    if (status.ok()) status = queue.mark(buffer->handle());
    devices_[d].pool.give_back(std::move(buffer));
    TENON_RETURN_IF_ERROR(std::move(status));
  }
  return {};
}

// All work has ended, or its device was given up.
void Runner::leave_streams() {
  signals_.clear();
  for (DeviceState& state : devices_) {
    if (!state.joined) continue;
    state.queue = std::move(state.set_aside);
    state.followed.clear();  // not before the queue whose work waited for their fences
    state.joined = false;
    state.forget_reach();
  }
}

}  // namespace tenon::runtime
