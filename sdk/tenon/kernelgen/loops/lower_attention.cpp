// Attention with lanes along the keys, and along the columns of values.
#include <limits>

#include "tenon/kernelgen/loops/attention.h"
#include "tenon/kernelgen/schedule/contraction.h"

namespace tenon::kernelgen {
namespace {

class AttentionOfKeys : AttentionForm {
 public:
  AttentionOfKeys(Emitter& e, const Schedule& s) : AttentionForm(e, s) {}

  bool run(std::string* why) {
    if (!read_operands(why)) return false;
    value_panel_ = int64_t{s_.value_nr} * w_;
    const auto columns = p_.value(wide_);
    values_direct_ = s_.row_block == s_.mr && columns && *columns % value_panel_ == 0 && v_unit_ &&
                     plain_load(p_, st_.value[0], TENON_F32);
    const auto features = p_.value(features_);
    keys_direct_ =
        s_.row_block == s_.mr && features && *features >= w_ && k_unit_ && p_.is_const(q_step_, 1);
    value_panels_ = p_.ceildiv(wide_, value_panel_);
    value_row_ = p_.mul(value_panels_, p_.integer(value_panel_));
    reserve();
    loop_over_blocks([&](Val i0) { block(i0); });
    return true;
  }

 private:
  void reserve() {
    const int64_t rows = s_.row_block, keys = s_.block;
    scores_ = take(p_.integer(rows * keys));
    top_ = take(p_.integer(rows));
    sum_ = take(p_.integer(rows));
    if (!keys_direct_) k_panels_ = take(p_.mul(features_, p_.integer(keys)));
    if (!values_direct_) v_panels_ = take(p_.mul(value_row_, p_.integer(keys)));
    gathered_ = take(p_.mul(value_row_, p_.integer(rows)));
  }

  void block(Val i0) {
    const Val rows = e_.min(e_.integer(s_.row_block), e_.sub(e_.scalar(queries_), i0));
    declare_tile(int64_t{s_.mr} * panel_);
    e_.comment("stage 0 Init");
    clear(top_, e_.integer(s_.row_block), -std::numeric_limits<double>::infinity());
    clear(sum_, e_.integer(s_.row_block));
    clear(gathered_, e_.mul(e_.scalar(value_row_), e_.integer(s_.row_block)));
    loop_over_keys(i0, [&](Val j0, Val jn) {
      if (!keys_direct_) {
        e_.comment("stage 0 Pack b");
        pack_panels(j_, j0, jn, st_.b, k_unit_, k_row_, k_panels_);
      }
      if (!values_direct_) pack_values(j0, jn);
      loop(e_.integer(0), rows, s_.mr, [&](Val r0) { tile_of_scores(i0, r0, j0, jn); });
    });
    finish(i0, rows, gathered_, sum_);
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
    if_seen(e_.add(i0, r0), s_.mr, j0, jn, attend);
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
          const Val dot = from_tile(e_.add(e_.mul(r, e_.integer(panel_)), c));
          put(e_.add(to, c), modified(dot, key, jn));
        });
      });
    });
  }

  Val modified(Val dot, Val key, Val jn) {
    const Val there = inside(j_, key, jn);
    e_.open_alias();
    key.varies = true;
    e_.vector_axis = j_;
    e_.bind(j_, key);
    e_.mask = there.v;
    e_.mask_depth = e_.depth();
    dot.depth = e_.depth();
    e_.states = {dot};
    Val s = e_.splat(e_.vector(st_.step[0]), s_.lanes);
    s.depth = e_.depth();
    s = e_.apply(TENON_S_SELECT, TENON_F32,
                 {there, s, wide(-std::numeric_limits<double>::infinity())});
    e_.states.clear();
    e_.mask = kNoValue;
    e_.vector_axis = ~0u;
    e_.close_alias();
    return s;
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

  // Scores of one query to weights; what it had gathered, and its sum, in terms of the largest
  // score so far.
  void weigh(Val r, Val padded) {
    e_.comment("stage 0 Merge");
    const Val row = e_.add(at(scores_), e_.mul(r, e_.integer(s_.block)));
    const Val before = get(e_.add(at(top_), r), 1);
    const Val top = larger(before, largest(row, padded)), base = base_of(top);
    const ValueId sum = e_.declare(wide(0));
    loop(e_.integer(0), padded, w_, [&](Val c) {
      const Val x = exp_below(get(e_.add(row, c), s_.lanes), base);
      put(e_.add(row, c), x);
      e_.set(sum, f(TENON_S_ADD, now(sum), x));
    });
    const Val shrink = exp_below(before, base);
    const Val place = e_.add(at(sum_), r);
    const Val added = across(now(sum), [&](Val a, Val b) { return f(TENON_S_ADD, a, b); });
    put(place, e_.mul_add(TENON_F32, get(place, 1), shrink, added));
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
          const Val x = from_tile(e_.add(e_.mul(r, e_.integer(value_panel_)), c));
          put(e_.add(to, c), f(TENON_S_ADD, get(e_.add(to, c), s_.lanes), x));
        });
      });
    });
  }

  int64_t value_panel_ = 1;
  bool keys_direct_ = false, values_direct_ = false;  // few queries read them where they are
  ExprId value_panels_ = kNone;
  // Byte offsets in scratch. scores: [row][key of the block]; panels as the product reads them;
  // gathered: [row][column].
  ExprId scores_ = kNone, top_ = kNone, sum_ = kNone, k_panels_ = kNone, v_panels_ = kNone,
         gathered_ = kNone;
};

}  // namespace

bool lower_attention(Emitter& e, const Schedule& s, std::string* why) {
  if (s.vector_axis == s.rows[0]) return lower_attention_queries(e, s, why);
  return AttentionOfKeys(e, s).run(why);
}

}  // namespace tenon::kernelgen
