// Attention in one pass over the keys: for a block of queries and a block of keys the scores are a
// tile in L2, each query keeps its largest score and its sum so far, and what it has gathered is
// scaled down when a larger score comes. Scale, masks and caps are the stage's `step` over the
// score tile.
#include <algorithm>
#include <limits>

#include "tenon/kernelgen/loops/lower_internal.h"
#include "tenon/kernelgen/schedule/contraction.h"

namespace tenon::kernelgen {
namespace {

class Attention {
 public:
  Attention(Emitter& e, const Schedule& s)
      : e_(e), s_(s), p_(e.pool()), st_(e.prepared().kernel.stages[0]) {}

  bool run(std::string* why) {
    i_ = s_.rows[0];
    v_ = s_.columns[0];
    j_ = st_.reduce[0];
    d_ = st_.fill[0];
    w_ = s_.lanes;
    panel_ = int64_t{s_.nr} * w_;
    value_panel_ = int64_t{s_.value_nr} * w_;
    e_.width = s_.lanes;
    const uint32_t qd[] = {d_}, kd[] = {j_, d_}, vd[] = {j_, v_};
    std::vector<ExprId> q, k, v;
    ExprId rest = kNone;
    if (!p_.affine(p_.arg(st_.a, 2), qd, &q, &rest) ||
        !p_.affine(p_.arg(st_.b, 2), kd, &k, &rest) ||
        !p_.affine(p_.arg(st_.value[0], 2), vd, &v, &rest)) {
      *why = "queries, keys or values do not lie in strides";
      return false;
    }
    q_step_ = q[0];
    k_row_ = k[0];
    k_unit_ = p_.is_const(k[1], 1);
    v_step_ = v[0];
    queries_ = p_.axes()[i_].extent;
    keys_ = p_.axes()[j_].extent;
    features_ = p_.axes()[d_].extent;
    wide_ = p_.axes()[v_].extent;
    const auto columns = p_.value(wide_);
    values_direct_ = s_.row_block == s_.mr && columns && *columns % value_panel_ == 0 &&
                     p_.is_const(v[1], 1) && plain_load(p_, st_.value[0], TENON_F32);
    const auto features = p_.value(features_);
    keys_direct_ =
        s_.row_block == s_.mr && features && *features >= w_ && k_unit_ && p_.is_const(q_step_, 1);
    value_panels_ = p_.ceildiv(wide_, value_panel_);
    value_row_ = p_.mul(value_panels_, p_.integer(value_panel_));
    find_seen(st_.step[0]);
    reserve();
    std::vector<uint32_t> outer;
    for (uint32_t a : st_.space) {
      if (a != i_ && a != v_) outer.push_back(a);
    }
    const ExprId blocks = p_.ceildiv(queries_, s_.row_block);
    loop_over_items(e_, s_, points(p_, outer, blocks), [&](Val item) {
      e_.row_depth = e_.depth();
      const Val n = e_.scalar(blocks);
      decode(e_, e_.div(item, n), outer);
      block(e_.mul(e_.mod(item, n), e_.integer(s_.row_block)));
    });
    return true;
  }

 private:
  Val at(ExprId bytes) { return e_.scalar(p_.floordiv(bytes, p_.integer(4))); }
  Val num(double x) { return e_.scalar(p_.number(x, TENON_F32)); }
  Val wide(double x) { return e_.splat(num(x), s_.lanes); }
  Val get(Val place, uint32_t n) {
    Val v = e_.load_at(Space::kScratch, 0, TENON_F32, place, n);
    return v;
  }
  void put(Val place, Val v) { e_.store_at(Space::kScratch, 0, TENON_F32, place, v); }
  Val f(uint16_t code, Val a, Val b) { return e_.apply(code, TENON_F32, {a, b}); }
  template <class F>
  void loop(Val begin, Val end, int64_t step, F body) {
    e_.loop(Bind::kSerial, begin, end, step, false, body);
  }

