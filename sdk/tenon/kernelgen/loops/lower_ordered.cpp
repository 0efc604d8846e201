// Scans, scatters and sorts, which must run in order along some axes. The lead axes are
// independent: ranges cut them, and lanes run along one of them where memory allows, or along the
// axis of a scan that may be reordered.
#include <algorithm>
#include <utility>

#include "tenon/kernelgen/loops/lower_internal.h"

namespace tenon::kernelgen {
namespace {

class Ordered {
 public:
  Ordered(Emitter& e, const Schedule& s)
      : e_(e), s_(s), p_(e.pool()), k_(e.prepared().kernel), st_(k_.stages[0]) {}

  void run() {
    std::vector<uint32_t> outer = k_.lead;
    std::erase(outer, s_.vector_axis);
    const ExprId items = points(p_, outer, p_.integer(1));
    ExprId blocks = p_.integer(1);
    const bool rows_in_lanes = contains(k_.lead, s_.vector_axis);
    if (rows_in_lanes) blocks = p_.ceildiv(p_.axes()[s_.vector_axis].extent, s_.block);
    e_.width = s_.lanes;
    loop_over_items(e_, s_, p_.mul(items, blocks), [&](Val item) {
      if (!rows_in_lanes) {
        decode(e_, item, outer);
        s_.vector_axis == ~0u ? line() : scan_in_lanes();
        return;
      }
      const Val count = e_.scalar(blocks);
      decode(e_, e_.div(item, count), outer);
      const Val lo = e_.mul(e_.mod(item, count), e_.integer(s_.block));
      const Val n = e_.scalar(p_.axes()[s_.vector_axis].extent);
      const Val hi = e_.min(n, e_.add(lo, e_.integer(s_.block)));
      if (st_.kind == StageKind::kScatter) {
        e_.row_depth = e_.depth();
        scatter([&](auto body) { lanes(s_.vector_axis, lo, hi, body); });
      } else {
        lanes(s_.vector_axis, lo, hi, [&] { line(); });
      }
    });
  }

 private:
  // Whole vectors of [lo, hi), then one masked vector.
  template <class F>
  void lanes(uint32_t axis, Val lo, Val hi, F body) {
    const int64_t w = e_.width;
    e_.vector_axis = axis;
    auto run = [&](Val at, bool masked) {
      at.varies = true;
      e_.bind(axis, at);
      if (masked) mask_below(e_, axis, hi);
      body();
      e_.mask = kNoValue;
    };
    if (w == 1) {
      e_.loop(Bind::kSerial, lo, hi, 1, false, [&](Val at) { run(at, false); });
    } else {
      e_.loop(Bind::kVector, lo, hi, w, true, [&](Val at) { run(at, false); });
      const Val n = e_.sub(hi, lo);
      e_.loop(Bind::kVector, e_.add(lo, e_.sub(n, e_.mod(n, e_.integer(w)))), hi, w, false,
              [&](Val at) { run(at, true); });
    }
    e_.vector_axis = ~0u;
  }

  template <class F>
  void serial(const std::vector<uint32_t>& axes, size_t at, F body) {
    if (at == axes.size()) {
      e_.row_depth = e_.depth();
      body();
      return;
    }
    e_.loop(Bind::kSerial, e_.integer(0), e_.scalar(p_.axes()[axes[at]].extent), 1, false,
            [&](Val v) {
              v.varies = false;
              e_.bind(axes[at], v);
              serial(axes, at + 1, body);
            });
  }

  bool vectors() const { return e_.vector_axis != ~0u; }

  void line() {
    e_.row_depth = e_.depth();
    if (st_.kind == StageKind::kScan) scan();
    if (st_.kind == StageKind::kScatter) scatter([](auto body) { body(); });
    if (st_.kind == StageKind::kSort) sort();
  }

  void store(const View& v, Val value) { e_.store(v, value, vectors()); }

