// Attention with lanes along the queries: whatever the numbers of features and of columns are, no
// lane is empty, and a query's largest score and its sum are in one lane. Keys and values are read
// one number at a time, so that nothing of them is turned over; scores lie as [key][query].
#include <algorithm>
#include <limits>

#include "tenon/kernelgen/loops/attention.h"

namespace tenon::kernelgen {
namespace {

class AttentionOfQueries : AttentionForm {
 public:
  AttentionOfQueries(Emitter& e, const Schedule& s) : AttentionForm(e, s) {}

  bool run(std::string* why) {
    if (!read_operands(why)) return false;
    tile_columns_ = s_.value_nr;
    turned_rows_ =
        p_.add(p_.mul(p_.ceildiv(wide_, tile_columns_), p_.integer(tile_columns_)), p_.integer(w_));
    reserve();
    loop_over_blocks([&](Val i0) { block(i0); });
    return true;
  }

 private:
  void reserve() {
    const int64_t queries = s_.row_block;
    scores_ = take(p_.integer((s_.block + s_.mr) * panel_));
    top_ = take(p_.integer(queries));
    sum_ = take(p_.integer(queries));
    q_panels_ = take(p_.mul(features_, p_.integer(queries)));
    k_rows_ = take(p_.mul(features_, p_.integer(s_.block)));
    v_rows_ = take(p_.mul(wide_, p_.integer(s_.block)));
    turned_ = take(p_.mul(turned_rows_, p_.integer(queries)));
    gathered_ = take(p_.mul(value_row_, p_.integer(queries)));
  }

  void block(Val i0) {
    const Val end = e_.min(e_.scalar(queries_), e_.add(i0, e_.integer(s_.row_block)));
    const Val rows = e_.sub(end, i0);
    declare_tile(int64_t{std::max(s_.mr, s_.value_nr)} * panel_);
    e_.comment("stage 0 Init");
    clear(top_, e_.integer(s_.row_block), -std::numeric_limits<double>::infinity());
    clear(sum_, e_.integer(s_.row_block));
    clear(turned_, e_.mul(e_.scalar(turned_rows_), e_.integer(s_.row_block)));
    // What the last panel has beyond the last query is not read from memory.
    clear(q_panels_, e_.mul(e_.scalar(features_), e_.integer(s_.row_block)));
    e_.comment("stage 0 Pack a");
    pack_panels(i_, i0, end, st_.a, q_unit_ && q_row_ != kNone, q_row_, q_panels_);
    loop_over_keys(i0, [&](Val j0, Val jn) {
      e_.comment("stage 0 Pack b");
      pack_rows(j0, jn, d_, features_, st_.b, k_rows_);
      pack_rows(j0, jn, v_, wide_, st_.value[0], v_rows_);
      loop(e_.integer(0), rows, panel_, [&](Val r0) {
        if_seen(e_.add(i0, r0), panel_, j0, jn, [&](Val last) { attend(i0, r0, j0, last); });
      });
    });
    turn_back(rows);
    finish(i0, rows, gathered_, sum_);
  }

  // The keys [j0, jn) row by row, without gaps. The rest of a row's last vector is in the place of
  // the next row, which is written after it.
  void pack_rows(Val j0, Val jn, uint32_t axis, ExprId width, ExprId operand, ExprId to) {
    const auto n = p_.value(width);
    loop(j0, jn, 1, [&](Val j) {
      e_.bind(j_, j);
      const Val row = e_.add(at(to), e_.mul(e_.sub(j, j0), e_.scalar(width)));
      loop(e_.integer(0), e_.scalar(width), w_, [&](Val c) {
        put(e_.add(row, c), along(axis, c, n && *n % w_ == 0 ? Val{} : e_.scalar(width), operand));
      });
    });
  }

  // The panel of queries from r0 of the block, with the keys [j0, jn).
  void attend(Val i0, Val r0, Val j0, Val jn) {
    score(i0, r0, j0, jn);
    weigh(r0, e_.sub(jn, j0));
    gather(r0, e_.sub(jn, j0));
  }

  // Of rows in scratch with the panel at b.
  Node rows_by(Val b, Val steps) {
    Node n = product(steps, s_.nr);
    n.space = Space::kScratch;
    n.args[0] = b.v;
    return n;
  }
  Val scores(Val key) { return e_.add(at(scores_), e_.mul(key, e_.integer(panel_))); }
  Val lane_of(uint32_t n) { return e_.integer(n * w_); }

  // Scores, and the largest of each query. A tile that is not full repeats the last key, behind the
  // scores that count.
  void score(Val i0, Val r0, Val j0, Val jn) {
    best_.clear();
    for (uint32_t n = 0; n < s_.nr; ++n)
      best_.push_back(e_.declare(wide(-std::numeric_limits<double>::infinity())));
    const Val last = e_.sub(jn, e_.integer(1));
    const Val queries = e_.add(at(q_panels_), e_.mul(r0, e_.scalar(features_)));
    loop(j0, jn, s_.mr, [&](Val j) {
      e_.comment("stage 0 Step");
      Node dots = rows_by(queries, e_.scalar(features_));
      dots.args[1] = e_.integer(1).v;
      for (uint32_t r = 0; r < s_.mr; ++r) {
        const Val in = e_.sub(e_.min(last, e_.add(j, e_.integer(r))), j0);
        dots.list.push_back(e_.add(at(k_rows_), e_.mul(in, e_.scalar(features_))).v);
      }
      e_.emit(e_.depth(), dots);
      e_.comment("stage 0 Map");
      loop(e_.integer(0), e_.integer(s_.mr), 1, [&](Val r) {
        e_.bind(j_, e_.min(last, e_.add(j, r)));
        const Val to = scores(e_.add(e_.sub(j, j0), r));
        for (uint32_t n = 0; n < s_.nr; ++n) {
          const Val dot = from_tile(e_.add(e_.mul(r, e_.integer(panel_)), lane_of(n)));
          e_.copy = n;
          const Val s = modified(dot, e_.add(e_.add(i0, r0), lane_of(n)));
          e_.copy = 0;
          put(e_.add(to, lane_of(n)), s);
          e_.set(best_[n], larger(now(best_[n]), s));
        }
      });
    });
  }

