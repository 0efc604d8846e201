#include "core/dispatch/kernels/kernel_program.h"

#include <fmt/format.h>

#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <functional>
#include <map>

#include "core/base/cache.h"
#include "core/base/checked.h"
#include "core/base/errors/failure.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/ir/host_graph.h"

namespace tenon::dispatch {

using ir::Graph;
using ir::Node;
using ir::Value;

namespace {

// What the kernels need of the device that they are for.
struct DeviceFacts {
  uint64_t alignment = 1;  // suits every ordinal of the target; alignments are powers of two
  bool free_threads = true;
};

Result<DeviceFacts> facts_of(const KernelsOfPlugin& set, std::string_view target) {
  uint32_t count = 0;
  DeviceFacts facts;
  bool found = false;
  clear_failure();
  TENON_RETURN_IF_ERROR(from_abi(set.device->count(set.device->self, &count), "count"));
  for (uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    auto info = sized<tenon_device_info_t>();
    const Status status = from_abi(set.device->info(set.device->self, ordinal, &info), "info");
    if (!status.ok() || from_abi_str(info.target) != target) continue;
    found = true;
    facts.alignment = std::max(facts.alignment, info.alignment_bytes);
    facts.free_threads = facts.free_threads && info.threading == TENON_THREADING_FREE;
  }
  if (found) return facts;
  return error(TENON_FAILED_PRECONDITION, "T0210", "no device of this machine has the target {}",
               quoted(target));
}

// Bytes that a plugin writes. Its sink may not throw into the plugin.
struct Collected {
  std::string bytes;
  tenon_sink_t sink{&bytes, [](void* self, const void* data, uint64_t size) -> tenon_code_t {
                      try {
                        static_cast<std::string*>(self)->append(static_cast<const char*>(data),
                                                                size);
                        return TENON_OK;
                      } catch (const std::exception&) {
                        return TENON_RESOURCE_EXHAUSTED;
                      }
                    }};
};

constexpr std::string_view kCacheKind = "kernel";

// form: of the artifact's graph, with all its constants.
std::string cache_key(const KernelsOfPlugin& set, const KernelArtifact& artifact,
                      const ir::Digest& form, const KernelCall& call) {
  std::string key =
      fmt::format("{} {} {} {} {} {}\n", set.plugin, set.version, artifact.target,
                  artifact.deterministic, TENON_ABI_VERSION, fmt::join(call.nodes(), ","));
  return key.append(reinterpret_cast<const char*>(&form), sizeof form);
}

}  // namespace

// ---- Loading ----

Result<std::unique_ptr<KernelProgram>> KernelProgram::load(const KernelsOfPlugin& set,
                                                           tenon_device_t* device,
                                                           std::string_view bytes) {
  std::unique_ptr<KernelProgram> p(new KernelProgram(set));
  TENON_ASSIGN_OR_RETURN(const KernelArtifact artifact, KernelArtifact::unpack(bytes));
  TENON_ASSIGN_OR_RETURN(p->graph_, artifact.read_graph());
  TENON_ASSIGN_OR_RETURN(const DeviceFacts facts, facts_of(set, artifact.target));
  p->device_ = device;
  p->alignment_ = facts.alignment;
  p->parts_at_once_ = facts.free_threads;
  p->graph_->freeze();
  if (set.kernels->save != nullptr) {
    TENON_ASSIGN_OR_RETURN(p->form_, ir::form_hash(*p->graph_, UINT64_MAX));
  }
  TENON_ASSIGN_OR_RETURN(p->shapes_,
                         runtime::Shapes::create(*ir::host_graph_table(), p->graph_->abi(), {}));
  std::vector<TakenCall> calls;
  TENON_RETURN_IF_ERROR(p->find_calls(artifact.target, artifact.deterministic, &calls));
  for (const TakenCall& taken : calls)
    TENON_RETURN_IF_ERROR(p->create_kernel(device, artifact, taken));
  TENON_RETURN_IF_ERROR(p->upload_constants(device));
  return p;
}

KernelProgram::~KernelProgram() {
  for (const Launch& launch : launches_) set_.kernels->destroy(set_.kernels->self, launch.kernel);
}

// Longest chains first: a broadcast may come before the anchor whose epilogue it is part of. The
// order of the last nodes is an order in which the calls can run.
Status KernelProgram::find_calls(std::string_view target, bool deterministic,
                                 std::vector<TakenCall>* out) const {
  const Chains chains(*graph_);
  const std::span<const Node> nodes = graph_->nodes(graph_->main());
  // By length, and in order where those are equal.
  std::multimap<size_t, Node, std::greater<>> anchors;
  for (Node n : nodes) anchors.emplace(chains.chain_after(n).size(), n);
  std::vector<bool> taken(graph_->node_limit(), false);
  // A chain that costs more than its nodes one by one is not taken whole.
  const auto is_dear = [&](const TakenCall& chain) {
    double alone = 0;
    for (Node n : chain.nodes) {
      const auto single = query(set_, to_abi_str(target), KernelCall(*graph_, {n}, deterministic));
      if (!single.ok()) return false;
      alone += single->cost_ns;
    }
    return chain.candidate.cost_ns > alone;
  };
  const auto take = [&](Node n, const std::vector<Node>& after) -> Status {
    TENON_ASSIGN_OR_RETURN(
        TakenCall call, query_longest(set_, to_abi_str(target), *graph_, n, after, deterministic));
    if (call.nodes.size() > 1 && is_dear(call)) return {};
    for (Node covered : call.nodes) taken[covered] = true;
    out->push_back(std::move(call));
    return {};
  };
  for (const auto& [length, n] : anchors) {
    if (taken[n]) continue;
    const std::vector<Node> after = chains.chain_after(n, taken);
    if (!after.empty()) (void)take(n, after);  // a set may take single nodes only
  }
  for (Node n : nodes) {
    if (!taken[n]) TENON_RETURN_IF_ERROR(take(n, {}));
  }
  std::vector<size_t> order(graph_->node_limit(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) order[nodes[i]] = i;
  std::sort(out->begin(), out->end(), [&](const TakenCall& a, const TakenCall& b) {
    return order[a.nodes.back()] < order[b.nodes.back()];
  });
  return {};
}

Result<tenon_kernel_t*> KernelProgram::make(tenon_device_t* device, const KernelArtifact& artifact,
                                            const KernelCall& call) const {
  const tenon_kernels_api_t& k = *set_.kernels;
  const bool kept = k.save != nullptr && k.restore != nullptr;
  const std::string key = kept ? cache_key(set_, artifact, form_, call) : "";
  tenon_kernel_t* kernel = nullptr;
  if (kept) {
    const Result<CacheEntry> entry =
        Cache::process().get(kCacheKind, std::as_bytes(std::span(key)));
    clear_failure();
    if (entry.ok() &&
        k.restore(k.self, device, entry->bytes.data(), entry->bytes.size(), &kernel) == TENON_OK &&
        kernel != nullptr)
      return kernel;
    kernel = nullptr;
  }
  clear_failure();
  TENON_RETURN_IF_ERROR(from_abi(k.create(k.self, device, &call.record(), &kernel),
                                 fmt::format("kernels of plugin {}: create", quoted(set_.plugin))));
  if (kernel == nullptr)
    return error(TENON_INTERNAL, "T0612", "plugin {} created no kernel", quoted(set_.plugin));
  if (Collected saved; kept && k.save(k.self, kernel, &saved.sink) == TENON_OK)
    (void)Cache::process().put(kCacheKind, std::as_bytes(std::span(key)),
                               std::as_bytes(std::span(saved.bytes)));
  clear_failure();
  return kernel;
}

Status KernelProgram::create_kernel(tenon_device_t* device, const KernelArtifact& artifact,
                                    const TakenCall& taken) {
  const KernelCall call(*graph_, taken.nodes, artifact.deterministic);
  TENON_ASSIGN_OR_RETURN(tenon_kernel_t* const kernel, make(device, artifact, call));
  Launch& launch = launches_.emplace_back();
  launch.kernel = kernel;
  launch.nodes = taken.nodes;
  launch.operands.assign(call.operands().begin(), call.operands().end());
  launch.part_count = taken.candidate.part_count;
  launch.name = from_abi_str(taken.candidate.name);
  if (launch.name.empty()) launch.name = graph_->op_name(call.anchor());
  launch.workspace_bytes = taken.candidate.workspace_bytes;
  scratch_bytes_ = std::max(scratch_bytes_, launch.workspace_bytes);
  return pack_operands(device, taken.candidate.prepack_mask, &launch);
}

Status KernelProgram::pack_operands(tenon_device_t* device, uint32_t mask, Launch* launch) {
  for (uint32_t i = 0; i < launch->operands.size() && i < 32; ++i) {
    if ((mask >> i & 1) == 0) continue;
    const ir::Ref<ir::Blob>& blob = graph_->value(launch->operands[i]).blob;
    TENON_ASSIGN_OR_RETURN(const void* data, blob->data());
    Collected packed;
    clear_failure();
    TENON_RETURN_IF_ERROR(from_abi(
        set_.kernels->prepack(set_.kernels->self, launch->kernel, i, data, blob->size_bytes(),
                              &packed.sink),
        fmt::format("kernel {} of plugin {}: prepack", quoted(launch->name), quoted(set_.plugin))));
    OwnBuffer buffer(set_.device, device);
    TENON_RETURN_IF_ERROR(
        buffer.fill(packed.bytes.data(), packed.bytes.size(), "a packed constant of a kernel"));
    constant_bytes_ += packed.bytes.size();
    launch->packed.emplace(i, std::move(buffer));
  }
  return {};
}

Status KernelProgram::upload_constants(tenon_device_t* device) {
  for (const Launch& launch : launches_) {
    for (size_t i = 0; i < launch.operands.size(); ++i) {
      const Value v = launch.operands[i];
      if (v == ir::kNone || graph_->value(v).kind != TENON_VALUE_CONSTANT ||
          launch.packed.contains(i) || constants_.contains(v))
        continue;
      TENON_ASSIGN_OR_RETURN(const void* data, graph_->value(v).blob->data());
      const uint64_t bytes = graph_->value(v).blob->size_bytes();
      OwnBuffer buffer(set_.device, device);
      TENON_RETURN_IF_ERROR(buffer.fill(data, bytes, "a constant on a device of kernels"));
      constant_bytes_ += bytes;
      constants_.emplace(v, std::move(buffer));
    }
  }
  return {};
}

// ---- Memory ----

void KernelProgram::info(tenon_executable_info_t* out) const {
  *out = {sizeof(*out), static_cast<uint32_t>(launches_.size()), constant_bytes_};
}

Status KernelProgram::needs(std::span<const int64_t> symbols, tenon_needs_t* out) const {
  std::vector<uint64_t> offsets;
  uint64_t scratch = 0;
  TENON_RETURN_IF_ERROR(layout(symbols, &offsets, &scratch, &out->workspace_bytes));
  out->lower_bound_bytes = out->workspace_bytes;
  for (uint32_t i = 0; i < out->output_count; ++i) {
    std::vector<int64_t> dims;
    TENON_RETURN_IF_ERROR(dims_of(shapes_.outputs()[i].value, symbols, &dims));
    TENON_RETURN_IF_ERROR(
        bytes_of(shapes_.outputs()[i].value, dims, &tenon_need(out, i)->size_bytes_max));
    std::copy(dims.begin(), dims.end(), tenon_need(out, i)->dims);
    tenon_need(out, i)->alias_input = TENON_NO_ALIAS;
  }
  return {};
}

Status KernelProgram::dims_of(Value v, std::span<const int64_t> symbols,
                              std::vector<int64_t>* out) const {
  const tenon_type_t& type = graph_->type(v);
  // Symbols of the main region, at their index in the graph.
  std::vector<int64_t> values(graph_->dims().symbol_count(), 0);
  const std::vector<ir::Symbol>& main = graph_->region(graph_->main()).symbols;
  for (size_t i = 0; i < main.size() && i < symbols.size(); ++i) values[main[i]] = symbols[i];
  return shapes_.evaluate({type.dims, type.rank}, values, out);
}

Status KernelProgram::bytes_of(Value v, std::span<const int64_t> dims, uint64_t* out) const {
  TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count(dims));
  TENON_ASSIGN_OR_RETURN(*out, packed_bytes(count, ir::dtype_bits(graph_->type(v).dtype)));
  return {};
}

bool KernelProgram::is_output(Value v) const {
  return std::any_of(shapes_.outputs().begin(), shapes_.outputs().end(),
                     [v](const runtime::Port& port) { return port.value == v; });
}

Status KernelProgram::layout(std::span<const int64_t> symbols, std::vector<uint64_t>* offsets,
                             uint64_t* scratch, uint64_t* total) const {
  const auto grow = [&](uint64_t bytes) -> Status {
    uint64_t end = 0;
    if (checked_add(*total, bytes, &end) && checked_align_up(end, alignment_, total)) return {};
    return error(TENON_RESOURCE_EXHAUSTED, "T0110", "the workspace does not fit in 64 bits");
  };
  offsets->assign(graph_->value_limit(), UINT64_MAX);
  *total = 0;
  for (const Launch& launch : launches_) {
    for (Value v : graph_->results(launch.nodes.back())) {
      if (is_output(v)) continue;
      std::vector<int64_t> dims;
      uint64_t bytes = 0;
      TENON_RETURN_IF_ERROR(dims_of(v, symbols, &dims));
      TENON_RETURN_IF_ERROR(bytes_of(v, dims, &bytes));
      (*offsets)[v] = *total;
      // A value without elements has a place, too: a workspace without bytes would be none.
      TENON_RETURN_IF_ERROR(grow(std::max<uint64_t>(bytes, 1)));
    }
  }
  *scratch = *total;
  return grow(scratch_bytes_);
}

Status KernelProgram::places_of(const tenon_call_t& call, Places* places, uint64_t* scratch) const {
  std::vector<uint64_t> offsets;
  uint64_t workspace = 0;
  TENON_RETURN_IF_ERROR(
      layout({call.symbols.values, call.symbols.count}, &offsets, scratch, &workspace));
  *scratch += call.workspace_offset_bytes;
  for (uint32_t i = 0; i < call.input_count; ++i)
    (*places)[shapes_.inputs()[i].value] = *tenon_call_input(&call, i);
  for (const auto& [v, buffer] : constants_) (*places)[v] = {buffer.handle(), 0};
  for (Value v = 0; v < offsets.size(); ++v) {
    if (offsets[v] != UINT64_MAX)
      (*places)[v] = {call.workspace, call.workspace_offset_bytes + offsets[v]};
  }
  for (uint32_t i = 0; i < call.output_count; ++i)
    (*places)[shapes_.outputs()[i].value] = *tenon_call_output(&call, i);
  return {};
}

}  // namespace tenon::dispatch
