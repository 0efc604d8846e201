#include "core/runtime/run/run.h"

#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "core/base/errors/failure.h"
#include "core/base/process/log.h"
#include "core/base/process/operation.h"
#include "core/base/str.h"
#include "core/runtime/run/run_state.h"
#include "core/runtime/values/arrays.h"

namespace tenon::runtime {
namespace {

// Buffers of outputs whose size the device learns as it runs.
struct OutputRequests {
  OutputRequests(const Device& device,
                 std::function<Result<std::shared_ptr<Buffer>>(uint64_t size_bytes)> take,
                 size_t count)
      : device(device), take(std::move(take)), buffers(count) {}
  const Device& device;
  std::function<Result<std::shared_ptr<Buffer>>(uint64_t size_bytes)> take;
  std::vector<std::shared_ptr<Buffer>> buffers;
  Status failure;
  std::mutex mutex;  // a device may work on several threads

  static tenon_code_t give(void* self, uint32_t index, uint64_t size_bytes,
                           tenon_buffer_t** out_buffer, uint64_t* out_offset_bytes) try {
    auto& requests = *static_cast<OutputRequests*>(self);
    std::lock_guard lock(requests.mutex);
    const Device::SameTurn turn(requests.device);  // the execute call holds it and waits
    if (index >= requests.buffers.size() || requests.buffers[index] != nullptr) {
      requests.failure = error(TENON_INTERNAL, "T0612",
                               "a device asks for the buffer of output {} out of turn", index);
      return to_abi(requests.failure);
    }
    Result<std::shared_ptr<Buffer>> made = requests.take(size_bytes);
    if (!made.ok()) {
      requests.failure = made.status();
      return to_abi(requests.failure);
    }
    requests.buffers[index] = std::move(*made);
    *out_buffer = requests.buffers[index]->handle();
    *out_offset_bytes = 0;
    return TENON_OK;
  } catch (const std::exception&) {
    return TENON_RESOURCE_EXHAUSTED;  // no exception may pass through the plugin's frames
  }
};

}  // namespace

// ---- State ----

Runner::Runner(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {
  for (uint32_t d = 0; d < plan_->devices.size(); ++d) {
    BufferPool pool(plan_->devices[d], [this, d] { return wait(d); });
    devices_.emplace_back(std::move(pool), plan_->devices.size());
  }
  step_needs_.resize(plan_->executables.size());
  slots_.resize(plan_->slots.size());
  for (SlotState& slot : slots_) slot.places.resize(plan_->devices.size());
  dead_after_.resize(plan_->steps.size());
  for (uint32_t s = 0; s < plan_->slots.size(); ++s) {
    if (plan_->slots[s].last_step < dead_after_.size())
      dead_after_[plan_->slots[s].last_step].push_back(s);
  }
  crosses_.resize(plan_->slots.size());
  targets_.resize(plan_->slots.size());
  relayed_.resize(plan_->slots.size());
  for (const Step& step : plan_->steps) {
    if (step.kind != Step::Kind::kCopy || step.device == kHostPlace) continue;
    crosses_[step.slot] = true;
    targets_[step.slot].push_back(step.device);
    if (plan_->devices[step.device]->has_queue()) relayed_[step.slot] = true;
  }
  repeat_ = Repeat::of(*plan_);
}

void Runner::let_leave(std::span<const uint8_t> stays) {
  leaves_ = crosses_;
  stays_.assign(plan_->slots.size(), true);
  for (size_t i = 0; i < plan_->output_slots.size(); ++i) {
    if (!stays.empty() && stays[i] != 0) continue;
    leaves_[plan_->output_slots[i]] = true;
    stays_[plan_->output_slots[i]] = false;
  }
}

void Runner::set_homes(std::span<const Home> homes) {
  homes_.clear();
  if (std::ranges::none_of(homes, [](const Home& home) { return home.data != nullptr; })) return;
  homes_.resize(plan_->slots.size());
  for (size_t i = 0; i < homes.size(); ++i) {
    Home& home = homes_[plan_->output_slots[i]];
    if (home.data == nullptr) home = homes[i];
  }
}

Runner::~Runner() {
  end_queues();
  drop_run_state();
  drop_sinks();
}

// A device that was given up may still report its work.
void Runner::drop_sinks() {
  for (size_t d = 0; d < sinks_.size(); ++d) {
    if (plan_->devices[d]->abandoned()) keep_for_good(std::move(sinks_[d]));
  }
  sinks_.clear();
}

void Runner::end_call() {
  drop_run_state();
  if (repeat_ != nullptr) let_others_have(*repeat_);
  for (DeviceState& device : devices_) device.pool.offer();
}

void Runner::begin_call() {
  for (DeviceState& device : devices_) device.pool.withdraw();
}

void Runner::drop_run_state() {
  if (clean_) return;
  clean_ = true;
  if (repeat_ != nullptr && !repeat_->outputs_leave()) repeat_->forget();  // they go now
  const bool abandoned = std::any_of(plan_->devices.begin(), plan_->devices.end(),
                                     [](const auto& d) { return d->abandoned(); });
  for (SlotState& slot : slots_) {
    for (size_t d = 0; d < slot.places.size(); ++d) {
      Place& place = slot.places[d];
      if (place.buffer != nullptr && place.pooled)
        devices_[d].pool.give_back(std::move(place.buffer));
      place = {};
    }
    slot.host = nullptr;
    // A device that was given up may still write to memory that a copy named.
    if (abandoned && slot.host_owner != nullptr) keep_for_good(std::move(slot.host_owner));
    slot.host_owner.reset();
    slot.has_host = slot.stable_host = slot.held = false;
    slot.source = kHostPlace;
    slot.ready = 0;
    slot.apart = false;
    slot.tensor = nullptr;
    slot.donated = false;
  }
  if (abandoned)
    keep_for_good(std::make_shared<std::deque<std::vector<int64_t>>>(std::move(out_symbols_)));
  out_symbols_.clear();
  for (auto& memory : staged_) {
    if (abandoned) keep_for_good(std::move(memory));
  }
  staged_.clear();
  // Their dims keep their memory for the next run.
  for (OutputArray& out : outputs_) out.tensor.reset();
  if (!outputs_.empty()) spare_outputs_ = std::move(outputs_);
  outputs_.clear();
}

// Inputs are borrowed for the run only. An imported value is also on the host, so outputs lose
// nothing.
void Runner::drop_imports() {
  for (SlotState& slot : slots_) {
    if (slot.tensor != nullptr) continue;
    for (Place& place : slot.places) {
      if (place.buffer != nullptr && !place.pooled) place = {};
    }
  }
}

// Tensors keep the copies that were made of them, complete now. What a caller gets as an output is
// not kept, nor what lies in it.
void Runner::keep_copies() {
  for (size_t s = 0; s < slots_.size(); ++s) {
    SlotState& slot = slots_[s];
    if (slot.tensor == nullptr) continue;
    if (slot.host_owner != nullptr && plan_->slots[s].last_step != UINT32_MAX)
      slot.tensor->remember_host(slot.host_owner);
    for (size_t d = 0; d < slot.places.size(); ++d) {
      Place& place = slot.places[d];
      if (place.buffer == nullptr || slot.tensor->on(*plan_->devices[d]) != nullptr) continue;
      if (place.buffer->imported() && slot.host != slot.tensor->host()) continue;
      if (place.pooled) devices_[d].pool.forget(*place.buffer);
      place.pooled = false;
      slot.tensor->remember(place.buffer);
    }
  }
}

Status Runner::run(std::span<const Argument> inputs, std::span<const uint8_t> stays,
                   std::span<const GivenSize> sizes, std::span<const Home> homes,
                   const Natives& natives) {
  const uint64_t begin = timed_ ? now_ns() : 0;
  forget_repeat();
  drop_run_state();
  clean_ = false;
  for (DeviceState& device : devices_) {
    device.pool.begin_run();
    device.last_workspace_bytes = std::exchange(device.workspace_bytes, 0);
  }
  let_leave(stays);
  set_homes(homes);
  statistics_ = {};
  drop_sinks();
  for (size_t d = 0; trace_ != nullptr && d < plan_->devices.size(); ++d) {
    sinks_.push_back(std::make_unique<TraceSink>(trace_, plan_->devices[d]->name()));
  }
  for (DeviceState& device : devices_) {
    device.tainted->store(false, std::memory_order_relaxed);
    device.dependences.clear();
    device.released = false;
  }
  given_up_ = {};
  Status status;
  try {
    status = join(natives);
    if (status.ok()) status = run_steps(inputs, sizes);
    if (status.ok()) take_donated();
    if (status.ok()) status = take_outputs();
    if (status.ok()) status = signal_natives();
  } catch (...) {  // no memory, or no thread can be started
    // Submitted work uses memory that the run's state owns. Waiting for it first gives up a device
    // that does not respond.
    try {
      (void)wait_all();
    } catch (const std::exception&) {  // no memory for its message
    }
    end_queues();
    leave_streams();
    drop_run_state();
    throw;
  }
  // Also after a failure: nothing may be in flight when memory is returned. Of several failures the
  // first counts.
  Status waited = wait_all();
  if (!waited.ok() && status.code() != TENON_CANCELLED) status = std::move(waited);
  if (status.ok()) {
    staged_.clear();
    keep_copies();
    if (can_repeat(inputs, sizes, natives)) remember(inputs, !stays.empty());
    drop_imports();
  } else {
    // Work after the failed work may still run, in memory that the run's state owns: wait for the
    // queues to end.
    if (std::ranges::any_of(devices_, &DeviceState::failed)) end_queues();
    drop_run_state();
  }
  leave_streams();
  for (DeviceState& device : devices_) {
    statistics_.arena_bytes += device.pool.held_bytes();
    device.pool.end_run();
  }
  if (timed_) statistics_.run_ms = static_cast<double>(now_ns() - begin) / 1e6;
  return status;
}

Status Runner::run_steps(std::span<const Argument> inputs, std::span<const GivenSize> sizes) {
  TENON_RETURN_IF_ERROR(place_inputs(inputs, sizes));
  for (uint32_t i = 0; i < plan_->steps.size(); ++i) {
    const Step& step = plan_->steps[i];
    TENON_RETURN_IF_ERROR(check_cancelled());
    const uint64_t begin = trace_ != nullptr ? now_ns() : 0;
    const uint64_t moved = statistics_.transferred_bytes;
    if (step.kind == Step::Kind::kExecute) {
      TENON_RETURN_IF_ERROR(execute(i), "{}", kernel_context(*plan_->devices[step.device]));
    } else if (step.device == kHostPlace) {
      if (!stays_[step.slot]) TENON_RETURN_IF_ERROR(copy_to_host(step.slot));
    } else {
      TENON_RETURN_IF_ERROR(copy_to_device(step.slot, step.device));
    }
    if (trace_ != nullptr) {
      const bool copy = step.kind == Step::Kind::kCopy;
      const std::string place =
          step.device == kHostPlace ? "host" : plan_->devices[step.device]->name();
      trace_->add({copy ? fmt::format("copy to {}", place) : fmt::format("run on {}", place), "",
                   "host", copy ? "copy" : "run", begin, now_ns(), 0,
                   static_cast<double>(statistics_.transferred_bytes - moved), 0});
    }
    release_dead(i);
  }
  return {};
}

// Inputs with the dims of the run before have its symbols. Ranks are the model's, so a list of all
// dims is enough to compare.
Status Runner::solve_symbols(std::span<const Argument> inputs, std::span<const GivenSize> sizes) {
  std::vector<int64_t>& all = scratch_.dims;
  all.clear();
  for (const Argument& input : inputs)
    all.insert(all.end(), input.array->dims, input.array->dims + input.array->rank);
  std::vector<Shapes::Given> given;
  for (const GivenSize& size : sizes) {
    TENON_ASSIGN_OR_RETURN(const tenon_symbol_t symbol, plan_->shapes.size_symbol(size.name));
    given.push_back({symbol, size.value});
    all.insert(all.end(), {int64_t{symbol}, size.value});
  }
  if (!solved_ || all != solved_dims_) {
    std::vector<std::span<const int64_t>> dims;
    for (const Argument& input : inputs) dims.emplace_back(input.array->dims, input.array->rank);
    solved_ = false;
    TENON_RETURN_IF_ERROR(plan_->shapes.solve(dims, given, plan_->needed, &solved_symbols_));
    solved_dims_ = all;
    solved_ = true;
    slot_bytes_.assign(slots_.size(), kUnknownBytes);
  } else if (!out_symbols_known_) {
    slot_bytes_.assign(slots_.size(), kUnknownBytes);
  }
  symbols_ = solved_symbols_;
  out_symbols_known_ = true;
  return {};
}

// Those of the run before, without asking, where its sizes are these.
Result<const Needs*> Runner::needs_of(uint32_t executable, std::span<const int64_t> symbols) {
  StepNeeds& last = step_needs_[executable];
  if (last.needs == nullptr || !std::ranges::equal(last.symbols, symbols)) {
    TENON_ASSIGN_OR_RETURN(last.needs, plan_->executables[executable]->needs(symbols));
    last.symbols.assign(symbols.begin(), symbols.end());
  }
  return last.needs.get();
}

Status Runner::place_inputs(std::span<const Argument> inputs, std::span<const GivenSize> sizes) {
  TENON_RETURN_IF_ERROR(solve_symbols(inputs, sizes));
  set_symbols_.assign(plan_->shapes.symbol_limit(), false);
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = plan_->slots[s];
    SlotState& state = slots_[s];
    if (slot.source == Slot::Source::kConstant) {
      uint64_t size = 0;
      TENON_RETURN_IF_ERROR(from_abi(
          plan_->api->blob_data(plan_->api->self, slot.constant, &state.host, &size), "constant"));
      state.has_host = state.stable_host = true;
    } else if (slot.source == Slot::Source::kInput) {
      const Argument& input = inputs[slot.input];
      TENON_RETURN_IF_ERROR(input.tensor != nullptr
                                ? place_tensor(static_cast<uint32_t>(s), input)
                                : place_array(static_cast<uint32_t>(s), *input.array));
    }
  }
  return {};
}

Result<std::shared_ptr<Buffer>> Runner::take_buffer(uint32_t device, uint64_t size_bytes,
                                                    bool* out_used, bool leaves) {
  return or_reclaimed([&] { return devices_[device].pool.take(size_bytes, out_used, leaves); });
}

// As much as any step has needed lately, so that one buffer serves all of them; where there is not
// so much memory, such as after a run with larger sizes, what this step needs.
Result<std::shared_ptr<Buffer>> Runner::take_workspace(uint32_t device, uint64_t size_bytes) {
  DeviceState& state = devices_[device];
  state.workspace_bytes = std::max(state.workspace_bytes, size_bytes);
  const uint64_t bytes = std::max(state.workspace_bytes, state.last_workspace_bytes);
  Result<std::shared_ptr<Buffer>> taken = take_buffer(device, bytes);
  if (bytes == size_bytes || taken.ok() || taken.status().code() != TENON_RESOURCE_EXHAUSTED)
    return taken;
  return take_buffer(device, size_bytes);
}

Result<std::shared_ptr<std::byte>> Runner::take_host(uint64_t size_bytes, bool zeroed) {
  return or_reclaimed([&] { return host_memory(size_bytes, zeroed); });
}

Status Runner::place_array(uint32_t slot, const tenon_array_t& array) {
  SlotState& state = slots_[slot];
  state.host = array.data;
  state.has_host = state.stable_host = true;
  if (is_dense(array)) return {};
  uint64_t bytes = 0;
  TENON_RETURN_IF_ERROR(bytes_of(slot, &bytes));
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> packed, take_host(bytes, false));
  pack(array, packed.get());
  statistics_.repacked_bytes += bytes;
  state.host = packed.get();
  state.host_owner = packed;
  return {};
}

