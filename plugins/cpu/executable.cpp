#include "executable.h"

#include <algorithm>
#include <cstring>

#include "artifact.h"
#include "device.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/plan/memory_planner.h"

namespace tenon::cpu {
namespace {

using kernelgen::BufferKind;
using kernelgen::ProgramBuffer;
using kernelgen::ProgramStep;

// A model file may place its weights at any byte. x86 loads elements and vectors from any address;
// on other processors a constant that is not aligned for its elements is copied.
#if defined(__x86_64__)
constexpr bool kReadsAnyAddress = true;
#else
constexpr bool kReadsAnyAddress = false;
#endif
constexpr int64_t kMaxBytes = int64_t{1} << 62;  // Size programs saturate far above this.
constexpr uint64_t kFewBytes = 4096;             // What a temp may take longer than it need.
constexpr uint64_t kNotInBlock = UINT64_MAX;
constexpr int64_t kNotOfRuns = -1;
// The last vector of a block may be read whole, past the last element. `alloc` has room for that; a
// block in a package brings its own.
constexpr uint64_t kBlockSlackBytes = kAlignmentBytes;

const tenon_host_threads_t* host_threads() {
  static const auto* table = context().query<tenon_host_threads_t>(TENON_HOST_THREADS_ID);
  return table;
}

Status too_large(std::string_view what) {
  return fail(TENON_RESOURCE_EXHAUSTED,
              cat("With these sizes ", what, " is larger than any memory; check the dims."));
}

std::vector<int64_t> extents_of(const ProgramStep& step, std::span<const int64_t> symbols) {
  std::vector<int64_t> extents;
  for (const kernelgen::SizeProgram& extent : step.extents) {
    extents.push_back(extent.evaluate(symbols));
  }
  return extents;
}

struct Profiler {
  const tenon_profile_sink_t* sink;
  const kernelgen::DeviceProgram* program;
  const ShapePlan* shape;
};

void report(void* context_pointer, const plan::Step& step, uint64_t begin_ns, uint64_t end_ns) {
  const Profiler& profiler = *static_cast<const Profiler*>(context_pointer);
  const ProgramStep& source = profiler.program->steps[step.name];
  auto event = sized<tenon_profile_event_t>();
  event.name = str(source.name);
  event.origins = str(source.origins);
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.flops = step.flops;
  event.bytes = step.bytes;
  profiler.sink->event(profiler.sink->self, &event);
}

}  // namespace

Status PackedReader::next(tenon_blob_t*& out, const void*& data, uint64_t& size_bytes) {
  const tenon_host_graph_t& graph = *context().graph;
  if (rest_.empty()) {
    return fail(TENON_INVALID_ARGUMENT,
                "The artifact needs more packed constants than were given.");
  }
  TENON_TRY(graph.blob_data(graph.self, rest_.front(), &data, &size_bytes));
  if (size_bytes != 0 && reinterpret_cast<uintptr_t>(data) % kAlignmentBytes != 0) {
    return fail(TENON_INVALID_ARGUMENT, cat("Packed constants begin at multiples of ",
                                            kAlignmentBytes, " bytes; one of them does not."));
  }
  out = rest_.front();
  graph.blob_retain(graph.self, out);
  rest_ = rest_.subspan(1);
  return {};
}

Status PackedReader::at_end() const {
  return rest_.empty()
             ? Status()
             : fail(TENON_INVALID_ARGUMENT, cat("The artifact does not need ", rest_.size(),
                                                " of the packed constants that were given."));
}

Status Executable::open(tenon_device_t* device, std::string_view artifact,
                        std::unique_ptr<Executable>& out) {
  ArtifactParts parts;
  TENON_TRY(artifact_unpack_to_run(artifact, parts));
  std::unique_ptr<Executable> made(new Executable);
  made->device_ = device;
  std::string why;
  if (!kernelgen::DeviceProgram::read(parts.program.data(), parts.program.size(), &made->program_,
                                      &why)) {
    return fail(TENON_DATA_LOSS, cat("The artifact's record is malformed: ", why, "."));
  }
  for (std::string_view code : parts.code) {
    made->modules_.push_back(Module::open(code, why));
    if (!made->modules_.back()) {
      return fail(TENON_INTERNAL, cat("Generated code cannot be loaded: ", why, "."));
    }
  }
  made->find_used_buffers();
  TENON_TRY(made->find_kernels());
  out = std::move(made);
  return {};
}

Status Executable::load(tenon_device_t* device, std::string_view artifact,
                        std::span<tenon_blob_t* const> constants,
                        std::unique_ptr<Executable>& out) {
  std::unique_ptr<Executable> made;
  TENON_TRY(open(device, artifact, made));
  TENON_TRY(made->adopt_constants(constants));
  TENON_TRY(made->run_load_steps());
  out = std::move(made);
  return {};
}

Status Executable::load_packed(tenon_device_t* device, std::string_view artifact,
                               PackedReader& packed, std::unique_ptr<Executable>& out) {
  std::unique_ptr<Executable> made;
  TENON_TRY(open(device, artifact, made));
  TENON_TRY(made->adopt_packed(packed));
  out = std::move(made);
  return {};
}

Executable::~Executable() {
  const tenon_host_graph_t& graph = *context().graph;
  for (tenon_blob_t* blob : blobs_) {
    if (blob) {
      graph.blob_release(graph.self, blob);
    }
  }
  if (packed_) {
    graph.blob_release(graph.self, packed_);
  }
  free_block(kept_);
  free_block(passing_);
}

void Executable::find_used_buffers() {
  used_ = kernelgen::used_at_run(program_);
  used_at_load_.resize(program_.buffers.size());
  for (const ProgramStep& step : program_.load_steps) {
    for (uint32_t buffer : step.buffers) {
      used_at_load_[buffer] = true;
    }
  }
  for (size_t i = 0; i < used_.size(); ++i) {
    used_[i] = used_[i] || program_.buffers[i].kind == BufferKind::kOutput;
  }
}

Status Executable::find_kernels() {
  for (const kernelgen::ProgramKernel& kernel : program_.kernels) {
    void* address = nullptr;
    for (size_t m = 0; m < modules_.size() && !address; ++m) {
      address = modules_[m]->symbol(kernel.entry);
    }
    if (!address) {
      return fail(TENON_DATA_LOSS,
                  cat("The artifact's code lacks the kernel ", quoted(kernel.entry), "."));
    }
    kernels_.push_back(reinterpret_cast<plan::KernelFn>(address));
  }
  return {};
}

void Executable::size_constants(size_t count) {
  blobs_.resize(count);
  constant_data_.resize(count);
  constant_bytes_.resize(count);
  copies_.resize(count);
}

std::vector<int64_t> Executable::constants_of_runs() const {
  std::vector<int64_t> out(program_.constant_count, kNotOfRuns);
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    if (used_[i] && buffer.kind == BufferKind::kConstant) {
      out[buffer.index] = std::max(out[buffer.index], buffer.bytes.evaluate({}));
    }
  }
  return out;
}

