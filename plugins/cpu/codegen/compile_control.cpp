#include "codegen/compile_control.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "artifact.h"
#include "control/control_program.h"
#include "native/native_ops.h"
#include "tenon/abi/extract.h"
#include "tenon/abi/facts.h"
#include "tenon/cpp/graph.hpp"
#include "tenon/kernelgen/lower/lower_graph.h"

namespace tenon::cpu {
namespace {

constexpr int kDepthMax = 64;  // Nested regions; the graph reader has the same limit.

using Kind = ControlPart::Kind;

bool kind_of(std::string_view op, Kind* out) {
  constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"switch", Kind::kSwitch}, {"while", Kind::kWhile}, {"scan", Kind::kScan}};
  for (const auto& [name, kind] : kKinds) {
    if (op != name) continue;
    *out = kind;
    return true;
  }
  return false;
}

std::string place_of(const Node& node) {
  std::string out;
  const tenon_sink_t sink = sink_to(&out);
  const tenon_loc_t loc = node.view().loc;
  if (loc == 0 || graph_api().loc_text(graph_api().self, node.graph(), loc, &sink) != TENON_OK) {
    return std::string(node.op());
  }
  return cat(node.op(), " at ", out);
}

const tenon_host_facts_t* facts_table() {
  static const auto* found = context().query<tenon_host_facts_t>(TENON_HOST_FACTS_ID);
  return found;
}

// Whether a node is a part by itself: control flow, calls and barriers are.
bool stands_alone(const Node& node) {
  return node.view().region_count != 0 || is_native(node) || is_barrier(node);
}

// Owns a graph that was cut out of another one.
class Extracted {
 public:
  Extracted() { raw_.size_bytes = sizeof raw_; }
  Extracted(const Extracted&) = delete;
  ~Extracted() {
    if (raw_.storage != nullptr) table()->release(table()->self, &raw_);
  }
  Status cut(tenon_graph_t* graph, const std::vector<tenon_node_t>& nodes,
             const std::vector<tenon_value_t>& yields) {
    if (table() == nullptr) return TENON_UNIMPLEMENTED;
    auto spec = sized<tenon_extract_spec_t>();
    spec.nodes = nodes.data();
    spec.node_count = static_cast<uint32_t>(nodes.size());
    spec.yields = yields.data();
    spec.yield_count = static_cast<uint32_t>(yields.size());
    spec.name = str("part");
    return table()->extract(table()->self, graph, &spec, &raw_);
  }
  const tenon_extracted_t& raw() const { return raw_; }

 private:
  static const tenon_host_extract_t* table() {
    static const auto* found = context().query<tenon_host_extract_t>(TENON_HOST_EXTRACT_ID);
    return found;
  }
  tenon_extracted_t raw_ = {};
};

// Builds the program and the graphs of its parts; compiles nothing.
class Cutter {
 public:
  explicit Cutter(tenon_graph_t* graph) : graph_(graph), dims_(&graph_api(), graph, &pool_) {
    whole_.size_bytes = sizeof whole_;
    (void)graph_api().graph_view(graph_api().self, graph, &whole_);
  }

  ControlProgram program;
  std::vector<std::unique_ptr<Extracted>> parts;  // By artifact.

  Status run() {
    const Region main(graph_, whole_.main);
    TENON_TRY(describe_symbols(main));
    TENON_TRY(describe_values(main));
    uint32_t index = 0;
    TENON_TRY(add_region(main, nullptr, &index));
    TENON_TRY(add_facts());
    tell_symbols(main);
    return {};
  }

