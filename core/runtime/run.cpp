#include "core/runtime/run.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>

#include "core/base/checked.h"
#include "core/base/failure.h"
#include "core/base/limits.h"
#include "core/base/log.h"
#include "core/base/operation.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/runtime/arrays.h"

namespace tenon::runtime {

using ir::dtype_bits;

namespace {

constexpr uint64_t kHostAlignment = 64;
// A free buffer serves a smaller request unless it wastes more than it holds.
constexpr uint64_t kSlackMin = 4096;

void keep_for_good(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<void>>();
  std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

std::string kernel_context(const Device& device) { return fmt::format("running on device {}", device.name()); }

}  // namespace

// ---- Buffers ------------------------------------------------------------------------------------------------

Result<std::shared_ptr<Buffer>> BufferPool::take(uint64_t size_bytes) {
  Free* best = nullptr;
  for (Free& free : free_) {
    const uint64_t have = free.buffer->size_bytes();
    if (have < size_bytes || have - size_bytes > std::max(size_bytes, kSlackMin)) continue;
    if (best == nullptr || have < best->buffer->size_bytes()) best = &free;
  }
  if (best != nullptr) {
    std::shared_ptr<Buffer> buffer = std::move(best->buffer);
    *best = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  auto made = Buffer::allocate(device_, size_bytes);
  if (!made.ok() && made.status().code() == TENON_RESOURCE_EXHAUSTED && !free_.empty()) {
    // What lies unused here may be what is missing. Queued work may still use it: buffers come back at submission.
    TENON_RETURN_IF_ERROR(device_->sync());
    for (const Free& free : free_) held_bytes_ -= free.buffer->size_bytes();
    free_.clear();
    made = Buffer::allocate(device_, size_bytes);
  }
  TENON_ASSIGN_OR_RETURN(Buffer buffer, std::move(made));
  held_bytes_ += size_bytes;
  return std::make_shared<Buffer>(std::move(buffer));
}

void BufferPool::give_back(std::shared_ptr<Buffer> buffer) { free_.push_back({std::move(buffer), true}); }

void BufferPool::end_run() {
  for (size_t i = 0; i < free_.size();) {
    if (free_[i].used) {
      free_[i++].used = false;
      continue;
    }
    held_bytes_ -= free_[i].buffer->size_bytes();
    free_[i] = std::move(free_.back());
    free_.pop_back();
  }
}

namespace {

// Buffers of outputs whose size the device learns while it runs.
struct LateOutputs {
  BufferPool* pool;
  std::vector<std::shared_ptr<Buffer>> buffers;
  Status failure;

  static tenon_code_t give(void* self, uint32_t index, uint64_t size_bytes, tenon_span_t* out) try {
    auto& late = *static_cast<LateOutputs*>(self);
    if (index >= late.buffers.size() || late.buffers[index] != nullptr) {
      late.failure = error(TENON_INTERNAL, "T0612", "a device asks for the buffer of output {} out of turn", index);
      return to_abi(late.failure);
    }
    Result<std::shared_ptr<Buffer>> made = late.pool->take(size_bytes);
    if (!made.ok()) {
      late.failure = made.status();
      return to_abi(late.failure);
    }
    late.buffers[index] = std::move(*made);
    *out = {late.buffers[index]->handle(), 0};
    return TENON_OK;
  } catch (const std::exception&) {
    return TENON_RESOURCE_EXHAUSTED;  // nothing passes through the plugin's frames
  }
};

}  // namespace

// ---- State --------------------------------------------------------------------------------------------------

struct Runner::Place {
  std::shared_ptr<Buffer> buffer;
  bool pooled = false;             // false: imported host memory
  tenon_fence_point_t after{};     // work that reads it waits for this; null: it is there in order of the device's queue
};

struct Runner::DeviceState {
  BufferPool pool;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Spoilt> spoilt;                  // some of its work is on what another device failed to make
  std::unique_ptr<Relay> relay;                    // carries its results to others
  std::vector<std::unique_ptr<RelayFence>> from;   // by source: signalled when something of it has arrived
  // Which of its work waits for others: the value that it signals, and what it waits for.
  struct Dependence {
    uint64_t work = 0;
    const RelayFence* fence = nullptr;
    uint64_t value = 0;
  };
  std::vector<Dependence> dependences;

  void depends(tenon_fence_point_t point) {
    for (const auto& f : from) {
      if (f != nullptr && f->fence() == point.fence) dependences.push_back({queue->submitted(), f.get(), point.value});
    }
  }
  // Its next piece of work waits for another device.
  bool waits() const {
    const uint64_t next = queue->progress() + 1;
    return std::any_of(dependences.begin(), dependences.end(),
                       [next](const Dependence& d) { return d.work == next && !d.fence->signalled(d.value); });
  }
};

struct Runner::SlotState {
  std::vector<Place> places;  // one per device
  const void* host = nullptr;
  std::shared_ptr<void> host_owner;  // null: the caller's or the graph's memory
  bool has_host = false;
  bool stable_host = false;          // host memory that stays until the run ends
  bool held = false;                 // the buffer that `host` is in stays until the run ends, since queued work reads it
  uint32_t source = kHostPlace;      // host memory is filled once the queue of this device has reached `ready`
  uint64_t ready = 0;                // 0: it is filled
};

Runner::Runner(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {
  for (const auto& device : plan_->devices) {
    devices_.push_back({BufferPool(device), nullptr, std::make_unique<Spoilt>(false), nullptr, {}, {}});
    devices_.back().from.resize(plan_->devices.size());
  }
  slots_.resize(plan_->slots.size());
  for (SlotState& slot : slots_) slot.places.resize(plan_->devices.size());
  dead_after_.resize(plan_->steps.size());
  for (uint32_t s = 0; s < plan_->slots.size(); ++s) {
    if (plan_->slots[s].last_step < dead_after_.size()) dead_after_[plan_->slots[s].last_step].push_back(s);
  }
  leaves_.resize(plan_->slots.size());
  for (const Step& step : plan_->steps) {
    if (step.kind == Step::Kind::kCopy) leaves_[step.slot] = true;
  }
  for (uint32_t slot : plan_->output_slots) leaves_[slot] = true;
}

Runner::~Runner() {
  end_queues();
  drop_run_state();
}

// Waits, also for what follows failed work. A device that was abandoned keeps its queue.
void Runner::end_queues() {
  for (DeviceState& device : devices_) {
    if (device.relay != nullptr) device.relay->drain();
  }
  for (DeviceState& device : devices_) device.queue.reset();
  for (DeviceState& device : devices_) {
    for (auto& fence : device.from) fence.reset();
  }
}

void Runner::drop_run_state() {
  const bool abandoned = std::any_of(plan_->devices.begin(), plan_->devices.end(), [](const auto& d) { return d->abandoned(); });
  for (SlotState& slot : slots_) {
    for (size_t d = 0; d < slot.places.size(); ++d) {
      Place& place = slot.places[d];
      if (place.buffer != nullptr && place.pooled) devices_[d].pool.give_back(std::move(place.buffer));
      place = {};
    }
    slot.host = nullptr;
    // A device that was given up may still write to memory that a copy named.
    if (abandoned && slot.host_owner != nullptr) keep_for_good(std::move(slot.host_owner));
    slot.host_owner.reset();
    slot.has_host = slot.stable_host = slot.held = false;
    slot.source = kHostPlace;
    slot.ready = 0;
  }
  outputs_.clear();
}

// Inputs are borrowed for the run only. What was imported is also on the host, so that outputs lose nothing.
void Runner::drop_imports() {
  for (SlotState& slot : slots_) {
    for (Place& place : slot.places) {
      if (place.buffer != nullptr && !place.pooled) place = {};
    }
  }
}

Status Runner::bytes_of(uint32_t slot, uint64_t* out) const {
  std::vector<int64_t> dims;
  TENON_RETURN_IF_ERROR(plan_->shapes.evaluate(plan_->slots[slot].dims, symbols_, &dims));
  TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count(dims));
  TENON_ASSIGN_OR_RETURN(*out, packed_bytes(count, dtype_bits(plan_->slots[slot].dtype)));
  return {};
}

Status Runner::take_host(uint64_t size_bytes, std::shared_ptr<std::byte>* out) {
  TENON_RETURN_IF_ERROR(memory_reserve(size_bytes, "a tensor on the host"));
  uint64_t rounded = 0;
  void* data = nullptr;
  if (checked_align_up(std::max<uint64_t>(size_bytes, 1), kHostAlignment, &rounded)) {
    data = std::aligned_alloc(kHostAlignment, rounded);
  }
  if (data == nullptr) {
    memory_return(size_bytes);
    return error(TENON_RESOURCE_EXHAUSTED, "T0111", "the system gave no {} bytes for a tensor", size_bytes);
  }
  *out = std::shared_ptr<std::byte>(static_cast<std::byte*>(data), [size_bytes](std::byte* p) {
    std::free(p);
    memory_return(size_bytes);
  });
  return {};
}

// ---- A run --------------------------------------------------------------------------------------------------

Status Runner::run(std::span<const tenon_array_t* const> inputs) {
  const uint64_t begin = now_ns();
  drop_run_state();
  statistics_ = {};
  sinks_.clear();
  for (const auto& device : plan_->devices) sinks_.push_back(std::make_unique<TraceSink>(trace_, device->name()));
  for (DeviceState& device : devices_) {
    device.spoilt->store(false, std::memory_order_relaxed);
    device.dependences.clear();
  }
  given_up_ = {};
  Status status;
  try {
    status = run_steps(inputs);
    if (status.ok()) status = take_outputs();
  } catch (const std::bad_alloc&) {
    // What was submitted uses memory that the run's state owns.
    end_queues();
    drop_run_state();
    throw;
  }
  // Also after a failure: nothing may be in flight when memory goes back. Of several failures the one that came first counts.
  Status waited = wait_all();
  if (!waited.ok() && status.code() != TENON_CANCELLED) status = std::move(waited);
  if (status.ok()) {
    drop_imports();
  } else {
    // Work behind the failed one may still run, in memory that the run's state owns: the end of the queues waits for it.
    const auto failed = [](const DeviceState& d) { return d.queue != nullptr && (d.queue->failed() || d.queue->device().abandoned()); };
    if (std::any_of(devices_.begin(), devices_.end(), failed)) end_queues();
    drop_run_state();
  }
  for (DeviceState& device : devices_) {
    statistics_.arena_bytes += device.pool.held_bytes();
    device.pool.end_run();
  }
  statistics_.run_ms = static_cast<double>(now_ns() - begin) / 1e6;
  return status;
}

Status Runner::run_steps(std::span<const tenon_array_t* const> inputs) {
  TENON_RETURN_IF_ERROR(place_inputs(inputs));
  for (uint32_t i = 0; i < plan_->steps.size(); ++i) {
    const Step& step = plan_->steps[i];
    TENON_RETURN_IF_ERROR(check_cancelled());
    const uint64_t begin = trace_ != nullptr ? now_ns() : 0;
    const uint64_t moved = statistics_.transferred_bytes;
    if (step.kind == Step::Kind::kExecute) {
      TENON_RETURN_IF_ERROR(execute(step), "{}", kernel_context(*plan_->devices[step.device]));
    } else if (step.device == kHostPlace) {
      TENON_RETURN_IF_ERROR(copy_to_host(step.slot));
    } else {
      TENON_RETURN_IF_ERROR(copy_to_device(step.slot, step.device));
    }
    if (trace_ != nullptr) {
      const bool copy = step.kind == Step::Kind::kCopy;
      const std::string place = step.device == kHostPlace ? "host" : plan_->devices[step.device]->name();
      trace_->add({copy ? fmt::format("copy to {}", place) : fmt::format("run on {}", place), "", "host", copy ? "copy" : "run",
                   begin, now_ns(), 0, static_cast<double>(statistics_.transferred_bytes - moved), 0});
    }
    release_dead(i);
  }
  return {};
}

Status Runner::place_inputs(std::span<const tenon_array_t* const> inputs) {
  std::vector<std::span<const int64_t>> dims;
  for (const tenon_array_t* array : inputs) dims.emplace_back(array->dims, array->rank);
  TENON_RETURN_IF_ERROR(plan_->shapes.solve(dims, &symbols_));
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = plan_->slots[s];
    SlotState& state = slots_[s];
    if (slot.source == Slot::Source::kConstant) {
      uint64_t size = 0;
      TENON_RETURN_IF_ERROR(from_abi(plan_->api->blob_data(plan_->api->self, slot.constant, &state.host, &size), "constant"));
      state.has_host = state.stable_host = true;
    } else if (slot.source == Slot::Source::kInput) {
      const tenon_array_t& array = *inputs[slot.input];
      state.host = array.data;
      state.has_host = state.stable_host = true;
      if (is_dense(array)) continue;
      uint64_t bytes = 0;
      std::shared_ptr<std::byte> packed;
      TENON_RETURN_IF_ERROR(bytes_of(static_cast<uint32_t>(s), &bytes));
      TENON_RETURN_IF_ERROR(take_host(bytes, &packed));
      pack(array, packed.get());
      state.host = packed.get();
      state.host_owner = packed;
    }
  }
  return {};
}

Status Runner::execute(const Step& step) {
  DeviceState& state = devices_[step.device];
  const std::shared_ptr<Device>& device = plan_->devices[step.device];
  Executable& executable = *plan_->executables[step.executable];
  std::vector<int64_t> symbols;
  for (tenon_symbol_t s : step.symbols) symbols.push_back(symbols_[s]);
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<const Needs> needs, executable.needs(symbols));