Status Executable::check_constant(uint32_t index, int64_t needed_bytes) const {
  if (needed_bytes < 0 || static_cast<uint64_t>(needed_bytes) > constant_bytes_[index]) {
    return fail(TENON_INVALID_ARGUMENT, cat("Constant ", index, " has ", constant_bytes_[index],
                                            " bytes; the code reads ", needed_bytes, "."));
  }
  return {};
}

Status Executable::pack(const tenon_packed_sink_t& sink) const {
  Block block;
  TENON_TRY(lay_out_block(true, block));
  std::string bytes;
  if (!block.empty) {
    // What lies between the weights was never written, so it stays out of the file.
    bytes.assign(block.bytes + kBlockSlackBytes, '\0');
    for (size_t i = 0; i < block.offsets.size(); ++i) {
      if (block.offsets[i] != kNotInBlock) {
        memcpy(bytes.data() + block.offsets[i], persistents_[i],
               static_cast<size_t>(program_.buffers[i].bytes.evaluate({})));
      }
    }
  }
  TENON_TRY(sink.blob(sink.self, bytes.data(), bytes.size()));
  const std::vector<int64_t> of_runs = constants_of_runs();
  for (size_t i = 0; i < of_runs.size(); ++i) {
    if (of_runs[i] != kNotOfRuns) {
      TENON_TRY(sink.blob(sink.self, constant_data_[i], static_cast<uint64_t>(of_runs[i])));
    }
  }
  return {};
}

