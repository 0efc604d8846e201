#include "tenon/kernelgen/device/text_executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>

#include "tenon/abi/copy.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/record.hpp"
#include "tenon/kernelgen/device/program_layout.h"
#include "tenon/kernelgen/print/print.h"

namespace tenon::kernelgen {
namespace {

// Sizes for one tuple of symbols.
struct Sizes {
  std::vector<int64_t> symbols;
  ProgramLayout layout;
};

struct Executable {
  const TextDevice& owner;
  tenon_device_t* device = nullptr;
  DeviceProgram program;
  std::unique_ptr<LoadedText> code;
  std::vector<tenon_buffer_t*> constants;    // null if no step of a run reads it
  std::vector<tenon_buffer_t*> persistents;  // per buffer: result of the load steps; else null
  uint64_t constant_bytes = 0;
  std::mutex mutex;
  std::shared_ptr<const Sizes> last;  // for the latest tuple of symbols, which runs often repeat

  ~Executable() {
    for (const auto* list : {&constants, &persistents}) {
      for (tenon_buffer_t* b : *list) free(b);
    }
  }
  void free(tenon_buffer_t* b) const {
    if (b != nullptr) (void)owner.memory().free(owner.memory().self, device, b);
  }
  Status alloc(uint64_t bytes, tenon_buffer_t** out) const {
    return owner.memory().alloc(owner.memory().self, device, bytes, out);
  }
  Status refuse(tenon_code_t status, std::string_view why) const {
    return fail(status, cat(owner.name(), ": ", why));
  }
};

TextArtifact* artifact_of(tenon_artifact_t* a) {
  return reinterpret_cast<TextArtifact*>(a);
}
Executable* executable_of(tenon_executable_t* e) {
  return reinterpret_cast<Executable*>(e);
}

// ---- Artifacts: their target, binaries and the text. The digest over all of it (text_device.h)
// reveals damage ----

struct Code {
  std::string_view target;
  std::vector<std::string_view> binaries;
  std::string_view text;
};

// Numbers of 64 bits: the bytes of the target, the number of binaries, the bytes of each.
std::string join(const Code& code) {
  std::vector<uint64_t> sizes = {code.target.size(), code.binaries.size()};
  for (std::string_view binary : code.binaries) sizes.push_back(binary.size());
  std::string body(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(uint64_t));
  body.append(code.target);
  for (std::string_view binary : code.binaries) body.append(binary);
  return body.append(code.text);
}

bool split(std::string_view bytes, Code* out) {
  uint64_t head[2];
  if (bytes.size() < sizeof head) return false;
  std::memcpy(head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  if (head[1] > bytes.size() / sizeof(uint64_t)) return false;
  std::vector<uint64_t> sizes(head[1]);
  if (!sizes.empty()) std::memcpy(sizes.data(), bytes.data(), sizes.size() * sizeof(uint64_t));
  bytes.remove_prefix(sizes.size() * sizeof(uint64_t));
  const auto take = [&](uint64_t size, std::string_view* part) {
    if (size > bytes.size()) return false;
    *part = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return true;
  };
  if (!take(head[0], &out->target)) return false;
  for (uint64_t size : sizes) {
    if (!take(size, &out->binaries.emplace_back())) return false;
  }
  out->text = bytes;
  return true;
}

Status open_artifact(const TextDevice& device, const void* bytes, uint64_t size_bytes,
                     HostTables* host, DeviceProgram* program, Code* code) {
  TENON_TRY(open_host_tables(context().host, host));
  std::string_view packed;
  TENON_TRY(read_artifact(*host, device.name(), bytes, size_bytes, program, &packed));
  const auto damaged = [&](std::string_view what) {
    return fail(TENON_FAILED_PRECONDITION, cat(device.name(), ": the artifact's code ", what));
  };
  if (!split(packed, code)) return damaged("is damaged");
  const size_t expected = device.compiles_each_kernel() ? program->kernels.size() : 1;
  if (!program->kernels.empty() && code->binaries.size() != expected)
    return damaged("is not that of its kernels");
  return {};
}

void artifact_release(void*, tenon_artifact_t* artifact) {
  delete artifact_of(artifact);
}

Status artifact_info(void*, tenon_artifact_t* artifact, tenon_artifact_info_t* out) {
  const TextArtifact& a = *artifact_of(artifact);
  return give_record(out, tenon_artifact_info_t{sizeof *out, a.kernel_count - a.kernels_from_cache,
                                                a.kernels_from_cache, 0, a.code.size()});
}

Status artifact_bytes(void*, tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  return write_artifact(*artifact_of(artifact), sink);
}

// ---- One execution ----

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

// State that lives until the execution is done.
struct Run {
  const Executable& exe;
  std::shared_ptr<const Sizes> sizes;
  const tenon_profile_sink_t* profile = nullptr;
  std::vector<size_t> started;  // steps, in order of KernelTime
  std::vector<uint64_t> found;  // per check of the layout

  tenon_code_t done(std::span<const KernelTime> device_times, std::string* why) const {
    std::vector<KernelTime> times(device_times.begin(), device_times.end());
    move_to_host_clock(times, now_ns());
    for (size_t i = 0; profile != nullptr && i < times.size() && i < started.size(); ++i) {
      const ProgramStep& step = exe.program.steps[started[i]];
      const ProgramKernel& kernel = exe.program.kernels[step.kernel];
      const std::vector<int64_t>& extents = sizes->layout.launches[started[i]].extents;
      auto event = sized<tenon_profile_event_t>();
      event.name = str(step.name);
      event.origins = str(step.origins);
      event.begin_ns = times[i].begin_ns;
      event.end_ns = times[i].end_ns;
      event.flops = static_cast<double>(kernel.flops.evaluate(extents));
      event.bytes = static_cast<double>(kernel.bytes.evaluate(extents));
      profile->event(profile->self, &event);
    }
    // Kernels clamp indices that would leave a buffer, so the results are harmless; they are not
    // returned.
    for (size_t i = 0; i < found.size(); ++i) {
      const tenon_code_t code = check_found(exe.program, sizes->layout.checks[i], found[i], why);
      if (code != TENON_OK) return code;
    }
    return TENON_OK;
  }
};

// The call's memory. Not accessed after the steps were submitted.
struct Memory {
  const Executable& exe;
  const ProgramLayout& layout;
  const tenon_call_t& call;

  MemoryRange at(const tenon_span_t& span, uint64_t extra, uint64_t bytes) const {
    return {span.buffer, span.offset_bytes + extra, bytes};
  }
  MemoryRange workspace(uint64_t extra, uint64_t bytes) const {
    return at({call.workspace, call.workspace_offset_bytes}, extra, bytes);
  }
  MemoryRange of(uint32_t buffer) const {
    const ProgramBuffer& b = exe.program.buffers[buffer];
    const uint64_t bytes = layout.bytes[buffer];
    switch (b.kind) {
      case BufferKind::kInput:
        return at(*tenon_call_input(&call, b.index), 0, bytes);
      case BufferKind::kOutput:
        return at(*tenon_call_output(&call, b.index), 0, bytes);
      case BufferKind::kConstant:
        return {exe.constants[b.index], 0, bytes};
      case BufferKind::kPersistent:
        return {exe.persistents[buffer], 0, bytes};
      case BufferKind::kTemp:
        break;
    }
    return workspace(layout.temp_offsets[buffer], bytes);
  }
};

Status start_step(const Memory& memory, const ProgramStep& step, size_t index, Submission& to,
                  bool* started) {
  const ProgramLayout::Launch& l = memory.layout.launches[index];
  const ProgramKernel& kernel = memory.exe.program.kernels[step.kernel];
  if (l.range == 0) return {};
  std::vector<MemoryRange> arguments;
  for (uint32_t b : step.buffers) arguments.push_back(memory.of(b));
  if (step.copies && arguments[0].buffer == arguments[1].buffer &&
      arguments[0].offset_bytes == arguments[1].offset_bytes)
    return {};
  const auto range = static_cast<uint64_t>(l.range);
  KernelStart start{step.kernel, step.name, arguments,
                    l.extents,   {},        global_size(range, kernel.group, kernel.together),
                    kernel.group};
  if (l.scratch_bytes != 0)
    start.scratch = memory.workspace(memory.layout.scratch_offset, l.scratch_bytes * range);
  *started = true;
  return to.start(*memory.exe.code, start);
}

Status sizes_of(Executable& exe, tenon_symbols_t symbols, std::shared_ptr<const Sizes>* out) {
  const std::span<const int64_t> values(symbols.values, symbols.count);
  {
    const std::lock_guard lock(exe.mutex);
    if (exe.last != nullptr && std::equal(values.begin(), values.end(), exe.last->symbols.begin(),
                                          exe.last->symbols.end())) {
      *out = exe.last;
      return {};
    }
  }
  auto sizes = std::make_shared<Sizes>();
  sizes->symbols.assign(values.begin(), values.end());
  std::string why;
  const LayoutOptions options{ScratchPer::kItem, exe.owner.alignment_bytes(exe.device)};
  if (!layout_program(exe.program, values, options, &sizes->layout, &why))
    return exe.refuse(TENON_INVALID_ARGUMENT, why);
  *out = sizes;
  const std::lock_guard lock(exe.mutex);
  exe.last = std::move(sizes);
  return {};
}

Status needs(void*, tenon_executable_t* e, tenon_symbols_t symbols, tenon_needs_t* out) {
  Executable& exe = *executable_of(e);
  std::shared_ptr<const Sizes> sizes;
  TENON_TRY(sizes_of(exe, symbols, &sizes));
  return fill_record(out, [&](tenon_needs_t* full) -> Status {
    if (fill_needs(exe.program, sizes->layout, {symbols.values, symbols.count}, full)) return {};
    return exe.refuse(TENON_INVALID_ARGUMENT, "the call has another number of outputs");
  });
}

Status execute(void*, tenon_executable_t* e, const tenon_call_t* call) {
  Executable& exe = *executable_of(e);
  if (call->input_count != exe.program.input_count ||
      call->output_count != exe.program.output_count) {
    return exe.refuse(TENON_INVALID_ARGUMENT, "the call has another number of inputs or outputs");
  }
  if (cancelled()) return exe.refuse(TENON_CANCELLED, "stopped");
  auto run = std::make_shared<Run>(exe, nullptr, call->profile);
  TENON_TRY(sizes_of(exe, call->symbols, &run->sizes));
  const Memory memory{exe, run->sizes->layout, *call};
  std::unique_ptr<Submission> work;
  TENON_TRY(exe.owner.submit(exe.device, call->queue, {call->waits, call->wait_count},
                             call->profile != nullptr, &work));
  for (size_t i = 0; i < exe.program.steps.size(); ++i) {
    bool started = false;
    TENON_TRY(start_step(memory, exe.program.steps[i], i, *work, &started));
    if (started) run->started.push_back(i);
  }
  run->found.assign(memory.layout.checks.size(), 0);
  for (size_t i = 0; i < run->found.size(); ++i) {
    MemoryRange from = memory.of(exe.program.checks[memory.layout.checks[i].index].buffer);
    from.size_bytes = sizeof(uint64_t);
    TENON_TRY(work->read(from, &run->found[i]));
  }
  return work->finish(call->signal, [run](std::span<const KernelTime> times, std::string* why) {
    return run->done(times, why);
  });
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

// ---- Loading ----

// Bytes that repeat one element are made by the device.
Status copy_constant(const Executable& exe, tenon_buffer_t* to, std::string_view bytes) {
  const auto& memory = exe.owner.memory();
  auto copy = sized<tenon_copy_t>();
  if (tenon_copy_make_fill(&copy, to, bytes.data(), bytes.size())) {
    const tenon_code_t filled = memory.copy(memory.self, exe.device, &copy);
    if (filled != TENON_UNIMPLEMENTED) return filled;
    copy = sized<tenon_copy_t>();
  }
  copy.to = to;
  copy.length_bytes = bytes.size();
  copy.direction = TENON_COPY_HOST_TO_DEVICE;
  copy.host_from = bytes.data();
  return memory.copy(memory.self, exe.device, &copy);
}

// Fills the memory of constants and persistent buffers in the order in which load steps use them,
// and frees what nothing uses any more, so that a model in the order of its source and the same
// model in that of its kernels are not on the device together.
class Loading {
 public:
  Loading(Executable& exe, std::span<const std::string_view> constants)
      : exe_(exe), constants_(constants), runs_(used_at_run(exe.program)) {
    exe_.constants.assign(constants.size(), nullptr);
    exe_.persistents.assign(exe_.program.buffers.size(), nullptr);
    last_use_.assign(exe_.program.buffers.size(), 0);
    for (size_t i = 0; i < exe_.program.load_steps.size(); ++i) {
      for (uint32_t b : exe_.program.load_steps[i].buffers) last_use_[b] = i;
    }
  }

  Status run() {
    std::string why;
    const LayoutOptions options{ScratchPer::kItem, exe_.owner.alignment_bytes(exe_.device)};
    if (!layout_load_steps(exe_.program, options, &layout_, &why))
      return exe_.refuse(TENON_RESOURCE_EXHAUSTED, why);
    if (!exe_.program.load_steps.empty()) {
      tenon_buffer_t* workspace = nullptr;
      TENON_TRY(exe_.alloc(layout_.workspace_bytes, &workspace));
      const Status done = steps(workspace);
      exe_.free(workspace);
      TENON_TRY(done);
    }
    for (size_t b = 0; b < exe_.program.buffers.size(); ++b) {
      if (runs_[b]) TENON_TRY(provide(static_cast<uint32_t>(b)));
    }
    return {};
  }

 private:
  Status steps(tenon_buffer_t* workspace) {
    for (size_t i = 0; i < exe_.program.load_steps.size(); ++i) {
      if (cancelled()) return exe_.refuse(TENON_CANCELLED, "stopped");
      const ProgramStep& step = exe_.program.load_steps[i];
      for (uint32_t b : step.buffers) TENON_TRY(provide(b));
      TENON_TRY(run_one(step, i, workspace));
      for (uint32_t b : step.buffers) {
        if (last_use_[b] == i && !runs_[b]) drop(b);
      }
    }
    return {};
  }

  Status run_one(const ProgramStep& step, size_t index, tenon_buffer_t* workspace) {
    tenon_call_t call{};
    call.workspace = workspace;
    const Memory memory{exe_, layout_, call};
    std::unique_ptr<Submission> work;
    TENON_TRY(exe_.owner.submit(exe_.device, nullptr, {}, false, &work));
    bool started = false;
    TENON_TRY(start_step(memory, step, index, *work, &started));
    return work->finish({}, [](std::span<const KernelTime>, std::string*) { return TENON_OK; });
  }

  // The memory of a constant or a persistent buffer; null for others.
  tenon_buffer_t** place_of(uint32_t b) {
    const ProgramBuffer& buffer = exe_.program.buffers[b];
    if (buffer.kind == BufferKind::kConstant) return &exe_.constants[buffer.index];
    return buffer.kind == BufferKind::kPersistent ? &exe_.persistents[b] : nullptr;
  }
  uint64_t bytes_of(uint32_t b) const {
    const ProgramBuffer& buffer = exe_.program.buffers[b];
    return buffer.kind == BufferKind::kConstant ? constants_[buffer.index].size()
                                                : layout_.bytes[b];
  }

  Status provide(uint32_t b) {
    tenon_buffer_t** place = place_of(b);
    if (place == nullptr || *place != nullptr) return {};
    TENON_TRY(exe_.alloc(bytes_of(b), place));
    exe_.constant_bytes += bytes_of(b);
    if (exe_.program.buffers[b].kind != BufferKind::kConstant || bytes_of(b) == 0) return {};
    return copy_constant(exe_, *place, constants_[exe_.program.buffers[b].index]);
  }
  void drop(uint32_t b) {
    tenon_buffer_t** place = place_of(b);
    if (place == nullptr || *place == nullptr) return;
    exe_.free(*place);
    *place = nullptr;
    exe_.constant_bytes -= bytes_of(b);
  }

  Executable& exe_;
  const std::span<const std::string_view> constants_;
  const std::vector<bool> runs_;
  std::vector<size_t> last_use_;  // by buffer: the last load step that uses it
  ProgramLayout layout_;
};

}  // namespace

void move_to_host_clock(std::span<KernelTime> times, uint64_t now_ns) {
  uint64_t last = 0;
  for (const KernelTime& t : times) last = std::max(last, t.end_ns);
  for (KernelTime& t : times) {
    t.begin_ns += now_ns - last;  // modulo 2^64, like the difference
    t.end_ns += now_ns - last;
  }
}

Status TextDevice::compile(std::string_view, std::string_view, std::string*) const {
  return {};
}

bool TextDevice::runs(std::string_view made_for, std::string_view device) const {
  return made_for == device;
}

// Compiles once per machine: the host's cache keeps binaries, keyed by everything that makes them
// differ.
Status TextDevice::cached_binary(std::string_view target, std::string_view text, std::string* out,
                                 bool* found) {
  *found = false;
  const std::string key = cat(name(), '\n', target, '\n', compiler(target), '\n', text);
  const auto* cache = context().query<tenon_host_cache_t>(TENON_HOST_CACHE_ID);
  tenon_blob_t* blob = nullptr;
  if (cache != nullptr &&
      cache->get(cache->self, str("device-binary"), key.data(), key.size(), &blob) == TENON_OK) {
    const void* data = nullptr;
    uint64_t size = 0;
    *found = context().graph->blob_data(context().graph->self, blob, &data, &size) == TENON_OK;
    if (*found) out->assign(static_cast<const char*>(data), size);
    context().graph->blob_release(context().graph->self, blob);
    if (*found) return {};
  }
  TENON_TRY(compile(target, text, out));
  if (cache != nullptr && !out->empty())
    (void)cache->put(cache->self, str("device-binary"), key.data(), key.size(), out->data(),
                     out->size());
  return {};
}

Status TextDevice::compile_all(std::string_view target, TextArtifact* artifact,
                               std::vector<std::string>* out_binaries) {
  const bool each = compiles_each_kernel();
  const std::span<const std::string> texts =
      each ? std::span<const std::string>(artifact->kernel_texts) : std::span(&artifact->text, 1);
  if (artifact->kernel_count == 0) return {};
  const uint64_t all = artifact->kernel_count;
  for (const std::string& text : texts) {
    // A runtime's compiler cannot be interrupted.
    if (cancelled()) return fail(TENON_CANCELLED, cat(name(), ": stopped"));
    progress("kernels", each ? out_binaries->size() : 0, all);
    bool found = false;
    TENON_TRY(cached_binary(target, text, &out_binaries->emplace_back(), &found));
    if (found) artifact->kernels_from_cache += each ? 1 : artifact->kernel_count;
  }
  progress("kernels", all, all);
  return {};
}

Status TextDevice::properties(tenon_str_t, tenon_compile_properties_t* out) {
  tenon_compile_properties_t made = {};
  // The order of every sum is in the text. A runtime's compiler cannot be interrupted.
  made.flags = TENON_COMPILE_SAME_BITS | TENON_COMPILE_ONE_LONG_CALL;
  return give_record(out, made);
}

Status TextDevice::claim(tenon_str_t text, tenon_graph_t* graph,
                         const tenon_compile_options_t* options, const tenon_claim_sink_t* sink) {
  HostTables host;
  TENON_TRY(open_host_tables(context().host, &host));
  TENON_TRY(refuse_options(host, name(), options));
  LoweringLimits limits;
  const Target made_for = target(view(text));
  if (!made_for.fp64) {
    limits.dtypes &= ~TENON_DTYPE_BIT(TENON_F64);
    limits.refuses = [&](const Pool& pool) { return needs_f64(pool, made_for); };
  }
  return claim_nodes(host, graph, limits, rates(), sink);
}

Status TextDevice::compile_graph(tenon_str_t text, tenon_graph_t* graph,
                                 const tenon_compile_options_t* options, tenon_artifact_t** out) {
  HostTables host;
  TENON_TRY(open_host_tables(context().host, &host));
  TENON_TRY(refuse_options(host, name(), options));
  TENON_TRY(check_target(view(text)));
  if (cancelled()) return fail(TENON_CANCELLED, cat(name(), ": stopped"));
  auto artifact = std::make_unique<TextArtifact>();
  TENON_TRY(
      build_text(host, name(), graph, target(view(text)), artifact.get(), compiles_each_kernel()));
  std::vector<std::string> binaries;
  TENON_TRY(compile_all(view(text), artifact.get(), &binaries));
  artifact->code = join({view(text), {binaries.begin(), binaries.end()}, artifact->text});
  *out = reinterpret_cast<tenon_artifact_t*>(artifact.release());
  return {};
}

Status TextDevice::fits(tenon_str_t text, const void* bytes, uint64_t size_bytes) {
  HostTables host;
  DeviceProgram program;
  Code code;
  TENON_TRY(open_artifact(*this, bytes, size_bytes, &host, &program, &code));
  if (runs(code.target, view(text))) return {};
  return fail(TENON_FAILED_PRECONDITION, cat(name(), ": the artifact is for ", quoted(code.target),
                                             ", this is ", quoted(view(text))));
}

Status TextDevice::load_bytes(tenon_device_t* device, const void* bytes, uint64_t size_bytes,
                              tenon_blob_t* const* constants, uint32_t constant_count,
                              tenon_executable_t** out) {
  std::unique_ptr<Executable> exe(new Executable{*this, device, {}, {}, {}, {}, 0, {}, {}});
  HostTables host;
  Code code;
  TENON_TRY(open_artifact(*this, bytes, size_bytes, &host, &exe->program, &code));
  if (!exe->program.kernels.empty())
    TENON_TRY(load(device, exe->program, code.binaries, code.text, &exe->code));
  std::vector<std::string_view> bytes_of_constants;
  TENON_TRY(
      constant_bytes(host, name(), exe->program, constants, constant_count, &bytes_of_constants));
  TENON_TRY(Loading(*exe, bytes_of_constants).run());
  *out = reinterpret_cast<tenon_executable_t*>(exe.release());
  return {};
}

Status TextDevice::dump(tenon_artifact_t* artifact, tenon_str_t what, const tenon_sink_t* sink) {
  HostTables host;
  TENON_TRY(open_host_tables(context().host, &host));
  Code code;
  if (view(what) == "binary" && split(artifact_of(artifact)->code, &code)) {
    bool any = false;
    for (std::string_view binary : code.binaries) {
      if (binary.empty()) continue;
      any = true;
      TENON_TRY(sink->write(sink->self, binary.data(), binary.size()));
    }
    if (any) return {};
  }
  return dump_artifact(host, name(), *artifact_of(artifact), what, sink);
}

tenon_compile_api_t TextDevice::table() {
  return {sizeof(tenon_compile_api_t),
          this,
          entry<&TextDevice::claim>,
          entry<&TextDevice::compile_graph>,
          artifact_release,
          entry<artifact_info>,
          entry<artifact_bytes>,
          entry<&TextDevice::fits>,
          entry<&TextDevice::load_bytes>,
          executable_release,
          entry<executable_info>,
          entry<needs>,
          entry<execute>,
          entry<&TextDevice::dump>,
          nullptr,
          nullptr,
          entry<&TextDevice::properties>};
}

}  // namespace tenon::kernelgen