 private:
  // ---- Sizes and values ----
  Status describe_symbols(const Region& main) {
    program.symbol_count = whole_.symbol_limit;
    program.bounds.assign(whole_.symbol_limit, std::numeric_limits<int64_t>::max());
    program.lows.assign(whole_.symbol_limit, 0);
    program.multiples.assign(whole_.symbol_limit, 1);
    data_dependent_.assign(whole_.symbol_limit, true);
    const tenon_region_view_t view = main.view();
    program.main_symbols.assign(view.symbols, view.symbols + view.symbol_count);
    for (uint32_t s : program.main_symbols) data_dependent_[s] = false;
    for (uint32_t s = 0; s < whole_.symbol_limit; ++s) {
      auto symbol = sized<tenon_symbol_view_t>();
      if (graph_api().symbol_view(graph_api().self, graph_, s, &symbol) == TENON_OK) {
        program.bounds[s] = symbol.hi;
        program.lows[s] = symbol.lo;
        program.multiples[s] = symbol.multiple_of;
      }
      dims_.define(s, pool_.extent(pool_.add_extent({})));
    }
    return {};
  }
  void describe_data_dependent(tenon_dim_t dim, ControlValue* out) const {
    tenon_type_t one = {};
    one.rank = 1;
    one.dims = &dim;
    const std::vector<tenon_symbol_t> symbols = TypeView(graph_, one).symbols();
    if (std::ranges::none_of(symbols, [this](tenon_symbol_t s) { return data_dependent_[s]; }))
      return;
    auto view = sized<tenon_dim_view_t>();
    const bool plain = graph_api().dim_view(graph_api().self, graph_, dim, &view) == TENON_OK &&
                       view.op == TENON_DIM_SYMBOL;
    out->data_dependent = true;
    out->mixed = out->mixed || !plain;
  }
  Status size(tenon_dim_t dim, kernelgen::SizeProgram* out) {
    const kernelgen::ExprId e = dims_.of(dim);
    if (e == kernelgen::kNone) return fail(TENON_INTERNAL, "A dim cannot be read.");
    *out = kernelgen::size_program(pool_, e);
    return {};
  }
  Status describe_values(const Region& main) {
    program.values.resize(whole_.value_limit);
    for (tenon_value_t v = 0; v < whole_.value_limit; ++v) {
      const tenon_value_view_t view = Value(graph_, v).view();
      if (view.kind == 0) continue;
      ControlValue& value = program.values[v];
      value.kind = ControlValue::Kind::kLocal;
      if (view.kind == TENON_VALUE_CONSTANT) {
        value.kind = ControlValue::Kind::kConstant;
        value.index = program.constant_count++;
        constant_of_blob_.emplace(view.blob, value.index);
      }
      value.element_bytes = dtype_bits(view.type.dtype) / 8;
      value.dtype = view.type.dtype;
      for (uint32_t d = 0; d < view.type.rank; ++d)
        TENON_TRY(size(view.type.dims[d], &value.dims.emplace_back()));
      for (uint32_t d = 0; d < view.type.rank; ++d)
        describe_data_dependent(view.type.dims[d], &value);
    }
    for (const Value& v : main.arguments()) {
      program.values[v.id()].kind = ControlValue::Kind::kInput;
      program.values[v.id()].index = program.input_count++;
    }
    return {};
  }
  // Symbols that nodes of main define and main's yields mention, in order of definition.
  void tell_symbols(const Region& main) {
    std::vector<tenon_symbol_t> mentioned;
    for (const Value& v : main.yields()) {
      for (tenon_symbol_t s : v.type().symbols()) mentioned.push_back(s);
    }
    for (const Node& node : main.nodes()) {
      const tenon_node_view_t view = node.view();
      for (uint32_t i = 0; i < view.symbol_count; ++i) {
        if (std::ranges::find(mentioned, view.symbols[i]) != mentioned.end())
          program.out_symbols.push_back(view.symbols[i]);
      }
    }
  }