Status Executable::adopt_packed(PackedReader& packed) {
  Block block;
  TENON_TRY(lay_out_block(true, block));
  const void* data = nullptr;
  uint64_t size = 0;
  TENON_TRY(packed.next(packed_, data, size));
  if (size != (block.empty ? 0 : block.bytes + kBlockSlackBytes)) {
    return fail(TENON_INVALID_ARGUMENT,
                cat("The packed constants have ", size, " bytes; the code reads ", block.bytes,
                    " and some after them."));
  }
  persistents_.resize(program_.buffers.size());
  for (size_t i = 0; i < block.offsets.size(); ++i) {
    if (block.offsets[i] != kNotInBlock) {
      // Runs read these only.
      persistents_[i] = const_cast<char*>(static_cast<const char*>(data)) + block.offsets[i];
    }
  }
  size_constants(program_.constant_count);
  const std::vector<int64_t> of_runs = constants_of_runs();
  for (uint32_t i = 0; i < of_runs.size(); ++i) {
    if (of_runs[i] == kNotOfRuns) {
      continue;
    }
    TENON_TRY(packed.next(blobs_[i], constant_data_[i], constant_bytes_[i]));
    if (constant_bytes_[i] != static_cast<uint64_t>(of_runs[i])) {
      return fail(TENON_INVALID_ARGUMENT, cat("Packed constant ", i, " has ", constant_bytes_[i],
                                              " bytes; pack wrote ", of_runs[i], "."));
    }
  }
  return {};
}

Status Executable::adopt_constants(std::span<tenon_blob_t* const> constants) {
  if (constants.size() != program_.constant_count) {
    return fail(TENON_INVALID_ARGUMENT, cat("The artifact needs ", program_.constant_count,
                                            " constants and was given ", constants.size(), "."));
  }
  const tenon_host_graph_t& graph = *context().graph;
  size_constants(constants.size());
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    const bool read = used_[i] || used_at_load_[i];
    if (!read || buffer.kind != BufferKind::kConstant || blobs_[buffer.index]) {
      continue;
    }
    tenon_blob_t* blob = constants[buffer.index];
    graph.blob_retain(graph.self, blob);
    blobs_[buffer.index] = blob;
    const void* data = nullptr;
    uint64_t size = 0;
    TENON_TRY(graph.blob_data(graph.self, blob, &data, &size));
    const uint64_t element = kernelgen::size_of(buffer.type);
    if (!kReadsAnyAddress && element > 1 && reinterpret_cast<uintptr_t>(data) % element != 0) {
      copies_[buffer.index] = std::make_unique_for_overwrite<char[]>(size);
      memcpy(copies_[buffer.index].get(), data, size);
      data = copies_[buffer.index].get();
      copied_bytes_ += size;
    }
    constant_data_[buffer.index] = data;
    constant_bytes_[buffer.index] = size;
  }
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    if ((used_[i] || used_at_load_[i]) && buffer.kind == BufferKind::kConstant) {
      TENON_TRY(check_constant(buffer.index, buffer.bytes.evaluate({})));
    }
  }
  return {};
}

Status Executable::allocate_persistents() {
  persistents_.resize(program_.buffers.size());
  TENON_TRY(allocate_block(true, kept_));
  return allocate_block(false, passing_);
}

Status Executable::lay_out_block(bool at_run, Block& out) const {
  out.offsets.assign(program_.buffers.size(), kNotInBlock);
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    const bool here = at_run ? used_[i] : used_at_load_[i] && !used_[i];
    if (buffer.kind != BufferKind::kPersistent || !here) {
      continue;
    }
    const int64_t bytes = buffer.bytes.evaluate({});
    if (bytes < 0 || bytes > kMaxBytes) {
      return too_large("a packed constant");
    }
    out.offsets[i] = out.bytes;
    out.empty = false;
    const uint64_t aligned =
        (static_cast<uint64_t>(bytes) + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    if (__builtin_add_overflow(out.bytes, aligned, &out.bytes)) {
      return too_large("the packed constants");
    }
  }
  return {};
}

