// The C table of calls: records of callers of any age to arrays and back. No logic.
#include <array>
#include <memory_resource>

#include "core/session/call.h"
#include "core/session/handles.h"

struct tenon_result_t {
  std::shared_ptr<void> memory;
  std::vector<int64_t> dims;
};

namespace tenon::session {
namespace {

// The i-th record of an array whose records have the size that the first one says.
template <typename T>
T* record_at(T* first, size_t i) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + i * first->size_bytes);
}

// What a call's records say, as far as this host knows it.
struct Outputs {
  std::pmr::vector<tenon_output_t> records;
  std::pmr::vector<tenon_array_t> given;
  std::pmr::vector<CallOutput> outputs;
};

Status read_outputs(const tenon_program_call_t& call, Outputs* all) {
  all->given.resize(call.output_count);
  all->records.reserve(call.output_count);
  all->outputs.reserve(call.output_count);
  for (size_t i = 0; i < call.output_count; ++i) {
    TENON_ASSIGN_OR_RETURN(const tenon_output_t record, prefix_of(record_at(call.outputs, i)));
    TENON_REQUIRE(record.array, "output's array");
    if (record.kind > TENON_OUTPUT_GIVEN) {
      return error(TENON_INVALID_ARGUMENT, "T0620",
                   "output {} is of kind {}; there are 0 (owned) and 1 (given)", i, record.kind);
    }
    TENON_ASSIGN_OR_RETURN(all->given[i], prefix_of(record.array));
    if (record.kind == TENON_OUTPUT_GIVEN && all->given[i].rank != 0)
      TENON_REQUIRE(all->given[i].dims, "output's dims");
    all->records.push_back(record);
    all->outputs.push_back({record.kind == TENON_OUTPUT_GIVEN ? &all->given[i] : nullptr, {}, {}});
  }
  return {};
}

// Results are made before any of them is given, so that a failure leaves nothing behind.
void give_outputs(const tenon_program_call_t& call, Outputs& all) {
  std::vector<std::unique_ptr<tenon_result_t>> results(all.outputs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (all.outputs[i].given != nullptr) continue;
    results[i] = std::make_unique<tenon_result_t>();
    results[i]->memory = std::move(all.outputs[i].memory);
    results[i]->dims = std::move(all.outputs[i].array.dims);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] == nullptr) continue;
    tenon_array_t array{};
    array.dtype = all.outputs[i].array.dtype;
    array.rank = static_cast<uint32_t>(results[i]->dims.size());
    array.data = results[i]->memory.get();
    array.dims = results[i]->dims.data();
    (void)tenon_record_give(all.records[i].array, &array, sizeof array);  // its size was read
    record_at(call.outputs, i)->result = results[i].release();
  }
}

tenon_code_t call_program(void*, tenon_program_t* program, tenon_program_call_t* record) {
  return slot([&]() -> Status {
    TENON_REQUIRE(program, "program");
    TENON_REQUIRE(record, "record");
    TENON_ASSIGN_OR_RETURN(tenon_program_call_t given, prefix_of(record));
    if (given.input_count != 0) TENON_REQUIRE(given.inputs, "inputs");
    if (given.output_count != 0) TENON_REQUIRE(given.outputs, "outputs");
    // The records of a usual call take no memory of the heap.
    std::array<std::byte, 4096> room;
    std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
    std::pmr::vector<tenon_array_t> inputs(&memory);
    inputs.reserve(given.input_count);
    for (size_t i = 0; i < given.input_count; ++i) {
      TENON_ASSIGN_OR_RETURN(inputs.emplace_back(), prefix_of(record_at(given.inputs, i)));
    }
    Outputs all{std::pmr::vector<tenon_output_t>(&memory), std::pmr::vector<tenon_array_t>(&memory),
                std::pmr::vector<CallOutput>(&memory)};
    TENON_RETURN_IF_ERROR(read_outputs(given, &all));
    CallStatistics statistics;
    TENON_RETURN_IF_ERROR(call(program->program, inputs, all.outputs, &statistics));
    give_outputs(given, all);
    given.repacked_bytes = statistics.repacked_bytes;
    given.transferred_bytes = statistics.transferred_bytes;
    given.copied_out_bytes = statistics.copied_out_bytes;
    return give_record(record, given);
  });
}

void result_release(void*, tenon_result_t* result) {
  delete result;
}

}  // namespace

const tenon_host_call_t* host_call_table() {
  static const tenon_host_call_t table = {sizeof(tenon_host_call_t), nullptr, call_program,
                                          result_release};
  return &table;
}

}  // namespace tenon::session
