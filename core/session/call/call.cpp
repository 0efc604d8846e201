#include "core/session/call/call.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory_resource>

#include "core/base/checked.h"
#include "core/base/process/float_state.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/runtime/values/arrays.h"
#include "core/session/call/homes.h"
#include "core/session/compile/variants.h"

namespace tenon::session {
namespace {

using runtime::OutputArray;
using runtime::RunnerPool;

const runtime::Shapes& shapes_of(const AnyProgram& program) {
  return std::visit([](const auto& p) -> const runtime::Shapes& { return p->shapes(); }, program);
}

Status check_counts_of(const runtime::Shapes& shapes, size_t inputs, size_t outputs) {
  if (inputs == shapes.inputs().size() && outputs == shapes.outputs().size()) return {};
  return error(TENON_INVALID_ARGUMENT, "T0601",
               "the model has {} inputs and {} outputs, and {} and {} were given",
               shapes.inputs().size(), shapes.outputs().size(), inputs, outputs);
}

std::string type_text(tenon_dtype_t dtype, std::span<const int64_t> dims) {
  std::vector<std::string> texts;
  for (const int64_t dim : dims) texts.push_back(std::to_string(dim));
  return fmt::format("{}[{}]", ir::dtype_name(dtype), join_names(texts));
}

// What is known before the run: the type, and dims that are constant. Nothing is lost yet.
Status check_given_type(const runtime::Port& port, const tenon_array_t& given) {
  bool fits = given.dtype == port.dtype && given.rank == port.dims.size();
  for (uint32_t d = 0; fits && d < given.rank; ++d)
    fits = port.dims[d] < 0 || port.dims[d] == given.dims[d];
  if (fits) return {};
  const std::span<const int64_t> dims(given.dims, std::min<size_t>(given.rank, TENON_RANK_MAX));
  return error(TENON_INVALID_ARGUMENT, "T0620", "output {} is {}[{}], and the memory is for {}",
               quoted(port.name), ir::dtype_name(port.dtype), join_names(port.dim_texts),
               type_text(given.dtype, dims));
}

// Whether the memory that is given for an output can hold it, and alone.
Status check_given(const runtime::Port& port, const OutputArray& made, const tenon_array_t& given) {
  const std::span<const int64_t> dims(given.dims, std::min<size_t>(given.rank, TENON_RANK_MAX));
  if (given.dtype != made.dtype || given.rank != dims.size() ||
      !std::ranges::equal(dims, made.dims)) {
    return error(TENON_INVALID_ARGUMENT, "T0620", "output {} is {}, and the memory is for {}",
                 quoted(port.name), type_text(made.dtype, made.dims), type_text(given.dtype, dims));
  }
  if (given.data == nullptr && std::ranges::find(dims, 0) == dims.end()) {
    return error(TENON_INVALID_ARGUMENT, "T0620", "output {} has dims and no memory",
                 quoted(port.name));
  }
  if (given.strides_bytes != nullptr && ir::dtype_bits(given.dtype) < 8) {
    return error(TENON_INVALID_ARGUMENT, "T0620",
                 "output {} has strides, and elements of {} share bytes", quoted(port.name),
                 ir::dtype_name(given.dtype));
  }
  if (runtime::elements_overlap(given)) {
    return error(TENON_INVALID_ARGUMENT, "T0620",
                 "the strides of output {} may let elements share bytes", quoted(port.name));
  }
  if (!runtime::has_addresses(given)) {
    return error(TENON_INVALID_ARGUMENT, "T0620",
                 "the strides of output {} lead out of the address space", quoted(port.name));
  }
  return {};
}

Status check_outputs(const std::vector<runtime::Port>& ports, const std::vector<OutputArray>& made,
                     std::span<const CallOutput> outputs) {
  std::vector<std::pair<std::pair<uintptr_t, uintptr_t>, size_t>> ranges;
  const bool several = std::ranges::count(outputs, nullptr, &CallOutput::given) + 1 <
                       static_cast<int64_t>(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].given == nullptr) continue;
    TENON_RETURN_IF_ERROR(check_given(ports[i], made[i], *outputs[i].given));
    if (several) ranges.emplace_back(runtime::byte_range(*outputs[i].given), i);
  }
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i - 1].first.second <= ranges[i].first.first) continue;
    return error(TENON_INVALID_ARGUMENT, "T0620",
                 "the memory of output {} overlaps that of output {}",
                 quoted(ports[ranges[i - 1].second].name), quoted(ports[ranges[i].second].name));
  }
  return {};
}