Status Executable::allocate_block(bool at_run, tenon_buffer_t*& out) {
  Block block;
  TENON_TRY(lay_out_block(at_run, block));
  if (block.empty) {
    return {};
  }
  TENON_TRY(count_memory(block.bytes, "packed constants"));
  persistent_bytes_ += block.bytes;
  if (Status made = kDeviceTable.alloc(nullptr, device_, block.bytes, &out); !made.ok()) {
    persistent_bytes_ -= block.bytes;
    return_memory(block.bytes);
    return made;
  }
  for (size_t i = 0; i < block.offsets.size(); ++i) {
    if (block.offsets[i] != kNotInBlock) {
      persistents_[i] = out->data + block.offsets[i];
    }
  }
  return {};
}

void Executable::free_block(tenon_buffer_t*& block) {
  if (block) {
    persistent_bytes_ -= block->size_bytes;
    return_memory(block->size_bytes);
    kDeviceTable.free(nullptr, device_, block);
    block = nullptr;
  }
}

Status Executable::load_plan(plan::Plan& out, std::vector<void*>& slots) const {
  slots.resize(program_.buffers.size());
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    if (!used_at_load_[i]) {
      continue;
    }
    if (buffer.kind == BufferKind::kPersistent) {
      slots[i] = persistents_[i];
      continue;
    }
    // Kernels read constants only.
    slots[i] = const_cast<void*>(constant_data_[buffer.index]);
  }
  for (uint32_t s = 0; s < program_.load_steps.size(); ++s) {
    const ProgramStep& source = program_.load_steps[s];
    const kernelgen::ProgramKernel& kernel = program_.kernels[source.kernel];
    plan::Step step;
    step.kernel = kernels_[source.kernel];
    step.name = s;
    step.range = kernel.range.evaluate({});
    step.grain = std::max<int64_t>(1, kernel.grain);
    const int64_t scratch = kernel.scratch_bytes.evaluate({});
    if (step.range < 0 || step.range > kMaxBytes || scratch < 0 || scratch > kMaxBytes / 4096) {
      return too_large("a kernel");
    }
    step.scratch_bytes = static_cast<uint64_t>(scratch);
    out.add(step, source.buffers, {});
  }
  return {};
}

Status Executable::run_load_steps() {
  TENON_TRY(allocate_persistents());
  if (program_.load_steps.empty()) {
    return {};
  }
  plan::Plan plan;
  std::vector<void*> slots;
  TENON_TRY(load_plan(plan, slots));
  tenon_buffer_t* scratch = nullptr;
  const uint64_t scratch_bytes = plan.scratch_stride_bytes() * plan::worker_count(host_threads());
  TENON_TRY(kDeviceTable.alloc(nullptr, device_, scratch_bytes, &scratch));
  plan::PlanRun run;
  run.slots = slots;
  run.threads = host_threads();
  run.scratch = scratch_bytes != 0 ? scratch->data : nullptr;
  run.cancelled = [](void*) -> uint32_t { return cancelled() ? 1 : 0; };
  const tenon_code_t code = run_plan(plan, run);
  kDeviceTable.free(nullptr, device_, scratch);
  if (code != TENON_OK) {
    return code == TENON_CANCELLED ? fail(code, "The load was cancelled.") : Status(code);
  }
  drop_inputs_of_load();
  return {};
}

void Executable::drop_inputs_of_load() {
  const tenon_host_graph_t& graph = *context().graph;
  free_block(passing_);
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    if (used_[i]) {
      continue;
    }
    if (buffer.kind == BufferKind::kPersistent) {
      persistents_[i] = nullptr;
    }
    if (buffer.kind == BufferKind::kConstant && blobs_[buffer.index]) {
      graph.blob_release(graph.self, blobs_[buffer.index]);
      blobs_[buffer.index] = nullptr;
      constant_data_[buffer.index] = nullptr;
      if (copies_[buffer.index]) {
        copied_bytes_ -= constant_bytes_[buffer.index];
        copies_[buffer.index].reset();
      }
    }
  }
}

