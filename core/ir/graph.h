// Graphs: the core side of tenon.host.graph/1. core/pass, core/dispatch, core/op and the serial
// forms use it directly; plugins use the C table (host_graph.h) or sdk/tenon/cpp.
//
// Everything is a dense index (Value, Node, Region, Symbol, Loc) that is never reused. Names,
// operand lists and attributes are stored in an arena that lives as long as the graph. Mutators
// keep use lists, node order and parents up to date. Insertion, move and erasure of a node are O(1)
// plus its operands.
//
// Views (spans, pointers, the ABI's records) are valid until the next mutation of the graph.
// Threads: one graph, one thread at a time; a frozen graph may be read by all.
#pragma once
#include <tenon/abi/graph.h>
#include <tenon/abi/graph_notes.h>
#include <tenon/abi/ops.h>

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/errors/status.h"
#include "core/ir/blob.h"
#include "core/ir/dims/dims.h"
#include "core/ir/ref.h"

namespace tenon::ir {

using Value = tenon_value_t;
using Node = tenon_node_t;
using Region = tenon_region_t;
using Loc = tenon_loc_t;
using Use = tenon_use_t;
inline constexpr uint32_t kNone = TENON_NONE;

class Graph;

// Where new nodes go: before the node `before`, or at the end of `region`.
struct Place {
  Region region = 0;
  Node before = kNone;
};

// One origin of a node in the user's program. Implicit origins (the line of a .tir file) appear in
// messages but are not written out.
struct Origin {
  tenon_sym_t source = 0;
  tenon_sym_t name = 0;
  uint32_t line = 0;
  bool implicit = false;
  bool operator==(const Origin&) const = default;
};
inline constexpr uint32_t kLocOriginsMax = 64;  // a fusion drops further origins

// A type that owns its dims, before it is added to a graph.
struct TypeDraft {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  uint16_t kind = TENON_KIND_TENSOR;
  std::vector<Dim> dims;
  tenon_sym_t object = 0;
  tenon_type_t view() const {
    return {dtype, kind, static_cast<uint32_t>(dims.size()), dims.data(), object};
  }
};

// A node to be built. Spans are borrowed for the call.
struct NodeDraft {
  tenon_sym_t op = 0;
  uint32_t op_version = 0;  // 0: the newest
  Loc loc = 0;
  std::span<const Value> operands;
  std::span<const tenon_attr_t> attrs;         // any order; may omit those with a default
  std::span<const Region> regions;             // not attached yet
  std::span<const tenon_type_t> result_types;  // empty, or what inference must agree with
};

// What the registry infers for a draft.
struct Inferred {
  const tenon_op_def_t* def = nullptr;
  std::vector<tenon_attr_t> attrs;  // one per declared attribute, in declared order; borrowed from
                                    // the draft or from the declaration
  std::vector<TypeDraft> results;
  std::vector<DimFact> facts;  // asserted when the node is built
};

// The operators, as the graph needs them. Implemented by core/op; the graph names no op.
class OpSet {
 public:
  virtual ~OpSet() = default;
  // The declaration of a version, 0 for the newest; null if there is none. May load a plugin.
  // Threads: safe.
  virtual const tenon_op_def_t* find(tenon_sym_t name, uint32_t version) = 0;
  // NOT_FOUND with suggestions, for a name that find() did not know.
  virtual Status unknown(tenon_sym_t name, uint32_t version) = 0;
  // Checks operands and attributes against the declaration, then runs inference, which may call the
  // graph's symbol_fresh.
  virtual Result<Inferred> infer(Graph& graph, const NodeDraft& draft) = 0;
  // Whether notes may have names `space.name`: T0327 with suggestions if no plugin has this name
  // space. Threads: safe.
  virtual Status check_note_space(std::string_view space);
};
// The set that all graphs of the process use. Set once, by core/op; null before.
void set_op_set(OpSet* ops);
OpSet* op_set();

struct NodeData {
  tenon_sym_t op = 0;
  uint32_t op_version = 0;
  uint64_t traits = 0;  // from the op's declaration
  Loc loc = 0;
  Region parent = kNone;
  Node prev = kNone, next = kNone;
  uint64_t order = 0;
  uint32_t operand_count = 0, result_count = 0, attr_count = 0, region_count = 0, symbol_count = 0;
  Value* operands = nullptr;
  uint32_t* use_slots = nullptr;  // each operand's index in its value's use list
  Value* results = nullptr;
  tenon_attr_t* attrs = nullptr;  // sorted by the text of their names
  Region* regions = nullptr;
  Symbol* symbols = nullptr;
};

struct ValueData {
  uint32_t kind = 0;  // TENON_VALUE_*; 0 once erased
  uint32_t type = 0;  // index into the graph's types
  tenon_sym_t name = 0;
  Loc loc = 0;
  Node node = kNone;
  Region region = kNone;  // for arguments
  uint32_t index = 0;
  std::vector<Use> uses;
  Ref<Blob> blob;
};

struct RegionData {
  bool alive = true;
  bool order_valid = true;
  Node owner = kNone;
  Place begun;  // for a region not yet attached: where its body may look for values
  Node first = kNone, last = kNone;
  uint32_t node_count = 0;
  std::vector<Value> arguments, yields;
  std::vector<uint32_t> yield_slots;
  std::vector<Symbol> symbols;
  std::vector<tenon_sym_t> output_names;  // main region only
  // Made on demand for views.
  std::vector<Node> node_list;
  std::vector<Value> captures;
  bool list_valid = true;
  uint64_t captures_epoch = 0;
};

// What a note is at.
enum class Noted : uint8_t { kNode = TENON_NOTED_NODE, kValue = TENON_NOTED_VALUE };

// Bump storage; freed only with the graph.
class Arena {
 public:
  void* allocate(size_t bytes, size_t alignment);
  template <typename T>
  T* array(size_t count) {
    return count == 0 ? nullptr : static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
  }
  template <typename T>
  T* copy(const T* from, size_t count) {
    T* to = array<T>(count);
    for (size_t i = 0; i < count; ++i) to[i] = from[i];
    return to;
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* cursor_ = nullptr;
  std::byte* end_ = nullptr;
};

class Graph {
 public:
  // ---- Lifetime ----
  static Ref<Graph> create(std::string_view name);
  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();
  Ref<Graph> clone() const;  // not frozen, same indices
  void freeze();
  bool frozen() const { return frozen_; }
  // A number that identifies this graph in the process; never reused.
  uint64_t serial() const { return serial_; }
  tenon_graph_t* abi() { return reinterpret_cast<tenon_graph_t*>(this); }
  static Graph* from(tenon_graph_t* graph) { return reinterpret_cast<Graph*>(graph); }

