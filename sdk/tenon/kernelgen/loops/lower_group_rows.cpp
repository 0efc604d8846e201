// Rows of reductions for groups of work items. A group takes one row, its items share the row's
// loops, and their partial results are combined: inside of warps where the target has them, else in
// shared memory by halving. There is a barrier between passes, so that every item sees what the
// others stored.
#include <algorithm>
#include <map>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/loops/lower_internal.h"
#include "tenon/kernelgen/schedule/neighbours.h"

namespace tenon::kernelgen {
namespace {

class GroupRows {
 public:
  GroupRows(Emitter& e, const Schedule& s) : e_(e), s_(s), p_(e.pool()), k_(e.prepared().kernel) {}

  bool run(std::string* why) {
    for (const Stage& s : k_.stages) {
      if (s.kind != StageKind::kMap && s.kind != StageKind::kReduce)
        return *why = "only maps and reductions run as rows", false;
    }
    lane_ = e_.lane_id();
    loop_over_items(e_, s_, points(p_, k_.lead, p_.integer(1)), [&](Val item) {
      if (!k_.lead.empty()) decode(e_, item, k_.lead);
      e_.row_depth = e_.depth();
      const std::vector<Pass>& passes = e_.prepared().passes;
      for (size_t i = 0; i < passes.size(); ++i) {
        one_pass(passes[i]);
        if (i + 1 < passes.size()) e_.barrier(true);
      }
    });
    return true;
  }

 private:
  ExprId product(const std::vector<uint32_t>& axes) {
    ExprId n = p_.integer(1);
    for (uint32_t a : axes) n = p_.mul(n, p_.axes()[a].extent);
    return n;
  }

  // A loop over all points of the axes, shared by the items of the group, `wide` points for an
  // item.
  template <class F>
  void lanes(const std::vector<uint32_t>& axes, uint32_t wide, F body) {
    if (axes.empty()) return body();
    e_.loop(Bind::kLanes, e_.integer(0), e_.scalar(product(axes)), wide, false, [&](Val at) {
      alone_ = true;
      if (wide == 1) {
        decode(e_, at, axes);
        body();
      } else {
        with_copies(e_, axes.back(), wide, decode_outer(e_, at, axes), body);
      }
      alone_ = false;
    });
  }

  // How many neighbours along the last of the axes an item takes at once.
  uint32_t wide_of(const Pass& pass, const std::vector<uint32_t>& axes) {
    if (s_.wide == 1 || axes.empty()) return 1;
    int64_t score = 0;
    for (size_t i : pass.stages) score += item_score(p_, k_.stages[i], axes.back());
    const ExprId rest = p_.mod(p_.axes()[axes.back()].extent, p_.integer(s_.wide));
    return score > 0 && p_.is_const(rest, 0) ? s_.wide : 1;
  }

  template <class F>
  void serial(const std::vector<uint32_t>& axes, size_t at, F body) {
    if (at == axes.size()) return body();
    e_.loop(Bind::kSerial, e_.integer(0), e_.scalar(p_.axes()[axes[at]].extent), 1, false,
            [&](Val v) {
              e_.bind(axes[at], v);
              serial(axes, at + 1, body);
            });
  }

  void one_pass(const Pass& pass) {
    bool reduces = false;
    for (size_t i : pass.stages) reduces |= k_.stages[i].kind == StageKind::kReduce;
    if (!reduces) {
      std::vector<uint32_t> all = pass.space;
      all.insert(all.end(), pass.reduce.begin(), pass.reduce.end());
      return lanes(all, wide_of(pass, all), [&] { maps(pass); });
    }
    if (shares_points(pass)) {
      return lanes(pass.space, 1,
                   [&] { sums(pass, [&](auto step) { serial(pass.reduce, 0, step); }, false); });
    }
    // Every item computes a sum of one step itself: there is nothing to combine.
    const bool meet = !pass.reduce.empty();
    const uint32_t wide = wide_of(pass, pass.reduce);
    serial(pass.space, 0,
           [&] { sums(pass, [&](auto step) { lanes(pass.reduce, wide, step); }, meet); });
  }

