#include "core/dispatch/placement/extract.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "core/base/checked.h"
#include "core/base/intern.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"

namespace tenon::dispatch {

using ir::Dim;
using ir::Graph;
using ir::kNone;
using ir::Node;
using ir::Region;
using ir::Symbol;
using ir::Value;

namespace {

class Extractor {
 public:
  Extractor(const Graph& from, std::string_view name, std::span<const Value> late = {})
      : from_(from), late_(late), to_(Graph::create(name)) {
    symbol_map_.assign(from.dims().symbol_count(), 0);
    symbol_state_.assign(from.dims().symbol_count(), State::kUnused);
  }

  Result<Subgraph> run(std::span<const Node> nodes, std::span<const Value> arguments,
                       std::span<const Value> outputs) {
    nodes_ = nodes;
    for (Node n : nodes) scan_definitions(n);
    for (Value v : arguments) use(v);
    for (Node n : nodes) scan_uses(n);
    for (Value v : outputs) use(v);
    TENON_RETURN_IF_ERROR(define_symbols());
    for (Value v : inputs_) TENON_RETURN_IF_ERROR(add_input(v));
    for (Node n : nodes) TENON_RETURN_IF_ERROR(copy_node(n, {to_->main(), kNone}));
    TENON_RETURN_IF_ERROR(add_outputs(outputs));
    TENON_RETURN_IF_ERROR(copy_facts());
    to_->freeze();
    out_.graph = to_;
    out_.inputs = inputs_;
    return std::move(out_);
  }

 private:
  enum class State : uint8_t { kUnused, kOutside, kInside };

  // ---- What is inside, and what comes from outside ----
  void scan_definitions(Node n) {
    for (Value v : from_.results(n)) inside_[v] = kNone;
    for (Symbol s : from_.symbols(n)) symbol_state_[s] = State::kInside;
    for (Region r : from_.regions(n)) {
      for (Symbol s : from_.region(r).symbols) symbol_state_[s] = State::kInside;
      for (Value v : from_.region(r).arguments) inside_[v] = kNone;
      for (Node inner : from_.nodes(r)) scan_definitions(inner);
    }
  }
  void scan_uses(Node n) {
    for (Value v : from_.operands(n)) use(v);
    for (Value v : from_.results(n)) use_type(from_.type(v));
    for (const tenon_attr_t& attr : from_.attrs(n)) {
      if (attr.kind == TENON_ATTR_DIMS) use_dims({attr.u.dims, attr.count});
      for (uint64_t i = 0; attr.kind == TENON_ATTR_TYPES && i < attr.count; ++i)
        use_type(attr.u.types[i]);
    }
    for (Region r : from_.regions(n)) {
      for (Value v : from_.region(r).arguments) use_type(from_.type(v));
      for (Node inner : from_.nodes(r)) scan_uses(inner);
      for (Value v : from_.region(r).yields) use(v);
    }
  }
  void use(Value v) {
    if (v == kNone || from_.value(v).kind == TENON_VALUE_CONSTANT || inside_.contains(v)) return;
    if (is_late(v)) return;
    inside_[v] = kNone;
    inputs_.push_back(v);
    use_type(from_.type(v));
  }
  bool is_late(Value v) const { return std::ranges::binary_search(late_, v); }
  void use_type(const tenon_type_t& type) { use_dims({type.dims, type.rank}); }
  void use_dims(std::span<const Dim> dims) {
    std::vector<Symbol> symbols;
    for (Dim d : dims) {
      if (d < 0) from_.dims().symbols_of(d, &symbols);
    }
    for (Symbol s : symbols) {
      if (symbol_state_[s] == State::kUnused) symbol_state_[s] = State::kOutside;
    }
  }

  // ---- Copying ----
  Status define_symbols() {
    for (Symbol s = 0; s < symbol_state_.size(); ++s) {
      if (symbol_state_[s] != State::kOutside) continue;
      const ir::SymbolData& d = from_.dims().symbol(s);
      TENON_ASSIGN_OR_RETURN(
          const Symbol made,
          to_->define_symbol(to_->main(), sym_text(d.name), d.lo, d.hi, d.multiple_of, d.hint));
      symbol_map_[s] = to_->dims().symbol(made).dim;
      out_.symbols.push_back(s);
    }
    return {};
  }

