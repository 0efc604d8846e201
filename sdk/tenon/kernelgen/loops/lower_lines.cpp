// Reductions of columns, row by row: the states of a block of columns are in scratch, where they
// stay in L1. Memory is read in its own order, which prefetchers follow, where registers for a few
// columns would walk down a narrow part of each row.
#include <algorithm>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/loops/lower_internal.h"

namespace tenon::kernelgen {
namespace {

class Lines {
 public:
  Lines(Emitter& e, const Schedule& s) : e_(e), s_(s), p_(e.pool()), k_(e.prepared().kernel) {}

  void run() {
    e_.width = s_.lanes;
    e_.lanes_are_rows = true;
    e_.vector_axis = s_.vector_axis;
    std::vector<uint32_t> outer = k_.lead;
    std::erase(outer, s_.vector_axis);
    const ExprId extent = p_.axes()[s_.vector_axis].extent, blocks = p_.ceildiv(extent, s_.block);
    reserve_states();
    find_guard();
    loop_over_items(e_, s_, points(p_, outer, blocks), [&](Val item) {
      Val block = item;
      if (!outer.empty()) {
        block = e_.mod(item, e_.scalar(blocks));
        decode(e_, e_.div(item, e_.scalar(blocks)), outer);
      }
      lo_ = e_.mul(block, e_.integer(s_.block));
      hi_ = e_.min(e_.scalar(extent), e_.add(lo_, e_.integer(s_.block)));
      columns([&](Val at) { init(at); });
      rows(0);
      columns([&](Val at) { finish(at); });
    });
  }

 private:
  // A state of a stage, and where the states of the block begin in scratch.
  struct State {
    size_t stage, place;
    DType type;
    ExprId base;
  };

  void reserve_states() {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      const Stage& s = k_.stages[i];
      for (size_t n = 0; n < s.init.size(); ++n) {
        const DType t = p_.type(s.init[n]);
        const ExprId at = e_.reserve(p_.integer(s_.block), t, 1);
        states_.push_back({i, n, t, p_.floordiv(at, p_.integer(size_of(t)))});
      }
    }
  }

  // The last chunk of rows that were cut may have fewer rows: there, all steps keep their states.
  // The loop over rows then ends sooner.
  void find_guard() {
    for (const Stage& s : k_.stages) steps_.push_back(s.step);
    ExprId guard = kNone;
    for (const Stage& s : k_.stages) {
      for (size_t n = 0; n < s.step.size(); ++n) {
        const ExprId e = s.step[n];
        if (p_.at(e).kind != X::kOp || p_.at(e).op != TENON_S_SELECT ||
            p_.arg(e, 2) != p_.state(static_cast<uint32_t>(n), p_.type(e)) ||
            (guard != kNone && guard != p_.arg(e, 0)))
          return;
        guard = p_.arg(e, 0);
      }
    }
    if (guard == kNone || !find_limit(guard)) return;
    for (std::vector<ExprId>& steps : steps_) {
      for (ExprId& e : steps) e = unguarded(p_.arg(e, 1), guard);
    }
  }

  // Whether the guard holds for the first points of one of the rows' axes, until `limit_`.
  bool find_limit(ExprId guard) {
    if (p_.at(guard).op != TENON_S_CMP || p_.at(guard).ref != TENON_CMP_LT || has_data(guard))
      return false;
    const ExprId left = p_.sub(p_.arg(guard, 1), p_.arg(guard, 0));
    const std::vector<uint32_t>& axes = k_.stages[0].reduce;
    for (uint32_t a : axes) {
      std::vector<ExprId> c;
      ExprId rest = kNone;
      const uint32_t each[] = {a};
      if (!p_.affine(left, each, &c, &rest) || !p_.is_const(c[0], -1) ||
          p_.uses_axis(rest, s_.vector_axis) ||
          std::ranges::any_of(axes, [&](uint32_t b) { return p_.uses_axis(rest, b); }))
        continue;
      limited_ = a;
      limit_ = rest;
      return true;
    }
    return false;
  }

  bool has_data(ExprId e) {
    std::vector<ExprId> loads;
    p_.loads(e, &loads);
    return !loads.empty();
  }

  ExprId unguarded(ExprId e, ExprId guard) {
    std::vector<ExprId> loads;
    p_.loads(e, &loads);
    std::ranges::sort(loads);  // inner ones first
    std::unordered_map<ExprId, ExprId> map;
    for (ExprId l : loads) {
      if (p_.arg(l, 0) != guard) continue;
      const ExprId at[] = {p_.substitute(p_.arg(l, 2), map)};
      map[l] = p_.load(p_.at(l).ref, p_.type(l), at);
    }
    return p_.substitute(e, map);
  }

