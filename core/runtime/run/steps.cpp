#include "core/runtime/run/steps.h"

#include <tenon/cpp/record.hpp>

#include <functional>
#include <mutex>

#include "core/base/errors/failure.h"
#include "core/base/process/operation.h"
#include "core/runtime/run/copies.h"

namespace tenon::runtime {
namespace {

bool is_asked_for(const Needs::Output& need) {
  return need.size_bytes == TENON_SIZE_UNKNOWN;
}

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

// ---- All steps ----

Steps::Steps(RunContext& run) : run_(run), dead_after_(run.plan.steps.size()) {
  for (uint32_t s = 0; s < run.plan.slots.size(); ++s) {
    const uint32_t last = run.plan.slots[s].last_step;
    if (last < dead_after_.size()) dead_after_[last].push_back(s);
  }
}

void Steps::begin_run() {
  drop_sinks();
  if (trace_ == nullptr) return;
  for (const auto& device : run_.plan.devices)
    sinks_.push_back(std::make_unique<TraceSink>(trace_, device->name()));
}

// A device that was given up may still report its work.
void Steps::drop_sinks() {
  for (size_t d = 0; d < sinks_.size(); ++d) {
    if (run_.plan.devices[d]->abandoned()) keep_for_good(std::move(sinks_[d]));
  }
  sinks_.clear();
}

Status Steps::run() {
  for (uint32_t i = 0; i < run_.plan.steps.size(); ++i) {
    TENON_RETURN_IF_ERROR(check_cancelled());
    const uint64_t begin_ns = traced() ? now_ns() : 0;
    const uint64_t transferred = run_.statistics.transferred_bytes;
    TENON_RETURN_IF_ERROR(run_step(i));
    if (traced()) {
      trace_step(run_.plan.steps[i], begin_ns, run_.statistics.transferred_bytes - transferred);
    }
    release_dead(i);
  }
  return {};
}

Status Steps::run_step(uint32_t index) {
  const Step& step = run_.plan.steps[index];
  if (step.kind == Step::Kind::kExecute) {
    TENON_RETURN_IF_ERROR(execute(index), "{}", kernel_context(*run_.plan.devices[step.device]));
    return {};
  }
  if (step.device != kHostPlace) return copy_to_device(run_, step.slot, step.device);
  return run_.slots[step.slot].stays ? Status() : copy_to_host(run_, step.slot);
}

void Steps::trace_step(const Step& step, uint64_t begin_ns, uint64_t transferred_bytes) {
  const bool copy = step.kind == Step::Kind::kCopy;
  const std::string place =
      step.device == kHostPlace ? "host" : run_.plan.devices[step.device]->name();
  trace_->add({fmt::format("{} {}", copy ? "copy to" : "run on", place), "", "host",
               copy ? "copy" : "run", begin_ns, now_ns(), 0, static_cast<double>(transferred_bytes),
               0});
}

// Tensors keep theirs. What other queues read stays, and so does what the host or a queue reads
// where it was imported.
void Steps::release_dead(uint32_t index) {
  for (const uint32_t slot : dead_after_[index]) {
    const SlotState& value = run_.slots[slot];
    if (value.tensor != nullptr) continue;
    for (uint32_t d = 0; d < run_.devices.size(); ++d) {
      SlotPlace& place = run_.place(slot, d);
      if (place.buffer == nullptr || place.lent) continue;
      const void* const host = place.buffer->host();
      if (value.held && host != nullptr && host == value.host) continue;
      if (place.pooled || !run_.plan.devices[d]->has_queue()) run_.memory.release(d, place);
    }
  }
}

// ---- One step that executes ----

Status Steps::execute(uint32_t index) {
  const Step& step = run_.plan.steps[index];
  TENON_ASSIGN_OR_RETURN(const Sizes::OfStep* const sizes, run_.sizes.of(step));
  const Needs& needs = *sizes->needs;
  list_inputs(step);
  TENON_RETURN_IF_ERROR(place_outputs(index, needs));
  std::shared_ptr<Buffer> workspace;
  if (needs.workspace_bytes != 0) {
    TENON_ASSIGN_OR_RETURN(workspace,
                           run_.memory.take_workspace(step.device, needs.workspace_bytes));
  }
  run_.statistics.arena_lower_bound_bytes =
      std::max(run_.statistics.arena_lower_bound_bytes, needs.lower_bound_bytes);

  const tenon_call_t call = call_of(step, *sizes, workspace.get());
  // The device requests a buffer during the call if only the run can find the size.
  const bool asks = std::ranges::any_of(needs.outputs, is_asked_for);
  const bool queued = !asks && run_.plan.executables[step.executable]->on_queue();
  Status status = queued ? submit(step, call) : execute_now(step, call, asks);
  // Later work of the device runs after this one, so it may reuse the workspace.
  if (workspace != nullptr) run_.memory.pool(step.device).give_back(std::move(workspace));
  TENON_RETURN_IF_ERROR(std::move(status));
  if (!step.out_symbols.empty()) {
    TENON_RETURN_IF_ERROR(run_.queues.wait(step.device));
    TENON_RETURN_IF_ERROR(run_.sizes.learn(step, run_.out_symbols.back()));
    return check_made(step);
  }
  TENON_RETURN_IF_ERROR(check_made(step));
  return send_outputs(step, queued);
}

void Steps::list_inputs(const Step& step) {
  inputs_.clear(), waits_.clear();
  for (const uint32_t slot : step.inputs) run_.slots[slot].reads = 0;
  for (const uint32_t slot : step.inputs) {
    ++run_.slots[slot].reads;
    const SlotPlace& place = run_.place(slot, step.device);
    TENON_CHECK(place.buffer != nullptr, "a step reads slot {} before it is there", slot);
    inputs_.push_back({place.buffer->handle(), 0});
    if (place.after.fence != nullptr) waits_.push_back(place.after);
  }
}

Status Steps::place_outputs(uint32_t index, const Needs& needs) {
  const Step& step = run_.plan.steps[index];
  outputs_.clear();
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const Needs::Output& need = needs.outputs[i];
    TENON_RETURN_IF_ERROR(check_need(step, i, need));
    if (is_asked_for(need)) {
      outputs_.push_back({});  // filled in when the device knows the size
      continue;
    }
    TENON_RETURN_IF_ERROR(place_output(run_, index, i, need));
    outputs_.push_back({run_.place(step.outputs[i], step.device).buffer->handle(), 0});
    // The output may have got the home of an input, which is now another buffer.
    if (need.alias_input == TENON_NO_ALIAS) continue;
    const SlotPlace& read = run_.place(step.inputs[need.alias_input], step.device);
    if (read.buffer != nullptr) inputs_[need.alias_input].buffer = read.buffer->handle();
  }
  return {};
}

Status Steps::check_need(const Step& step, size_t output, const Needs::Output& need) {
  const std::string& device = run_.plan.devices[step.device]->name();
  uint64_t bytes = 0;
  if (step.out_symbols.empty()) {
    TENON_ASSIGN_OR_RETURN(bytes, run_.sizes.bytes_of(step.outputs[output]));
  }
  if (need.size_bytes < bytes) {
    return error(TENON_INTERNAL, "T0612", "device {} asks {} bytes for an output of {}",
                 quoted(device), need.size_bytes, bytes);
  }
  if (need.alias_input != TENON_NO_ALIAS && need.alias_input >= step.inputs.size()) {
    return error(TENON_INTERNAL, "T0612", "device {} lets an output share input {} of {}",
                 quoted(device), need.alias_input, step.inputs.size());
  }
  return {};
}

tenon_call_t Steps::call_of(const Step& step, const Sizes::OfStep& sizes, const Buffer* workspace) {
  auto call = sized<tenon_call_t>();
  call.input_count = static_cast<uint32_t>(inputs_.size());
  call.output_count = static_cast<uint32_t>(outputs_.size());
  call.symbols = {sizes.symbols.data(), static_cast<uint32_t>(sizes.symbols.size())};
  call.inputs = inputs_.data();
  call.outputs = outputs_.data();
  call.span_bytes = sizeof(tenon_span_t);
  if (workspace != nullptr) call.workspace = workspace->handle();
  if (!step.out_symbols.empty()) {
    std::vector<int64_t>& values = run_.out_symbols.emplace_back(step.out_symbols.size(), -1);
    call.out_symbols = values.data();
    call.out_symbol_count = static_cast<uint32_t>(values.size());
  }
  if (traced()) call.profile = sinks_[step.device]->get();
  return call;
}

// In the order of the device's queue.
Status Steps::submit(const Step& step, tenon_call_t call) {
  TENON_ASSIGN_OR_RETURN(Queue* const queue, run_.queues.of(step.device));
  call.queue = queue->handle();
  call.waits = waits_.data();
  call.wait_count = static_cast<uint32_t>(waits_.size());
  call.signal = queue->next_signal();
  for (const tenon_fence_point_t& point : waits_) run_.devices[step.device].depends(point);
  Status status = run_.plan.executables[step.executable]->execute(call);
  if (!status.ok()) queue->refused();
  return status;
}

// No queue orders it, so everything it reads must be there, including host memory that another
// device fills. asks: for the buffers of outputs.
Status Steps::execute_now(const Step& step, tenon_call_t call, bool asks) {
  for (const uint32_t slot : step.inputs) {
    if (run_.place(slot, step.device).after.fence != nullptr)
      TENON_RETURN_IF_ERROR(run_.queues.wait_for_host(slot));
  }
  TENON_RETURN_IF_ERROR(run_.queues.wait(step.device));
  OutputRequests requests(
      *run_.plan.devices[step.device],
      [this, &step](uint64_t bytes) { return run_.memory.take(step.device, bytes); },
      asks ? outputs_.size() : 0);
  call.output_self = &requests;
  call.output = OutputRequests::give;
  Status status = run_.plan.executables[step.executable]->execute(call);
  for (size_t i = 0; i < requests.buffers.size(); ++i) {
    if (requests.buffers[i] != nullptr)
      run_.place(step.outputs[i], step.device) = {std::move(requests.buffers[i]), true};
  }
  return requests.failure.ok() ? std::move(status) : std::move(requests.failure);
}

// Values for other devices and for the host leave at once, ahead of this device's work that those
// do not wait for.
Status Steps::send_outputs(const Step& step, bool queued) {
  const DeviceState& state = run_.devices[step.device];
  if (!state.device->has_queue()) return {};
  for (const uint32_t slot : step.outputs) {
    if (queued) run_.place(slot, step.device).made = state.queue->last();
    TENON_RETURN_IF_ERROR(copy_to_host_at_once(run_, slot, step.device));
  }
  return {};
}

// Every output must exist and be large enough, also those whose buffers the device requested or
// should have requested.
Status Steps::check_made(const Step& step) {
  for (const uint32_t slot : step.outputs) {
    TENON_ASSIGN_OR_RETURN(const uint64_t bytes, run_.sizes.bytes_of(slot));
    const SlotPlace& place = run_.place(slot, step.device);
    if (place.buffer == nullptr || bytes > place.buffer->size_bytes()) {
      return error(TENON_INTERNAL, "T0612", "device {} made {} bytes in a buffer of {}",
                   quoted(run_.plan.devices[step.device]->name()), bytes,
                   place.buffer == nullptr ? 0 : place.buffer->size_bytes());
    }
  }
  return {};
}

}  // namespace tenon::runtime
