#include "core/dispatch/kernel_device.h"

#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/base/checked.h"
#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/process/memory.h"
#include "core/base/process/operation.h"
#include "core/base/record.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/ir/graph.h"
#include "core/ir/host_graph.h"
#include "core/ir/serial/serial.h"
#include "core/runtime/shapes.h"
#include "core/runtime/trace.h"

namespace tenon::dispatch {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

struct Adapter {
  const tenon_device_api_t* device;
  const tenon_kernels_api_t* kernels;
  std::string plugin;
  SuitsOp suits;
  tenon_compile_api_t table;
};

// One node as a kernel set sees it: no epilogue, so that every set can take part.
struct Call {
  std::vector<tenon_kernel_operand_t> operands;
  std::vector<tenon_type_t> results;
  tenon_kernel_call_t record{};

  Call(const Graph& graph, Node n) {
    for (Value v : graph.operands(n)) {
      tenon_kernel_operand_t operand{};
      if (v != ir::kNone) {
        operand.type = graph.type(v);
        operand.constant = graph.value(v).kind == TENON_VALUE_CONSTANT ? 1 : 0;
      }
      operands.push_back(operand);
    }
    for (Value v : graph.results(n)) results.push_back(graph.type(v));
    record.size_bytes = sizeof(record);
    record.anchor = n;
    record.graph = const_cast<Graph&>(graph).abi();
    record.operand_count = static_cast<uint32_t>(operands.size());
    record.result_count = static_cast<uint32_t>(results.size());
    record.operands = operands.data();
    record.results = results.data();
  }
  Call(const Call&) = delete;
};

struct Artifact {
  std::string bytes;  // written by pack()
};

// The graph in binary form, the target that its kernels were queried for, and the target's length.
// The target is stored because the ordinals of a plugin may differ, and an open device does not say
// which ordinal it has.
struct Packed {
  std::string_view graph, target;
};
using TargetLength = uint32_t;

Result<std::string> pack(std::string graph, std::string_view target) {
  if (target.size() > UINT32_MAX)
    return error(TENON_INVALID_ARGUMENT, "T0210", "a target of {} bytes", target.size());
  const auto length = static_cast<TargetLength>(target.size());
  graph.append(target);
  for (size_t i = 0; i < sizeof length; ++i) graph.push_back(static_cast<char>(length >> (8 * i)));
  return graph;
}

Result<Packed> unpack(std::string_view bytes) {
  TargetLength length = 0;
  if (bytes.size() >= sizeof length) {
    const std::string_view tail = bytes.substr(bytes.size() - sizeof length);
    for (size_t i = 0; i < sizeof length; ++i)
      length |= TargetLength{static_cast<unsigned char>(tail[i])} << (8 * i);
    bytes.remove_suffix(sizeof length);
    if (length <= bytes.size())
      return Packed{bytes.substr(0, bytes.size() - length), bytes.substr(bytes.size() - length)};
  }
  return error(TENON_FAILED_PRECONDITION, "T0210",
               "an artifact of kernels is damaged: its target is not in it");
}

Result<ir::Ref<Graph>> graph_of(std::string_view bytes) {
  TENON_ASSIGN_OR_RETURN(ir::Ref<ir::Blob> blob, ir::blob_bytes(std::as_bytes(std::span(bytes))));
  return ir::read_graph(std::move(blob), "an artifact", {});
}

// An alignment that suits every ordinal of the target; alignments are powers of two.
Result<uint64_t> alignment_of(const Adapter& adapter, std::string_view target) {
  uint32_t count = 0;
  uint64_t alignment = 1;
  bool found = false;
  clear_failure();
  TENON_RETURN_IF_ERROR(from_abi(adapter.device->count(adapter.device->self, &count), "count"));
  for (uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    auto info = sized<tenon_device_info_t>();
    const Status status =
        from_abi(adapter.device->info(adapter.device->self, ordinal, &info), "info");
    if (!status.ok() || from_abi_str(info.target) != target) continue;
    found = true;
    alignment = std::max(alignment, info.alignment_bytes);
  }
  if (found) return alignment;
  return error(TENON_FAILED_PRECONDITION, "T0210", "no device of this machine has the target {}",
               quoted(target));
}

Result<tenon_kernel_candidate_t> query(const Adapter& adapter, tenon_str_t target,
                                       const Call& call) {
  const ir::NodeData& node = Graph::from(call.record.graph)->node(call.record.anchor);
  if (adapter.suits && !adapter.suits(node.op, node.op_version)) {
    return error(TENON_UNIMPLEMENTED, "T0512",
                 "the kernels of plugin {} came with another definition of {} than version {}",
                 quoted(adapter.plugin), printable(sym_text(node.op)), node.op_version);
  }
  auto candidate = sized<tenon_kernel_candidate_t>();
  candidate.part_count = 1;
  clear_failure();
  TENON_RETURN_IF_ERROR(
      from_abi(adapter.kernels->query(adapter.kernels->self, target, &call.record, &candidate),
               fmt::format("kernels of plugin {}", quoted(adapter.plugin))));
  if (candidate.prepack_mask != 0 || candidate.epilogue_taken != 0) {
    // Running it anyway would give it operands in a layout that it does not read.
    return error(TENON_UNIMPLEMENTED, "T0512",
                 "kernels of plugin {} want packed operands (mask {:#x}) or an epilogue ({} "
                 "nodes), and single kernels get neither",
                 quoted(adapter.plugin), candidate.prepack_mask, candidate.epilogue_taken);
  }
  return candidate;
}

// ---- Executable ----

// Device memory that the adapter owns: constants and the kernels' workspace.
class OwnBuffer {
 public:
  OwnBuffer(const tenon_device_api_t* api, tenon_device_t* device) : api_(api), device_(device) {}
  OwnBuffer(OwnBuffer&& o) noexcept
      : api_(o.api_),
        device_(o.device_),
        counted_bytes_(std::exchange(o.counted_bytes_, 0)),
        handle(std::exchange(o.handle, nullptr)) {}
  ~OwnBuffer() {
    if (handle != nullptr) (void)api_->free(api_->self, device_, handle);
    memory_return(counted_bytes_);
  }
  // T0609 if TENON_MEMORY_LIMIT has no room: `what` names the buffer.
  Status allocate(uint64_t bytes, std::string_view what) {
    TENON_RETURN_IF_ERROR(memory_reserve(bytes, what));
    counted_bytes_ = bytes;
    tenon_buffer_t* made = nullptr;  // a local: a handle stored beside an error is not ours
    TENON_RETURN_IF_ERROR(from_abi(api_->alloc(api_->self, device_, bytes, &made), "alloc"));
    if (made == nullptr)
      return error(TENON_INTERNAL, "T0612", "the device gave no buffer for {} bytes", bytes);
    handle = made;
    return {};
  }
  Status upload(const void* data, uint64_t bytes) {
    if (bytes == 0) return {};
    auto copy = sized<tenon_copy_t>();
    copy.direction = TENON_COPY_HOST_TO_DEVICE;
    copy.to = handle;
    copy.length_bytes = bytes;
    copy.host_from = data;
    return from_abi(api_->copy(api_->self, device_, &copy), "copy");
  }

