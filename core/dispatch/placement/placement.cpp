#include "core/dispatch/placement/placement.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <tenon/cpp/likely_size.hpp>

#include "core/base/checked.h"
#include "core/base/str.h"
#include "core/dispatch/placement/measure.h"
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

// "a reason about `op`, of which this is a part; this one: another reason"
std::string refusal_text(const Refusal& refusal) {
  if (refusal.composite.empty() || refusal.reason == refusal.reason_here) return refusal.reason;
  return fmt::format("{} (said of {}, which was replaced by smaller ops; of this one: {})",
                     refusal.reason, refusal.composite, refusal.reason_here);
}

std::string refusals_text(const Placement& placement, Node n) {
  std::string text;
  for (const Claims& claims : placement.asked) {
    if (claims.alone(n)) continue;
    text += fmt::format("\n    {}: {}", claims.device->name(), refusal_text(claims.refusals[n]));
  }
  return text;
}

// Why no device that was asked could answer at all: that is about devices and their options, not
// about nodes. Empty if one did.
std::string failures_text(const Placement& placement) {
  std::string text;
  for (const Claims& claims : placement.asked) {
    if (claims.failure.empty()) return {};
    text += fmt::format("\n  {}: {}", claims.device->name(), claims.failure);
  }
  return text;
}

// Nodes that were refused for the same reasons stand together, so that each reason is read once.
std::string by_reason(const Graph& graph, std::span<const Node> refused,
                      const Placement& placement) {
  std::vector<std::pair<std::string, std::string>> groups;  // reasons, nodes
  for (Node n : refused.first(std::min(refused.size(), kNodesInError))) {
    const std::string reasons = refusals_text(placement, n);
    auto known = std::ranges::find(groups, reasons, &std::pair<std::string, std::string>::first);
    if (known == groups.end()) known = groups.insert(known, {reasons, ""});
    known->second += "\n  " + node_text(graph, n);
  }
  std::string text;
  for (const auto& [reasons, nodes] : groups) text += nodes + reasons;
  if (refused.size() > kNodesInError)
    text += fmt::format("\n  and {} more", refused.size() - kNodesInError);
  return text;
}

Status nobody_takes(const Graph& graph, const Assignment& assignment, const Placement& placement) {
  const std::span<const Node> nodes = graph.nodes(graph.main());
  std::vector<Node> refused;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (assignment.at[i] == kUnplaced) refused.push_back(nodes[i]);
  }
  std::string text = refused.size() == nodes.size() ? failures_text(placement) : "";
  if (text.empty()) text = by_reason(graph, refused, placement);
  std::string asked;
  for (const Claims& claims : placement.asked)
    asked += (asked.empty() ? "" : ", ") + claims.device->name();
  for (const std::string& reason : placement.unavailable) text += "\n  not asked: " + reason;
  return error(TENON_UNIMPLEMENTED, "T0501", "no device takes {} of {} nodes (asked: {}):{}",
               refused.size(), nodes.size(), asked.empty() ? "none" : asked, text);
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

// Whether a node of the graph is among what a composite was replaced by: it is newer, and has all
// its origins.
bool is_part(const Graph& graph, Node n, const RefusedComposite& composite) {
  if (n < composite.first_new || graph.node(n).loc == 0) return false;
  if (graph.node(n).loc == composite.loc) return true;
  const std::span<const ir::Origin> of = graph.origins(composite.loc);
  const std::span<const ir::Origin> own = graph.origins(graph.node(n).loc);
  return std::all_of(of.begin(), of.end(), [&](const ir::Origin& origin) {
    return std::find(own.begin(), own.end(), origin) != own.end();
  });
}

// Where the user wrote a composite that a device refused, its reason for that is what they read.
// The first that fits is the outermost.
void tell_composites(const Graph& graph, std::span<const RefusedComposite> composites,
                     Claims* claims) {
  for (Node n : graph.nodes(graph.main())) {
    Refusal& refusal = claims->refusals[n];
    if (refusal.reason.empty()) continue;
    const auto whole =
        std::find_if(composites.begin(), composites.end(),
                     [&](const RefusedComposite& c) { return is_part(graph, n, c); });
    if (whole == composites.end()) continue;
    for (const auto& [device, said] : whole->refusals) {
      if (device != claims->device->name() || said.reason.empty()) continue;
      refusal = {said.code, said.reason, whole->op, refusal.reason};
      break;
    }
  }
}

class Placer {
 public:
  Placer(const runtime::GraphRef& ref, const Candidates& candidates)
      : ref_(ref),
        graph_(*Graph::from(ref.get())),
        candidates_(candidates),
        edges_(make_problem(graph_, {}, 0)) {}