  Result<Dim> dim(Dim d) {
    if (d >= 0) return d;
    return to_->dims().import(from_.dims(), d, symbol_map_);
  }
  Status dims(std::span<const Dim> from, std::vector<Dim>* out) {
    out->clear();
    for (Dim d : from) {
      TENON_ASSIGN_OR_RETURN(const Dim made, dim(d));
      out->push_back(made);
    }
    return {};
  }
  Result<ir::TypeDraft> type(const tenon_type_t& from) {
    ir::TypeDraft draft{from.dtype, from.kind, {}, from.object};
    TENON_RETURN_IF_ERROR(dims({from.dims, from.rank}, &draft.dims));
    return draft;
  }
  Result<ir::Loc> loc(ir::Loc from) {
    if (from == 0) return ir::Loc{0};
    return to_->make_loc(from_.origins(from));
  }

  Status add_input(Value v) {
    const ir::ValueData& data = from_.value(v);
    if (from_.type(v).kind != TENON_KIND_TENSOR) {
      return error(TENON_UNIMPLEMENTED, "T0506",
                   "a value of type {} would have to go from one device to another",
                   from_.type_text(from_.type(v)));
    }
    TENON_ASSIGN_OR_RETURN(const ir::TypeDraft draft, type(from_.type(v)));
    TENON_ASSIGN_OR_RETURN(const ir::Loc where, loc(data.loc));
    const bool named = data.kind == TENON_VALUE_ARGUMENT && data.region == from_.main();
    const std::string_view name = named ? sym_text(data.name) : "";
    const tenon_type_t view = draft.view();
    TENON_ASSIGN_OR_RETURN(inside_[v], to_->add_argument(to_->main(), view, name, where));
    to_->take_notes(ir::Noted::kValue, inside_[v], from_, v);
    return {};
  }

  Result<Value> value(Value v) {
    if (v == kNone) return kNone;
    if (auto it = inside_.find(v); it != inside_.end()) return it->second;
    const ir::ValueData& data = from_.value(v);
    TENON_ASSIGN_OR_RETURN(const ir::TypeDraft draft, type(from_.type(v)));
    TENON_ASSIGN_OR_RETURN(const ir::Loc where, loc(data.loc));
    const tenon_type_t view = draft.view();
    ir::Ref<ir::Blob> blob = data.blob;
    if (is_late(v)) {
      TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count({view.dims, view.rank}));
      TENON_ASSIGN_OR_RETURN(const uint64_t bytes, packed_bytes(count, ir::dtype_bits(view.dtype)));
      blob = ir::blob_late(bytes);
      out_.late.push_back({v, blob});
    }
    TENON_ASSIGN_OR_RETURN(const Value made,
                           to_->add_constant(view, blob, sym_text(data.name), where));
    to_->take_notes(ir::Noted::kValue, made, from_, v);
    inside_[v] = made;
    return made;
  }
  Status values(std::span<const Value> from, std::vector<Value>* out) {
    for (Value v : from) {
      TENON_ASSIGN_OR_RETURN(const Value made, value(v));
      out->push_back(made);
    }
    return {};
  }

  // Attributes with their dims in the new graph; the vectors hold what the records point to.
  struct Attrs {
    std::vector<tenon_attr_t> records;
    std::deque<std::vector<Dim>> dims;
    std::deque<ir::TypeDraft> drafts;
    std::deque<std::vector<tenon_type_t>> types;
  };
  Status attrs(Node n, Attrs* out) {
    for (tenon_attr_t attr : from_.attrs(n)) {
      if (attr.kind == TENON_ATTR_DIMS) {
        TENON_RETURN_IF_ERROR(dims({attr.u.dims, attr.count}, &out->dims.emplace_back()));
        attr.u.dims = out->dims.back().data();
      } else if (attr.kind == TENON_ATTR_TYPES) {
        std::vector<tenon_type_t>& list = out->types.emplace_back();
        for (uint64_t i = 0; i < attr.count; ++i) {
          TENON_ASSIGN_OR_RETURN(ir::TypeDraft draft, type(attr.u.types[i]));
          list.push_back(out->drafts.emplace_back(std::move(draft)).view());
        }
        attr.u.types = list.data();
      }
      out->records.push_back(attr);
    }
    return {};
  }

