// Pointwise kernels and reductions: rows of the lead axes, passes inside them.
#include <algorithm>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/loops/lower_internal.h"

namespace tenon::kernelgen {
namespace {

class Rows {
 public:
  Rows(Emitter& e, const Schedule& s) : e_(e), s_(s), p_(e.pool()), k_(e.prepared().kernel) {}

  bool run(std::string* why) {
    for (const Stage& s : k_.stages) {
      if (s.kind == StageKind::kContract) {
        *why = "a contraction cannot run as rows";
        return false;
      }
    }
    e_.width = s_.lanes;
    if (s_.nontemporal != 0) stream_results();
    const bool lead_lanes = s_.vector_axis != ~0u;
    e_.lanes_are_rows = lead_lanes;
    e_.temp_copies = s_.unroll;
    if (s_.tile_axis != ~0u) {
      tiles();
      return true;
    }
    if (s_.interleaved_axis != ~0u) {
      interleaved_rows();
      return true;
    }
    std::vector<uint32_t> outer = k_.lead;
    if (lead_lanes) outer.erase(std::find(outer.begin(), outer.end(), s_.vector_axis));
    const ExprId items = points(p_, outer, p_.integer(1));
    ExprId blocks = p_.integer(1);
    if (lead_lanes && s_.block > 0) blocks = p_.ceildiv(p_.axes()[s_.vector_axis].extent, s_.block);
    loop_over_items(e_, s_, p_.mul(items, blocks),
                    [&](Val item) { row(item, outer, blocks, lead_lanes); });
    if (!e_.streamed.empty()) {
      Node fence;
      fence.kind = NodeKind::kFence;
      fence.args[0] = e_.stream;
      e_.emit(e_.depth(), fence);
    }
    return true;
  }

 private:
  // Results that the kernel does not read are stored past the caches, unless they share the memory
  // of an operand of the same form, which is in the cache already.
  void stream_results() {
    std::vector<bool> read(k_.buffers.size()), streamed(k_.buffers.size());
    for (const Stage& s : k_.stages) {
      std::vector<ExprId> loads;
      for (const auto* list : {&s.value, &s.init, &s.step, &s.merge, &s.final}) {
        for (ExprId e : *list) p_.loads(e, &loads);
      }
      for (ExprId l : loads) read[memory_of(k_, p_.at(l).ref)] = true;
    }
    const ExprId large = p_.cmp(TENON_CMP_GE, result_bytes(k_), p_.integer(s_.nontemporal));
    Val when;
    if (!p_.is_const(large)) when = e_.scalar(large);
    for (uint32_t b = 0; b < k_.buffers.size(); ++b) {
      const Buffer& out = k_.buffers[b];
      streamed[b] = out.role == Role::kOut && !read[b] && size_of(out.type) * e_.width >= 16 &&
                    out.type != TENON_PRED && lines_stay_whole(b, &when);
      for (uint32_t i = 0; streamed[b] && i < k_.buffers.size(); ++i) {
        const Buffer& in = k_.buffers[i];
        if (in.role != Role::kIn || !read[i] || in.type != out.type || in.dims != out.dims)
          continue;
        all_of(&when,
               e_.apply(TENON_S_CMP, TENON_I64, {address_of(b), address_of(i)}, TENON_CMP_NE));
      }
    }
    if (std::ranges::none_of(streamed, [](bool s) { return s; })) return;
    e_.streamed = std::move(streamed);
    e_.stream = when.v;
  }

  // Whether rows begin at whole vectors. Where only every other row did, both kinds of stores met
  // in the same cache lines and lost a tenth of the speed.
  bool lines_stay_whole(uint32_t buffer, Val* when) {
    for (const Stage& s : k_.stages) {
      for (const View& v : s.store) {
        std::vector<ExprId> c;
        ExprId rest = kNone;
        if (v.buffer != buffer) continue;
        if (!p_.affine(v.index[0], s.space, &c, &rest)) return false;
        for (ExprId each : c) {
          if (p_.is_const(each, 1)) continue;
          const ExprId whole =
              p_.cmp(TENON_CMP_EQ, p_.mod(each, p_.integer(e_.width)), p_.integer(0));
          if (p_.is_const(whole, 0)) return false;
          if (!p_.is_const(whole)) all_of(when, e_.scalar(whole));
        }
      }
    }
    return true;
  }