  // ---- Reading ----
  std::string_view name() const { return name_; }
  Region main() const { return 0; }
  uint32_t node_limit() const { return static_cast<uint32_t>(nodes_.size()); }
  uint32_t value_limit() const { return static_cast<uint32_t>(values_.size()); }
  uint32_t region_limit() const { return static_cast<uint32_t>(regions_.size()); }
  uint32_t live_node_count() const { return live_nodes_; }
  bool node_live(Node n) const { return n < nodes_.size() && nodes_[n].parent != kNone; }
  bool value_live(Value v) const { return v < values_.size() && values_[v].kind != 0; }
  bool region_live(Region r) const { return r < regions_.size() && regions_[r].alive; }
  const NodeData& node(Node n) const { return nodes_[n]; }
  const ValueData& value(Value v) const { return values_[v]; }
  const RegionData& region(Region r) const { return regions_[r]; }
  const DimTable& dims() const { return dims_; }
  DimTable& dims() { return dims_; }

  std::string_view op_name(Node n) const;
  std::span<const Value> operands(Node n) const {
    return {nodes_[n].operands, nodes_[n].operand_count};
  }
  std::span<const Value> results(Node n) const {
    return {nodes_[n].results, nodes_[n].result_count};
  }
  std::span<const tenon_attr_t> attrs(Node n) const {
    return {nodes_[n].attrs, nodes_[n].attr_count};
  }
  std::span<const Region> regions(Node n) const {
    return {nodes_[n].regions, nodes_[n].region_count};
  }
  std::span<const Symbol> symbols(Node n) const {
    return {nodes_[n].symbols, nodes_[n].symbol_count};
  }
  const tenon_attr_t* attr(Node n, tenon_sym_t name) const;  // null when absent
  const tenon_type_t& type(Value v) const { return *types_[values_[v].type]; }
  std::span<const Use> uses(Value v) const { return values_[v].uses; }
  // Nodes of a region in order; O(1) unless the region changed since the last call.
  std::span<const Node> nodes(Region r) const;
  // Values of enclosing regions used inside, constants excluded, sorted.
  std::span<const Value> captures(Region r) const;
  // The region in which a value is defined; kNone for constants.
  Region region_of(Value v) const;
  // The region around a region; kNone for the main one.
  Region enclosing(Region r) const;
  uint32_t depth(Region r) const;
  // Both nodes must be in one region.
  bool comes_before(Node a, Node b) const;
  // Whether `v` may be used by a node at `place`.
  bool visible(Value v, Place place) const;
  bool symbol_visible(Symbol s, Place place) const;
  // Uses of a symbol by types and attributes of live nodes and values, its definition's own
  // included.
  uint32_t symbol_uses(Symbol s) const { return s < symbol_uses_.size() ? symbol_uses_[s] : 0; }
  // True if element types, ranks and kinds are equal and dims are provably equal.
  bool types_agree(const tenon_type_t& a, const tenon_type_t& b) const;
  std::string type_text(const tenon_type_t& type) const;
  // Facts that the values of symbols must satisfy: see DimTable.
  const std::vector<DimFact>& facts() const { return dims_.facts(); }