  void reserve() {
    const int64_t rows = s_.row_block, keys = s_.block;
    auto take = [&](ExprId n) { return e_.reserve(p_.add(n, p_.integer(w_)), TENON_F32, 1); };
    scores_ = take(p_.integer(rows * keys));
    top_ = take(p_.integer(rows));
    sum_ = take(p_.integer(rows));
    if (!keys_direct_) k_panels_ = take(p_.mul(features_, p_.integer(keys)));
    if (!values_direct_) v_panels_ = take(p_.mul(value_row_, p_.integer(keys)));
    gathered_ = take(p_.mul(value_row_, p_.integer(rows)));
  }

  void block(Val i0) {
    const Val rows = e_.min(e_.integer(s_.row_block), e_.sub(e_.scalar(queries_), i0));
    Node tile;
    tile.kind = NodeKind::kLocal;
    tile.type = TENON_F32;
    tile.bits = int64_t{s_.mr} * panel_;
    e_.emit(e_.depth(), tile);
    e_.comment("stage 0 Init");
    loop(e_.integer(0), e_.integer(s_.row_block), w_, [&](Val r) {
      put(e_.add(at(top_), r), wide(-std::numeric_limits<double>::infinity()));
      put(e_.add(at(sum_), r), wide(0));
    });
    const Val all = e_.mul(e_.scalar(value_row_), e_.integer(s_.row_block));
    loop(e_.integer(0), all, w_, [&](Val x) { put(e_.add(at(gathered_), x), wide(0)); });
    const Range all_seen = seen_by(i0, s_.row_block);
    const Val first = e_.mul(e_.div(all_seen.first, e_.integer(s_.block)), e_.integer(s_.block));
    loop(first, all_seen.end, s_.block, [&](Val j0) {
      const Val jn = e_.min(all_seen.end, e_.add(j0, e_.integer(s_.block)));
      if (!keys_direct_) pack_keys(j0, jn);
      if (!values_direct_) pack_values(j0, jn);
      loop(e_.integer(0), rows, s_.mr, [&](Val r0) { tile_of_scores(i0, r0, j0, jn); });
    });
    finish(i0, rows);
  }

  // mr queries from r0 of the block, with the keys [j0, jn) that one of them sees.
  void tile_of_scores(Val i0, Val r0, Val j0, Val jn) {
    const auto attend = [&](Val end) {
      const Val panels =
          e_.div(e_.add(e_.sub(end, j0), e_.integer(panel_ - 1)), e_.integer(panel_));
      const Val padded = e_.mul(panels, e_.integer(panel_));
      score(i0, r0, j0, end);
      loop(r0, e_.add(r0, e_.integer(s_.mr)), 1, [&](Val r) { weigh(r, padded); });
      gather(r0, j0, e_.sub(end, j0));
    };
    if (seen_first_.empty() && seen_end_.empty()) return attend(jn);
    const Range seen = seen_by(e_.add(i0, r0), s_.mr);
    const Val end = e_.min(jn, seen.end);
    e_.only_if(e_.less(e_.max(j0, seen.first), end), [&] { attend(end); });
  }

  // ---- Keys that a mask excludes for all queries of a block ----

  // The keys of a query are [first, end), each linear in the query, with the sign of its slope.
  struct Bound {
    ExprId key = kNone;
    bool rises = false;
  };
  struct Range {
    Val first, end;
  };

  // What hides keys by their position: scores that are -inf unless key and query compare.
  void find_seen(ExprId score) {
    while (p_.at(score).kind == X::kOp && p_.at(score).op == TENON_S_SELECT) {
      const ExprId hidden = p_.arg(score, 2);
      if (!p_.is_const(hidden) ||
          p_.number_value(hidden) != -std::numeric_limits<double>::infinity())
        return;
      add_bounds(p_.arg(score, 0));
      score = p_.arg(score, 1);
    }
  }