void Executable::info(tenon_executable_info_t* out) const {
  *out = {};
  out->size_bytes = sizeof *out;
  out->kernel_count = static_cast<uint32_t>(program_.steps.size());
  out->constant_bytes = copied_bytes_ + persistent_bytes_;
}

Status Executable::plan_for(tenon_symbols_t symbols, std::shared_ptr<const ShapePlan>& holder,
                            const ShapePlan*& out) {
  if (symbols.count != program_.symbol_count) {
    return fail(TENON_INVALID_ARGUMENT, cat("The executable has ", program_.symbol_count,
                                            " symbols and was given ", symbols.count, "."));
  }
  const std::span<const int64_t> values(symbols.values, symbols.count);
  for (int64_t value : values) {
    if (value < 0) {
      return fail(TENON_INVALID_ARGUMENT, cat("A size is ", value, "; sizes are not negative."));
    }
  }
  out = plans_.find(values, holder);
  if (out) {
    return {};
  }
  // Without a lock, so that calls with other sizes go on.
  std::unique_ptr<const ShapePlan> made;
  TENON_TRY(make_plan(values, made));
  out = plans_.add(std::move(made), holder);
  return {};
}

Status Executable::size_buffers(ShapePlan& shape) const {
  shape.sizes_bytes.resize(program_.buffers.size());
  shape.arena_offsets.resize(program_.buffers.size());
  shape.output_dims.resize(program_.output_count);
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    if (!used_[i]) {
      continue;  // Fused away: it needs no memory, whatever its size would be.
    }
    const int64_t bytes = buffer.bytes.evaluate(shape.symbols);
    if (bytes < 0 || bytes > kMaxBytes) {
      return too_large("a tensor");
    }
    shape.sizes_bytes[i] = static_cast<uint64_t>(bytes);
    if (buffer.kind == BufferKind::kOutput) {
      std::vector<int64_t>& dims = shape.output_dims[buffer.index];
      for (const kernelgen::SizeProgram& dim : buffer.dims) {
        dims.push_back(dim.evaluate(shape.symbols));
      }
    }
    if (buffer.kind == BufferKind::kConstant) {
      TENON_TRY(check_constant(buffer.index, bytes));  // The artifact may name symbols here.
    }
  }
  shape.alias_inputs = kernelgen::alias_inputs(program_, shape.sizes_bytes);
  return {};
}

// A rough estimate for one thread, enough to separate small steps from large ones.
double Executable::estimated_ns(const plan::Step& step) {
  constexpr double kFlopsPerNs = 40, kBytesPerNs = 12;
  return std::max(step.flops / kFlopsPerNs, step.bytes / kBytesPerNs);
}

// Small independent steps become one region.
plan::Regions Executable::find_regions(const ShapePlan& shape,
                                       std::span<const plan::Step> steps) const {
  std::vector<std::vector<uint32_t>> reads(steps.size()), writes(steps.size());
  std::vector<plan::Work> work;
  for (size_t s = 0; s < steps.size(); ++s) {
    const ProgramStep& source = program_.steps[s];
    for (size_t b = 0; b < source.buffers.size(); ++b) {
      (source.written[b] ? writes : reads)[s].push_back(source.buffers[b]);
    }
    // Temps that are made earlier take their place longer.
    const bool keeps_no_memory = std::ranges::all_of(writes[s], [&](uint32_t b) {
      return program_.buffers[b].kind != BufferKind::kTemp || shape.sizes_bytes[b] <= kFewBytes;
    });
    work.push_back({reads[s], writes[s], source.parts, steps[s].estimated_ns,
                    keeps_no_memory ? source.kernel : plan::kNoKernel});
  }
  return plan::find_regions(work);
}

