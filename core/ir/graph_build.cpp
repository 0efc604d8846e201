// Changing graphs: nodes, arguments, constants, uses, types.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/checked.h"
#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/limits.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/ir/graph.h"

namespace tenon::ir {
namespace {

using arithmetic::mix;

Status bad(std::string_view what, uint64_t index) {
  return error(TENON_INVALID_ARGUMENT, "T0301", "there is no {} {} in this graph", what, index);
}

bool by_name(const tenon_attr_t& a, const tenon_attr_t& b) {
  return sym_text(a.name) < sym_text(b.name);
}

}  // namespace

Status Graph::mutable_or_fail() const {
  if (!frozen_) return {};
  return error(TENON_FAILED_PRECONDITION, "T0302", "the graph {} is frozen; clone it to change it",
               quoted(name_));
}

// ---- Types and attributes ----

Status Graph::check_type(const tenon_type_t& type) const {
  if (type.layout != nullptr)
    return error(TENON_UNIMPLEMENTED, "T0670", "a type has a layout, and this host knows none");
  if (type.kind == TENON_KIND_TOKEN) {
    if (type.rank != 0) return error(TENON_INVALID_ARGUMENT, "T0310", "a token has no dims");
    return {};
  }
  if (type.kind == TENON_KIND_OBJECT) {
    if (type.rank != 0 || type.object == 0) {
      return error(TENON_INVALID_ARGUMENT, "T0310", "an object type has a name and no dims");
    }
    return {};
  }
  if (type.kind != TENON_KIND_TENSOR || !dtype_valid(type.dtype)) {
    return error(TENON_INVALID_ARGUMENT, "T0310", "{} is not an element type of kind {}",
                 type.dtype, type.kind);
  }
  TENON_RETURN_IF_ERROR(check_limit(Limit::kRank, type.rank, "a tensor type"));
  uint64_t count = 1;
  bool zero = false;
  for (uint32_t i = 0; i < type.rank; ++i) {
    if (!dims_.valid(type.dims[i])) return bad("dim", static_cast<uint64_t>(type.dims[i]));
    if (dims_.range(type.dims[i]).hi < 0) {
      return error(TENON_INVALID_ARGUMENT, "T0310", "dim {} of {} is negative", i, type_text(type));
    }
    if (type.dims[i] < 0) continue;
    zero = zero || type.dims[i] == 0;
    if (!checked_mul(count, static_cast<uint64_t>(type.dims[i]), &count)) count = UINT64_MAX;
    if (zero) count = 0;
  }
  return zero ? Status() : check_limit(Limit::kElements, count, "a tensor type");
}

Result<uint32_t> Graph::intern_type(const tenon_type_t& type) {
  TENON_RETURN_IF_ERROR(check_type(type));
  uint64_t h = mix(mix(mix(type.dtype, type.kind), type.rank), type.object);
  for (uint32_t i = 0; i < type.rank; ++i) h = mix(h, static_cast<uint64_t>(type.dims[i]));
  std::vector<uint32_t>& same = type_by_hash_[h];
  for (uint32_t t : same) {
    const tenon_type_t& known = *types_[t];
    if (known.dtype == type.dtype && known.kind == type.kind && known.rank == type.rank &&
        known.object == type.object && std::equal(type.dims, type.dims + type.rank, known.dims)) {
      return t;
    }
  }
  tenon_type_t* stored = arena_.array<tenon_type_t>(1);
  *stored = type;
  stored->dims = arena_.copy(type.dims, type.rank);
  if (type.kind != TENON_KIND_TENSOR) stored->dtype = TENON_DTYPE_NONE;
  if (type.kind != TENON_KIND_OBJECT) stored->object = 0;
  const uint32_t index = static_cast<uint32_t>(types_.size());
  types_.push_back(stored);
  same.push_back(index);
  return index;
}

Status Graph::check_attr(const tenon_attr_t& a) const {
  if (a.name == 0 || a.kind < TENON_ATTR_I64 || a.kind > TENON_ATTR_DTYPE) {
    return error(TENON_INVALID_ARGUMENT, "T0311", "attribute {} has the unknown kind {}",
                 quoted(sym_text(a.name)), a.kind);
  }
  if (a.kind == TENON_ATTR_DIMS) {
    for (uint64_t i = 0; i < a.count; ++i) {
      if (!dims_.valid(a.u.dims[i])) return bad("dim", static_cast<uint64_t>(a.u.dims[i]));
    }
  }
  if (a.kind == TENON_ATTR_TYPES) {
    for (uint64_t i = 0; i < a.count; ++i) TENON_RETURN_IF_ERROR(check_type(a.u.types[i]));
  }
  return {};
}

tenon_attr_t Graph::copy_attr(const tenon_attr_t& a) {
  tenon_attr_t out = a;
  auto copy_str = [this](tenon_str_t s) {
    return tenon_str_t{arena_.copy(s.data, s.size), s.size};
  };
  switch (a.kind) {
    case TENON_ATTR_STRING:
      out.u.s = copy_str(a.u.s);
      break;
    case TENON_ATTR_I64S:
      out.u.is = arena_.copy(a.u.is, a.count);
      break;
    case TENON_ATTR_F64S:
      out.u.fs = arena_.copy(a.u.fs, a.count);
      break;
    case TENON_ATTR_DIMS:
      out.u.dims = arena_.copy(a.u.dims, a.count);
      break;
    case TENON_ATTR_STRINGS: {
      tenon_str_t* ss = arena_.array<tenon_str_t>(a.count);
      for (uint64_t i = 0; i < a.count; ++i) ss[i] = copy_str(a.u.ss[i]);
      out.u.ss = ss;
      break;
    }
    case TENON_ATTR_TYPES: {
      tenon_type_t* types = arena_.copy(a.u.types, a.count);
      for (uint64_t i = 0; i < a.count; ++i)
        types[i].dims = arena_.copy(types[i].dims, types[i].rank);
      out.u.types = types;
      break;
    }
    case TENON_ATTR_BLOB:
      if (a.u.blob != nullptr) attr_blobs_.push_back(Ref<Blob>::share(Blob::from(a.u.blob)));
      break;
    default:
      break;
  }
  return out;
}

void Graph::count_symbols(const tenon_type_t& type, int delta) {
  for (uint32_t i = 0; i < type.rank; ++i) {
    if (type.dims[i] >= 0) continue;
    std::vector<Symbol> symbols;
    dims_.symbols_of(type.dims[i], &symbols);
    for (Symbol s : symbols) {
      if (s >= symbol_uses_.size()) symbol_uses_.resize(s + 1);
      symbol_uses_[s] += static_cast<uint32_t>(delta);
    }
  }
}

void Graph::count_symbols(const tenon_attr_t& a, int delta) {
  if (a.kind == TENON_ATTR_DIMS) {
    count_symbols(
        tenon_type_t{TENON_I64, TENON_KIND_TENSOR, static_cast<uint32_t>(a.count), a.u.dims, 0},
        delta);
  } else if (a.kind == TENON_ATTR_TYPES) {
    for (uint64_t i = 0; i < a.count; ++i) count_symbols(a.u.types[i], delta);
  }
}

void Graph::count_symbols_of(Node n, int delta) {
  for (Value v : results(n)) count_symbols(type(v), delta);
  for (const tenon_attr_t& a : attrs(n)) count_symbols(a, delta);
}

// ---- Uses and order ----

uint32_t Graph::add_use(Value v, Use use) {
  std::vector<Use>& uses = values_[v].uses;
  uses.push_back(use);
  return static_cast<uint32_t>(uses.size() - 1);
}

void Graph::remove_use(Value v, uint32_t slot) {
  std::vector<Use>& uses = values_[v].uses;
  uses[slot] = uses.back();
  uses.pop_back();
  if (slot == uses.size()) return;
  const Use moved = uses[slot];
  if (moved.node != kNone)
    nodes_[moved.node].use_slots[moved.index] = slot;
  else
    regions_[moved.region].yield_slots[moved.index] = slot;
}

void Graph::link(Node n, Place place) {
  RegionData& r = regions_[place.region];
  NodeData& d = nodes_[n];
  d.parent = place.region;
  d.next = place.before;
  d.prev = place.before == kNone ? r.last : nodes_[place.before].prev;
  (d.prev == kNone ? r.first : nodes_[d.prev].next) = n;
  (d.next == kNone ? r.last : nodes_[d.next].prev) = n;
  ++r.node_count;
  if (d.next == kNone) {
    d.order = (d.prev == kNone ? 0 : nodes_[d.prev].order) + (uint64_t{1} << 20);
    // Appending keeps the list current, so that building in order costs nothing extra.
    if (r.list_valid) r.node_list.push_back(n);
  } else {
    const uint64_t lo = d.prev == kNone ? 0 : nodes_[d.prev].order;
    const uint64_t hi = nodes_[d.next].order;
    if (hi - lo < 2) r.order_valid = false;
    d.order = lo + (hi - lo) / 2;
    r.list_valid = false;
  }
  touch();
}

void Graph::unlink(Node n) {
  NodeData& d = nodes_[n];
  RegionData& r = regions_[d.parent];
  (d.prev == kNone ? r.first : nodes_[d.prev].next) = d.next;
  (d.next == kNone ? r.last : nodes_[d.next].prev) = d.prev;
  --r.node_count;
  if (r.list_valid && !r.node_list.empty() && r.node_list.back() == n)
    r.node_list.pop_back();
  else
    r.list_valid = false;
  d.parent = d.prev = d.next = kNone;
  touch();
}

Status Graph::check_place(Place place) const {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!region_live(place.region)) return bad("region", place.region);
  if (place.before != kNone &&
      (!node_live(place.before) || nodes_[place.before].parent != place.region)) {
    return error(TENON_INVALID_ARGUMENT, "T0301", "node {} is not in region {}", place.before,
                 place.region);
  }
  return {};
}

