#include "core/session/compile/program.h"

#include <tenon/cpp/record.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "core/base/checked.h"
#include "core/base/errors/guard.h"
#include "core/base/intern.h"
#include "core/base/process/activity.h"
#include "core/base/process/float_state.h"
#include "core/base/process/log.h"
#include "core/base/process/operation.h"
#include "core/base/str.h"
#include "core/dispatch/placement/properties.h"
#include "core/ir/dtype.h"
#include "core/ir/host_graph.h"
#include "core/ir/serial/serial.h"
#include "core/runtime/run/trace.h"
#include "core/session/compile/devices.h"
#include "core/session/compile/pipeline.h"

namespace tenon::session {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::Value;

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& model, const CompileOptions& options)
      : options_(options), program_(new Program()), plan_(std::make_shared<runtime::Plan>()) {
    program_->graph_ = model.clone();
  }

  Result<std::shared_ptr<Program>> run() {
    const uint64_t begin = runtime::now_ns();
    const FloatScope floats(region_float_control());  // folding evaluates
    TENON_ASSIGN_OR_RETURN(dispatch::Candidates candidates,
                           options_.target.empty()
                               ? candidates_for(options_.device, options_.no_fallback)
                               : candidates_for_target(options_.device, options_.target));
    TENON_RETURN_IF_ERROR(check_options(options_.options, candidates));
    if (options_.for_file && !options_.device.empty())
      TENON_RETURN_IF_ERROR(refuse_sizes(candidates));
    candidates.offered_ops = offered_ops(candidates);
    candidates.settings = options_;
    candidates.settings.autotune = options_.autotune && !options_.for_file;  // that opens no device
    TENON_ASSIGN_OR_RETURN(candidates.composites,
                           run_pipeline(program_->graph_, options_.pipeline, candidates));
    program_->graph_->freeze();
    TENON_RETURN_IF_ERROR(find_late());
    const tenon_host_graph_t* api = ir::host_graph_table();
    api->retain(api->self, program_->graph_->abi());
    const runtime::GraphRef ref(api, program_->graph_->abi());
    TENON_ASSIGN_OR_RETURN(program_->placement_, dispatch::place(ref, candidates));
    TENON_RETURN_IF_ERROR(cut());
    TENON_RETURN_IF_ERROR(compile_segments());
    TENON_RETURN_IF_ERROR(make_plan());
    program_->plan_ = plan_;
    program_->runners_ = std::make_unique<runtime::RunnerPool>(plan_);
    if (!late_constants_.empty())
      program_->loadings_ = std::make_unique<Loadings>(plan_, std::move(late_constants_));
    program_->ports_ =
        std::make_unique<PortRecords>(PortRecords::of(graph(), program_->plan_->shapes));
    program_->compile_ms_ = static_cast<double>(runtime::now_ns() - begin) / 1e6;
    return program_;
  }

 private:
  const Graph& graph() const { return *program_->graph_; }

  // A file holds one program, and a named device of concrete sizes would get nothing in it.
  Status refuse_sizes(const dispatch::Candidates& candidates) const {
    std::vector<std::string_view> names;
    for (const ir::Symbol s : graph().region(graph().main()).symbols)
      names.push_back(sym_text(graph().dims().symbol(s).name));
    if (names.empty()) return {};
    for (const auto& device : candidates.devices) {
      if ((dispatch::compile_properties(*device) & TENON_COMPILE_STATIC) == 0) continue;
      return error(TENON_INVALID_ARGUMENT, "T0520",
                   "{} takes concrete sizes alone, and calls decide the sizes {} of this model; "
                   "give them when the model is loaded (--dim {}=N), or use a model that has them",
                   device->name(), fmt::join(names, ", "), names[0]);
    }
    return {};
  }

  // The options NAME.ops, by candidate: what the user lets each device have.
  std::vector<std::vector<std::string>> offered_ops(const dispatch::Candidates& candidates) const {
    std::vector<std::vector<std::string>> out(candidates.devices.size());
    for (size_t i = 0; i < out.size(); ++i) {
      for (const auto& [key, value] : options_.options) {
        if (key != candidates.devices[i]->name() + ".ops") continue;
        for (std::string_view glob : split(value, ',')) out[i].emplace_back(glob);
      }
    }
    return out;
  }

  uint32_t plan_device(uint32_t asked) {
    const std::shared_ptr<runtime::Device>& device = program_->placement_.asked[asked].device;
    const auto it = std::find(plan_->devices.begin(), plan_->devices.end(), device);
    if (it == plan_->devices.end()) plan_->devices.push_back(device);
    return static_cast<uint32_t>(std::find(plan_->devices.begin(), plan_->devices.end(), device) -
                                 plan_->devices.begin());
  }

  // ---- Inputs that rarely change ----
  // Finds those that segments may have as constants: large, and of a size that is known.
  Status find_late() {
    const std::vector<Value>& arguments = graph().region(graph().main()).arguments;
    for (const uint32_t input : options_.stable_inputs) {
      if (input >= arguments.size()) {
        return error(TENON_INVALID_ARGUMENT, "T0696",
                     "input {} is to change rarely, and the model has {}", input, arguments.size());
      }
      const tenon_type_t& type = graph().type(arguments[input]);
      const std::span<const Dim> dims(type.dims, type.rank);
      if (type.kind != TENON_KIND_TENSOR || std::ranges::any_of(dims, [](Dim d) { return d < 0; }))
        continue;
      TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count(dims));
      TENON_ASSIGN_OR_RETURN(const uint64_t bytes, packed_bytes(count, ir::dtype_bits(type.dtype)));
      if (bytes > TENON_COMPILE_EARLY_BYTES) late_.push_back(arguments[input]);
    }
    std::ranges::sort(late_);
    late_.erase(std::ranges::unique(late_).begin(), late_.end());
    if (options_.for_file) late_.clear();
    return {};
  }

  std::span<const Value> late_for(const CompiledSegment& segment) const {
    if (late_.empty()) return {};
    const uint32_t flags = dispatch::compile_properties(*segment.owner, segment.compiler());
    return (flags & TENON_COMPILE_LATE_CONSTANTS) != 0 ? std::span(late_)
                                                       : std::span<const Value>();
  }

  // ---- Segments ----
  Status cut() {
    const std::vector<dispatch::Segment>& segments = program_->placement_.segments;
    const std::vector<bool> crosses = crossing_values(segments);
    for (const dispatch::Segment& segment : segments) {
      CompiledSegment out;
      out.device = plan_device(segment.device);
      out.owner = plan_->devices[out.device];
      out.by = segment.by;
      out.nodes = segment.nodes;
      const std::span<const Value> late = late_for(out);
      if (segments.size() != 1 || !late.empty() || !dispatch::take_whole(graph(), &out.subgraph)) {
        std::vector<Value> outputs;
        for (Node n : segment.nodes) {
          for (Value v : graph().results(n)) {
            if (crosses[v]) outputs.push_back(v);
          }
        }
        TENON_ASSIGN_OR_RETURN(
            out.subgraph, dispatch::extract(graph(), segment.nodes, outputs, graph().name(), late));
      }
      program_->segments_.push_back(std::move(out));
    }
    return {};
  }

  // Values that a segment without the node that makes them reads, or the program's caller.
  std::vector<bool> crossing_values(std::span<const dispatch::Segment> segments) const {
    std::vector<bool> crosses(graph().value_limit(), false);
    std::vector<uint32_t> last_in(graph().node_limit(), ir::kNone);  // the last segment it is in
    auto read = [&](Value v, uint32_t by) {
      if (v == ir::kNone || graph().value(v).kind != TENON_VALUE_RESULT) return;
      if (by == ir::kNone || last_in[graph().value(v).node] != by) crosses[v] = true;
    };
    for (uint32_t s = 0; s < segments.size(); ++s) {
      for (Node n : segments[s].nodes) last_in[n] = s;
      for (Node n : segments[s].nodes) {
        for (Value v : dispatch::reads_of(graph(), n)) read(v, s);
      }
    }
    for (Value v : graph().region(graph().main()).yields) read(v, ir::kNone);
    for (Value v : dispatch::sizes_yielded(graph())) read(v, ir::kNone);
    return crosses;
  }

  Status compile_segments() {
    std::vector<CompiledSegment>& segments = program_->segments_;
    for (size_t i = 0; i < segments.size(); ++i) {
      TENON_RETURN_IF_ERROR(check_cancelled());
      report_progress("compile", i, segments.size());
      TENON_RETURN_IF_ERROR(compile_segment(&segments[i]), "compiling {} nodes for device {}",
                            segments[i].nodes.size(), plan_->devices[segments[i].device]->name());
    }
    report_progress("compile", segments.size(), segments.size());
    return {};
  }

  // What a device was compiling when it crashed.
  static Result<std::string> save_segment(const void* graph) {
    TENON_ASSIGN_OR_RETURN(const ir::TextForm form,
                           ir::write_text(*static_cast<const Graph*>(graph)));
    TENON_ASSIGN_OR_RETURN(const std::string constants, ir::sidecar_bytes(form));
    return save_reproducer("compile", "// Reproduces a crash in a device\n" + form.text, constants);
  }

  Status compile_segment(CompiledSegment* segment) {
    const std::shared_ptr<runtime::Device>& device = plan_->devices[segment->device];
    const tenon_compile_api_t* api = segment->compiler();
    const dispatch::DeviceOptions options(options_, from_abi_str(device->info().kind));
    std::string bytes;
    const tenon_sink_t sink = sink_into(bytes);
    {
      auto guard = device->serialise();
      clear_failure();
      tenon_artifact_t* artifact =
          nullptr;  // a local: what is stored despite an error is not ours to release
      const Activity activity("the compilation for device", device->name(),
                              reinterpret_cast<const void*>(api->compile), &save_segment,
                              segment->subgraph.graph.get());
      TENON_RETURN_IF_ERROR(
          device->check(api->compile(api->self, device->target(), segment->subgraph.graph->abi(),
                                     options.record(), &artifact),
                        "compile"));
      segment->artifact = artifact;
      if (segment->artifact == nullptr) {
        return error(TENON_INTERNAL, "T0505", "device {} compiled to nothing",
                     quoted(device->name()));
      }
      segment->info.size_bytes = sizeof(segment->info);
      TENON_RETURN_IF_ERROR(device->check(
          api->artifact_info(api->self, segment->artifact, &segment->info), "artifact_info"));
      TENON_RETURN_IF_ERROR(device->check(api->artifact_bytes(api->self, segment->artifact, &sink),
                                          "artifact_bytes"));
    }
    const Graph& sub = *segment->subgraph.graph;
    for (Value v = 0; v < sub.value_limit(); ++v) {
      if (sub.value(v).kind == TENON_VALUE_CONSTANT)
        segment->constants.push_back(sub.value(v).blob->abi());
    }
    for (Value v : segment->subgraph.outputs) segment->output_ranks.push_back(graph().type(v).rank);
    if (options_.for_file || !segment->subgraph.late.empty()) {
      segment->bytes = std::move(bytes);
      if (!options_.for_file) plan_->executables.push_back(nullptr);
      note_late(*segment);
      return {};
    }
    const uint64_t begin = runtime::now_ns();
    auto executable =
        runtime::Executable::load(device, std::as_bytes(std::span(bytes)),
                                  {segment->constants, segment->output_ranks, segment->by});
    program_->load_ms_ += static_cast<double>(runtime::now_ns() - begin) / 1e6;
    if (!executable.ok()) return compile_instead(segment, executable.status());
    plan_->executables.push_back(std::move(*executable));
    return {};
  }

  // A library of kernels may find only here, where it meets the device, that it does not do what
  // was asked for: it is newer than the driver, or has nothing for this architecture. Then the
  // device's own compiler does it.
  Status compile_instead(CompiledSegment* segment, const Status& refusal) {
    const tenon_code_t code = refusal.code();
    if (segment->by == 0 || code == TENON_DEVICE_LOST || code == TENON_CANCELLED) return refusal;
    const runtime::DeviceApis& apis = segment->owner->apis();
    const std::string plugin = apis.compiler_plugin(segment->by);
    log_warning(
        "dispatch",
        "plugin {} takes {} nodes for device {} and does not load them, so the device's own "
        "compiler does: {}",
        plugin, segment->nodes.size(), segment->owner->name(), refusal.text());
    apis.compiler(segment->by)
        ->artifact_release(apis.compiler(segment->by)->self,
                           std::exchange(segment->artifact, nullptr));
    program_->placement_.take_back(static_cast<uint32_t>(segment - program_->segments_.data()),
                                   refusal);
    segment->by = 0;
    segment->info = {};
    segment->constants.clear();
    segment->output_ranks.clear();
    return compile_segment(segment).with_context(
        fmt::format("in place of plugin {}, which said: {}", plugin, refusal.message()));
  }

  void note_late(const CompiledSegment& segment) {
    const auto index = static_cast<uint32_t>(&segment - program_->segments_.data());
    for (const dispatch::Subgraph::Late& late : segment.subgraph.late) {
      const auto at = std::ranges::find(segment.constants, late.blob->abi());
      late_constants_.push_back({index, static_cast<uint32_t>(at - segment.constants.begin()),
                                 graph().value(late.value).index});
    }
  }

  // ---- Plan ----
  Status make_plan() {
    plan_->api = ir::host_graph_table();
    std::vector<runtime::Assertion> assertions;
    for (const ir::DimFact& fact : graph().facts())
      assertions.push_back({fact.rel, fact.a, fact.b, fact.place});
    std::vector<runtime::BoundPlaces> bounds;
    for (ir::Symbol s = 0; s < graph().dims().symbol_count(); ++s) {
      const ir::SymbolData& symbol = graph().dims().symbol(s);
      bounds.push_back({symbol.lo_place, symbol.hi_place, symbol.multiple_place});
    }
    TENON_ASSIGN_OR_RETURN(plan_->shapes,
                           runtime::Shapes::create(*plan_->api, program_->graph_->abi(),
                                                   std::move(assertions), std::move(bounds)));
    likely_ = dispatch::likely_sizes(graph());
    for (uint32_t s = 0; s < program_->segments_.size(); ++s) add_segment(s);
    for (Value v : graph().region(graph().main()).yields) {
      const uint32_t slot = slot_of(v);
      plan_->output_slots.push_back(slot);
      bring(slot, runtime::kHostPlace, v);
    }
    for (uint32_t i = 0; i < plan_->steps.size(); ++i) {
      const runtime::Step& step = plan_->steps[i];
      if (step.kind == runtime::Step::Kind::kCopy) plan_->slots[step.slot].last_step = i;
      for (uint32_t slot : step.inputs) plan_->slots[slot].last_step = i;
      for (uint32_t slot : step.outputs) plan_->slots[slot].last_step = i;
    }
    for (uint32_t slot : plan_->output_slots) plan_->slots[slot].last_step = UINT32_MAX;
    for (tenon_symbol_t s : graph().region(graph().main()).symbols) {
      if (graph().symbol_uses(s) != 0) plan_->needed.push_back(s);
    }
    return {};
  }

  void add_segment(uint32_t index) {
    const CompiledSegment& segment = program_->segments_[index];
    runtime::Step step;
    step.device = segment.device;
    step.executable = index;
    for (Value v : segment.subgraph.inputs) {
      const uint32_t slot = slot_of(v);
      bring(slot, segment.device, v);
      step.inputs.push_back(slot);
    }
    for (Value v : segment.subgraph.outputs) {
      const uint32_t slot = slot_of(v);
      places_[slot].push_back(segment.device);
      step.outputs.push_back(slot);
    }
    step.symbols = segment.subgraph.symbols;
    step.out_symbols = segment.subgraph.out_symbols;
    plan_->steps.push_back(std::move(step));
  }

  uint32_t slot_of(Value v) {
    auto [it, fresh] = slots_.try_emplace(v, static_cast<uint32_t>(plan_->slots.size()));
    if (!fresh) return it->second;
    const ir::ValueData& data = graph().value(v);
    runtime::Slot slot;
    slot.dtype = graph().type(v).dtype;
    slot.dims.assign(graph().type(v).dims, graph().type(v).dims + graph().type(v).rank);
    if (data.kind == TENON_VALUE_ARGUMENT) {
      slot.source = runtime::Slot::Source::kInput;
      slot.input = data.index;
    } else if (data.kind == TENON_VALUE_CONSTANT) {
      slot.source = runtime::Slot::Source::kConstant;
      slot.constant = data.blob->abi();
    }
    plan_->slots.push_back(std::move(slot));
    places_.emplace_back();
    if (data.kind != TENON_VALUE_RESULT) places_.back().push_back(runtime::kHostPlace);
    return it->second;
  }

  // A copy step unless the value is there already.
  void bring(uint32_t slot, uint32_t place, Value v) {
    std::vector<uint32_t>& places = places_[slot];
    if (std::find(places.begin(), places.end(), place) != places.end()) return;
    runtime::Step step;
    step.kind = runtime::Step::Kind::kCopy;
    step.slot = slot;
    step.device = place;
    const uint32_t from = places.front();
    const bool shared = shares_host(from) && shares_host(place);
    const bool between_devices = from != runtime::kHostPlace && place != runtime::kHostPlace;
    if (!shared || between_devices)
      program_->copies_.push_back({v, place_name(from), place_name(place), bytes_of(v)});
    plan_->steps.push_back(std::move(step));
    places.push_back(place);
  }

  bool shares_host(uint32_t place) const {
    return place == runtime::kHostPlace || plan_->devices[place]->host_visible();
  }
  std::string place_name(uint32_t place) const {
    return place == runtime::kHostPlace ? "host" : plan_->devices[place]->name();
  }

  double bytes_of(Value v) const { return dispatch::likely_bytes(graph(), v, likely_); }

  const CompileOptions& options_;
  std::shared_ptr<Program> program_;
  std::shared_ptr<runtime::Plan> plan_;
  std::unordered_map<Value, uint32_t> slots_;
  std::vector<std::vector<uint32_t>> places_;  // by slot: where the value is
  std::vector<int64_t> likely_;
  std::vector<Value> late_;  // arguments, sorted
  std::vector<LateConstant> late_constants_;
};

Result<std::shared_ptr<Program>> Program::compile(const Graph& model,
                                                  const CompileOptions& options) {
  return ProgramBuilder(model, options).run();
}

Program::~Program() {
  for (CompiledSegment& segment : segments_) {
    if (segment.artifact == nullptr || runtime::plugins_shut_down()) continue;
    const tenon_compile_api_t* api = segment.compiler();
    api->artifact_release(api->self, segment.artifact);
  }
}

}  // namespace tenon::session
