#include "core/runtime/run/copies.h"

#include <cstring>

#include <tenon/abi/copy.h>
#include <tenon/cpp/record.hpp>

namespace tenon::runtime {
namespace {

// ---- Between devices of one plugin, without the host ----
//
// The device that gets the value copies it on its own queue, after the work that made it.

// The memory that it reads stays as it is until the run ends.
Status submit_straight(RunContext& run, uint32_t slot, const Buffer& from, uint32_t to,
                       uint64_t bytes, tenon_fence_point_t made) {
  // That it reaches the memory may be known of an earlier queue.
  TENON_ASSIGN_OR_RETURN(Queue* const queue, run.queues.of(to));
  TENON_ASSIGN_OR_RETURN(auto buffer, run.memory.take(to, bytes));
  SlotPlace& here = run.place(slot, to);
  here = {buffer, true};
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_DEVICE_TO_DEVICE;
  copy.from = from.handle();
  copy.from_device = from.device().handle();
  copy.to = buffer->handle();
  copy.length_bytes = bytes;
  here.lent = run.slots[slot].tensor != nullptr;  // which keeps the copy
  queue->set_reads_others();
  TENON_RETURN_IF_ERROR(queue->copy(copy, {made}));
  here.after = here.made = queue->last();  // if the copy fails, what reads the value must not run
  run.statistics.direct_bytes += bytes;
  return {};
}

// False if that device does not have the value, or not within reach.
Result<bool> copy_from(RunContext& run, uint32_t slot, uint32_t from, uint32_t to, uint64_t bytes) {
  const SlotState& value = run.slots[slot];
  const DeviceState& source = run.devices[from];
  SlotPlace& place = run.place(slot, from);
  if (place.buffer == nullptr || (place.buffer->imported() && value.has_host)) return false;
  // What is still being uploaded there is on the host, and no work of that device makes it.
  if (source.copies != nullptr && value.has_host && place.made.fence == source.copies->fence())
    return false;
  TENON_ASSIGN_OR_RETURN(const bool straight, run.queues.reaches(to, from));
  if (!straight) return false;
  place.lent = true;
  // A tensor that came with a stream may still be written there.
  const bool pending = place.made.fence == nullptr && source.joined;
  const tenon_fence_point_t made = pending ? source.queue->last() : place.made;
  TENON_RETURN_IF_ERROR(submit_straight(run, slot, *place.buffer, to, bytes, made));
  if (made.fence != nullptr && made.fence == source.queue->fence())
    run.devices[to].depends(source, made.value);
  return true;
}

// A tensor on a device that the program does not use. It is complete, and lives through the run.
Result<bool> copy_from_outside(RunContext& run, uint32_t slot, uint32_t to, uint64_t bytes) {
  const Tensor* const tensor = run.slots[slot].tensor;
  Buffer* const from = tensor == nullptr ? nullptr : tensor->in_reach_of(*run.devices[to].device);
  if (from == nullptr) return false;
  TENON_ASSIGN_OR_RETURN(Queue* const queue, run.queues.of(to));
  TENON_ASSIGN_OR_RETURN(const bool straight, queue->reaches(from->device()));
  if (!straight) return false;
  TENON_RETURN_IF_ERROR(submit_straight(run, slot, *from, to, bytes, {}));
  return true;
}

// False if no device has the value that this one reaches, or if the host has it ready.
Result<bool> copy_straight(RunContext& run, uint32_t slot, uint32_t device, uint64_t bytes) {
  const SlotState& value = run.slots[slot];
  if (bytes == 0) return false;
  if (value.has_host && value.ready == 0 && value.tensor == nullptr) return false;
  for (uint32_t from = 0; from < run.devices.size(); ++from) {
    TENON_ASSIGN_OR_RETURN(const bool came, copy_from(run, slot, from, device, bytes));
    if (came) return true;
  }
  return copy_from_outside(run, slot, device, bytes);
}

// ---- Through the host ----

tenon_copy_t upload_of(tenon_buffer_t* to, const void* data, uint64_t bytes) {
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_HOST_TO_DEVICE;
  copy.to = to;
  copy.length_bytes = bytes;
  copy.host_from = data;
  return copy;
}

// Larger uploads are rare, mostly of weights, and would keep as much pinned memory.
constexpr uint64_t kStagedMostBytes = uint64_t{4} << 20;

// The bytes in pinned memory, from which the device copies without the host's help; where they are,
// if there is too little such memory.
const void* staged(RunContext& run, Device& device, const void* data, uint64_t bytes) {
  if (bytes > kStagedMostBytes) return data;
  std::shared_ptr<std::byte> memory = device.pinned().take(bytes);
  if (memory == nullptr) return data;
  std::memcpy(memory.get(), data, bytes);
  return run.kept.emplace_back(std::move(memory)).get();
}

// reused: work of this run had the memory, which is free only after that work.
Status submit_upload(RunContext& run, uint32_t slot, uint32_t device_index, uint64_t bytes,
                     tenon_fence_point_t after, bool reused) {
  DeviceState& state = run.devices[device_index];
  SlotPlace& place = run.place(slot, device_index);
  tenon_buffer_t* const to = place.buffer->handle();
  const void* data = run.slots[slot].host;
  const bool there = after.fence == nullptr;
  TENON_ASSIGN_OR_RETURN(Queue* const work, run.queues.of(device_index));
  Queue* queue = work;
  if (there) {
    TENON_ASSIGN_OR_RETURN(queue, run.queues.for_copies(device_index, bytes));
  }
  const bool apart = queue != work;
  const tenon_fence_point_t until = apart && reused ? work->last() : after;
  bool filled = false;
  auto copy = sized<tenon_copy_t>();
  if (there && state.device->fills() && tenon_copy_make_fill(&copy, to, data, bytes)) {
    TENON_ASSIGN_OR_RETURN(filled, queue->fill(copy, {until}));
  }
  if (!filled) {
    if (there) data = staged(run, *state.device, data, bytes);
    TENON_RETURN_IF_ERROR(queue->copy(upload_of(to, data, bytes), {until}));
  }
  (filled ? run.statistics.filled_bytes : run.statistics.transferred_bytes) += bytes;
  if (apart) place.after = queue->last();
  place.made = queue->last();
  state.depends(after);
  return {};
}

// Into memory of the device. after: when the host's memory is filled; null: it is.
Status upload(RunContext& run, uint32_t slot, uint32_t device_index, uint64_t bytes,
              tenon_fence_point_t after) {
  Device& device = *run.devices[device_index].device;
  const void* const data = run.slots[slot].host;
  bool reused = false;
  TENON_ASSIGN_OR_RETURN(auto buffer, run.memory.take(device_index, bytes, &reused));
  run.place(slot, device_index) = {buffer, true};
  if (bytes == 0) return {};
  if (device.has_queue()) return submit_upload(run, slot, device_index, bytes, after, reused);
  if (buffer->host() != nullptr) {
    std::memcpy(buffer->host(), data, bytes);
    return {};
  }
  TENON_ASSIGN_OR_RETURN(const bool filled, device.fill(buffer->handle(), data, bytes));
  (filled ? run.statistics.filled_bytes : run.statistics.transferred_bytes) += bytes;
  return filled ? Status() : device.copy(upload_of(buffer->handle(), data, bytes));
}

// The point at which `device` may read the slot's host memory; the null point if it may at once.
Result<tenon_fence_point_t> relay_to(RunContext& run, uint32_t slot, uint32_t device) {
  const SlotState& value = run.slots[slot];
  if (value.ready == 0 || value.source == device) return tenon_fence_point_t{};
  DeviceState &source = run.devices[value.source], &target = run.devices[device];
  std::unique_ptr<RelayFence>& fence = target.from[value.source];
  if (fence == nullptr) {
    TENON_ASSIGN_OR_RETURN(fence, RelayFence::create(target.device));
  }
  if (source.relay == nullptr) source.relay = std::make_unique<Relay>(source.device);
  const uint64_t arrived = fence->next();
  source.relay->add({source.queue->fence(), value.ready, fence.get(), arrived, source.tainted.get(),
                     target.tainted.get()});
  return tenon_fence_point_t{fence->fence(), arrived};
}

// Memory for a copy from a device to the host, pinned if there is such memory.
Result<std::shared_ptr<std::byte>> take_landing(RunContext& run, uint32_t slot, uint32_t from,
                                                uint64_t bytes) {
  Device& device = *run.devices[from].device;
  // If the copy fails, devices that wait for it carry on with what it left: zeros, never the
  // previous contents of the memory.
  const bool queued = device.has_queue(), zeroed = queued && run.slots[slot].relayed;
  if (queued && bytes != 0) {
    if (std::shared_ptr<std::byte> memory = device.pinned().take(bytes)) {
      if (zeroed) std::memset(memory.get(), 0, bytes);
      return memory;
    }
  }
  return run.memory.take_host(bytes, zeroed);
}

Status submit_download(RunContext& run, uint32_t slot, uint32_t from, const tenon_copy_t& copy) {
  SlotState& value = run.slots[slot];
  TENON_ASSIGN_OR_RETURN(Queue* const work, run.queues.of(from));
  Queue* queue = work;
  // The memory of an output stays until the run ends, so another queue may read it.
  if (run.plan.slots[slot].last_step == UINT32_MAX && !value.relayed) {
    TENON_ASSIGN_OR_RETURN(queue, run.queues.for_copies(from, copy.length_bytes));
  }
  // After the device's work so far, not merely in its order: if that work fails, nothing is copied.
  TENON_RETURN_IF_ERROR(queue->copy(copy, {work->last(), value.places[from].after}));
  value.source = from;
  value.ready = queue->submitted();
  value.apart = queue != work;
  return {};
}

Status download(RunContext& run, uint32_t slot, uint32_t from, uint64_t bytes) {
  SlotState& value = run.slots[slot];
  Device& device = *run.devices[from].device;
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, take_landing(run, slot, from, bytes));
  value.host = memory.get();
  value.host_owner = std::move(memory);  // kept until the queue is done, even if a wait fails
  if (bytes != 0) {
    auto copy = sized<tenon_copy_t>();
    copy.direction = TENON_COPY_DEVICE_TO_HOST;
    copy.from = value.places[from].buffer->handle();
    copy.length_bytes = bytes;
    copy.host_to = value.host_owner.get();
    run.statistics.transferred_bytes += bytes;
    TENON_RETURN_IF_ERROR(device.has_queue() ? submit_download(run, slot, from, copy)
                                             : device.copy(copy));
  }
  value.has_host = true;
  return {};
}

}  // namespace