 private:
  const tenon_device_api_t* api_;
  tenon_device_t* device_;
  uint64_t counted_bytes_ = 0;

 public:
  tenon_buffer_t* handle = nullptr;
};

class KernelProgram {
 public:
  static Result<std::unique_ptr<KernelProgram>> load(const Adapter& adapter, tenon_device_t* device,
                                                     std::string_view bytes) {
    std::unique_ptr<KernelProgram> p(new KernelProgram(adapter));
    TENON_ASSIGN_OR_RETURN(const Packed packed, unpack(bytes));
    TENON_ASSIGN_OR_RETURN(p->graph_, graph_of(packed.graph));
    TENON_ASSIGN_OR_RETURN(p->alignment_, alignment_of(adapter, packed.target));
    p->graph_->freeze();
    TENON_ASSIGN_OR_RETURN(p->shapes_,
                           runtime::Shapes::create(*ir::host_graph_table(), p->graph_->abi(), {}));
    for (Value v = 0; v < p->graph_->value_limit(); ++v)
      TENON_RETURN_IF_ERROR(p->upload_constant(device, v));
    for (Node n : p->graph_->nodes(p->graph_->main())) {
      TENON_RETURN_IF_ERROR(p->create_kernel(device, packed.target, n));
    }
    p->workspace_.emplace_back(adapter.device, device);
    if (p->workspace_bytes_ != 0)
      TENON_RETURN_IF_ERROR(
          p->workspace_[0].allocate(p->workspace_bytes_, "the workspace of a kernel"));
    return p;
  }
  ~KernelProgram() {
    for (const Launch& launch : launches_)
      adapter_.kernels->destroy(adapter_.kernels->self, launch.kernel);
  }