// ---- Building ----

Result<Value> Graph::add_argument(Region r, const tenon_type_t& type, std::string_view name,
                                  Loc loc) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!region_live(r)) return bad("region", r);
  if (r != 0 && regions_[r].owner != kNone) {
    return error(TENON_FAILED_PRECONDITION, "T0317",
                 "a region that belongs to a node gets no more arguments");
  }
  TENON_RETURN_IF_ERROR(
      check_limit(Limit::kOperands, regions_[r].arguments.size() + 1, "a region's arguments"));
  TENON_RETURN_IF_ERROR(check_limit(Limit::kNameBytes, name.size(), "an argument's name"));
  const tenon_sym_t sym = intern(name);
  TENON_ASSIGN_OR_RETURN(const uint32_t t, intern_type(type));  // a refused type takes no name
  if (r == 0 && sym != 0 && !argument_names_.insert(sym).second) {
    return error(TENON_ALREADY_EXISTS, "T0203", "the graph {} has two inputs named {}",
                 quoted(name_), quoted(name));
  }
  const Value v = static_cast<Value>(values_.size());
  ValueData& d = values_.emplace_back();
  d.kind = TENON_VALUE_ARGUMENT;
  d.type = t;
  d.name = sym;
  d.loc = loc;
  d.region = r;
  d.index = static_cast<uint32_t>(regions_[r].arguments.size());
  regions_[r].arguments.push_back(v);
  count_symbols(*types_[t], 1);
  touch();
  return v;
}

