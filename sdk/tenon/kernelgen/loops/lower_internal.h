// The emitter, which turns expressions into instructions. The lowerings of all shapes use it.
// Internal to kernelgen.
//
// Scopes are the open loops. An expression is emitted in the outermost scope where everything it
// depends on is known, so loop invariants are hoisted by construction. Lanes run along one axis. As
// a *scalar*, an expression has that axis at the first lane; as a *vector*, at all lanes.
#ifndef TENON_KERNELGEN_LOOPS_LOWER_INTERNAL_H_
#define TENON_KERNELGEN_LOOPS_LOWER_INTERNAL_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenon/kernelgen/loops/loop_ir.h"
#include "tenon/kernelgen/schedule/prepare.h"

namespace tenon::kernelgen {

struct Val {
  ValueId v = kNoValue;
  uint32_t depth = 0;   // scope that defines it
  bool varies = false;  // differs between the unrolled copies
};

class Emitter {
 public:
  Emitter(Prepared& prepared, LoopTree* out);

  // ---- Scopes ----
  void open();                // a new innermost list of nodes
  std::vector<Node> close();  // removes and returns it
  uint32_t depth() const { return static_cast<uint32_t>(scopes_.size() - 1); }
  void open_alias();  // a scope for names only: nodes still go to the current list
  void close_alias();
  void bind(uint32_t axis, Val v);  // in the innermost scope, for the current copy

  // ---- Values ----
  ValueId value(DType type, uint32_t lanes);
  DType type(ValueId v) const { return out_->values[v].type; }
  uint32_t lanes(ValueId v) const { return out_->values[v].lanes; }
  ValueId emit(uint32_t depth, Node n);
  Val integer(int64_t v) { return scalar(p_.integer(v)); }
  Val scalar(ExprId e) { return eval(e, false); }
  Val vector(ExprId e) { return eval(e, true); }
  Val apply(uint16_t code, DType type, std::vector<Val> args, uint32_t relation = 0,
            bool index = false);
  Val add(Val a, Val b) { return apply(TENON_S_ADD, TENON_I64, {a, b}, 0, true); }
  Val sub(Val a, Val b) { return apply(TENON_S_SUB, TENON_I64, {a, b}, 0, true); }
  Val mul(Val a, Val b) { return apply(TENON_S_MUL, TENON_I64, {a, b}, 0, true); }
  // a * b + c of a sum of products.
  Val mul_add(DType t, Val a, Val b, Val c) {
    if (is_float(t)) return apply(kMulAdd, t, {a, b, c});
    return apply(TENON_S_ADD, t, {c, apply(TENON_S_MUL, t, {a, b})});
  }
  Val div(Val a, Val b) { return apply(kFloorDiv, TENON_I64, {a, b}, 0, true); }
  Val mod(Val a, Val b) { return apply(kMod, TENON_I64, {a, b}, 0, true); }
  Val min(Val a, Val b) { return apply(TENON_S_MIN, TENON_I64, {a, b}, 0, true); }
  Val max(Val a, Val b) { return apply(TENON_S_MAX, TENON_I64, {a, b}, 0, true); }
  Val less(Val a, Val b) { return apply(TENON_S_CMP, TENON_I64, {a, b}, TENON_CMP_LT); }
  Val splat(Val v, uint32_t lanes);
  Val as_type(Val v, DType t);
  ValueId declare(Val init);  // a mutable copy, in the innermost scope
  void set(ValueId var, Val v);

  // Loads and stores by flat offset. as_vector: lanes along the vector axis.
  Val load(ExprId load_expr, bool as_vector);
  void store(const View& view, Val v, bool as_vector);
  Val load_at(Space space, uint32_t ref, DType t, Val address, uint32_t lanes,
              ValueId mask = kNoValue, ValueId other = kNoValue, ValueId stride = kNoValue);
  void store_at(Space space, uint32_t ref, DType t, Val address, Val v, ValueId mask = kNoValue,
                ValueId stride = kNoValue);
  // One value of those of the copies.
  Val join_copies(DType t, const std::vector<Val>& copies);
  // Values of the copies of a work item (`wide`), stored at once if they are contiguous.
  void store_copies(const View& view, const std::vector<Val>& copies);
  // From now on in the innermost scope, unguarded loads of this element give v.
  void forward(uint32_t buffer, ExprId offset, Val v, bool as_vector);
  // In this scope the lanes of `load` are v: the load's guard is known to hold.
  void forward_guarded(ExprId load, Val v);

