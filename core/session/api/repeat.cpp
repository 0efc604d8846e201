#include "core/session/api/repeat.h"

#include <algorithm>
#include <array>

#include "core/base/process/float_state.h"
#include "core/runtime/run/repeat.h"
#include "core/session/api/call_records.h"
#include "core/session/api/handles.h"
#include "core/session/call/call.h"

namespace tenon::session {
namespace {

using runtime::Repeat;

// What was given before is compared first, since that is what most inputs are.
bool take_input(const tenon_input_t& record, uint32_t index, Repeat& repeat) {
  if (record.size_bytes < kInputBytesLeast || record.flags != 0) return false;
  if (record.array == nullptr) {
    if (!in_use(record.tensor)) return false;  // the general way says why
    const runtime::Tensor& tensor = *record.tensor->tensor;
    return repeat.keeps(index, tensor) || repeat.take(index, tensor);
  }
  return record.tensor == nullptr && record.array->size_bytes >= sizeof(tenon_array_t) &&
         repeat.take(index, *record.array);
}

// More outputs that the host is to make are left to the general way.
constexpr size_t kMadeMost = 8;

bool place_output(const tenon_output_t& record, uint32_t index, Repeat& repeat) {
  if (record.size_bytes < kOutputBytesLeast || record.array == nullptr) return false;
  if (record.array->size_bytes < sizeof(tenon_array_t)) return false;
  if (record.kind == TENON_OUTPUT_GIVEN) return repeat.give(index, *record.array);
  const bool made = record.kind == TENON_OUTPUT_OWNED || record.kind == TENON_OUTPUT_LEFT;
  return made && index < kMadeMost && repeat.make(index);
}

bool is_like_the_last(const tenon_program_call_t& call, Repeat& repeat) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (!take_input(*record_at(call.inputs, i), i, repeat)) return false;
  }
  for (uint32_t i = 0; i < call.output_count; ++i) {
    if (!place_output(*record_at(call.outputs, i), i, repeat)) return false;
  }
  return true;
}

// All of them are made before the first one is given.
void give_made(const tenon_program_call_t& call, runtime::Runner& runner) {
  std::array<HandlePtr<tenon_tensor_t>, kMadeMost> made;
  const uint32_t count = std::min<uint32_t>(call.output_count, kMadeMost);
  for (uint32_t i = 0; i < count; ++i) {
    if (record_at(call.outputs, i)->kind == TENON_OUTPUT_GIVEN) continue;
    made[i] = new_handle<tenon_tensor_t>();
    made[i]->tensor = runner.take_made(i);
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (made[i] == nullptr) continue;
    tenon_output_t& record = *record_at(call.outputs, i);
    const tenon_array_t array = array_of(*made[i]->tensor, made[i]->tensor->host());
    (void)tenon_record_give(record.array, &array, sizeof array);  // its size was read
    record.tensor = made[i].release();
  }
}

std::optional<Status> call_in(runtime::RunnerPool& runners, const tenon_program_call_t& call) {
  const runtime::RunnerPool::Lease runner(runners);
  Repeat* const repeat = runner->repeat();
  if (repeat == nullptr || !repeat->ready() || !repeat->outputs_leave()) return std::nullopt;
  if (!is_like_the_last(call, *repeat)) {
    repeat->forget();  // a part of it is of this call
    return std::nullopt;
  }
  const FloatScope floats(region_float_control());
  std::optional<Status> status = runner->run_again(false);
  if (status && status->ok()) give_made(call, *runner.get());
  return status;
}

}  // namespace

std::optional<Status> call_again(const AnyProgram& any, const tenon_program_call_t& call) {
  const auto* const program = std::get_if<std::shared_ptr<Program>>(&any);
  if (program == nullptr || call.size_count != 0) return std::nullopt;
  if (call.stream_count != 0 || call.wait_count != 0 || call.signal_count != 0) return std::nullopt;
  const Loadings* const loadings = (*program)->loadings();
  if (loadings == nullptr) return call_in((*program)->runners(), call);
  // Its runners know which tensors it was loaded with.
  const std::shared_ptr<Loading> last = loadings->last();
  return last == nullptr ? std::nullopt : call_in(last->runners, call);
}

}  // namespace tenon::session