Status Graph::set_yields(Region r, std::span<const Value> values,
                         std::span<const std::string_view> names) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!region_live(r)) return bad("region", r);
  RegionData& d = regions_[r];
  TENON_RETURN_IF_ERROR(check_limit(Limit::kOperands, values.size(), "a region's yields"));
  if (!names.empty() && names.size() != values.size()) {
    return error(TENON_INVALID_ARGUMENT, "T0317", "{} yields have {} names", values.size(),
                 names.size());
  }
  std::unordered_set<tenon_sym_t> seen;
  for (std::string_view name : names) {
    TENON_RETURN_IF_ERROR(check_limit(Limit::kNameBytes, name.size(), "an output's name"));
    if (!name.empty() && !seen.insert(intern(name)).second) {
      return error(TENON_ALREADY_EXISTS, "T0203", "the graph {} has two outputs named {}",
                   quoted(name_), quoted(name));
    }
  }
  for (Value v : values) {
    if (!value_live(v)) return bad("value", v);
    if (!visible(v, {r, kNone})) {
      return error(TENON_INVALID_ARGUMENT, "T0314",
                   "value {} is not visible at the end of region {}", v, r);
    }
  }
  for (uint32_t i = 0; i < d.yields.size(); ++i) remove_use(d.yields[i], d.yield_slots[i]);
  d.yields.assign(values.begin(), values.end());
  d.yield_slots.assign(values.size(), 0);
  for (uint32_t i = 0; i < d.yields.size(); ++i)
    d.yield_slots[i] = add_use(d.yields[i], {kNone, r, i});
  if (r == 0) {
    d.output_names.assign(values.size(), 0);
    for (size_t i = 0; i < names.size(); ++i) d.output_names[i] = intern(names[i]);
  }
  touch();
  return {};
}