  void all_of(Val* when, Val also) {
    *when = when->v == kNoValue ? also : e_.apply(TENON_S_AND, TENON_PRED, {*when, also});
  }

  Val address_of(uint32_t buffer) {
    Node n;
    n.kind = NodeKind::kAddress;
    n.space = Space::kBuffer;
    n.ref = e_.argument(buffer, k_.buffers[buffer].role == Role::kOut);
    n.type = k_.buffers[buffer].type;
    n.args[0] = e_.integer(0).v;
    n.dst = e_.value(TENON_I64, 1);
    return {e_.emit(e_.depth(), n), e_.depth(), false};
  }

  void row(Val item, const std::vector<uint32_t>& outer, ExprId blocks, bool lead_lanes) {
    if (!lead_lanes) {
      decode(e_, item, outer);
      e_.row_depth = e_.depth();
      passes();
      return;
    }
    e_.vector_axis = s_.vector_axis;
    const Val n = e_.scalar(p_.axes()[s_.vector_axis].extent);
    Val lo = e_.integer(0), hi = n;
    if (!p_.is_const(blocks, 1)) {
      const Val count = e_.scalar(blocks);
      Val block = item;
      if (!outer.empty()) {
        block = e_.mod(item, count);
        decode(e_, e_.div(item, count), outer);
      }
      lo = e_.mul(block, e_.integer(s_.block));
      hi = e_.min(n, e_.add(lo, e_.integer(s_.block)));
    } else {
      decode(e_, item, outer);
    }
    const auto extent = p_.value(p_.axes()[s_.vector_axis].extent);
    const bool whole = extent && p_.is_const(blocks, 1);
    lanes_loop(lo, hi, whole ? extent : std::nullopt, s_.unroll, [&] {
      e_.row_depth = e_.depth();
      passes();
    });
  }

  // ---- Interleaved results: lanes along one lead axis, a few vectors interleaved ----

  void interleaved_rows() {
    std::vector<uint32_t> outer = k_.lead;
    std::erase_if(outer,
                  [&](uint32_t a) { return a == s_.vector_axis || a == s_.interleaved_axis; });
    e_.lanes_are_rows = false;
    e_.vector_axis = s_.vector_axis;
    const int64_t w = e_.width;
    const ExprId blocks = p_.ceildiv(p_.axes()[s_.vector_axis].extent, s_.block);
    loop_over_items(e_, s_, points(p_, outer, blocks), [&](Val item) {
      e_.row_depth = e_.depth();
      const Val n = e_.scalar(p_.axes()[s_.vector_axis].extent);
      Val lo = e_.integer(0), hi = n;
      if (p_.is_const(blocks, 1)) {
        decode(e_, item, outer);
      } else {
        const Val count = e_.scalar(blocks);
        decode(e_, e_.div(item, count), outer);
        lo = e_.mul(e_.mod(item, count), e_.integer(s_.block));
        hi = e_.min(n, e_.add(lo, e_.integer(s_.block)));
      }
      e_.loop(Bind::kVector, lo, hi, w, true, [&](Val at) { interleave(at); });
      const Val done = e_.sub(hi, e_.mod(e_.sub(hi, lo), e_.integer(w)));
      e_.loop(Bind::kVector, done, hi, w, false, [&](Val at) { interleaved_rest(at, hi); });
    });
  }

  // The expression at one point of the interleaved axis. Substituted rather than bound, because an
  // axis is bound once along any path of scopes.
  ExprId at_point(ExprId e, int64_t point) {
    return p_.substitute(e, {{p_.axis(s_.interleaved_axis), p_.integer(point)}});
  }

  int64_t interleaved_points() {
    return p_.value(p_.axes()[s_.interleaved_axis].extent).value_or(0);
  }

  void bind_lanes(Val at) {
    at.varies = true;
    e_.bind(s_.vector_axis, at);
    e_.comment(label(0, "Map"));
  }