// A tensor is read where it is, also one that is given up, until its memory is needed.
Status Runner::place_tensor(uint32_t slot, const Argument& input) {
  SlotState& state = slots_[slot];
  state.tensor = input.tensor;
  state.donated = input.donated && !input.tensor->of_caller();
  const bool near = std::ranges::any_of(plan_->devices, [&](const auto& device) {
    return input.tensor->on(*device) != nullptr || input.tensor->in_reach_of(*device) != nullptr;
  });
  if (!near) TENON_RETURN_IF_ERROR(input.tensor->fetch().status());
  state.host = input.tensor->host();
  state.has_host = state.stable_host = state.host != nullptr || input.tensor->size_bytes() == 0;
  for (size_t d = 0; d < state.places.size(); ++d) {
    Buffer* const there = input.tensor->on(*plan_->devices[d]);
    if (there == nullptr) continue;
    state.places[d].buffer = {std::shared_ptr<void>(), there};  // borrowed, and not counted
  }
  return {};
}

// The run now owns the memory of a tensor that is given up, as what steps make.
void Runner::take_tensor(uint32_t slot) {
  SlotState& state = slots_[slot];
  Tensor::Taken taken = std::exchange(state.tensor, nullptr)->take();
  if (state.host_owner == nullptr) state.host_owner = std::move(taken.host);
  for (std::shared_ptr<Buffer>& buffer : taken.buffers) {
    const auto at = std::ranges::find_if(
        plan_->devices, [&](const auto& device) { return device.get() == &buffer->device(); });
    const auto d = static_cast<size_t>(at - plan_->devices.begin());
    if (at == plan_->devices.end()) {
      if (state.host != nullptr && buffer->host() == state.host && state.host_owner == nullptr)
        state.host_owner = {buffer, buffer->host()};
      // A copy to another device may still read it.
      staged_.push_back({std::move(buffer), nullptr});
      continue;
    }
    // Nor is what others still read anybody's to write.
    const bool own = !buffer->imported() && !buffer->in_use();
    if (own) devices_[d].pool.adopt(*buffer);
    const bool lent = state.places[d].lent;
    state.places[d] = {std::move(buffer), own};
    state.places[d].lent = lent;
  }
}