Result<Region> Graph::begin_region(Place place) {
  TENON_RETURN_IF_ERROR(check_place(place));
  TENON_RETURN_IF_ERROR(check_limit(Limit::kDepth, depth(place.region) + 1, "regions of a graph"));
  const Region r = static_cast<Region>(regions_.size());
  RegionData& d = regions_.emplace_back();
  d.begun = place;
  return r;
}

// `types` are interned and everything is checked already.
Node Graph::insert(Place place, const RawNode& raw, std::span<const uint32_t> types,
                   uint64_t traits) {
  const Node n = static_cast<Node>(nodes_.size());
  NodeData d;
  d.op = raw.op;
  d.op_version = raw.op_version;
  d.traits = traits;
  d.loc = raw.loc;
  d.operand_count = static_cast<uint32_t>(raw.operands.size());
  d.result_count = static_cast<uint32_t>(types.size());
  d.attr_count = static_cast<uint32_t>(raw.attrs.size());
  d.region_count = static_cast<uint32_t>(raw.regions.size());
  d.symbol_count = static_cast<uint32_t>(raw.symbols.size());
  d.operands = arena_.copy(raw.operands.data(), raw.operands.size());
  d.use_slots = arena_.array<uint32_t>(raw.operands.size());
  d.results = arena_.array<Value>(types.size());
  d.attrs = arena_.array<tenon_attr_t>(raw.attrs.size());
  for (size_t i = 0; i < raw.attrs.size(); ++i) d.attrs[i] = copy_attr(raw.attrs[i]);
  d.regions = arena_.copy(raw.regions.data(), raw.regions.size());
  d.symbols = arena_.copy(raw.symbols.data(), raw.symbols.size());
  nodes_.push_back(d);
  for (uint32_t i = 0; i < d.operand_count; ++i) {
    d.use_slots[i] = d.operands[i] == kNone ? 0 : add_use(d.operands[i], {n, kNone, i});
  }
  for (uint32_t i = 0; i < d.result_count; ++i) {
    d.results[i] = static_cast<Value>(values_.size());
    ValueData& v = values_.emplace_back();
    v.kind = TENON_VALUE_RESULT;
    v.type = types[i];
    v.loc = raw.loc;
    v.node = n;
    v.index = i;
  }
  for (Region r : raw.regions) regions_[r].owner = n;
  for (Symbol s : raw.symbols) dims_.symbol(s).node = n;
  count_symbols_of(n, 1);
  link(n, place);
  ++live_nodes_;
  return n;
}

Status Graph::check_draft(Place place, const NodeDraft& draft) const {
  TENON_RETURN_IF_ERROR(check_place(place));
  TENON_RETURN_IF_ERROR(check_limit(Limit::kNodes, live_nodes_ + 1, "a graph"));
  TENON_RETURN_IF_ERROR(check_limit(Limit::kOperands, draft.operands.size(), "a node"));
  TENON_RETURN_IF_ERROR(check_limit(Limit::kOperands, draft.attrs.size(), "a node's attributes"));
  for (size_t i = 0; i < draft.operands.size(); ++i) {
    const Value v = draft.operands[i];
    if (v == kNone) continue;
    if (!value_live(v)) return bad("value", v);
    if (!visible(v, place)) {
      return error(TENON_INVALID_ARGUMENT, "T0314",
                   "operand {} is a value that is defined later or in another region", i);
    }
  }
  for (const tenon_attr_t& a : draft.attrs) TENON_RETURN_IF_ERROR(check_attr(a));
  for (size_t i = 0; i < draft.regions.size(); ++i) {
    const Region r = draft.regions[i];
    const bool fresh =
        r != 0 && region_live(r) && regions_[r].owner == kNone &&
        std::find(draft.regions.begin(), draft.regions.begin() + static_cast<ptrdiff_t>(i), r) ==
            draft.regions.begin() + static_cast<ptrdiff_t>(i);
    if (!fresh || within(place.region, r)) {
      return error(TENON_INVALID_ARGUMENT, "T0317",
                   "region {} does not exist or is attached already", r);
    }
  }
  if (draft.loc >= locs_.size()) return bad("location", draft.loc);
  return {};
}

