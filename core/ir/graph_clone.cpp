// Copying: whole graphs with their indices, and region bodies with their symbols renamed.
#include <algorithm>

#include "core/base/intern.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/ir/clone.h"
#include "core/ir/graph.h"

namespace tenon::ir {

Ref<Graph> Graph::clone() const {
  Graph* g = new Graph();
  g->name_ = name_;
  g->dims_ = dims_;
  g->dims_.thaw();
  g->nodes_ = nodes_;
  for (NodeData& d : g->nodes_) {
    d.operands = g->arena_.copy(d.operands, d.operand_count);
    d.use_slots = g->arena_.copy(d.use_slots, d.operand_count);
    d.results = g->arena_.copy(d.results, d.result_count);
    d.regions = g->arena_.copy(d.regions, d.region_count);
    d.symbols = g->arena_.copy(d.symbols, d.symbol_count);
    tenon_attr_t* attrs = g->arena_.array<tenon_attr_t>(d.attr_count);
    for (uint32_t i = 0; i < d.attr_count; ++i) attrs[i] = g->copy_attr(d.attrs[i]);
    d.attrs = attrs;
  }
  g->values_ = values_;
  g->regions_ = regions_;
  for (const tenon_type_t* t : types_) {
    tenon_type_t* copy = g->arena_.array<tenon_type_t>(1);
    *copy = *t;
    copy->dims = g->arena_.copy(t->dims, t->rank);
    g->types_.push_back(copy);
  }
  g->type_by_hash_ = type_by_hash_;
  g->symbol_uses_ = symbol_uses_;
  g->argument_names_ = argument_names_;
  g->locs_ = locs_;
  g->loc_by_hash_ = loc_by_hash_;
  g->copy_all_notes(*this);
  g->live_nodes_ = live_nodes_;
  g->epoch_ = epoch_;
  return Ref<Graph>::adopt(g);
}

// Copies the body of one region of `from` into `to`.
class RegionCloner {
 public:
  RegionCloner(Graph& to, const Graph& from) : to_(to), from_(from), same_(&to == &from) {
    values_.assign(from.value_limit(), kNone);
    symbols_.assign(from.dims_.symbol_count(), kUnmapped);
    if (same_) {
      for (Symbol s = 0; s < symbols_.size(); ++s) symbols_[s] = from.dims_.symbol(s).dim;
    }
  }

  // symbols: what the region's symbols are, where that is known before; may be empty.
  Status run(Place place, Region region, std::span<const Value> values,
             std::span<const Dim> symbols, std::span<Value> out_yields) {
    const std::vector<Value> arguments = from_.region(region).arguments;
    const std::span<const Value> captured = from_.captures(region);
    const std::vector<Value> captures(captured.begin(), captured.end());
    if (values.size() != arguments.size() + captures.size()) {
      return error(
          TENON_INVALID_ARGUMENT, "T0317",
          "cloning a region with {} arguments and {} captures needs {} values; {} are given",
          arguments.size(), captures.size(), arguments.size() + captures.size(), values.size());
    }
    // The given values' types define the symbols of the region, so they must not keep their old
    // meaning.
    for (Symbol s : from_.region(region).symbols)
      symbols_[s] = s < symbols.size() ? symbols[s] : kUnmapped;
    for (size_t i = 0; i < values.size(); ++i) {
      const Value old = i < arguments.size() ? arguments[i] : captures[i - arguments.size()];
      TENON_RETURN_IF_ERROR(bind(old, values[i], place));
    }
    TENON_RETURN_IF_ERROR(check_bound(region, values));
    TENON_RETURN_IF_ERROR(body(place, region));
    const std::vector<Value> yields = from_.region(region).yields;
    for (size_t i = 0; i < yields.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(out_yields[i], map(yields[i]));
    }
    return facts();
  }

 private:
  static constexpr Dim kUnmapped = kUnmappedSymbol;

  // Maps a value and, if its type is a bare symbol, the symbol.
  Status bind(Value old, Value given, Place place) {
    if (!to_.value_live(given) || !to_.visible(given, place)) {
      return error(TENON_INVALID_ARGUMENT, "T0314",
                   "value {} is not visible where the region is cloned", given);
    }
    const tenon_type_t& a = from_.type(old);
    const tenon_type_t& b = to_.type(given);
    if (a.kind != b.kind || a.dtype != b.dtype || a.rank != b.rank || a.object != b.object) {
      return error(TENON_INVALID_ARGUMENT, "T0316",
                   "a value of type {} cannot replace one of type {}", to_.type_text(b),
                   from_.type_text(a));
    }
    for (uint32_t i = 0; i < a.rank; ++i) {
      if (a.dims[i] >= 0) continue;
      for (Symbol s = 0; s < symbols_.size(); ++s) {
        if (symbols_[s] == kUnmapped && from_.dims_.symbol(s).dim == a.dims[i])
          symbols_[s] = b.dims[i];
      }
    }
    values_[old] = given;
    return {};
  }