// At the end of the steps: what is still there becomes an output, or is freed.
void Runner::take_donated() {
  for (uint32_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].donated && slots_[s].tensor != nullptr) take_tensor(s);
  }
}

// The memory of an input that the device may write this output to; null if it must get memory of
// its own. Nothing else may read it, now or later.
std::shared_ptr<Buffer> Runner::given_up_for(uint32_t index, const Needs::Output& output) {
  const Step& step = plan_->steps[index];
  if (output.alias_input == TENON_NO_ALIAS) return nullptr;
  const uint32_t slot = step.inputs[output.alias_input];
  SlotState& state = slots_[slot];
  const Place& place = state.places[step.device];
  if (plan_->slots[slot].last_step != index || state.held || place.lent) return nullptr;
  if (scratch_.reads[slot] != 1) return nullptr;
  if (place.buffer == nullptr || place.buffer->size_bytes() < output.size_bytes) return nullptr;
  if (state.donated && state.tensor != nullptr && !place.buffer->imported()) take_tensor(slot);
  if (!place.pooled || place.buffer.use_count() != 1) return nullptr;
  return place.buffer;
}

// Whether an output whose home is the memory of an input may be written there: the device says that
// it reads the input only before it writes, and nothing reads it later or elsewhere.
bool Runner::replaces_input(uint32_t index, uint32_t slot, const Needs::Output& output) const {
  if (homes_.empty() || output.alias_input == TENON_NO_ALIAS) return false;
  const Step& step = plan_->steps[index];
  const Home& home = homes_[slot];
  const uint32_t read = step.inputs[output.alias_input];
  const Slot& source = plan_->slots[read];
  return home.data != nullptr && source.source == Slot::Source::kInput &&
         source.input == home.input && slots_[read].host == home.data &&
         source.last_step == index && !slots_[read].held && scratch_.reads[read] == 1 &&
         home.size_bytes == output.size_bytes;
}