Result<Node> Graph::build(Place place, const NodeDraft& draft) {
  const auto where = [&](Status s) {
    std::string at = fmt::format("building the op {}", quoted(sym_text(draft.op)));
    if (draft.loc != 0) {
      at += " at " + loc_text(draft.loc);
      s.add("location", loc_text(draft.loc));
    }
    return std::move(s).with_context(std::move(at)).with("op", sym_text(draft.op));
  };
  if (Status s = check_draft(place, draft); !s.ok()) return where(std::move(s));
  if (draft.loc != 0) dims_.set_place(draft.loc);
  if (op_set() == nullptr) {
    return error(TENON_FAILED_PRECONDITION, "T0308", "no operators are registered in this process");
  }
  std::vector<Symbol> made;
  std::vector<Symbol>* const outer = std::exchange(inferring_, &made);
  Result<Inferred> inferred = op_set()->infer(*this, draft);
  inferring_ = outer;
  auto finish = [&]() -> Result<Node> {
    TENON_RETURN_IF_ERROR(inferred.status());
    if (!made.empty() && !(inferred->def->traits & TENON_TRAIT_DEFINES_SYMBOL)) {
      return error(TENON_INTERNAL, "T0320",
                   "the op defines symbols but its declaration does not say so");
    }
    std::vector<uint32_t> types;
    for (size_t i = 0; i < inferred->results.size(); ++i) {
      tenon_type_t type = inferred->results[i].view();
      if (!draft.result_types.empty()) {
        if (draft.result_types.size() != inferred->results.size()) {
          return error(TENON_INVALID_ARGUMENT, "T0313", "the op has {} results; {} are declared",
                       inferred->results.size(), draft.result_types.size());
        }
        TENON_RETURN_IF_ERROR(check_type(draft.result_types[i]));
        if (!types_agree(type, draft.result_types[i])) {
          return error(TENON_INVALID_ARGUMENT, "T0313",
                       "result {} is declared as {} but inferred as {}", i,
                       type_text(draft.result_types[i]), type_text(type));
        }
        // Provably equal: the form of the declared type is kept.
        type = draft.result_types[i];
      }
      TENON_ASSIGN_OR_RETURN(const uint32_t t, intern_type(type));
      types.push_back(t);
    }
    if (draft.result_types.size() > inferred->results.size()) {
      return error(TENON_INVALID_ARGUMENT, "T0313", "the op has {} results; {} are declared",
                   inferred->results.size(), draft.result_types.size());
    }
    for (const DimFact& f : inferred->facts)
      TENON_RETURN_IF_ERROR(dims_.assert_fact(f.rel, f.a, f.b));
    std::vector<tenon_attr_t> attrs = inferred->attrs;
    std::sort(attrs.begin(), attrs.end(), by_name);
    RawNode raw{draft.op, inferred->def->version, draft.loc, draft.operands,
                attrs,    draft.regions,          {},        made};
    return insert(place, raw, types, inferred->def->traits);
  };
  Result<Node> node = finish();
  if (node.ok()) return node;
  for (Symbol s : made) dims_.symbol_retire(s);
  return where(std::move(node).status());
}

Result<Node> Graph::build_raw(Place place, const RawNode& raw) {
  const NodeDraft draft{raw.op, raw.op_version, raw.loc, raw.operands, raw.attrs, raw.regions, {}};
  TENON_RETURN_IF_ERROR(check_draft(place, draft));
  if (!std::is_sorted(raw.attrs.begin(), raw.attrs.end(), by_name)) {
    return error(TENON_INVALID_ARGUMENT, "T0311", "the attributes of a node are not sorted");
  }
  const tenon_op_def_t* def =
      op_set() == nullptr ? nullptr : op_set()->find(raw.op, raw.op_version);
  if (def == nullptr) {
    if (op_set() == nullptr)
      return error(TENON_NOT_FOUND, "T0308", "no operators are registered in this process");
    return op_set()->unknown(raw.op, raw.op_version);
  }
  for (Symbol s : raw.symbols) {
    if (s >= dims_.symbol_count() || dims_.symbol(s).node != kNone ||
        dims_.symbol(s).region != kNone) {
      return error(TENON_INVALID_ARGUMENT, "T0318", "symbol {} is defined twice or not at all", s);
    }
  }
  std::vector<uint32_t> types;
  for (const tenon_type_t& type : raw.result_types) {
    TENON_ASSIGN_OR_RETURN(const uint32_t t, intern_type(type));
    types.push_back(t);
  }
  return insert(place, raw, types, def->traits);
}