  // Adds the facts that kernels rely on and that the inputs alone do not determine.
  Status add_facts() {
    const tenon_host_facts_t* table = facts_table();
    const uint32_t count = table != nullptr ? table->count(table->self, graph_) : 0;
    for (uint32_t i = 0; i < count; ++i) {
      ControlFact fact;
      tenon_dim_t a = 0, b = 0;
      TENON_TRY(table->fact(table->self, graph_, i, &fact.rel, &a, &b));
      tenon_dim_t sides[] = {a, b};
      tenon_type_t both = {};
      both.rank = 2;
      both.dims = sides;
      std::vector<tenon_symbol_t> symbols = TypeView(graph_, both).symbols();
      std::ranges::sort(symbols);
      symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
      for (tenon_symbol_t s : symbols) {
        if (data_dependent_[s]) fact.symbols.push_back(s);
      }
      if (fact.symbols.empty()) continue;
      TENON_TRY(size(a, &fact.a));
      TENON_TRY(size(b, &fact.b));
      fact.place = place_relating(Region(graph_, whole_.main), symbols, 0);
      program.facts.push_back(std::move(fact));
    }
    return {};
  }

  // The first node whose operands and results mention all of the symbols. Nodes inside regions come
  // before the node that owns them.
  std::string place_relating(const Region& region, const std::vector<tenon_symbol_t>& symbols,
                             int depth) const {
    for (const Node& node : region.nodes()) {
      const tenon_node_view_t view = node.view();
      for (uint32_t r = 0; r < view.region_count && depth < kDepthMax; ++r) {
        if (std::string inner = place_relating(Region(graph_, view.regions[r]), symbols, depth + 1);
            !inner.empty())
          return inner;
      }
      std::vector<tenon_symbol_t> mentioned;
      const auto add = [&](const Value& v) {
        for (tenon_symbol_t s : v.type().symbols()) mentioned.push_back(s);
      };
      for (const Value& v : node.operands()) add(v);
      for (uint32_t i = 0; i < view.result_count; ++i) add(node.result(i));
      const auto is_mentioned = [&](tenon_symbol_t s) {
        return std::ranges::find(mentioned, s) != mentioned.end();
      };
      if (std::ranges::all_of(symbols, is_mentioned)) return place_of(node);
    }
    return {};
  }

  // ---- Regions ----
  // Finds the dims of `values` that are symbols of `defined`.
  void find_sizes(const std::vector<Value>& values, const tenon_symbol_t* defined, uint32_t count,
                  std::vector<ControlSize>* out) const {
    for (uint32_t i = 0; i < values.size(); ++i) {
      const tenon_type_t type = values[i].view().type;
      for (uint32_t d = 0; d < type.rank; ++d) {
        for (uint32_t s = 0; s < count; ++s) {
          auto symbol = sized<tenon_symbol_view_t>();
          (void)graph_api().symbol_view(graph_api().self, graph_, defined[s], &symbol);
          if (symbol.dim == type.dims[d]) out->push_back({defined[s], i, d});
        }
      }
    }
  }

  Status add_region(const Region& region, const Node* owner, uint32_t* index) {
    if (++depth_ > kDepthMax)
      return fail(TENON_RESOURCE_EXHAUSTED, "Regions are nested deeper than 64.");
    *index = static_cast<uint32_t>(program.regions.size());
    program.regions.emplace_back();
    ControlRegion out;
    for (const Value& v : region.arguments()) out.arguments.push_back(v.id());
    for (const Value& v : region.yields()) out.yields.push_back(v.id());
    if (owner != nullptr) {
      const tenon_region_view_t view = region.view();
      find_sizes(region.arguments(), view.symbols, view.symbol_count, &out.opens);
      // A scan carries only its first arguments; the others are slices, and its further yields are
      // collected.
      const size_t carried =
          owner->is("scan") ? static_cast<size_t>(owner->i64("carry")) : region.arguments().size();
      if (!owner->is("switch")) find_checks(region, carried, &out);
    }
    TENON_TRY(add_parts(region, &out));
    program.regions[*index] = std::move(out);
    --depth_;
    return {};
  }

  // Finds dims of carried values that may differ after an iteration.
  void find_checks(const Region& region, size_t carried, ControlRegion* out) const {
    const std::vector<Value> arguments = region.arguments(), yields = region.yields();
    for (uint32_t i = 0; i < std::min({carried, arguments.size(), yields.size()}); ++i) {
      const TypeView a = arguments[i].type(), y = yields[i].type();
      for (uint32_t d = 0; d < a.rank() && a.rank() == y.rank(); ++d) {
        const bool open = std::ranges::any_of(
            out->opens, [&](const ControlSize& s) { return s.index == i && s.dim == d; });
        if (!open && !surely_equal(a.dim(d), y.dim(d))) out->checks.push_back({0, i, d});
      }
    }
  }