  void info(tenon_executable_info_t* out) const {
    *out = {sizeof(*out), static_cast<uint32_t>(launches_.size()), constant_bytes_};
  }

  Status needs(std::span<const int64_t> symbols, tenon_needs_t* out) const {
    std::vector<uint64_t> offsets;
    TENON_RETURN_IF_ERROR(layout(symbols, &offsets, &out->workspace_bytes));
    out->lower_bound_bytes = out->workspace_bytes;
    for (uint32_t i = 0; i < out->output_count; ++i) {
      std::vector<int64_t> dims;
      TENON_RETURN_IF_ERROR(dims_of(shapes_.outputs()[i].value, symbols, &dims));
      TENON_RETURN_IF_ERROR(
          bytes_of(shapes_.outputs()[i].value, dims, &out->outputs[i].size_bytes_max));
      std::copy(dims.begin(), dims.end(), out->outputs[i].dims);
      out->outputs[i].alias_input = TENON_NO_ALIAS;
    }
    return {};
  }

  Status execute(const tenon_call_t& call) {
    const std::span<const int64_t> symbols(call.symbols.values, call.symbols.count);
    std::vector<uint64_t> offsets;
    uint64_t workspace = 0;
    TENON_RETURN_IF_ERROR(layout(symbols, &offsets, &workspace));
    std::unordered_map<Value, tenon_span_t> places;
    for (uint32_t i = 0; i < call.input_count; ++i)
      places[shapes_.inputs()[i].value] = call.inputs[i];
    for (const auto& [v, buffer] : constants_) places[v] = {buffer.handle, 0};
    for (Value v = 0; v < offsets.size(); ++v) {
      if (offsets[v] != UINT64_MAX)
        places[v] = {call.workspace.buffer, call.workspace.offset_bytes + offsets[v]};
    }
    for (uint32_t i = 0; i < call.output_count; ++i)
      places[shapes_.outputs()[i].value] = call.outputs[i];
    // The kernels' workspace is one buffer per executable.
    std::lock_guard lock(mutex_);
    for (const Launch& launch : launches_) {
      TENON_RETURN_IF_ERROR(check_cancelled());
      TENON_RETURN_IF_ERROR(run(launch, symbols, places, call.profile));
    }
    return {};
  }

 private:
  struct Launch {
    Node node;
    tenon_kernel_t* kernel;
    uint32_t part_count;
    std::string name;
  };
  explicit KernelProgram(const Adapter& adapter) : adapter_(adapter) {}

  Status dims_of(Value v, std::span<const int64_t> symbols, std::vector<int64_t>* out) const {
    const tenon_type_t& type = graph_->type(v);
    // Symbols of the main region, at their index in the graph.
    std::vector<int64_t> values(graph_->dims().symbol_count(), 0);
    const std::vector<ir::Symbol>& main = graph_->region(graph_->main()).symbols;
    for (size_t i = 0; i < main.size() && i < symbols.size(); ++i) values[main[i]] = symbols[i];
    return shapes_.evaluate({type.dims, type.rank}, values, out);
  }
  Status bytes_of(Value v, std::span<const int64_t> dims, uint64_t* out) const {
    TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count(dims));
    TENON_ASSIGN_OR_RETURN(*out, packed_bytes(count, ir::dtype_bits(graph_->type(v).dtype)));
    return {};
  }

