// Work items that compute a few neighbours each. What is contiguous in them is loaded and stored at
// once, by instructions of up to 16 bytes; everything else is computed for one after another.
#include <algorithm>
#include <utility>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/loops/lower_internal.h"
#include "tenon/kernelgen/schedule/neighbours.h"

namespace tenon::kernelgen {

// Elements of 8 bytes are left alone, because 4 of them are more than an instruction takes.
bool fits_at_once(DType t) {
  return t != TENON_PRED && size_of(t) <= 4;
}

bool Emitter::at_once(uint32_t buffer, ExprId guard, ExprId offset) {
  return wide != 1 && guard == kNone && fits_at_once(k_.buffers[buffer].type) &&
         neighbours(p_, offset, vector_axis, wide) == Apart::kContiguous;
}

bool Emitter::same_for_copies(ExprId guard, ExprId offset) {
  return wide != 1 && guard == kNone && p_.uses_axis(offset, vector_axis) &&
         neighbours(p_, offset, vector_axis, wide) == Apart::kSame;
}

// Where the first copy's element is.
Val Emitter::place(uint32_t buffer, ExprId offset) {
  const uint32_t now = std::exchange(copy, 0);
  const Val at = address(buffer, offset, false, false).at;
  copy = now;
  return at;
}

// Loads for all copies; the value is that of the current one. The others find theirs when they ask.
Val Emitter::load_copies(ExprId e, uint32_t elements) {
  const Expr x = p_.at(e);
  const bool scratch = is_scratch(x.ref);
  Val at = place(x.ref, p_.arg(e, 2)), mine;
  if (written_[memory_of(k_, x.ref)]) at.depth = std::max(at.depth, row_depth);
  const Val all = load_at(scratch ? Space::kScratch : Space::kBuffer,
                          scratch ? 0 : argument(x.ref, false), x.type, at, elements);
  const uint32_t now = copy;
  for (copy = 0; copy < wide; ++copy) {
    if (elements == 1) {
      mine = {all.v, all.depth, true};
      scopes_[mine.depth]->memo[key(e, false, true)] = mine;
      continue;
    }
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

Val Emitter::join_copies(DType t, const std::vector<Val>& copies) {
  Node n;
  n.kind = NodeKind::kJoin;
  for (const Val& v : copies) n.list.push_back(v.v);
  n.dst = value(t, static_cast<uint32_t>(copies.size()));
  return {emit(depth(), n), depth(), true};
}

void Emitter::store_copies(const View& view, const std::vector<Val>& copies) {
  const bool scratch = is_scratch(view.buffer);
  if (!at_once(view.buffer, view.guard, view.index[0]) ||
      (scratch && !prepared_.temp_memory[view.buffer])) {
    for (copy = 0; copy < wide; ++copy) store(view, copies[copy], false);
    copy = 0;
    return;
  }
  const DType t = k_.buffers[view.buffer].type;
  const Val all = join_copies(t, copies), at = place(view.buffer, view.index[0]);
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
