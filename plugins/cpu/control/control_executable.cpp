#include "control/control_executable.h"

#include <algorithm>

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

Status ControlExecutable::open(std::string_view artifact, std::unique_ptr<ControlExecutable>& out) {
  ArtifactParts bytes;
  TENON_TRY(artifact_unpack_to_run(artifact, bytes));
  out.reset(new ControlExecutable);
  return ControlProgram::read(bytes.program, out->loaded_.program);
}

Status ControlExecutable::load_parts(const LoadPart& load) {
  ControlProgram& program = loaded_.program;
  loaded_.parts.resize(program.artifacts.size());
  loaded_.part_of.resize(program.artifacts.size());
  for (const ControlRegion& region : program.regions) {
    for (const ControlPart& part : region.parts) {
      if (part.kind != Kind::kKernels) continue;
      TENON_TRY(load(part, program.artifacts[part.artifact], loaded_.parts[part.artifact]));
      loaded_.part_of[part.artifact] = &part;
      program.artifacts[part.artifact] = {};
    }
  }
  for (const auto& part : loaded_.parts) {
    if (!part) return fail(TENON_DATA_LOSS, "The artifact holds a part that nothing runs.");
  }
  return {};
}

Status ControlExecutable::load(tenon_device_t* device, std::string_view artifact,
                               std::span<tenon_blob_t* const> constants,
                               std::unique_ptr<ControlExecutable>& out) {
  std::unique_ptr<ControlExecutable> made;
  TENON_TRY(open(artifact, made));
  if (constants.size() != made->program_.constant_count) {
    return fail(TENON_INVALID_ARGUMENT, cat("The artifact needs ", made->program_.constant_count,
                                            " constants and was given ", constants.size(), "."));
  }
  TENON_TRY(made->load_parts([&](const ControlPart& part, std::string_view bytes, auto& loaded) {
    std::vector<tenon_blob_t*> blobs;
    for (uint32_t c : part.constants) blobs.push_back(constants[c]);
    return Executable::load(device, bytes, blobs, loaded);
  }));
  TENON_TRY(made->adopt_constants(
      [&](uint32_t index, tenon_blob_t*& blob, const void*& data, uint64_t& size) -> Status {
        TENON_TRY(graph_api().blob_data(graph_api().self, constants[index], &data, &size));
        blob = constants[index];
        graph_api().blob_retain(graph_api().self, blob);
        return {};
      },
      false));
  made->loaded_.find_order();
  out = std::move(made);
  return {};
}

Status ControlExecutable::load_packed(tenon_device_t* device, std::string_view artifact,
                                      PackedReader& packed,
                                      std::unique_ptr<ControlExecutable>& out) {
  std::unique_ptr<ControlExecutable> made;
  TENON_TRY(open(artifact, made));
  TENON_TRY(made->load_parts([&](const ControlPart&, std::string_view bytes, auto& loaded) {
    return Executable::load_packed(device, bytes, packed, loaded);
  }));
  TENON_TRY(made->adopt_constants([&](uint32_t, tenon_blob_t*& blob, const void*& data,
                                      uint64_t& size) { return packed.next(blob, data, size); },
                                  true));
  made->loaded_.find_order();
  out = std::move(made);
  return {};
}

Status ControlExecutable::pack(const tenon_packed_sink_t& sink) const {
  for (const ControlRegion& region : program_.regions) {
    for (const ControlPart& part : region.parts) {
      if (part.kind == Kind::kKernels) TENON_TRY(loaded_.parts[part.artifact]->pack(sink));
    }
  }
  for (tenon_blob_t* blob : blobs_) {
    if (blob == nullptr) continue;
    const void* data = nullptr;
    uint64_t size = 0;
    TENON_TRY(graph_api().blob_data(graph_api().self, blob, &data, &size));
    TENON_TRY(sink.blob(sink.self, data, size));
  }
  return {};
}

ControlExecutable::~ControlExecutable() {
  for (tenon_blob_t* blob : blobs_) {
    if (blob != nullptr) graph_api().blob_release(graph_api().self, blob);
  }
}

// Those that control flow itself hands on, in order; kernels' own are kept by their parts.
Status ControlExecutable::adopt_constants(const TakeConstant& take, bool packed) {
  std::vector<uint64_t> needed_bytes(program_.constant_count);
  std::vector<bool> needed(program_.constant_count);
  const auto need = [&](const std::vector<uint32_t>& values) {
    for (uint32_t v : values) {
      const ControlValue& value = program_.values[v];
      if (value.kind != ControlValue::Kind::kConstant) continue;
      needed[value.index] = true;
      needed_bytes[value.index] = std::max(needed_bytes[value.index], bytes_of(value, {}));
    }
  };
  for (const ControlRegion& region : program_.regions) {
    need(region.yields);
    for (const ControlPart& part : region.parts) need(part.inputs);
  }
  blobs_.resize(needed.size());
  loaded_.constant_data.resize(needed.size());
  for (uint32_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    uint64_t size = 0;
    TENON_TRY(take(i, blobs_[i], loaded_.constant_data[i], size));
    if (packed ? size != needed_bytes[i] : size < needed_bytes[i])
      return fail(TENON_INVALID_ARGUMENT, cat("Constant ", i, " has ", size,
                                              " bytes, and its type ", needed_bytes[i], "."));
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
    tenon_output_need_t& need = *tenon_need(needs, static_cast<uint32_t>(i));
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
  const tenon_span_t space = {call.workspace, call.workspace_offset_bytes};
  const bool given = space.buffer != nullptr && space.offset_bytes <= space.buffer->size_bytes;
  return ControlRun(loaded_, *shape, call,
                    given ? space.buffer->data + space.offset_bytes : nullptr,
                    given ? space.buffer->size_bytes - space.offset_bytes : 0)
      .run();
}

}  // namespace tenon::cpu