  void interleave(Val at) {
    bind_lanes(at);
    const Stage& s = k_.stages[0];
    const View& to = s.store[0];
    Node n;
    n.kind = NodeKind::kInterleave;
    n.ref = e_.argument(to.buffer, true);
    n.type = k_.buffers[to.buffer].type;
    for (int64_t i = 0; i < interleaved_points(); ++i)
      n.list.push_back(e_.splat(e_.vector(at_point(s.value[0], i)), e_.width).v);
    n.args[0] = e_.scalar(at_point(to.index[0], 0)).v;
    e_.emit(e_.depth(), n);
  }

  void interleaved_rest(Val at, Val n) {
    bind_lanes(at);
    mask_below(e_, s_.vector_axis, n);
    for (int64_t i = 0; i < interleaved_points(); ++i) {
      const View to{
          k_.stages[0].store[0].buffer, {at_point(k_.stages[0].store[0].index[0], i)}, kNone};
      e_.store(to, e_.vector(at_point(k_.stages[0].value[0], i)), true);
    }
    e_.mask = kNoValue;
  }

  // ---- Transposes: lanes along one lead axis, squares along another ----

  // The range runs over (other axes, blocks of `lanes` of the vector axis), with squares along the
  // tile axis inside. A square of an operand that is contiguous along the tile axis is transposed
  // into scratch. What does not fill a square is read with a stride.
  void tiles() {
    e_.lanes_are_rows = false;
    e_.vector_axis = s_.vector_axis;
    const int64_t w = e_.width;
    std::vector<uint32_t> outer;
    for (uint32_t a : k_.lead) {
      if (a != s_.vector_axis && a != s_.tile_axis) outer.push_back(a);
    }
    const ExprId extent = p_.axes()[s_.vector_axis].extent, blocks = p_.ceildiv(extent, w);
    loop_over_items(e_, s_, points(p_, outer, blocks), [&](Val item) {
      e_.row_depth = e_.depth();
      Val block = item;
      if (!outer.empty()) {
        block = e_.mod(item, e_.scalar(blocks));
        decode(e_, e_.div(item, e_.scalar(blocks)), outer);
      }
      const Val lo = e_.mul(block, e_.integer(w)), n = e_.scalar(extent);
      const Val tall = e_.scalar(p_.axes()[s_.tile_axis].extent);
      Val base = lo;
      base.varies = true;
      e_.bind(s_.vector_axis, base);
      Val whole = e_.apply(TENON_S_CMP, TENON_I64, {e_.add(lo, e_.integer(w)), n}, TENON_CMP_LE);
      for (ExprId l : turned_loads()) {
        const ExprId guard = p_.arg(l, 0);
        if (guard == kNone) continue;
        // Bounds that hold at the first and the last lane hold at all lanes.
        const ExprId last = p_.substitute(
            guard, {{p_.axis(s_.vector_axis), p_.add(p_.axis(s_.vector_axis), p_.integer(w - 1))}});
        for (ExprId bound : {guard, last})
          whole = e_.apply(TENON_S_AND, TENON_PRED, {whole, e_.scalar(bound)}, 0);
      }
      Node branch;
      branch.kind = NodeKind::kIf;
      branch.args[0] = whole.v;
      e_.open();
      e_.vector_depth = e_.depth();
      e_.loop(Bind::kSerial, e_.integer(0), tall, w, true, [&](Val at) { square(at); });
      const Val done = e_.sub(tall, e_.mod(tall, e_.integer(w)));
      e_.loop(Bind::kSerial, done, tall, 1, false, [&](Val at) { line(at, base, kNone); });
      branch.body = e_.close();
      e_.open();
      e_.loop(Bind::kSerial, e_.integer(0), tall, 1, false,
              [&](Val at) { line(at, base, extent); });
      branch.other = e_.close();
      e_.vector_depth = 0;
      e_.emit(e_.depth(), branch);
    });
  }

  // Loads to transpose: of elements of which a register holds a row, contiguous along the tile
  // axis, with a stride along the lanes.
  std::vector<ExprId> turned_loads() {
    std::vector<ExprId> loads, out;
    for (ExprId v : k_.stages[0].value) p_.loads(v, &loads);
    const uint32_t axes[] = {s_.vector_axis, s_.tile_axis};
    for (ExprId l : loads) {
      std::vector<ExprId> c;
      ExprId rest;
      const uint32_t bytes = size_of(p_.type(l)) * e_.width;
      if (p_.type(l) == TENON_PRED || (bytes != 64 && bytes != 32 && bytes != 16) ||
          !p_.affine(p_.arg(l, 2), axes, &c, &rest))
        continue;
      if (!p_.is_const(c[1], 1) || p_.is_const(c[0], 0) || p_.is_const(c[0], 1)) continue;
      if (p_.arg(l, 0) == kNone || may_hold_whole(p_.arg(l, 0))) out.push_back(l);
    }
    return out;
  }