  // Whole vectors of columns, then the rest, whose lanes are masked. Scratch holds whole vectors.
  template <class F>
  void columns(F body) {
    const int64_t w = e_.width;
    const auto run = [&](Val at, bool masked) {
      at.varies = true;
      e_.bind(s_.vector_axis, at);
      e_.row_depth = e_.depth();
      if (masked) mask_below(e_, s_.vector_axis, hi_);
      body(at);
      e_.mask = kNoValue;
    };
    e_.loop(Bind::kVector, lo_, hi_, w, true, [&](Val at) { run(at, false); });
    const auto known = p_.value(p_.axes()[s_.vector_axis].extent);
    if (known && *known % w == 0 && s_.block % w == 0) return;
    const Val rest = e_.sub(hi_, e_.mod(e_.sub(hi_, lo_), e_.integer(w)));
    e_.loop(Bind::kVector, rest, hi_, w, false, [&](Val at) { run(at, true); });
  }

  Val place(const State& s, Val at) { return e_.add(e_.scalar(s.base), e_.sub(at, lo_)); }

  void keep(const State& s, Val at, Val v) {
    e_.store_at(Space::kScratch, 0, s.type, place(s, at), e_.splat(v, e_.width));
  }

  std::vector<Val> states_of(size_t stage, Val at) {
    std::vector<Val> out;
    for (const State& s : states_) {
      if (s.stage == stage)
        out.push_back(e_.load_at(Space::kScratch, 0, s.type, place(s, at), e_.width));
    }
    return out;
  }

  void init(Val at) {
    for (const State& s : states_) keep(s, at, e_.scalar(k_.stages[s.stage].init[s.place]));
  }

  void rows(size_t n) {
    const std::vector<uint32_t>& axes = k_.stages[0].reduce;
    if (n == axes.size()) return columns([&](Val at) { steps(at); });
    Val end = e_.scalar(p_.axes()[axes[n]].extent);
    if (axes[n] == limited_) end = e_.min(end, e_.scalar(limit_));
    e_.loop(Bind::kSerial, e_.integer(0), end, 1, false, [&](Val at) {
      e_.bind(axes[n], at);
      rows(n + 1);
    });
  }

  void steps(Val at) {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      if (k_.stages[i].kind != StageKind::kReduce) continue;
      e_.comment("stage " + std::to_string(i) + " Step");
      const std::vector<Val> next = with_states(i, at, steps_[i]);
      for (const State& s : states_) {
        if (s.stage == i) keep(s, at, next[s.place]);
      }
    }
  }

  std::vector<Val> with_states(size_t stage, Val at, const std::vector<ExprId>& exprs) {
    std::vector<Val> loaded = states_of(stage, at), out;
    e_.open_alias();
    e_.states = std::move(loaded);
    for (ExprId x : exprs) {
      Val v = e_.vector(x);
      v.depth = e_.depth() - 1;
      out.push_back(v);
    }
    e_.states.clear();
    e_.close_alias();
    return out;
  }

  void finish(Val at) {
    for (size_t i = 0; i < k_.stages.size(); ++i) {
      const Stage& s = k_.stages[i];
      const bool reduces = s.kind == StageKind::kReduce;
      e_.comment("stage " + std::to_string(i) + (reduces ? " Final" : " Map"));
      std::vector<Val> values;
      if (reduces) values = with_states(i, at, s.final);
      for (size_t r = 0; r < s.store.size(); ++r) {
        const Val v = reduces ? values[r] : e_.vector(s.value[r]);
        e_.forward(s.store[r].buffer, s.store[r].index[0], v, true);
        e_.store(s.store[r], v, true);
      }
    }
  }

  Emitter& e_;
  const Schedule& s_;
  Pool& p_;
  Kernel& k_;
  std::vector<State> states_;
  std::vector<std::vector<ExprId>> steps_;  // by stage
  uint32_t limited_ = ~0u;                  // the axis whose points below `limit_` are rows
  ExprId limit_ = kNone;
  Val lo_, hi_;
};

}  // namespace

bool lower_lines(Emitter& e, const Schedule& s, std::string*) {
  Lines(e, s).run();
  return true;
}

}  // namespace tenon::kernelgen