  Result<Symbol> inner_symbol(Symbol s) {
    const ir::SymbolData& d = from_.dims().symbol(s);
    TENON_ASSIGN_OR_RETURN(const Symbol made,
                           to_->add_symbol(to_->dims().unique_name(sym_text(d.name)), d.lo, d.hi,
                                           d.multiple_of, d.hint));
    symbol_map_[s] = to_->dims().symbol(made).dim;
    return made;
  }

  Status copy_node(Node n, ir::Place place) {
    const ir::NodeData& data = from_.node(n);
    std::vector<Symbol> symbols;
    for (Symbol s : from_.symbols(n)) {
      TENON_ASSIGN_OR_RETURN(const Symbol made, inner_symbol(s));
      symbols.push_back(made);
    }
    std::vector<Value> operands;
    TENON_RETURN_IF_ERROR(values(from_.operands(n), &operands));
    Attrs attributes;
    TENON_RETURN_IF_ERROR(attrs(n, &attributes));
    std::vector<Region> regions;
    for (Region r : from_.regions(n)) {
      TENON_ASSIGN_OR_RETURN(const Region made, copy_region(r, place));
      regions.push_back(made);
    }
    std::deque<ir::TypeDraft> drafts;
    std::vector<tenon_type_t> results;
    for (Value v : from_.results(n)) {
      TENON_ASSIGN_OR_RETURN(ir::TypeDraft draft, type(from_.type(v)));
      results.push_back(drafts.emplace_back(std::move(draft)).view());
    }
    Graph::RawNode raw;
    raw.op = data.op;
    raw.op_version = data.op_version;
    TENON_ASSIGN_OR_RETURN(raw.loc, loc(data.loc));
    raw.operands = operands;
    raw.attrs = attributes.records;
    raw.regions = regions;
    raw.result_types = results;
    raw.symbols = symbols;
    TENON_ASSIGN_OR_RETURN(const Node made, to_->build_raw(place, raw));
    for (size_t i = 0; i < results.size(); ++i) {
      const Value from = from_.results(n)[i], to = to_->results(made)[i];
      inside_[from] = to;
      to_->take_notes(ir::Noted::kValue, to, from_, from);
    }
    to_->take_notes(ir::Noted::kNode, made, from_, n);
    return {};
  }

  Result<Region> copy_region(Region r, ir::Place place) {
    TENON_ASSIGN_OR_RETURN(const Region made, to_->begin_region(place));
    for (Symbol s : from_.region(r).symbols) {
      TENON_ASSIGN_OR_RETURN(const Symbol symbol, inner_symbol(s));
      TENON_RETURN_IF_ERROR(to_->adopt_symbol(made, symbol));
    }
    for (Value v : from_.region(r).arguments) {
      TENON_ASSIGN_OR_RETURN(const ir::TypeDraft draft, type(from_.type(v)));
      const tenon_type_t view = draft.view();
      TENON_ASSIGN_OR_RETURN(inside_[v], to_->add_argument(made, view, ""));
      to_->take_notes(ir::Noted::kValue, inside_[v], from_, v);
    }
    for (Node inner : from_.nodes(r)) TENON_RETURN_IF_ERROR(copy_node(inner, {made, kNone}));
    std::vector<Value> yields;
    TENON_RETURN_IF_ERROR(values(from_.region(r).yields, &yields));
    TENON_RETURN_IF_ERROR(to_->set_yields(made, yields, {}));
    return made;
  }