  // Offsets of the values kept in the workspace, one after the other; UINT64_MAX for other values.
  Status layout(std::span<const int64_t> symbols, std::vector<uint64_t>* offsets,
                uint64_t* total) const {
    offsets->assign(graph_->value_limit(), UINT64_MAX);
    *total = 0;
    for (const Launch& launch : launches_) {
      for (Value v : graph_->results(launch.node)) {
        const bool output = std::any_of(shapes_.outputs().begin(), shapes_.outputs().end(),
                                        [v](const runtime::Port& port) { return port.value == v; });
        if (output) continue;
        std::vector<int64_t> dims;
        uint64_t bytes = 0, end = 0;
        TENON_RETURN_IF_ERROR(dims_of(v, symbols, &dims));
        TENON_RETURN_IF_ERROR(bytes_of(v, dims, &bytes));
        (*offsets)[v] = *total;
        if (!checked_add(*total, bytes, &end) || !checked_align_up(end, alignment_, total)) {
          return error(TENON_RESOURCE_EXHAUSTED, "T0110", "the workspace does not fit in 64 bits");
        }
      }
    }
    return {};
  }

  Status upload_constant(tenon_device_t* device, Value v) {
    if (graph_->value(v).kind != TENON_VALUE_CONSTANT) return {};
    TENON_ASSIGN_OR_RETURN(const void* data, graph_->value(v).blob->data());
    const uint64_t bytes = graph_->value(v).blob->size_bytes();
    OwnBuffer buffer(adapter_.device, device);
    TENON_RETURN_IF_ERROR(buffer.allocate(bytes, "a constant on a device of kernels"));
    TENON_RETURN_IF_ERROR(buffer.upload(data, bytes));
    constant_bytes_ += bytes;
    constants_.emplace(v, std::move(buffer));
    return {};
  }

  Status create_kernel(tenon_device_t* device, std::string_view target, Node n) {
    const Call call(*graph_, n);
    TENON_ASSIGN_OR_RETURN(const tenon_kernel_candidate_t candidate,
                           query(adapter_, to_abi_str(target), call));
    tenon_kernel_t* kernel = nullptr;
    clear_failure();
    TENON_RETURN_IF_ERROR(
        from_abi(adapter_.kernels->create(adapter_.kernels->self, device, &call.record, &kernel),
                 fmt::format("kernels of plugin {}: create", quoted(adapter_.plugin))));
    if (kernel == nullptr)
      return error(TENON_INTERNAL, "T0612", "plugin {} created no kernel", quoted(adapter_.plugin));
    std::string name(from_abi_str(candidate.name));
    launches_.push_back({n, kernel, std::max(candidate.part_count, 1u),
                         name.empty() ? std::string(graph_->op_name(n)) : name});
    workspace_bytes_ = std::max(workspace_bytes_, candidate.workspace_bytes);
    return {};
  }

  // Buffers, offsets and dims of one side of a call.
  struct Side {
    std::vector<tenon_buffer_t*> buffers;
    std::vector<uint64_t> offsets;
    std::vector<std::vector<int64_t>> dims;
    std::vector<const int64_t*> dim_pointers;
  };
  Status gather(std::span<const Value> values, std::span<const int64_t> symbols,
                const std::unordered_map<Value, tenon_span_t>& places, Side* out) const {
    for (Value v : values) {
      const auto it = v == ir::kNone ? places.end() : places.find(v);
      out->buffers.push_back(it == places.end() ? nullptr : it->second.buffer);
      out->offsets.push_back(it == places.end() ? 0 : it->second.offset_bytes);
      out->dims.emplace_back();
      if (v != ir::kNone) TENON_RETURN_IF_ERROR(dims_of(v, symbols, &out->dims.back()));
    }
    for (const auto& dims : out->dims) out->dim_pointers.push_back(dims.data());
    return {};
  }