// Lets a device write an output where the caller wants it. Only a device that completes everything
// before it returns: one that is given up may write to its memory later.
Status Runner::take_home(uint32_t slot, uint32_t device, uint64_t size_bytes, bool in_place) {
  const std::shared_ptr<Device>& owner = plan_->devices[device];
  if (homes_.empty() || homes_[slot].data == nullptr) return {};
  if (homes_[slot].input != UINT32_MAX && !in_place) return {};
  if (homes_[slot].size_bytes < size_bytes || owner->has_queue() || !owner->host_visible())
    return {};
  TENON_ASSIGN_OR_RETURN(Buffer buffer,
                         Buffer::import_to_write(owner, homes_[slot].data, size_bytes));
  if (buffer)
    slots_[slot].places[device] = {std::make_shared<Buffer>(std::move(buffer)), false, {}};
  return {};
}

Status Runner::place_output(uint32_t index, size_t output, const Needs::Output& need) {
  const Step& step = plan_->steps[index];
  Place& place = slots_[step.outputs[output]].places[step.device];
  if (std::shared_ptr<Buffer> buffer = given_up_for(index, need); buffer != nullptr) {
    slots_[step.inputs[need.alias_input]].places[step.device] = {};
    place = {std::move(buffer), true, {}};
    return {};
  }
  const bool in_place = replaces_input(index, step.outputs[output], need);
  TENON_RETURN_IF_ERROR(take_home(step.outputs[output], step.device, need.size_bytes, in_place));
  // Both are one buffer, as the device wants it.
  if (place.buffer != nullptr && in_place)
    slots_[step.inputs[need.alias_input]].places[step.device].buffer = place.buffer;
  if (place.buffer != nullptr) return {};
  const bool leaves = plan_->slots[step.outputs[output]].last_step == UINT32_MAX;
  TENON_ASSIGN_OR_RETURN(place.buffer, take_buffer(step.device, need.size_bytes, nullptr, leaves));
  place.pooled = true;
  return {};
}