  // Control flow and calls are at odd levels, the nodes between them at even ones. An even level
  // becomes one part of kernels; each node of an odd level is a part.
  Status add_parts(const Region& region, ControlRegion* out) {
    std::map<uint32_t, std::vector<tenon_node_t>> levels;
    std::unordered_map<tenon_value_t, uint32_t> level_of;
    std::unordered_map<tenon_symbol_t, uint32_t> level_of_symbol;
    for (const Node& node : region.nodes()) {
      const tenon_node_view_t view = node.view();
      const bool control = stands_alone(node);
      uint32_t level = control ? 1 : 0;
      const auto after = [&](uint32_t maker) {
        level = std::max(level, control || maker % 2 == 1 ? next(maker, control) : maker);
      };
      for_each_read(node, [&](const Value& v) {
        if (const auto it = level_of.find(v.id()); it != level_of.end()) after(it->second);
        for (tenon_symbol_t s : v.type().symbols()) {
          if (const auto it = level_of_symbol.find(s); it != level_of_symbol.end())
            after(it->second);
        }
      });
      for (uint32_t i = 0; i < view.result_count; ++i) {
        for (tenon_symbol_t s : Value(graph_, view.results[i]).type().symbols()) {
          if (const auto it = level_of_symbol.find(s); it != level_of_symbol.end())
            after(it->second);
        }
        level_of[view.results[i]] = level;
      }
      for (uint32_t i = 0; i < view.symbol_count; ++i) level_of_symbol[view.symbols[i]] = level;
      levels[level].push_back(node.id());
    }
    for (const auto& [level, nodes] : levels) {
      if (level % 2 == 0) {
        TENON_TRY(add_kernels(nodes, out));
        continue;
      }
      for (tenon_node_t n : nodes) {
        const Node node(graph_, n);
        if (is_barrier(node))
          add_barrier(node, out);
        else
          TENON_TRY(is_native(node) ? add_native(node, out) : add_control(node, out));
      }
    }
    return {};
  }
  // The first level of the wanted kind after `maker`.
  static uint32_t next(uint32_t maker, bool control) {
    return maker + (maker % 2 == (control ? 1u : 0u) ? 2 : 1);
  }

  // Visits everything that a node reads, including the captures of its regions.
  template <class Visit>
  void for_each_read(const Node& node, Visit&& visit) const {
    const tenon_node_view_t view = node.view();
    for (uint32_t i = 0; i < view.operand_count; ++i) {
      if (view.operands[i] != TENON_NONE) visit(Value(graph_, view.operands[i]));
    }
    for (uint32_t r = 0; r < view.region_count; ++r) {
      const tenon_region_view_t region = Region(graph_, view.regions[r]).view();
      for (uint32_t i = 0; i < region.capture_count; ++i) visit(Value(graph_, region.captures[i]));
    }
  }

  // Whether a node outside `nodes` reads a value. A use inside a nested region belongs to another
  // part.
  bool leaves(const Value& value, const std::unordered_set<tenon_node_t>& nodes) const {
    return std::ranges::any_of(value.uses(),
                               [&](const tenon_use_t& use) { return !nodes.contains(use.node); });
  }