  // Whether there are enough points for each item to compute sums of its own.
  bool shares_points(const Pass& pass) {
    if (pass.space.empty()) return false;
    const auto space = p_.value(product(pass.space)), reduce = p_.value(product(pass.reduce));
    return !space || !reduce || *space >= s_.group || *space >= *reduce;
  }

  void maps(const Pass& pass) {
    for (size_t i : pass.stages) {
      e_.comment(label(i, "Map"));
      map(k_.stages[i]);
    }
  }

  template <class F>
  void sums(const Pass& pass, F loops, bool meet) {
    std::vector<std::vector<ValueId>> states(pass.stages.size());
    for (size_t n = 0; n < pass.stages.size(); ++n) {
      const Stage& s = k_.stages[pass.stages[n]];
      if (s.kind != StageKind::kReduce) continue;
      e_.comment(label(pass.stages[n], "Init"));
      for (ExprId init : s.init) states[n].push_back(e_.declare(e_.scalar(init)));
    }
    loops([&] {
      for (size_t n = 0; n < pass.stages.size(); ++n) {
        const Stage& s = k_.stages[pass.stages[n]];
        e_.comment(label(pass.stages[n], s.kind == StageKind::kMap ? "Map" : "Step"));
        s.kind == StageKind::kMap ? map(s) : step(s, states[n]);
      }
    });
    for (size_t n = 0; n < pass.stages.size(); ++n) {
      const Stage& s = k_.stages[pass.stages[n]];
      if (s.kind != StageKind::kReduce) continue;
      std::vector<Val> found = current(states[n]);
      if (meet) {
        e_.comment(label(pass.stages[n], "Merge"));
        found = across_group(s, found);
      }
      e_.comment(label(pass.stages[n], "Final"));
      final(s, found);
    }
  }

  static std::string label(size_t stage, const char* part) {
    return "stage " + std::to_string(stage) + " " + part;
  }

  // Stores a value that all items of the group have: only the first item stores it.
  void store(const View& view, Val v) {
    if (alone_) return e_.store(view, v, false);
    const Val first = e_.apply(TENON_S_CMP, TENON_I64, {lane_, e_.integer(0)}, TENON_CMP_EQ);
    e_.only_if(first, [&] { e_.store(view, v, false); });
  }

  void map(const Stage& s) {
    if (e_.wide > 1) return map_copies(e_, s);
    std::vector<Val> ready;
    const bool last = stores_last(k_, s);
    for (size_t r = 0; last && r < s.store.size(); ++r) ready.push_back(e_.scalar(s.value[r]));
    for (size_t r = 0; r < s.store.size(); ++r) {
      const Val v = last ? ready[r] : e_.scalar(s.value[r]);
      e_.forward(s.store[r].buffer, s.store[r].index[0], v, false);
      store(s.store[r], v);
    }
  }

  std::vector<Val> current(const std::vector<ValueId>& vars) const {
    std::vector<Val> out;
    for (ValueId v : vars) out.push_back({v, e_.depth(), false});
    return out;
  }

  // Values of `list` with `states` as the states.
  std::vector<Val> given(const std::vector<ExprId>& list, std::vector<Val> states) {
    e_.open_alias();
    e_.states = std::move(states);
    std::vector<Val> out;
    for (ExprId x : list) out.push_back(e_.scalar(x));
    e_.states.clear();
    e_.close_alias();
    for (Val& v : out) v.depth = std::min(v.depth, e_.depth());
    return out;
  }

  // Copies are summed one after another.
  void step(const Stage& s, const std::vector<ValueId>& vars) {
    for (e_.copy = 0; e_.copy < e_.wide; ++e_.copy) {
      const std::vector<Val> next = given(s.step, current(vars));
      for (size_t i = 0; i < vars.size(); ++i) {
        if (next[i].v != vars[i]) e_.set(vars[i], next[i]);
      }
    }
    e_.copy = 0;
  }

  // The k-th shared array of this type, with one element per item.
  uint32_t array(DType t, size_t k) {
    std::vector<uint32_t>& list = arrays_[t];
    while (list.size() <= k)
      list.push_back(e_.share(t, s_.warp != 0 ? s_.group / s_.warp : s_.group));
    return list[k];
  }

  std::vector<Val> merge(const Stage& s, std::vector<Val> a, const std::vector<Val>& b) {
    a.insert(a.end(), b.begin(), b.end());
    std::vector<Val> out = given(s.merge, std::move(a));
    for (Val& v : out) v.depth = e_.depth();
    return out;
  }