Status Runner::execute(uint32_t index) {
  const Step& step = plan_->steps[index];
  DeviceState& state = devices_[step.device];
  const std::shared_ptr<Device>& device = plan_->devices[step.device];
  Executable& executable = *plan_->executables[step.executable];
  std::vector<int64_t>& symbols = scratch_.symbols;
  symbols.clear();
  for (tenon_symbol_t s : step.symbols) symbols.push_back(symbols_[s]);
  TENON_ASSIGN_OR_RETURN(const Needs* const needs, needs_of(step.executable, symbols));

  std::vector<tenon_span_t>&inputs = scratch_.inputs, &outputs = scratch_.outputs;
  std::vector<tenon_fence_point_t>& waits = scratch_.waits;
  inputs.clear(), outputs.clear(), waits.clear();
  scratch_.reads.resize(slots_.size());
  for (uint32_t slot : step.inputs) scratch_.reads[slot] = 0;
  for (uint32_t slot : step.inputs) {
    ++scratch_.reads[slot];
    TENON_CHECK(slots_[slot].places[step.device].buffer != nullptr,
                "a step reads slot {} before it is there", slot);
    const Place& place = slots_[slot].places[step.device];
    inputs.push_back({place.buffer->handle(), 0});
    if (place.after.fence != nullptr) waits.push_back(place.after);
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    uint64_t bytes = 0;
    if (step.out_symbols.empty()) TENON_RETURN_IF_ERROR(bytes_of(step.outputs[i], &bytes));
    if (needs->outputs[i].size_bytes < bytes) {
      return error(TENON_INTERNAL, "T0612", "device {} asks {} bytes for an output of {}",
                   quoted(device->name()), needs->outputs[i].size_bytes, bytes);
    }
    if (const uint32_t alias = needs->outputs[i].alias_input;
        alias != TENON_NO_ALIAS && alias >= step.inputs.size()) {
      return error(TENON_INTERNAL, "T0612", "device {} lets an output share input {} of {}",
                   quoted(device->name()), alias, step.inputs.size());
    }
    if (needs->outputs[i].size_bytes == TENON_SIZE_UNKNOWN) {
      outputs.push_back({});  // filled in when the device knows the size
      continue;
    }
    TENON_RETURN_IF_ERROR(place_output(index, i, needs->outputs[i]));
    outputs.push_back({slots_[step.outputs[i]].places[step.device].buffer->handle(), 0});
    // The output may have got the home of an input, which is now another buffer.
    if (const uint32_t alias = needs->outputs[i].alias_input; alias != TENON_NO_ALIAS) {
      const Place& read = slots_[step.inputs[alias]].places[step.device];
      if (read.buffer != nullptr) inputs[alias].buffer = read.buffer->handle();
    }
  }
  std::shared_ptr<Buffer> workspace;
  if (needs->workspace_bytes != 0) {
    TENON_ASSIGN_OR_RETURN(workspace, take_workspace(step.device, needs->workspace_bytes));
  }
  statistics_.arena_lower_bound_bytes =
      std::max(statistics_.arena_lower_bound_bytes, needs->lower_bound_bytes);

  const std::span<int64_t> out_symbols =
      step.out_symbols.empty()
          ? std::span<int64_t>()
          : std::span<int64_t>(out_symbols_.emplace_back(step.out_symbols.size(), -1));
  auto call = sized<tenon_call_t>();
  call.input_count = static_cast<uint32_t>(inputs.size());
  call.output_count = static_cast<uint32_t>(outputs.size());
  call.symbols = {symbols.data(), static_cast<uint32_t>(symbols.size())};
  call.inputs = inputs.data();
  call.outputs = outputs.data();
  call.span_bytes = sizeof(tenon_span_t);
  if (workspace != nullptr) call.workspace = workspace->handle();
  call.out_symbols = out_symbols.data();
  call.out_symbol_count = static_cast<uint32_t>(out_symbols.size());
  if (trace_ != nullptr) call.profile = sinks_[step.device]->get();
  // The device requests a buffer during the call if only the run can find the size.
  const bool asks =
      std::any_of(needs->outputs.begin(), needs->outputs.end(),
                  [](const auto& output) { return output.size_bytes == TENON_SIZE_UNKNOWN; });
  std::optional<OutputRequests> requests;
  if (asks || !executable.on_queue()) {
    // No queue orders it, so everything it reads must be there, including host memory that another
    // device fills.
    for (uint32_t slot : step.inputs) {
      if (slots_[slot].places[step.device].after.fence != nullptr)
        TENON_RETURN_IF_ERROR(await_host(slot));
    }
    TENON_RETURN_IF_ERROR(wait(step.device));
  } else {
    TENON_RETURN_IF_ERROR(queue_of(step.device));
    call.queue = state.queue->handle();
    call.waits = waits.data();
    call.wait_count = static_cast<uint32_t>(waits.size());
    call.signal = state.queue->next_signal();
    for (const tenon_fence_point_t& point : waits) state.depends(point);
  }
  if (call.queue == nullptr) {
    requests.emplace(
        *device, [this, &step](uint64_t bytes) { return take_buffer(step.device, bytes); },
        asks ? outputs.size() : 0);
    call.output_self = &*requests;
    call.output = OutputRequests::give;
  }
  Status status = executable.execute(call);
  if (requests && !requests->failure.ok()) status = std::move(requests->failure);
  for (size_t i = 0; asks && i < outputs.size(); ++i) {
    if (requests->buffers[i] != nullptr)
      slots_[step.outputs[i]].places[step.device] = {std::move(requests->buffers[i]), true};
  }
  if (!status.ok() && call.queue != nullptr) state.queue->refused();
  // Later work of the device runs after this one, so it may reuse the workspace.
  if (workspace != nullptr) state.pool.give_back(std::move(workspace));
  TENON_RETURN_IF_ERROR(std::move(status));
  if (!step.out_symbols.empty()) return learn_symbols(step, out_symbols);
  TENON_RETURN_IF_ERROR(check_made(step));
  // Values for other devices leave at once, ahead of this device's work that those do not wait for.
  for (uint32_t slot : step.outputs) {
    if (!device->has_queue()) break;
    if (call.queue != nullptr) slots_[slot].places[step.device].made = state.queue->last();
    TENON_ASSIGN_OR_RETURN(const bool leaves, leaves_at_once(slot, step.device));
    if (leaves) TENON_RETURN_IF_ERROR(copy_to_host(slot));
  }
  return {};
}

