// The C table of calls: records of callers of any age to arrays and back. No logic.
#include <array>
#include <memory_resource>

#include "core/session/api/call_records.h"
#include "core/session/api/handles.h"
#include "core/session/api/repeat.h"
#include "core/session/call/call.h"
#include "core/session/compile/devices.h"

namespace tenon::session {
namespace {

// What a call's records say, as far as this host knows it.
struct Inputs {
  explicit Inputs(std::pmr::memory_resource* memory) : arrays(memory), arguments(memory) {}
  std::pmr::vector<tenon_array_t> arrays;
  std::pmr::vector<runtime::Argument> arguments;
};

template <typename T>
Status check_record_size(const T& record, uint32_t least, std::string_view what, size_t index) {
  if (record.size_bytes >= least) return {};
  return error(TENON_INVALID_ARGUMENT, "T0616",
               "the record of {} {} claims {} bytes; set its size_bytes to sizeof", what, index,
               record.size_bytes);
}

Status read_inputs(const tenon_program_call_t& call, Inputs* all) {
  all->arrays.resize(call.input_count);
  all->arguments.resize(call.input_count);
  for (size_t i = 0; i < call.input_count; ++i) {
    const tenon_input_t* const at = record_at(call.inputs, i);
    TENON_RETURN_IF_ERROR(check_record_size(*at, kInputBytesLeast, "input", i));
    TENON_ASSIGN_OR_RETURN(const tenon_input_t record, prefix_of(at));
    const bool donated = (record.flags & TENON_INPUT_DONATED) != 0;
    if ((record.array == nullptr) == (record.tensor == nullptr) ||
        (record.flags & ~TENON_INPUT_DONATED) != 0 || (donated && record.tensor == nullptr)) {
      return error(TENON_INVALID_ARGUMENT, "T0616",
                   "input {} has flags {}, {} array and {} tensor; give one of the two, and 1 "
                   "(donated) for a tensor or 0 as flags",
                   i, record.flags, record.array == nullptr ? "no" : "an",
                   record.tensor == nullptr ? "no" : "a");
    }
    if (record.array != nullptr) {
      TENON_ASSIGN_OR_RETURN(all->arrays[i], prefix_of(record.array));
      all->arguments[i] = {&all->arrays[i], nullptr, false};
    } else {
      if (!in_use(record.tensor)) [[unlikely]]
        return refuse_handle(record.tensor, HandleKind::kTensor)
            .with_context(fmt::format("reading input {}", i));
      runtime::Tensor* const tensor = record.tensor->tensor.get();
      all->arrays[i] = array_of(*tensor, nullptr);
      // Where another handle has the same tensor, it is read and not given up.
      const bool alone = record.tensor->tensor.use_count() == 1;
      all->arguments[i] = {&all->arrays[i], tensor, donated && alone};
    }
  }
  return {};
}

struct Outputs {
  explicit Outputs(std::pmr::memory_resource* memory)
      : records(memory), given(memory), outputs(memory), tensors(memory) {}
  std::pmr::vector<tenon_output_t> records;
  std::pmr::vector<tenon_array_t> given;
  std::pmr::vector<CallOutput> outputs;
  std::pmr::vector<HandlePtr<tenon_tensor_t>> tensors;  // null for given ones
};

Status read_output(const tenon_program_call_t& call, size_t i, Outputs* all) {
  TENON_RETURN_IF_ERROR(
      check_record_size(*record_at(call.outputs, i), kOutputBytesLeast, "output", i));
  TENON_ASSIGN_OR_RETURN(const tenon_output_t record, prefix_of(record_at(call.outputs, i)));
  TENON_REQUIRE(record.array, "output's array");
  if (record.kind > TENON_OUTPUT_IN_PLACE) {
    return error(
        TENON_INVALID_ARGUMENT, "T0620",
        "output {} is of kind {}; there are 0 (owned), 1 (given), 2 (left) and 3 (in place)", i,
        record.kind);
  }
  TENON_ASSIGN_OR_RETURN(all->given[i], prefix_of(record.array));
  const bool in_place = record.kind == TENON_OUTPUT_IN_PLACE;
  const bool given = record.kind == TENON_OUTPUT_GIVEN || in_place;
  if (given && all->given[i].rank != 0) TENON_REQUIRE(all->given[i].dims, "output's dims");
  all->records.push_back(record);
  all->outputs.push_back(
      {given ? &all->given[i] : nullptr, record.kind == TENON_OUTPUT_LEFT, in_place, nullptr});
  all->tensors.push_back(given ? nullptr : new_handle<tenon_tensor_t>());
  return {};
}

Status read_outputs(const tenon_program_call_t& call, Outputs* all) {
  all->given.resize(call.output_count);
  all->records.reserve(call.output_count);
  all->outputs.reserve(call.output_count);
  all->tensors.reserve(call.output_count);
  for (size_t i = 0; i < call.output_count; ++i) TENON_RETURN_IF_ERROR(read_output(call, i, all));
  return {};
}

using NativeRecords = std::pmr::vector<runtime::Native>;

// As programs name their devices. Found devices, and so their names, stay as long as the process.
Result<std::string_view> name_of_device(tenon_str_t given) {
  const std::string_view name = from_abi_str(given);
  if (name.find('#') == std::string_view::npos) return name;
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Device> device, find_device(name));
  return std::string_view(device->name());
}

// `what`: one of them, for messages.
Status read_natives(const tenon_call_native_t* records, uint32_t count, std::string_view what,
                    NativeRecords* all) {
  if (count == 0) return {};
  TENON_REQUIRE(records, what);
  for (uint32_t i = 0; i < count; ++i) {
    const tenon_call_native_t& record = *record_at(records, i);
    TENON_RETURN_IF_ERROR(check_record_size(record, kNativeBytesLeast, what, i));
    TENON_REQUIRE(record.handle, "native handle");
    TENON_REQUIRE(record.device.data, "device");
    TENON_ASSIGN_OR_RETURN(tenon_native_handle_t handle, prefix_of(record.handle));
    if (handle.kind.size != 0) TENON_REQUIRE(handle.kind.data, "kind of handle");
    if (handle.flags != 0) {
      return error(TENON_INVALID_ARGUMENT, "T0616", "the flags of {} {} are {}; they must be 0",
                   what, i, handle.flags);
    }
    handle.size_bytes = sizeof handle;
    TENON_ASSIGN_OR_RETURN(const std::string_view device, name_of_device(record.device));
    all->push_back({device, handle});
  }
  return {};
}

// A handle that was donated has no value any more, whether the run used its memory or not.
void end_donated(const tenon_program_call_t& call) {
  for (size_t i = 0; i < call.input_count; ++i) {
    const tenon_input_t& input = *record_at(call.inputs, i);
    if ((input.flags & TENON_INPUT_DONATED) == 0 || input.tensor->tensor->given_up()) continue;
    input.tensor->tensor = runtime::Tensor::gone_like(*input.tensor->tensor);
  }
}

// Nothing here can fail: the handles were made before the run.
void give_outputs(const tenon_program_call_t& call, Outputs& all) {
  for (size_t i = 0; i < all.tensors.size(); ++i) {
    if (all.tensors[i] == nullptr) continue;
    all.tensors[i]->tensor = std::move(all.outputs[i].tensor);
    const runtime::Tensor& tensor = *all.tensors[i]->tensor;
    const tenon_array_t array = array_of(tensor, tensor.host());
    (void)tenon_record_give(all.records[i].array, &array, sizeof array);  // its size was read
    record_at(call.outputs, i)->tensor = all.tensors[i].release();
  }
}

tenon_code_t call_program(void*, tenon_program_t* program, tenon_program_call_t* record) {
  return slot([&] { return run_call(program, record); });
}

}  // namespace