  Status add_kernels(const std::vector<tenon_node_t>& nodes, ControlRegion* out) {
    std::vector<tenon_value_t> yields;
    const std::unordered_set<tenon_node_t> inside(nodes.begin(), nodes.end());
    for (tenon_node_t n : nodes) {
      const tenon_node_view_t view = Node(graph_, n).view();
      for (uint32_t i = 0; i < view.result_count; ++i) {
        if (leaves(Value(graph_, view.results[i]), inside)) yields.push_back(view.results[i]);
      }
    }
    if (yields.empty()) return {};  // No other part reads it.
    auto part = std::make_unique<Extracted>();
    TENON_TRY(part->cut(graph_, nodes, yields));
    const tenon_extracted_t& cut = part->raw();
    ControlPart made;
    made.artifact = static_cast<uint32_t>(parts.size());
    made.inputs.assign(cut.arguments, cut.arguments + cut.argument_count);
    made.outputs.assign(yields.begin(), yields.end());
    made.symbols.assign(cut.symbols, cut.symbols + cut.symbol_count);
    auto inner = sized<tenon_graph_view_t>();
    TENON_TRY(graph_api().graph_view(graph_api().self, cut.graph, &inner));
    for (tenon_value_t v = 0; v < inner.value_limit; ++v) {
      const tenon_value_view_t view = Value(cut.graph, v).view();
      if (view.kind != TENON_VALUE_CONSTANT) continue;
      const auto found = constant_of_blob_.find(view.blob);
      if (found == constant_of_blob_.end())
        return fail(TENON_INTERNAL, "A part has a constant of its own.");
      made.constants.push_back(found->second);
    }
    parts.push_back(std::move(part));
    out->parts.push_back(std::move(made));
    return {};
  }

  Status add_control(const Node& node, ControlRegion* out) {
    const tenon_node_view_t view = node.view();
    ControlPart made;
    if (!kind_of(node.op(), &made.kind))
      return fail(TENON_UNIMPLEMENTED, cat(node.op(), ": no code is generated for its regions."));
    made.inputs.assign(view.operands, view.operands + view.operand_count);
    made.outputs.assign(view.results, view.results + view.result_count);
    made.place = place_of(node);
    std::vector<Value> results;
    for (uint32_t i = 0; i < view.result_count; ++i) results.push_back(node.result(i));
    find_sizes(results, view.symbols, view.symbol_count, &made.defines);
    if (made.kind == Kind::kWhile) made.max_trip = node.i64("max_trip");
    if (made.kind == Kind::kScan) {
      made.carried = static_cast<uint32_t>(node.i64("carry"));
      made.reverse = node.i64("reverse") != 0;
      const Dims length = node.dims("length");
      TENON_TRY(size(length.empty() ? node.operand(made.carried).dim(0).raw() : length[0].raw(),
                     &made.length));
    }
    const std::vector<tenon_region_t> regions(view.regions, view.regions + view.region_count);
    for (tenon_region_t r : regions)
      TENON_TRY(add_region(Region(graph_, r), &node, &made.regions.emplace_back()));
    out->parts.push_back(std::move(made));
    return {};
  }

  static void add_barrier(const Node& node, ControlRegion* out) {
    const tenon_node_view_t view = node.view();
    ControlPart made;
    made.kind = Kind::kBarrier;
    made.inputs.assign(view.operands, view.operands + view.operand_count);
    made.outputs.assign(view.results, view.results + view.result_count);
    made.place = place_of(node);
    out->parts.push_back(std::move(made));
  }

  Status add_native(const Node& node, ControlRegion* out) {
    const tenon_node_view_t view = node.view();
    ControlPart made;
    made.kind = Kind::kNative;
    made.native = std::string(node.op());
    made.parameters = native_signature(*find_native(node.op()), node).parameters;
    made.inputs.assign(view.operands, view.operands + view.operand_count);
    made.outputs.assign(view.results, view.results + view.result_count);
    made.place = place_of(node);
    std::vector<Value> results;
    for (uint32_t i = 0; i < view.result_count; ++i) results.push_back(node.result(i));
    find_sizes(results, view.symbols, view.symbol_count, &made.defines);
    out->parts.push_back(std::move(made));
    return {};
  }

  tenon_graph_t* graph_;
  tenon_graph_view_t whole_ = {};
  kernelgen::Pool pool_;
  kernelgen::DimExpressions dims_;    // Over the symbols as extents of pool_.
  std::vector<bool> data_dependent_;  // By symbol: known only in a run.
  std::unordered_map<tenon_blob_t*, uint32_t> constant_of_blob_;
  int depth_ = 0;
};