  // Each warp halves its results without memory; then every item merges those of all warps.
  std::vector<Val> across_warps(const Stage& s, std::vector<Val> mine) {
    for (Val& v : mine) v.depth = e_.depth();
    const auto others = [&](uint32_t by) {
      std::vector<Val> out;
      for (const Val& v : mine) out.push_back(e_.from_lane(v, by, s_.warp));
      return out;
    };
    for (uint32_t by = s_.warp / 2; by > 0; by /= 2) mine = merge(s, mine, others(by));
    const uint32_t warps = s_.group / s_.warp;
    if (warps == 1) return others(0);
    std::vector<uint32_t> at;
    std::map<DType, size_t> used;
    for (const Val& v : mine) at.push_back(array(e_.type(v.v), used[e_.type(v.v)]++));
    const Val width = e_.integer(s_.warp);
    const Val first =
        e_.apply(TENON_S_CMP, TENON_I64, {e_.mod(lane_, width), e_.integer(0)}, TENON_CMP_EQ);
    e_.only_if(first, [&] {
      for (size_t i = 0; i < mine.size(); ++i)
        e_.store_at(Space::kShared, at[i], e_.type(mine[i].v), e_.div(lane_, width), mine[i]);
    });
    e_.barrier(false);
    std::vector<Val> all;
    for (uint32_t w = 0; w < warps; ++w) {
      std::vector<Val> one;
      Val place = e_.integer(w);
      place.depth = e_.depth();
      for (size_t i = 0; i < mine.size(); ++i)
        one.push_back(e_.load_at(Space::kShared, at[i], e_.type(mine[i].v), place, 1));
      all = w == 0 ? one : merge(s, all, one);
    }
    e_.barrier(false);  // before the arrays are used again
    return all;
  }

  std::vector<Val> across_group(const Stage& s, const std::vector<Val>& mine) {
    if (s_.warp != 0) return across_warps(s, mine);
    std::vector<uint32_t> at;
    std::map<DType, size_t> used;
    for (const Val& v : mine) {
      at.push_back(array(e_.type(v.v), used[e_.type(v.v)]++));
      e_.store_at(Space::kShared, at.back(), e_.type(v.v), lane_, v);
    }
    auto load = [&](Val place) {
      std::vector<Val> out;
      place.depth = e_.depth();
      for (size_t i = 0; i < mine.size(); ++i)
        out.push_back(e_.load_at(Space::kShared, at[i], e_.type(mine[i].v), place, 1));
      return out;
    };
    e_.loop(Bind::kHalving, e_.integer(s_.group / 2), e_.integer(0), 1, false, [&](Val half) {
      e_.barrier(false);
      e_.only_if(e_.less(lane_, half), [&] {
        std::vector<Val> both = load(lane_);
        const std::vector<Val> other = load(e_.add(lane_, half));
        both.insert(both.end(), other.begin(), other.end());
        const std::vector<Val> merged = given(s.merge, both);
        for (size_t i = 0; i < mine.size(); ++i)
          e_.store_at(Space::kShared, at[i], e_.type(mine[i].v), lane_, merged[i]);
      });
    });
    e_.barrier(false);
    const std::vector<Val> all = load(e_.integer(0));
    e_.barrier(false);  // before the arrays are used again
    return all;
  }

  void final(const Stage& s, const std::vector<Val>& states) {
    const std::vector<Val> values = given(s.final, states);
    for (size_t r = 0; r < s.store.size(); ++r) {
      Val v = values[r];
      v.depth = e_.depth();
      e_.forward(s.store[r].buffer, s.store[r].index[0], v, false);
      store(s.store[r], v);
    }
  }

  Emitter& e_;
  const Schedule& s_;
  Pool& p_;
  Kernel& k_;
  Val lane_;
  bool alone_ = false;  // inside a loop that items share: each has its own elements
  std::map<DType, std::vector<uint32_t>> arrays_;
};

}  // namespace

bool lower_group_rows(Emitter& e, const Schedule& s, std::string* why) {
  return GroupRows(e, s).run(why);
}

}  // namespace tenon::kernelgen