  void add_bounds(ExprId condition) {
    const Expr x = p_.at(condition);
    if (x.kind != X::kOp) return;
    const ExprId a = p_.arg(condition, 0);
    if (x.op == TENON_S_AND) {
      add_bounds(a);
      add_bounds(p_.arg(condition, 1));
    }
    if (x.op != TENON_S_CMP || p_.type(a) != TENON_I64) return;
    const ExprId b = p_.arg(condition, 1), one = p_.integer(1);
    // As at_most <= 0.
    ExprId at_most = kNone;
    if (x.ref == TENON_CMP_LE) at_most = p_.sub(a, b);
    if (x.ref == TENON_CMP_LT) at_most = p_.add(p_.sub(a, b), one);
    if (x.ref == TENON_CMP_GE) at_most = p_.sub(b, a);
    if (x.ref == TENON_CMP_GT) at_most = p_.add(p_.sub(b, a), one);
    const uint32_t axes[] = {j_, i_};
    std::vector<ExprId> c, loads;
    ExprId rest = kNone;
    if (at_most == kNone || !p_.affine(at_most, axes, &c, &rest) || !p_.value(c[1])) return;
    p_.loads(rest, &loads);
    const bool above = p_.is_const(c[0], 1);
    if (!loads.empty() || (!above && !p_.is_const(c[0], -1))) return;
    const ExprId query = p_.add(p_.mul(c[1], p_.axis(i_)), rest);
    const int64_t slope = *p_.value(c[1]);
    if (above) {
      seen_end_.push_back({p_.sub(one, query), slope < 0});
    } else {
      seen_first_.push_back({query, slope > 0});
    }
  }

  // All keys that some of `count` queries from i on sees; empty if end <= first.
  Range seen_by(Val i, int64_t count) {
    const Val last =
        e_.min(e_.sub(e_.scalar(queries_), e_.integer(1)), e_.add(i, e_.integer(count - 1)));
    const auto at_query = [&](ExprId key, Val query) {
      const uint32_t axis = p_.add_axis(queries_);
      e_.bind(axis, query);
      return e_.scalar(p_.substitute(key, {{p_.axis(i_), p_.axis(axis)}}));
    };
    Range out{e_.integer(0), e_.scalar(keys_)};
    for (const Bound& b : seen_end_) out.end = e_.min(out.end, at_query(b.key, b.rises ? last : i));
    for (const Bound& b : seen_first_)
      out.first = e_.max(out.first, at_query(b.key, b.rises ? i : last));
    return out;
  }

  // Keys of the block, a panel's worth side by side per feature; places without a key hold zeros.
  void pack_keys(Val j0, Val jn) {
    e_.comment("stage 0 Pack b");
    loop(j0, jn, w_, [&](Val j) {
      const Val in = e_.sub(j, j0);
      const Val to = e_.add(
          e_.add(at(k_panels_), e_.mul(e_.mul(e_.div(in, e_.integer(panel_)), e_.scalar(features_)),
                                       e_.integer(panel_))),
          e_.mod(in, e_.integer(panel_)));
      auto by_feature = [&](Val from, bool masked) {
        loop(from, e_.scalar(features_), 1, [&](Val d) {
          e_.bind(d_, d);
          put(e_.add(to, e_.mul(d, e_.integer(panel_))), along(j_, j, masked ? jn : Val{}, st_.b));
        });
      };
      Node branch;
      branch.kind = NodeKind::kIf;
      branch.args[0] =
          e_.apply(TENON_S_CMP, TENON_I64, {e_.add(j, e_.integer(w_)), jn}, TENON_CMP_LE).v;
      e_.open();
      if (k_unit_) {
        // Squares are turned over in registers.
        const Val n = e_.scalar(features_);
        e_.loop(Bind::kSerial, e_.integer(0), n, w_, true, [&](Val d) {
          e_.bind(d_, d);
          e_.bind(j_, j);
          Node t;
          t.kind = NodeKind::kTranspose;
          t.ref = e_.argument(p_.at(st_.b).ref, false);
          t.type = TENON_F32;
          t.args[0] = e_.scalar(p_.arg(st_.b, 2)).v;
          t.stride = e_.scalar(k_row_).v;
          t.args[1] = e_.add(to, e_.mul(d, e_.integer(panel_))).v;
          t.args[2] = e_.integer(panel_).v;
          t.bits = w_;
          e_.emit(e_.depth(), t);
        });
        by_feature(e_.sub(n, e_.mod(n, e_.integer(w_))), false);
      } else {
        by_feature(e_.integer(0), false);
      }
      branch.body = e_.close();
      e_.open();
      by_feature(e_.integer(0), true);
      branch.other = e_.close();
      e_.emit(e_.depth(), branch);
    });
  }