std::string region_text(const ControlProgram& program, uint32_t index, int indent) {
  constexpr std::string_view kNames[] = {"kernels", "switch", "while", "scan", "call", "barrier"};
  std::string out;
  for (const ControlPart& part : program.regions[index].parts) {
    out += cat(std::string(static_cast<size_t>(indent) * 2, ' '),
               kNames[static_cast<size_t>(part.kind)]);
    if (part.kind == Kind::kKernels) out += cat(" part ", part.artifact);
    if (part.kind == Kind::kNative) out += cat(" ", part.native);
    out += cat(" (", part.inputs.size(), " in, ", part.outputs.size(), " out)\n");
    for (size_t i = 0; i < part.regions.size(); ++i) {
      out += cat(std::string(static_cast<size_t>(indent) * 2 + 2, ' '), "region ", i, "\n");
      out += region_text(program, part.regions[i], indent + 2);
    }
  }
  return out;
}

}  // namespace

bool has_control(tenon_graph_t* graph) {
  return std::ranges::any_of(main_region(graph).nodes(), stands_alone);
}

// A host without facts cannot check the sizes of a run.
bool is_native(const Node& node) {
  const NativeOp* op = find_native(node.op());
  return op != nullptr && facts_table() != nullptr && op->takes(native_signature(*op, node));
}

bool is_barrier(const Node& node) {
  return node.is("barrier") && facts_table() != nullptr;
}

bool can_compile_control(const kernelgen::HostTables& host, tenon_graph_t* graph, tenon_node_t id,
                         const kernelgen::LoweringLimits& limits, std::string* why) {
  const Node node(graph, id);
  Kind kind;
  if (!kind_of(node.op(), &kind)) {
    *why = cat(node.op(), ": no code is generated for an op with regions of this name");
    return false;
  }
  const tenon_node_view_t view = node.view();
  for (uint32_t r = 0; r < view.region_count; ++r) {
    for (const Node& inner : Region(graph, view.regions[r]).nodes()) {
      std::string reason;
      const bool can = is_native(inner) || is_barrier(inner) ? true
                       : inner.view().region_count != 0
                           ? can_compile_control(host, graph, inner.id(), limits, &reason)
                           : kernelgen::can_lower(host, graph, inner.id(), limits, &reason);
      if (can) continue;
      *why = cat("in ", node.op(), ": ", reason);
      return false;
    }
  }
  return true;
}

Status compile_control(const kernelgen::HostTables& host, tenon_graph_t* graph,
                       const CompileSettings& settings, CompiledGraph& out) {
  Cutter cutter(graph);
  TENON_TRY(cutter.run());
  for (const auto& part : cutter.parts) {
    if (cancelled()) return fail(TENON_CANCELLED, "The compilation was cancelled.");
    CompiledGraph compiled;
    TENON_TRY(compile_graph(host, part->raw().graph, settings, compiled));
    out.kernels_compiled += compiled.kernels_compiled;
    out.kernels_from_cache += compiled.kernels_from_cache;
    cutter.program.artifacts.push_back(std::move(compiled.artifact));
  }
  out.artifact = artifact_pack({settings.isa, cutter.program.bytes(), {}, true});
  return {};
}

Status explain_control(const kernelgen::HostTables& host, tenon_graph_t* graph,
                       const CompileSettings& settings, std::string_view what, std::string& out) {
  Cutter cutter(graph);
  TENON_TRY(cutter.run());
  if (what == "plan") out = region_text(cutter.program, 0, 0);
  for (size_t i = 0; i < cutter.parts.size(); ++i) {
    std::string text;
    TENON_TRY(explain_graph(host, cutter.parts[i]->raw().graph, settings, what, text));
    out += what == "kernels" ? text : cat(what == "asm" ? "# part " : "// part ", i, "\n", text);
  }
  return {};
}

}  // namespace tenon::cpu
