#include "tenon/kernelgen/loops/lower_internal.h"

#include <algorithm>

namespace tenon::kernelgen {

Emitter::Emitter(Prepared& prepared, LoopTree* out)
    : prepared_(prepared), k_(prepared.kernel), p_(prepared.kernel.pool), out_(out) {
  written_.assign(k_.buffers.size(), false);
  for (const Stage& s : k_.stages) {
    for (const View& v : s.store) written_[memory_of(k_, v.buffer)] = true;
  }
  open();
}

void Emitter::open() {
  scopes_.push_back(std::make_unique<Scope>());
  scopes_.back()->nodes = &scopes_.back()->own;
}

std::vector<Node> Emitter::close() {
  std::vector<Node> n = std::move(scopes_.back()->own);
  const uint32_t gone = depth();
  std::erase_if(splats_, [&](const auto& s) { return s.second.depth >= gone; });
  scopes_.pop_back();
  return n;
}

void Emitter::open_alias() {
  std::vector<Node>* nodes = scopes_.back()->nodes;
  scopes_.push_back(std::make_unique<Scope>());
  scopes_.back()->nodes = nodes;
}

void Emitter::close_alias() {
  close();
}

void Emitter::bind(uint32_t axis, Val v) {
  scopes_.back()->axes[uint64_t{axis} << 8 | (axis == vector_axis ? copy : 0)] = v;
}

ValueId Emitter::value(DType type, uint32_t lanes) {
  out_->values.push_back({type, lanes});
  return static_cast<ValueId>(out_->values.size() - 1);
}

ValueId Emitter::emit(uint32_t depth, Node n) {
  const ValueId dst = n.dst;
  scopes_[depth]->nodes->push_back(std::move(n));
  return dst;
}

void Emitter::comment(const std::string& text) {
  Node n;
  n.kind = NodeKind::kComment;
  n.text = text;
  emit(depth(), n);
}

uint32_t Emitter::share(DType t, int64_t elements, bool wide) {
  out_->shared.push_back({t, elements, wide});
  return static_cast<uint32_t>(out_->shared.size() - 1);
}

Val Emitter::lane_id() {
  Node n;
  n.kind = NodeKind::kLaneId;
  n.dst = value(TENON_I64, 1);
  return {emit(0, n), 0, false};
}

void Emitter::barrier(bool global) {
  Node n;
  n.kind = NodeKind::kBarrier;
  n.bits = global ? 1 : 0;
  emit(depth(), n);
}

Val Emitter::from_lane(Val v, uint32_t by, uint32_t warp) {
  Node n;
  n.kind = NodeKind::kFromLane;
  n.dst = value(type(v.v), 1);
  n.args[0] = v.v;
  n.bits = by;
  n.ref = warp;
  n.full = by == 0;
  return {emit(depth(), n), depth(), true};
}

static Val join(Val a, Val b) {
  return {a.v, std::max(a.depth, b.depth), a.varies || b.varies};
}

Val Emitter::splat(Val v, uint32_t n) {
  if (n == 1 || lanes(v.v) == n) return v;
  const uint64_t id = uint64_t{v.v} << 16 | n;
  if (auto it = splats_.find(id); it != splats_.end()) return it->second;
  Node node;
  node.kind = NodeKind::kSplat;
  node.dst = value(type(v.v), n);
  node.args[0] = v.v;
  const Val r{emit(v.depth, node), v.depth, v.varies};
  // A mutable scalar must be splat again each time; only States are mutable.
  bool state = false;
  for (const Val& s : states) state |= s.v == v.v;
  if (!state) splats_[id] = r;
  return r;
}

Val Emitter::as_type(Val v, DType t) {
  if (type(v.v) == t) return v;
  return apply(TENON_S_CONVERT, t, {v});
}

Val Emitter::apply(uint16_t code, DType t, std::vector<Val> args, uint32_t relation, bool index) {
  if (index) {
    if (const Val r = folded(code, args); r.v != kNoValue) return r;
  }
  uint32_t n = 1;
  for (const Val& a : args) n = std::max(n, lanes(a.v));
  Val r;
  Node node;
  node.kind = NodeKind::kOp;
  node.op = code;
  node.ref = relation;
  node.bits = index ? 1 : 0;
  for (size_t i = 0; i < args.size(); ++i) {
    const Val a = splat(args[i], n);
    node.args[i] = a.v;
    r = join(r, a);
  }
  const bool pred = code == TENON_S_CMP || code == TENON_S_IS_NAN;
  node.type = t;
  node.dst = value(pred ? DType{TENON_PRED} : t, n);
  r.v = emit(r.depth, node);
  return r;
}

// Index arithmetic on constants that come from loops and panels.
Val Emitter::folded(uint16_t code, const std::vector<Val>& args) {
  const auto a = known_.find(args[0].v), b = known_.find(args[1].v);
  const bool ka = a != known_.end(), kb = b != known_.end();
  if (ka && kb) {
    const int64_t x = a->second, y = b->second;
    const uint64_t ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
    if (code == TENON_S_ADD) return integer(static_cast<int64_t>(ux + uy));
    if (code == TENON_S_SUB) return integer(static_cast<int64_t>(ux - uy));
    if (code == TENON_S_MUL) return integer(static_cast<int64_t>(ux * uy));
    if (code == TENON_S_MIN) return integer(std::min(x, y));
    if (code == TENON_S_MAX) return integer(std::max(x, y));
    if (y > 0 && x >= 0 && code == kFloorDiv) return integer(x / y);
    if (y > 0 && x >= 0 && code == kMod) return integer(x % y);
    return {};
  }
  if (kb && b->second == 0 && (code == TENON_S_ADD || code == TENON_S_SUB)) return args[0];
  if (ka && a->second == 0 && code == TENON_S_ADD) return args[1];
  if (kb && b->second == 1 && (code == TENON_S_MUL || code == kFloorDiv)) return args[0];
  if (ka && a->second == 1 && code == TENON_S_MUL) return args[1];
  if ((ka && a->second == 0 && code == TENON_S_MUL) ||
      (kb && b->second == 0 && code == TENON_S_MUL))
    return integer(0);
  return {};
}

ValueId Emitter::declare(Val init) {
  Node n;
  n.kind = NodeKind::kVar;
  n.args[0] = init.v;
  n.dst = value(type(init.v), lanes(init.v));
  return emit(depth(), n);
}

void Emitter::set(ValueId var, Val v) {
  Node n;
  n.kind = NodeKind::kSet;
  n.dst = var;
  n.args[0] = splat(v, lanes(var)).v;
  emit(depth(), n);
}

// ---- Expressions ----

Val Emitter::eval(ExprId e, bool as_vector) {
  if (width == 1) as_vector = false;
  for (size_t i = scopes_.size(); i-- > 0;) {
    const auto &memo = scopes_[i]->memo, &forwards = scopes_[i]->forwards;
    if (auto it = forwards.find(key(e, as_vector, false)); it != forwards.end()) return it->second;
    if (auto it = forwards.find(key(e, as_vector, true)); it != forwards.end()) return it->second;
    if (auto it = memo.find(key(e, as_vector, false)); it != memo.end()) return it->second;
    if (auto it = memo.find(key(e, as_vector, true)); it != memo.end()) return it->second;
  }
  const Val r = eval_new(e, as_vector);
  scopes_[r.depth]->memo[key(e, as_vector, r.varies)] = r;
  return r;
}

Val Emitter::constant(ExprId e) {
  Node n;
  n.kind = NodeKind::kConst;
  n.type = p_.type(e);
  n.bits = p_.at(e).bits;
  n.dst = value(n.type, 1);
  if (n.type == TENON_I64) known_[n.dst] = n.bits;
  return {emit(0, n), 0, false};
}

bool Emitter::fits32(ExprId e) const {
  const Interval r = p_.range(e);
  return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

Val Emitter::eval_new(ExprId e, bool as_vector) {
  const Expr& x = p_.at(e);
  switch (x.kind) {
    case X::kConst:
      return constant(e);
    case X::kExtent: {
      Node n;
      n.kind = NodeKind::kExt;
      n.ref = x.ref;
      n.dst = value(TENON_I64, 1);
      return {emit(0, n), 0, false};
    }
    case X::kAxis: {
      const uint64_t id = uint64_t{x.ref} << 8 | (x.ref == vector_axis ? copy : 0);
      Val base;
      for (size_t i = scopes_.size(); i-- > 0 && base.v == kNoValue;) {
        if (auto it = scopes_[i]->axes.find(id); it != scopes_[i]->axes.end()) base = it->second;
      }
      if (!as_vector || x.ref != vector_axis) return base;
      Node n;
      n.kind = NodeKind::kIota;
      n.args[0] = base.v;
      n.dst = value(fits32(e) ? DType{TENON_I32} : DType{TENON_I64}, width);
      return {emit(base.depth, n), base.depth, true};
    }
    case X::kState: {
      Val s = states[x.ref];
      s.depth = depth();
      return s;
    }
    case X::kLoad:
      return load(e, as_vector);
    case X::kOp:
      return eval_op(e, as_vector);
  }
  return {};
}

Val Emitter::eval_op(ExprId e, bool as_vector) {
  const Expr x = p_.at(e);
  const std::vector<ExprId> in(p_.args(e).begin(), p_.args(e).end());
  std::vector<Val> args;
  uint32_t n = 1;
  for (ExprId a : in) {
    args.push_back(eval(a, as_vector));
    n = std::max(n, lanes(args.back().v));
  }
  const bool index = x.type == TENON_I64 || p_.type(in[0]) == TENON_I64;
  if (n > 1 && index && x.op != TENON_S_CONVERT && x.op != TENON_S_CONVERT_WRAP &&
      x.op != TENON_S_BITCAST_RESULT) {
    // Vectors of indices are 32 bits wide wherever that is known to suffice.
    bool narrow = x.op == TENON_S_CMP ? true : fits32(e);
    for (size_t i = 0; i < in.size(); ++i) {
      if (p_.type(in[i]) == TENON_I64) narrow = narrow && fits32(in[i]);
    }
    const DType t = narrow ? TENON_I32 : TENON_I64;
    for (size_t i = 0; i < in.size(); ++i) {
      if (p_.type(in[i]) == TENON_I64) args[i] = as_type(args[i], t);
    }
    return apply(x.op, x.type == TENON_PRED ? x.type : t, args, x.ref);
  }
  for (size_t i = 0; i < in.size(); ++i) args[i] = as_type(args[i], p_.type(in[i]));
  // Plain C operators for index arithmetic. Not for values from memory, which may wrap, or for
  // values that may be negative, which must round down.
  bool plain = x.type == TENON_I64 && !has_data(e);
  const Interval r = p_.range(e);
  plain = plain && (r.lo != INT64_MIN || r.hi != INT64_MAX);
  if (x.op == kFloorDiv || x.op == kMod)
    plain = plain && p_.range(in[0]).lo >= 0 && p_.range(in[1]).lo >= 1;
  return apply(x.op, x.type, args, x.ref, plain);
}

bool Emitter::has_data(ExprId e) {
  if (e == kNone) return false;
  const X kind = p_.at(e).kind;
  if (kind == X::kLoad || kind == X::kState) return true;
  if (kind != X::kOp) return false;
  const auto [known, fresh] = has_data_.try_emplace(e, false);
  if (!fresh) return known->second;
  bool found = false;
  for (ExprId a : p_.args(e)) found = found || has_data(a);
  return has_data_[e] = found;
}

// ---- Memory ----

uint32_t Emitter::argument(uint32_t named, bool written) {
  const uint32_t buffer = memory_of(k_, named);
  auto [it, fresh] = arguments_.try_emplace(buffer, static_cast<uint32_t>(out_->buffers.size()));
  if (fresh) out_->buffers.push_back({buffer, k_.buffers[buffer].type, false});
  if (written) out_->buffers[it->second].written = true;
  return it->second;
}

bool Emitter::is_scratch(uint32_t buffer) const {
  return k_.buffers[memory_of(k_, buffer)].role == Role::kTemp;
}

ExprId Emitter::reserve(ExprId elements, DType t, uint32_t multiple) {
  const ExprId at = scratch_ == kNone ? p_.integer(0) : scratch_;
  const ExprId bytes = p_.mul(elements, p_.integer(int64_t{size_of(t)} * multiple));
  scratch_ = p_.add(
      at, p_.mul(p_.floordiv(p_.add(bytes, p_.integer(63)), p_.integer(64)), p_.integer(64)));
  out_->scratch_bytes = size_program(p_, scratch_);
  return at;
}

Val Emitter::load_at(Space space, uint32_t ref, DType t, Val at, uint32_t n, ValueId m,
                     ValueId other, ValueId stride) {
  Node node;
  node.kind = NodeKind::kLoad;
  node.space = space;
  node.ref = ref;
  node.type = t;
  node.args[0] = at.v;
  node.args[1] = m;
  node.args[2] = other;
  node.stride = stride;
  node.dst = value(t, n);
  return {emit(at.depth, node), at.depth, at.varies};
}

void Emitter::store_at(Space space, uint32_t ref, DType t, Val at, Val v, ValueId m,
                       ValueId stride) {
  // An index vector may be narrower than the memory it goes to (iota).
  if (t == TENON_I64) v = as_type(v, t);
  Node node;
  node.kind = NodeKind::kStore;
  node.space = space;
  node.ref = ref;
  node.type = t;
  node.args[0] = at.v;
  node.args[1] = v.v;
  node.args[2] = m;
  node.stride = stride;
  emit(depth(), node);
}

// Addresses for rows where each lane reads a different element: the index depends on data or on the
// row number.
Val Emitter::each_in_its_slot(Val base, ExprId offset, uint32_t slots) {
  Node n;
  n.kind = NodeKind::kIota;
  n.args[0] = add(base, integer(int64_t{copy} * width)).v;
  n.dst = value(TENON_I64, width);
  const Val slot{emit(base.depth, n), base.depth, true};
  const Val at =
      apply(TENON_S_MUL, TENON_I64, {as_type(vector(offset), TENON_I64), integer(slots)});
  return apply(TENON_S_ADD, TENON_I64, {slot, at});
}

Emitter::Address Emitter::address(uint32_t buffer, ExprId offset, bool as_vector,
                                  bool masked_by_lane) {
  Address a;
  if (is_scratch(buffer)) {
    const DType t = k_.buffers[buffer].type;
    const uint32_t slots = lanes_are_rows ? width * temp_copies : 1;
    if (!temp_offset_.count(buffer))
      temp_offset_[buffer] = reserve(prepared_.temp_elements[buffer], t, slots);
    const Val base = scalar(p_.floordiv(temp_offset_[buffer], p_.integer(size_of(t))));
    if (lanes_are_rows && as_vector && p_.uses_axis(offset, vector_axis)) {
      a.at = each_in_its_slot(base, offset, slots);
      a.lanes = width;
      return a;
    }
    if (lanes_are_rows) {
      a.at = add(base, add(mul(scalar(offset), integer(slots)), integer(int64_t{copy} * width)));
      a.at.varies = true;
      a.lanes = as_vector ? width : 1;
      return a;
    }
    a = {};
    std::vector<ExprId> c;
    ExprId rest;
    const uint32_t axes[] = {vector_axis};
    a.at = add(base, scalar(offset));
    if (as_vector && p_.uses_axis(offset, vector_axis)) {
      a.lanes = width;
      if (!p_.affine(offset, axes, &c, &rest)) {
        a.at = add(base, as_type(vector(offset), type(base.v)));
      } else if (!p_.is_const(c[0], 1)) {
        a.stride = scalar(c[0]).v;
      }
    }
    return a;
  }
  if (!as_vector || !p_.uses_axis(offset, vector_axis)) {
    a.at = scalar(offset);
    if (as_vector && masked_by_lane) {
      a.lanes = width;
      a.stride = integer(0).v;
    }
    return a;
  }
  a.lanes = width;
  std::vector<ExprId> c;
  ExprId rest;
  const uint32_t axes[] = {vector_axis};
  if (!p_.affine(offset, axes, &c, &rest)) {
    a.at = vector(offset);
    return a;
  }
  a.at = scalar(offset);
  if (p_.is_const(c[0], 1)) return a;
  const Val stride = scalar(c[0]);
  a.at.depth = std::max(a.at.depth, stride.depth);
  a.stride = stride.v;
  return a;
}

Val Emitter::load(ExprId e, bool as_vector) {
  const Expr x = p_.at(e);
  const ExprId guard = p_.arg(e, 0), other = p_.arg(e, 1), offset = p_.arg(e, 2);
  if (at_once(x.ref, guard, offset)) return load_copies(e, wide);
  if (same_for_copies(guard, offset)) return load_copies(e, 1);
  Val m, o;
  if (guard != kNone) m = eval(guard, as_vector);
  const bool lane_guard = m.v != kNoValue && lanes(m.v) > 1;
  Address a = address(x.ref, offset, as_vector, lane_guard);
  if (guard != kNone) {
    o = as_type(eval(other, as_vector), x.type);
    if (lanes(o.v) > a.lanes) {
      // A scalar element with a vector alternative.
      a.lanes = width;
      a.stride = integer(0).v;
    }
  }
  if (a.lanes > 1 && mask != kNoValue) {
    const Val tail{mask, mask_depth, true};
    m = m.v == kNoValue ? tail : apply(TENON_S_AND, TENON_PRED, {m, tail});
  }
  Val at = a.at;
  if (m.v != kNoValue) {
    m = splat(m, a.lanes);
    at = {at.v, std::max(at.depth, m.depth), at.varies || m.varies};
  }
  if (o.v != kNoValue) {
    o = splat(o, a.lanes);
    at = {at.v, std::max(at.depth, o.depth), at.varies || o.varies};
  }
  if (a.lanes > 1 && mask == kNoValue) at.depth = std::max(at.depth, vector_depth);
  if (written_[memory_of(k_, x.ref)]) at.depth = std::max(at.depth, row_depth);
  const bool scratch = is_scratch(x.ref);
  return load_at(scratch ? Space::kScratch : Space::kBuffer, scratch ? 0 : argument(x.ref, false),
                 x.type, at, a.lanes, m.v, o.v, a.stride);
}

void Emitter::store(const View& view, Val v, bool as_vector) {
  const bool scratch = is_scratch(view.buffer);
  if (scratch && !prepared_.temp_memory[view.buffer]) return;
  Address a = address(view.buffer, view.index[0], as_vector, false);
  Val m;
  if (view.guard != kNone) m = splat(eval(view.guard, as_vector), a.lanes);
  if (a.lanes > 1 && mask != kNoValue && !(scratch && lanes_are_rows)) {
    const Val tail{mask, mask_depth, true};
    m = m.v == kNoValue ? tail : apply(TENON_S_AND, TENON_PRED, {m, tail});
  }
  store_at(scratch ? Space::kScratch : Space::kBuffer, scratch ? 0 : argument(view.buffer, true),
           k_.buffers[view.buffer].type, a.at, splat(v, a.lanes), m.v, a.stride);
  const bool vector = a.lanes > 1 && a.lanes == width && lanes(a.at.v) == 1 &&
                      a.stride == kNoValue && m.v == kNoValue;
  if (scratch || !vector || streamed.empty() || !streamed[memory_of(k_, view.buffer)]) return;
  Node& node = scopes_.back()->nodes->back();
  node.stream = true;
  node.args[3] = stream;
}

void Emitter::forward(uint32_t buffer, ExprId offset, Val v, bool as_vector) {
  const ExprId index[] = {offset};
  const ExprId l = p_.load(buffer, k_.buffers[buffer].type, index);
  v.depth = depth();
  v.varies = as_vector;
  Scope& scope = *scopes_.back();
  scope.forwards[key(l, true, as_vector)] = v;
  // A scalar row value is the same as a scalar and as a vector.
  if (lanes(v.v) == 1) scope.forwards[key(l, false, as_vector)] = v;
}

void Emitter::forward_guarded(ExprId load, Val v) {
  v.depth = depth();
  v.varies = true;
  scopes_.back()->forwards[key(load, true, true)] = v;
}

void decode(Emitter& e, Val item, const std::vector<uint32_t>& axes) {
  Pool& p = e.pool();
  Val rest = item;
  for (size_t i = axes.size(); i-- > 0;) {
    if (i == 0) {
      e.bind(axes[0], rest);
      break;
    }
    const Val n = e.scalar(p.axes()[axes[i]].extent);
    e.bind(axes[i], e.mod(rest, n));
    rest = e.div(rest, n);
  }
}

Val decode_outer(Emitter& e, Val item, std::vector<uint32_t> axes) {
  const uint32_t last = axes.back();
  axes.pop_back();
  if (axes.empty()) return item;
  const Val n = e.scalar(e.pool().axes()[last].extent);
  decode(e, e.div(item, n), axes);
  return e.mod(item, n);
}

}  // namespace tenon::kernelgen