// Waits for sizes that only the work itself determines.
Status Runner::learn_symbols(const Step& step, std::span<const int64_t> out_symbols) {
  const Device& device = *plan_->devices[step.device];
  TENON_RETURN_IF_ERROR(wait(step.device));
  for (size_t i = 0; i < out_symbols.size(); ++i) {
    if (out_symbols[i] < 0)
      return error(TENON_INTERNAL, "T0612", "device {} left a data-dependent dim unset",
                   quoted(device.name()));
    symbols_[step.out_symbols[i]] = out_symbols[i];
    set_symbols_[step.out_symbols[i]] = true;
  }
  slot_bytes_.assign(slots_.size(), kUnknownBytes);
  out_symbols_known_ = false;
  // Later steps rely on the assertions about these sizes.
  TENON_RETURN_IF_ERROR(plan_->shapes.check_set(step.out_symbols, set_symbols_, symbols_));
  return check_made(step);
}

// Every output must exist and be large enough, also those whose buffers the device requested or
// should have requested.
Status Runner::check_made(const Step& step) const {
  for (uint32_t slot : step.outputs) {
    uint64_t bytes = 0;
    TENON_RETURN_IF_ERROR(bytes_of(slot, &bytes));
    const Place& place = slots_[slot].places[step.device];
    if (place.buffer == nullptr || bytes > place.buffer->size_bytes()) {
      return error(TENON_INTERNAL, "T0612", "device {} made {} bytes in a buffer of {}",
                   quoted(plan_->devices[step.device]->name()), bytes,
                   place.buffer == nullptr ? 0 : place.buffer->size_bytes());
    }
  }
  return {};
}