uint64_t size_of(const OutputArray& array) {
  uint64_t count = 1;
  for (const int64_t dim : array.dims) count *= static_cast<uint64_t>(dim);
  return (count * ir::dtype_bits(array.dtype) + 7) / 8;
}

void copy_out(const OutputArray& made, const tenon_array_t& given) {
  if (ir::dtype_bits(made.dtype) >= 8)
    runtime::unpack(static_cast<const std::byte*>(made.data), given);
  else if (const uint64_t bytes = size_of(made); bytes != 0)
    std::memcpy(given.data, made.data, bytes);
}

// Everything that can fail comes before the first byte is written.
Status hand_over(runtime::Runner& runner, const std::vector<runtime::Port>& ports,
                 std::span<CallOutput> outputs, CallStatistics* statistics) {
  const std::vector<OutputArray>& made = runner.outputs();
  TENON_RETURN_IF_ERROR(check_outputs(ports, made, outputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].given != nullptr) continue;
    TENON_ASSIGN_OR_RETURN(outputs[i].tensor, runner.detach(i, &statistics->copied_out_bytes));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].given == nullptr || outputs[i].given->data == made[i].data) continue;
    copy_out(made[i], *outputs[i].given);
    statistics->copied_out_bytes += size_of(made[i]);
  }
  return {};
}

// A call's inputs and outputs as a run takes them. In memory of the stack, if they are few.
struct Arguments {
  explicit Arguments(std::pmr::memory_resource* memory)
      : inputs(memory), arrays(memory), stays(memory), homes(memory) {}
  std::pmr::vector<runtime::Argument> inputs;
  std::pmr::vector<const tenon_array_t*> arrays;  // of the inputs
  std::pmr::vector<uint8_t> stays;
  std::pmr::vector<runtime::Home> homes;
  std::span<const runtime::GivenSize> sizes;
  runtime::Natives natives;
};

// One run of one program; `ran` says whether it came to its end.
struct Attempt {
  Status status;
  bool ran = false;
};

Attempt run_in(RunnerPool& runners, const std::vector<runtime::Port>& ports,
               const Arguments& arguments, std::span<CallOutput> outputs,
               CallStatistics* statistics) {
  const RunnerPool::Lease runner(runners);
  Status status = runner->run(arguments.inputs, arguments.stays, arguments.sizes, arguments.homes,
                              arguments.natives);
  if (!status.ok()) return {std::move(status), false};
  const runtime::RunStatistics& of_run = runner->statistics();
  *statistics = {of_run.repacked_bytes, of_run.transferred_bytes, of_run.copied_bytes};
  return {hand_over(*runner.get(), ports, outputs, statistics), true};
}

Attempt run(const Program& program, const std::vector<runtime::Port>& ports,
            const Arguments& arguments, std::span<CallOutput> outputs, CallStatistics* statistics) {
  if (program.loadings() == nullptr)
    return run_in(program.runners(), ports, arguments, outputs, statistics);
  uint64_t packed_bytes = 0;
  Result<std::shared_ptr<Loading>> loading =
      program.loadings()->choose(program.segments(), arguments.inputs, &packed_bytes);
  if (!loading.ok()) return {loading.status(), false};
  Attempt attempt = run_in((*loading)->runners, ports, arguments, outputs, statistics);
  statistics->repacked_bytes += packed_bytes;
  return attempt;
}

// A second run needs what the first one was given.
bool gave_up(const Arguments& arguments) {
  return std::ranges::any_of(arguments.inputs, [](const runtime::Argument& input) {
    return input.donated && input.tensor->given_up();
  });
}