  // Values of the block by panels of their columns; columns that are not there hold zeros.
  void pack_values(Val j0, Val jn) {
    loop(e_.integer(0), e_.scalar(value_row_), w_, [&](Val c) {
      const Val to = e_.add(e_.add(at(v_panels_), e_.mul(e_.div(c, e_.integer(value_panel_)),
                                                         e_.integer(value_panel_ * s_.block))),
                            e_.mod(c, e_.integer(value_panel_)));
      const auto n = p_.value(wide_);
      loop(j0, jn, 1, [&](Val j) {
        e_.bind(j_, j);
        put(e_.add(to, e_.mul(e_.sub(j, j0), e_.integer(value_panel_))),
            along(v_, c, n && *n % value_panel_ == 0 ? Val{} : e_.scalar(wide_), st_.value[0]));
      });
    });
  }

  // A vector of x along an axis from `base`; from `end` on (if given) zeros.
  Val along(uint32_t axis, Val base, Val end, ExprId x) {
    e_.vector_axis = axis;
    base.varies = true;
    e_.bind(axis, base);
    if (end.v != kNoValue) mask_below(e_, axis, end);
    const Val v = e_.splat(e_.vector(x), s_.lanes);
    e_.mask = kNoValue;
    e_.vector_axis = ~0u;
    return v;
  }

  Node product(Val steps, uint32_t vectors) {
    Node n;
    n.kind = NodeKind::kMma;
    n.type = TENON_F32;
    n.lanes = s_.lanes;
    n.bits = vectors;
    n.args[2] = steps.v;
    n.stride = e_.integer(vectors * w_).v;
    return n;
  }

  // Of queries with a panel of packed keys, the one at `in` of the block.
  Node tile_product(Val in) {
    Node n = product(e_.scalar(features_), s_.nr);
    n.args[0] = e_.add(at(k_panels_), e_.mul(in, e_.scalar(features_))).v;
    n.args[1] = e_.scalar(q_step_).v;
    return n;
  }

  // Of few queries with the keys from j on, as many as a panel has, where they are in memory.
  Node dots(Val j, Val jn) {
    const uint32_t key = p_.add_axis(keys_);
    e_.bind(key, j);
    const ExprId first = p_.substitute(p_.arg(st_.b, 2),
                                       {{p_.axis(j_), p_.axis(key)}, {p_.axis(d_), p_.integer(0)}});
    Node n;
    n.kind = NodeKind::kDots;
    n.type = TENON_F32;
    n.lanes = s_.lanes;
    n.bits = panel_;
    n.b_buffer = static_cast<int32_t>(e_.argument(p_.at(st_.b).ref, false));
    n.args[0] = e_.scalar(first).v;
    n.args[1] = e_.min(e_.integer(panel_), e_.sub(jn, j)).v;
    n.args[2] = e_.scalar(features_).v;
    n.stride = e_.scalar(k_row_).v;
    return n;
  }