// A result is written over an operand that dies with it, if the kernel allows it and no other step
// runs at the same time.
void Executable::share_places(const ShapePlan& shape, const plan::Regions& regions,
                              std::span<plan::Lifetime> lives) const {
  std::vector<bool> taken(lives.size()), given(lives.size());
  for (uint32_t s = 0; s < regions.ends.size(); ++s) {
    const uint32_t begin = s == 0 ? 0 : regions.ends[s - 1];
    if (regions.ends[s] - begin > 1) {
      continue;
    }
    const std::vector<uint32_t>& pairs = program_.steps[regions.order[begin]].in_place;
    for (size_t p = 0; p + 1 < pairs.size(); p += 2) {
      const uint32_t to = pairs[p], from = pairs[p + 1];
      const bool temps = program_.buffers[to].kind == BufferKind::kTemp &&
                         program_.buffers[from].kind == BufferKind::kTemp;
      const bool dies =
          lives[from].last_step == s && lives[from].first_step < s && lives[to].first_step == s;
      if (!temps || !dies || from >= to || taken[from] || shape.sizes_bytes[to] == 0 ||
          shape.sizes_bytes[to] != shape.sizes_bytes[from] || given[to]) {
        continue;
      }
      taken[from] = given[to] = true;
      lives[to].in_place_of = from;
    }
  }
}

Status Executable::place_temps(ShapePlan& shape, const plan::Regions& regions) const {
  std::vector<plan::Lifetime> lives(program_.buffers.size());
  for (uint32_t s = 0, at = 0; s < regions.ends.size(); ++s) {
    for (; at < regions.ends[s]; ++at) {
      for (uint32_t buffer : program_.steps[regions.order[at]].buffers) {
        plan::Lifetime& life = lives[buffer];
        if (life.size_bytes == 0 && program_.buffers[buffer].kind == BufferKind::kTemp) {
          life.size_bytes = shape.sizes_bytes[buffer];
          life.first_step = s;
        }
        life.last_step = s;
      }
    }
  }
  for (const kernelgen::ProgramCheck& check : program_.checks) {
    lives[check.buffer].last_step =
        static_cast<uint32_t>(program_.steps.size());  // Read after all steps.
  }
  share_places(shape, regions, lives);
  plan::MemoryPlan memory;
  if (plan::plan_memory(lives, memory) != plan::MemoryError::kNone) {
    return too_large("the workspace");
  }
  shape.arena_offsets = std::move(memory.offsets);
  shape.arena_bytes = memory.arena_bytes;
  shape.lower_bound_bytes = memory.lower_bound_bytes;
  return {};
}

Status Executable::size_steps(std::span<const int64_t> symbols, std::vector<plan::Step>& steps,
                              std::vector<std::vector<int64_t>>& all_extents) const {
  for (uint32_t s = 0; s < program_.steps.size(); ++s) {
    const ProgramStep& source = program_.steps[s];
    const kernelgen::ProgramKernel& kernel = program_.kernels[source.kernel];
    std::vector<int64_t> extents = extents_of(source, symbols);
    const int64_t scratch = kernel.scratch_bytes.evaluate(extents);
    plan::Step step;
    step.kernel = kernels_[source.kernel];
    step.name = s;
    step.range = kernel.range.evaluate(extents);
    step.grain = std::max<int64_t>(1, kernel.grain);
    step.flops = static_cast<double>(kernel.flops.evaluate(extents));
    step.bytes = static_cast<double>(kernel.bytes.evaluate(extents));
    step.estimated_ns = estimated_ns(step);
    if (step.range < 0 || step.range > kMaxBytes || scratch < 0 || scratch > kMaxBytes / 4096) {
      return too_large("a kernel");
    }
    step.scratch_bytes = static_cast<uint64_t>(scratch);
    step.copies = source.copies;
    steps.push_back(step);
    all_extents.push_back(std::move(extents));
  }
  return {};
}

