// Work items that compute a few neighbours each. What is contiguous in them is loaded and stored at
// once, by instructions of up to 16 bytes; everything else is computed for one after another.
#include <algorithm>
#include <utility>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/loops/lower_internal.h"

namespace tenon::kernelgen {

// Whether the copies' elements are contiguous, and begin at a multiple of their bytes: all terms of
// the offset but the axis of the copies are multiples of their number. Elements of 8 bytes are left
// alone, because 4 of them are more than an instruction takes.
bool Emitter::at_once(uint32_t buffer, ExprId guard, ExprId offset) {
  const DType t = k_.buffers[buffer].type;
  if (wide == 1 || guard != kNone || t == TENON_PRED || size_of(t) > 4) return false;
  std::vector<uint32_t> axes = {vector_axis};
  for (uint32_t a = 0; a < p_.axes().size(); ++a) {
    if (a != vector_axis && p_.uses_axis(offset, a)) axes.push_back(a);
  }
  std::vector<ExprId> c;
  ExprId rest = kNone;
  if (!p_.affine(offset, axes, &c, &rest) || !p_.is_const(c[0], 1)) return false;
  c[0] = rest;
  return std::ranges::all_of(c,
                             [&](ExprId x) { return p_.is_const(p_.mod(x, p_.integer(wide)), 0); });
}

// Where the first copy's element is.
Val Emitter::place(uint32_t buffer, ExprId offset) {
  const uint32_t now = std::exchange(copy, 0);
  const Val at = address(buffer, offset, false, false).at;
  copy = now;
  return at;
}

// Loads for all copies; the value is that of the current one. The others find theirs when they ask.
Val Emitter::load_copies(ExprId e) {
  const Expr x = p_.at(e);
  const bool scratch = is_scratch(x.ref);
  Val at = place(x.ref, p_.arg(e, 2)), mine;
  if (written_[memory_of(k_, x.ref)]) at.depth = std::max(at.depth, row_depth);
  const Val all = load_at(scratch ? Space::kScratch : Space::kBuffer,
                          scratch ? 0 : argument(x.ref, false), x.type, at, wide);
  const uint32_t now = copy;
  for (copy = 0; copy < wide; ++copy) {
    Node n;
    n.kind = NodeKind::kLane;
    n.ref = copy;
    n.args[0] = all.v;
    n.dst = value(x.type, 1);
    const Val one{emit(all.depth, n), all.depth, true};
    scopes_[one.depth]->memo[key(e, false, true)] = one;
    if (copy == now) mine = one;
  }
  copy = now;
  return mine;
}

void Emitter::store_copies(const View& view, const std::vector<Val>& copies) {
  const bool scratch = is_scratch(view.buffer);
  if (!at_once(view.buffer, view.guard, view.index[0]) ||
      (scratch && !prepared_.temp_memory[view.buffer])) {
    for (copy = 0; copy < wide; ++copy) store(view, copies[copy], false);
    copy = 0;
    return;
  }
  Node n;
  n.kind = NodeKind::kJoin;
  for (const Val& v : copies) n.list.push_back(v.v);
  const DType t = k_.buffers[view.buffer].type;
  n.dst = value(t, wide);
  const Val at = place(view.buffer, view.index[0]), all{emit(depth(), n), depth(), true};
  store_at(scratch ? Space::kScratch : Space::kBuffer, scratch ? 0 : argument(view.buffer, true), t,
           at, all);
}

void map_copies(Emitter& e, const Stage& s) {
  std::vector<std::vector<Val>> values(s.store.size());
  const bool last = stores_last(e.prepared().kernel, s);
  const auto compute = [&](size_t r) {
    for (e.copy = 0; e.copy < e.wide; ++e.copy) values[r].push_back(e.scalar(s.value[r]));
    e.copy = 0;
  };
  for (size_t r = 0; last && r < s.store.size(); ++r) compute(r);
  for (size_t r = 0; r < s.store.size(); ++r) {
    if (!last) compute(r);
    for (e.copy = 0; e.copy < e.wide; ++e.copy)
      e.forward(s.store[r].buffer, s.store[r].index[0], values[r][e.copy], true);
    e.copy = 0;
    e.store_copies(s.store[r], values[r]);
  }
}

bool lower_wide_items(Emitter& e, const Schedule& s, std::string*) {
  Pool& p = e.pool();
  const Kernel& k = e.prepared().kernel;
  std::vector<uint32_t> outer = k.lead;
  std::erase(outer, s.vector_axis);
  const ExprId blocks = p.floordiv(p.axes()[s.vector_axis].extent, p.integer(s.wide));
  loop_over_items(e, s, points(p, outer, blocks), [&](Val item) {
    e.row_depth = e.depth();
    Val block = item;
    if (!outer.empty()) {
      const Val count = e.scalar(blocks);
      block = e.mod(item, count);
      decode(e, e.div(item, count), outer);
    }
    with_copies(e, s.vector_axis, s.wide, e.mul(block, e.integer(s.wide)), [&] {
      for (size_t i = 0; i < k.stages.size(); ++i) {
        e.comment("stage " + std::to_string(i) + " Map");
        map_copies(e, k.stages[i]);
      }
    });
  });
  return true;
}

}  // namespace tenon::kernelgen