  void scan() {
    e_.comment("stage 0 Init");
    std::vector<ValueId> vars;
    for (ExprId init : st_.init) {
      Val v = e_.scalar(init);
      if (vectors() && e_.width > 1) v = e_.splat(v, e_.width);
      vars.push_back(e_.declare(v));
    }
    serial(st_.reduce, 0, [&] {
      e_.comment("stage 0 Step");
      e_.open_alias();
      std::vector<Val> states;
      for (ValueId v : vars) states.push_back({v, e_.depth(), true});
      e_.states = states;
      for (ExprId x : st_.step) {
        Val next = e_.splat(e_.vector(x), e_.lanes(vars[states.size() - vars.size()]));
        next.depth = e_.depth();
        states.push_back(next);
      }
      // The states before the step have their own names, because either may be stored.
      e_.states = states;
      std::vector<Val> results;
      for (ExprId x : st_.final) {
        Val v = e_.vector(x);
        v.depth = e_.depth();
        results.push_back(v);
      }
      for (size_t r = 0; r < st_.store.size(); ++r) store(st_.store[r], results[r]);
      for (size_t i = 0; i < vars.size(); ++i) {
        if (states[vars.size() + i].v != vars[i]) e_.set(vars[i], states[vars.size() + i]);
      }
      e_.states.clear();
      e_.close_alias();
    });
  }

  // Lane l of the result is lane `from(l)` of v.
  template <class F>
  Val picked(Val v, F from) {
    Node n;
    n.kind = NodeKind::kShuffle;
    n.args[0] = v.v;
    for (uint32_t l = 0; l < e_.width; ++l) n.list.push_back(from(l));
    n.dst = e_.value(e_.type(v.v), e_.width);
    return {e_.emit(e_.depth(), n), e_.depth(), true};
  }

  Val number_of_lane() {
    Node n;
    n.kind = NodeKind::kIota;
    n.args[0] = e_.integer(0).v;
    n.dst = e_.value(TENON_I32, e_.width);
    return {e_.emit(e_.depth(), n), e_.depth(), true};
  }
  Val lane_number(int64_t l) { return e_.scalar(p_.integer(l, TENON_I32)); }

  // The place of lane l in the order of the scan, and the lane at a place.
  uint32_t place(uint32_t l) const { return st_.from_end ? e_.width - 1 - l : l; }

  // Which lanes have a block of `by` lanes before the one that they are in, of each two.
  Val second_of_two(uint32_t by) {
    const Val bit = e_.apply(TENON_S_AND, TENON_I32, {number_of_lane(), lane_number(by)});
    return e_.apply(TENON_S_CMP, TENON_I32, {bit, lane_number(0)},
                    st_.from_end ? TENON_CMP_EQ : TENON_CMP_NE);
  }

  Val all_but_first() {
    return e_.apply(TENON_S_CMP, TENON_I32, {number_of_lane(), lane_number(place(0))},
                    TENON_CMP_NE);
  }

  // Whole vectors along the scan, then one masked vector. From the end, the masked vector begins
  // before the line does, so that no lane comes after one that is absent.
  template <class F>
  void vectors_in_order(uint32_t axis, F body) {
    const Val n = e_.scalar(p_.axes()[axis].extent);
    if (!st_.from_end) return lanes(axis, e_.integer(0), n, body);
    const Val w = e_.integer(e_.width);
    e_.vector_axis = axis;
    const auto ends_at = [&](Val end) {
      Val at = e_.sub(end, w);
      at.varies = true;
      e_.bind(axis, at);
    };
    e_.loop(Bind::kVector, e_.integer(0), n, e_.width, true, [&](Val done) {
      ends_at(e_.sub(n, done));
      body();
    });
    const Val left = e_.mod(n, w);
    e_.loop(Bind::kVector, e_.integer(0), left, e_.width, false, [&](Val) {
      ends_at(left);
      const Val lane = e_.vector(p_.axis(axis));
      e_.mask_depth = e_.depth();
      e_.mask = e_.apply(TENON_S_CMP, e_.type(lane.v),
                         {lane, e_.as_type(e_.integer(0), e_.type(lane.v))}, TENON_CMP_GE)
                    .v;
      body();
      e_.mask = kNoValue;
    });
    e_.vector_axis = ~0u;
  }