  uint32_t argument(uint32_t buffer, bool written);
  // Reserves a region of scratch; returns its byte offset.
  ExprId reserve(ExprId elements, DType t, uint32_t multiple);
  void comment(const std::string& text);
  // For groups: an array that the items share, the index of an item, and a barrier (`global`:
  // writes to any memory are visible after it).
  uint32_t share(DType t, int64_t elements, bool wide = false);
  Val lane_id();
  void barrier(bool global);
  // The value of the item `by` further on in its warp of so many items; 0: of the warp's first
  // item.
  Val from_lane(Val v, uint32_t by, uint32_t warp);
  // Code that only one item of a group runs.
  template <class F>
  void only_if(Val condition, F body) {
    Node n;
    n.kind = NodeKind::kIf;
    n.args[0] = condition.v;
    open();
    body();
    n.body = close();
    emit(depth(), std::move(n));
  }

  // A loop over [begin, end) by step. The body is a callback, called with the scope open and the
  // variable as a Val.
  template <class F>
  void loop(Bind bind, Val begin, Val end, int64_t step, bool full, F body, bool add_after = true) {
    Node n;
    n.kind = NodeKind::kLoop;
    n.bind = bind;
    n.args[0] = begin.v;
    n.args[1] = end.v;
    n.bits = step;
    n.full = full;
    n.dst = value(TENON_I64, 1);
    open();
    body(Val{n.dst, depth(), false});
    n.body = close();
    if (add_after) scopes_.back()->nodes->push_back(std::move(n));
  }

  // Of the loop that was just made (Node::unroll).
  void unroll(uint32_t times) { scopes_.back()->nodes->back().unroll = times; }

  Pool& pool() { return p_; }
  Prepared& prepared() { return prepared_; }
  LoopTree& tree() { return *out_; }

  // Lanes.
  uint32_t vector_axis = ~0u;
  uint32_t width = 1;
  uint32_t copy = 0;  // which unrolled copy is being emitted
  // Copies of one work item, neighbours along vector_axis: what is contiguous in them is loaded and
  // stored at once. Their number divides the axis, and the first one's place. 1: there are none.
  uint32_t wide = 1;
  ValueId mask = kNoValue;  // active lanes of the tail; kNoValue: all
  uint32_t mask_depth = 0;
  // The scope in which all lanes are present: whole vectors are loaded inside it.
  uint32_t vector_depth = 0;
  // The scope in which passes run: loads of what the kernel writes stay inside it.
  uint32_t row_depth = 0;
  bool lanes_are_rows = false;  // temps have one slot per lane
  uint32_t temp_copies = 1;
  // By buffer: whole vectors are stored past the caches if `stream` says so.
  std::vector<bool> streamed;
  ValueId stream = kNoValue;  // kNoValue: always
  std::vector<Val> states;    // what State means now, by ordinal

 private:
  struct Scope {
    std::vector<Node> own;
    std::vector<Node>* nodes = nullptr;
    std::unordered_map<uint64_t, Val> memo, forwards;
    std::unordered_map<uint64_t, Val> axes;
  };

  Val eval(ExprId e, bool as_vector);
  Val eval_new(ExprId e, bool as_vector);
  Val eval_op(ExprId e, bool as_vector);
  Val constant(ExprId e);
  bool fits32(ExprId e) const;
  bool has_data(ExprId e);
  Val folded(uint16_t code, const std::vector<Val>& args);
  uint64_t key(ExprId e, bool as_vector, bool varies) const {
    return uint64_t{e} << 8 | uint64_t{varies ? copy + 1 : 0} << 1 | (as_vector ? 1 : 0);
  }
  struct Address {
    Val at;
    uint32_t lanes = 1;
    ValueId stride = kNoValue;
  };
  Address address(uint32_t buffer, ExprId offset, bool as_vector, bool masked_by_lane);
  // Whether the copies' elements are contiguous and aligned; whether they are one element.
  bool at_once(uint32_t buffer, ExprId guard, ExprId offset);
  bool same_for_copies(ExprId guard, ExprId offset);
  Val place(uint32_t buffer, ExprId offset);
  Val load_copies(ExprId load, uint32_t elements);
  Val each_in_its_slot(Val base, ExprId offset, uint32_t slots);
  bool is_scratch(uint32_t buffer) const;