Status copy_to_device(RunContext& run, uint32_t slot, uint32_t device_index) {
  SlotState& value = run.slots[slot];
  SlotPlace& place = run.place(slot, device_index);
  if (place.buffer != nullptr) return {};  // a tensor that is there
  TENON_ASSIGN_OR_RETURN(const uint64_t bytes, run.sizes.bytes_of(slot));
  TENON_ASSIGN_OR_RETURN(const bool came, copy_straight(run, slot, device_index, bytes));
  if (came) return {};
  TENON_RETURN_IF_ERROR(copy_to_host(run, slot));
  const std::shared_ptr<Device>& device = run.devices[device_index].device;
  tenon_fence_point_t after{};
  if (device->has_queue()) {
    value.held = true;  // queued work reads it later
    TENON_ASSIGN_OR_RETURN(after, relay_to(run, slot, device_index));
  } else {
    TENON_RETURN_IF_ERROR(run.queues.wait_for_host(slot));
  }
  TENON_ASSIGN_OR_RETURN(Buffer imported, Buffer::import(device, value.host, bytes));
  if (!imported) return upload(run, slot, device_index, bytes, after);
  place = {std::make_shared<Buffer>(std::move(imported)), false, after};
  return {};
}

Status copy_to_host(RunContext& run, uint32_t slot) {
  SlotState& value = run.slots[slot];
  if (value.has_host) return {};
  const auto there = std::ranges::find_if(
      value.places, [](const SlotPlace& place) { return place.buffer != nullptr; });
  if (there == value.places.end() && value.tensor != nullptr) {
    TENON_ASSIGN_OR_RETURN(value.host, value.tensor->fetch());
    value.has_host = true;
    return {};
  }
  TENON_CHECK(there != value.places.end(), "slot {} is nowhere", slot);
  const auto from = static_cast<uint32_t>(there - value.places.begin());
  if (there->buffer->host() == nullptr) {
    TENON_ASSIGN_OR_RETURN(const uint64_t bytes, run.sizes.bytes_of(slot));
    return download(run, slot, from, bytes);
  }
  value.host = there->buffer->host();
  value.has_host = true;
  if (const Queue* const queue = run.devices[from].queue.get(); queue != nullptr) {
    value.held = true;
    value.source = from;
    value.ready = queue->submitted();
  }
  return {};
}

Status copy_to_host_at_once(RunContext& run, uint32_t slot, uint32_t from) {
  const SlotState& value = run.slots[slot];
  bool leaves = !value.stays;
  for (const uint32_t target : value.targets) {
    if (leaves) break;
    TENON_ASSIGN_OR_RETURN(const bool straight, run.queues.reaches(target, from));
    leaves = !straight && target != from;
  }
  return leaves ? copy_to_host(run, slot) : Status();
}

}  // namespace tenon::runtime
