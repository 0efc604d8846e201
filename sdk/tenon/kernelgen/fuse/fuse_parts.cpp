// Concat, pad and dynamic_update_slice as views of their result: their operands are written
// directly into it.
//
// For each box of its result, such a stage chooses whose element to take. Suppose that an operand
// is a temp that other kernels write and that could be fused with nothing else. Then its writers
// store into its box of the result, and the stage becomes one copy per remaining box: often none.
// An update is the same with overlapping boxes: the updated operand is the whole result, and the
// update is stored over it afterwards (Stage::overlay).
//
// Last step of lay_out: strides have been chosen, and everything that can be inlined into its
// consumers has been.
#include <list>
#include <optional>

#include "tenon/kernelgen/fuse/fuse_internal.h"

namespace tenon::kernelgen {
namespace {

constexpr size_t kMostBoxes = 40;
// An update of more of its operand than this is no small one.
constexpr double kUpdateShareMost = 0.25;

struct Box {
  std::vector<ExprId> lo, hi;
  ExprId value = kNone;
};

class Parts {
 public:
  Parts(Kernel& k, const Target& target)
      : k_(k),
        p_(k.pool),
        least_bytes_(target.part_bytes),
        copies_(target.vector_bytes != 0),
        writers_(k.buffers.size()),
        readers_(k.buffers.size()) {}

  void run() {
    for (Stage& s : k_.stages) stages_.push_back(std::move(s));
    for (Stage& s : stages_) note(s);
    for (auto it = stages_.begin(); it != stages_.end();) {
      update(it);
      it = join(it) ? stages_.erase(it) : std::next(it);
    }
    k_.stages.clear();
    for (Stage& s : stages_) k_.stages.push_back(std::move(s));
  }

 private:
  using Place = std::list<Stage>::iterator;

  void note(Stage& s) {
    for (const View& v : s.store) add(writers_[v.buffer], &s);
    for (ExprId l : loads_of(p_, s)) add(readers_[p_.at(l).ref], &s);
  }
  static void add(std::vector<Stage*>& list, Stage* s) {
    if (std::find(list.begin(), list.end(), s) == list.end()) list.push_back(s);
  }

  // ---- Conditions on places ----

  struct Bound {
    size_t dim;
    bool lower;
    ExprId at;
  };

  // Parses a comparison that bounds one axis of the result. lower: axis >= at, else axis < at.
  bool bound(const Stage& s, ExprId condition, std::vector<Bound>* out) {
    const Expr x = p_.at(condition);
    if (x.kind != X::kOp) return false;
    if (x.op == TENON_S_AND)
      return bound(s, p_.arg(condition, 0), out) && bound(s, p_.arg(condition, 1), out);
    if (x.op != TENON_S_CMP || x.ref == TENON_CMP_EQ || x.ref == TENON_CMP_NE) return false;
    if (p_.type(p_.arg(condition, 0)) != TENON_I64) return false;
    const ExprId difference = p_.sub(p_.arg(condition, 0), p_.arg(condition, 1));
    std::vector<ExprId> c;
    ExprId rest = kNone;
    if (!p_.affine(difference, s.space, &c, &rest)) return false;
    size_t moving = s.space.size();
    for (size_t i = 0; i < c.size(); ++i) {
      if (p_.is_const(c[i], 0)) continue;
      if (moving != s.space.size()) return false;
      moving = i;
    }
    if (moving == s.space.size()) return false;
    const bool up = p_.is_const(c[moving], 1);
    if (!up && !p_.is_const(c[moving], -1)) return false;
    // The form is axis + rest > 0 or similar; a negative coefficient reverses the relation.
    const bool greater = (x.ref == TENON_CMP_GT || x.ref == TENON_CMP_GE) == up;
    const bool strict = x.ref == TENON_CMP_GT || x.ref == TENON_CMP_LT;
    const ExprId zero = up ? p_.sub(p_.integer(0), rest) : rest;
    const bool next = greater ? strict : !strict;
    const ExprId axis = p_.axis(s.space[moving]);
    const std::vector<ExprId>& to = s.store[0].index;
    const auto dim = static_cast<size_t>(std::find(to.begin(), to.end(), axis) - to.begin());
    out->push_back({dim, greater, next ? p_.add(zero, p_.integer(1)) : zero});
    return dim < to.size();
  }