  Result<Placement> run() {
    for (size_t i = 0; i < candidates_.devices.size(); ++i) {
      TENON_RETURN_IF_ERROR(ask(candidates_.devices[i], i < candidates_.offered_ops.size()
                                                            ? candidates_.offered_ops[i]
                                                            : std::vector<std::string>()));
    }
    named_ = placement_.asked.size();
    placement_.named = candidates_.by_preference ? named_ : 0;
    TENON_RETURN_IF_ERROR(measure());
    assign();
    TENON_RETURN_IF_ERROR(ask_fallbacks());
    const std::span<const Node> nodes = graph_.nodes(graph_.main());
    placement_.at.assign(graph_.node_limit(), kUnplaced);
    placement_.claim.assign(graph_.node_limit(), kAlone);
    bool fell_back = false;
    for (size_t i = 0; i < nodes.size(); ++i) {
      placement_.at[nodes[i]] = assignment_.at[i];
      fell_back = fell_back || assignment_.at[i] >= named_;
    }
    cut();
    tell_lost_claims();
    if (fell_back && candidates_.no_fallback) return fallback_forbidden(graph_, placement_, named_);
    return std::move(placement_);
  }

 private:
  // T0513 for an option of the device that is wrong.
  Status ask(std::shared_ptr<runtime::Device> device, const std::vector<std::string>& offered_ops) {
    Claims claims = collect_claims(std::move(device), ref_, candidates_.settings, offered_ops);
    TENON_RETURN_IF_ERROR(std::move(claims.wrong_option));
    refuse_torn_claims(ref_, edges_, &claims);
    tell_composites(graph_, candidates_.composites, &claims);
    placement_.asked.push_back(std::move(claims));
    return {};
  }
  // A device that need not be asked may have options all the same: these are judged, too.
  Status check_unasked(const Fallback& fallback) const {
    const auto is_of = [&](const auto& option) {
      return option.first.starts_with(fallback.first + ".");
    };
    if (std::ranges::none_of(candidates_.settings.options, is_of)) return {};
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Device> device, fallback.second());
    return collect_claims(std::move(device), ref_, candidates_.settings).wrong_option;
  }
  Status measure() {
    for (Claims& claims : placement_.asked) {
      if (candidates_.settings.autotune)
        TENON_RETURN_IF_ERROR(measure_claims(graph_, candidates_.settings, &claims));
    }
    return {};
  }

  void assign() {
    problem_ = make_problem(graph_, placement_.asked, named_);
    assignment_ =
        candidates_.by_preference ? assign_by_preference(problem_) : assign_by_cost(problem_);
  }
  bool complete() const {
    return std::none_of(assignment_.at.begin(), assignment_.at.end(),
                        [](uint32_t at) { return at == kUnplaced; });
  }

  // Falls back one device at a time, so that unneeded devices are not loaded.
  Status ask_fallbacks() {
    for (const Fallback& fallback : candidates_.fallbacks) {
      const std::string& name = fallback.first;
      const bool asked = std::any_of(placement_.asked.begin(), placement_.asked.end(),
                                     [&](const Claims& c) { return c.device->name() == name; });
      if (asked) continue;
      if (complete()) {
        TENON_RETURN_IF_ERROR(check_unasked(fallback));
        continue;
      }
      Result<std::shared_ptr<runtime::Device>> device = fallback.second();
      if (!device.ok()) {
        placement_.unavailable.push_back(name + ": " + device.status().text());
        continue;
      }
      TENON_RETURN_IF_ERROR(ask(*device, {}));
      assign();
    }
    if (complete()) return {};
    tell_lost_claims();
    return nobody_takes(graph_, assignment_, placement_);
  }

  void cut() {
    const std::span<const Node> nodes = graph_.nodes(graph_.main());
    placement_.segments = make_segments(problem_, assignment_);
    for (uint32_t s = 0; s < placement_.segments.size(); ++s) {
      Segment& segment = placement_.segments[s];
      for (uint32_t& n : segment.nodes) {
        n = nodes[n];
        if (segment.claim != kAlone) placement_.claim[n] = s;
      }
    }
  }

  // Nodes that a device claims only together with others, and that went elsewhere.
  void tell_lost_claims() {
    const std::span<const Node> nodes = graph_.nodes(graph_.main());
    for (uint32_t d = 0; d < placement_.asked.size(); ++d) {
      Claims& claims = placement_.asked[d];
      std::vector<uint32_t> at(graph_.node_limit(), kUnplaced);
      for (size_t i = 0; i < nodes.size(); ++i) at[nodes[i]] = assignment_.at[i];
      for (const AtomicClaim& claim : claims.atomic) {
        for (uint32_t n : claim.nodes) {
          if (claims.alone(n) || at[n] == d) continue;
          claims.refusals[n] = {
              TENON_FAILED_PRECONDITION,
              fmt::format("it takes {} only together, and {}", ops_text(ref_, claim.nodes),
                          candidates_.by_preference
                              ? "another claim or device has one of them"
                              : "the whole is cheaper without, or another claim has one of them")};
        }
      }
    }
  }

  const runtime::GraphRef& ref_;
  const Graph& graph_;
  const Candidates& candidates_;
  const Edges edges_;  // of the nodes of the main region
  size_t named_ = SIZE_MAX;
  Placement placement_;
  PartitionProblem problem_;
  Assignment assignment_;
};

}  // namespace

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
    likely.push_back(sizes::likely_size(symbol.hint, symbol.lo, symbol.hi));
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

