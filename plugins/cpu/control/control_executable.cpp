#include "control/control_executable.h"

#include "artifact.h"
#include "control/control_run.h"
#include "device.h"
#include "tenon/cpp/graph.hpp"

namespace tenon::cpu {
namespace {

using Kind = ControlPart::Kind;

// A data-dependent output that may be larger gets its buffer when its size is known.
constexpr uint64_t kDataDependentBytes = uint64_t{1} << 20;

}  // namespace

Status ControlExecutable::load(tenon_device_t* device, std::string_view artifact,
                               std::span<tenon_blob_t* const> constants,
                               std::unique_ptr<ControlExecutable>& out) {
  ArtifactParts bytes;
  TENON_TRY(artifact_unpack(artifact, bytes));
  std::unique_ptr<ControlExecutable> made(new ControlExecutable);
  LoadedProgram& loaded = made->loaded_;
  ControlProgram& program = loaded.program;
  TENON_TRY(ControlProgram::read(bytes.program, program));
  if (constants.size() != program.constant_count) {
    return fail(TENON_INVALID_ARGUMENT, cat("The artifact needs ", program.constant_count,
                                            " constants and was given ", constants.size(), "."));
  }
  loaded.parts.resize(program.artifacts.size());
  loaded.part_of.resize(program.artifacts.size());
  for (const ControlRegion& region : program.regions) {
    for (const ControlPart& part : region.parts) {
      if (part.kind != Kind::kKernels) continue;
      std::vector<tenon_blob_t*> blobs;
      for (uint32_t c : part.constants) blobs.push_back(constants[c]);
      TENON_TRY(Executable::load(device, program.artifacts[part.artifact], blobs,
                                 loaded.parts[part.artifact]));
      loaded.part_of[part.artifact] = &part;
      program.artifacts[part.artifact] = {};
    }
  }
  for (const auto& part : loaded.parts) {
    if (!part) return fail(TENON_DATA_LOSS, "The artifact holds a part that nothing runs.");
  }
  TENON_TRY(made->adopt_constants(constants));
  loaded.find_order();
  out = std::move(made);
  return {};
}

ControlExecutable::~ControlExecutable() {
  for (tenon_blob_t* blob : blobs_) {
    if (blob != nullptr) graph_api().blob_release(graph_api().self, blob);
  }
}

// Those that control flow itself hands on; kernels' own are kept by their parts.
Status ControlExecutable::adopt_constants(std::span<tenon_blob_t* const> constants) {
  blobs_.resize(constants.size());
  loaded_.constant_data.resize(constants.size());
  const auto adopt = [&](const std::vector<uint32_t>& values) -> Status {
    for (uint32_t v : values) {
      const ControlValue& value = program_.values[v];
      if (value.kind != ControlValue::Kind::kConstant || blobs_[value.index] != nullptr) continue;
      tenon_blob_t* blob = constants[value.index];
      graph_api().blob_retain(graph_api().self, blob);
      blobs_[value.index] = blob;
      uint64_t size = 0;
      TENON_TRY(graph_api().blob_data(graph_api().self, blob, &loaded_.constant_data[value.index],
                                      &size));
      if (size < bytes_of(value, {}))
        return fail(TENON_INVALID_ARGUMENT, "A constant is smaller than its type.");
    }
    return {};
  };
  for (const ControlRegion& region : program_.regions) {
    TENON_TRY(adopt(region.yields));
    for (const ControlPart& part : region.parts) TENON_TRY(adopt(part.inputs));
  }
  return {};
}

void ControlExecutable::info(tenon_executable_info_t* out) const {
  *out = {};
  out->size_bytes = sizeof *out;
  for (const auto& part : loaded_.parts) {
    tenon_executable_info_t info = {};
    part->info(&info);
    out->kernel_count += info.kernel_count;
    out->constant_bytes += info.constant_bytes;
  }
}

Status ControlExecutable::needs(tenon_symbols_t symbols, tenon_needs_t* needs) {
  std::shared_ptr<const ControlShape> shape;
  TENON_TRY(shapes_.find(symbols, shape));
  const std::vector<uint32_t>& yields = program_.regions[0].yields;
  if (needs->output_count != yields.size()) {
    return fail(TENON_INVALID_ARGUMENT, cat("The executable has ", yields.size(), " outputs; ",
                                            needs->output_count, " were asked for."));
  }
  std::vector<int64_t> most(program_.bounds);
  for (size_t i = 0; i < program_.main_symbols.size(); ++i)
    most[program_.main_symbols[i]] = shape->main_symbols[i];
  for (size_t i = 0; i < yields.size(); ++i) {
    const ControlValue& value = program_.values[yields[i]];
    tenon_output_need_t& need = needs->outputs[i];
    need.alias_input = TENON_NO_ALIAS;
    need.size_bytes_max = bytes_of(value, most);
    if (value.mixed || (value.data_dependent && need.size_bytes_max > kDataDependentBytes))
      need.size_bytes_max = TENON_SIZE_UNKNOWN;
    for (size_t d = 0; d < value.dims.size() && need.dims != nullptr; ++d)
      need.dims[d] = value.dims[d].evaluate(most);
  }
  needs->workspace_bytes = shape->arena_bytes;
  needs->lower_bound_bytes = shape->arena_bytes;
  return {};
}

Status ControlExecutable::execute(const tenon_call_t& call) {
  if (call.queue || call.wait_count != 0)
    return fail(TENON_UNIMPLEMENTED, "The cpu device has no queues.");
  if (call.input_count != program_.input_count ||
      call.output_count != program_.regions[0].yields.size()) {
    return fail(TENON_INVALID_ARGUMENT,
                cat("The executable has ", program_.input_count, " inputs and ",
                    program_.regions[0].yields.size(), " outputs; the call brings ",
                    call.input_count, " and ", call.output_count, "."));
  }
  std::shared_ptr<const ControlShape> shape;
  TENON_TRY(shapes_.find(call.symbols, shape));
  const tenon_span_t& space = call.workspace;
  const bool given = space.buffer != nullptr && space.offset_bytes <= space.buffer->size_bytes;
  return ControlRun(loaded_, *shape, call,
                    given ? space.buffer->data + space.offset_bytes : nullptr,
                    given ? space.buffer->size_bytes - space.offset_bytes : 0)
      .run();
}

}  // namespace tenon::cpu
