#include "control/control_executable.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "artifact.h"
#include "control/control_arena.h"
#include "device.h"
#include "native/native_ops.h"
#include "tenon/cpp/graph.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {
namespace {

using Kind = ControlPart::Kind;

// A data-dependent output that may be larger gets its buffer when its size is known.
constexpr uint64_t kDataDependentBytes = uint64_t{1} << 20;
constexpr size_t kMaxShapes = 64;
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignmentBytes - 1) & ~(kAlignmentBytes - 1);
}

// Saturates: what is too large is refused by whoever allocates it.
uint64_t bytes_of(const ControlValue& value, std::span<const int64_t> symbols) {
  __int128 bytes = value.element_bytes;
  for (const kernelgen::SizeProgram& dim : value.dims) {
    bytes *= std::max<int64_t>(dim.evaluate(symbols), 0);
    if (bytes > kMaxBytes) return kMaxBytes;
  }
  return static_cast<uint64_t>(bytes);
}

bool relation_holds(uint32_t rel, int64_t a, int64_t b) {
  switch (rel) {
    case TENON_REL_EQ:
      return a == b;
    case TENON_REL_LT:
      return a < b;
    case TENON_REL_LE:
      return a <= b;
    default:
      return b != 0 && (b == -1 || a % b == 0);
  }
}

std::string_view relation_text(uint32_t rel) {
  switch (rel) {
    case TENON_REL_EQ:
      return "them to be equal";
    case TENON_REL_LT:
      return "the first to be less";
    case TENON_REL_LE:
      return "the first to be at most the second";
    default:
      return "the first to be a multiple of the second";
  }
}

}  // namespace

// ---- Loading ----