Status Graph::declare_results(Node n, std::span<const tenon_type_t> types) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!node_live(n)) return bad("node", n);
  if (types.size() != nodes_[n].result_count) {
    return error(TENON_INVALID_ARGUMENT, "T0313", "the op has {} results; {} are declared",
                 nodes_[n].result_count, types.size());
  }
  for (uint32_t i = 0; i < types.size(); ++i) {
    const Value v = nodes_[n].results[i];
    const tenon_type_t have = type(v);
    if (types[i].layout != nullptr) return check_type(types[i]);
    bool agree = have.kind == types[i].kind && have.dtype == types[i].dtype &&
                 have.rank == types[i].rank && have.object == types[i].object;
    for (uint32_t k = 0; agree && k < have.rank; ++k) {
      agree = dims_.compare(TENON_REL_EQ, have.dims[k], types[i].dims[k]) != TENON_NO;
    }
    if (!agree) {
      return error(TENON_INVALID_ARGUMENT, "T0313",
                   "result {} is declared as {} but inferred as {}", i, type_text(types[i]),
                   type_text(have));
    }
    TENON_ASSIGN_OR_RETURN(const uint32_t t, intern_type(types[i]));
    count_symbols(have, -1);
    values_[v].type = t;
    count_symbols(*types_[t], 1);
  }
  touch();
  return {};
}

Result<Value> Graph::add_constant(const tenon_type_t& type, Ref<Blob> blob, std::string_view name,
                                  Loc loc) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  TENON_RETURN_IF_ERROR(check_type(type));
  if (type.kind != TENON_KIND_TENSOR || !blob) {
    return error(TENON_INVALID_ARGUMENT, "T0319", "a constant is a tensor with a blob");
  }
  for (uint32_t i = 0; i < type.rank; ++i) {
    if (type.dims[i] < 0) {
      return error(TENON_INVALID_ARGUMENT, "T0319",
                   "a constant of type {} would have symbolic dims", type_text(type));
    }
  }
  TENON_ASSIGN_OR_RETURN(const uint64_t count, element_count({type.dims, type.rank}));
  TENON_RETURN_IF_ERROR(check_limit(Limit::kElements, count, "a constant"));
  TENON_ASSIGN_OR_RETURN(const uint64_t bytes, packed_bytes(count, dtype_bits(type.dtype)));
  if (bytes != blob->size_bytes()) {
    return error(TENON_INVALID_ARGUMENT, "T0319",
                 "a constant of type {} needs {} bytes; the blob has {}", type_text(type), bytes,
                 blob->size_bytes());
  }
  TENON_RETURN_IF_ERROR(check_limit(Limit::kNameBytes, name.size(), "a constant's name"));
  if (loc >= locs_.size()) return bad("location", loc);
  TENON_ASSIGN_OR_RETURN(const uint32_t t, intern_type(type));
  const Value v = static_cast<Value>(values_.size());
  ValueData& d = values_.emplace_back();
  d.kind = TENON_VALUE_CONSTANT;
  d.type = t;
  d.name = intern(name);
  d.loc = loc;
  d.blob = std::move(blob);
  touch();
  return v;
}

Status Graph::set_name(Value v, std::string_view name) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!value_live(v)) return bad("value", v);
  TENON_RETURN_IF_ERROR(check_limit(Limit::kNameBytes, name.size(), "a value's name"));
  ValueData& d = values_[v];
  const tenon_sym_t sym = intern(name);
  if (sym == d.name) return {};
  if (d.kind == TENON_VALUE_ARGUMENT && d.region == 0) {
    if (sym != 0 && !argument_names_.insert(sym).second) {
      return error(TENON_ALREADY_EXISTS, "T0203", "the graph {} has two inputs named {}",
                   quoted(name_), quoted(name));
    }
    argument_names_.erase(d.name);
  }
  d.name = sym;
  return {};
}

