#include "core/runtime/run/inputs.h"

#include "core/base/errors/failure.h"
#include "core/runtime/values/arrays.h"

namespace tenon::runtime {
namespace {

Status place_array(RunContext& run, uint32_t slot, const tenon_array_t& array) {
  SlotState& value = run.slots[slot];
  value.host = array.data;
  value.has_host = true;
  if (is_dense(array)) return {};
  TENON_ASSIGN_OR_RETURN(const uint64_t bytes, run.sizes.bytes_of(slot));
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> packed, run.memory.take_host(bytes, false));
  pack(array, packed.get());
  run.statistics.repacked_bytes += bytes;
  value.host = packed.get();
  value.host_owner = std::move(packed);
  return {};
}

// A tensor is read where it is, also one that is given up, until its memory is needed.
Status place_tensor(RunContext& run, uint32_t slot, const Argument& input) {
  SlotState& value = run.slots[slot];
  Tensor& tensor = *input.tensor;
  value.tensor = &tensor;
  value.donated = input.donated && !tensor.of_caller();
  const bool near = std::ranges::any_of(run.plan.devices, [&](const auto& device) {
    return tensor.on(*device) != nullptr || tensor.in_reach_of(*device) != nullptr;
  });
  if (!near) TENON_RETURN_IF_ERROR(tensor.fetch().status());
  value.host = tensor.host();
  value.has_host = value.host != nullptr || tensor.size_bytes() == 0;
  for (size_t d = 0; d < value.places.size(); ++d) {
    Buffer* const there = tensor.on(*run.devices[d].device);
    if (there == nullptr) continue;
    value.places[d].buffer = {std::shared_ptr<void>(), there};  // borrowed, and not counted
  }
  return {};
}

void take_buffer(RunContext& run, SlotState& value, std::shared_ptr<Buffer> buffer) {
  const auto at = std::ranges::find_if(run.devices, [&](const DeviceState& state) {
    return state.device.get() == &buffer->device();
  });
  if (at == run.devices.end()) {
    if (value.host != nullptr && buffer->host() == value.host && value.host_owner == nullptr)
      value.host_owner = {buffer, buffer->host()};
    run.kept.push_back(std::move(buffer));  // a copy to another device may still read it
    return;
  }
  const auto d = static_cast<uint32_t>(at - run.devices.begin());
  // Nor is what others still read anybody's to write.
  const bool own = !buffer->imported() && !buffer->in_use();
  if (own) run.memory.pool(d).adopt(*buffer);
  value.places[d] = {.buffer = std::move(buffer), .pooled = own, .lent = value.places[d].lent};
}

}  // namespace

Status place_inputs(RunContext& run, std::span<const Argument> inputs) {
  for (uint32_t s = 0; s < run.slots.size(); ++s) {
    const Slot& slot = run.plan.slots[s];
    SlotState& value = run.slots[s];
    if (slot.source == Slot::Source::kConstant) {
      uint64_t size = 0;
      const tenon_host_graph_t& api = *run.plan.api;
      TENON_RETURN_IF_ERROR(
          from_abi(api.blob_data(api.self, slot.constant, &value.host, &size), "constant"));
      value.has_host = true;
    } else if (slot.source == Slot::Source::kInput) {
      const Argument& input = inputs[slot.input];
      TENON_RETURN_IF_ERROR(input.tensor != nullptr ? place_tensor(run, s, input)
                                                    : place_array(run, s, *input.array));
    }
  }
  return {};
}

void take_tensor(RunContext& run, uint32_t slot) {
  SlotState& value = run.slots[slot];
  Tensor::Taken taken = std::exchange(value.tensor, nullptr)->take();
  if (value.host_owner == nullptr) value.host_owner = std::move(taken.host);
  for (std::shared_ptr<Buffer>& buffer : taken.buffers) take_buffer(run, value, std::move(buffer));
}

void take_donated(RunContext& run) {
  for (uint32_t s = 0; s < run.slots.size(); ++s) {
    if (run.slots[s].donated && run.slots[s].tensor != nullptr) take_tensor(run, s);
  }
}

// The copies are complete now. What a caller gets as an output is not kept, nor what lies in it.
void keep_copies(RunContext& run) {
  for (uint32_t s = 0; s < run.slots.size(); ++s) {
    SlotState& value = run.slots[s];
    if (value.tensor == nullptr) continue;
    if (value.host_owner != nullptr && run.plan.slots[s].last_step != UINT32_MAX)
      value.tensor->remember_host(value.host_owner);
    for (uint32_t d = 0; d < value.places.size(); ++d) {
      SlotPlace& place = value.places[d];
      if (place.buffer == nullptr || value.tensor->on(*run.devices[d].device) != nullptr) continue;
      if (place.buffer->imported() && value.host != value.tensor->host()) continue;
      if (place.pooled) run.memory.pool(d).forget(*place.buffer);
      place.pooled = false;
      value.tensor->remember(place.buffer);
    }
  }
}

// An imported value is also on the host, so outputs lose nothing.
void drop_imports(RunContext& run) {
  for (SlotState& value : run.slots) {
    if (value.tensor != nullptr) continue;
    for (SlotPlace& place : value.places) {
      if (place.buffer != nullptr && !place.pooled) place = {};
    }
  }
}

}  // namespace tenon::runtime
