// Runs that are like the one before: what is remembered of a run, and the run that uses it
// (docs/adr/0059).
#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <optional>

#include "core/base/errors/failure.h"
#include "core/base/process/operation.h"
#include "core/runtime/run/repeat.h"
#include "core/runtime/run/run_state.h"
#include "core/runtime/values/arrays.h"

namespace tenon::runtime {

// Memory of the caller in the hands of a device, until the run ends.
class Runner::Imports {
 public:
  Imports(Device& device, std::vector<tenon_buffer_t*>* made)
      : device_(device), api_(*device.apis().device), made_(*made) {
    made_.clear();
  }
  ~Imports() {
    for (tenon_buffer_t* buffer : made_) {
      if (device_.abandoned()) {
        device_.leave_behind(buffer);
      } else if (!plugins_shut_down()) {
        (void)api_.free(api_.self, device_.handle(), buffer);
      }
    }
  }
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;

  // Null if the device does not take it.
  tenon_buffer_t* add(uintptr_t data, uint64_t bytes, uint32_t flags) {
    const tenon_memory_import_t record = {sizeof record, flags, reinterpret_cast<void*>(data),
                                          bytes};
    tenon_buffer_t* buffer = nullptr;
    if (api_.import(api_.self, device_.handle(), &record, &buffer) != TENON_OK) {
      clear_failure();
      return nullptr;
    }
    if (buffer != nullptr) made_.push_back(buffer);
    return buffer;
  }

 private:
  Device& device_;
  const tenon_device_api_t& api_;
  std::vector<tenon_buffer_t*>& made_;
};

namespace {

// Every output has its buffer already. A request of a device is reported when the device returns,
// however it treats the refusal.
tenon_code_t refuse_output(void* self, uint32_t index, uint64_t, tenon_buffer_t**, uint64_t*) {
  *static_cast<std::optional<uint32_t>*>(self) = index;
  return TENON_INTERNAL;
}

}  // namespace

// Whether the run that has just succeeded is one whose like can be repeated: with plain arrays and
// tensors, of which nothing was copied.
bool Runner::can_repeat(std::span<const Argument> inputs, std::span<const GivenSize> sizes,
                        const Natives& natives) const {
  if (repeat_ == nullptr || trace_ != nullptr || !sizes.empty() || !natives.empty()) return false;
  if (statistics_.repacked_bytes != 0 || statistics_.copied_bytes != 0) return false;
  return std::ranges::none_of(inputs, &Argument::donated);
}

// As far as everything lies where the next run finds it.
void Runner::remember(std::span<const Argument> inputs, bool outputs_leave) {
  Repeat& repeat = *repeat_;
  const Step& step = repeat.step_;
  const StepNeeds& known = step_needs_[step.executable];
  repeat.outputs_leave_ = outputs_leave;
  repeat.symbols_ = known.symbols;
  repeat.workspace_bytes_ = known.needs->workspace_bytes;
  repeat.arrays_.clear();
  repeat.moved_inputs_.clear();
  repeat.moved_outputs_.clear();
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (!remember_input(i, inputs[i])) return;
  }
  for (uint32_t i = 0; i < repeat.outputs_.size(); ++i) {
    if (!remember_output(i, known.needs->outputs[repeat.outputs_[i].span])) return;
  }
  repeat.ready_ = true;
}

bool Runner::remember_input(uint32_t index, const Argument& input) {
  Repeat& repeat = *repeat_;
  Repeat::Known& known = repeat.inputs_[index];
  const tenon_array_t& array = *input.array;
  known.dtype = array.dtype;
  known.dims.assign(array.dims, array.dims + array.rank);
  known.bytes = 0;
  if (known.span != Repeat::kNone &&
      (!bytes_of(repeat.step_.inputs[known.span], &known.bytes).ok() || known.bytes == 0))
    return false;
  if (input.tensor == nullptr) {
    repeat.values_[index] = Repeat::kArray;
    repeat.arrays_.push_back(index);
    const auto [begin, end] = byte_range(array);
    known.range = {begin, end};
    return is_dense(array);
  }
  repeat.values_[index] = input.tensor->value();
  const auto begin = reinterpret_cast<uintptr_t>(input.tensor->host());
  known.range = {begin, begin == 0 ? 0 : begin + input.tensor->size_bytes()};
  if (known.span == Repeat::kNone) return true;
  Buffer* const there = input.tensor->on(repeat.device_);
  if (there == nullptr) return false;
  repeat.input_spans_[known.span] = {there->handle(), 0};
  return true;
}

bool Runner::remember_output(uint32_t index, const Needs::Output& need) {
  Repeat& repeat = *repeat_;
  Repeat::Known& known = repeat.outputs_[index];
  const uint32_t slot = plan_->output_slots[index];
  if (need.size_bytes == TENON_SIZE_UNKNOWN || need.size_bytes == 0) return false;
  if (!bytes_of(slot, &known.value_bytes).ok()) return false;
  known.dtype = outputs_[index].dtype;
  known.dims = outputs_[index].dims;
  known.bytes = need.size_bytes;
  known.range = {};
  known.made = false;
  if (repeat.outputs_leave_) return true;  // the next run says where
  const Place& place = slots_[slot].places[repeat.step_.device];
  if (!place.pooled || outputs_[index].data != place.buffer->host()) return false;
  repeat.output_spans_[known.span] = {place.buffer->handle(), 0};
  return true;
}