  std::vector<tenon_span_t> inputs, outputs;
  std::vector<tenon_fence_point_t> waits;
  for (uint32_t slot : step.inputs) {
    TENON_CHECK(slots_[slot].places[step.device].buffer != nullptr, "a step reads slot {} before it is there", slot);
    const Place& place = slots_[slot].places[step.device];
    inputs.push_back({place.buffer->handle(), 0});
    if (place.after.fence != nullptr) waits.push_back(place.after);
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    uint64_t bytes = 0;
    if (step.out_symbols.empty()) TENON_RETURN_IF_ERROR(bytes_of(step.outputs[i], &bytes));
    if (needs->outputs[i].size_bytes < bytes) {
      return error(TENON_INTERNAL, "T0612", "device {} asks {} bytes for an output of {}", quoted(device->name()),
                   needs->outputs[i].size_bytes, bytes);
    }
    if (needs->outputs[i].size_bytes == TENON_SIZE_UNKNOWN) {
      outputs.push_back({});  // given when the device knows the size
      continue;
    }
    TENON_ASSIGN_OR_RETURN(auto buffer, state.pool.take(needs->outputs[i].size_bytes));
    outputs.push_back({buffer->handle(), 0});
    slots_[step.outputs[i]].places[step.device] = {std::move(buffer), true};
  }
  std::shared_ptr<Buffer> workspace;
  if (needs->workspace_bytes != 0) {
    TENON_ASSIGN_OR_RETURN(workspace, state.pool.take(needs->workspace_bytes));
  }
  statistics_.arena_lower_bound_bytes = std::max(statistics_.arena_lower_bound_bytes, needs->lower_bound_bytes);