Status Executable::make_plan(std::span<const int64_t> symbols,
                             std::unique_ptr<const ShapePlan>& out) const {
  auto shape = std::make_unique<ShapePlan>();
  shape->symbols.assign(symbols.begin(), symbols.end());
  TENON_TRY(size_buffers(*shape));
  std::vector<plan::Step> steps;
  std::vector<std::vector<int64_t>> extents;
  TENON_TRY(size_steps(symbols, steps, extents));
  const plan::Regions regions = find_regions(*shape, steps);
  TENON_TRY(place_temps(*shape, regions));
  uint32_t at = 0;
  for (uint32_t end : regions.ends) {
    const uint32_t count = end - at;
    for (; at < end; ++at) {
      const uint32_t s = regions.order[at];
      shape->plan.add(steps[s], program_.steps[s].buffers, extents[s]);
    }
    shape->plan.side_by_side(count);
  }
  for (uint32_t c = 0; c < program_.checks.size(); ++c) {
    const kernelgen::ProgramCheck& check = program_.checks[c];
    if (check.count.evaluate(symbols) == 0) {
      continue;
    }
    shape->checks.push_back(
        {c, static_cast<uint64_t>(std::max<int64_t>(check.limit.evaluate(symbols), 0))});
  }
  shape->scratch_stride_bytes = shape->plan.scratch_stride_bytes();
  find_places(*shape);
  out = std::move(shape);
  return {};
}

// So that an execution looks at nothing but what it enters.
void Executable::find_places(ShapePlan& shape) const {
  const std::vector<uint32_t>& table = shape.plan.slots;
  for (uint32_t at = 0; at < table.size(); ++at) {
    const ProgramBuffer& buffer = program_.buffers[table[at]];
    const uint64_t bytes = shape.sizes_bytes[table[at]];
    switch (buffer.kind) {
      case BufferKind::kInput:
        shape.inputs.push_back({at, buffer.index, bytes});
        break;
      case BufferKind::kOutput:
        shape.outputs.push_back({at, buffer.index, bytes});
        break;
      case BufferKind::kConstant:
        // Kernels read constants only.
        shape.constants.push_back({at, const_cast<void*>(constant_data_[buffer.index])});
        break;
      case BufferKind::kPersistent:
        shape.constants.push_back({at, persistents_[table[at]]});
        break;
      case BufferKind::kTemp:
        shape.temps.push_back({at, shape.arena_offsets[table[at]]});
        break;
    }
  }
  for (const kernelgen::ProgramLayout::Check& check : shape.checks) {
    const auto at = std::ranges::find(table, program_.checks[check.index].buffer);
    shape.checked_at.push_back(at == table.end() ? ShapePlan::kNotInTable
                                                 : static_cast<uint32_t>(at - table.begin()));
  }
}

Status Executable::needs(tenon_symbols_t symbols, tenon_needs_t* needs) {
  std::shared_ptr<const ShapePlan> holder;
  const ShapePlan* shape = nullptr;
  TENON_TRY(plan_for(symbols, holder, shape));
  if (needs->output_count != program_.output_count) {
    return fail(TENON_INVALID_ARGUMENT, cat("The executable has ", program_.output_count,
                                            " outputs; ", needs->output_count, " were asked for."));
  }
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    if (buffer.kind != BufferKind::kOutput) {
      continue;
    }
    tenon_output_need_t& need = *tenon_need(needs, buffer.index);
    need.size_bytes_max = shape->sizes_bytes[i];
    need.alias_input = shape->alias_inputs[buffer.index];
    if (need.dims) {
      std::ranges::copy(shape->output_dims[buffer.index], need.dims);
    }
  }
  needs->workspace_bytes =
      shape->arena_bytes + shape->scratch_stride_bytes * plan::worker_count(host_threads());
  needs->lower_bound_bytes = shape->lower_bound_bytes;
  return {};
}

Status Executable::fill_table(const tenon_call_t& call, const ShapePlan& shape, void** table) {
  const auto place = [table](const tenon_span_t& span, const ShapePlan::OfCall& use) {
    if (!span.buffer || span.offset_bytes > span.buffer->size_bytes ||
        use.bytes > span.buffer->size_bytes - span.offset_bytes) {
      return false;
    }
    table[use.at] = span.buffer->data + span.offset_bytes;
    return true;
  };
  const auto too_small = [](std::string_view what, uint64_t bytes) {
    return fail(TENON_OUT_OF_RANGE, cat("The buffer of an ", what, " is smaller than the ", bytes,
                                        " bytes that the execution needs."));
  };
  for (const ShapePlan::OfCall& use : shape.inputs) {
    if (!place(*tenon_call_input(&call, use.index), use)) {
      return too_small("input", use.bytes);
    }
  }
  for (const ShapePlan::OfCall& use : shape.outputs) {
    if (!place(*tenon_call_output(&call, use.index), use)) {
      return too_small("output", use.bytes);
    }
  }
  for (const ShapePlan::Fixed& constant : shape.constants) {
    table[constant.at] = constant.data;
  }
  char* const arena = call.workspace ? call.workspace->data + call.workspace_offset_bytes : nullptr;
  for (const ShapePlan::InArena& temp : shape.temps) {
    table[temp.at] = arena ? arena + temp.offset_bytes : nullptr;
  }
  return {};
}