  Status run(const Launch& launch, std::span<const int64_t> symbols,
             const std::unordered_map<Value, tenon_span_t>& places,
             const tenon_profile_sink_t* profile) const {
    Side in, out;
    TENON_RETURN_IF_ERROR(gather(graph_->operands(launch.node), symbols, places, &in));
    TENON_RETURN_IF_ERROR(gather(graph_->results(launch.node), symbols, places, &out));
    auto args = sized<tenon_kernel_args_t>();
    args.input_count = static_cast<uint32_t>(in.buffers.size());
    args.output_count = static_cast<uint32_t>(out.buffers.size());
    args.part_count = launch.part_count;
    args.inputs = in.buffers.data();
    args.outputs = out.buffers.data();
    args.input_offsets_bytes = in.offsets.data();
    args.output_offsets_bytes = out.offsets.data();
    args.input_dims = in.dim_pointers.data();
    args.output_dims = out.dim_pointers.data();
    args.workspace = workspace_[0].handle;
    const uint64_t begin = profile != nullptr ? runtime::now_ns() : 0;
    for (args.part_index = 0; args.part_index < args.part_count; ++args.part_index) {
      clear_failure();
      TENON_RETURN_IF_ERROR(from_abi(
          adapter_.kernels->run(adapter_.kernels->self, launch.kernel, &args),
          fmt::format("kernel {} of plugin {}", quoted(launch.name), quoted(adapter_.plugin))));
    }
    if (profile != nullptr) {
      const std::string origins =
          graph_->node(launch.node).loc == 0 ? "" : graph_->loc_text(graph_->node(launch.node).loc);
      profile->event(profile->self, to_abi_str(launch.name), to_abi_str(origins), begin,
                     runtime::now_ns(), 0, 0, 0);
    }
    return {};
  }

  const Adapter& adapter_;
  ir::Ref<Graph> graph_;
  runtime::Shapes shapes_;
  std::unordered_map<Value, OwnBuffer> constants_;
  std::vector<Launch> launches_;
  std::vector<OwnBuffer> workspace_;
  uint64_t workspace_bytes_ = 0, constant_bytes_ = 0, alignment_ = 1;
  std::mutex mutex_;
};

// ---- The table ----

const Adapter& of(void* self) {
  return *static_cast<const Adapter*>(self);
}
KernelProgram& program(tenon_executable_t* e) {
  return *reinterpret_cast<KernelProgram*>(e);
}

tenon_code_t claim(void* self, tenon_str_t target, tenon_graph_t* handle,
                   const tenon_compile_options_t*, const tenon_claim_sink_t* sink) {
  const Graph& graph = *Graph::from(handle);
  for (Node n : graph.nodes(graph.main())) {
    tenon_code_t code;
    if (!graph.regions(n).empty() || !graph.symbols(n).empty()) {
      const std::string reason =
          fmt::format("{} has regions or data-dependent dims, which single kernels do not take",
                      printable(graph.op_name(n)));
      code = sink->refuse(sink->self, n, TENON_UNIMPLEMENTED, to_abi_str(reason));
    } else if (auto candidate = query(of(self), target, Call(graph, n)); candidate.ok()) {
      code = tenon_claim_node(sink, n, candidate->cost_ns);
    } else {
      const std::string reason(candidate.status().message());
      code = sink->refuse(sink->self, n, candidate.status().code(), to_abi_str(reason));
    }
    if (code != TENON_OK) return code;
  }
  return TENON_OK;
}

