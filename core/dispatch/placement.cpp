#include "core/dispatch/placement.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/base/checked.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"

namespace tenon::dispatch {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::Value;

namespace {

constexpr size_t kNodesInError = 20;

// The value that carries a symbol of another node: a result of that node with the symbol in its
// type.
void add_definition(const Graph& graph, ir::Symbol symbol, Node reader, std::vector<Value>* out) {
  const Node maker = graph.dims().symbol(symbol).node;
  if (maker == ir::kNone || maker == reader || !graph.node_live(maker) ||
      graph.node(maker).parent != graph.main())
    return;
  for (Value v : graph.results(maker)) {
    std::vector<ir::Symbol> mentioned;
    const tenon_type_t& type = graph.type(v);
    for (uint32_t d = 0; d < type.rank; ++d) graph.dims().symbols_of(type.dims[d], &mentioned);
    if (std::find(mentioned.begin(), mentioned.end(), symbol) == mentioned.end()) continue;
    out->push_back(v);
    return;
  }
}

void add_symbols_of(const Graph& graph, const tenon_type_t& type, std::vector<ir::Symbol>* out) {
  for (uint32_t d = 0; d < type.rank; ++d) {
    if (type.dims[d] < 0) graph.dims().symbols_of(type.dims[d], out);
  }
}

// The symbols that a node and its regions mention.
void add_symbols_of(const Graph& graph, Node n, std::vector<ir::Symbol>* out) {
  for (Value v : graph.operands(n)) {
    if (v != ir::kNone) add_symbols_of(graph, graph.type(v), out);
  }
  for (Value v : graph.results(n)) add_symbols_of(graph, graph.type(v), out);
  for (const tenon_attr_t& a : graph.attrs(n)) {
    for (uint64_t d = 0; a.kind == TENON_ATTR_DIMS && d < a.count; ++d) {
      if (a.u.dims[d] < 0) graph.dims().symbols_of(a.u.dims[d], out);
    }
    for (uint64_t t = 0; a.kind == TENON_ATTR_TYPES && t < a.count; ++t)
      add_symbols_of(graph, a.u.types[t], out);
  }
  for (ir::Region r : graph.regions(n)) {
    for (Node inner : graph.nodes(r)) add_symbols_of(graph, inner, out);
  }
}

std::vector<Value> definitions(const Graph& graph, std::vector<ir::Symbol> symbols, Node reader) {
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  std::vector<Value> out;
  for (ir::Symbol s : symbols) add_definition(graph, s, reader, &out);
  return out;
}

// The values that a node reads, region captures included, constants excluded.
std::vector<Value> reads_of(const Graph& graph, Node n) {
  std::vector<Value> reads;
  auto add = [&](Value v) {
    if (v != ir::kNone && graph.value(v).kind != TENON_VALUE_CONSTANT) reads.push_back(v);
  };
  for (Value v : graph.operands(n)) add(v);
  for (ir::Region r : graph.regions(n)) {
    for (Value v : graph.captures(r)) add(v);
  }
  for (Value v : sizes_read(graph, n)) add(v);
  std::sort(reads.begin(), reads.end());
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  return reads;
}

bool complete(const Graph& graph, const Placement& placement) {
  for (Node n : graph.nodes(graph.main())) {
    const bool taken = std::any_of(placement.asked.begin(), placement.asked.end(),
                                   [n](const Claims& c) { return c.claimed(n); });
    if (!taken) return false;
  }
  return true;
}

std::string refusals_text(const Placement& placement, Node n) {
  std::string text;
  for (const Claims& claims : placement.asked) {
    if (claims.claimed(n)) continue;
    text += fmt::format("\n    {}: {}", claims.device->name(), claims.refusals[n].reason);
  }
  return text;
}

Status nobody_takes(const Graph& graph, const Placement& placement) {
  std::string text;
  size_t count = 0;
  for (Node n : graph.nodes(graph.main())) {
    const bool taken = std::any_of(placement.asked.begin(), placement.asked.end(),
                                   [n](const Claims& c) { return c.claimed(n); });
    if (taken || ++count > kNodesInError) continue;
    text += "\n  " + node_text(graph, n) + refusals_text(placement, n);
  }
  if (count > kNodesInError) text += fmt::format("\n  and {} more", count - kNodesInError);
  std::string asked;
  for (const Claims& claims : placement.asked)
    asked += (asked.empty() ? "" : ", ") + claims.device->name();
  for (const std::string& reason : placement.unavailable) text += "\n  not asked: " + reason;
  return error(TENON_UNIMPLEMENTED, "T0501", "no device takes {} of {} nodes (asked: {}):{}", count,
               graph.nodes(graph.main()).size(), asked.empty() ? "none" : asked, text);
}

Status fallback_forbidden(const Graph& graph, const Placement& placement, size_t named) {
  std::string text, names;
  size_t count = 0;
  for (Node n : graph.nodes(graph.main())) {
    if (placement.at[n] < named || ++count > kNodesInError) continue;
    text += "\n  " + node_text(graph, n) + refusals_text(placement, n);
  }
  for (size_t d = 0; d < named; ++d)
    names += (d == 0 ? "" : ", ") + placement.asked[d].device->name();
  return error(TENON_FAILED_PRECONDITION, "T0504",
               "{} of {} nodes are not taken by {}, and falling back is forbidden:{}", count,
               graph.nodes(graph.main()).size(), names, text);
}

// Falls back one device at a time, so that unneeded devices are not loaded.
Status ask_fallbacks(const runtime::GraphRef& graph, const Candidates& candidates,
                     Placement* placement) {
  const Graph& g = *Graph::from(graph.get());
  for (const auto& [name, find] : candidates.fallbacks) {
    if (complete(g, *placement)) return {};
    const std::string& wanted = name;
    const bool asked = std::any_of(placement->asked.begin(), placement->asked.end(),
                                   [&](const Claims& c) { return c.device->name() == wanted; });
    if (asked) continue;
    Result<std::shared_ptr<runtime::Device>> device = find();
    if (device.ok()) {
      placement->asked.push_back(collect_claims(*device, graph));
    } else {
      placement->unavailable.push_back(name + ": " + device.status().text());
    }
  }
  return complete(g, *placement) ? Status() : nobody_takes(g, *placement);
}

// Segments by device and by its compiler: another plugin's kernels are executables of their own.
std::vector<Segment> segments_of(const PartitionProblem& problem, std::span<const Node> nodes,
                                 std::span<const uint32_t> at, std::span<const Claims> asked) {
  const auto devices = static_cast<uint32_t>(asked.size());
  std::vector<uint32_t> makers(at.begin(), at.end());
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] != kUnplaced) makers[i] += devices * asked[at[i]].by[nodes[i]];
  }
  std::vector<Segment> segments = make_segments(problem, makers);
  for (Segment& segment : segments) {
    segment.by = segment.device / devices;
    segment.device %= devices;
    for (uint32_t& n : segment.nodes) n = nodes[n];
  }
  return segments;
}

}  // namespace