  // A guard that can be decided for a block: its bounds do not depend on the tile axis
  // (schedule.cpp ensures this for at least one load).
  bool may_hold_whole(ExprId guard) {
    return !p_.uses_axis(guard, s_.tile_axis) && holds_between(p_, guard, s_.vector_axis);
  }

  // One line of lanes at point `at` of the tile axis.
  void line(Val at, Val base, ExprId limit) {
    e_.bind(s_.tile_axis, at);
    e_.bind(s_.vector_axis, base);
    if (limit != kNone) {
      const Val lane = e_.vector(p_.axis(s_.vector_axis));
      e_.mask_depth = e_.depth();
      e_.mask = e_.less(lane, e_.as_type(e_.scalar(limit), e_.type(lane.v))).v;
    }
    e_.comment(label(0, "Map"));
    map(k_.stages[0]);
    e_.mask = kNoValue;
  }

  void square(Val at) {
    const Stage& s = k_.stages[0];
    // The corner has its own axis: an axis is bound once along any path of scopes.
    const uint32_t corner = p_.add_axis(p_.axes()[s_.tile_axis].extent);
    e_.bind(corner, at);
    const int64_t w = e_.width;
    std::vector<std::pair<ExprId, ExprId>> turned;  // load, its place in scratch
    const uint32_t axes[] = {s_.vector_axis, s_.tile_axis};
    for (ExprId l : turned_loads()) {
      std::vector<ExprId> c;
      ExprId rest;
      const DType t = p_.type(l);
      p_.affine(p_.arg(l, 2), axes, &c, &rest);
      if (!tile_at_.count(l)) tile_at_[l] = e_.reserve(p_.integer(w * w), t, 1);
      Node n;
      n.kind = NodeKind::kTranspose;
      n.ref = e_.argument(p_.at(l).ref, false);
      n.type = t;
      n.args[0] =
          e_.scalar(p_.substitute(p_.arg(l, 2), {{p_.axis(s_.tile_axis), p_.axis(corner)}})).v;
      n.stride = e_.scalar(c[0]).v;
      n.args[1] = e_.scalar(p_.floordiv(tile_at_[l], p_.integer(size_of(t)))).v;
      n.args[2] = e_.integer(w).v;
      n.bits = w;
      e_.emit(e_.depth(), n);
      turned.push_back({l, tile_at_[l]});
    }
    e_.loop(Bind::kSerial, e_.integer(0), e_.integer(w), 1, false, [&](Val r) {
      e_.bind(s_.tile_axis, e_.add(at, r));
      for (auto& [l, place] : turned) {
        const DType t = p_.type(l);
        const Val from =
            e_.add(e_.scalar(p_.floordiv(place, p_.integer(size_of(t)))), e_.mul(r, e_.integer(w)));
        const Val lanes = e_.load_at(Space::kScratch, 0, t, from, e_.width);
        e_.forward(p_.at(l).ref, p_.arg(l, 2), lanes, true);
        if (p_.arg(l, 0) != kNone) e_.forward_guarded(l, lanes);
      }
      e_.comment(label(0, "Map"));
      map(s);
    });
  }