  // Splits a value into a condition and the values where it holds and where it does not.
  bool choice(ExprId value, ExprId* condition, ExprId* inside, ExprId* outside) {
    const Expr x = p_.at(value);
    if (x.kind == X::kLoad && p_.arg(value, 0) != kNone) {
      const std::vector<ExprId> args(p_.args(value).begin(), p_.args(value).end());
      *condition = args[0];
      *outside = args[1];
      *inside = p_.load(x.ref, x.type, std::span<const ExprId>(args).subspan(2));
      return true;
    }
    if (x.kind != X::kOp || x.op != TENON_S_SELECT) return false;
    *condition = p_.arg(value, 0);
    *inside = p_.arg(value, 1);
    *outside = p_.arg(value, 2);
    return true;
  }

  bool at_most(ExprId a, ExprId b) {
    if (a == b) return true;
    return p_.range(p_.sub(b, a)).lo >= 0;
  }

  // ---- Boxes ----

  // Cuts `box` where its value is chosen by place. False: a choice has another form, or its bounds
  // may cross.
  bool carve(const Stage& s, Box box, std::vector<Box>* out) {
    for (size_t d = 0; d < box.lo.size(); ++d) {
      if (box.lo[d] == box.hi[d]) return true;
    }
    if (out->size() >= kMostBoxes) return false;
    ExprId condition = kNone, inside = kNone, outside = kNone;
    if (!choice(box.value, &condition, &inside, &outside)) return out->push_back(box), true;
    std::vector<Bound> bounds;
    if (!bound(s, condition, &bounds)) return out->push_back(box), true;
    for (const Bound& b : bounds) {
      ExprId &lo = box.lo[b.dim], &hi = box.hi[b.dim];
      if (b.lower ? at_most(b.at, lo) : at_most(hi, b.at)) continue;
      Box side = box;
      side.value = outside;
      (b.lower ? side.hi : side.lo)[b.dim] = b.at;
      if (!at_most(lo, b.at) || !at_most(b.at, hi) || !carve(s, side, out)) return false;
      (b.lower ? lo : hi) = b.at;
    }
    box.value = inside;
    return carve(s, box, out);
  }

  // Whether the size of the box is independent of data: loop counts are computed before a kernel
  // reads any data.
  bool known_size(const Box& box) {
    for (size_t d = 0; d < box.lo.size(); ++d) {
      std::vector<ExprId> loads;
      p_.loads(p_.sub(box.hi[d], box.lo[d]), &loads);
      if (!loads.empty()) return false;
    }
    return true;
  }

  // The stage that writes one box, over its own axes.
  Stage part(const Stage& s, const Box& box) {
    Stage out;
    std::unordered_map<ExprId, ExprId> map;
    View to{s.store[0].buffer, {}, kNone};
    for (size_t d = 0; d < box.lo.size(); ++d) {
      const ExprId extent = p_.sub(box.hi[d], box.lo[d]);
      ExprId at = box.lo[d];
      if (!p_.is_const(extent, 1)) {
        out.space.push_back(p_.add_axis(extent));
        at = p_.add(at, p_.axis(out.space.back()));
      }
      if (p_.at(s.store[0].index[d]).kind == X::kAxis) map[s.store[0].index[d]] = at;
      to.index.push_back(at);
    }
    out.value = {p_.substitute(box.value, map)};
    out.store = {to};
    out.origins = s.origins;
    return out;
  }

  // ---- Operands ----

  int64_t likely_bytes(uint32_t buffer) const {
    __int128 n = size_of(k_.buffers[buffer].type);
    for (ExprId d : k_.buffers[buffer].dims)
      n = std::min<__int128>(n * std::max<int64_t>(0, p_.likely(d)), INT64_MAX);
    return static_cast<int64_t>(n);
  }