  Val modified(Val dot, Val query) {
    e_.open_alias();
    query.varies = true;
    e_.vector_axis = i_;
    e_.bind(i_, query);
    dot.depth = e_.depth();
    e_.states = {dot};
    Val s = e_.splat(e_.vector(st_.step[0]), s_.lanes);
    e_.states.clear();
    e_.vector_axis = ~0u;
    e_.close_alias();
    s.depth = e_.depth();
    return s;
  }

  // Scores to weights; sums, and how much less counts what was gathered before.
  void weigh(Val r0, Val keys) {
    e_.comment("stage 0 Merge");
    std::vector<Val> before, base;
    std::vector<ValueId> sum;
    for (uint32_t n = 0; n < s_.nr; ++n) {
      const Val place = e_.add(e_.add(at(top_), r0), lane_of(n));
      before.push_back(get(place, s_.lanes));
      const Val top = larger(before[n], now(best_[n]));
      put(place, top);
      base.push_back(base_of(top));
      sum.push_back(e_.declare(wide(0)));
    }
    loop(e_.integer(0), keys, 1, [&](Val key) {
      for (uint32_t n = 0; n < s_.nr; ++n) {
        const Val place = e_.add(scores(key), lane_of(n));
        const Val x = exp_below(get(place, s_.lanes), base[n]);
        put(place, x);
        e_.set(sum[n], f(TENON_S_ADD, now(sum[n]), x));
      }
    });
    shrink_.clear();
    for (uint32_t n = 0; n < s_.nr; ++n) {
      shrink_.push_back(exp_below(before[n], base[n]));
      const Val place = e_.add(e_.add(at(sum_), r0), lane_of(n));
      put(place, e_.mul_add(TENON_F32, get(place, s_.lanes), shrink_[n], now(sum[n])));
    }
  }

  // The first of what the panel's queries gathered: [column][query].
  Val turned(Val r0) { return e_.add(at(turned_), e_.mul(r0, e_.scalar(turned_rows_))); }

  void gather(Val r0, Val keys) {
    const Val last = e_.sub(e_.scalar(wide_), e_.integer(1));
    loop(e_.integer(0), e_.scalar(wide_), tile_columns_, [&](Val v0) {
      e_.comment("stage 0 Step");
      Node sums = rows_by(at(scores_), keys);
      sums.args[1] = e_.scalar(wide_).v;
      for (int64_t r = 0; r < tile_columns_; ++r)
        sums.list.push_back(e_.add(at(v_rows_), e_.min(last, e_.add(v0, e_.integer(r)))).v);
      e_.emit(e_.depth(), sums);
      loop(e_.integer(0), e_.integer(tile_columns_), 1, [&](Val r) {
        const Val to = e_.add(turned(r0), e_.mul(e_.add(v0, r), e_.integer(panel_)));
        for (uint32_t n = 0; n < s_.nr; ++n) {
          const Val place = e_.add(to, lane_of(n));
          const Val x = from_tile(e_.add(e_.mul(r, e_.integer(panel_)), lane_of(n)));
          put(place, e_.mul_add(TENON_F32, get(place, s_.lanes), shrink_[n], x));
        }
      });
    });
  }

  // What was gathered, query by query.
  void turn_back(Val rows) {
    loop(e_.integer(0), rows, panel_, [&](Val r0) {
      loop(e_.integer(0), e_.scalar(value_row_), w_, [&](Val c) {
        for (uint32_t n = 0; n < s_.nr; ++n) {
          const Val query = e_.add(r0, lane_of(n));
          Node t;
          t.kind = NodeKind::kTranspose;
          t.space = Space::kScratch;
          t.type = TENON_F32;
          t.args[0] = e_.add(e_.add(turned(r0), e_.mul(c, e_.integer(panel_))), lane_of(n)).v;
          t.stride = e_.integer(panel_).v;
          t.args[1] = e_.add(e_.add(at(gathered_), e_.mul(query, e_.scalar(value_row_))), c).v;
          t.args[2] = e_.scalar(value_row_).v;
          t.bits = w_;
          e_.emit(e_.depth(), t);
        }
      });
    });
  }

  int64_t tile_columns_ = 1;
  ExprId turned_rows_ = kNone;  // at least the columns of whole tiles, and of whole vectors
  std::vector<ValueId> best_;   // of the panel at hand, per vector
  std::vector<Val> shrink_;
  // Byte offsets in scratch. q_panels: [panel][feature][query]; k_rows, v_rows: [key of the
  // block][feature or column]; turned: [panel][column][query]; gathered: [query][column].
  ExprId scores_ = kNone, top_ = kNone, sum_ = kNone, q_panels_ = kNone, k_rows_ = kNone,
         v_rows_ = kNone, turned_ = kNone, gathered_ = kNone;
};

}  // namespace

bool lower_attention_queries(Emitter& e, const Schedule& s, std::string* why) {
  return AttentionOfQueries(e, s).run(why);
}

}  // namespace tenon::kernelgen
