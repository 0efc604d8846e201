#include "core/runtime/run/inputs.h"
#include "core/runtime/run/steps.h"

namespace tenon::runtime {
namespace {

// The memory of an input that the device may write this output to; null if it must get memory of
// its own. Nothing else may read it, now or later.
std::shared_ptr<Buffer> given_up_for(RunContext& run, uint32_t index, const Needs::Output& need) {
  const Step& step = run.plan.steps[index];
  if (need.alias_input == TENON_NO_ALIAS) return nullptr;
  const uint32_t slot = step.inputs[need.alias_input];
  const SlotState& value = run.slots[slot];
  const SlotPlace& place = value.places[step.device];
  if (run.plan.slots[slot].last_step != index || value.held || place.lent) return nullptr;
  if (value.reads != 1 || place.buffer == nullptr) return nullptr;
  if (place.buffer->size_bytes() < need.size_bytes) return nullptr;
  if (value.donated && value.tensor != nullptr && !place.buffer->imported()) take_tensor(run, slot);
  if (!place.pooled || place.buffer.use_count() != 1) return nullptr;
  return place.buffer;
}

// Whether an output whose home is the memory of an input may be written there: the device says that
// it reads the input only before it writes, and nothing reads it later or elsewhere.
bool replaces_input(const RunContext& run, uint32_t index, uint32_t slot,
                    const Needs::Output& need) {
  const Home& home = run.slots[slot].home;
  if (home.data == nullptr || need.alias_input == TENON_NO_ALIAS) return false;
  const uint32_t read = run.plan.steps[index].inputs[need.alias_input];
  const Slot& source = run.plan.slots[read];
  const SlotState& value = run.slots[read];
  return source.source == Slot::Source::kInput && source.input == home.input &&
         source.last_step == index && value.host == home.data && !value.held && value.reads == 1 &&
         home.size_bytes == need.size_bytes;
}

// Lets a device write an output where the caller wants it. Only a device that completes everything
// before it returns: one that is given up may write to its memory later.
Status take_home(RunContext& run, uint32_t slot, uint32_t device, uint64_t size_bytes,
                 bool in_place) {
  const Home& home = run.slots[slot].home;
  const std::shared_ptr<Device>& owner = run.devices[device].device;
  if (home.data == nullptr || home.size_bytes < size_bytes) return {};
  if (home.input != UINT32_MAX && !in_place) return {};
  if (owner->has_queue() || !owner->host_visible()) return {};
  TENON_ASSIGN_OR_RETURN(Buffer buffer, Buffer::import_to_write(owner, home.data, size_bytes));
  if (buffer) run.place(slot, device) = {std::make_shared<Buffer>(std::move(buffer)), false};
  return {};
}

}  // namespace

Status place_output(RunContext& run, uint32_t index, size_t output, const Needs::Output& need) {
  const Step& step = run.plan.steps[index];
  const uint32_t slot = step.outputs[output];
  SlotPlace& place = run.place(slot, step.device);
  if (std::shared_ptr<Buffer> buffer = given_up_for(run, index, need); buffer != nullptr) {
    run.place(step.inputs[need.alias_input], step.device) = {};
    place = {std::move(buffer), true};
    return {};
  }
  const bool in_place = replaces_input(run, index, slot, need);
  TENON_RETURN_IF_ERROR(take_home(run, slot, step.device, need.size_bytes, in_place));
  if (place.buffer == nullptr) {
    const bool leaves = run.plan.slots[slot].last_step == UINT32_MAX;
    TENON_ASSIGN_OR_RETURN(place.buffer,
                           run.memory.take(step.device, need.size_bytes, nullptr, leaves));
    place.pooled = true;
  } else if (in_place) {  // both are one buffer, as the device wants it
    run.place(step.inputs[need.alias_input], step.device).buffer = place.buffer;
  }
  return {};
}

}  // namespace tenon::runtime