  std::vector<int64_t> out_symbols(step.out_symbols.size(), -1);
  tenon_call_t call{};
  call.size_bytes = sizeof(call);
  call.input_count = static_cast<uint32_t>(inputs.size());
  call.output_count = static_cast<uint32_t>(outputs.size());
  call.symbols = {symbols.data(), static_cast<uint32_t>(symbols.size())};
  call.inputs = inputs.data();
  call.outputs = outputs.data();
  if (workspace != nullptr) call.workspace = {workspace->handle(), 0};
  call.out_symbols = out_symbols.data();
  call.out_symbol_count = static_cast<uint32_t>(out_symbols.size());
  if (trace_ != nullptr) call.profile = sinks_[step.device]->get();
  if (!executable.on_queue()) {
    // Nothing in a queue orders it: what it reads has to be there, memory of the host that another device fills included.
    for (uint32_t slot : step.inputs) {
      if (slots_[slot].places[step.device].after.fence != nullptr) TENON_RETURN_IF_ERROR(await_host(slot));
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
  LateOutputs late{&state.pool, std::vector<std::shared_ptr<Buffer>>(outputs.size()), {}};
  call.output_self = &late;
  call.output = call.queue == nullptr ? LateOutputs::give : nullptr;
  Status status = executable.execute(call);
  if (!late.failure.ok()) status = std::move(late.failure);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (late.buffers[i] != nullptr) slots_[step.outputs[i]].places[step.device] = {std::move(late.buffers[i]), true};
  }
  if (!status.ok() && call.queue != nullptr) {
    state.queue->retract_signal();
    (void)device->sync();  // nothing is used again on the plugin's word alone
  }
  // Later work of the device runs after this one, so that it may use the workspace again.
  if (workspace != nullptr) state.pool.give_back(std::move(workspace));
  TENON_RETURN_IF_ERROR(std::move(status));
  if (step.out_symbols.empty()) {
    // What others want leaves at once, before work of this device that they do not wait for.
    for (uint32_t slot : step.outputs) {
      if (leaves_[slot] && device->has_queue()) TENON_RETURN_IF_ERROR(copy_to_host(slot));
    }
    return {};
  }
  TENON_RETURN_IF_ERROR(wait(step.device));
  for (size_t i = 0; i < out_symbols.size(); ++i) {
    if (out_symbols[i] < 0) return error(TENON_INTERNAL, "T0612", "device {} left a data-dependent dim unset", quoted(device->name()));
    symbols_[step.out_symbols[i]] = out_symbols[i];
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    uint64_t bytes = 0;
    TENON_RETURN_IF_ERROR(bytes_of(step.outputs[i], &bytes));
    const Place& place = slots_[step.outputs[i]].places[step.device];
    if (place.buffer == nullptr || bytes > place.buffer->size_bytes()) {
      return error(TENON_INTERNAL, "T0612", "device {} made {} bytes in a buffer of {}", quoted(device->name()), bytes,
                   place.buffer == nullptr ? 0 : place.buffer->size_bytes());
    }
  }
  return {};
}

Status Runner::copy_to_device(uint32_t slot, uint32_t device_index) {
  SlotState& slot_state = slots_[slot];
  DeviceState& state = devices_[device_index];
  const std::shared_ptr<Device>& device = plan_->devices[device_index];
  uint64_t bytes = 0;
  TENON_RETURN_IF_ERROR(bytes_of(slot, &bytes));
  TENON_RETURN_IF_ERROR(copy_to_host(slot));
  tenon_fence_point_t after{};
  if (device->has_queue()) {
    slot_state.held = slot_state.stable_host = true;  // queued work reads it later
    TENON_RETURN_IF_ERROR(relay_to(slot, device_index, bytes, &after));
  } else {
    TENON_RETURN_IF_ERROR(await_host(slot));
  }
  TENON_ASSIGN_OR_RETURN(Buffer imported, Buffer::import(device, slot_state.host, bytes));
  if (imported) {
    slot_state.places[device_index] = {std::make_shared<Buffer>(std::move(imported)), false, after};
    return {};
  }
  TENON_ASSIGN_OR_RETURN(auto buffer, state.pool.take(bytes));
  slot_state.places[device_index] = {buffer, true, {}};
  if (bytes == 0) return {};
  if (buffer->host() != nullptr && !device->has_queue()) {
    std::memcpy(buffer->host(), slot_state.host, bytes);
    return {};
  }
  tenon_copy_t copy{};
  copy.size_bytes = sizeof(copy);
  copy.direction = TENON_COPY_HOST_TO_DEVICE;
  copy.to = buffer->handle();
  copy.length_bytes = bytes;
  copy.host_from = slot_state.host;
  statistics_.transferred_bytes += bytes;
  if (!device->has_queue()) return device->copy(copy);
  TENON_RETURN_IF_ERROR(queue_of(device_index));
  TENON_RETURN_IF_ERROR(state.queue->copy(copy, after));
  state.depends(after);
  return {};
}

// Gives the point at which `device` may read the slot's host memory; the null point when it may at once.
Status Runner::relay_to(uint32_t slot, uint32_t device, uint64_t bytes, tenon_fence_point_t* out) {
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
  source.relay->add({source.queue->fence(), state.ready, fence.get(), value, const_cast<void*>(state.host), state.host_owner ? bytes : 0,
                     source.spoilt.get(), devices_[device].spoilt.get()});
  *out = {fence->fence(), value};
  return {};
}

// After it SlotState::host is where the value is, or will be once await_host() has returned.
Status Runner::copy_to_host(uint32_t slot) {
  SlotState& slot_state = slots_[slot];
  if (slot_state.has_host) return {};
  uint32_t from = 0;
  while (from < slot_state.places.size() && slot_state.places[from].buffer == nullptr) ++from;
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

Status Runner::submit_copy_to_host(uint32_t slot, uint32_t from, uint64_t bytes) {
  SlotState& slot_state = slots_[slot];
  const std::shared_ptr<Device>& device = plan_->devices[from];
  std::shared_ptr<std::byte> memory;
  TENON_RETURN_IF_ERROR(take_host(bytes, &memory));
  slot_state.host = memory.get();
  slot_state.host_owner = memory;  // stays until the queue is done, also when a wait fails
  if (bytes != 0) {
    tenon_copy_t copy{};
    copy.size_bytes = sizeof(copy);
    copy.direction = TENON_COPY_DEVICE_TO_HOST;
    copy.from = slot_state.places[from].buffer->handle();
    copy.length_bytes = bytes;
    copy.host_to = memory.get();
    statistics_.transferred_bytes += bytes;
    if (device->has_queue()) {
      TENON_RETURN_IF_ERROR(queue_of(from));
      Queue& queue = *devices_[from].queue;
      // After the device's work so far, not merely behind it: when that fails, nothing is copied.
      TENON_RETURN_IF_ERROR(queue.copy(copy, queue.last()));
      slot_state.source = from;
      slot_state.ready = queue.submitted();
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
  TENON_RETURN_IF_ERROR(wait_for(state.source, state.ready));
  state.ready = 0;
  return {};
}

Status Runner::queue_of(uint32_t device) {
  if (devices_[device].queue != nullptr) return {};
  TENON_ASSIGN_OR_RETURN(devices_[device].queue, Queue::create(plan_->devices[device]));
  return {};
}

// A cancelled operation still waits, since buffers are in use, and says so.
Status Runner::wait_for(uint32_t device, uint64_t value) {
  Queue* const queue = devices_[device].queue.get();
  if (queue == nullptr || queue->reached(value)) return {};
  uint64_t seen = progress(), since = now_ns();
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const bool reached, queue->poll(value));
    if (reached) return check_cancelled();
    if (plan_->devices[device]->abandoned()) return given_up_.ok() ? plan_->devices[device]->alive() : given_up_;
    if (const uint64_t now = progress(); now != seen) {
      seen = now;
      since = now_ns();
    } else if ((now_ns() - since) / 1'000'000'000 >= limit(Limit::kDeviceWaitSeconds)) {
      give_up_one(device);
      since = now_ns();
    }
  }
}

Status Runner::wait(uint32_t device) {
  return devices_[device].queue == nullptr ? Status() : wait_for(device, devices_[device].queue->submitted());
}

uint64_t Runner::progress() const {
  uint64_t sum = 0;
  for (const DeviceState& device : devices_) {
    if (device.queue != nullptr) sum += device.queue->progress();
  }
  return sum;
}

// Nothing moves: of the devices that wait for no other, the first with work left is given up.
void Runner::give_up_one(uint32_t waited_for) {
  uint32_t culprit = waited_for;
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    const DeviceState& state = devices_[d];
    if (state.queue == nullptr || plan_->devices[d]->abandoned()) continue;
    if (state.queue->progress() >= state.queue->submitted() || state.waits()) continue;
    culprit = d;
    break;
  }
  Device& device = *plan_->devices[culprit];
  device.abandon();
  given_up_ = error(TENON_DEVICE_LOST, "T0618", "device {} finished none of its work for {} s; it is given up, and what it holds stays behind",
                    quoted(device.name()), limit(Limit::kDeviceWaitSeconds))
                  .with("device", device.name());
}

// The first failure of a device, before those of devices that only worked on what it did not make.
Status Runner::wait_all() {
  Status first = given_up_, spoilt;
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    if (devices_[d].queue == nullptr) continue;
    Status status = wait(d);
    Status& kept = devices_[d].spoilt->load(std::memory_order_acquire) ? spoilt : first;
    if (kept.ok() && !status.ok()) kept = std::move(status).with_context(kernel_context(*plan_->devices[d]));
  }
  return first.ok() ? spoilt : first;
}

Status Runner::take_outputs() {
  for (uint32_t slot : plan_->output_slots) {
    TENON_RETURN_IF_ERROR(copy_to_host(slot));
    TENON_RETURN_IF_ERROR(await_host(slot));
    OutputArray out;
    out.dtype = plan_->slots[slot].dtype;
    TENON_RETURN_IF_ERROR(plan_->shapes.evaluate(plan_->slots[slot].dims, symbols_, &out.dims));
    out.data = slots_[slot].host;
    outputs_.push_back(std::move(out));
  }
  return {};
}

void Runner::release_dead(uint32_t step) {
  for (uint32_t s : dead_after_[step]) {
    for (size_t d = 0; d < devices_.size(); ++d) {
      Place& place = slots_[s].places[d];
      if (place.buffer == nullptr) continue;
      if (slots_[s].held && place.buffer->host() != nullptr && place.buffer->host() == slots_[s].host) continue;
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