  // The types must agree once the symbols are substituted.
  Status check_bound(Region region, std::span<const Value> given) {
    size_t i = 0;
    for (Value old : from_.region(region).arguments) {
      TENON_ASSIGN_OR_RETURN(const TypeDraft want, type(from_.type(old)));
      const tenon_type_t& have = to_.type(given[i]);
      for (uint32_t d = 0; d < have.rank; ++d) {
        if (to_.dims_.compare(TENON_REL_EQ, want.dims[d], have.dims[d]) == TENON_NO) {
          return error(TENON_INVALID_ARGUMENT, "T0316",
                       "a value of type {} cannot replace argument {} of type {}",
                       to_.type_text(have), i, to_.type_text(want.view()));
        }
      }
      ++i;
    }
    return {};
  }

  Result<Dim> dim(Dim d) {
    if (d >= 0) return d;
    return to_.dims_.import(from_.dims_, d, symbols_);
  }

  Result<TypeDraft> type(const tenon_type_t& t) {
    TypeDraft out{t.dtype, t.kind, {}, t.object};
    for (uint32_t i = 0; i < t.rank; ++i) {
      TENON_ASSIGN_OR_RETURN(const Dim d, dim(t.dims[i]));
      out.dims.push_back(d);
    }
    return out;
  }

  Result<Value> map(Value old) {
    if (old == kNone) return kNone;
    if (values_[old] != kNone) return values_[old];
    if (from_.value(old).kind != TENON_VALUE_CONSTANT) {
      return error(TENON_INVALID_ARGUMENT, "T0314",
                   "value {} of the cloned region is defined nowhere in it", old);
    }
    if (same_) return old;
    const ValueData& d = from_.value(old);
    TENON_ASSIGN_OR_RETURN(const Loc l, loc(d.loc));
    TENON_ASSIGN_OR_RETURN(values_[old],
                           to_.add_constant(from_.type(old), d.blob, sym_text(d.name), l));
    to_.take_notes(Noted::kValue, values_[old], from_, old);
    return values_[old];
  }

  Result<Loc> loc(Loc l) {
    if (same_ || l == 0) return l;
    return to_.make_loc(from_.origins(l));
  }

  Status define(Symbol s, Symbol* out) {
    const SymbolData d = from_.dims_.symbol(s);
    TENON_ASSIGN_OR_RETURN(*out, to_.add_symbol(to_.dims_.unique_name(sym_text(d.name)), d.lo, d.hi,
                                                d.multiple_of, d.hint));
    symbols_[s] = to_.dims_.symbol(*out).dim;
    renamed_ = true;
    return {};
  }

  Result<tenon_attr_t> attr(const tenon_attr_t& a, std::deque<std::vector<Dim>>* dims,
                            std::deque<std::vector<tenon_type_t>>* types) {
    tenon_attr_t out = a;
    if (a.kind == TENON_ATTR_DIMS) {
      std::vector<Dim>& list = dims->emplace_back();
      for (uint64_t i = 0; i < a.count; ++i) {
        TENON_ASSIGN_OR_RETURN(const Dim d, dim(a.u.dims[i]));
        list.push_back(d);
      }
      out.u.dims = list.data();
    } else if (a.kind == TENON_ATTR_TYPES) {
      std::vector<tenon_type_t>& list = types->emplace_back();
      for (uint64_t i = 0; i < a.count; ++i) {
        TENON_ASSIGN_OR_RETURN(TypeDraft t, type(a.u.types[i]));
        dims->push_back(std::move(t.dims));
        tenon_type_t view = a.u.types[i];
        view.dims = dims->back().data();
        list.push_back(view);
      }
      out.u.types = list.data();
    }
    return out;
  }

  Status body(Place place, Region region) {
    const std::span<const Node> list = from_.nodes(region);
    const std::vector<Node> nodes(list.begin(), list.end());
    for (Node n : nodes) TENON_RETURN_IF_ERROR(node(place, n));
    return {};
  }

