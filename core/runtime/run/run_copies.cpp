// How values go from one place to another: see README.md and ADR 0022.
#include <cstring>

#include "core/base/checked.h"

#include <tenon/abi/copy.h>
#include <tenon/cpp/record.hpp>
#include "core/base/process/log.h"
#include "core/ir/dtype.h"
#include "core/runtime/run/run_state.h"

namespace tenon::runtime {

using ir::dtype_bits;

namespace {
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
}  // namespace

Status Runner::bytes_of(uint32_t slot, uint64_t* out) const {
  if (slot_bytes_[slot] == kUnknownBytes) {
    std::vector<int64_t>& dims = scratch_.dims;
    TENON_RETURN_IF_ERROR(plan_->shapes.evaluate(plan_->slots[slot].dims, symbols_, &dims));
    TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count(dims));
    TENON_ASSIGN_OR_RETURN(slot_bytes_[slot],
                           packed_bytes(count, dtype_bits(plan_->slots[slot].dtype)));
  }
  *out = slot_bytes_[slot];
  return {};
}

// ---- A run ----

Status Runner::copy_to_device(uint32_t slot, uint32_t device_index) {
  SlotState& slot_state = slots_[slot];
  if (slot_state.places[device_index].buffer != nullptr) return {};  // a tensor that is there
  const std::shared_ptr<Device>& device = plan_->devices[device_index];
  uint64_t bytes = 0;
  TENON_RETURN_IF_ERROR(bytes_of(slot, &bytes));
  TENON_ASSIGN_OR_RETURN(const bool came, copy_straight(slot, device_index, bytes));
  if (came) return {};
  TENON_RETURN_IF_ERROR(copy_to_host(slot));
  tenon_fence_point_t after{};
  if (device->has_queue()) {
    slot_state.held = slot_state.stable_host = true;  // queued work reads it later
    TENON_RETURN_IF_ERROR(relay_to(slot, device_index, &after));
  } else {
    TENON_RETURN_IF_ERROR(await_host(slot));
  }
  TENON_ASSIGN_OR_RETURN(Buffer imported, Buffer::import(device, slot_state.host, bytes));
  if (imported) {
    slot_state.places[device_index] = {std::make_shared<Buffer>(std::move(imported)), false, after};
    return {};
  }
  return upload(slot, device_index, bytes, after);
}

// Into memory of the device. after: when the host's memory is filled; null: it is.
Status Runner::upload(uint32_t slot, uint32_t device_index, uint64_t bytes,
                      tenon_fence_point_t after) {
  DeviceState& state = devices_[device_index];
  const std::shared_ptr<Device>& device = plan_->devices[device_index];
  const void* const data = slots_[slot].host;
  bool used = false;
  TENON_ASSIGN_OR_RETURN(auto buffer, take_buffer(device_index, bytes, &used));
  Place& place = slots_[slot].places[device_index];
  place = {buffer, true};
  if (bytes == 0) return {};
  if (buffer->host() != nullptr && !device->has_queue()) {
    std::memcpy(buffer->host(), data, bytes);
    return {};
  }
  if (!device->has_queue()) {
    TENON_ASSIGN_OR_RETURN(const bool filled, device->fill(buffer->handle(), data, bytes));
    (filled ? statistics_.filled_bytes : statistics_.transferred_bytes) += bytes;
    return filled ? Status() : device->copy(upload_of(buffer->handle(), data, bytes));
  }
  TENON_RETURN_IF_ERROR(queue_of(device_index));
  Queue* queue = state.queue.get();
  const bool there = after.fence == nullptr;
  if (there) {
    TENON_ASSIGN_OR_RETURN(queue, queue_for_copies(device_index, bytes));
  }
  const bool apart = queue != state.queue.get();
  // Memory that work of this run had is free only after that work.
  const tenon_fence_point_t until = apart && used ? state.queue->last() : after;
  bool filled = false;
  auto copy = sized<tenon_copy_t>();
  if (there && device->fills() && tenon_copy_make_fill(&copy, buffer->handle(), data, bytes)) {
    TENON_ASSIGN_OR_RETURN(filled, queue->fill(copy, {until}));
  }
  if (!filled) {
    const void* const from = there ? staged(device_index, data, bytes) : data;
    TENON_RETURN_IF_ERROR(queue->copy(upload_of(buffer->handle(), from, bytes), {until}));
  }
  (filled ? statistics_.filled_bytes : statistics_.transferred_bytes) += bytes;
  if (apart) place.after = queue->last();
  place.made = queue->last();
  state.depends(after);
  return {};
}

// The bytes in pinned memory, from which the device copies without the host's help; where they are,
// if there is too little such memory.
const void* Runner::staged(uint32_t device_index, const void* data, uint64_t bytes) {
  if (bytes > kStagedMostBytes) return data;
  std::shared_ptr<std::byte> memory = plan_->devices[device_index]->pinned().take(bytes);
  if (memory == nullptr) return data;
  std::memcpy(memory.get(), data, bytes);
  return staged_.emplace_back(std::move(memory)).get();
}

