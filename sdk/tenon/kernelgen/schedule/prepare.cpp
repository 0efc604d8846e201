#include "tenon/kernelgen/schedule/prepare.h"

#include <algorithm>
#include <unordered_map>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/schedule/contraction.h"

namespace tenon::kernelgen {
namespace {

template <class F>
void for_each_slot(Stage& s, F f) {
  for (ExprId* e : slots(s)) f(*e);
}

class Flattener {
 public:
  explicit Flattener(Prepared& out) : o_(out), k_(out.kernel), p_(out.kernel.pool) {}

  void run() {
    one_sided_contractions();
    lay_out_temps();
    if (k_.stages[0].ordered()) {
      flatten(k_.stages[0]);
      o_.temp_memory.assign(k_.buffers.size(), false);
      return;
    }
    unify_inner_axes();
    for (Stage& s : k_.stages) flatten(s);
    while (collapse_one()) {
    }
    find_passes();
    find_memory();
  }

 private:
  // Turns a contraction with one free side (a matrix times a vector, a depthwise convolution) into
  // a sum of products.
  void one_sided_contractions() {
    for (Stage& s : k_.stages) {
      if (s.kind != StageKind::kContract || s.panel != 0) continue;
      bool only_a = false, only_b = false;
      for (uint32_t axis : s.space) {
        const bool a = p_.uses_axis(s.a, axis), b = p_.uses_axis(s.b, axis);
        only_a |= a && !b;
        only_b |= b && !a;
      }
      const bool packed = panel_of(k_, s.a) != 0 || panel_of(k_, s.b) != 0;
      if ((only_a && only_b) || packed) continue;
      const DType t = p_.type(s.a);
      s.kind = StageKind::kReduce;
      s.init = {p_.number(0, t)};
      s.step = {is_float(t) ? p_.op(kMulAdd, {s.a, s.b, p_.state(0, t)})
                            : p_.add(p_.state(0, t), p_.mul(s.a, s.b))};
      s.merge = {p_.op(TENON_S_ADD, {p_.state(0, t), p_.state(1, t)})};
      s.a = s.b = kNone;
    }
  }

  // Temps lose their lead dims, or take the layout of the output whose memory they share.
  void lay_out_temps() {
    o_.temp_elements.assign(k_.buffers.size(), kNone);
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      Buffer& t = k_.buffers[b];
      if (t.role != Role::kTemp) continue;
      if (t.alias_of >= 0) {
        t.strides = k_.buffers[t.alias_of].strides;
        t.offset = k_.buffers[t.alias_of].offset;
        continue;
      }
      const View* store = nullptr;
      for (const Stage& s : k_.stages) {
        for (const View& v : s.store) {
          if (v.buffer == b) store = &v;
        }
      }
      ExprId n = p_.integer(1);
      for (size_t d = t.dims.size(); d-- > 0;) {
        bool lead = false;
        for (uint32_t a : k_.lead) lead |= store && p_.uses_axis(store->index[d], a);
        t.strides[d] = lead ? p_.integer(0) : n;
        if (!lead) n = p_.mul(n, t.dims[d]);
      }
      t.offset = kNone;
      o_.temp_elements[b] = n;
    }
  }

  // Inner axes of equal extent in different stages become the same loop variable, but two axes of
  // one stage never do. An axis that is a loop variable already keeps it; then the other axes
  // choose among the remaining ones.
  void unify_inner_axes() {
    std::vector<uint32_t> loops;
    for (Stage& s : k_.stages) {
      std::vector<uint32_t> taken;
      for (auto* list : {&s.space, &s.reduce}) {
        for (uint32_t a : *list) {
          if (contains(loops, a)) taken.push_back(a);
        }
      }
      std::unordered_map<ExprId, ExprId> rename;
      for (auto* list : {&s.space, &s.reduce}) {
        for (uint32_t& a : *list) {
          if (contains(k_.lead, a) || contains(loops, a)) continue;
          const uint32_t loop = free_loop(loops, taken, a);
          taken.push_back(loop);
          if (loop != a) rename[p_.axis(a)] = p_.axis(loop);
          a = loop;
        }
      }
      for (uint32_t a : taken) {
        if (!contains(loops, a)) loops.push_back(a);
      }
      if (!rename.empty()) for_each_slot(s, [&](ExprId& e) { e = p_.substitute(e, rename); });
    }
  }
  // The first loop variable with the axis' extent that the stage does not use yet; else the axis
  // itself.
  uint32_t free_loop(const std::vector<uint32_t>& loops, const std::vector<uint32_t>& taken,
                     uint32_t axis) const {
    for (uint32_t loop : loops) {
      if (!contains(taken, loop) && p_.axes()[loop].extent == p_.axes()[axis].extent) return loop;
    }
    return axis;
  }