tenon_code_t compile(void*, tenon_str_t target, tenon_graph_t* graph,
                     const tenon_compile_options_t* options, tenon_artifact_t** out) {
  for (uint32_t i = 0; options != nullptr && i < options->option_count; ++i) {
    const std::string_view key = from_abi_str(options->options[i].key);
    if (key.ends_with(".ops")) continue;  // handled by the host: which ops the device is offered
    return to_abi(error(TENON_INVALID_ARGUMENT, "T0513",
                        "a device of single kernels has no options; it was given {}", quoted(key)));
  }
  Result<std::string> bytes = ir::write_binary(*Graph::from(graph));
  if (bytes.ok()) bytes = pack(std::move(*bytes), from_abi_str(target));
  if (!bytes.ok()) return to_abi(bytes.status());
  *out = reinterpret_cast<tenon_artifact_t*>(new Artifact{std::move(*bytes)});
  return TENON_OK;
}
void artifact_release(void*, tenon_artifact_t* artifact) {
  delete reinterpret_cast<Artifact*>(artifact);
}
tenon_code_t artifact_info(void*, tenon_artifact_t*, tenon_artifact_info_t*) {
  return TENON_OK;
}  // compiles nothing
tenon_code_t artifact_bytes(void*, tenon_artifact_t* artifact, const tenon_sink_t* sink) {
  const std::string& bytes = reinterpret_cast<Artifact*>(artifact)->bytes;
  return sink->write(sink->self, bytes.data(), bytes.size());
}
tenon_code_t fits(void*, tenon_str_t target, const void* data, uint64_t size) {
  const Result<Packed> packed = unpack({static_cast<const char*>(data), size});
  if (!packed.ok()) return to_abi(packed.status());
  if (packed->target != from_abi_str(target)) {
    return to_abi(error(TENON_FAILED_PRECONDITION, "T0210",
                        "it is for the target {}, and this is {}", quoted(packed->target),
                        quoted(from_abi_str(target))));
  }
  const Result<ir::Ref<Graph>> graph = graph_of(packed->graph);
  return graph.ok()
             ? TENON_OK
             : to_abi(error(TENON_FAILED_PRECONDITION, "T0210", "{}", graph.status().message()));
}
tenon_code_t load(void* self, tenon_device_t* device, const void* bytes, uint64_t size,
                  tenon_blob_t* const*, uint32_t, tenon_executable_t** out) {
  auto loaded = KernelProgram::load(of(self), device, {static_cast<const char*>(bytes), size});
  if (!loaded.ok()) return to_abi(loaded.status());
  *out = reinterpret_cast<tenon_executable_t*>(loaded->release());
  return TENON_OK;
}
void executable_release(void*, tenon_executable_t* e) {
  delete &program(e);
}
tenon_code_t executable_info(void*, tenon_executable_t* e, tenon_executable_info_t* out) {
  tenon_executable_info_t full{};
  program(e).info(&full);
  return to_abi(give_record(out, full));
}
tenon_code_t needs(void*, tenon_executable_t* e, tenon_symbols_t symbols, tenon_needs_t* out) {
  return to_abi(fill_record(out, [&](tenon_needs_t* full) {
    return program(e).needs({symbols.values, symbols.count}, full);
  }));
}
tenon_code_t execute(void*, tenon_executable_t* e, const tenon_call_t* call) {
  return to_abi(program(e).execute(*call));
}

}  // namespace

const tenon_compile_api_t* compile_from_kernels(const tenon_device_api_t* device,
                                                const tenon_kernels_api_t* kernels,
                                                std::string_view plugin, SuitsOp suits) {
  // One per kernel set, never freed: tables live as long as the process.
  auto* adapter = new Adapter{device, kernels, std::string(plugin), std::move(suits), {}};
  adapter->table = tenon_compile_api_t{sizeof(tenon_compile_api_t),
                                       adapter,
                                       claim,
                                       compile,
                                       artifact_release,
                                       artifact_info,
                                       artifact_bytes,
                                       fits,
                                       load,
                                       executable_release,
                                       executable_info,
                                       needs,
                                       execute,
                                       nullptr,
                                       nullptr,
                                       nullptr};
  return &adapter->table;
}

}  // namespace tenon::dispatch