  // A loop over the lanes of [lo, hi): main loop of `unroll` vectors, then the rest one masked
  // vector at a time. body runs with copies_ set.
  template <class F>
  void lanes_loop(Val lo, Val hi, std::optional<int64_t> extent, uint32_t unroll, F body) {
    const uint32_t axis = e_.vector_axis;
    const int64_t w = e_.width;
    const int64_t step = w * unroll;
    auto run = [&](Val at, uint32_t copies, bool masked, Val limit) {
      copies_ = copies;
      for (uint32_t c = 0; c < copies; ++c) {
        e_.copy = c;
        Val base = c == 0 ? at : e_.add(at, e_.integer(c * w));
        base.varies = true;
        e_.bind(axis, base);
      }
      e_.copy = 0;
      if (masked) {
        const ExprId x = p_.axis(axis);
        e_.mask_depth = e_.depth();
        e_.mask = e_.less(e_.vector(x), e_.as_type(limit, e_.type(e_.vector(x).v))).v;
      }
      body();
      e_.mask = kNoValue;
      e_.copy = 0;
      copies_ = 1;
    };
    if (w == 1 && unroll == 1) {
      e_.loop(Bind::kSerial, lo, hi, 1, false, [&](Val at) { run(at, 1, false, hi); });
      return;
    }
    Val rest = lo;
    if (!extent || *extent >= step) {
      e_.loop(Bind::kVector, lo, hi, step, true, [&](Val at) { run(at, unroll, false, hi); });
      if (extent && *extent % step == 0) return;
      const Val n = e_.sub(hi, lo);
      rest = e_.add(lo, e_.sub(n, e_.mod(n, e_.integer(step))));
    }
    const bool masked = w > 1 && !(extent && *extent % w == 0);
    e_.loop(Bind::kVector, rest, hi, w, false, [&](Val at) { run(at, 1, masked, hi); });
  }

  void passes() {
    const uint32_t lead_axis = e_.vector_axis;
    for (const Pass& pass : e_.prepared().passes) {
      if (s_.vector_axis == ~0u) e_.vector_axis = e_.width > 1 ? inner_vector_axis(pass) : ~0u;
      one_pass(pass);
      e_.vector_axis = lead_axis;
    }
  }

  // The inner axis along which most accesses are contiguous. Never one of one point: its index is
  // the constant 0, which is below the extent in every lane, so that no mask would hold lanes back.
  uint32_t inner_vector_axis(const Pass& pass) {
    std::vector<uint32_t> axes = pass.space;
    axes.insert(axes.end(), pass.reduce.begin(), pass.reduce.end());
    uint32_t best = ~0u;
    int64_t best_score = INT64_MIN;
    for (uint32_t a : axes) {
      if (p_.is_const(p_.axes()[a].extent, 1)) continue;
      int64_t score = 0;
      for (size_t i : pass.stages) score += contiguity(p_, k_.stages[i], a);
      if (score >= best_score) {
        best = a;
        best_score = score;
      }
    }
    return best;
  }

 public:
  static int64_t contiguity(Pool& p, const Stage& s, uint32_t axis) {
    int64_t score = 0;
    for (ExprId off : offsets_of(p, s)) score += contiguity(p, off, axis);
    return score;
  }

  static int64_t contiguity(Pool& p, ExprId offset, uint32_t axis) {
    std::vector<ExprId> c;
    ExprId rest;
    const uint32_t axes[] = {axis};
    if (!p.uses_axis(offset, axis)) return 0;
    if (!p.affine(offset, axes, &c, &rest)) return -6;
    // Backwards: a vector is turned around.
    return p.is_const(c[0], 1) ? 3 : p.is_const(c[0], -1) ? 2 : -4;
  }

 private:
  struct States {
    std::vector<std::vector<ValueId>> vars;  // [copy][state]
  };

  template <class F>
  void serial_loops(const std::vector<uint32_t>& axes, size_t at, F body) {
    if (at == axes.size()) {
      body();
      return;
    }
    const uint32_t a = axes[at];
    if (a == e_.vector_axis) {
      const Val n = e_.scalar(p_.axes()[a].extent);
      lanes_loop(e_.integer(0), n, p_.value(p_.axes()[a].extent), inner_unroll_,
                 [&] { serial_loops(axes, at + 1, body); });
      return;
    }
    e_.loop(Bind::kSerial, e_.integer(0), e_.scalar(p_.axes()[a].extent), 1, false, [&](Val v) {
      v.varies = false;
      e_.bind(a, v);
      serial_loops(axes, at + 1, body);
    });
  }

  std::vector<uint32_t> ordered(const std::vector<uint32_t>& axes) const {
    std::vector<uint32_t> out;
    for (uint32_t a : axes) {
      if (a != e_.vector_axis) out.push_back(a);
    }
    if (contains(axes, e_.vector_axis)) out.push_back(e_.vector_axis);
    return out;
  }

