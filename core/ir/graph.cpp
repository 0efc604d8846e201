// Reading graphs: order, visibility, captures, locations, views.
#include "core/ir/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/intern.h"
#include "core/base/limits.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"

namespace tenon::ir {
namespace {

using arithmetic::mix;

OpSet* g_op_set = nullptr;  // set once while the process starts

}  // namespace

void set_op_set(OpSet* ops) {
  g_op_set = ops;
}
OpSet* op_set() {
  return g_op_set;
}

// ---- Arena ----

void* Arena::allocate(size_t bytes, size_t alignment) {
  const uintptr_t at = (reinterpret_cast<uintptr_t>(cursor_) + alignment - 1) & ~(alignment - 1);
  if (cursor_ == nullptr || at + bytes > reinterpret_cast<uintptr_t>(end_)) {
    const size_t size = std::max<size_t>(bytes + alignment, size_t{16} << 10);
    blocks_.push_back(std::make_unique<std::byte[]>(size));
    std::byte* begin = blocks_.back().get();
    if (bytes > (size_t{4} << 10) && cursor_ != nullptr) {
      // A large piece gets a block of its own and leaves the open block open.
      const uintptr_t p = (reinterpret_cast<uintptr_t>(begin) + alignment - 1) & ~(alignment - 1);
      return reinterpret_cast<void*>(p);
    }
    cursor_ = begin;
    end_ = begin + size;
    return allocate(bytes, alignment);
  }
  cursor_ = reinterpret_cast<std::byte*>(at + bytes);
  return reinterpret_cast<void*>(at);
}

// ---- Lifetime ----

Ref<Graph> Graph::create(std::string_view name) {
  Graph* g = new Graph();
  g->name_ = name;
  g->regions_.emplace_back();
  return Ref<Graph>::adopt(g);
}

void Graph::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void Graph::freeze() {
  if (frozen_) return;
  for (Region r = 0; r < regions_.size(); ++r) {
    if (!regions_[r].alive) continue;
    nodes(r);
    captures(r);
    if (!regions_[r].order_valid) renumber(r);
  }
  dims_.freeze_views();
  frozen_ = true;
}

// ---- Reading ----

std::string_view Graph::op_name(Node n) const {
  return sym_text(nodes_[n].op);
}

const tenon_attr_t* Graph::attr(Node n, tenon_sym_t name) const {
  for (const tenon_attr_t& a : attrs(n)) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

std::span<const Node> Graph::nodes(Region r) const {
  RegionData& d = regions_[r];
  if (!d.list_valid) {
    d.node_list.clear();
    d.node_list.reserve(d.node_count);
    for (Node n = d.first; n != kNone; n = nodes_[n].next) d.node_list.push_back(n);
    d.list_valid = true;
  }
  return d.node_list;
}

Region Graph::region_of(Value v) const {
  const ValueData& d = values_[v];
  if (d.kind == TENON_VALUE_ARGUMENT) return d.region;
  return d.kind == TENON_VALUE_RESULT ? nodes_[d.node].parent : kNone;
}

Region Graph::enclosing(Region r) const {
  if (r == 0) return kNone;
  const RegionData& d = regions_[r];
  return d.owner != kNone ? nodes_[d.owner].parent : d.begun.region;
}

uint32_t Graph::depth(Region r) const {
  uint32_t depth = 0;
  for (Region at = r; at != 0 && at != kNone; at = enclosing(at)) ++depth;
  return depth;
}

bool Graph::within(Region inner, Region outer) const {
  for (Region at = inner; at != kNone; at = enclosing(at)) {
    if (at == outer) return true;
  }
  return false;
}

void Graph::renumber(Region r) const {
  uint64_t key = 0;
  for (Node n = regions_[r].first; n != kNone; n = nodes_[n].next)
    nodes_[n].order = key += uint64_t{1} << 20;
  regions_[r].order_valid = true;
}

bool Graph::comes_before(Node a, Node b) const {
  const Region r = nodes_[a].parent;
  if (!regions_[r].order_valid) renumber(r);
  return nodes_[a].order < nodes_[b].order;
}

// Climbs from `place` to the region `target`; *before is the node of it that the place precedes
// (kNone: its end). False if `target` does not enclose the place.
static bool climb(const Graph& g, Place place, Region target, Node* before) {
  while (place.region != target) {
    if (place.region == 0 || place.region == kNone) return false;
    const RegionData& d = g.region(place.region);
    if (d.owner != kNone)
      place = {g.node(d.owner).parent, d.owner};
    else
      place = d.begun;
  }
  *before = place.before;
  return true;
}

bool Graph::visible(Value v, Place place) const {
  const ValueData& d = values_[v];
  if (d.kind == TENON_VALUE_CONSTANT) return true;
  if (d.kind == 0) return false;
  const Region home = region_of(v);
  if (home == kNone) return false;
  Node before;
  if (!climb(*this, place, home, &before)) return false;
  if (d.kind == TENON_VALUE_ARGUMENT || before == kNone || !node_live(before)) return true;
  return d.node != before && comes_before(d.node, before);
}

bool Graph::symbol_visible(Symbol s, Place place) const {
  const SymbolData& d = dims_.symbol(s);
  Node before;
  if (d.node == kNone)
    return d.region != kNone && region_live(d.region) && climb(*this, place, d.region, &before);
  if (!node_live(d.node) || !climb(*this, place, nodes_[d.node].parent, &before)) return false;
  // A node's own types may mention symbols that it defines.
  return before == kNone || !node_live(before) || d.node == before || comes_before(d.node, before);
}

void Graph::compute_captures(Region r, std::vector<Value>* out) const {
  std::vector<Region> work{r};
  auto look = [&](Value v) {
    if (v == kNone || values_[v].kind == TENON_VALUE_CONSTANT) return;
    const Region home = region_of(v);
    if (home == kNone || !within(home, r)) out->push_back(v);
  };
  while (!work.empty()) {
    const Region at = work.back();
    work.pop_back();
    for (Node n = regions_[at].first; n != kNone; n = nodes_[n].next) {
      for (Value v : operands(n)) look(v);
      for (Region inner : regions(n)) work.push_back(inner);
    }
    for (Value v : regions_[at].yields) look(v);
  }
  std::sort(out->begin(), out->end());
  out->erase(std::unique(out->begin(), out->end()), out->end());
}

std::span<const Value> Graph::captures(Region r) const {
  if (r == 0) return {};
  RegionData& d = regions_[r];
  if (d.captures_epoch != epoch_ && !frozen_) {
    d.captures.clear();
    compute_captures(r, &d.captures);
    d.captures_epoch = epoch_;
  }
  return d.captures;
}

bool Graph::types_agree(const tenon_type_t& a, const tenon_type_t& b) const {
  if (a.kind != b.kind || a.dtype != b.dtype || a.rank != b.rank || a.object != b.object)
    return false;
  for (uint32_t i = 0; i < a.rank; ++i) {
    if (!dims_.equal(a.dims[i], b.dims[i])) return false;
  }
  return true;
}

std::string Graph::type_text(const tenon_type_t& type) const {
  if (type.kind == TENON_KIND_TOKEN) return "token";
  if (type.kind == TENON_KIND_OBJECT)
    return fmt::format("object {}", quoted(sym_text(type.object)));
  std::string out(dtype_name(type.dtype));
  out += '[';
  for (uint32_t i = 0; i < type.rank; ++i) {
    if (i != 0) out += ", ";
    out += dims_.text(type.dims[i]);
  }
  return out + ']';
}

// ---- Views ----

namespace {
Status no_such(std::string_view what, uint64_t index, uint64_t limit) {
  return error(TENON_INVALID_ARGUMENT, "T0301", "there is no {} {} in this graph, which has had {}",
               what, index, limit);
}
}  // namespace

Status Graph::view(tenon_graph_view_t* out) const {
  *out = {};
  out->size_bytes = sizeof *out;
  out->frozen = frozen_;
  out->name = {name_.data(), name_.size()};
  out->main = main();
  out->node_limit = node_limit();
  out->value_limit = value_limit();
  out->region_limit = region_limit();
  out->symbol_limit = dims_.symbol_count();
  return {};
}

Status Graph::view_node(Node n, tenon_node_view_t* out) const {
  if (n >= nodes_.size()) return no_such("node", n, nodes_.size());
  const NodeData& d = nodes_[n];
  *out = {sizeof *out,    d.op,         d.op_version,   d.loc,          d.operand_count,
          d.result_count, d.attr_count, d.region_count, d.operands,     d.results,
          d.attrs,        d.regions,    d.parent,       d.symbol_count, d.symbols};
  return {};
}

Status Graph::view_value(Value v, tenon_value_view_t* out) const {
  if (!value_live(v)) return no_such("value", v, values_.size());
  const ValueData& d = values_[v];
  *out = {};
  out->size_bytes = sizeof *out;
  out->kind = d.kind;
  out->type = *types_[d.type];
  out->name = d.name;
  out->loc = d.loc;
  out->node = d.node;
  out->region = region_of(v);
  out->index = d.index;
  out->use_count = static_cast<uint32_t>(d.uses.size());
  out->blob = d.blob ? d.blob->abi() : nullptr;
  return {};
}

Status Graph::view_region(Region r, tenon_region_view_t* out) const {
  if (!region_live(r)) return no_such("region", r, regions_.size());
  const std::span<const Node> list = nodes(r);
  const std::span<const Value> outer = captures(r);
  const RegionData& d = regions_[r];
  *out = {};
  out->size_bytes = sizeof *out;
  out->owner = d.owner;
  out->argument_count = static_cast<uint32_t>(d.arguments.size());
  out->node_count = static_cast<uint32_t>(list.size());
  out->yield_count = static_cast<uint32_t>(d.yields.size());
  out->symbol_count = static_cast<uint32_t>(d.symbols.size());
  out->capture_count = static_cast<uint32_t>(outer.size());
  out->arguments = d.arguments.data();
  out->nodes = list.data();
  out->yields = d.yields.data();
  out->symbols = d.symbols.data();
  out->captures = outer.data();
  out->output_names = r == 0 ? d.output_names.data() : nullptr;
  return {};
}

Status Graph::view_symbol(Symbol s, tenon_symbol_view_t* out) const {
  if (s >= dims_.symbol_count()) return no_such("symbol", s, dims_.symbol_count());
  const SymbolData& d = dims_.symbol(s);
  *out = {sizeof *out, d.name, d.lo, d.hi, d.multiple_of, d.hint, d.node, d.region, d.dim};
  return {};
}

Status Graph::view_dim(Dim dim, tenon_dim_view_t* out) const {
  if (!dims_.valid(dim)) {
    return error(TENON_INVALID_ARGUMENT, "T0301", "{} is not a dim of this graph", dim);
  }
  // Interning the parts of a dim changes no existing dim.
  const_cast<DimTable&>(dims_).view(dim, out);
  return {};
}

// ---- Locations ----

Result<Loc> Graph::make_loc(std::span<const Origin> origins) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  std::vector<Origin> unique;
  for (const Origin& o : origins) {
    if (unique.size() == kLocOriginsMax) break;
    if (std::find(unique.begin(), unique.end(), o) == unique.end()) unique.push_back(o);
  }
  if (unique.empty()) return Loc{0};
  uint64_t h = 5;
  for (const Origin& o : unique) {
    h = mix(mix(mix(mix(h, o.source), o.name), o.line), o.implicit);
  }
  std::vector<Loc>& same = loc_by_hash_[h];
  for (Loc loc : same) {
    if (locs_[loc] == unique) return loc;
  }
  const Loc loc = static_cast<Loc>(locs_.size());
  locs_.push_back(std::move(unique));
  same.push_back(loc);
  return loc;
}

Result<Loc> Graph::make_loc(const Origin& origin) {
  TENON_ASSIGN_OR_RETURN(const Loc loc, make_loc({&origin, 1}));
  dims_.set_place(loc);  // what is asserted before a node is built belongs to that node's location
  return loc;
}

Result<Loc> Graph::fuse_locs(std::span<const Loc> locs) {
  std::vector<Origin> all;
  for (Loc loc : locs) {
    if (loc >= locs_.size()) return no_such("location", loc, locs_.size());
    all.insert(all.end(), locs_[loc].begin(), locs_[loc].end());
  }
  return make_loc(all);
}

std::span<const Origin> Graph::origins(Loc loc) const {
  return loc < locs_.size() ? std::span<const Origin>(locs_[loc]) : std::span<const Origin>();
}

std::string Graph::loc_text(Loc loc) const {
  std::string out;
  for (const Origin& o : origins(loc)) {
    if (!out.empty()) out += ", ";
    std::string one = o.source != 0 ? printable(sym_text(o.source)) : std::string();
    if (o.line != 0) one += ":" + std::to_string(o.line);  // as editors and terminals open it
    if (o.name != 0) one += (one.empty() ? "" : ": ") + quoted(sym_text(o.name));
    out += one;
  }
  return out.empty() ? "unknown location" : out;
}

// ---- Attributes ----

int64_t attr_i64(const tenon_attr_t* attr, int64_t fallback) {
  if (attr == nullptr || (attr->kind != TENON_ATTR_I64 && attr->kind != TENON_ATTR_DTYPE))
    return fallback;
  return attr->u.i;
}

static bool str_equal(tenon_str_t a, tenon_str_t b) {
  return a.size == b.size && (a.size == 0 || std::memcmp(a.data, b.data, a.size) == 0);
}

static bool type_equal(const tenon_type_t& a, const tenon_type_t& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.rank == b.rank && a.object == b.object &&
         std::equal(a.dims, a.dims + a.rank, b.dims);
}

bool attr_equal(const tenon_attr_t& a, const tenon_attr_t& b) {
  if (a.name != b.name || a.kind != b.kind || a.count != b.count) return false;
  auto same = [&](const auto* x, const auto* y) { return std::equal(x, x + a.count, y); };
  switch (a.kind) {
    case TENON_ATTR_I64:
    case TENON_ATTR_DTYPE:
      return a.u.i == b.u.i;
    case TENON_ATTR_F64:
      return std::memcmp(&a.u.f, &b.u.f, sizeof a.u.f) == 0;
    case TENON_ATTR_STRING:
      return str_equal(a.u.s, b.u.s);
    case TENON_ATTR_I64S:
      return same(a.u.is, b.u.is);
    case TENON_ATTR_F64S:
      return a.count == 0 || std::memcmp(a.u.fs, b.u.fs, a.count * sizeof(double)) == 0;
    case TENON_ATTR_DIMS:
      return same(a.u.dims, b.u.dims);
    case TENON_ATTR_STRINGS:
      return std::equal(a.u.ss, a.u.ss + a.count, b.u.ss, str_equal);
    case TENON_ATTR_TYPES:
      return std::equal(a.u.types, a.u.types + a.count, b.u.types, type_equal);
    case TENON_ATTR_BLOB:
      return a.u.blob == b.u.blob;
    default:
      return false;
  }
}

}  // namespace tenon::ir