Status Graph::set_loc(Node n, Loc loc) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!node_live(n)) return bad("node", n);
  if (loc >= locs_.size()) return bad("location", loc);
  nodes_[n].loc = loc;
  for (Value v : results(n)) values_[v].loc = loc;
  return {};
}

Status Graph::replace(Value from, Value to) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!value_live(from)) return bad("value", from);
  if (!value_live(to)) return bad("value", to);
  if (from == to) return {};
  if (!types_agree(type(from), type(to))) {
    return error(TENON_INVALID_ARGUMENT, "T0316",
                 "a value of type {} cannot replace one of type {}", type_text(type(to)),
                 type_text(type(from)));
  }
  pass_notes(from, to);
  for (const Use& use : values_[from].uses) {
    const uint32_t slot = add_use(to, use);
    if (use.node != kNone) {
      nodes_[use.node].operands[use.index] = to;
      nodes_[use.node].use_slots[use.index] = slot;
    } else {
      regions_[use.region].yields[use.index] = to;
      regions_[use.region].yield_slots[use.index] = slot;
    }
  }
  values_[from].uses.clear();
  touch();
  return {};
}

Status Graph::set_operand(Node n, uint32_t index, Value v) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!node_live(n)) return bad("node", n);
  NodeData& d = nodes_[n];
  if (index >= d.operand_count) return bad("operand", index);
  if (v != kNone && !value_live(v)) return bad("value", v);
  const Value old = d.operands[index];
  if (old == v) return {};
  if (v != kNone && !visible(v, {d.parent, n})) {
    return error(TENON_INVALID_ARGUMENT, "T0314", "value {} is not visible at node {}", v, n);
  }
  const bool same_type = old != kNone && v != kNone && types_agree(type(old), type(v));
  if (!same_type) {
    // Another type may change the results: ask the op, and refuse if they would change.
    std::vector<Value> operands(d.operands, d.operands + d.operand_count);
    operands[index] = v;
    const NodeDraft draft{d.op, d.op_version, d.loc, operands, attrs(n), regions(n), {}};
    std::vector<Symbol> made;
    std::vector<Symbol>* const outer = std::exchange(inferring_, &made);
    Result<Inferred> inferred = op_set()->infer(*this, draft);
    inferring_ = outer;
    for (Symbol s : made) dims_.symbol_retire(s);
    TENON_RETURN_IF_ERROR(inferred.status());
    bool agree = inferred->results.size() == nodes_[n].result_count;
    for (uint32_t i = 0; agree && i < nodes_[n].result_count; ++i) {
      agree = types_agree(inferred->results[i].view(), type(nodes_[n].results[i]));
    }
    if (!agree) {
      return error(TENON_INVALID_ARGUMENT, "T0316",
                   "operand {} of {} cannot be exchanged: the results' types would change", index,
                   quoted(op_name(n)));
    }
  }
  NodeData& node = nodes_[n];
  if (old != kNone) remove_use(old, node.use_slots[index]);
  node.operands[index] = v;
  node.use_slots[index] = v == kNone ? 0 : add_use(v, {n, kNone, index});
  touch();
  return {};
}

// ---- Erasing and moving ----

void Graph::drop_region(Region r) {
  RegionData& d = regions_[r];
  for (uint32_t i = 0; i < d.yields.size(); ++i) remove_use(d.yields[i], d.yield_slots[i]);
  d.yields.clear();
  while (regions_[r].last != kNone) drop(regions_[r].last);
  for (Value v : regions_[r].arguments) {
    notes_[TENON_NOTED_VALUE].erase(v);
    count_symbols(type(v), -1);
    values_[v].kind = 0;
  }
  for (Symbol s : regions_[r].symbols) dims_.symbol_retire(s);
  regions_[r].alive = false;
}

void Graph::drop(Node n) {
  for (Region r : regions(n)) drop_region(r);
  const NodeData d = nodes_[n];
  for (uint32_t i = 0; i < d.operand_count; ++i) {
    if (d.operands[i] != kNone) remove_use(d.operands[i], d.use_slots[i]);
  }
  drop_notes(n);
  count_symbols_of(n, -1);
  for (Value v : results(n)) values_[v].kind = 0;
  for (Symbol s : symbols(n)) dims_.symbol_retire(s);
  unlink(n);
  --live_nodes_;
}