  // ABI records. INVALID_ARGUMENT for an index that is out of range or erased.
  Status view(tenon_graph_view_t* out) const;
  Status view_node(Node n, tenon_node_view_t* out) const;  // erased ones too, parent NONE
  Status view_value(Value v, tenon_value_view_t* out) const;
  Status view_region(Region r, tenon_region_view_t* out) const;
  Status view_symbol(Symbol s, tenon_symbol_view_t* out) const;
  Status view_dim(Dim d, tenon_dim_view_t* out) const;

  // ---- Building ----
  Result<Value> add_argument(Region r, const tenon_type_t& type, std::string_view name,
                             Loc loc = 0);
  Status set_yields(Region r, std::span<const Value> values,
                    std::span<const std::string_view> names);
  Result<Region> begin_region(Place place);
  // Moves the body of a region that belongs to no node into the main region, which is emptied.
  Status set_main(Region r, std::span<const std::string_view> names);
  // Builds a checked node. On failure nothing has changed, except that symbol indices may have been
  // used up.
  Result<Node> build(Place place, const NodeDraft& draft);
  Result<Value> add_constant(const tenon_type_t& type, Ref<Blob> blob, std::string_view name = {},
                             Loc loc = 0);
  Status clone_region(Place place, const Graph& from, Region region, std::span<const Value> values,
                      std::span<Value> out_yields);
  Status set_name(Value v, std::string_view name);
  Status replace(Value from, Value to);
  // Result i of one node becomes result order[i] of another one (none: result i), and its symbols
  // the first ones of the other. `from` is erased.
  Status replace_node(Node from, Node to, std::span<const uint32_t> order);
  Status set_operand(Node n, uint32_t index, Value v);
  Status erase(Node n);
  Status move(Node n, Node before);
  Status set_loc(Node n, Loc loc);

  // ---- Notes (graph_notes.cpp): attributes of a name space, which change nothing computed ----
  // Sorted by name; empty for an index out of range.
  std::span<const tenon_attr_t> notes(Noted kind, uint32_t index) const;
  // T0327 for a name that is not `space.name`, an unknown space (unless `any_space`), or a kind
  // that notes cannot have.
  Status set_note(Noted kind, uint32_t index, const tenon_attr_t& note, bool any_space = false);
  Status erase_note(Noted kind, uint32_t index, tenon_sym_t name);  // does nothing if it is absent
  // Copies the notes of another node or value, of any graph, whose names this one lacks.
  void take_notes(Noted kind, uint32_t to, const Graph& from, uint32_t index);

  // ---- Dims and symbols ----
  Result<Dim> make_dim(uint32_t op, Dim a, Dim b);
  Result<Symbol> define_symbol(Region r, std::string_view name, int64_t lo, int64_t hi,
                               int64_t multiple_of, int64_t hint);
  Result<Symbol> fresh_symbol(int64_t lo, int64_t hi,
                              int64_t multiple_of);  // only inside inference
  Status assert_fact(uint32_t rel, Dim a, Dim b);

  // ---- Locations ----
  Result<Loc> make_loc(const Origin& origin);
  Result<Loc> make_loc(std::span<const Origin> origins);
  Result<Loc> fuse_locs(std::span<const Loc> locs);
  std::span<const Origin> origins(Loc loc) const;
  std::string loc_text(Loc loc) const;  // "unknown location" for 0