Status ControlExecutable::load(tenon_device_t* device, std::string_view artifact,
                               std::span<tenon_blob_t* const> constants,
                               std::unique_ptr<ControlExecutable>& out) {
  ArtifactParts bytes;
  TENON_TRY(artifact_unpack(artifact, bytes));
  std::unique_ptr<ControlExecutable> made(new ControlExecutable);
  TENON_TRY(ControlProgram::read(bytes.program, made->program_));
  ControlProgram& program = made->program_;
  if (constants.size() != program.constant_count) {
    return fail(TENON_INVALID_ARGUMENT, cat("The artifact needs ", program.constant_count,
                                            " constants and was given ", constants.size(), "."));
  }
  made->parts_.resize(program.artifacts.size());
  made->part_of_.resize(program.artifacts.size());
  for (const ControlRegion& region : program.regions) {
    for (const ControlPart& part : region.parts) {
      if (part.kind != Kind::kKernels) continue;
      std::vector<tenon_blob_t*> blobs;
      for (uint32_t c : part.constants) blobs.push_back(constants[c]);
      TENON_TRY(Executable::load(device, program.artifacts[part.artifact], blobs,
                                 made->parts_[part.artifact]));
      made->part_of_[part.artifact] = &part;
      program.artifacts[part.artifact] = {};
    }
  }
  for (const auto& part : made->parts_) {
    if (!part) return fail(TENON_DATA_LOSS, "The artifact holds a part that nothing runs.");
  }
  TENON_TRY(made->adopt_constants(constants));
  made->find_order();
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
  constant_data_.resize(constants.size());
  const auto adopt = [&](const std::vector<uint32_t>& values) -> Status {
    for (uint32_t v : values) {
      const ControlValue& value = program_.values[v];
      if (value.kind != ControlValue::Kind::kConstant || blobs_[value.index] != nullptr) continue;
      tenon_blob_t* blob = constants[value.index];
      graph_api().blob_retain(graph_api().self, blob);
      blobs_[value.index] = blob;
      uint64_t size = 0;
      TENON_TRY(graph_api().blob_data(graph_api().self, blob, &constant_data_[value.index], &size));
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

void ControlExecutable::find_order() {
  data_dependent_symbols_.assign(program_.symbol_count, true);
  for (uint32_t s : program_.main_symbols) data_dependent_symbols_[s] = false;
  facts_of_.resize(program_.symbol_count);
  for (uint32_t f = 0; f < program_.facts.size(); ++f) {
    for (uint32_t s : program_.facts[f].symbols) facts_of_[s].push_back(f);
  }
  for (const ControlRegion& region : program_.regions) {
    std::vector<uint8_t>& direct = direct_.emplace_back();
    std::vector<bool> made(program_.values.size(), false);
    for (const ControlPart& part : region.parts) {
      for (uint32_t v : part.outputs) made[v] = true;
    }
    for (uint32_t v : region.yields) {
      direct.push_back(made[v] ? 1 : 0);
      made[v] = false;  // A second yield of it is a copy.
    }
  }
}

void ControlExecutable::info(tenon_executable_info_t* out) const {
  *out = {};
  out->size_bytes = sizeof *out;
  for (const auto& part : parts_) {
    tenon_executable_info_t info = {};
    part->info(&info);
    out->kernel_count += info.kernel_count;
    out->constant_bytes += info.constant_bytes;
  }
}

// ---- Sizes ----

Status ControlExecutable::shape_for(tenon_symbols_t symbols,
                                    std::shared_ptr<const ControlShape>& out) {
  if (symbols.count != program_.main_symbols.size()) {
    return fail(TENON_INVALID_ARGUMENT, cat("The executable has ", program_.main_symbols.size(),
                                            " symbols and was given ", symbols.count, "."));
  }
  const std::span<const int64_t> values(symbols.values, symbols.count);
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = shapes_.begin(); it != shapes_.end(); ++it) {
    if (std::ranges::equal(values, (*it)->main_symbols)) {
      shapes_.splice(shapes_.begin(), shapes_, it);
      out = shapes_.front();
      return {};
    }
  }
  auto made = std::make_shared<ControlShape>();
  TENON_TRY(make_shape(values, *made));
  out = made;
  shapes_.push_front(std::move(made));
  if (shapes_.size() > kMaxShapes) shapes_.pop_back();
  return {};
}

bool ControlExecutable::has_data_dependent_sizes(const ControlPart& part) const {
  return std::ranges::any_of(part.symbols, [&](uint32_t s) { return data_dependent_symbols_[s]; });
}

Status ControlExecutable::make_shape(std::span<const int64_t> values, ControlShape& out) {
  out.main_symbols.assign(values.begin(), values.end());
  std::vector<int64_t> symbols(program_.symbol_count, 0);
  for (size_t i = 0; i < values.size(); ++i) symbols[program_.main_symbols[i]] = values[i];
  for (const ControlValue& value : program_.values) out.bytes.push_back(bytes_of(value, symbols));
  for (size_t a = 0; a < parts_.size(); ++a) {
    out.workspace_bytes.push_back(0);
    if (has_data_dependent_sizes(*part_of_[a])) continue;
    std::vector<int64_t> own;
    for (uint32_t s : part_of_[a]->symbols) own.push_back(symbols[s]);
    std::vector<tenon_output_need_t> outputs(part_of_[a]->outputs.size());
    tenon_needs_t needs = {};
    needs.size_bytes = sizeof needs;
    needs.output_count = static_cast<uint32_t>(outputs.size());
    needs.outputs = outputs.data();
    TENON_TRY(parts_[a]->needs({own.data(), static_cast<uint32_t>(own.size())}, &needs));
    out.workspace_bytes.back() = needs.workspace_bytes;
  }
  out.arena_bytes = region_bytes(out, 0, true);
  if (out.arena_bytes > kMaxBytes)
    return fail(TENON_RESOURCE_EXHAUSTED,
                "With these sizes the workspace is larger than any memory.");
  return {};
}

// What a region takes at once: all that its parts make, and the largest part's own memory. What
// somebody waits for is made there.
uint64_t ControlExecutable::region_bytes(const ControlShape& shape, uint32_t index,
                                         bool wanted) const {
  const ControlRegion& region = program_.regions[index];
  std::vector<uint32_t> elsewhere;
  for (size_t i = 0; i < region.yields.size() && wanted; ++i) {
    if (direct_[index][i] != 0) elsewhere.push_back(region.yields[i]);
  }
  uint64_t made = 0, most = 0;
  for (const ControlPart& part : region.parts) {
    for (uint32_t v : part.outputs) {
      if (std::ranges::find(elsewhere, v) == elsewhere.end()) made += arena_bytes_of(shape, v);
    }
    const uint64_t own = part_bytes(shape, part);
    if (part.kind == Kind::kSwitch) {
      made += own;  // What the chosen region made lives on behind it.
    } else {
      most = std::max(most, own);
    }
  }
  return std::min(made + most, 4 * kMaxBytes - 1);
}

// Data-dependent values live in blocks of their own.
uint64_t ControlExecutable::arena_bytes_of(const ControlShape& shape, uint32_t v) const {
  return program_.values[v].data_dependent ? 0 : aligned(shape.bytes[v]);
}

uint64_t ControlExecutable::part_bytes(const ControlShape& shape, const ControlPart& part) const {
  if (part.kind == Kind::kKernels) return aligned(shape.workspace_bytes[part.artifact]);
  const bool loop = part.kind != Kind::kSwitch;
  uint64_t most = 0, carried = 0;
  for (uint32_t r : part.regions)
    most = std::max(most, region_bytes(shape, r, loop && r == part.regions.back()));
  // The second buffer of every carried value; the condition and the body of a loop run one after
  // another.
  const size_t count = part.kind == Kind::kScan    ? part.carried
                       : part.kind == Kind::kWhile ? part.inputs.size()
                                                   : 0;
  for (size_t i = 0; i < count; ++i) carried += arena_bytes_of(shape, part.outputs[i]);
  return most + carried;
}

Status ControlExecutable::needs(tenon_symbols_t symbols, tenon_needs_t* needs) {
  std::shared_ptr<const ControlShape> shape;
  TENON_TRY(shape_for(symbols, shape));
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

// ---- Running ----

// One execution.
class ControlRun {
 public:
  ControlRun(ControlExecutable& exe, const ControlShape& shape, const tenon_call_t& call,
             char* base, uint64_t bytes)
      : exe_(exe),
        program_(exe.program_),
        shape_(shape),
        call_(call),
        arena_(base, bytes),
        symbols_(program_.symbol_count, 0),
        known_(program_.symbol_count, false),
        data_(program_.values.size()),
        wanted_(program_.values.size()),
        states_(exe.parts_.size()) {}

  Status run() {
    for (size_t i = 0; i < program_.main_symbols.size(); ++i)
      symbols_[program_.main_symbols[i]] = shape_.main_symbols[i];
    TENON_TRY(bind_values());
    const ControlRegion& main = program_.regions[0];
    for (size_t i = 0; i < main.yields.size(); ++i) {
      // A data-dependent value has its exact size only when it is there: it goes through memory of
      // the arena.
      if (exe_.direct_[0][i] && !value(main.yields[i]).data_dependent)
        wanted_[main.yields[i]] = output(i);
    }
    TENON_TRY(run_region(0));
    for (size_t i = 0; i < main.yields.size(); ++i) {
      const uint64_t bytes = size_of(main.yields[i]);
      tenon_span_t span = call_.outputs[i];
      if (span.buffer == nullptr && call_.output != nullptr) {
        TENON_TRY(call_.output(call_.output_self, static_cast<uint32_t>(i), bytes, &span));
      }
      if (span.buffer == nullptr || bytes > span.buffer->size_bytes - span.offset_bytes) {
        return fail(TENON_INTERNAL,
                    cat("Output ", i, " has ", bytes, " bytes, more than its buffer."));
      }
      copy(span.buffer->data + span.offset_bytes, main.yields[i]);
    }
    for (uint32_t i = 0; i < call_.out_symbol_count && i < program_.out_symbols.size(); ++i) {
      call_.out_symbols[i] = symbols_[program_.out_symbols[i]];
    }
    return {};
  }

 private:
  const ControlValue& value(uint32_t v) const { return program_.values[v]; }
  uint64_t size_of(uint32_t v) const {
    return value(v).data_dependent ? bytes_of(value(v), symbols_) : shape_.bytes[v];
  }
  char* output(size_t i) const {
    return call_.outputs[i].buffer->data + call_.outputs[i].offset_bytes;
  }
  void copy(char* to, uint32_t from) const {
    const uint64_t bytes = size_of(from);
    if (bytes != 0 && to != data_[from])
      memmove(to, data_[from], bytes);  // what has no bytes may be nowhere
  }

  Status bind_values() {
    for (uint32_t v = 0; v < program_.values.size(); ++v) {
      const ControlValue& it = value(v);
      if (it.kind == ControlValue::Kind::kConstant) {
        data_[v] = static_cast<char*>(const_cast<void*>(exe_.constant_data_[it.index]));
      } else if (it.kind == ControlValue::Kind::kInput) {
        const tenon_span_t& span = call_.inputs[it.index];
        if (!span.buffer || span.offset_bytes > span.buffer->size_bytes ||
            size_of(v) > span.buffer->size_bytes - span.offset_bytes) {
          return fail(TENON_OUT_OF_RANGE, cat("The buffer of an input is smaller than the ",
                                              size_of(v), " bytes it needs."));
        }
        data_[v] = span.buffer->data + span.offset_bytes;
      }
    }
    for (size_t i = 0; i < program_.regions[0].yields.size(); ++i) {
      const tenon_span_t& span = call_.outputs[i];
      const uint32_t v = program_.regions[0].yields[i];
      if (!span.buffer && value(v).data_dependent) continue;
      if (!span.buffer || span.offset_bytes > span.buffer->size_bytes ||
          (!value(v).data_dependent && size_of(v) > span.buffer->size_bytes - span.offset_bytes)) {
        return fail(TENON_OUT_OF_RANGE, cat("The buffer of an output is smaller than the ",
                                            size_of(v), " bytes it needs."));
      }
    }
    return {};
  }

  // ---- Sizes that the run tells ----
  // Kernels rely on facts: none runs before what it takes for granted has been checked.
  Status learn(uint32_t symbol, int64_t value) {
    const int64_t multiple = program_.multiples[symbol];
    if (value < program_.lows[symbol] || value > program_.bounds[symbol] ||
        (multiple > 1 && value % multiple != 0)) {
      return fail(TENON_INVALID_ARGUMENT,
                  cat("T0608: a size that data decides is ", value,
                      ", and the model wants it at least ", program_.lows[symbol],
                      program_.bounds[symbol] == std::numeric_limits<int64_t>::max()
                          ? ""
                          : cat(" and at most ", program_.bounds[symbol]),
                      multiple > 1 ? cat(" and a multiple of ", multiple) : "", place_of(symbol)));
    }
    symbols_[symbol] = value;
    known_[symbol] = true;
    for (uint32_t f : exe_.facts_of_[symbol]) {
      const ControlFact& fact = program_.facts[f];
      if (!std::ranges::all_of(fact.symbols, [this](uint32_t s) { return known_[s]; })) continue;
      const int64_t a = fact.a.evaluate(symbols_), b = fact.b.evaluate(symbols_);
      if (relation_holds(fact.rel, a, b)) continue;
      return fail(TENON_INVALID_ARGUMENT,
                  cat("T0607: ", fact.place.empty() ? "" : fact.place + ": ",
                      "sizes that data decides are ", a, " and ", b, "; the model needs ",
                      relation_text(fact.rel), "."));
    }
    return {};
  }
  // The node that tells a symbol.
  std::string place_of(uint32_t symbol) const {
    for (const ControlRegion& region : program_.regions) {
      for (const ControlPart& part : region.parts) {
        if (std::ranges::any_of(part.defines,
                                [symbol](const ControlSize& s) { return s.symbol == symbol; }))
          return ", told by " + part.place;
      }
    }
    return {};
  }
  // What an earlier iteration told is not known of this one.
  void forget(const ControlRegion& region) {
    for (const ControlPart& part : region.parts) {
      for (const ControlSize& s : part.defines) known_[s.symbol] = false;
    }
  }

  Status run_region(uint32_t index) {
    forget(program_.regions[index]);
    for (const ControlPart& part : program_.regions[index].parts) {
      switch (part.kind) {
        case Kind::kKernels:
          TENON_TRY(run_kernels(part));
          break;
        case Kind::kSwitch:
          TENON_TRY(run_switch(part));
          break;
        case Kind::kWhile:
          TENON_TRY(run_while(part));
          break;
        case Kind::kScan:
          TENON_TRY(run_scan(part));
          break;
        case Kind::kNative:
          TENON_TRY(run_native(part));
          break;
      }
    }
    return {};
  }

  // Where a value that is about to be made goes: where somebody wants it, or into the arena.
  Status place(uint32_t v) {
    if (char* wanted = std::exchange(wanted_[v], nullptr)) {
      data_[v] = wanted;
      return {};
    }
    return arena_.take(size_of(v), &data_[v]);
  }

  // ---- Kernels ----
  struct PartState {
    std::vector<tenon_buffer_t> buffers;  // Inputs, outputs, the workspace.
    std::vector<tenon_span_t> spans;
    std::vector<int64_t> symbols;
    std::vector<tenon_output_need_t> needs;
    tenon_call_t call = {};
    uint64_t workspace_bytes = 0;
    bool data_dependent = false, ready = false;
  };

  void prepare(const ControlPart& part, PartState& state) {
    const size_t count = part.inputs.size() + part.outputs.size() + 1;
    state.buffers.resize(count);
    for (tenon_buffer_t& buffer : state.buffers) state.spans.push_back({&buffer, 0});
    for (size_t i = 0; i < part.inputs.size(); ++i)
      state.buffers[i].size_bytes = size_of(part.inputs[i]);
    for (size_t i = 0; i < part.outputs.size(); ++i) {
      state.buffers[part.inputs.size() + i].size_bytes = size_of(part.outputs[i]);
    }
    for (uint32_t s : part.symbols) state.symbols.push_back(symbols_[s]);
    state.needs.resize(part.outputs.size());
    state.workspace_bytes = shape_.workspace_bytes[part.artifact];
    state.data_dependent = exe_.has_data_dependent_sizes(part);
    state.ready = true;
    tenon_call_t& call = state.call;
    call.size_bytes = sizeof call;
    call.input_count = static_cast<uint32_t>(part.inputs.size());
    call.output_count = static_cast<uint32_t>(part.outputs.size());
    call.symbols = {state.symbols.data(), static_cast<uint32_t>(state.symbols.size())};
    call.inputs = state.spans.data();
    call.outputs = state.spans.data() + part.inputs.size();
    call.workspace = state.spans.back();
    call.profile = call_.profile;
  }

  // Sizes that are another each time.
  Status learn_sizes(const ControlPart& part, PartState& state) {
    for (size_t i = 0; i < part.symbols.size(); ++i) state.symbols[i] = symbols_[part.symbols[i]];
    for (size_t i = 0; i < part.inputs.size(); ++i)
      state.buffers[i].size_bytes = size_of(part.inputs[i]);
    for (size_t i = 0; i < part.outputs.size(); ++i) {
      state.buffers[part.inputs.size() + i].size_bytes = size_of(part.outputs[i]);
    }
    tenon_needs_t needs = {};
    needs.size_bytes = sizeof needs;
    needs.output_count = static_cast<uint32_t>(state.needs.size());
    needs.outputs = state.needs.data();
    TENON_TRY(exe_.parts_[part.artifact]->needs(state.call.symbols, &needs));
    state.workspace_bytes = needs.workspace_bytes;
    return {};
  }

  Status run_kernels(const ControlPart& part) {
    PartState& state = states_[part.artifact];
    if (!state.ready) prepare(part, state);
    if (state.data_dependent) TENON_TRY(learn_sizes(part, state));
    tenon_buffer_t* buffer = state.buffers.data();
    for (uint32_t v : part.inputs) (buffer++)->data = data_[v];
    for (uint32_t v : part.outputs) {
      TENON_TRY(place(v));
      (buffer++)->data = data_[v];
    }
    if (state.workspace_bytes == 0) return exe_.parts_[part.artifact]->execute(state.call);
    const ControlArena::Mark mark = arena_.mark();
    TENON_TRY(arena_.take(state.workspace_bytes, &buffer->data));
    buffer->size_bytes = state.workspace_bytes;
    const Status status = exe_.parts_[part.artifact]->execute(state.call);
    arena_.release(mark);
    return status;
  }

  // ---- Calls ----
  class Call final : public NativeCall {
   public:
    Call(ControlRun& run, const ControlPart& part)
        : run_(run), part_(part), dims_(part.inputs.size()), made_(part.outputs.size()) {
      for (size_t i = 0; i < part.inputs.size(); ++i) {
        const ControlValue& value = run.value(part.inputs[i]);
        for (const kernelgen::SizeProgram& dim : value.dims)
          dims_[i].push_back(dim.evaluate(run.symbols_));
        inputs.push_back(
            {static_cast<tenon_dtype_t>(value.dtype), dims_[i], run.data_[part.inputs[i]]});
      }
      parameters = part.parameters;
      place = part.place;
    }
    Status make(size_t output, std::span<const int64_t> dims, char** data) override {
      for (const ControlSize& s : part_.defines) {
        if (s.index == output) TENON_TRY(run_.learn(s.symbol, dims[s.dim]));
      }
      const uint32_t v = part_.outputs[output];
      const ControlValue& value = run_.value(v);
      for (size_t d = 0; d < value.dims.size(); ++d) {
        if (const int64_t wanted = value.dims[d].evaluate(run_.symbols_); wanted != dims[d]) {
          return fail(TENON_INVALID_ARGUMENT,
                      cat("T0607: ", place, ": dim ", d, " of result ", output, " is ", dims[d],
                          ", and the model needs ", wanted, "."));
        }
      }
      made_[output] = true;
      TENON_TRY(run_.place(v));
      *data = run_.data_[v];
      return {};
    }
    bool complete() const {
      return std::ranges::all_of(made_, [](bool made) { return made; });
    }

   private:
    ControlRun& run_;
    const ControlPart& part_;
    std::vector<std::vector<int64_t>> dims_;
    std::vector<bool> made_;
  };

  Status run_native(const ControlPart& part) {
    if (cancelled()) return fail(TENON_CANCELLED, "T0001: The run was cancelled.");
    Call call(*this, part);
    TENON_TRY(find_native(part.native)->run(call));
    return call.complete() ? Status()
                           : fail(TENON_INTERNAL, cat(part.place, ": a result was not made."));
  }

  // ---- Branches ----
  int64_t index_of(uint32_t v) const {
    int64_t number = 0;
    if (value(v).element_bytes == 8) {
      memcpy(&number, data_[v], 8);
    } else if (value(v).element_bytes == 4) {
      int32_t narrow = 0;
      memcpy(&narrow, data_[v], 4);
      number = narrow;
    } else {
      number = *data_[v] != 0;
    }
    return number;
  }

  Status run_switch(const ControlPart& part) {
    const int64_t last = static_cast<int64_t>(part.regions.size()) - 1;
    const uint32_t chosen =
        part.regions[static_cast<size_t>(std::clamp<int64_t>(index_of(part.inputs[0]), 0, last))];
    const ControlRegion& region = program_.regions[chosen];
    for (size_t i = 0; i < region.arguments.size(); ++i)
      data_[region.arguments[i]] = data_[part.inputs[i + 1]];
    for (size_t i = 0; i < region.yields.size(); ++i) {
      if (exe_.direct_[chosen][i]) wanted_[region.yields[i]] = wanted_[part.outputs[i]];
    }
    TENON_TRY(run_region(chosen));
    for (const ControlSize& s : part.defines) {
      TENON_TRY(learn(s.symbol, value(region.yields[s.index]).dims[s.dim].evaluate(symbols_)));
    }
    for (size_t i = 0; i < region.yields.size(); ++i) {
      char* wanted = std::exchange(wanted_[part.outputs[i]], nullptr);
      if (wanted != nullptr) copy(wanted, region.yields[i]);
      data_[part.outputs[i]] = wanted != nullptr ? wanted : data_[region.yields[i]];
    }
    return {};
  }

  // ---- Loops ----
  // A value that goes from iteration to iteration, between two buffers; the operand's own memory is
  // never written.
  struct Carried {
    bool stays = false;           // The body yields its own argument.
    bool data_dependent = false;  // Its size may change.
    bool direct = false;          // A part of the body writes it where it is wanted.
    char* current = nullptr;
    char* next = nullptr;    // Where this iteration's value goes.
    char* spare = nullptr;   // The other buffer, as long as the operand is current.
    char* final = nullptr;   // Where the result has to end up; null: anywhere.
    GrowingBlock blocks[2];  // Of a data-dependent one, in iterations.
    int block = 0;
  };
  using Dims = std::array<int64_t, TENON_RANK_MAX>;

  // iterations: their number where it is known, so that the last one writes the result in its
  // place; else 0.
  Status begin_loop(const ControlPart& part, uint32_t body, size_t count, int64_t iterations,
                    std::vector<Carried>* out) {
    const ControlRegion& region = program_.regions[body];
    *out = std::vector<Carried>(count);
    for (size_t i = 0; i < count; ++i) {
      Carried& c = (*out)[i];
      c.stays = region.yields[i] == region.arguments[i];
      c.data_dependent =
          value(region.arguments[i]).data_dependent || value(region.yields[i]).data_dependent;
      c.direct = exe_.direct_[body][i] != 0 && !c.data_dependent;
      c.current = data_[part.inputs[i]];
      c.final = std::exchange(wanted_[part.outputs[i]], nullptr);
      if (c.stays || c.data_dependent) continue;
      const uint64_t bytes = size_of(part.outputs[i]);
      TENON_TRY(arena_.take(bytes, &c.next));
      c.spare = c.final;
      if (c.spare == nullptr) TENON_TRY(arena_.take(bytes, &c.spare));
      if (iterations % 2 == 1) std::swap(c.next, c.spare);
    }
    return {};
  }

  Status keep_data_dependent(Carried& c, uint32_t yield) {
    GrowingBlock& block = c.blocks[c.block ^= 1];
    const uint64_t bytes = size_of(yield);
    TENON_TRY(block.reserve(bytes));
    if (bytes != 0) memcpy(block.data(), data_[yield], bytes);
    c.current = block.data();
    return {};
  }

  // All at once: what is not written in place is copied before any buffer becomes another's.
  Status advance(const ControlRegion& body, std::vector<Carried>& carried) {
    for (size_t i = 0; i < carried.size(); ++i) {
      Carried& c = carried[i];
      if (!c.stays && !c.data_dependent && !c.direct) copy(c.next, body.yields[i]);
    }
    for (size_t i = 0; i < carried.size(); ++i) {
      Carried& c = carried[i];
      if (c.stays) continue;
      if (c.data_dependent) {
        TENON_TRY(keep_data_dependent(c, body.yields[i]));
        continue;
      }
      char* const used = c.current;
      c.current = c.next;
      c.next = c.spare != nullptr ? std::exchange(c.spare, nullptr) : used;
    }
    return {};
  }

  void bind_turn(const ControlRegion& region, const std::vector<Carried>& carried) {
    for (size_t i = 0; i < carried.size(); ++i) data_[region.arguments[i]] = carried[i].current;
  }

  // Dims that the iteration leaves open, from the values that are carried into it.
  Status learn_open(const ControlRegion& region, const std::vector<Dims>& dims) {
    for (const ControlSize& s : region.opens) known_[s.symbol] = false;
    forget(region);
    for (const ControlSize& s : region.opens) TENON_TRY(learn(s.symbol, dims[s.index][s.dim]));
    return {};
  }

  Status check_turn(const ControlPart& part, const ControlRegion& region) {
    if (cancelled()) return fail(TENON_CANCELLED, "T0001: The run was cancelled.");
    for (const ControlSize& s : region.checks) {
      const int64_t was = value(region.arguments[s.index]).dims[s.dim].evaluate(symbols_);
      const int64_t is = value(region.yields[s.index]).dims[s.dim].evaluate(symbols_);
      if (was != is) {
        return fail(TENON_INVALID_ARGUMENT,
                    cat("T0324: ", part.place, ": dim ", s.dim, " of carried value ", s.index,
                        " was ", was, " and became ", is,
                        " in an iteration; only dims that are symbols of the body may change."));
      }
    }
    return {};
  }

  Status end_loop(const ControlPart& part, std::vector<Carried>& carried) {
    for (size_t i = 0; i < carried.size(); ++i) {
      Carried& c = carried[i];
      const bool in_block = c.current == c.blocks[0].data() || c.current == c.blocks[1].data();
      // Blocks go with the loop.
      if (c.final == nullptr && in_block)
        TENON_TRY(arena_.take(size_of(part.outputs[i]), &c.final));
      if (c.final != nullptr && c.current != c.final) {
        if (const uint64_t bytes = size_of(part.outputs[i]); bytes != 0)
          memcpy(c.final, c.current, bytes);
        c.current = c.final;
      }
      data_[part.outputs[i]] = c.current;
    }
    return {};
  }

  // Values of all iterations, one behind another.
  struct Collected {
    GrowingBlock block;
    uint64_t bytes = 0;  // Of one iteration.
  };

  Status run_while(const ControlPart& part) {
    const uint32_t condition_index = part.regions[0], body_index = part.regions[1];
    const ControlRegion& condition = program_.regions[condition_index];
    const ControlRegion& body = program_.regions[body_index];
    const size_t count = part.inputs.size();
    std::vector<Carried> carried;
    TENON_TRY(begin_loop(part, body_index, count, 0, &carried));
    std::vector<Collected> collected(part.outputs.size() - count);
    for (size_t k = 0; k < collected.size(); ++k)
      collected[k].bytes = size_of(body.yields[count + k]);
    std::vector<Dims> dims(body.opens.empty() ? 0 : count);
    for (const ControlSize& s : body.opens)
      dims[s.index][s.dim] = value(part.inputs[s.index]).dims[s.dim].evaluate(symbols_);
    int64_t trips = 0;
    for (; part.max_trip < 0 || trips < part.max_trip; ++trips) {
      const ControlArena::Mark mark = arena_.mark();
      TENON_TRY(learn_open(condition, dims));
      bind_turn(condition, carried);
      TENON_TRY(run_region(condition_index));
      const bool holds = *data_[condition.yields[0]] != 0;
      arena_.release(mark);
      if (!holds) break;
      TENON_TRY(learn_open(body, dims));
      TENON_TRY(run_iteration(
          part, body_index, carried, trips, [&](size_t i, int64_t iteration) -> Status {
            Collected& c = collected[i - count];
            TENON_TRY(c.block.reserve(c.bytes * (static_cast<uint64_t>(iteration) + 1)));
            collect_to_ = c.block.data() + c.bytes * static_cast<uint64_t>(iteration);
            return {};
          }));
      for (const ControlSize& s : body.opens)
        dims[s.index][s.dim] = value(body.yields[s.index]).dims[s.dim].evaluate(symbols_);
    }
    for (const ControlSize& s : part.defines)
      TENON_TRY(learn(s.symbol, s.index < count ? dims[s.index][s.dim] : trips));
    TENON_TRY(end_loop(part, carried));
    for (size_t k = 0; k < collected.size(); ++k) {
      const uint32_t v = part.outputs[count + k];
      TENON_TRY(place(v));
      if (trips != 0)
        memcpy(data_[v], collected[k].block.data(),
               collected[k].bytes * static_cast<uint64_t>(trips));
    }
    return {};
  }

  // One iteration: `where(i, iteration)` sets collect_to_ for the yields that are not carried.
  template <class Where>
  Status run_iteration(const ControlPart& part, uint32_t body_index, std::vector<Carried>& carried,
                       int64_t iteration, Where&& where) {
    const ControlRegion& body = program_.regions[body_index];
    const std::vector<uint8_t>& direct = exe_.direct_[body_index];
    const ControlArena::Mark mark = arena_.mark();
    bind_turn(body, carried);
    for (size_t i = 0; i < body.yields.size(); ++i) {
      if (i < carried.size()) {
        if (carried[i].direct) wanted_[body.yields[i]] = carried[i].next;
      } else if (direct[i] != 0) {
        TENON_TRY(where(i, iteration));
        wanted_[body.yields[i]] = collect_to_;
      }
    }
    TENON_TRY(run_region(body_index));
    for (size_t i = carried.size(); i < body.yields.size(); ++i) {
      if (direct[i] != 0) continue;
      TENON_TRY(where(i, iteration));
      copy(collect_to_, body.yields[i]);
    }
    TENON_TRY(check_turn(part, body));
    TENON_TRY(advance(body, carried));
    arena_.release(mark);
    return {};
  }

  Status run_scan(const ControlPart& part) {
    const uint32_t body_index = part.regions[0];
    const ControlRegion& body = program_.regions[body_index];
    const int64_t length = part.length.evaluate(symbols_);
    std::vector<Carried> carried;
    TENON_TRY(begin_loop(part, body_index, part.carried, length, &carried));
    for (size_t i = part.carried; i < part.outputs.size(); ++i) TENON_TRY(place(part.outputs[i]));
    for (int64_t iteration = 0; iteration < length; ++iteration) {
      const auto at = static_cast<uint64_t>(part.reverse ? length - 1 - iteration : iteration);
      for (size_t i = part.carried; i < part.inputs.size(); ++i) {
        data_[body.arguments[i]] = data_[part.inputs[i]] + at * size_of(body.arguments[i]);
      }
      TENON_TRY(
          run_iteration(part, body_index, carried, iteration, [&](size_t i, int64_t) -> Status {
            collect_to_ = data_[part.outputs[i]] + at * size_of(body.yields[i]);
            return {};
          }));
    }
    return end_loop(part, carried);
  }

  ControlExecutable& exe_;
  const ControlProgram& program_;
  const ControlShape& shape_;
  const tenon_call_t& call_;
  ControlArena arena_;
  std::vector<int64_t> symbols_;
  std::vector<bool> known_;    // By symbol: data-dependent ones that were told in this iteration.
  std::vector<char*> data_;    // By value: where it is.
  std::vector<char*> wanted_;  // By value: where whoever makes it has to put it.
  std::vector<PartState> states_;
  char* collect_to_ = nullptr;
};

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
  TENON_TRY(shape_for(call.symbols, shape));
  const tenon_span_t& space = call.workspace;
  const bool given = space.buffer != nullptr && space.offset_bytes <= space.buffer->size_bytes;
  return ControlRun(*this, *shape, call, given ? space.buffer->data + space.offset_bytes : nullptr,
                    given ? space.buffer->size_bytes - space.offset_bytes : 0)
      .run();
}

}  // namespace tenon::cpu