// Fails if something other than node n and its regions mentions symbols of n.
Status Graph::symbols_unused_outside(Node n) {
  if (nodes_[n].symbol_count == 0) return {};
  const std::vector<uint32_t> before = symbol_uses_;
  count_symbols_of(n, -1);
  // A region of the node cannot see the node's symbols, so nothing inside counts.
  Status out;
  for (Symbol s : symbols(n)) {
    if (symbol_uses(s) != 0) {
      out = error(TENON_FAILED_PRECONDITION, "T0315",
                  "the symbol {} that {} defines is used by types",
                  quoted(sym_text(dims_.symbol(s).name)), quoted(op_name(n)));
    }
  }
  symbol_uses_ = before;
  return out;
}

Status Graph::erase(Node n) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!node_live(n)) return bad("node", n);
  for (Value v : results(n)) {
    if (!values_[v].uses.empty()) {
      return error(TENON_FAILED_PRECONDITION, "T0315", "result {} of {} still has {} uses",
                   values_[v].index, quoted(op_name(n)), values_[v].uses.size());
    }
  }
  TENON_RETURN_IF_ERROR(symbols_unused_outside(n));
  drop(n);
  return {};
}

Status Graph::move(Node n, Node before) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!node_live(n)) return bad("node", n);
  if (!node_live(before)) return bad("node", before);
  if (n == before || nodes_[n].next == before) return {};
  if (within(nodes_[before].parent, nodes_[n].parent) &&
      nodes_[before].parent != nodes_[n].parent) {
    for (Region r : regions(n)) {
      if (within(nodes_[before].parent, r)) {
        return error(TENON_INVALID_ARGUMENT, "T0317", "a node cannot be moved into its own region");
      }
    }
  }
  const Region target = nodes_[before].parent;
  unlink(n);
  link(n, {target, before});
  return {};
}

// ---- Dims and symbols ----

Result<Dim> Graph::make_dim(uint32_t op, Dim a, Dim b) {
  return frozen_ ? dims_.find(op, a, b) : dims_.make(op, a, b);
}

Result<Symbol> Graph::add_symbol(std::string_view name, int64_t lo, int64_t hi, int64_t multiple_of,
                                 int64_t hint) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  TENON_RETURN_IF_ERROR(check_limit(Limit::kNameBytes, name.size(), "a symbol's name"));
  return dims_.symbol_add(name, lo, hi, multiple_of, hint);
}

Status Graph::adopt_symbol(Region r, Symbol s) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!region_live(r)) return bad("region", r);
  if (s >= dims_.symbol_count() || dims_.symbol(s).node != kNone ||
      dims_.symbol(s).region != kNone) {
    return error(TENON_INVALID_ARGUMENT, "T0318", "symbol {} is defined twice or not at all", s);
  }
  dims_.symbol(s).region = r;
  regions_[r].symbols.push_back(s);
  touch();
  return {};
}

Result<Symbol> Graph::define_symbol(Region r, std::string_view name, int64_t lo, int64_t hi,
                                    int64_t multiple_of, int64_t hint) {
  if (!region_live(r)) return bad("region", r);
  TENON_ASSIGN_OR_RETURN(const Symbol s,
                         add_symbol(dims_.unique_name(name), lo, hi, multiple_of, hint));
  TENON_RETURN_IF_ERROR(adopt_symbol(r, s));
  return s;
}

Result<Symbol> Graph::fresh_symbol(int64_t lo, int64_t hi, int64_t multiple_of) {
  if (inferring_ == nullptr) {
    return error(TENON_FAILED_PRECONDITION, "T0318",
                 "symbols of a node are made by its inference only");
  }
  std::string name = dims_.unique_name("u0");
  if (name != "u0") name = dims_.unique_name("u" + std::to_string(dims_.symbol_count()));
  TENON_ASSIGN_OR_RETURN(const Symbol s, add_symbol(name, lo, hi, multiple_of, -1));
  inferring_->push_back(s);
  return s;
}

Status Graph::assert_fact(uint32_t rel, Dim a, Dim b) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  return dims_.assert_fact(rel, a, b);
}

}  // namespace tenon::ir