  // Scores of mr queries from r0 of the block with the keys of the block. Places without a key
  // score below all.
  void score(Val i0, Val r0, Val j0, Val jn) {
    std::vector<Val> query;
    const Val last = e_.sub(e_.scalar(queries_), e_.integer(1));
    for (uint32_t r = 0; r < s_.mr; ++r)
      query.push_back(e_.min(last, e_.add(e_.add(i0, r0), e_.integer(r))));
    loop(j0, jn, panel_, [&](Val j) {
      e_.comment("stage 0 Step");
      const Val in = e_.sub(j, j0);
      Node n = keys_direct_ ? dots(j, jn) : tile_product(in);
      n.ref = e_.argument(p_.at(st_.a).ref, false);
      for (uint32_t r = 0; r < s_.mr; ++r) {
        const uint32_t row = p_.add_axis(queries_);
        e_.bind(row, query[r]);
        n.list.push_back(e_.scalar(p_.substitute(p_.arg(st_.a, 2), {{p_.axis(i_), p_.axis(row)},
                                                                    {p_.axis(d_), p_.integer(0)}}))
                             .v);
      }
      e_.emit(e_.depth(), n);
      e_.comment("stage 0 Map");
      loop(e_.integer(0), e_.integer(s_.mr), 1, [&](Val r) {
        e_.bind(i_, e_.min(last, e_.add(e_.add(i0, r0), r)));
        const Val to = e_.add(e_.add(at(scores_), e_.mul(e_.add(r0, r), e_.integer(s_.block))), in);
        loop(e_.integer(0), e_.integer(panel_), w_, [&](Val c) {
          const Val key = e_.add(j, c);
          const Val dot = e_.load_at(Space::kLocal, 0, TENON_F32,
                                     e_.add(e_.mul(r, e_.integer(panel_)), c), s_.lanes);
          put(e_.add(to, c), modified(dot, key, jn));
        });
      });
    });
  }

  Val modified(Val dot, Val key, Val jn) {
    e_.open_alias();
    key.varies = true;
    e_.vector_axis = j_;
    e_.bind(j_, key);
    const Val lane = e_.vector(p_.axis(j_)),
              inside = e_.less(lane, e_.as_type(jn, e_.type(lane.v)));
    e_.mask = inside.v;
    e_.mask_depth = e_.depth();
    dot.depth = e_.depth();
    e_.states = {dot};
    Val s = e_.splat(e_.vector(st_.step[0]), s_.lanes);
    s.depth = e_.depth();
    s = e_.apply(TENON_S_SELECT, TENON_F32,
                 {inside, s, wide(-std::numeric_limits<double>::infinity())});
    e_.states.clear();
    e_.mask = kNoValue;
    e_.vector_axis = ~0u;
    e_.close_alias();
    return s;
  }

  // Without a rule for NaN: a score that is NaN makes its weight NaN, whatever the largest is.
  Val larger(Val a, Val b) {
    const Val above = e_.apply(TENON_S_CMP, TENON_F32, {b, a}, TENON_CMP_GT);
    return e_.apply(TENON_S_SELECT, TENON_F32, {above, b, a});
  }

  // The largest of a row's scores; each vector of a panel keeps its own, since one would wait for
  // itself.
  Val largest(Val row, Val padded) {
    std::vector<ValueId> best;
    for (uint32_t n = 0; n < s_.nr; ++n)
      best.push_back(e_.declare(wide(-std::numeric_limits<double>::infinity())));
    loop(e_.integer(0), padded, panel_, [&](Val c) {
      for (uint32_t n = 0; n < s_.nr; ++n) {
        const Val place = e_.add(e_.add(row, c), e_.integer(n * w_));
        e_.set(best[n], larger(now(best[n]), get(place, s_.lanes)));
      }
    });
    Val all = now(best[0]);
    for (uint32_t n = 1; n < s_.nr; ++n) all = larger(all, now(best[n]));
    return across(all, [&](Val a, Val b) { return larger(a, b); });
  }

