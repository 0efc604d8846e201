#include "compile_api.h"

#include <vector>

#include "artifact.h"
#include "codegen/compile_control.h"
#include "codegen/compile_graph.h"
#include "control/control_executable.h"
#include "device.h"
#include "executable.h"
#include "support.h"
#include "tenon/cpp/plugin.hpp"

// The graph is kept for dump, which makes explanations on demand.
struct tenon_artifact_t {
  tenon_graph_t* graph = nullptr;
  tenon::cpu::CompileSettings settings;
  tenon::cpu::CompiledGraph compiled;
};

// Exactly one is set.
struct tenon_executable_t {
  std::unique_ptr<tenon::cpu::Executable> executable;
  std::unique_ptr<tenon::cpu::ControlExecutable> control;
};

namespace tenon::cpu {
namespace {

Status host_tables(kernelgen::HostTables& out) {
  return open_host_tables(context().host, &out);
}

Status isa_for(tenon_str_t target, Isa& out) {
  if (const std::optional<Isa> isa = isa_of_target(view(target))) {
    out = *isa;
    return {};
  }
  return fail(TENON_INVALID_ARGUMENT, cat("The cpu device compiles for ", target_choices(),
                                          ", not for ", quoted(view(target)), "."));
}

Status settings_for(tenon_str_t target, const tenon_compile_options_t* options,
                    CompileSettings& out) {
  TENON_TRY(isa_for(target, out.isa));
  if (!options) {
    return {};
  }
  if (options->deterministic) {
    out.isa =
        lowest_like(out.isa);  // Every instruction set rounds sums in its own way, so one is fixed.
  }
  for (uint32_t i = 0; i < options->option_count; ++i) {
    const std::string_view key = view(options->options[i].key);
    const std::string_view value = view(options->options[i].value);
    if (!key.starts_with("cpu.") || key == "cpu.ops") {
      continue;  // For another device, or for the host itself (the ops that it offers).
    }
    if (key != "cpu.opt" || value.size() != 1 || value[0] < '0' || value[0] > '3') {
      return fail(TENON_INVALID_ARGUMENT,
                  cat("T0513: The cpu device has one option, cpu.opt=0..3; it was given ",
                      quoted(cat(key, "=", value)), "."));
    }
    out.opt_level = static_cast<uint32_t>(value[0] - '0');
  }
  return {};
}

Status claim(void*, tenon_str_t target, tenon_graph_t* graph,
             const tenon_compile_options_t* options, const tenon_claim_sink_t* sink) {
  CompileSettings settings;
  TENON_TRY(settings_for(target, options, settings));
  kernelgen::HostTables host;
  TENON_TRY(host_tables(host));
  return claim_nodes(host, graph, settings.isa, *sink);
}

Status compile(void*, tenon_str_t target, tenon_graph_t* graph,
               const tenon_compile_options_t* options, tenon_artifact_t** out_artifact) {
  auto artifact = std::make_unique<tenon_artifact_t>();
  TENON_TRY(settings_for(target, options, artifact->settings));
  kernelgen::HostTables host;
  TENON_TRY(host_tables(host));
  TENON_TRY(has_control(graph)
                ? compile_control(host, graph, artifact->settings, artifact->compiled)
                : compile_graph(host, graph, artifact->settings, artifact->compiled));
  artifact->graph = graph;
  context().graph->retain(context().graph->self, graph);
  *out_artifact = artifact.release();
  return {};
}

void artifact_release(void*, tenon_artifact_t* artifact) {
  if (artifact) {
    context().graph->release(context().graph->self, artifact->graph);
    delete artifact;
  }
}

Status artifact_info(void*, tenon_artifact_t* artifact, tenon_artifact_info_t* out) {
  tenon_artifact_info_t made = {};
  made.kernels_compiled = artifact->compiled.kernels_compiled;
  made.kernels_from_cache = artifact->compiled.kernels_from_cache;
  ArtifactParts parts;
  TENON_TRY(artifact_unpack(artifact->compiled.artifact, parts));
  for (std::string_view module : parts.code) {
    made.code_bytes += module.size();
  }
  return give_record(out, made);
}

Status write(const tenon_sink_t* sink, std::string_view bytes) {
  return sink->write(sink->self, bytes.data(), bytes.size());
}

Status artifact_bytes(void*, tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  return write(sink, artifact->compiled.artifact);
}

Status fits(void*, tenon_str_t target, const void* bytes, uint64_t size_bytes) {
  Isa isa;
  if (!isa_for(target, isa).ok()) {
    return fail(TENON_FAILED_PRECONDITION,
                cat("The cpu device has no target ", quoted(view(target)),
                    "; compile the graph for this machine."));
  }
  ArtifactParts parts;
  TENON_TRY(artifact_unpack({static_cast<const char*>(bytes), size_bytes}, parts));
  if (!runs_on(parts.isa, isa)) {
    return fail(TENON_FAILED_PRECONDITION, cat("The artifact was compiled for ", name_of(parts.isa),
                                               ", the target has ", name_of(isa), "."));
  }
  if (parts.control) {
    ControlProgram control;
    TENON_TRY(ControlProgram::read(parts.program, control));
    for (const std::string& artifact : control.artifacts) {
      ArtifactParts inner;
      TENON_TRY(artifact_unpack(artifact, inner));
      if (inner.control)
        return fail(TENON_FAILED_PRECONDITION, "A part of the artifact holds parts again.");
      TENON_TRY(fits(nullptr, target, artifact.data(), artifact.size()));
    }
    return {};
  }
  kernelgen::DeviceProgram program;
  std::string why;
  if (!kernelgen::DeviceProgram::read(parts.program.data(), parts.program.size(), &program, &why)) {
    return fail(TENON_FAILED_PRECONDITION, cat("The artifact's record is malformed: ", why, "."));
  }
  return {};
}

Status load(void*, tenon_device_t* device, const void* bytes, uint64_t size_bytes,
            tenon_blob_t* const* constants, uint32_t constant_count,
            tenon_executable_t** out_executable) {
  auto made = std::make_unique<tenon_executable_t>();
  const std::string_view artifact(static_cast<const char*>(bytes), size_bytes);
  ArtifactParts parts;
  TENON_TRY(artifact_unpack_to_run(artifact, parts));
  const std::span<tenon_blob_t* const> blobs(constants, constant_count);
  TENON_TRY(parts.control ? ControlExecutable::load(device, artifact, blobs, made->control)
                          : Executable::load(device, artifact, blobs, made->executable));
  *out_executable = made.release();
  return {};
}

Status pack(void*, tenon_str_t, const void* bytes, uint64_t size_bytes,
            tenon_blob_t* const* constants, uint32_t constant_count,
            const tenon_packed_sink_t* sink) {
  ArtifactParts parts;
  TENON_TRY(artifact_unpack({static_cast<const char*>(bytes), size_bytes}, parts));
  if (!runs_here(parts.isa)) {
    return fail(TENON_UNIMPLEMENTED,
                cat("Kernels of the program pack constants, and this processor cannot run ",
                    name_of(parts.isa), "."));
  }
  tenon_device_t* device = nullptr;  // Host memory: there is nothing to close.
  TENON_TRY(kDeviceTable.open(nullptr, 0, &device));
  tenon_executable_t* loaded = nullptr;
  TENON_TRY(load(nullptr, device, bytes, size_bytes, constants, constant_count, &loaded));
  const std::unique_ptr<tenon_executable_t> owner(loaded);
  return owner->control ? owner->control->pack(*sink) : owner->executable->pack(*sink);
}

Status load_packed(void*, tenon_device_t* device, const void* bytes, uint64_t size_bytes,
                   tenon_blob_t* const* packed, uint32_t packed_count,
                   tenon_executable_t** out_executable) {
  auto made = std::make_unique<tenon_executable_t>();
  const std::string_view artifact(static_cast<const char*>(bytes), size_bytes);
  ArtifactParts parts;
  TENON_TRY(artifact_unpack_to_run(artifact, parts));
  PackedReader reader({packed, packed_count});
  TENON_TRY(parts.control ? ControlExecutable::load_packed(device, artifact, reader, made->control)
                          : Executable::load_packed(device, artifact, reader, made->executable));
  TENON_TRY(reader.at_end());
  *out_executable = made.release();
  return {};
}

void executable_release(void*, tenon_executable_t* executable) {
  delete executable;
}

Status executable_info(void*, tenon_executable_t* executable, tenon_executable_info_t* out) {
  tenon_executable_info_t made = {};
  if (executable->control) {
    executable->control->info(&made);
  } else {
    executable->executable->info(&made);
  }
  return give_record(out, made);
}

Status needs(void*, tenon_executable_t* executable, tenon_symbols_t symbols, tenon_needs_t* out) {
  return fill_record(out, [&](tenon_needs_t* full) {
    return executable->control ? executable->control->needs(symbols, full)
                               : executable->executable->needs(symbols, full);
  });
}

Status execute(void*, tenon_executable_t* executable, const tenon_call_t* call) {
  return executable->control ? executable->control->execute(*call)
                             : executable->executable->execute(*call);
}

Status dump(void*, tenon_artifact_t* artifact, tenon_str_t what, const tenon_sink_t* sink) {
  kernelgen::HostTables host;
  TENON_TRY(host_tables(host));
  std::string text;
  TENON_TRY(has_control(artifact->graph)
                ? explain_control(host, artifact->graph, artifact->settings, view(what), text)
                : explain_graph(host, artifact->graph, artifact->settings, view(what), text));
  return write(sink, text);
}

Status properties(void*, tenon_str_t, tenon_compile_properties_t* out) {
  tenon_compile_properties_t made = {};
  // Every sum has its order, however many threads there are. What is written into code is small.
  static_assert(kernelgen::kMostInlineConstantBytes <= TENON_COMPILE_EARLY_BYTES);
  made.flags = TENON_COMPILE_SAME_BITS | TENON_COMPILE_LATE_CONSTANTS;
  return give_record(out, made);
}

}  // namespace

const tenon_compile_api_t kCompileTable = {sizeof(tenon_compile_api_t),
                                           nullptr,
                                           entry<claim>,
                                           entry<compile>,
                                           &artifact_release,
                                           entry<artifact_info>,
                                           entry<artifact_bytes>,
                                           entry<fits>,
                                           entry<load>,
                                           &executable_release,
                                           entry<executable_info>,
                                           entry<needs>,
                                           entry<execute>,
                                           entry<dump>,
                                           entry<pack>,
                                           entry<load_packed>,
                                           entry<properties>};

}  // namespace tenon::cpu