Status run_call(tenon_program_t* program, tenon_program_call_t* record) {
  TENON_REQUIRE_HANDLE(program);
  TENON_REQUIRE(record, "record");
  TENON_ASSIGN_OR_RETURN(tenon_program_call_t given, prefix_of(record));
  if (given.input_count != 0) TENON_REQUIRE(given.inputs, "inputs");
  if (given.output_count != 0) TENON_REQUIRE(given.outputs, "outputs");
  TENON_RETURN_IF_ERROR(check_counts(program->program, given.input_count, given.output_count));
  if (std::optional<Status> status = call_again(program->program, given)) {
    TENON_RETURN_IF_ERROR(std::move(*status));
    given.repacked_bytes = given.transferred_bytes = given.copied_out_bytes = 0;
    return give_record(record, given);
  }
  // The records of a usual call take no memory of the heap.
  std::array<std::byte, 4096> room;
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
  Inputs inputs(&memory);
  TENON_RETURN_IF_ERROR(read_inputs(given, &inputs));
  Outputs all(&memory);
  TENON_RETURN_IF_ERROR(read_outputs(given, &all));
  CallStatistics statistics;
  if (given.size_count != 0) TENON_REQUIRE(given.sizes, "sizes");
  std::pmr::vector<runtime::GivenSize> sizes(&memory);
  for (uint32_t i = 0; i < given.size_count; ++i)
    sizes.push_back({from_abi_str(given.sizes[i].name), given.sizes[i].value});
  NativeRecords streams(&memory), waits(&memory), signals(&memory);
  TENON_RETURN_IF_ERROR(read_natives(given.streams, given.stream_count, "stream", &streams));
  TENON_RETURN_IF_ERROR(read_natives(given.waits, given.wait_count, "wait", &waits));
  TENON_RETURN_IF_ERROR(read_natives(given.signals, given.signal_count, "signal", &signals));
  TENON_RETURN_IF_ERROR(call(program->program, inputs.arguments, sizes, {streams, waits, signals},
                             all.outputs, &statistics));
  give_outputs(given, all);
  end_donated(given);
  given.repacked_bytes = statistics.repacked_bytes;
  given.transferred_bytes = statistics.transferred_bytes;
  given.copied_out_bytes = statistics.copied_out_bytes;
  return give_record(record, given);
}

const tenon_host_call_t* host_call_table() {
  static const tenon_host_call_t table = [] {
    tenon_host_call_t slots{sizeof(tenon_host_call_t), nullptr, call_program};
    add_tensor_slots(&slots);
    return slots;
  }();
  return &table;
}

}  // namespace tenon::session