  // Lanes along the scan. Each vector is scanned without waiting for the vectors before: what the
  // last lane of a block of 1, 2, 4... has is applied to the next block. Short blocks stay within
  // 16 bytes, where moving lanes is cheapest. Then what was carried is applied to all lanes.
  void scan_in_lanes() {
    e_.row_depth = e_.depth();
    e_.comment("stage 0 Init");
    const DType t = p_.type(st_.init[0]);
    const ValueId carry = e_.declare(e_.as_type(e_.splat(e_.scalar(st_.init[0]), e_.width), t));
    std::vector<Val> second;
    for (uint32_t by = 1; by < e_.width; by *= 2) second.push_back(second_of_two(by));
    const Val later = all_but_first();
    const auto both = [&](Val a, Val b) { return e_.apply(p_.at(st_.step[0]).op, t, {a, b}); };
    const auto select = [&](Val where, Val a, Val b) {
      return e_.apply(TENON_S_SELECT, t, {where, a, b});
    };
    const ExprId value = scanned_value(p_, st_);
    vectors_in_order(st_.reduce[0], [&] {
      e_.row_depth = e_.depth();
      e_.comment(st_.from_end ? "stage 0 Step, from the end" : "stage 0 Step");
      e_.open_alias();
      // Numbers of lanes are computed in 32 bits.
      Val own = e_.as_type(e_.splat(e_.vector(value), e_.width), t);
      for (size_t i = 0; i < second.size(); ++i) {
        const uint32_t by = 1u << i;
        const Val block = picked(own, [&](uint32_t l) {
          const uint32_t at = place(l);
          return at & by ? place((at & ~(by - 1)) - 1) : l;
        });
        own = select(second[i], both(block, own), own);
      }
      const Val before{carry, e_.depth(), true};
      Val after = both(before, own);
      after.depth = e_.depth();
      const Val moved =
          picked(after, [&](uint32_t l) { return place(l) == 0 ? l : place(place(l) - 1); });
      Val first = select(later, moved, before);
      first.depth = e_.depth();
      e_.states = {first, after};
      std::vector<Val> results;
      for (ExprId x : st_.final) results.push_back(e_.vector(x));
      for (size_t r = 0; r < st_.store.size(); ++r) store(st_.store[r], results[r]);
      e_.set(carry, both(before, picked(own, [&](uint32_t) { return place(e_.width - 1); })));
      e_.states.clear();
      e_.close_alias();
    });
  }

  // `along` runs its argument for the lanes of a block, or once. It runs inside the loops over the
  // updates, so that what places an update is computed once for its lanes, which lie together.
  template <class Along>
  void scatter(Along along) {
    e_.comment("stage 0 Fill");
    fill(along);
    e_.comment("stage 0 Step");
    const bool reads = reads_state();
    View to = st_.store[1];
    // A place that all lanes share is tested once, instead of masking each of them.
    const bool shared =
        s_.vector_axis != ~0u && to.guard != kNone && !p_.uses_axis(to.guard, s_.vector_axis);
    const ExprId fits = shared ? std::exchange(to.guard, kNone) : kNone;
    serial(st_.reduce, 0, [&] {
      const auto all = [&] {
        along([&] {
          e_.row_depth = e_.depth();
          update(to, reads);
        });
      };
      shared ? when(e_, e_.scalar(fits), all) : all();
    });
  }

  template <class Along>
  void fill(Along along) {
    const bool in_lanes = s_.vector_axis != ~0u || s_.lanes == 1;
    const uint32_t contiguous = in_lanes ? ~0u : fill_axis();
    std::vector<uint32_t> axes = st_.fill;
    std::erase(axes, contiguous);
    serial(axes, 0, [&] {
      auto one = [&] {
        e_.row_depth = e_.depth();
        store(st_.store[0], e_.vector(st_.init[0]));
      };
      if (contiguous == ~0u) return along(one);
      lanes(contiguous, e_.integer(0), e_.scalar(p_.axes()[contiguous].extent), one);
    });
  }

  void update(const View& v, bool reads) {
    e_.open_alias();
    if (reads) {
      Val now = e_.vector(p_.load(v.buffer, k_.buffers[v.buffer].type, v.index, v.guard));
      now.depth = e_.depth();
      e_.states = {now};
    }
    store(v, e_.vector(st_.step[0]));
    e_.states.clear();
    e_.close_alias();
  }

  // The old element is read only if the step uses it.
  bool reads_state() {
    bool reads = false;
    std::vector<ExprId> todo = st_.step;
    p_.begin_walk();
    while (!todo.empty()) {
      const ExprId x = todo.back();
      todo.pop_back();
      if (x == kNone || !p_.first_visit(x)) continue;
      reads |= p_.at(x).kind == X::kState;
      todo.insert(todo.end(), p_.args(x).begin(), p_.args(x).end());
    }
    return reads;
  }