  Prepared& prepared_;
  Kernel& k_;
  Pool& p_;
  LoopTree* out_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::unordered_map<uint32_t, uint32_t> arguments_;
  std::unordered_map<uint64_t, Val> splats_;
  std::unordered_map<ValueId, int64_t> known_;  // scalar i64 constants
  std::vector<bool> written_;
  std::unordered_map<uint32_t, ExprId> temp_offset_;
  std::unordered_map<ExprId, bool> has_data_;  // of operations
  ExprId scratch_ = kNone;
};

// Whether elements of the type are loaded and stored several at once.
bool fits_at_once(DType type);

// How contiguous the accesses of a stage are along an axis; above 0, more are than are not.
int64_t access_score(Pool& p, const Stage& s, uint32_t axis);

// The lowering of wide items binds `wide` copies of an axis, the first at `first`, from here on in
// the innermost scope, and runs the body for them together.
template <class F>
void with_copies(Emitter& e, uint32_t axis, uint32_t wide, Val first, F body) {
  e.vector_axis = axis;
  e.wide = wide;
  for (e.copy = 0; e.copy < wide; ++e.copy) {
    Val at = e.copy == 0 ? first : e.add(first, e.integer(e.copy));
    at.varies = true;
    e.bind(axis, at);
  }
  e.copy = 0;
  body();
  e.copy = 0;
  e.wide = 1;
  e.vector_axis = ~0u;
}
// A map for all copies.
void map_copies(Emitter& e, const Stage& stage);

// For groups of work items that work together.
bool lower_group_rows(Emitter& e, const Schedule& s, std::string* why);
bool lower_group_contraction(Emitter& e, const Schedule& s, std::string* why);

bool lower_rows(Emitter& e, const Schedule& s, std::string* why);
bool lower_lines(Emitter& e, const Schedule& s, std::string* why);
bool lower_wide_items(Emitter& e, const Schedule& s, std::string* why);
bool lower_contraction(Emitter& e, const Schedule& s, std::string* why);
bool lower_convolution(Emitter& e, const Schedule& s, std::string* why);
bool lower_attention(Emitter& e, const Schedule& s, std::string* why);
bool lower_ordered(Emitter& e, const Schedule& s, std::string* why);

// Splits a linear item into axis values, the last axis varying fastest, and binds them in the
// innermost scope.
void decode(Emitter& e, Val item, const std::vector<uint32_t>& axes);

// The same for all axes but the last one, whose place it returns.
Val decode_outer(Emitter& e, Val item, std::vector<uint32_t> axes);

// `first` times the extents of axes.
inline ExprId points(Pool& p, const std::vector<uint32_t>& axes, ExprId first) {
  for (uint32_t axis : axes) first = p.mul(first, p.axes()[axis].extent);
  return first;
}

// The range of a kernel over so many items.
template <class F>
void loop_over_items(Emitter& e, const Schedule& s, ExprId items, F body) {
  e.tree().range = size_program(e.pool(), items);
  e.tree().grain = s.grain;
  const Val begin{e.tree().begin, 0, false}, end{e.tree().end, 0, false};
  e.loop(Bind::kRange, begin, end, 1, false, body);
}

// What body emits runs where the condition holds; what other emits, elsewhere.
template <class F>
void when(Emitter& e, Val condition, F body) {
  Node branch;
  branch.kind = NodeKind::kIf;
  branch.args[0] = condition.v;
  e.open();
  body();
  branch.body = e.close();
  e.emit(e.depth(), branch);
}
template <class F, class G>
void when(Emitter& e, Val condition, F body, G other) {
  Node branch;
  branch.kind = NodeKind::kIf;
  branch.args[0] = condition.v;
  e.open();
  body();
  branch.body = e.close();
  e.open();
  other();
  branch.other = e.close();
  e.emit(e.depth(), branch);
}

// Masks what follows to the lanes of an axis below `end`.
inline void mask_below(Emitter& e, uint32_t axis, Val end) {
  const Val lane = e.vector(e.pool().axis(axis));
  e.mask_depth = e.depth();
  e.mask = e.less(lane, e.as_type(end, e.type(lane.v))).v;
}

// The range of a kernel over tiles: items are blocks of rows, within panels of columns, within the
// points of `outer`. Binds the outer axes and calls body(block, panel).
template <class F>
void loop_over_tiles(Emitter& e, const Schedule& s, ExprId blocks, ExprId panels,
                     const std::vector<uint32_t>& outer, F body) {
  Pool& p = e.pool();
  loop_over_items(e, s, points(p, outer, p.mul(panels, blocks)), [&](Val item) {
    e.row_depth = e.depth();
    const Val nb = e.scalar(blocks), np = e.scalar(panels);
    const Val block = p.is_const(blocks, 1) ? e.integer(0) : e.mod(item, nb);
    const Val rest = p.is_const(blocks, 1) ? item : e.div(item, nb);
    const Val panel = outer.empty() ? rest : e.mod(rest, np);
    if (!outer.empty()) decode(e, e.div(rest, np), outer);
    body(block, panel);
  });
}

}  // namespace tenon::kernelgen
#endif