  void one_pass(const Pass& pass) {
    std::vector<uint32_t> outer, inner;
    bool reduces = false, nested = false;
    for (size_t i : pass.stages) {
      reduces |= k_.stages[i].kind == StageKind::kReduce;
      nested |= k_.stages[i].kind == StageKind::kReduce && !pass.space.empty();
    }
    (nested ? outer : inner) = ordered(pass.space);
    const std::vector<uint32_t> sum = ordered(pass.reduce);
    inner.insert(inner.end(), sum.begin(), sum.end());
    inner = ordered(inner);
    across_ = reduces && contains(inner, e_.vector_axis);
    inner_unroll_ = across_ ? s_.unroll : 1;
    if (s_.vector_axis != ~0u) inner_unroll_ = 1;
    serial_loops(outer, 0, [&] {
      std::vector<States> states(pass.stages.size());
      const uint32_t copies = across_ ? inner_unroll_ : copies_;
      declare_states(pass, copies, &states);
      const uint32_t saved = copies_;
      serial_loops(inner, 0, [&] { body(pass, states); });
      copies_ = saved;
      finish(pass, states, copies);
    });
  }

  void declare_states(const Pass& pass, uint32_t copies, std::vector<States>* states) {
    for (size_t n = 0; n < pass.stages.size(); ++n) {
      const Stage& s = k_.stages[pass.stages[n]];
      if (s.kind != StageKind::kReduce) continue;
      e_.comment(label(pass.stages[n], "Init"));
      for (uint32_t c = 0; c < copies; ++c) {
        std::vector<ValueId> vars;
        for (ExprId init : s.init) {
          Val v = e_.scalar(init);
          if (e_.vector_axis != ~0u && e_.width > 1) v = e_.splat(v, e_.width);
          vars.push_back(e_.declare(v));
        }
        (*states)[n].vars.push_back(vars);
      }
    }
  }

  static std::string label(size_t stage, const char* part) {
    return "stage " + std::to_string(stage) + " " + part;
  }

  void body(const Pass& pass, const std::vector<States>& states) {
    for (size_t n = 0; n < pass.stages.size(); ++n) {
      const Stage& s = k_.stages[pass.stages[n]];
      e_.comment(label(pass.stages[n], s.kind == StageKind::kMap ? "Map" : "Step"));
      for (uint32_t c = 0; c < copies_; ++c) {
        e_.copy = c;
        if (s.kind == StageKind::kMap) {
          map(s);
        } else {
          step(s, states[n].vars[c]);
        }
      }
      e_.copy = 0;
    }
  }

  void map(const Stage& s) {
    std::vector<Val> ready;
    const bool last = stores_last(k_, s);
    for (size_t r = 0; last && r < s.store.size(); ++r) ready.push_back(e_.vector(s.value[r]));
    for (size_t r = 0; r < s.store.size(); ++r) {
      const Val v = last ? ready[r] : e_.vector(s.value[r]);
      e_.forward(s.store[r].buffer, s.store[r].index[0], v, e_.vector_axis != ~0u);
      e_.store(s.store[r], v, e_.vector_axis != ~0u);
    }
  }

  void bind_states(const std::vector<ValueId>& vars) {
    e_.states.clear();
    for (ValueId v : vars) e_.states.push_back({v, e_.depth(), true});
  }

  void step(const Stage& s, const std::vector<ValueId>& vars) {
    e_.open_alias();
    bind_states(vars);
    std::vector<Val> next;
    for (ExprId x : s.step) next.push_back(e_.vector(x));
    for (size_t i = 0; i < vars.size(); ++i) {
      Val v = e_.splat(next[i], e_.lanes(vars[i]));
      if (e_.mask != kNoValue && across_) {
        const Val m{e_.mask, e_.mask_depth, true};
        v = e_.apply(TENON_S_SELECT, e_.type(vars[i]), {m, v, Val{vars[i], e_.depth(), true}});
      }
      next[i] = v;
    }
    for (size_t i = 0; i < vars.size(); ++i) {
      if (next[i].v != vars[i]) e_.set(vars[i], next[i]);
    }
    e_.states.clear();
    e_.close_alias();
  }