// Sets *out to the point at which `device` may read the slot's host memory; the null point if it
// may at once.
Status Runner::relay_to(uint32_t slot, uint32_t device, tenon_fence_point_t* out) {
  SlotState& state = slots_[slot];
  *out = {};
  if (state.ready == 0 || state.source == device) return {};
  DeviceState& source = devices_[state.source];
  std::unique_ptr<RelayFence>& fence = devices_[device].from[state.source];
  if (fence == nullptr) {
    TENON_ASSIGN_OR_RETURN(fence, RelayFence::create(plan_->devices[device]));
  }
  if (source.relay == nullptr) source.relay = std::make_unique<Relay>(plan_->devices[state.source]);
  const uint64_t value = fence->next();
  source.relay->add({source.queue->fence(), state.ready, fence.get(), value, source.tainted.get(),
                     devices_[device].tainted.get()});
  *out = {fence->fence(), value};
  return {};
}

// Afterwards SlotState::host is where the value is, or will be once await_host() has returned.
Status Runner::copy_to_host(uint32_t slot) {
  SlotState& slot_state = slots_[slot];
  if (slot_state.has_host) return {};
  uint32_t from = 0;
  while (from < slot_state.places.size() && slot_state.places[from].buffer == nullptr) ++from;
  if (from == slot_state.places.size() && slot_state.tensor != nullptr) {
    TENON_ASSIGN_OR_RETURN(slot_state.host, slot_state.tensor->fetch());
    slot_state.has_host = slot_state.stable_host = true;
    return {};
  }
  TENON_CHECK(from < slot_state.places.size(), "slot {} is nowhere", slot);
  Buffer& buffer = *slot_state.places[from].buffer;
  if (buffer.host() != nullptr) {
    slot_state.host = buffer.host();
    slot_state.has_host = true;
    if (devices_[from].queue != nullptr) {
      slot_state.held = true;
      slot_state.source = from;
      slot_state.ready = devices_[from].queue->submitted();
    }
    return {};
  }
  uint64_t bytes = 0;
  TENON_RETURN_IF_ERROR(bytes_of(slot, &bytes));
  return submit_copy_to_host(slot, from, bytes);
}

Result<std::shared_ptr<std::byte>> Runner::take_landing(uint32_t slot, uint32_t from,
                                                        uint64_t size_bytes) {
  // If the copy fails, devices that wait for it carry on with what it left: zeros, never the
  // previous contents of the memory.
  const bool queued = plan_->devices[from]->has_queue(), zeroed = queued && relayed_[slot];
  if (queued && size_bytes != 0) {
    if (std::shared_ptr<std::byte> memory = plan_->devices[from]->pinned().take(size_bytes)) {
      if (zeroed) std::memset(memory.get(), 0, size_bytes);
      return memory;
    }
  }
  return take_host(size_bytes, zeroed);
}

Status Runner::submit_copy_to_host(uint32_t slot, uint32_t from, uint64_t bytes) {
  SlotState& slot_state = slots_[slot];
  const std::shared_ptr<Device>& device = plan_->devices[from];
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, take_landing(slot, from, bytes));
  slot_state.host = memory.get();
  slot_state.host_owner = memory;  // kept until the queue is done, even if a wait fails
  if (bytes != 0) {
    auto copy = sized<tenon_copy_t>();
    copy.direction = TENON_COPY_DEVICE_TO_HOST;
    copy.from = slot_state.places[from].buffer->handle();
    copy.length_bytes = bytes;
    copy.host_to = memory.get();
    statistics_.transferred_bytes += bytes;
    if (device->has_queue()) {
      TENON_RETURN_IF_ERROR(queue_of(from));
      Queue* queue = devices_[from].queue.get();
      // The memory of an output stays until the run ends, so another queue may read it.
      if (plan_->slots[slot].last_step == UINT32_MAX && !relayed_[slot]) {
        TENON_ASSIGN_OR_RETURN(queue, queue_for_copies(from, bytes));
      }
      // After the device's work so far, not merely in its order: if that work fails, nothing is
      // copied.
      TENON_RETURN_IF_ERROR(
          queue->copy(copy, {devices_[from].queue->last(), slot_state.places[from].after}));
      slot_state.source = from;
      slot_state.ready = queue->submitted();
      slot_state.apart = queue != devices_[from].queue.get();
    } else {
      TENON_RETURN_IF_ERROR(device->copy(copy));
    }
  }
  slot_state.has_host = slot_state.stable_host = true;
  return {};
}

Status Runner::await_host(uint32_t slot) {
  SlotState& state = slots_[slot];
  if (state.ready == 0) return {};
  const DeviceState& source = devices_[state.source];
  Queue& queue = state.apart ? *source.copies : *source.queue;
  TENON_RETURN_IF_ERROR(wait_for(state.source, queue, state.ready));
  state.ready = 0;
  return {};
}

// An output that is an input: the caller may bind another array and still keep the output until the
// next run.
Status Runner::own_host(uint32_t slot) {
  SlotState& state = slots_[slot];
  if (plan_->slots[slot].source != Slot::Source::kInput) return {};
  if (state.host_owner != nullptr || state.donated) return {};  // the run's
  uint64_t bytes = 0;
  TENON_RETURN_IF_ERROR(bytes_of(slot, &bytes));
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, take_host(bytes, false));
  if (bytes != 0) std::memcpy(memory.get(), state.host, bytes);
  statistics_.copied_bytes += bytes;
  state.host = memory.get();
  state.host_owner = std::move(memory);
  return {};
}

Status Runner::queue_of(uint32_t device) {
  if (devices_[device].queue != nullptr) return {};
  TENON_ASSIGN_OR_RETURN(devices_[device].queue, Queue::create(plan_->devices[device]));
  return {};
}

}  // namespace tenon::runtime
