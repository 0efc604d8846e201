#include "core/runtime/run/outputs.h"

#include <cstring>

#include "core/runtime/run/copies.h"

namespace tenon::runtime {

void Outputs::begin_run(std::span<const uint8_t> stays, std::span<const Home> homes) {
  for (SlotState& value : run_.slots) {
    value.stays = true;
    value.home = {};
  }
  for (size_t i = 0; i < run_.plan.output_slots.size(); ++i) {
    SlotState& value = run_.slots[run_.plan.output_slots[i]];
    if (stays.empty() || stays[i] == 0) value.stays = false;
    if (!homes.empty() && value.home.data == nullptr) value.home = homes[i];
  }
}

Status Outputs::take() {
  arrays_ = std::move(spare_);
  arrays_.resize(run_.plan.output_slots.size());
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const uint32_t slot = run_.plan.output_slots[i];
    if (!run_.slots[slot].stays) {
      TENON_RETURN_IF_ERROR(copy_to_host(run_, slot));
      TENON_RETURN_IF_ERROR(run_.queues.wait_for_host(slot));
      TENON_RETURN_IF_ERROR(own_host(slot));
    }
    arrays_[i].dtype = run_.plan.slots[slot].dtype;
    TENON_RETURN_IF_ERROR(run_.sizes.dims_of(slot, &arrays_[i].dims));
    arrays_[i].data = run_.slots[slot].host;
  }
  return {};
}

void Outputs::drop() {
  for (OutputArray& out : arrays_) out.tensor.reset();
  if (!arrays_.empty()) spare_ = std::move(arrays_);
  arrays_.clear();
}

// An output that is an input: the caller may bind another array and still keep the output until the
// next run.
Status Outputs::own_host(uint32_t slot) {
  SlotState& value = run_.slots[slot];
  if (run_.plan.slots[slot].source != Slot::Source::kInput) return {};
  if (value.host_owner != nullptr || value.donated) return {};  // the run's
  TENON_ASSIGN_OR_RETURN(const uint64_t bytes, run_.sizes.bytes_of(slot));
  TENON_ASSIGN_OR_RETURN(value.host_owner, copy_host(value, bytes));
  run_.statistics.copied_bytes += bytes;
  value.host = value.host_owner.get();
  return {};
}

Result<std::shared_ptr<std::byte>> Outputs::copy_host(const SlotState& value, uint64_t bytes) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, run_.memory.take_host(bytes, false));
  if (bytes != 0) std::memcpy(memory.get(), value.host, bytes);
  return memory;
}

Result<std::shared_ptr<Tensor>> Outputs::detach(size_t output, uint64_t* out_copied_bytes) {
  const uint32_t slot = run_.plan.output_slots[output];
  // What stays is not written, so that everybody can have the same tensor.
  if (!run_.slots[slot].stays) return make_tensor(output, out_copied_bytes);
  if (run_.slots[slot].tensor != nullptr) return run_.slots[slot].tensor->shared_from_this();
  for (size_t other = 0; other < output; ++other) {
    if (run_.plan.output_slots[other] == slot) return arrays_[other].tensor;
  }
  TENON_ASSIGN_OR_RETURN(arrays_[output].tensor, make_tensor(output, out_copied_bytes));
  return arrays_[output].tensor;
}

Result<std::shared_ptr<Tensor>> Outputs::make_tensor(size_t output, uint64_t* out_copied_bytes) {
  const uint32_t slot = run_.plan.output_slots[output];
  SlotState& value = run_.slots[slot];
  TENON_ASSIGN_OR_RETURN(const uint64_t bytes, run_.sizes.bytes_of(slot));
  const auto made = [&](auto memory) {
    return std::make_shared<Tensor>(arrays_[output].dtype, arrays_[output].dims, bytes,
                                    std::move(memory));
  };
  if (value.stays || std::ranges::count(run_.plan.output_slots, slot) == 1) {
    if (!value.stays && value.host_owner != nullptr) return made(std::move(value.host_owner));
    if (auto buffer = take_buffer(value, bytes); buffer != nullptr) return made(std::move(buffer));
    if (value.stays && value.host_owner != nullptr) return made(std::move(value.host_owner));
  }
  // It is the caller's, a constant, or another output as well.
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, copy_host(value, bytes));
  *out_copied_bytes += bytes;
  return made(std::shared_ptr<void>(std::move(memory)));
}

// The buffer that the output leaves in; null if none is fit for that.
std::shared_ptr<Buffer> Outputs::take_buffer(SlotState& value, uint64_t bytes) {
  for (uint32_t d = 0; d < value.places.size(); ++d) {
    SlotPlace& place = value.places[d];
    if (place.buffer == nullptr || !place.pooled) continue;
    if (!value.stays) {
      if (place.buffer->host() == nullptr || place.buffer->host() != value.host) continue;
      // A device that asked for the most that data may decide would keep all of it alive.
      if (place.buffer->size_bytes() / 2 > bytes + kDetachedSlackBytes) return nullptr;
    }
    run_.memory.pool(d).forget(*place.buffer);
    place.pooled = false;
    return std::exchange(place.buffer, nullptr);
  }
  return nullptr;
}

}  // namespace tenon::runtime