  // ---- Whole-graph checks ----
  // OK, or INVALID_ARGUMENT T0322 with one line per broken rule. See verify.cpp.
  Status verify() const;
  // 128 bits; equal for graphs that differ in names, locations and symbol names only.
  Result<Digest> structural_hash() const;
  // The text form on stderr, for a debugger: `call graph->dump()`. The library keeps it uncalled.
  void dump() const;

  // ---- For the serial forms ----
  // A node as given, without inference: the verifier must be run afterwards.
  struct RawNode {
    tenon_sym_t op = 0;
    uint32_t op_version = 0;
    Loc loc = 0;
    std::span<const Value> operands;
    std::span<const tenon_attr_t> attrs;  // sorted
    std::span<const Region> regions;
    std::span<const tenon_type_t> result_types;
    std::span<const Symbol> symbols;  // not yet defined
  };
  Result<Node> build_raw(Place place, const RawNode& raw);
  // A symbol that a node or region will define through build_raw or adopt_symbol.
  Result<Symbol> add_symbol(std::string_view name, int64_t lo, int64_t hi, int64_t multiple_of,
                            int64_t hint);
  Status adopt_symbol(Region r, Symbol s);
  // Replaces the result types of a node. T0313 if their number is wrong, or if one provably differs
  // from the old type.
  Status declare_results(Node n, std::span<const tenon_type_t> types);
  Status mutable_or_fail() const;

 private:
  Graph() = default;
  ~Graph() = default;
  friend class RegionCloner;
  friend class Verifier;

  Result<uint32_t> intern_type(const tenon_type_t& type);
  Status check_type(const tenon_type_t& type) const;
  tenon_attr_t copy_attr(const tenon_attr_t& attr);
  Status check_attr(const tenon_attr_t& attr) const;
  Status check_place(Place place) const;
  Status check_draft(Place place, const NodeDraft& draft) const;
  Node insert(Place place, const RawNode& raw, std::span<const uint32_t> types, uint64_t traits);
  void link(Node n, Place place);
  void unlink(Node n);
  uint32_t add_use(Value v, Use use);
  void remove_use(Value v, uint32_t slot);
  void count_symbols(const tenon_type_t& type, int delta);
  void count_symbols(const tenon_attr_t& attr, int delta);
  void count_symbols_of(Node n, int delta);
  void drop(Node n);
  void drop_region(Region r);
  Status rename_symbols(Node except, std::span<const Dim> renamed);
  Status rename_symbols(tenon_attr_t* attr, std::span<const Dim> renamed);
  Result<bool> rename_symbols(std::vector<Dim>* dims, std::span<const Dim> renamed);
  Status check_new_main(Region r);
  Status empty_main();
  void adopt_body(Region from);
  Status symbols_unused_outside(Node n);
  void renumber(Region r) const;
  void compute_captures(Region r, std::vector<Value>* out) const;
  bool within(Region inner, Region outer) const;
  void touch() { ++epoch_; }
  bool noted(Noted kind, uint32_t index) const;
  void copy_all_notes(const Graph& from);
  void pass_notes(Value from, Value to);
  void drop_notes(Node n);

  static inline std::atomic<uint64_t> next_serial_{1};
  std::atomic<uint32_t> references_{1};
  const uint64_t serial_ = next_serial_.fetch_add(1, std::memory_order_relaxed);
  bool frozen_ = false;
  std::string name_;
  Arena arena_;
  DimTable dims_;
  // Const readers of a graph that is not frozen make order keys and region views on demand.
  mutable std::vector<NodeData> nodes_;
  std::deque<ValueData> values_;
  mutable std::deque<RegionData> regions_;
  std::vector<const tenon_type_t*> types_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> type_by_hash_;
  std::vector<Ref<Blob>> attr_blobs_;
  std::vector<uint32_t> symbol_uses_;
  std::unordered_set<tenon_sym_t> argument_names_;
  std::unordered_map<uint32_t, std::vector<tenon_attr_t>> notes_[2];  // by Noted, then index
  std::vector<std::vector<Origin>> locs_{{}};                         // 0: unknown
  std::unordered_map<uint64_t, std::vector<Loc>> loc_by_hash_;
  std::vector<Symbol>* inferring_ = nullptr;  // symbols that the running inference made
  uint32_t live_nodes_ = 0;
  uint64_t epoch_ = 1;
};

// An attribute's single value; `fallback` if it is absent or of another kind.
int64_t attr_i64(const tenon_attr_t* attr, int64_t fallback);
// Deep equality, dims by identity.
bool attr_equal(const tenon_attr_t& a, const tenon_attr_t& b);

}  // namespace tenon::ir
