// tenon.compile/1 of the simulated device: kernelgen turns subgraphs into OpenCL C, the host's
// toolchain for that dialect compiles it, and a queue's thread runs the work items.
#include "plugins/sim/compile/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <shared_mutex>

#include "plugins/sim/compile/claim.h"
#include "plugins/sim/device/device.h"
#include "plugins/sim/kernels/dialects.h"
#include "plugins/sim/kernels/kernel_module.h"
#include "tenon/abi/host.h"
#include "tenon/abi/toolchain.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/kernelgen/device/device_program.h"
#include "tenon/kernelgen/device/program_layout.h"
#include "tenon/kernelgen/device/text_device.h"

namespace tenon::sim {
namespace {

namespace kg = tenon::kernelgen;

struct Executable {
  Device* device = nullptr;
  kg::DeviceProgram program;
  KernelModule module;
  std::vector<tenon_opencl_run_t> entries;  // per kernel
  std::vector<uint64_t> constants;          // handles; 0 where no step of a run reads the constant
  std::vector<uint64_t> persistents;        // by buffer: results of the load steps; 0 elsewhere
  uint64_t constant_bytes = 0;

  ~Executable() {
    for (const auto* handles : {&constants, &persistents}) {
      for (uint64_t handle : *handles) {
        if (handle != 0) (void)device->memory.free(handle);
      }
    }
  }
};

kg::TextArtifact* artifact_of(tenon_artifact_t* a) {
  return reinterpret_cast<kg::TextArtifact*>(a);
}
Executable* executable_of(tenon_executable_t* e) {
  return reinterpret_cast<Executable*>(e);
}

Status open_host_tables(kg::HostTables* out) {
  return kg::open_host_tables(context().host, out);
}

Status toolchain(const tenon_toolchain_api_t** out) {
  const auto* registry = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  if (registry == nullptr) return fail(TENON_FAILED_PRECONDITION, "sim: this host has no registry");
  return registry->plugin_interface(registry->self, str("toolchain"), str(TENON_DIALECT_OPENCL_C),
                                    str(TENON_TOOLCHAIN_ID), reinterpret_cast<const void**>(out));
}

// A device of concrete sizes, as many NPUs are.
bool is_static() {
  return setting("TENON_SIM_STATIC") == "1";
}

// The host does not send such graphs to a device of concrete sizes.
Status refuse_symbols(const kg::HostTables& host, tenon_graph_t* graph) {
  auto view = sized<tenon_graph_view_t>();
  auto main = sized<tenon_region_view_t>();
  TENON_TRY(Status(host.graph->graph_view(host.graph->self, graph, &view)));
  if (view.symbol_limit == 0) return {};
  TENON_TRY(Status(host.graph->region_view(host.graph->self, graph, view.main, &main)));
  if (main.symbol_count == 0) return {};
  return fail(TENON_UNIMPLEMENTED,
              cat("sim: a graph with ", main.symbol_count,
                  " symbolic sizes; with TENON_SIM_STATIC=1 it compiles concrete sizes alone"));
}

Status compile(void*, tenon_str_t, tenon_graph_t* graph, const tenon_compile_options_t* options,
               tenon_artifact_t** out) {
  kg::HostTables host;
  const tenon_toolchain_api_t* tools = nullptr;
  TENON_TRY(open_host_tables(&host));
  if (is_static()) TENON_TRY(refuse_symbols(host, graph));
  TENON_TRY(kg::refuse_options(host, kName, options));
  TENON_TRY(toolchain(&tools));
  auto artifact = std::make_unique<kg::TextArtifact>();
  Text text;
  TENON_TRY(text_of_settings(&text));
  TENON_TRY(kg::build_text(host, kName, graph, text.target, artifact.get()));
  TENON_TRY(KernelModule::build_unit(*tools, text.toolchain, text.unit(artifact->text),
                                     setting("TENON_SIM_CHECK") == "1", &artifact->code));
  *out = reinterpret_cast<tenon_artifact_t*>(artifact.release());
  return {};
}

void artifact_release(void*, tenon_artifact_t* artifact) {
  delete artifact_of(artifact);
}

Status artifact_info(void*, tenon_artifact_t* artifact, tenon_artifact_info_t* out) {
  tenon_artifact_info_t made = {};
  made.kernels_compiled = artifact_of(artifact)->kernel_count;
  made.code_bytes = artifact_of(artifact)->code.size();
  return give_record(out, made);
}

Status artifact_bytes(void*, tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  return kg::write_artifact(*artifact_of(artifact), sink);
}

Status fits(void*, tenon_str_t target, const void* bytes, uint64_t size_bytes) {
  if (!is_target(view(target)))
    return fail(
        TENON_FAILED_PRECONDITION,
        cat("sim: the artifact is for a device of sim, and not for ", quoted(view(target))));
  kg::HostTables host;
  kg::DeviceProgram program;
  std::string_view object;
  TENON_TRY(open_host_tables(&host));
  return kg::read_artifact(host, kName, bytes, size_bytes, &program, &object);
}

Status resolve_kernels(Executable* exe, std::string_view object) {
  const tenon_toolchain_api_t* tools = nullptr;
  TENON_TRY(toolchain(&tools));
  TENON_TRY(exe->module.load(*tools, object));
  for (const kg::ProgramKernel& kernel : exe->program.kernels)
    TENON_TRY(exe->module.find(kernel.entry, &exe->entries.emplace_back()));
  return {};
}

Status upload_constants(const kg::HostTables& host, Executable* exe, tenon_blob_t* const* blobs,
                        uint32_t count) {
  std::vector<std::string_view> constants;
  TENON_TRY(kg::constant_bytes(host, kName, exe->program, blobs, count, &constants));
  const DeviceMemory::Access access(exe->device->memory);
  for (std::string_view bytes : constants) {
    uint64_t handle = 0;
    void* to = nullptr;
    TENON_TRY(exe->device->alloc(bytes.size(), &handle));
    exe->constants.push_back(handle);
    exe->constant_bytes += bytes.size();
    TENON_TRY(exe->device->memory.translate(handle, 0, bytes.size(), &to));
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
  return {};
}

Status run_load_steps(Executable* exe);

Status load(void*, tenon_device_t* device, const void* bytes, uint64_t size_bytes,
            tenon_blob_t* const* constants, uint32_t constant_count, tenon_executable_t** out) {
  auto exe = std::make_unique<Executable>();
  exe->device = device_of(device);
  TENON_TRY(exe->device->alive());
  kg::HostTables host;
  std::string_view object;
  TENON_TRY(open_host_tables(&host));
  TENON_TRY(kg::read_artifact(host, kName, bytes, size_bytes, &exe->program, &object));
  if (!exe->program.kernels.empty()) TENON_TRY(resolve_kernels(exe.get(), object));
  TENON_TRY(upload_constants(host, exe.get(), constants, constant_count));
  TENON_TRY(run_load_steps(exe.get()));
  *out = reinterpret_cast<tenon_executable_t*>(exe.release());
  return {};
}

void executable_release(void*, tenon_executable_t* exe) {
  delete executable_of(exe);
}

Status executable_info(void*, tenon_executable_t* exe, tenon_executable_info_t* out) {
  const Executable& e = *executable_of(exe);
  return give_record(
      out, tenon_executable_info_t{sizeof *out, static_cast<uint32_t>(e.program.steps.size()),
                                   e.constant_bytes});
}

Status layout_of(const Executable& exe, tenon_symbols_t symbols, kg::ProgramLayout* out) {
  std::string why;
  if (!kg::layout_program(exe.program, {symbols.values, symbols.count},
                          {kg::ScratchPer::kItem, kAlignmentBytes}, out, &why)) {
    return fail(TENON_INVALID_ARGUMENT, cat("sim: ", why));
  }
  return {};
}

Status needs(void*, tenon_executable_t* e, tenon_symbols_t symbols, tenon_needs_t* out) {
  const Executable& exe = *executable_of(e);
  kg::ProgramLayout layout;
  TENON_TRY(layout_of(exe, symbols, &layout));
  return fill_record(out, [&](tenon_needs_t* full) -> Status {
    if (kg::fill_needs(exe.program, layout, {symbols.values, symbols.count}, full)) return {};
    return fail(TENON_INVALID_ARGUMENT, "sim: the call has another number of outputs");
  });
}

// Everything that one execution uses. It owns copies, because it runs later on the queue's thread.
struct Run {
  const Executable* exe;
  kg::ProgramLayout layout;
  std::vector<std::pair<uint64_t, uint64_t>> inputs, outputs;  // handle, offset
  std::pair<uint64_t, uint64_t> workspace;
  const tenon_profile_sink_t* profile;
};

std::pair<uint64_t, uint64_t> span_of(const tenon_span_t& s) {
  return {handle_of(s.buffer), s.offset_bytes};
}

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

struct Place {
  uint64_t handle = 0, offset_bytes = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

Place place_of(const Run& run, uint32_t buffer) {
  const kg::ProgramBuffer& b = run.exe->program.buffers[buffer];
  switch (b.kind) {
    case kg::BufferKind::kInput:
      return {run.inputs[b.index].first, run.inputs[b.index].second};
    case kg::BufferKind::kOutput:
      return {run.outputs[b.index].first, run.outputs[b.index].second};
    case kg::BufferKind::kConstant:
      return {run.exe->constants[b.index], 0};
    case kg::BufferKind::kPersistent:
      return {run.exe->persistents[buffer], 0};
    case kg::BufferKind::kTemp:
      break;
  }
  return {run.workspace.first, run.workspace.second + run.layout.temp_offsets[buffer]};
}

// Whether a step has nothing to do: it copies a buffer to where it lies.
bool is_done(const Run& run, const kg::ProgramStep& step) {
  return step.copies && place_of(run, step.buffers[0]) == place_of(run, step.buffers[1]);
}

std::string name_of(const kg::ProgramBuffer& b, uint32_t buffer) {
  switch (b.kind) {
    case kg::BufferKind::kInput:
      return cat("input ", b.index);
    case kg::BufferKind::kOutput:
      return cat("output ", b.index);
    case kg::BufferKind::kConstant:
      return cat("constant ", b.index);
    default:
      return cat("buffer ", buffer);
  }
}

// Adds the memory of one argument: its address or, for a watched kernel, its address in a view.
Status add_buffer(const Run& run, Place place, KernelArg arg, DeviceMemory::Views* views,
                  std::vector<KernelArg>* args) {
  DeviceMemory& memory = run.exe->device->memory;
  arg.kind = KernelArg::Kind::kBuffer;
  TENON_TRY(memory.place(place.handle, place.offset_bytes, arg.size_bytes, &arg.place));
  if (run.exe->module.watched()) {
    TENON_TRY(views->add(arg.place, arg.size_bytes, &arg.data));
  } else {
    TENON_TRY(memory.translate(place.handle, place.offset_bytes, arg.size_bytes, &arg.data));
  }
  args->push_back(std::move(arg));
  return {};
}

Status launch(const Run& run, const kg::ProgramStep& step, size_t index) {
  const kg::ProgramLayout::Launch& l = run.layout.launches[index];
  if (l.range <= 0) return {};
  const kg::ProgramKernel& kernel = run.exe->program.kernels[step.kernel];
  DeviceMemory::Views views(run.exe->device->memory);
  Launch out;
  out.entry = run.exe->entries[step.kernel];
  if (run.exe->module.watched())
    out.title = cat("kernel `", kernel.entry, "` (", step.name, " for ", step.origins, ")");
  out.global[0] = kg::global_size(static_cast<uint64_t>(l.range), kernel.group, kernel.together);
  out.local[0] = kernel.group == 0 ? 1 : kernel.group;
  for (size_t b = 0; b < step.buffers.size(); ++b) {
    const kg::ProgramBuffer& buffer = run.exe->program.buffers[step.buffers[b]];
    KernelArg arg;
    arg.size_bytes = run.layout.bytes[step.buffers[b]];
    arg.name = name_of(buffer, step.buffers[b]);
    arg.element_bytes = std::max(1u, kg::size_of(buffer.type));
    arg.written = step.written[b];
    TENON_TRY(add_buffer(run, place_of(run, step.buffers[b]), std::move(arg), &views, &out.args));
  }
  std::vector<int64_t> extents = l.extents;
  for (int64_t& e : extents) out.args.push_back({.data = &e, .size_bytes = sizeof e});
  if (l.scratch_bytes != 0) {
    KernelArg arg;
    arg.size_bytes = l.scratch_bytes * static_cast<uint64_t>(l.range);
    arg.name = "scratch";
    TENON_TRY(add_buffer(run,
                         {run.workspace.first, run.workspace.second + run.layout.scratch_offset},
                         std::move(arg), &views, &out.args));
  }
  return run.exe->module.run(out);
}

// Kernels clamp accesses that would leave a buffer, so a failed check has done no damage; it only
// invalidates the results.
Status check_run(const Run& run) {
  for (const kg::ProgramLayout::Check& check : run.layout.checks) {
    void* at = nullptr;
    uint64_t found = 0;
    const Place place = place_of(run, run.exe->program.checks[check.index].buffer);
    TENON_TRY(
        run.exe->device->memory.translate(place.handle, place.offset_bytes, sizeof found, &at));
    std::memcpy(&found, at, sizeof found);
    std::string text;
    if (const tenon_code_t code = kg::check_found(run.exe->program, check, found, &text);
        code != TENON_OK)
      return fail(code, text);
  }
  return {};
}

Status perform(const Run& run, Queue& queue) {
  TENON_TRY(run.exe->device->begin_command(Event::kLaunch, queue));
  const Running running(run.exe->device->ordinal);
  const std::shared_lock touching(run.exe->device->touching);
  TENON_TRY(run.exe->device->alive());
  const DeviceMemory::Access access(run.exe->device->memory);
  for (size_t i = 0; i < run.exe->program.steps.size(); ++i) {
    if (cancelled()) return fail(TENON_CANCELLED, "sim: stopped");
    if (is_done(run, run.exe->program.steps[i])) continue;
    const uint64_t begin = now_ns();
    TENON_TRY(launch(run, run.exe->program.steps[i], i));
    if (run.profile != nullptr) {
      const kg::ProgramStep& step = run.exe->program.steps[i];
      const kg::ProgramKernel& kernel = run.exe->program.kernels[step.kernel];
      const std::vector<int64_t>& extents = run.layout.launches[i].extents;
      auto event = sized<tenon_profile_event_t>();
      event.name = str(step.name);
      event.origins = str(step.origins);
      event.begin_ns = begin;
      event.end_ns = now_ns();
      event.flops = static_cast<double>(kernel.flops.evaluate(extents));
      event.bytes = static_cast<double>(kernel.bytes.evaluate(extents));
      run.profile->event(run.profile->self, &event);
    }
  }
  return check_run(run);
}

// Runs on the caller's thread before the executable is returned, so nothing else uses its memory.
Status run_load_steps(Executable* exe) {
  const kg::DeviceProgram& program = exe->program;
  Run run{exe, {}, {}, {}, {}, nullptr};
  std::string why;
  if (!kg::layout_load_steps(program, {kg::ScratchPer::kItem, kAlignmentBytes}, &run.layout,
                             &why)) {
    return fail(TENON_RESOURCE_EXHAUSTED, cat("sim: ", why));
  }
  DeviceMemory& memory = exe->device->memory;
  const std::vector<bool> used = kg::used_at_run(program);
  exe->persistents.assign(program.buffers.size(), 0);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].kind != kg::BufferKind::kPersistent) continue;
    TENON_TRY(exe->device->alloc(run.layout.bytes[b], &exe->persistents[b]));
    exe->constant_bytes += run.layout.bytes[b];
  }
  if (run.layout.workspace_bytes != 0)
    TENON_TRY(exe->device->alloc(run.layout.workspace_bytes, &run.workspace.first));
  Status done;
  {
    const DeviceMemory::Access access(memory);
    for (size_t i = 0; done.ok() && i < program.load_steps.size(); ++i)
      done = launch(run, program.load_steps[i], i);
  }
  if (run.workspace.first != 0) TENON_TRY(memory.free(run.workspace.first));
  for (size_t b = 0; b < program.buffers.size() && !program.load_steps.empty(); ++b) {
    const kg::ProgramBuffer& buffer = program.buffers[b];
    uint64_t* handle = buffer.kind == kg::BufferKind::kPersistent ? &exe->persistents[b]
                       : buffer.kind == kg::BufferKind::kConstant ? &exe->constants[buffer.index]
                                                                  : nullptr;
    if (handle == nullptr || used[b] || *handle == 0) continue;
    TENON_TRY(memory.free(*handle));
    *handle = 0;
    exe->constant_bytes -= run.layout.bytes[b];
  }
  return done;
}

Status execute(void*, tenon_executable_t* e, const tenon_call_t* call) {
  Executable& exe = *executable_of(e);
  if (call->input_count != exe.program.input_count ||
      call->output_count != exe.program.output_count) {
    return fail(TENON_INVALID_ARGUMENT, "sim: the call has another number of inputs or outputs");
  }
  TENON_TRY(exe.device->alive());
  auto run = std::make_shared<Run>();
  run->exe = &exe;
  TENON_TRY(layout_of(exe, call->symbols, &run->layout));
  for (uint32_t i = 0; i < call->input_count; ++i)
    run->inputs.push_back(span_of(*tenon_call_input(call, i)));
  for (uint32_t i = 0; i < call->output_count; ++i)
    run->outputs.push_back(span_of(*tenon_call_output(call, i)));
  run->workspace = span_of({call->workspace, call->workspace_offset_bytes});
  run->profile = call->profile;
  if (call->queue != nullptr) {
    queue_of(call->queue)
        ->queue->submit(
            points_of(call->waits, call->wait_count), point_of(call->signal),
            [run](Queue& queue) { return perform(*run, queue); }, holds_back());
    return {};
  }
  Fence done(0);
  exe.device->default_queue->submit({}, {&done, 1},
                                    [run](Queue& queue) { return perform(*run, queue); });
  return done.wait(1, UINT64_MAX);
}

Status dump(void*, tenon_artifact_t* artifact, tenon_str_t what, const tenon_sink_t* sink) {
  kg::HostTables host;
  TENON_TRY(open_host_tables(&host));
  return kg::dump_artifact(host, kName, *artifact_of(artifact), what, sink);
}

Status properties(void*, tenon_str_t, tenon_compile_properties_t* out) {
  tenon_compile_properties_t made = {};
  made.flags = TENON_COMPILE_SAME_BITS;  // the order of every sum is in the text
  if (is_static()) made.flags |= TENON_COMPILE_STATIC;
  return give_record(out, made);
}

}  // namespace

const tenon_compile_api_t kCompileTable = {sizeof(tenon_compile_api_t),
                                           nullptr,
                                           entry<claim_ops>,
                                           entry<compile>,
                                           artifact_release,
                                           entry<artifact_info>,
                                           entry<artifact_bytes>,
                                           entry<fits>,
                                           entry<load>,
                                           executable_release,
                                           entry<executable_info>,
                                           entry<needs>,
                                           entry<execute>,
                                           entry<dump>,
                                           nullptr,
                                           nullptr,
                                           entry<properties>};

}  // namespace tenon::sim