  Status node(Place place, Node old) {
    const NodeData d = from_.node(old);
    std::vector<Value> operands;
    for (uint32_t i = 0; i < d.operand_count; ++i) {
      TENON_ASSIGN_OR_RETURN(const Value v, map(d.operands[i]));
      operands.push_back(v);
    }
    std::vector<Symbol> symbols;
    for (uint32_t i = 0; i < d.symbol_count; ++i) {
      Symbol s;
      TENON_RETURN_IF_ERROR(define(d.symbols[i], &s));
      symbols.push_back(s);
    }
    std::deque<std::vector<Dim>> dims;
    std::deque<std::vector<tenon_type_t>> type_lists;
    std::vector<tenon_attr_t> attrs;
    for (uint32_t i = 0; i < d.attr_count; ++i) {
      TENON_ASSIGN_OR_RETURN(const tenon_attr_t a, attr(d.attrs[i], &dims, &type_lists));
      attrs.push_back(a);
    }
    std::vector<Region> regions;
    for (uint32_t i = 0; i < d.region_count; ++i) {
      TENON_ASSIGN_OR_RETURN(const Region r, nested(place, d.regions[i]));
      regions.push_back(r);
    }
    std::vector<TypeDraft> drafts;
    std::vector<tenon_type_t> types;
    for (uint32_t i = 0; i < d.result_count; ++i) {
      TENON_ASSIGN_OR_RETURN(TypeDraft t, type(from_.type(d.results[i])));
      drafts.push_back(std::move(t));
    }
    for (const TypeDraft& t : drafts) types.push_back(t.view());
    TENON_ASSIGN_OR_RETURN(const Loc l, loc(d.loc));
    TENON_ASSIGN_OR_RETURN(const Node made, to_.build_raw(place, {d.op, d.op_version, l, operands,
                                                                  attrs, regions, types, symbols}));
    for (uint32_t i = 0; i < d.result_count; ++i) {
      const Value v = to_.results(made)[i];
      values_[d.results[i]] = v;
      to_.values_[v].name = from_.value(d.results[i]).name;
      to_.take_notes(Noted::kValue, v, from_, d.results[i]);
    }
    to_.take_notes(Noted::kNode, made, from_, old);
    return {};
  }

  Result<Region> nested(Place place, Region old) {
    TENON_ASSIGN_OR_RETURN(const Region r, to_.begin_region(place));
    const std::vector<Symbol> defined = from_.region(old).symbols;
    for (Symbol s : defined) {
      Symbol made;
      TENON_RETURN_IF_ERROR(define(s, &made));
      TENON_RETURN_IF_ERROR(to_.adopt_symbol(r, made));
    }
    const std::vector<Value> arguments = from_.region(old).arguments;
    for (Value a : arguments) {
      TENON_ASSIGN_OR_RETURN(const TypeDraft t, type(from_.type(a)));
      TENON_ASSIGN_OR_RETURN(values_[a],
                             to_.add_argument(r, t.view(), sym_text(from_.value(a).name)));
      to_.take_notes(Noted::kValue, values_[a], from_, a);
    }
    TENON_RETURN_IF_ERROR(body({r, kNone}, old));
    std::vector<Value> yields;
    const std::vector<Value> old_yields = from_.region(old).yields;
    for (Value v : old_yields) {
      TENON_ASSIGN_OR_RETURN(const Value mapped, map(v));
      yields.push_back(mapped);
    }
    TENON_RETURN_IF_ERROR(to_.set_yields(r, yields, {}));
    return r;
  }

  // Facts about the old symbols hold for the new ones.
  Status facts() {
    if (!renamed_ && same_) return {};
    const std::vector<DimFact> known = from_.dims_.facts();
    for (const DimFact& f : known) {
      std::vector<Symbol> mentioned;
      from_.dims_.symbols_of(f.a, &mentioned);
      from_.dims_.symbols_of(f.b, &mentioned);
      const bool mapped = std::all_of(mentioned.begin(), mentioned.end(),
                                      [&](Symbol s) { return symbols_[s] != kUnmapped; });
      if (!mapped) continue;
      TENON_ASSIGN_OR_RETURN(const Dim a, dim(f.a));
      TENON_ASSIGN_OR_RETURN(const Dim b, dim(f.b));
      TENON_RETURN_IF_ERROR(to_.dims_.assert_fact(f.rel, a, b));
    }
    return {};
  }

  Graph& to_;
  const Graph& from_;
  const bool same_;
  bool renamed_ = false;
  std::vector<Value> values_;
  std::vector<Dim> symbols_;
};

Status Graph::clone_region(Place place, const Graph& from, Region region,
                           std::span<const Value> values, std::span<Value> out_yields) {
  TENON_RETURN_IF_ERROR(check_place(place));
  if (!from.region_live(region)) {
    return error(TENON_INVALID_ARGUMENT, "T0301", "there is no region {} in the graph {}", region,
                 quoted(from.name_));
  }
  if (&from == this && within(place.region, region)) {
    return error(TENON_INVALID_ARGUMENT, "T0317", "a region cannot be cloned into itself");
  }
  if (out_yields.size() < from.region(region).yields.size()) {
    return error(TENON_INVALID_ARGUMENT, "T0301", "the region has {} yields; there is room for {}",
                 from.region(region).yields.size(), out_yields.size());
  }
  return RegionCloner(*this, from).run(place, region, values, {}, out_yields);
}

Status clone_region_with(Graph& to, Place place, const Graph& from, Region region,
                         std::span<const Value> values, std::span<const Dim> symbols,
                         std::span<Value> out_yields) {
  return RegionCloner(to, from).run(place, region, values, symbols, out_yields);
}

}  // namespace tenon::ir