std::vector<Value> sizes_read(const Graph& graph, Node n) {
  std::vector<ir::Symbol> symbols;
  add_symbols_of(graph, n, &symbols);
  return definitions(graph, std::move(symbols), n);
}

std::vector<Value> sizes_yielded(const Graph& graph) {
  std::vector<ir::Symbol> symbols;
  for (Value v : graph.region(graph.main()).yields) add_symbols_of(graph, graph.type(v), &symbols);
  return definitions(graph, std::move(symbols), ir::kNone);
}

double likely_bytes(const Graph& graph, Value v, std::span<const int64_t> likely) {
  const tenon_type_t& type = graph.type(v);
  if (type.kind != TENON_KIND_TENSOR) return 0;
  double bytes = ir::dtype_bits(type.dtype) / 8.0;
  for (uint32_t i = 0; i < type.rank; ++i) {
    int64_t dim = type.dims[i];
    if (dim < 0 && (!graph.dims().evaluate(type.dims[i], likely, &dim).ok() || dim < 0)) dim = 1;
    bytes *= static_cast<double>(dim);
  }
  return bytes;
}

std::vector<int64_t> likely_sizes(const Graph& graph) {
  std::vector<int64_t> likely;
  for (ir::Symbol s = 0; s < graph.dims().symbol_count(); ++s) {
    const ir::SymbolData& symbol = graph.dims().symbol(s);
    likely.push_back(symbol.hint >= 0 ? symbol.hint : std::max<int64_t>(symbol.lo, 1));
  }
  return likely;
}