  // The dim with stride 1; -1: none.
  int32_t innermost(const Buffer& b) const {
    for (size_t d = 0; d < b.dims.size(); ++d) {
      if (p_.is_const(b.strides[d], 1) && !p_.is_const(b.dims[d], 1))
        return static_cast<int32_t>(d);
    }
    return -1;
  }

  // Whether the writers of temp t may write into buffer y, and all other readers of t may read it
  // there.
  bool movable(uint32_t t, uint32_t y, const Stage* into) {
    const Buffer &from = k_.buffers[t], &to = k_.buffers[y];
    if (from.role != Role::kTemp || from.keep || from.panel != 0 || from.offset != kNone ||
        from.type != to.type)
      return false;
    if (writers_[t].empty() || likely_bytes(t) < least_bytes_ || innermost(from) != innermost(to))
      return false;
    for (const Stage* w : writers_[t]) {
      if (w->kind == StageKind::kScatter) return false;
      for (const View& v : w->store) {
        if (v.buffer == t && (v.guard != kNone || v.index.size() != to.dims.size())) return false;
      }
    }
    // A reader that would share loops or a register tile with the only writer must keep reading t.
    return std::ranges::all_of(readers_[t], [&](const Stage* r) {
      return r == into || writers_[t].size() > 1 || r->kind == StageKind::kContract;
    });
  }

  // The temp that `value` copies, point by point of the stage's own axes, if each element moves by
  // `lo`, dim by dim. A column that becomes a row does not qualify.
  std::optional<uint32_t> copied(const Stage& s, const std::vector<ExprId>& lo) {
    const ExprId value = s.value[0];
    if (p_.at(value).kind != X::kLoad || p_.arg(value, 0) != kNone) return std::nullopt;
    const uint32_t t = p_.at(value).ref;
    const std::vector<ExprId>& dims = k_.buffers[t].dims;
    size_t next = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const ExprId at = p_.arg(value, static_cast<uint32_t>(d + 2));
      if (p_.is_const(dims[d], 1) && p_.is_const(at, 0)) continue;
      if (next == s.space.size() || at != p_.axis(s.space[next]) ||
          dims[d] != p_.axes()[s.space[next]].extent)
        return std::nullopt;
      ++next;
    }
    if (next != s.space.size() || dims.size() != s.store[0].index.size()) return std::nullopt;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (s.store[0].index[d] != p_.add(p_.arg(value, static_cast<uint32_t>(d + 2)), lo[d]))
        return std::nullopt;
    }
    return t;
  }

  // Makes all stages access t as part of y: the first element of t is element `lo` of y.
  void retarget(uint32_t t, uint32_t y, const std::vector<ExprId>& lo, const Stage* except) {
    std::vector<Stage*> all = writers_[t];
    for (Stage* r : readers_[t]) add(all, r);
    for (Stage* s : all) {
      if (s == except) continue;
      std::unordered_map<ExprId, ExprId> map;
      std::vector<ExprId> loads = loads_of(p_, *s);
      std::sort(loads.begin(), loads.end());
      for (ExprId l : loads) {
        if (p_.at(l).ref != t) continue;
        const std::vector<ExprId> args(p_.args(l).begin(), p_.args(l).end());
        std::vector<ExprId> index;
        for (size_t d = 0; d < lo.size(); ++d)
          index.push_back(p_.add(p_.substitute(args[d + 2], map), lo[d]));
        map[l] =
            p_.load(y, p_.type(l), index, p_.substitute(args[0], map), p_.substitute(args[1], map));
      }
      if (!map.empty()) rewrite(p_, *s, map);
      for (View& v : s->store) {
        if (v.buffer != t) continue;
        v.buffer = y;
        for (size_t d = 0; d < lo.size(); ++d) v.index[d] = p_.add(v.index[d], lo[d]);
      }
    }
    for (Stage* w : writers_[t]) add(writers_[y], w);
    for (Stage* r : readers_[t]) {
      if (r != except) add(readers_[y], r);
    }
    writers_[t].clear();
    readers_[t].clear();
  }

  void forget(Stage& s) {
    for (auto& list : writers_) std::erase(list, &s);
    for (auto& list : readers_) std::erase(list, &s);
  }