// Whether a node makes the same in every run, from constants, by moving numbers or by computing
// little for each: that is fused into what reads it, and takes no memory.
bool follows_from_constants(const Graph& graph, Node n, const std::vector<bool>& earlier,
                            std::span<const uint32_t> place_of) {
  const ir::NodeData& node = graph.node(n);
  constexpr uint64_t kNever =
      TENON_TRAIT_ORDERED | TENON_TRAIT_NO_RECOMPUTE | TENON_TRAIT_DEFINES_SYMBOL;
  if ((node.traits & TENON_TRAIT_PURE) == 0 || (node.traits & kNever) != 0) return false;
  if (node.region_count != 0 || node.symbol_count != 0) return false;
  if ((node.traits & TENON_TRAIT_SHAPE_ONLY) == 0) {
    if (node.operand_count != 0 && (node.traits & TENON_TRAIT_ELEMENTWISE) == 0) return false;
    const tenon_op_def_t* op = ir::op_set()->find(node.op, node.op_version);
    if (op == nullptr || op->cost_class > TENON_COST_ELEMENTWISE) return false;
  }
  return std::ranges::all_of(reads_of(graph, n), [&](Value v) {
    return graph.value(v).kind == TENON_VALUE_RESULT && earlier[place_of[graph.value(v).node]];
  });
}

PartitionProblem make_problem(const Graph& graph, std::span<const Claims> asked,
                              size_t fallbacks_from) {
  PartitionProblem problem;
  const std::span<const Node> nodes = graph.nodes(graph.main());
  problem.node_count = static_cast<uint32_t>(nodes.size());
  std::vector<uint32_t> place_of(graph.node_limit(), kUnplaced);
  for (uint32_t i = 0; i < nodes.size(); ++i) place_of[nodes[i]] = i;
  for (size_t d = 0; d < asked.size(); ++d) {
    const tenon_device_info_t& info = asked[d].device->info();
    PartitionDevice device;
    device.bytes_per_ns = info.copy_gigabytes_per_second;  // GB/s is bytes per ns
    device.latency_ns = info.copy_latency_ns;
    device.asynchronous = asked[d].device->has_queue();
    device.fallback = d >= fallbacks_from;
    for (Node n : nodes) {
      device.cost_ns.push_back(asked[d].cost_ns[n]);
      device.by.push_back(asked[d].by[n]);
    }
    for (const AtomicClaim& claim : asked[d].atomic) {
      AtomicClaim& placed = device.atomic.emplace_back(claim);
      for (uint32_t& n : placed.nodes) n = place_of[n];
      std::sort(placed.nodes.begin(), placed.nodes.end());
    }
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
  problem.repeatable.resize(nodes.size());
  for (uint32_t i = 0; i < nodes.size(); ++i)
    problem.repeatable[i] = follows_from_constants(graph, nodes[i], problem.repeatable, place_of);
  for (Value v : graph.region(graph.main()).yields) {
    if (graph.value(v).kind == TENON_VALUE_RESULT) value(v).output = true;
  }
  return problem;
}

void Placement::take_back(uint32_t index, const Status& refusal) {
  Segment& segment = segments[index];
  Claims& claims = asked[segment.device];
  const auto at = std::ranges::find(claims.asked, segment.by) - claims.asked.begin();
  for (Node n : segment.nodes) {
    claims.by[n] = 0;
    claim[n] = kAlone;
    if (at == std::ssize(claims.asked)) continue;
    Answers& answers = claims.all[static_cast<size_t>(at)];
    answers.cost_ns[n] = kNotClaimed;
    answers.refusals[n] = {refusal.code(), std::string(refusal.message())};
  }
  segment.by = 0;
  segment.claim = kAlone;
}

Result<Placement> place(const runtime::GraphRef& ref, const Candidates& candidates) {
  if (candidates.devices.size() + candidates.fallbacks.size() > kDevicesMax) {
    return error(TENON_RESOURCE_EXHAUSTED, "T0507",
                 "{} devices were named; one program takes at most {}", candidates.devices.size(),
                 kDevicesMax);
  }
  return Placer(ref, candidates).run();
}

}  // namespace tenon::dispatch