  ExprId offset(uint32_t buffer, std::span<const ExprId> index) {
    const Buffer& b = k_.buffers[buffer];
    ExprId sum = b.offset == kNone ? p_.integer(0) : b.offset;
    for (size_t d = 0; d < index.size(); ++d) sum = p_.add(sum, p_.mul(index[d], b.strides[d]));
    return sum;
  }

  void flatten(Stage& s) {
    std::vector<ExprId> loads;
    for_each_slot(s, [&](ExprId& e) { p_.loads(e, &loads); });
    std::sort(loads.begin(), loads.end());
    std::unordered_map<ExprId, ExprId> map;
    for (ExprId l : loads) {
      const Expr x = p_.at(l);
      std::vector<ExprId> args(p_.args(l).begin(), p_.args(l).end());
      for (ExprId& a : args) a = p_.substitute(a, map);
      const ExprId at[] = {offset(x.ref, std::span<const ExprId>(args).subspan(2))};
      map[l] = p_.load(x.ref, x.type, at, args[0], args[1]);
    }
    for_each_slot(s, [&](ExprId& e) { e = p_.substitute(e, map); });
    for (View& v : s.store) v.index = {offset(v.buffer, v.index)};
  }

  // ---- Collapsing: two axes that every access traverses as one ----

  // Whether e mentions the axis outside of load offsets.
  bool bare(ExprId e, uint32_t axis) const {
    p_.begin_walk();
    return bare_unseen(e, axis);
  }
  bool bare_unseen(ExprId e, uint32_t axis) const {
    if (e == kNone || !p_.first_visit(e)) return false;
    const Expr& x = p_.at(e);
    if (x.kind == X::kAxis) return x.ref == axis;
    if (x.kind == X::kLoad)
      return bare_unseen(p_.arg(e, 0), axis) || bare_unseen(p_.arg(e, 1), axis);
    for (ExprId a : p_.args(e)) {
      if (bare_unseen(a, axis)) return true;
    }
    return false;
  }

  bool walks_as_one(ExprId off, uint32_t outer, uint32_t inner) {
    std::vector<ExprId> c;
    ExprId rest;
    const uint32_t axes[] = {outer, inner};
    if (!p_.affine(off, axes, &c, &rest)) return false;
    return c[0] == p_.mul(c[1], p_.axes()[inner].extent);
  }

  bool same_place(const Stage& s, uint32_t a, uint32_t b, bool* present) {
    const bool space_a = contains(s.space, a), space_b = contains(s.space, b);
    const bool reduce_a = contains(s.reduce, a), reduce_b = contains(s.reduce, b);
    *present = space_a || reduce_a;
    return space_a == space_b && reduce_a == reduce_b;
  }

  bool can_collapse(uint32_t outer, uint32_t inner) {
    if (contains(k_.lead, outer) != contains(k_.lead, inner)) return false;
    for (Stage& s : k_.stages) {
      bool present = false;
      if (!same_place(s, outer, inner, &present)) return false;
      if (!present) continue;
      std::vector<ExprId> loads;
      bool ok = true;
      for (auto* list : {&s.value, &s.init, &s.step, &s.merge, &s.final}) {
        for (ExprId e : *list) {
          ok = ok && !bare(e, outer) && !bare(e, inner);
          p_.loads(e, &loads);
        }
      }
      for (ExprId e : {s.a, s.b}) {
        ok = ok && !bare(e, outer) && !bare(e, inner);
        p_.loads(e, &loads);
      }
      for (const View& v : s.store)
        ok = ok && v.guard == kNone && walks_as_one(v.index[0], outer, inner);
      for (ExprId l : loads) ok = ok && walks_as_one(p_.arg(l, 2), outer, inner);
      if (!ok) return false;
    }
    return true;
  }

  ExprId merged(ExprId off, uint32_t outer, uint32_t inner, ExprId axis) {
    std::vector<ExprId> c;
    ExprId rest;
    const uint32_t axes[] = {outer, inner};
    if (!p_.affine(off, axes, &c, &rest)) return off;
    return p_.add(rest, p_.mul(c[1], axis));
  }

  void collapse(uint32_t outer, uint32_t inner) {
    const uint32_t id = p_.add_axis(p_.mul(p_.axes()[outer].extent, p_.axes()[inner].extent));
    const ExprId axis = p_.axis(id);
    for (Stage& s : k_.stages) {
      std::vector<ExprId> loads;
      for_each_slot(s, [&](ExprId& e) { p_.loads(e, &loads); });
      std::sort(loads.begin(), loads.end());
      std::unordered_map<ExprId, ExprId> map;
      for (ExprId l : loads) {
        const Expr x = p_.at(l);
        const ExprId at[] = {merged(p_.substitute(p_.arg(l, 2), map), outer, inner, axis)};
        const ExprId guard = p_.substitute(p_.arg(l, 0), map),
                     other = p_.substitute(p_.arg(l, 1), map);
        map[l] = p_.load(x.ref, x.type, at, guard, other);
      }
      for (auto* list : {&s.value, &s.init, &s.step, &s.merge, &s.final}) {
        for (ExprId& e : *list) e = p_.substitute(e, map);
      }
      s.a = p_.substitute(s.a, map);
      s.b = p_.substitute(s.b, map);
      for (View& v : s.store) v.index[0] = merged(v.index[0], outer, inner, axis);
      for (auto* list : {&s.space, &s.reduce}) fuse_in(*list, outer, inner, id);
    }
    fuse_in(k_.lead, outer, inner, id);
  }