Status Runner::take_outputs() {
  outputs_ = std::move(spare_outputs_);
  outputs_.resize(plan_->output_slots.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const uint32_t slot = plan_->output_slots[i];
    if (!stays_[slot]) {
      TENON_RETURN_IF_ERROR(copy_to_host(slot));
      TENON_RETURN_IF_ERROR(await_host(slot));
      TENON_RETURN_IF_ERROR(own_host(slot));
    }
    OutputArray& out = outputs_[i];
    out.dtype = plan_->slots[slot].dtype;
    TENON_RETURN_IF_ERROR(plan_->shapes.evaluate(plan_->slots[slot].dims, symbols_, &out.dims));
    out.data = slots_[slot].host;
  }
  return {};
}

Result<std::shared_ptr<Tensor>> Runner::detach(size_t output, uint64_t* out_copied_bytes) {
  const uint32_t slot = plan_->output_slots[output];
  // What stays is not written, so that everybody can have the same tensor.
  if (!stays_[slot]) return make_tensor(output, out_copied_bytes);
  if (slots_[slot].tensor != nullptr) return slots_[slot].tensor->shared_from_this();
  for (size_t other = 0; other < output; ++other) {
    if (plan_->output_slots[other] == slot) return outputs_[other].tensor;
  }
  TENON_ASSIGN_OR_RETURN(outputs_[output].tensor, make_tensor(output, out_copied_bytes));
  return outputs_[output].tensor;
}