  // merge of the states a and b, as new values.
  std::vector<Val> merge(const Stage& s, const std::vector<Val>& a, const std::vector<Val>& b) {
    e_.open_alias();
    e_.states = a;
    e_.states.insert(e_.states.end(), b.begin(), b.end());
    std::vector<Val> out;
    for (ExprId x : s.merge) {
      Val v = e_.vector(x);
      v.depth = e_.depth() - 1;
      out.push_back(v);
    }
    e_.states.clear();
    e_.close_alias();
    return out;
  }

  std::vector<Val> current(const std::vector<ValueId>& vars) const {
    std::vector<Val> out;
    for (ValueId v : vars) out.push_back({v, e_.depth(), true});
    return out;
  }

  // Combines lanes by halving: lane l with lane l + h.
  std::vector<Val> across_lanes(const Stage& s, std::vector<Val> a) {
    for (uint32_t h = e_.width / 2; h >= 1; h /= 2) {
      std::vector<Val> b;
      for (const Val& v : a) {
        Node n;
        n.kind = NodeKind::kShuffle;
        n.args[0] = v.v;
        n.ref = h;
        n.dst = e_.value(e_.type(v.v), e_.width);
        b.push_back({e_.emit(e_.depth(), n), e_.depth(), true});
      }
      a = merge(s, a, b);
    }
    std::vector<Val> out;
    for (const Val& v : a) {
      Node n;
      n.kind = NodeKind::kLane;
      n.args[0] = v.v;
      n.dst = e_.value(e_.type(v.v), 1);
      out.push_back({e_.emit(e_.depth(), n), e_.depth(), false});
    }
    return out;
  }

  void finish(const Pass& pass, const std::vector<States>& states, uint32_t copies) {
    for (size_t n = 0; n < pass.stages.size(); ++n) {
      const Stage& s = k_.stages[pass.stages[n]];
      if (s.kind != StageKind::kReduce) continue;
      if (!across_) {
        e_.comment(label(pass.stages[n], "Final"));
        for (uint32_t c = 0; c < copies; ++c) {
          e_.copy = c;
          final(s, current(states[n].vars[c]), e_.vector_axis != ~0u);
        }
        e_.copy = 0;
        continue;
      }
      e_.comment(label(pass.stages[n], "Merge"));
      std::vector<std::vector<Val>> parts;
      for (uint32_t c = 0; c < copies; ++c) parts.push_back(current(states[n].vars[c]));
      while (parts.size() > 1) {
        std::vector<std::vector<Val>> next;
        for (size_t i = 0; i + 1 < parts.size(); i += 2)
          next.push_back(merge(s, parts[i], parts[i + 1]));
        if (parts.size() % 2) next.push_back(parts.back());
        parts = next;
      }
      const std::vector<Val> result = e_.width > 1 ? across_lanes(s, parts[0]) : parts[0];
      e_.comment(label(pass.stages[n], "Final"));
      const uint32_t axis = e_.vector_axis;
      e_.vector_axis = ~0u;
      final(s, result, false);
      e_.vector_axis = axis;
    }
  }

  void final(const Stage& s, const std::vector<Val>& states, bool as_vector) {
    std::vector<Val> values;
    e_.open_alias();
    e_.states = states;
    for (ExprId x : s.final) values.push_back(as_vector ? e_.vector(x) : e_.scalar(x));
    e_.states.clear();
    e_.close_alias();
    for (size_t r = 0; r < s.store.size(); ++r) {
      // A result that is itself a state must not change after it is forwarded under this name.
      Val v = values[r];
      v.depth = e_.depth();
      e_.forward(s.store[r].buffer, s.store[r].index[0], v, as_vector);
      e_.store(s.store[r], v, as_vector);
    }
  }

  Emitter& e_;
  const Schedule& s_;
  Pool& p_;
  Kernel& k_;
  std::unordered_map<ExprId, ExprId> tile_at_;
  uint32_t copies_ = 1;
  uint32_t inner_unroll_ = 1;
  bool across_ = false;
};

}  // namespace

bool lower_rows(Emitter& e, const Schedule& s, std::string* why) {
  return Rows(e, s).run(why);
}

int64_t access_score(Pool& p, const Stage& s, uint32_t axis) {
  return Rows::contiguity(p, s, axis);
}

int64_t offset_score(Pool& p, ExprId offset, uint32_t axis) {
  return Rows::contiguity(p, offset, axis);
}

}  // namespace tenon::kernelgen