  bool whole(const Stage& s) const {
    return s.kind == StageKind::kMap && s.store.size() == 1 && plain_store(k_, s, s.store[0]) &&
           k_.buffers[s.store[0].buffer].panel == 0 && !s.store[0].index.empty();
  }

  // Whether boxes are copied by kernels of their own although no writer moves: they are large, and
  // lines of each are long, so that plain copies are faster than one that asks at every point.
  bool separate(const std::vector<Box>& boxes, uint32_t y) const {
    constexpr size_t kMost = 8;
    constexpr int64_t kLargeBytes = 1 << 18, kLongLine = 64;
    if (!copies_ || boxes.size() > kMost || likely_bytes(y) < kLargeBytes) return false;
    const bool apart = std::ranges::all_of(
        readers_[y], [](const Stage* r) { return r->kind == StageKind::kContract; });
    return apart &&
           std::ranges::all_of(boxes, [&](const Box& b) { return line(b, y) >= kLongLine; });
  }

  // Points of a box that lie in a row in memory.
  int64_t line(const Box& box, uint32_t y) const {
    const Buffer& to = k_.buffers[y];
    int64_t points = 1;
    for (size_t d = to.dims.size(); d-- > 0;) {
      if (p_.is_const(to.dims[d], 1)) continue;
      if (!p_.is_const(to.strides[d], points)) return points;
      const int64_t whole = p_.likely(to.dims[d]);
      const int64_t n = p_.likely(p_.sub(box.hi[d], box.lo[d]));
      points = std::min<int64_t>(INT32_MAX, points * std::max<int64_t>(0, n));
      if (n != whole) return points;
    }
    return points;
  }

