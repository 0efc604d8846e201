#include "core/runtime/run/context.h"

namespace tenon::runtime {

Result<uint32_t> Streams::device_of(const Native& native, std::string_view what) const {
  std::vector<std::string> names;
  for (uint32_t d = 0; d < run_.devices.size(); ++d) {
    const Device& device = *run_.devices[d].device;
    if (device.name() == native.device) {
      TENON_RETURN_IF_ERROR(device.exchanges_queues());
      return d;
    }
    names.push_back(device.name());
  }
  return error(TENON_INVALID_ARGUMENT, "T0634",
               "a {} is for device {}, and the program works on {}", what, quoted(native.device),
               names.empty() ? "none" : join_names(names));
}

// Marks and signals name a buffer of the device, which is not touched.
template <class Submit>
Status Streams::with_buffer(uint32_t device, Submit submit) {
  TENON_ASSIGN_OR_RETURN(auto buffer, run_.memory.take(device, 0));
  Status status = submit(buffer->handle());
  run_.memory.pool(device).give_back(std::move(buffer));
  return status;
}

Status Streams::join(const Natives& natives) {
  // Nothing was submitted yet, so a fence that never comes leaves nothing in flight.
  for (const Native& native : natives.waits) {
    TENON_ASSIGN_OR_RETURN(auto fence, import(native, "fence to wait for", false));
    TENON_RETURN_IF_ERROR(fence.second->wait());
  }
  for (const Native& native : natives.signals) {
    TENON_ASSIGN_OR_RETURN(auto fence, import(native, "fence to signal", true));
    signals_.push_back(std::move(fence));
  }
  for (const Native& native : natives.streams) TENON_RETURN_IF_ERROR(join_stream(native));
  return {};
}

Result<Streams::DeviceFence> Streams::import(const Native& native, std::string_view what,
                                             bool to_signal) const {
  TENON_ASSIGN_OR_RETURN(const uint32_t d, device_of(native, what));
  TENON_ASSIGN_OR_RETURN(auto fence,
                         NativeFence::import(run_.devices[d].device, native.handle, to_signal));
  return DeviceFence(d, std::move(fence));
}

// Uses a queue on the stream in place of the run's own queue, until leave().
Status Streams::join_stream(const Native& native) {
  TENON_ASSIGN_OR_RETURN(const uint32_t d, device_of(native, "stream"));
  DeviceState& state = run_.devices[d];
  if (state.joined) return follow(d, native);
  TENON_ASSIGN_OR_RETURN(auto queue, Queue::import(state.device, native.handle));
  state.set_aside = std::exchange(state.queue, std::move(queue));
  state.joined = true;
  state.forget_reach();
  // A wait for this queue then includes what was in the stream.
  return with_buffer(d, [&](tenon_buffer_t* any) { return state.queue->mark(any); });
}

// The run's work on the device begins after what is in this stream, too. The device waits for it,
// and not the host.
Status Streams::follow(uint32_t device, const Native& native) {
  DeviceState& state = run_.devices[device];
  TENON_ASSIGN_OR_RETURN(auto queue, Queue::import(state.device, native.handle));
  Status status = with_buffer(device, [&](tenon_buffer_t* any) {
    TENON_RETURN_IF_ERROR(queue->mark(any));
    return state.queue->copy(copy_of_nothing(any), {queue->last()});
  });
  state.followed.push_back(std::move(queue));
  return status;
}

Status Streams::signal() {
  for (const auto& [d, fence] : signals_) {
    TENON_ASSIGN_OR_RETURN(Queue* const queue, run_.queues.of(d));
    const Queue* const copies = run_.devices[d].copies.get();
    TENON_RETURN_IF_ERROR(with_buffer(d, [&, point = fence->point()](tenon_buffer_t* any) {
      TENON_RETURN_IF_ERROR(
          queue->signal(any, point, copies == nullptr ? tenon_fence_point_t{} : copies->last()));
      return queue->mark(any);  // so that the run waits for the signal too
    }));
  }
  return {};
}

void Streams::leave() {
  signals_.clear();
  for (DeviceState& state : run_.devices) {
    if (!state.joined) continue;
    state.queue = std::move(state.set_aside);
    state.followed.clear();  // not before the queue whose work waited for their fences
    state.joined = false;
    state.forget_reach();
  }
}

}  // namespace tenon::runtime