// The general variant refuses some sizes that mean something by value (-1, or 0 as "keep").
Status run_variant(Variants& variants, Arguments& arguments, std::span<CallOutput> outputs,
                   CallStatistics* statistics) {
  const std::vector<runtime::Port>& ports = variants.shapes().outputs();
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Variant> variant,
                         variants.choose(arguments.arrays, false));
  TENON_ASSIGN_OR_RETURN(const std::vector<runtime::GivenSize> sizes,
                         variants.sizes_for(*variant, arguments.arrays, arguments.sizes));
  arguments.sizes = sizes;
  Attempt attempt = run(*variant->program, ports, arguments, outputs, statistics);
  const tenon_code_t code = attempt.status.code();
  const bool refused = code == TENON_INVALID_ARGUMENT || code == TENON_OUT_OF_RANGE;
  if (attempt.ran || !refused || !variant->general() || gave_up(arguments))
    return std::move(attempt.status);
  TENON_ASSIGN_OR_RETURN(variant, variants.choose(arguments.arrays, true));
  return run(*variant->program, ports, arguments, outputs, statistics).status;
}

// Values that decide shapes are compared on the host. Larger inputs never decide any.
Status bring_values(std::span<const runtime::Argument> inputs,
                    std::pmr::vector<tenon_array_t>* arrays) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].tensor == nullptr) continue;
    const Result<uint64_t> count = element_count(inputs[i].tensor->dims());
    if (!count.ok() || *count > Model::kValuesMax) continue;
    TENON_ASSIGN_OR_RETURN(const void* const values, inputs[i].tensor->fetch());
    (*arrays)[i].data = const_cast<void*>(values);
  }
  return {};
}

Status check_tensor(const runtime::Shapes& shapes, uint32_t input,
                    std::span<const runtime::Argument> inputs) {
  const runtime::Argument& given = inputs[input];
  runtime::Tensor& tensor = *given.tensor;
  TENON_RETURN_IF_ERROR(shapes.check_type(input, tensor.dtype(), tensor.dims()));
  TENON_RETURN_IF_ERROR(tensor.check_there());
  if (!given.donated) return {};
  for (uint32_t other = 0; other < inputs.size(); ++other) {
    if (other == input || inputs[other].tensor != &tensor) continue;
    return error(TENON_INVALID_ARGUMENT, "T0621",
                 "input {} donates a tensor that is input {} as well",
                 quoted(shapes.inputs()[input].name), quoted(shapes.inputs()[other].name));
  }
  return {};
}

}  // namespace

Status check_counts(const AnyProgram& program, size_t inputs, size_t outputs) {
  return check_counts_of(shapes_of(program), inputs, outputs);
}

Status call(const AnyProgram& program, std::span<const runtime::Argument> inputs,
            std::span<const runtime::GivenSize> sizes, const runtime::Natives& natives,
            std::span<CallOutput> outputs, CallStatistics* statistics) {
  const runtime::Shapes& shapes = shapes_of(program);
  TENON_RETURN_IF_ERROR(check_counts_of(shapes, inputs.size(), outputs.size()));
  std::array<std::byte, 2048> room;
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
  Arguments arguments(&memory);
  arguments.inputs.assign(inputs.begin(), inputs.end());
  arguments.sizes = sizes;
  arguments.natives = natives;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    TENON_RETURN_IF_ERROR(inputs[i].tensor != nullptr ? check_tensor(shapes, i, inputs)
                                                      : shapes.check_input(i, *inputs[i].array));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    arguments.stays.push_back(outputs[i].stays ? 1 : 0);
    if (outputs[i].given != nullptr)
      TENON_RETURN_IF_ERROR(check_given_type(shapes.outputs()[i], *outputs[i].given));
  }
  find_homes(inputs, outputs, &arguments.homes);
  // Results are those of IEEE 754's defaults, whatever rounding the caller has set.
  const FloatScope floats(region_float_control());
  if (const auto* variants = std::get_if<std::shared_ptr<Variants>>(&program)) {
    std::pmr::vector<tenon_array_t> values(&memory);
    for (const runtime::Argument& input : inputs) values.push_back(*input.array);
    if ((*variants)->by_value()) TENON_RETURN_IF_ERROR(bring_values(inputs, &values));
    for (const tenon_array_t& array : values) arguments.arrays.push_back(&array);
    return run_variant(**variants, arguments, outputs, statistics);
  }
  return run(*std::get<std::shared_ptr<Program>>(program), shapes.outputs(), arguments, outputs,
             statistics)
      .status;
}

}  // namespace tenon::session
