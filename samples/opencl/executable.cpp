// tenon.compile/1: subgraphs become OpenCL C through kernelgen; the artifact is the text and the program record, and the driver
// compiles it at load.
#include "executable.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "device.h"
#include "tenon/kernelgen/device_program.h"
#include "tenon/kernelgen/program_layout.h"
#include "tenon/kernelgen/text_device.h"

namespace opencl_sample {
namespace {

namespace kg = tenon::kernelgen;
using tenon::cat;
using tenon::context;
using tenon::entry;
using tenon::fail;
using tenon::Status;
using tenon::str;
using tenon::view;

constexpr std::string_view kName = "opencl";
constexpr kg::DeviceRates kRates{10, 10, 50000};

struct Executable {
  Device* device = nullptr;
  kg::DeviceProgram program;
  cl_program module = nullptr;
  std::vector<cl_kernel> kernels;
  std::vector<cl_mem> constants;    // null where no step of a run reads it
  std::vector<cl_mem> persistents;  // per buffer: what the load steps made; null elsewhere
  uint64_t constant_bytes = 0;
  std::mutex mutex;  // kernel arguments are state of the kernel object

  ~Executable() {
    for (const auto* list : {&constants, &persistents}) {
      for (cl_mem m : *list) {
        if (m != nullptr) device->cl->clReleaseMemObject(m);
      }
    }
    for (cl_kernel k : kernels) device->cl->clReleaseKernel(k);
    if (module != nullptr) device->cl->clReleaseProgram(module);
  }
};

kg::TextArtifact* artifact_of(tenon_artifact_t* a) { return reinterpret_cast<kg::TextArtifact*>(a); }
Executable* executable_of(tenon_executable_t* e) { return reinterpret_cast<Executable*>(e); }

bool has_fp64(tenon_str_t target) { return view(target).find("fp64=1") != std::string_view::npos; }

Status lift_host(kg::LiftHost* out) { return kg::lift_host(context().host, out); }

Status claim(void*, tenon_str_t target, tenon_graph_t* graph, const tenon_claim_sink_t* sink) {
  kg::LiftHost host;
  TENON_TRY(lift_host(&host));
  kg::LiftLimits limits;
  if (!has_fp64(target)) limits.dtypes &= ~(1u << TENON_F64);
  return kg::claim_nodes(host, graph, limits, kRates, sink);
}

// The code of the artifact is the text: the driver compiles it at load.
Status compile(void*, tenon_str_t target, tenon_graph_t* graph, const tenon_compile_options_t*, tenon_artifact_t** out) {
  kg::LiftHost host;
  TENON_TRY(lift_host(&host));
  auto artifact = std::make_unique<kg::TextArtifact>();
  TENON_TRY(kg::build_text(host, kName, graph, kg::Target::opencl(has_fp64(target)), artifact.get()));
  artifact->code = artifact->text;
  *out = reinterpret_cast<tenon_artifact_t*>(artifact.release());
  return {};
}

void artifact_release(void*, tenon_artifact_t* artifact) { delete artifact_of(artifact); }

Status artifact_info(void*, tenon_artifact_t* artifact, tenon_artifact_info_t* out) {
  *out = {sizeof *out, artifact_of(artifact)->kernel_count, 0, 0, artifact_of(artifact)->code.size()};
  return {};
}

Status artifact_bytes(void*, tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  return kg::write_artifact(*artifact_of(artifact), sink);
}

Status fits(void*, tenon_str_t, const void* bytes, uint64_t size_bytes) {
  kg::LiftHost host;
  kg::DeviceProgram program;
  std::string_view text;
  TENON_TRY(lift_host(&host));
  return kg::read_artifact(host, kName, bytes, size_bytes, &program, &text);
}

std::string build_log(const Executable& exe) {
  size_t size = 0;
  exe.device->cl->clGetProgramBuildInfo(exe.module, exe.device->id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  exe.device->cl->clGetProgramBuildInfo(exe.module, exe.device->id, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  return log;
}

Status build(Executable* exe, std::string_view text) {
  const Functions& cl = *exe->device->cl;
  cl_int code = CL_SUCCESS;
  const char* source = text.data();
  const size_t length = text.size();
  exe->module = cl.clCreateProgramWithSource(exe->device->context, 1, &source, &length, &code);
  TENON_TRY(check(code, "making a program"));
  // No relaxed mathematics: results have to agree with the reference.
  code = cl.clBuildProgram(exe->module, 1, &exe->device->id, "-cl-std=CL1.2", nullptr, nullptr);
  if (code != CL_SUCCESS) return fail(TENON_INTERNAL, cat("opencl: the driver refuses the generated text: ", build_log(*exe)));
  for (const kg::ProgramKernel& kernel : exe->program.kernels) {
    exe->kernels.push_back(cl.clCreateKernel(exe->module, kernel.entry.c_str(), &code));
    TENON_TRY(check(code, cat("finding kernel ", kernel.entry)));
  }
  return {};
}

Status upload_constants(const kg::LiftHost& host, Executable* exe, tenon_blob_t* const* blobs, uint32_t count) {
  std::vector<std::string_view> constants;
  TENON_TRY(kg::constant_bytes(host, kName, exe->program, blobs, count, &constants));
  const Functions& cl = *exe->device->cl;
  for (std::string_view bytes : constants) {
    cl_int code = CL_SUCCESS;
    const size_t size = bytes.empty() ? 1 : bytes.size();  // OpenCL has no buffers of size 0
    exe->constants.push_back(cl.clCreateBuffer(exe->device->context, CL_MEM_READ_ONLY, size, nullptr, &code));
    TENON_TRY(check(code, cat("allocating ", bytes.size(), " bytes of constants")));
    exe->constant_bytes += bytes.size();
    if (bytes.empty()) continue;
    TENON_TRY(check(cl.clEnqueueWriteBuffer(exe->device->queue, exe->constants.back(), CL_TRUE, 0, bytes.size(), bytes.data(), 0,
                                            nullptr, nullptr),
                    "writing constants"));
  }
  return {};
}

Status run_load_steps(Executable* exe);

Status load(void*, tenon_device_t* device, const void* bytes, uint64_t size_bytes, tenon_blob_t* const* constants,
            uint32_t constant_count, tenon_executable_t** out) {
  auto exe = std::make_unique<Executable>();
  exe->device = device_of(device);
  kg::LiftHost host;
  std::string_view text;
  TENON_TRY(lift_host(&host));
  TENON_TRY(kg::read_artifact(host, kName, bytes, size_bytes, &exe->program, &text));
  if (!exe->program.kernels.empty()) TENON_TRY(build(exe.get(), text));
  TENON_TRY(upload_constants(host, exe.get(), constants, constant_count));
  TENON_TRY(run_load_steps(exe.get()));
  *out = reinterpret_cast<tenon_executable_t*>(exe.release());
  return {};
}

void executable_release(void*, tenon_executable_t* exe) { delete executable_of(exe); }

Status executable_info(void*, tenon_executable_t* exe, tenon_executable_info_t* out) {
  *out = {sizeof *out, static_cast<uint32_t>(executable_of(exe)->program.steps.size()), executable_of(exe)->constant_bytes};
  return {};
}

Status layout_of(const Executable& exe, tenon_symbols_t symbols, kg::ProgramLayout* out) {
  std::string why;
  const kg::LayoutOptions options{kg::ScratchPer::kItem, exe.device->alignment_bytes};
  if (!kg::layout_program(exe.program, {symbols.values, symbols.count}, options, out, &why)) {
    return fail(TENON_INVALID_ARGUMENT, cat("opencl: ", why));
  }
  return {};
}

Status needs(void*, tenon_executable_t* e, tenon_symbols_t symbols, tenon_needs_t* out) {
  kg::ProgramLayout layout;
  TENON_TRY(layout_of(*executable_of(e), symbols, &layout));
  if (!kg::fill_needs(executable_of(e)->program, layout, {symbols.values, symbols.count}, out)) {
    return fail(TENON_INVALID_ARGUMENT, "opencl: the call has another number of outputs");
  }
  return {};
}

// Sub-buffers that one execution made; released when it is done.
class Views {
 public:
  explicit Views(const Device& device) : device_(device) {}
  ~Views() {
    for (cl_mem m : made_) device_.cl->clReleaseMemObject(m);
  }
  Status at(const tenon_span_t& span, uint64_t extra_bytes, uint64_t size_bytes, cl_mem* out) {
    const Buffer* buffer = buffer_of(span.buffer);
    const uint64_t offset = span.offset_bytes + extra_bytes;
    if (offset == 0) return *out = buffer->memory, Status();
    const cl_buffer_region region{offset, size_bytes == 0 ? 1 : size_bytes};
    cl_int code = CL_SUCCESS;
    *out = device_.cl->clCreateSubBuffer(buffer->memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    TENON_TRY(check(code, cat("viewing ", size_bytes, " bytes at ", offset)));
    made_.push_back(*out);
    return {};
  }

 private:
  const Device& device_;
  std::vector<cl_mem> made_;
};

struct Run {
  Executable& exe;
  const tenon_call_t& call;
  kg::ProgramLayout layout;
  Views views;
};

Status memory_of(Run& run, uint32_t buffer, cl_mem* out) {
  const kg::ProgramBuffer& b = run.exe.program.buffers[buffer];
  const uint64_t bytes = run.layout.bytes[buffer];
  switch (b.kind) {
    case kg::BufferKind::kInput: return run.views.at(run.call.inputs[b.index], 0, bytes, out);
    case kg::BufferKind::kOutput: return run.views.at(run.call.outputs[b.index], 0, bytes, out);
    case kg::BufferKind::kConstant: return *out = run.exe.constants[b.index], Status();
    case kg::BufferKind::kPersistent: return *out = run.exe.persistents[buffer], Status();
    case kg::BufferKind::kTemp: return run.views.at(run.call.workspace, run.layout.temp_offsets[buffer], bytes, out);
  }
  return fail(TENON_INTERNAL, "opencl: a buffer of unknown kind");
}

Status launch(Run& run, const kg::ProgramStep& step, size_t index) {
  const kg::ProgramLayout::Launch& l = run.layout.launches[index];
  const Functions& cl = *run.exe.device->cl;
  cl_kernel kernel = run.exe.kernels[step.kernel];
  if (l.range == 0) return {};
  cl_uint arg = 0;
  cl_int code = CL_SUCCESS;
  const auto set = [&](size_t size, const void* value) {
    if (code == CL_SUCCESS) code = cl.clSetKernelArg(kernel, arg++, size, value);
  };
  for (uint32_t b : step.buffers) {
    cl_mem memory = nullptr;
    TENON_TRY(memory_of(run, b, &memory));
    set(sizeof memory, &memory);
  }
  for (int64_t e : l.extents) set(sizeof e, &e);
  if (l.scratch_bytes != 0) {
    cl_mem scratch = nullptr;
    TENON_TRY(run.views.at(run.call.workspace, run.layout.scratch_offset, l.scratch_bytes * static_cast<uint64_t>(l.range), &scratch));
    set(sizeof scratch, &scratch);
  }
  TENON_TRY(check(code, cat("setting the arguments of ", step.name)));
  const size_t size = static_cast<size_t>(l.range);
  return check(cl.clEnqueueNDRangeKernel(run.exe.device->queue, kernel, 1, nullptr, &size, nullptr, 0, nullptr, nullptr),
               cat("starting ", step.name));
}

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

// Memory of the device for a while; 0 bytes are none.
Status allocate(const Executable& exe, uint64_t bytes, std::string_view what, cl_mem* out) {
  cl_int code = CL_SUCCESS;
  *out = exe.device->cl->clCreateBuffer(exe.device->context, CL_MEM_READ_WRITE, bytes == 0 ? 1 : bytes, nullptr, &code);
  return check(code, cat("allocating ", bytes, " bytes of ", what));
}

// What runs have no use for any more.
void drop_inputs_of_load(Executable* exe, const kg::ProgramLayout& layout) {
  const std::vector<bool> used = kg::used_at_run(exe->program);
  for (size_t b = 0; b < exe->program.buffers.size(); ++b) {
    const kg::ProgramBuffer& buffer = exe->program.buffers[b];
    cl_mem* memory = buffer.kind == kg::BufferKind::kPersistent ? &exe->persistents[b]
                     : buffer.kind == kg::BufferKind::kConstant ? &exe->constants[buffer.index]
                                                                : nullptr;
    if (memory == nullptr || used[b] || *memory == nullptr) continue;
    exe->device->cl->clReleaseMemObject(*memory);
    *memory = nullptr;
    exe->constant_bytes -= layout.bytes[b];
  }
}

Status run_load_steps(Executable* exe) {
  exe->persistents.assign(exe->program.buffers.size(), nullptr);
  if (exe->program.load_steps.empty()) return {};
  tenon_call_t call{};
  Run run{*exe, call, {}, Views(*exe->device)};
  std::string why;
  if (!kg::layout_load_steps(exe->program, {kg::ScratchPer::kItem, exe->device->alignment_bytes}, &run.layout, &why)) {
    return fail(TENON_RESOURCE_EXHAUSTED, cat("opencl: ", why));
  }
  for (size_t b = 0; b < exe->program.buffers.size(); ++b) {
    if (exe->program.buffers[b].kind != kg::BufferKind::kPersistent) continue;
    TENON_TRY(allocate(*exe, run.layout.bytes[b], "packed constants", &exe->persistents[b]));
    exe->constant_bytes += run.layout.bytes[b];
  }
  Buffer scratch{};
  TENON_TRY(allocate(*exe, run.layout.workspace_bytes, "scratch memory", &scratch.memory));
  call.workspace = {reinterpret_cast<tenon_buffer_t*>(&scratch), 0};
  Status done;
  for (size_t i = 0; done.ok() && i < exe->program.load_steps.size(); ++i) done = launch(run, exe->program.load_steps[i], i);
  const cl_int finished = exe->device->cl->clFinish(exe->device->queue);
  exe->device->cl->clReleaseMemObject(scratch.memory);
  TENON_TRY(done);
  TENON_TRY(check(finished, "waiting for the kernels of the load"));
  drop_inputs_of_load(exe, run.layout);
  return {};
}

Status execute(void*, tenon_executable_t* e, const tenon_call_t* call) {
  Executable& exe = *executable_of(e);
  if (call->input_count != exe.program.input_count || call->output_count != exe.program.output_count) {
    return fail(TENON_INVALID_ARGUMENT, "opencl: the call has another number of inputs or outputs");
  }
  const std::lock_guard lock(exe.mutex);
  Run run{exe, *call, {}, Views(*exe.device)};
  TENON_TRY(layout_of(exe, call->symbols, &run.layout));
  for (size_t i = 0; i < exe.program.steps.size(); ++i) {
    if (tenon::cancelled()) return fail(TENON_CANCELLED, "opencl: stopped");
    const uint64_t begin = now_ns();
    TENON_TRY(launch(run, exe.program.steps[i], i));
    if (call->profile == nullptr) continue;
    TENON_TRY(check(exe.device->cl->clFinish(exe.device->queue), "waiting for a kernel"));
    const kg::ProgramStep& step = exe.program.steps[i];
    const kg::ProgramKernel& kernel = exe.program.kernels[step.kernel];
    const std::vector<int64_t>& extents = run.layout.launches[i].extents;
    call->profile->event(call->profile->self, str(step.name), str(step.origins), begin, now_ns(),
                         static_cast<double>(kernel.flops.evaluate(extents)), static_cast<double>(kernel.bytes.evaluate(extents)), 0);
  }
  return check(exe.device->cl->clFinish(exe.device->queue), "waiting for the kernels");
}

Status dump(void*, tenon_artifact_t* artifact, tenon_str_t what, const tenon_sink_t* sink) {
  kg::LiftHost host;
  TENON_TRY(lift_host(&host));
  return kg::dump_artifact(host, kName, *artifact_of(artifact), what, sink);
}

}  // namespace

const tenon_compile_api_t kCompileTable = {
    sizeof(tenon_compile_api_t), nullptr,        entry<claim>,      entry<compile>,     artifact_release, entry<artifact_info>,
    entry<artifact_bytes>,       entry<fits>,    entry<load>,       executable_release, entry<executable_info>,
    entry<needs>,                entry<execute>, entry<dump>};

}  // namespace opencl_sample