std::string node_text(const Graph& graph, Node n) {
  std::string types;
  for (Value v : graph.operands(n)) {
    if (!types.empty()) types += ", ";
    types += v == ir::kNone ? "none" : graph.type_text(graph.type(v));
  }
  std::string text = fmt::format("{}({})", printable(graph.op_name(n)), types);
  if (graph.node(n).loc != 0) text += " at " + printable(graph.loc_text(graph.node(n).loc));
  return text;
}

PartitionProblem make_problem(const Graph& graph, std::span<const Claims> asked,
                              size_t fallbacks_from) {
  PartitionProblem problem;
  const std::span<const Node> nodes = graph.nodes(graph.main());
  problem.node_count = static_cast<uint32_t>(nodes.size());
  for (size_t d = 0; d < asked.size(); ++d) {
    const tenon_device_info_t& info = asked[d].device->info();
    PartitionDevice device;
    device.bytes_per_ns = info.copy_gigabytes_per_second;  // GB/s is bytes per ns
    device.latency_ns = info.copy_latency_ns;
    device.asynchronous = asked[d].device->has_queue();
    device.fallback = d >= fallbacks_from;
    for (Node n : nodes) device.cost_ns.push_back(asked[d].cost_ns[n]);
    problem.devices.push_back(std::move(device));
  }
  const std::vector<int64_t> likely = likely_sizes(graph);
  std::unordered_map<Value, uint32_t> index;
  auto value = [&](Value v) -> PartitionValue& {
    auto [it, fresh] = index.try_emplace(v, static_cast<uint32_t>(problem.values.size()));
    if (fresh) problem.values.push_back({kHost, likely_bytes(graph, v, likely), false, {}});
    return problem.values[it->second];
  };
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    for (Value v : reads_of(graph, nodes[i])) value(v).consumers.push_back(i);
    for (Value v : graph.results(nodes[i])) value(v).producer = i;
  }
  for (Value v : graph.region(graph.main()).yields) {
    if (graph.value(v).kind == TENON_VALUE_RESULT) value(v).output = true;
  }
  return problem;
}

Result<Placement> place(const runtime::GraphRef& ref, const Candidates& candidates) {
  const Graph& graph = *Graph::from(ref.get());
  if (candidates.devices.size() + candidates.fallbacks.size() > kDevicesMax) {
    return error(TENON_RESOURCE_EXHAUSTED, "T0507",
                 "{} devices were named; one program takes at most {}", candidates.devices.size(),
                 kDevicesMax);
  }
  Placement placement;
  for (size_t i = 0; i < candidates.devices.size(); ++i) {
    placement.asked.push_back(
        i < candidates.offered_ops.size()
            ? collect_claims(candidates.devices[i], ref, candidates.offered_ops[i])
            : collect_claims(candidates.devices[i], ref));
  }
  const size_t named = placement.asked.size();
  TENON_RETURN_IF_ERROR(ask_fallbacks(ref, candidates, &placement));

  const PartitionProblem problem = make_problem(graph, placement.asked, named);
  const std::vector<uint32_t> at =
      candidates.by_preference ? assign_by_preference(problem) : assign_by_cost(problem);
  const std::span<const Node> nodes = graph.nodes(graph.main());
  placement.at.assign(graph.node_limit(), kUnplaced);
  bool fell_back = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    placement.at[nodes[i]] = at[i];
    fell_back = fell_back || at[i] >= named;
  }
  if (fell_back && candidates.no_fallback) return fallback_forbidden(graph, placement, named);
  placement.segments = segments_of(problem, nodes, at, placement.asked);
  return placement;
}

}  // namespace tenon::dispatch