  // One number of all lanes of v.
  template <class F>
  Val across(Val v, F combine) {
    for (uint32_t h = s_.lanes / 2; h >= 1; h /= 2) {
      Node n;
      n.kind = NodeKind::kShuffle;
      n.args[0] = v.v;
      n.ref = h;
      n.dst = e_.value(TENON_F32, s_.lanes);
      v = combine(v, {e_.emit(e_.depth(), n), e_.depth(), true});
    }
    Node n;
    n.kind = NodeKind::kLane;
    n.args[0] = v.v;
    n.dst = e_.value(TENON_F32, 1);
    return {e_.emit(e_.depth(), n), e_.depth(), false};
  }

  Val now(ValueId var) const { return {var, e_.depth(), true}; }

  // Scores of one query to weights; what it had gathered, and its sum, in terms of the largest
  // score so far.
  void weigh(Val r, Val padded) {
    e_.comment("stage 0 Merge");
    const Val row = e_.add(at(scores_), e_.mul(r, e_.integer(s_.block)));
    const double low = -std::numeric_limits<double>::infinity();
    const Val before = get(e_.add(at(top_), r), 1);
    const Val top = larger(before, largest(row, padded));
    // A query that has seen no key yet: its weights are zero, not undefined.
    const Val none = e_.apply(TENON_S_CMP, TENON_F32, {top, num(low)}, TENON_CMP_EQ);
    const Val base = e_.apply(TENON_S_SELECT, TENON_F32, {none, num(0), top});
    const ValueId sum = e_.declare(wide(0));
    loop(e_.integer(0), padded, w_, [&](Val c) {
      const Val x =
          e_.apply(TENON_S_EXP, TENON_F32, {f(TENON_S_SUB, get(e_.add(row, c), s_.lanes), base)});
      put(e_.add(row, c), x);
      e_.set(sum, f(TENON_S_ADD, now(sum), x));
    });
    const Val shrink = e_.apply(TENON_S_EXP, TENON_F32, {f(TENON_S_SUB, before, base)});
    const Val place = e_.add(at(sum_), r);
    put(place, f(TENON_S_ADD, f(TENON_S_MUL, get(place, 1), shrink),
                 across(now(sum), [&](Val a, Val b) { return f(TENON_S_ADD, a, b); })));
    put(e_.add(at(top_), r), top);
    Node branch;
    branch.kind = NodeKind::kIf;
    branch.args[0] = e_.apply(TENON_S_CMP, TENON_F32, {shrink, num(1)}, TENON_CMP_NE).v;
    e_.open();
    const Val mine = e_.add(at(gathered_), e_.mul(r, e_.scalar(value_row_)));
    loop(e_.integer(0), e_.scalar(value_row_), w_, [&](Val c) {
      put(e_.add(mine, c), f(TENON_S_MUL, get(e_.add(mine, c), s_.lanes), shrink));
    });
    branch.body = e_.close();
    e_.emit(e_.depth(), branch);
  }

  // The values that a panel of columns has at the first key of a block, where they are in memory.
  void read_values(Node* n, Val j0, Val panel) {
    const uint32_t column = p_.add_axis(wide_), key = p_.add_axis(keys_);
    e_.bind(column, e_.mul(panel, e_.integer(value_panel_)));
    e_.bind(key, j0);
    const ExprId offset = p_.substitute(
        p_.arg(st_.value[0], 2), {{p_.axis(v_), p_.axis(column)}, {p_.axis(j_), p_.axis(key)}});
    n->b_buffer = static_cast<int32_t>(e_.argument(p_.at(st_.value[0]).ref, false));
    n->args[0] = e_.scalar(offset).v;
    n->stride = e_.scalar(v_step_).v;
  }

