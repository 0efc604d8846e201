#include "core/runtime/run/repeat.h"

#include <algorithm>

#include "core/ir/dtype.h"
#include "core/runtime/run/outputs.h"
#include "core/runtime/values/arrays.h"

namespace tenon::runtime {
namespace {

constexpr bool is_execute(const Step& step) {
  return step.kind == Step::Kind::kExecute;
}

// It has finished when it returns, reads the caller's memory where it is, and needs no turns.
bool works_at_once(const Device& device) {
  return !device.has_queue() && device.host_visible() && device.apis().device->import != nullptr &&
         device.info().threading == TENON_THREADING_FREE;
}

}  // namespace

// The outputs are those of the step, each once, and neither inputs nor constants.
bool Repeat::fits(const Plan& plan, const Step& step) {
  const Executable* const executable = plan.executables[step.executable].get();
  if (plan.devices.size() != 1 || executable == nullptr || executable->on_queue()) return false;
  if (!works_at_once(*plan.devices[step.device]) || !step.out_symbols.empty()) return false;
  if (std::ranges::any_of(plan.slots,
                          [](const Slot& slot) { return slot.source == Slot::Source::kConstant; }))
    return false;
  std::vector<uint32_t> made = step.outputs, wanted = plan.output_slots;
  std::ranges::sort(made);
  std::ranges::sort(wanted);
  return made == wanted && std::ranges::adjacent_find(made) == made.end();
}

std::unique_ptr<Repeat> Repeat::of(RunContext& run) {
  const Plan& plan = run.plan;
  const auto step = std::ranges::find_if(plan.steps, is_execute);
  if (step == plan.steps.end() || std::ranges::count_if(plan.steps, is_execute) != 1)
    return nullptr;
  if (!fits(plan, *step)) return nullptr;
  return std::unique_ptr<Repeat>(new Repeat(run, *step));
}

Repeat::Repeat(RunContext& run, const Step& step)
    : run_(run),
      device_(*run.plan.devices[step.device]),
      executable_(*run.plan.executables[step.executable]),
      step_(step),
      values_(run.plan.shapes.inputs().size()),
      inputs_(run.plan.shapes.inputs().size()),
      outputs_(run.plan.output_slots.size()),
      input_spans_(step.inputs.size()),
      output_spans_(step.outputs.size()) {
  for (uint32_t i = 0; i < step.inputs.size(); ++i)
    inputs_[run.plan.slots[step.inputs[i]].input].span = i;
  for (uint32_t i = 0; i < outputs_.size(); ++i) {
    const auto at = std::ranges::find(step.outputs, run.plan.output_slots[i]);
    outputs_[i].span = static_cast<uint32_t>(at - step.outputs.begin());
  }
  // A run allocates nothing.
  moved_inputs_.reserve(inputs_.size());
  moved_outputs_.reserve(outputs_.size());
  arrays_.reserve(inputs_.size());
  imported_.reserve(inputs_.size() + outputs_.size());
}

bool Repeat::same_type(const Known& known, const tenon_array_t& array) {
  if (array.data == nullptr || array.dtype != known.dtype || array.rank != known.dims.size())
    return false;
  if (array.rank != 0 && array.dims == nullptr) return false;
  if (!std::equal(known.dims.begin(), known.dims.end(), array.dims)) return false;
  return array.strides_bytes == nullptr || (ir::dtype_bits(array.dtype) >= 8 && is_dense(array));
}

// What no step reads may be a constant of what was loaded for this very tensor.
bool Repeat::take(uint32_t input, const Tensor& tensor) {
  Known& known = inputs_[input];
  if (values_[input] == kArray || known.span == kNone || tensor.given_up()) return false;
  if (tensor.dtype() != known.dtype || tensor.dims() != known.dims) return false;
  Buffer* const there = tensor.on(device_);
  if (there == nullptr) return false;
  values_[input] = tensor.value();
  input_spans_[known.span] = {there->handle(), 0};
  const auto begin = reinterpret_cast<uintptr_t>(tensor.host());
  known.range = {begin, begin == 0 ? 0 : begin + tensor.size_bytes()};
  moved_inputs_.push_back(input);
  return true;
}

bool Repeat::take(uint32_t input, const tenon_array_t& array) {
  Known& known = inputs_[input];
  if (values_[input] != kArray || !same_type(known, array)) return false;
  const auto begin = reinterpret_cast<uintptr_t>(array.data);
  if (begin == known.range.begin) return true;
  if (known.span == kNone) return false;
  known.range = {begin, begin + known.bytes};
  moved_inputs_.push_back(input);
  return true;
}

bool Repeat::make(uint32_t output) {
  // A device that asks for the most that data may decide would keep all of it alive.
  if (outputs_[output].bytes / 2 > outputs_[output].value_bytes + kDetachedSlackBytes) return false;
  outputs_[output].made = true;
  outputs_[output].range = {};
  return true;
}

bool Repeat::give(uint32_t output, const tenon_array_t& array) {
  Known& known = outputs_[output];
  // A device may ask for more room than the caller has.
  if (known.bytes > known.value_bytes || !same_type(known, array)) return false;
  known.made = false;
  const auto begin = reinterpret_cast<uintptr_t>(array.data);
  if (begin == known.range.begin) return true;
  known.range = {begin, begin + known.bytes};
  moved_outputs_.push_back(output);
  return true;
}

bool Repeat::apart() {
  const auto meets = [](const Range& range) {
    return [&range](const Known& other) { return other.range.overlaps(range); };
  };
  for (const uint32_t o : moved_outputs_) {
    const Range& range = outputs_[o].range;
    if (range.begin > range.end || std::ranges::any_of(inputs_, meets(range))) return false;
    if (std::ranges::count_if(outputs_, meets(range)) != 1) return false;  // itself
  }
  for (const uint32_t i : moved_inputs_) {
    const Range& range = inputs_[i].range;
    if (range.begin > range.end || std::ranges::any_of(outputs_, meets(range))) return false;
  }
  moved_inputs_.clear();
  moved_outputs_.clear();
  return true;
}

}  // namespace tenon::runtime
