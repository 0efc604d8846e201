// Remembers a run, and runs again what is like it (docs/adr/0059).
#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/process/operation.h"
#include "core/runtime/run/repeat.h"
#include "core/runtime/values/arrays.h"

namespace tenon::runtime {

// Memory of the caller in the hands of a device, until the run ends.
class Repeat::Imports {
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

void Repeat::remember(std::span<const Argument> inputs, std::span<const OutputArray> outputs,
                      bool outputs_leave) {
  const Sizes::OfStep& last = run_.sizes.last_of(step_);
  outputs_leave_ = outputs_leave;
  symbols_ = last.symbols;
  workspace_bytes_ = last.needs->workspace_bytes;
  arrays_.clear();
  moved_inputs_.clear();
  moved_outputs_.clear();
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (!remember_input(i, inputs[i])) return;
  }
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    if (!remember_output(i, outputs[i])) return;
  }
  ready_ = true;
}

bool Repeat::remember_input(uint32_t index, const Argument& input) {
  Known& known = inputs_[index];
  const tenon_array_t& array = *input.array;
  known.dtype = array.dtype;
  known.dims.assign(array.dims, array.dims + array.rank);
  known.bytes = known.span == kNone ? 0 : run_.sizes.bytes_of(step_.inputs[known.span]).value_or(0);
  if (known.span != kNone && known.bytes == 0) return false;
  if (input.tensor == nullptr) {
    values_[index] = kArray;
    arrays_.push_back(index);
    const auto [begin, end] = byte_range(array);
    known.range = {begin, end};
    return is_dense(array);
  }
  values_[index] = input.tensor->value();
  const auto begin = reinterpret_cast<uintptr_t>(input.tensor->host());
  known.range = {begin, begin == 0 ? 0 : begin + input.tensor->size_bytes()};
  if (known.span == kNone) return true;
  Buffer* const there = input.tensor->on(device_);
  if (there == nullptr) return false;
  input_spans_[known.span] = {there->handle(), 0};
  return true;
}

bool Repeat::remember_output(uint32_t index, const OutputArray& output) {
  Known& known = outputs_[index];
  const uint32_t slot = step_.outputs[known.span];
  const uint64_t size_bytes = run_.sizes.last_of(step_).needs->outputs[known.span].size_bytes;
  if (size_bytes == TENON_SIZE_UNKNOWN || size_bytes == 0) return false;
  Result<uint64_t> value_bytes = run_.sizes.bytes_of(slot);
  if (!value_bytes.ok()) return false;
  known.value_bytes = *value_bytes;
  known.dtype = output.dtype;
  known.dims = output.dims;
  known.bytes = size_bytes;
  known.range = {};
  known.made = false;
  if (outputs_leave_) return true;  // the next run says where
  const SlotPlace& place = run_.place(slot, step_.device);
  if (!place.pooled || output.data != place.buffer->host()) return false;
  output_spans_[known.span] = {place.buffer->handle(), 0};
  return true;
}

void Repeat::release_workspace(uint64_t least_bytes) {
  if (workspace_ == nullptr || workspace_->size_bytes() < least_bytes) return;
  run_.memory.pool(step_.device).give_back(std::move(workspace_));
}

void Repeat::drop_failed() {
  forget();
  for (Known& output : outputs_) output.buffer.reset();
}

std::shared_ptr<Tensor> Repeat::take_made(uint32_t output) {
  Known& known = outputs_[output];
  return std::make_shared<Tensor>(known.dtype, known.dims, known.value_bytes,
                                  std::exchange(known.buffer, nullptr));
}

// False: the device does not take the caller's memory.
inline bool Repeat::import_inputs(Imports& imports) {
  for (const uint32_t i : arrays_) {
    const Known& known = inputs_[i];
    if (known.span == kNone) continue;
    tenon_buffer_t* const buffer = imports.add(known.range.begin, known.bytes, 0);
    if (buffer == nullptr) return false;
    input_spans_[known.span] = {buffer, 0};
  }
  return true;
}

// Where the outputs of this run go. False as above.
Result<bool> Repeat::place_outputs(Imports& imports) {
  for (Known& known : outputs_) {
    tenon_buffer_t* buffer = nullptr;
    if (known.made) {
      TENON_ASSIGN_OR_RETURN(known.buffer,
                             run_.memory.take(step_.device, known.bytes, nullptr, true));
      run_.memory.pool(step_.device).forget(*known.buffer);  // it does not come back
      if (known.buffer->host() == nullptr) return false;     // it may have to be read there
      buffer = known.buffer->handle();
    } else {
      buffer = imports.add(known.range.begin, known.bytes, TENON_IMPORT_WRITE);
    }
    if (buffer == nullptr) return false;
    output_spans_[known.span] = {buffer, 0};
  }
  return true;
}

inline tenon_call_t Repeat::next_call() const {
  auto call = sized<tenon_call_t>();
  call.input_count = static_cast<uint32_t>(input_spans_.size());
  call.output_count = static_cast<uint32_t>(output_spans_.size());
  call.span_bytes = sizeof(tenon_span_t);
  call.symbols = {symbols_.data(), static_cast<uint32_t>(symbols_.size())};
  call.inputs = input_spans_.data();
  call.outputs = output_spans_.data();
  if (workspace_ != nullptr) call.workspace = workspace_->handle();
  return call;
}

std::optional<Status> Repeat::run() {
  TENON_CHECK(ready(), "a run is repeated that is not known");
  if (!apart()) return std::nullopt;
  TENON_RETURN_IF_ERROR(check_cancelled());
  if (workspace_bytes_ != 0 && workspace_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(workspace_, run_.memory.take(step_.device, workspace_bytes_));
  }
  Imports imports(device_, &imported_);
  if (!import_inputs(imports)) return std::nullopt;
  if (outputs_leave_) {
    TENON_ASSIGN_OR_RETURN(const bool placed, place_outputs(imports));
    if (!placed) return std::nullopt;
  }
  tenon_call_t call = next_call();
  std::optional<uint32_t> asked;
  call.output_self = &asked;
  call.output = refuse_output;
  Status status = executable_.execute(call);
  if (asked) {
    return error(TENON_INTERNAL, "T0612", "a device asks for the buffer of output {} out of turn",
                 *asked);
  }
  TENON_RETURN_IF_ERROR(std::move(status), "{}", kernel_context(device_));
  return Status();
}

}  // namespace tenon::runtime