  static void fuse_in(std::vector<uint32_t>& list, uint32_t outer, uint32_t inner, uint32_t id) {
    if (!contains(list, inner)) return;
    std::replace(list.begin(), list.end(), inner, id);
    list.erase(std::remove(list.begin(), list.end(), outer), list.end());
  }

  bool collapse_one() {
    std::vector<uint32_t> axes;
    for (const Stage& s : k_.stages) {
      for (const auto* list : {&s.space, &s.reduce}) {
        for (uint32_t a : *list) {
          if (!contains(axes, a)) axes.push_back(a);
        }
      }
    }
    for (uint32_t a : axes) {
      for (uint32_t b : axes) {
        if (a != b && can_collapse(a, b)) {
          collapse(a, b);
          return true;
        }
      }
    }
    return false;
  }

  // ---- Passes ----

  bool joins(const Pass& pass, const Stage& s) const {
    std::vector<uint32_t> mine = inner_axes(k_, s.space), sum = inner_axes(k_, s.reduce);
    const bool reduce = s.kind == StageKind::kReduce;
    if (s.kind == StageKind::kContract) return false;
    if (reduce && !mine.empty()) return false;  // keeps its own loop nest
    if (reduce) mine = sum;
    std::vector<uint32_t> theirs = pass.space;
    theirs.insert(theirs.end(), pass.reduce.begin(), pass.reduce.end());
    for (size_t i : pass.stages) {
      const Stage& t = k_.stages[i];
      if (t.kind == StageKind::kReduce && !inner_axes(k_, t.space).empty()) return false;
    }
    std::sort(mine.begin(), mine.end());
    std::sort(theirs.begin(), theirs.end());
    if (mine != theirs || mine.empty()) return false;
    return memory_allows(pass, s);
  }

  // Whether s may share the loop nest of the pass, where a point of s runs before the next point of
  // the other stages. So s may read only its own point's element of their results, and may not
  // write memory that they write, or read at other points.
  bool memory_allows(const Pass& pass, const Stage& s) const {
    const std::vector<ExprId> loads = loads_of(p_, s);
    for (size_t i : pass.stages) {
      const Stage& before = k_.stages[i];
      for (const View& v : before.store) {
        for (const View& w : s.store) {
          if (memory_of(k_, v.buffer) == memory_of(k_, w.buffer)) return false;
        }
        for (ExprId l : loads) {
          if (v.buffer != p_.at(l).ref) continue;
          if (before.kind == StageKind::kReduce || v.index[0] != p_.arg(l, 2) ||
              p_.arg(l, 0) != kNone)
            return false;
        }
      }
      for (ExprId l : loads_of(p_, before)) {
        for (const View& w : s.store) {
          if (memory_of(k_, p_.at(l).ref) == memory_of(k_, w.buffer) && w.index[0] != p_.arg(l, 2))
            return false;
        }
      }
    }
    return true;
  }

  void find_passes() {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      const Stage& s = k_.stages[i];
      if (!o_.passes.empty() && joins(o_.passes.back(), s)) {
        Pass& p = o_.passes.back();
        p.stages.push_back(i);
        if (s.kind == StageKind::kReduce) {
          p.reduce = inner_axes(k_, s.reduce);
          p.space.clear();
        }
        continue;
      }
      o_.passes.push_back({{i}, inner_axes(k_, s.space), inner_axes(k_, s.reduce)});
    }
  }

  void find_memory() {
    o_.temp_memory.assign(k_.buffers.size(), false);
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      if (o_.temp_elements[b] == kNone || p_.is_const(o_.temp_elements[b], 1)) continue;
      for (const Pass& reader : o_.passes) {
        bool reads = false, writes = false;
        for (size_t i : reader.stages) {
          std::vector<ExprId> loads;
          for_each_slot(k_.stages[i], [&](ExprId& e) { p_.loads(e, &loads); });
          for (ExprId l : loads) reads |= p_.at(l).ref == b;
          for (const View& v : k_.stages[i].store) writes |= v.buffer == b;
        }
        if (reads && !writes) o_.temp_memory[b] = true;
      }
    }
  }

  Prepared& o_;
  Kernel& k_;
  Pool& p_;
};

}  // namespace

Prepared prepare(const Kernel& kernel) {
  Prepared out{kernel, {}, {}, {}};
  Flattener(out).run();
  return out;
}

}  // namespace tenon::kernelgen
