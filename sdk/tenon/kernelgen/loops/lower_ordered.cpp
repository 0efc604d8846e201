// Scans, scatters and sorts, which must run in order along some axes. The lead axes are
// independent: ranges cut them, and lanes run along one of them where memory allows.
#include <algorithm>

#include "tenon/kernelgen/loops/lower_internal.h"

namespace tenon::kernelgen {
namespace {

class Ordered {
 public:
  Ordered(Emitter& e, const Schedule& s)
      : e_(e), s_(s), p_(e.pool()), k_(e.prepared().kernel), st_(k_.stages[0]) {}

  void run() {
    std::vector<uint32_t> outer = k_.lead;
    if (s_.vector_axis != ~0u) outer.erase(std::find(outer.begin(), outer.end(), s_.vector_axis));
    const ExprId items = points(p_, outer, p_.integer(1));
    ExprId blocks = p_.integer(1);
    if (s_.vector_axis != ~0u) blocks = p_.ceildiv(p_.axes()[s_.vector_axis].extent, s_.block);
    e_.width = s_.lanes;
    loop_over_items(e_, s_, p_.mul(items, blocks), [&](Val item) {
      if (s_.vector_axis == ~0u) {
        decode(e_, item, outer);
        line();
        return;
      }
      const Val count = e_.scalar(blocks);
      decode(e_, e_.div(item, count), outer);
      const Val lo = e_.mul(e_.mod(item, count), e_.integer(s_.block));
      const Val n = e_.scalar(p_.axes()[s_.vector_axis].extent);
      lanes(s_.vector_axis, lo, e_.min(n, e_.add(lo, e_.integer(s_.block))), [&] { line(); });
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
    if (st_.kind == StageKind::kScatter) scatter();
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

  void scatter() {
    e_.comment("stage 0 Fill");
    const uint32_t along = vectors() || s_.lanes == 1 ? ~0u : fill_axis();
    std::vector<uint32_t> axes = st_.fill;
    std::erase(axes, along);
    serial(axes, 0, [&] {
      auto one = [&] { store(st_.store[0], e_.vector(st_.init[0])); };
      if (along == ~0u) return one();
      lanes(along, e_.integer(0), e_.scalar(p_.axes()[along].extent), [&] {
        e_.row_depth = e_.depth();
        one();
      });
    });
    e_.comment("stage 0 Step");
    serial(st_.reduce, 0, [&] {
      const View& v = st_.store[1];
      const ExprId old = p_.load(v.buffer, k_.buffers[v.buffer].type, v.index, v.guard);
      // The old element is read only if the step uses it.
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
      e_.open_alias();
      if (reads) {
        Val now = e_.vector(old);
        now.depth = e_.depth();
        e_.states = {now};
      }
      store(v, e_.vector(st_.step[0]));
      e_.states.clear();
      e_.close_alias();
    });
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
