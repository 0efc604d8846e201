// The C table of calls: records of callers of any age to arrays and back. No logic.
#include <array>
#include <cstddef>
#include <memory_resource>

#include "core/session/call.h"
#include "core/session/handles.h"

struct tenon_result_t {
  std::shared_ptr<void> memory;
  std::vector<int64_t> dims;
};

namespace tenon::session {
namespace {

// `result` is where the first edition of the record ends.
constexpr uint32_t kOutputBytesLeast = offsetof(tenon_output_t, result) + sizeof(tenon_result_t*);

// The i-th record of an array whose records have the size that the first one says.
template <typename T>
T* record_at(T* first, size_t i) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(first) + i * first->size_bytes);
}

// What a call's records say, as far as this host knows it.
struct Outputs {
  explicit Outputs(std::pmr::memory_resource* memory)
      : records(memory), given(memory), outputs(memory), results(memory) {}
  std::pmr::vector<tenon_output_t> records;
  std::pmr::vector<tenon_array_t> given;
  std::pmr::vector<CallOutput> outputs;
  std::pmr::vector<std::unique_ptr<tenon_result_t>> results;  // null for given ones
};

Status read_outputs(const tenon_program_call_t& call, Outputs* all) {
  all->given.resize(call.output_count);
  all->records.reserve(call.output_count);
  all->outputs.reserve(call.output_count);
  all->results.reserve(call.output_count);
  for (size_t i = 0; i < call.output_count; ++i) {
    TENON_ASSIGN_OR_RETURN(const tenon_output_t record, prefix_of(record_at(call.outputs, i)));
    if (record_at(call.outputs, i)->size_bytes < kOutputBytesLeast) {
      return error(TENON_INVALID_ARGUMENT, "T0616",
                   "the record of output {} claims {} bytes; set its size_bytes to sizeof", i,
                   record_at(call.outputs, i)->size_bytes);
    }
    TENON_REQUIRE(record.array, "output's array");
    if (record.kind > TENON_OUTPUT_GIVEN) {
      return error(TENON_INVALID_ARGUMENT, "T0620",
                   "output {} is of kind {}; there are 0 (owned) and 1 (given)", i, record.kind);
    }
    TENON_ASSIGN_OR_RETURN(all->given[i], prefix_of(record.array));
    if (record.kind == TENON_OUTPUT_GIVEN && all->given[i].rank != 0)
      TENON_REQUIRE(all->given[i].dims, "output's dims");
    all->records.push_back(record);
    const bool given = record.kind == TENON_OUTPUT_GIVEN;
    all->outputs.push_back({given ? &all->given[i] : nullptr, {}, {}});
    all->results.push_back(given ? nullptr : std::make_unique<tenon_result_t>());
  }
  return {};
}

// Nothing here can fail: the results were made before the run.
void give_outputs(const tenon_program_call_t& call, Outputs& all) {
  for (size_t i = 0; i < all.results.size(); ++i) {
    if (all.results[i] == nullptr) continue;
    tenon_result_t& result = *all.results[i];
    result.memory = std::move(all.outputs[i].memory);
    result.dims = std::move(all.outputs[i].array.dims);
    tenon_array_t array{};
    array.dtype = all.outputs[i].array.dtype;
    array.rank = static_cast<uint32_t>(result.dims.size());
    array.data = result.memory.get();
    array.dims = result.dims.data();
    (void)tenon_record_give(all.records[i].array, &array, sizeof array);  // its size was read
    record_at(call.outputs, i)->result = all.results[i].release();
  }
}

tenon_code_t call_program(void*, tenon_program_t* program, tenon_program_call_t* record) {
  return slot([&]() -> Status {
    TENON_REQUIRE(program, "program");
    TENON_REQUIRE(record, "record");
    TENON_ASSIGN_OR_RETURN(tenon_program_call_t given, prefix_of(record));
    if (given.input_count != 0) TENON_REQUIRE(given.inputs, "inputs");
    if (given.output_count != 0) TENON_REQUIRE(given.outputs, "outputs");
    TENON_RETURN_IF_ERROR(check_counts(program->program, given.input_count, given.output_count));
    // The records of a usual call take no memory of the heap.
    std::array<std::byte, 4096> room;
    std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
    std::pmr::vector<tenon_array_t> inputs(&memory);
    inputs.reserve(given.input_count);
    for (size_t i = 0; i < given.input_count; ++i) {
      TENON_ASSIGN_OR_RETURN(inputs.emplace_back(), prefix_of(record_at(given.inputs, i)));
    }
    Outputs all(&memory);
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