// Before a run that finds out everything again.
void Runner::forget_repeat() {
  if (repeat_ == nullptr) return;
  repeat_->forget();
  if (repeat_->workspace_ == nullptr) return;
  devices_[repeat_->step_.device].pool.give_back(std::move(repeat_->workspace_));
}

// A large workspace goes to the pool between calls, where others find it. Work that needs so much
// takes far longer than to look for it again.
void Runner::let_others_have(Repeat& repeat) {
  constexpr uint64_t kLarge = 1 << 20;
  if (repeat.workspace_ == nullptr || repeat.workspace_->size_bytes() < kLarge) return;
  devices_[repeat.step_.device].pool.give_back(std::move(repeat.workspace_));
}

std::optional<Status> Runner::run_again(bool timed) {
  Repeat& repeat = *repeat_;
  TENON_CHECK(repeat.ready(), "a run is repeated that is not known");
  const uint64_t begin = timed ? now_ns() : 0;
  std::optional<Status> status = repeat_work();
  if (timed) statistics_.run_ms = static_cast<double>(now_ns() - begin) / 1e6;
  if (status && status->ok()) return status;
  repeat.forget();
  for (Repeat::Known& output : repeat.outputs_) output.buffer.reset();
  if (status) drop_run_state();  // a run that failed has no outputs
  return status;
}

std::shared_ptr<Tensor> Runner::take_made(uint32_t output) {
  Repeat::Known& known = repeat_->outputs_[output];
  return std::make_shared<Tensor>(known.dtype, known.dims, known.value_bytes,
                                  std::exchange(known.buffer, nullptr));
}

// Where the outputs of this run go. False: the device does not take the caller's memory.
Result<bool> Runner::place_again(Imports& imports) {
  Repeat& repeat = *repeat_;
  for (Repeat::Known& known : repeat.outputs_) {
    tenon_buffer_t* buffer = nullptr;
    if (known.made) {
      TENON_ASSIGN_OR_RETURN(known.buffer,
                             take_buffer(repeat.step_.device, known.bytes, nullptr, true));
      devices_[repeat.step_.device].pool.forget(*known.buffer);  // it does not come back
      if (known.buffer->host() == nullptr) return false;         // it may have to be read there
      buffer = known.buffer->handle();
    } else {
      buffer = imports.add(known.range.begin, known.bytes, TENON_IMPORT_WRITE);
    }
    if (buffer == nullptr) return false;
    repeat.output_spans_[known.span] = {buffer, 0};
  }
  return true;
}

std::optional<Status> Runner::repeat_work() {
  Repeat& repeat = *repeat_;
  if (!repeat.apart()) return std::nullopt;
  TENON_RETURN_IF_ERROR(check_cancelled());
  if (repeat.workspace_bytes_ != 0 && repeat.workspace_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(repeat.workspace_,
                           take_buffer(repeat.step_.device, repeat.workspace_bytes_));
  }
  Imports imports(repeat.device_, &repeat.imported_);
  for (const uint32_t i : repeat.arrays_) {
    const Repeat::Known& known = repeat.inputs_[i];
    if (known.span == Repeat::kNone) continue;
    tenon_buffer_t* const buffer = imports.add(known.range.begin, known.bytes, 0);
    if (buffer == nullptr) return std::nullopt;
    repeat.input_spans_[known.span] = {buffer, 0};
  }
  if (repeat.outputs_leave_) {
    TENON_ASSIGN_OR_RETURN(const bool placed, place_again(imports));
    if (!placed) return std::nullopt;
  }
  auto call = sized<tenon_call_t>();
  call.input_count = static_cast<uint32_t>(repeat.input_spans_.size());
  call.output_count = static_cast<uint32_t>(repeat.output_spans_.size());
  call.span_bytes = sizeof(tenon_span_t);
  call.symbols = {repeat.symbols_.data(), static_cast<uint32_t>(repeat.symbols_.size())};
  call.inputs = repeat.input_spans_.data();
  call.outputs = repeat.output_spans_.data();
  if (repeat.workspace_ != nullptr) call.workspace = repeat.workspace_->handle();
  std::optional<uint32_t> asked;
  call.output_self = &asked;
  call.output = refuse_output;
  Status status = repeat.executable_.execute(call);
  if (asked) {
    return error(TENON_INTERNAL, "T0612", "a device asks for the buffer of output {} out of turn",
                 *asked);
  }
  TENON_RETURN_IF_ERROR(std::move(status), "{}", kernel_context(repeat.device_));
  return Status();
}

}  // namespace tenon::runtime