  Status add_outputs(std::span<const Value> outputs) {
    std::vector<Value> yields;
    std::vector<std::string> names;
    std::vector<std::string_view> views;
    std::vector<Symbol> mentioned;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (from_.type(outputs[i]).kind != TENON_KIND_TENSOR) {
        return error(TENON_UNIMPLEMENTED, "T0506",
                     "a value of type {} would have to go from one device to another",
                     from_.type_text(from_.type(outputs[i])));
      }
      TENON_ASSIGN_OR_RETURN(const Value mapped, value(outputs[i]));
      yields.push_back(mapped);
      names.push_back(fmt::format("out{}", i));
      for (Dim d : std::span(from_.type(outputs[i]).dims, from_.type(outputs[i]).rank)) {
        if (d < 0) from_.dims().symbols_of(d, &mentioned);
      }
    }
    for (const std::string& name : names) views.push_back(name);
    std::sort(mentioned.begin(), mentioned.end());
    mentioned.erase(std::unique(mentioned.begin(), mentioned.end()), mentioned.end());
    for (Node n : nodes_) {
      for (Symbol s : from_.symbols(n)) {
        if (std::binary_search(mentioned.begin(), mentioned.end(), s))
          out_.out_symbols.push_back(s);
      }
    }
    out_.outputs.assign(outputs.begin(), outputs.end());
    return to_->set_yields(to_->main(), yields, views);
  }

  // Facts about the symbols help the compiler of the segment too.
  Status copy_facts() {
    for (const ir::DimFact& fact : from_.facts()) {
      std::vector<Symbol> symbols;
      if (fact.a < 0) from_.dims().symbols_of(fact.a, &symbols);
      if (fact.b < 0) from_.dims().symbols_of(fact.b, &symbols);
      const bool all = std::all_of(symbols.begin(), symbols.end(),
                                   [this](Symbol s) { return symbol_map_[s] != 0; });
      if (!all) continue;
      TENON_ASSIGN_OR_RETURN(const Dim a, dim(fact.a));
      TENON_ASSIGN_OR_RETURN(const Dim b, dim(fact.b));
      TENON_RETURN_IF_ERROR(to_->assert_fact(fact.rel, a, b));
    }
    return {};
  }

  const Graph& from_;
  const std::span<const Value> late_;
  std::span<const Node> nodes_;
  ir::Ref<Graph> to_;
  Subgraph out_;
  std::vector<Dim> symbol_map_;  // 0: not in the new graph
  std::vector<State> symbol_state_;
  std::unordered_map<Value, Value> inside_;  // old to new; NONE until it is created
  std::vector<Value> inputs_;
};

}  // namespace

Result<Subgraph> extract(const Graph& from, std::span<const Node> nodes,
                         std::span<const Value> outputs, std::string_view name,
                         std::span<const Value> late) {
  return Extractor(from, name, late).run(nodes, {}, outputs);
}

Result<Subgraph> extract_part(const Graph& from, std::span<const Node> nodes,
                              std::span<const Value> arguments, std::span<const Value> yields,
                              std::string_view name) {
  return Extractor(from, name).run(nodes, arguments, yields);
}

bool take_whole(const Graph& from, Subgraph* out) {
  const ir::RegionData& main = from.region(from.main());
  std::vector<Value> yields = main.yields;
  std::sort(yields.begin(), yields.end());
  if (std::adjacent_find(yields.begin(), yields.end()) != yields.end()) return false;
  Subgraph whole;
  for (Value v : main.yields) {
    if (from.value(v).kind != TENON_VALUE_RESULT) return false;
    const tenon_type_t& type = from.type(v);
    for (uint32_t i = 0; i < type.rank; ++i) {
      if (type.dims[i] >= 0) continue;
      std::vector<Symbol> symbols;
      from.dims().symbols_of(type.dims[i], &symbols);
      // Rare, so it uses the slower path, which determines the order of definition.
      for (Symbol s : symbols) {
        if (from.dims().symbol(s).node != kNone) return false;
      }
    }
  }
  whole.graph = ir::Ref<Graph>::share(const_cast<Graph*>(&from));
  whole.inputs = main.arguments;
  whole.outputs = main.yields;
  whole.symbols = main.symbols;
  *out = std::move(whole);
  return true;
}

}  // namespace tenon::dispatch