  // Returns whether stage s was replaced by stages before it.
  bool join(Place at) {
    Stage& s = *at;
    if (!whole(s)) return false;
    ExprId condition = kNone, inside = kNone, outside = kNone;
    if (!choice(s.value[0], &condition, &inside, &outside)) return false;
    const uint32_t y = s.store[0].buffer;
    const std::vector<ExprId>& dims = k_.buffers[y].dims;
    std::vector<Box> boxes;
    if (!carve(s, {std::vector<ExprId>(dims.size(), p_.integer(0)), dims, s.value[0]}, &boxes) ||
        boxes.size() < 2)
      return false;
    if (!std::ranges::all_of(boxes, [&](const Box& b) { return known_size(b); })) return false;
    std::vector<Stage> parts;
    std::vector<uint32_t> moved;
    for (const Box& b : boxes) {
      parts.push_back(part(s, b));
      const std::optional<uint32_t> t = copied(parts.back(), b.lo);
      const bool again = t && std::find(moved.begin(), moved.end(), *t) != moved.end();
      if (t && *t != y && !again && movable(*t, y, &s))
        moved.push_back(*t);
      else
        moved.push_back(~0u);
    }
    if (std::ranges::all_of(moved, [](uint32_t t) { return t == ~0u; }) && !separate(boxes, y))
      return false;
    forget(s);
    // Copies come first: they may read an operand that moves (x beside x).
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (moved[i] == ~0u) note(*stages_.insert(at, std::move(parts[i])));
    }
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (moved[i] != ~0u) retarget(moved[i], y, boxes[i].lo, &s);
    }
    return true;
  }

  // Whether a stage after `at` reads t: it would see the update that is stored over t.
  bool read_later(uint32_t t, Place at) {
    const std::vector<Stage*>& readers = readers_[t];
    return std::any_of(std::next(at), stages_.end(),
                       [&](Stage& s) { return std::ranges::find(readers, &s) != readers.end(); });
  }

  // Whether output y is better made as a copy of input t with an update stored over it: a caller
  // that gives up t's memory for y saves the copy. Nobody else reads t, and the box is small, so
  // that the copy costs no more than choosing element by element.
  bool begins_as(uint32_t t, uint32_t y, const Box& box) {
    if (k_.buffers[t].role != Role::kIn || k_.buffers[y].role != Role::kOut) return false;
    if (readers_[t].size() != 1 || writers_[y].size() != 1) return false;
    double share = 1;
    for (size_t d = 0; d < box.lo.size(); ++d) {
      const auto whole = static_cast<double>(p_.likely(k_.buffers[y].dims[d]));
      const auto part = static_cast<double>(p_.likely(p_.sub(box.hi[d], box.lo[d])));
      share *= whole > 0 ? part / whole : 1;
    }
    return share <= kUpdateShareMost;
  }

  // Whether a load never reads an element of the box: its index along one dim is below or above it.
  bool outside_of(const Box& box, ExprId load) {
    for (size_t d = 0; d < box.lo.size(); ++d) {
      const ExprId at = p_.arg(load, static_cast<uint32_t>(d + 2));
      if (at_most(box.hi[d], at) || at_most(p_.add(at, p_.integer(1)), box.lo[d])) return true;
    }
    return false;
  }

  // Handles select(place is inside a box, update, x), if x can become the result.
  void update(Place at) {
    Stage& s = *at;
    ExprId condition = kNone, inside = kNone, outside = kNone;
    if (!whole(s) || !choice(s.value[0], &condition, &inside, &outside)) return;
    std::vector<Bound> bounds;
    if (p_.at(outside).kind != X::kLoad || !bound(s, condition, &bounds)) return;
    Stage as_copy = s;
    as_copy.value = {outside};
    const uint32_t y = s.store[0].buffer;
    const std::optional<uint32_t> t =
        copied(as_copy, std::vector<ExprId>(k_.buffers[y].dims.size(), p_.integer(0)));
    if (!t || *t == y ||
        s.store[0].index !=
            std::vector<ExprId>(p_.args(outside).begin() + 2, p_.args(outside).end()))
      return;
    const std::vector<ExprId>& dims = k_.buffers[y].dims;
    Box box{std::vector<ExprId>(dims.size(), p_.integer(0)), dims, inside};
    std::vector<bool> low(dims.size()), high(dims.size());
    for (const Bound& b : bounds) {
      if ((b.lower ? low : high)[b.dim]) return;
      (b.lower ? low : high)[b.dim] = true;
      (b.lower ? box.lo : box.hi)[b.dim] = b.at;
    }
    ExprId guard = kNone;
    if (!known_size(box)) return;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!at_most(box.lo[d], box.hi[d])) return;
    }
    std::vector<ExprId> own;
    p_.loads(inside, &own);
    p_.loads(condition, &own);
    for (ExprId l : own) {
      if (p_.at(l).ref == *t && !outside_of(box, l)) return;
    }
    const bool begins = begins_as(*t, y, box);
    if (!begins && (!movable(*t, y, &s) || read_later(*t, at))) return;
    Stage over = part(s, box);
    // Accesses without guards inside the box were guarded by the box itself.
    for (size_t d = 0; d < dims.size(); ++d) {
      const ExprId at = over.store[0].index[d];
      if (p_.range(at).lo < 0) guard = p_.both(guard, p_.cmp(TENON_CMP_GE, at, p_.integer(0)));
      if (!at_most(p_.add(at, p_.integer(1)), dims[d]))
        guard = p_.both(guard, p_.cmp(TENON_CMP_LT, at, dims[d]));
    }
    over.store[0].guard = guard;
    over.overlay = true;
    if (!begins) {
      note(over);  // where it reads t, it reads y
      retarget(*t, y, std::vector<ExprId>(dims.size(), p_.integer(0)), &s);
      forget(over);
    }
    forget(s);
    if (begins) note(*stages_.insert(at, std::move(as_copy)));
    s = std::move(over);
    note(s);
  }

  Kernel& k_;
  Pool& p_;
  const int64_t least_bytes_;
  const bool copies_;                                   // whether boxes may be copies of their own
  std::list<Stage> stages_;                             // a list: addresses are stable
  std::vector<std::vector<Stage*>> writers_, readers_;  // by buffer
};

}  // namespace

void place_parts(Kernel& program, const Target& target) {
  Parts(program, target).run();
}

}  // namespace tenon::kernelgen