// Kernels clamp accesses that would leave a buffer, so a failed check has done no damage; it only
// invalidates the results.
Status Executable::check_run(const ShapePlan& shape, void* const* table) const {
  for (size_t i = 0; i < shape.checks.size(); ++i) {
    const kernelgen::ProgramLayout::Check& check = shape.checks[i];
    const uint32_t at = shape.checked_at[i];
    uint64_t found = 0;
    if (at == ShapePlan::kNotInTable || table[at] == nullptr) {
      return fail(TENON_INTERNAL,
                  cat("A check of ", program_.checks[check.index].origins, " has no memory."));
    }
    memcpy(&found, table[at], sizeof found);
    std::string text;
    if (const tenon_code_t code = kernelgen::check_found(program_, check, found, &text);
        code != TENON_OK) {
      return fail(code, text);
    }
  }
  return {};
}

Status Executable::execute(const tenon_call_t& call) {
  if (call.queue || call.wait_count != 0) {
    return fail(TENON_UNIMPLEMENTED, "The cpu device has no queues.");
  }
  if (call.input_count != program_.input_count || call.output_count != program_.output_count) {
    return fail(
        TENON_INVALID_ARGUMENT,
        cat("The executable has ", program_.input_count, " inputs and ", program_.output_count,
            " outputs; the call brings ", call.input_count, " and ", call.output_count, "."));
  }
  std::shared_ptr<const ShapePlan> holder;
  const ShapePlan* shape = nullptr;
  TENON_TRY(plan_for(call.symbols, holder, shape));
  const uint64_t stride = shape->scratch_stride_bytes;
  const tenon_span_t workspace = {call.workspace, call.workspace_offset_bytes};
  const uint64_t available =
      workspace.buffer && workspace.offset_bytes <= workspace.buffer->size_bytes
          ? workspace.buffer->size_bytes - workspace.offset_bytes
          : 0;
  if (available < shape->arena_bytes + stride) {
    return fail(TENON_OUT_OF_RANGE,
                cat("The workspace is smaller than the ", shape->arena_bytes + stride,
                    " bytes that one thread needs; needs() gives the size for all threads."));
  }
  // The pool may have grown since needs() was called (in a child process with more cores); then one
  // thread runs everything.
  const bool all_threads =
      stride == 0 || available >= shape->arena_bytes + stride * plan::worker_count(host_threads());
  const size_t table_size = shape->plan.slots.size();
  void* inline_table[1024];  // Not initialised, so that its size costs nothing.
  std::vector<void*> heap_table;
  void** table = inline_table;
  if (table_size > std::size(inline_table)) {
    heap_table.resize(table_size);
    table = heap_table.data();
  }
  TENON_TRY(fill_table(call, *shape, table));
  plan::PlanRun run;
  run.table = table;
  run.threads = all_threads ? host_threads() : nullptr;
  if (stride != 0) {
    run.scratch = workspace.buffer->data + workspace.offset_bytes + shape->arena_bytes;
  }
  Profiler profiler = {call.profile, &program_, shape};
  if (call.profile) {
    run.profile = &report;
    run.context = &profiler;
  }
  run.cancelled = [](void*) -> uint32_t { return cancelled() ? 1 : 0; };
  const tenon_code_t code = run_plan(shape->plan, run);
  if (code != TENON_OK) {
    return code == TENON_CANCELLED ? fail(code, "The execution was cancelled.") : Status(code);
  }
  return shape->checks.empty() ? Status() : check_run(*shape, table);
}

}  // namespace tenon::cpu