  // The innermost axis of the copy, if everything it accesses is contiguous along it.
  uint32_t fill_axis() {
    if (st_.fill.empty()) return ~0u;
    const uint32_t axis[] = {st_.fill.back()};
    std::vector<ExprId> offsets{st_.store[0].index[0]}, loads;
    p_.loads(st_.init[0], &loads);
    for (ExprId l : loads) {
      if (p_.arg(l, 0) != kNone) return ~0u;
      offsets.push_back(p_.arg(l, 2));
    }
    for (ExprId off : offsets) {
      std::vector<ExprId> c;
      ExprId rest = kNone;
      if (!p_.affine(off, axis, &c, &rest) ||
          !(p_.is_const(c[0], 1) || (p_.is_const(c[0], 0) && off != offsets[0])))
        return ~0u;
    }
    return axis[0];
  }

  // One stable sort per key, the least significant first: keys and positions in scratch, and work
  // space for merging.
  void sort() {
    const ExprId n = p_.axes()[st_.reduce[0]].extent;
    DType widest = TENON_U32;
    for (ExprId k : st_.step) widest = size_of(p_.type(k)) == 8 ? DType{TENON_U64} : widest;
    const ExprId keys = reserve(n, TENON_U64), places = reserve(n, TENON_I64);
    const ExprId keys2 = reserve(n, TENON_U64), places2 = reserve(n, TENON_I64);
    auto element = [&](ExprId region, DType t, Val i) {
      return e_.add(e_.scalar(p_.floordiv(region, p_.integer(size_of(t)))), i);
    };
    const Val count = e_.scalar(n);
    for (size_t k = st_.step.size(); k-- > 0;) {
      const DType t = p_.type(st_.step[k]);
      const bool first = k + 1 == st_.step.size();
      e_.comment("stage 0 Key " + std::to_string(k));
      e_.loop(Bind::kSerial, e_.integer(0), count, 1, false, [&](Val i) {
        Val place = i;
        if (first) {
          e_.store_at(Space::kScratch, 0, TENON_I64, element(places, TENON_I64, i), i);
        } else {
          place = e_.load_at(Space::kScratch, 0, TENON_I64, element(places, TENON_I64, i), 1);
        }
        e_.row_depth = e_.depth();
        e_.bind(st_.reduce[0], place);
        e_.store_at(Space::kScratch, 0, t, element(keys, t, i), e_.scalar(st_.step[k]));
      });
      Node node;
      node.kind = NodeKind::kSort;
      node.type = t;
      const Val at[] = {element(keys, t, e_.integer(0)), element(places, TENON_I64, e_.integer(0)),
                        element(keys2, t, e_.integer(0)),
                        element(places2, TENON_I64, e_.integer(0))};
      for (int i = 0; i < 4; ++i) node.args[i] = at[i].v;
      node.stride = count.v;
      node.bits = selects();
      e_.emit(e_.depth(), node);
    }
    e_.comment("stage 0 Map");
    e_.loop(Bind::kSerial, e_.integer(0), e_.scalar(p_.axes()[st_.fill[0]].extent), 1, false,
            [&](Val j) {
              e_.row_depth = e_.depth();
              e_.bind(st_.fill[0], j);
              e_.bind(st_.reduce[0],
                      e_.load_at(Space::kScratch, 0, TENON_I64, element(places, TENON_I64, j), 1));
              for (size_t r = 0; r < st_.store.size(); ++r)
                store(st_.store[r], e_.scalar(st_.value[r]));
            });
  }

  // The number of points wanted, if keeping the best so far costs less than sorting all; else 0.
  int64_t selects() const {
    constexpr int64_t kFew = 64;
    const auto wanted = p_.value(p_.axes()[st_.fill[0]].extent);
    const auto all = p_.value(p_.axes()[st_.reduce[0]].extent);
    const bool few = wanted && *wanted <= kFew && (!all || *all >= 4 * *wanted);
    return few && st_.step.size() == 1 ? *wanted : 0;
  }

  ExprId reserve(ExprId elements, DType t) { return e_.reserve(elements, t, 1); }

  Emitter& e_;
  const Schedule& s_;
  Pool& p_;
  Kernel& k_;
  const Stage& st_;
};

}  // namespace

bool lower_ordered(Emitter& e, const Schedule& s, std::string* why) {
  if (e.prepared().kernel.stages.size() != 1) {
    *why = "what runs in order is a kernel of its own";
    return false;
  }
  Ordered(e, s).run();
  return true;
}

}  // namespace tenon::kernelgen