Result<std::shared_ptr<Tensor>> Runner::make_tensor(size_t output, uint64_t* out_copied_bytes) {
  const uint32_t slot = plan_->output_slots[output];
  const tenon_dtype_t dtype = plan_->slots[slot].dtype;
  const std::vector<int64_t>& dims = outputs_[output].dims;
  SlotState& state = slots_[slot];
  const bool stays = stays_[slot];
  const bool alone = stays || std::ranges::count(plan_->output_slots, slot) == 1;
  uint64_t bytes = 0;
  TENON_RETURN_IF_ERROR(bytes_of(slot, &bytes));
  if (alone && !stays && state.host_owner != nullptr)
    return std::make_shared<Tensor>(dtype, dims, bytes, std::move(state.host_owner));
  for (size_t d = 0; alone && d < state.places.size(); ++d) {
    Place& place = state.places[d];
    if (place.buffer == nullptr || !place.pooled) continue;
    if (!stays && (place.buffer->host() == nullptr || place.buffer->host() != state.host)) continue;
    // A device that asked for the most that data may decide would keep all of it alive.
    if (!stays && place.buffer->size_bytes() / 2 > bytes + kDetachedSlackBytes) break;
    devices_[d].pool.forget(*place.buffer);
    place.pooled = false;
    return std::make_shared<Tensor>(dtype, dims, bytes, std::exchange(place.buffer, nullptr));
  }
  if (stays && state.host_owner != nullptr)
    return std::make_shared<Tensor>(dtype, dims, bytes, std::move(state.host_owner));
  // It is the caller's or a constant.
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, take_host(bytes, false));
  if (bytes != 0) std::memcpy(memory.get(), state.host, bytes);
  *out_copied_bytes += bytes;
  return std::make_shared<Tensor>(dtype, dims, bytes, std::move(memory));
}

void Runner::release_dead(uint32_t step) {
  for (uint32_t s : dead_after_[step]) {
    for (size_t d = 0; d < devices_.size(); ++d) {
      Place& place = slots_[s].places[d];
      if (place.buffer == nullptr || slots_[s].tensor != nullptr) continue;
      if (slots_[s].held && place.buffer->host() != nullptr &&
          place.buffer->host() == slots_[s].host)
        continue;
      if (place.lent) continue;
      if (place.pooled) {
        devices_[d].pool.give_back(std::move(place.buffer));
        place = {};
      } else if (!plan_->devices[d]->has_queue()) {
        place = {};
      }
    }
  }
}

}  // namespace tenon::runtime