  void gather(Val r0, Val j0, Val keys) {
    loop(e_.integer(0), e_.scalar(value_panels_), 1, [&](Val panel) {
      e_.comment("stage 0 Step");
      Node n = product(keys, s_.value_nr);
      n.space = Space::kScratch;
      if (values_direct_) {
        read_values(&n, j0, panel);
      } else {
        n.args[0] = e_.add(at(v_panels_), e_.mul(panel, e_.integer(value_panel_ * s_.block))).v;
      }
      n.args[1] = e_.integer(1).v;
      for (uint32_t r = 0; r < s_.mr; ++r) {
        n.list.push_back(
            e_.add(at(scores_), e_.mul(e_.add(r0, e_.integer(r)), e_.integer(s_.block))).v);
      }
      e_.emit(e_.depth(), n);
      loop(e_.integer(0), e_.integer(s_.mr), 1, [&](Val r) {
        const Val to = e_.add(e_.add(at(gathered_), e_.mul(e_.add(r0, r), e_.scalar(value_row_))),
                              e_.mul(panel, e_.integer(value_panel_)));
        loop(e_.integer(0), e_.integer(value_panel_), w_, [&](Val c) {
          const Val x = e_.load_at(Space::kLocal, 0, TENON_F32,
                                   e_.add(e_.mul(r, e_.integer(value_panel_)), c), s_.lanes);
          put(e_.add(to, c), f(TENON_S_ADD, get(e_.add(to, c), s_.lanes), x));
        });
      });
    });
  }

  void finish(Val i0, Val rows) {
    e_.comment("stage 0 Final");
    loop(e_.integer(0), rows, 1, [&](Val r) {
      e_.bind(i_, e_.add(i0, r));
      const Val sum = get(e_.add(at(sum_), r), 1),
                mine = e_.add(at(gathered_), e_.mul(r, e_.scalar(value_row_)));
      auto one = [&](Val c, bool masked) {
        c.varies = true;
        e_.vector_axis = v_;
        e_.bind(v_, c);
        if (masked) {
          const Val lane = e_.vector(p_.axis(v_));
          e_.mask_depth = e_.depth();
          e_.mask = e_.less(lane, e_.as_type(e_.scalar(wide_), e_.type(lane.v))).v;
        }
        e_.open_alias();
        Val x = f(TENON_S_DIV, get(e_.add(mine, c), s_.lanes), sum);
        x.depth = e_.depth();
        e_.states = {x, sum};
        e_.store(st_.store[0], e_.vector(st_.final[0]), true);
        e_.states.clear();
        e_.close_alias();
        e_.mask = kNoValue;
        e_.vector_axis = ~0u;
      };
      const Val n = e_.scalar(wide_);
      e_.loop(Bind::kVector, e_.integer(0), n, w_, true, [&](Val c) { one(c, false); });
      e_.loop(Bind::kVector, e_.sub(n, e_.mod(n, e_.integer(w_))), n, w_, false,
              [&](Val c) { one(c, true); });
    });
  }

  Emitter& e_;
  const Schedule& s_;
  Pool& p_;
  const Stage& st_;
  uint32_t i_ = 0, j_ = 0, d_ = 0, v_ = 0;  // queries, keys, features, columns of values
  int64_t w_ = 1, panel_ = 1, value_panel_ = 1;
  std::vector<Bound> seen_first_, seen_end_;
  bool k_unit_ = false;
  bool keys_direct_ = false, values_direct_ = false;  // few queries read them where they are
  ExprId v_step_ = kNone;
  ExprId q_step_ = kNone, k_row_ = kNone;
  ExprId queries_ = kNone, keys_ = kNone, features_ = kNone, wide_ = kNone, value_panels_ = kNone,
         value_row_ = kNone;
  // Byte offsets in scratch. scores: [row][key of the block]; panels as the product reads them;
  // gathered: [row][column].
  ExprId scores_ = kNone, top_ = kNone, sum_ = kNone, k_panels_ = kNone, v_panels_ = kNone,
         gathered_ = kNone;
};

}  // namespace

bool lower_attention(Emitter& e, const Schedule& s, std::string* why) {
  return Attention(e, s).run(why);
}

}  // namespace tenon::kernelgen
