// What the forms of attention share. Both make one pass over the keys: for a block of queries and a
// block of keys the scores are a tile in the caches, each query keeps its largest score and its sum
// so far, and what it has gathered is scaled down when a larger score comes. Scale, masks and caps
// are the stage's `step` over the score tile. Internal to kernelgen.
#ifndef TENON_KERNELGEN_LOOPS_ATTENTION_H_
#define TENON_KERNELGEN_LOOPS_ATTENTION_H_

#include <string>
#include <vector>

#include "tenon/kernelgen/loops/lower_internal.h"

namespace tenon::kernelgen {

class AttentionForm {
 protected:
  AttentionForm(Emitter& e, const Schedule& s);

  // Axes, extents and strides. False with a reason: operands that do not lie in strides.
  bool read_operands(std::string* why);
  // The kernel's range: a body for the first query of each block.
  template <class F>
  void loop_over_blocks(F body) {
    std::vector<uint32_t> outer;
    for (uint32_t a : st_.space) {
      if (a != i_ && a != v_) outer.push_back(a);
    }
    const ExprId blocks = p_.ceildiv(queries_, s_.row_block);
    loop_over_items(e_, s_, points(p_, outer, blocks), [&](Val item) {
      e_.row_depth = e_.depth();
      const Val n = e_.scalar(blocks);
      decode(e_, e_.div(item, n), outer);
      body(e_.mul(e_.mod(item, n), e_.integer(s_.row_block)));
    });
  }

  // ---- Values and memory ----
  Val at(ExprId bytes) { return e_.scalar(p_.floordiv(bytes, p_.integer(4))); }
  Val num(double x) { return e_.scalar(p_.number(x, TENON_F32)); }
  Val wide(double x) { return e_.splat(num(x), s_.lanes); }
  Val now(ValueId var) const { return {var, e_.depth(), true}; }
  Val f(uint16_t code, Val a, Val b) { return e_.apply(code, TENON_F32, {a, b}); }
  Val exp_below(Val x, Val base) {
    return e_.apply(TENON_S_EXP, TENON_F32, {f(TENON_S_SUB, x, base)});
  }
  Val get(Val place, uint32_t n) { return e_.load_at(Space::kScratch, 0, TENON_F32, place, n); }
  void put(Val place, Val v) { e_.store_at(Space::kScratch, 0, TENON_F32, place, v); }
  ExprId take(ExprId n) { return e_.reserve(p_.add(n, p_.integer(w_)), TENON_F32, 1); }
  template <class F>
  void loop(Val begin, Val end, int64_t step, F body) {
    e_.loop(Bind::kSerial, begin, end, step, false, body);
  }
  // Vectors of zeros, or of another number.
  void clear(ExprId region, Val count, double x = 0) {
    loop(e_.integer(0), count, w_, [&](Val c) { put(e_.add(at(region), c), wide(x)); });
  }
  // The local array that a product leaves.
  void declare_tile(int64_t elements);
  Val from_tile(Val place) { return e_.load_at(Space::kLocal, 0, TENON_F32, place, s_.lanes); }
  // Which lanes along an axis from `base` are before `end`, also if the axis has one point.
  Val inside(uint32_t axis, Val base, Val end);
  // A vector of x along an axis from `base`; from `end` on (if given) zeros.
  Val along(uint32_t axis, Val base, Val end, ExprId x);
  // Rows [begin, end) of an operand to panels of a block in scratch, panel_ rows side by side per
  // feature; places without a row hold zeros. unit: features are contiguous, rows `row` apart.
  void pack_panels(uint32_t axis, Val begin, Val end, ExprId operand, bool unit, ExprId row,
                   ExprId to);
  // A register tile's product with panels of so many vectors. The caller adds its operands.
  Node product(Val steps, uint32_t vectors);
  // Without a rule for NaN: a score that is NaN makes its weight NaN, whatever the largest is.
  Val larger(Val a, Val b);
  // What a query subtracts from its scores: the largest, but not that of a query that has seen no
  // key yet, whose weights are zero, not undefined.
  Val base_of(Val top);

  // ---- Keys that a mask excludes for all queries of a block ----
  struct Range {
    Val first, end;
  };
  // What hides keys by their position: scores that are -inf unless key and query compare.
  void find_seen(ExprId score);
  bool all_seen() const { return seen_first_.empty() && seen_end_.empty(); }
  // All keys that some of `count` queries from i on sees; empty if end <= first.
  Range seen_by(Val i, int64_t count);
  // Calls body(j0, jn) for the blocks of keys that some query from i0 on sees.
  template <class F>
  void loop_over_keys(Val i0, F body) {
    const Range seen = seen_by(i0, s_.row_block);
    const Val block = e_.integer(s_.block);
    loop(e_.mul(e_.div(seen.first, block), block), seen.end, s_.block,
         [&](Val j0) { body(j0, e_.min(seen.end, e_.add(j0, block))); });
  }
  // Calls body(end) with the end of what `count` queries from i on see of the keys [j0, jn), if
  // they see any.
  template <class F>
  void if_seen(Val i, int64_t count, Val j0, Val jn, F body) {
    if (all_seen()) return body(jn);
    const Range seen = seen_by(i, count);
    const Val end = e_.min(jn, seen.end);
    e_.only_if(e_.less(e_.max(j0, seen.first), end), [&] { body(end); });
  }

  // Results of the first `rows` queries of a block: what they gathered (`gathered` in scratch has a
  // row for each) divided by their sums.
  void finish(Val i0, Val rows, ExprId gathered, ExprId sum);

  Emitter& e_;
  const Schedule& s_;
  Pool& p_;
  const Stage& st_;
  uint32_t i_ = 0, j_ = 0, d_ = 0, v_ = 0;  // queries, keys, features, columns of values
  int64_t w_ = 1, panel_ = 1;               // panel_: of nr vectors
  bool q_unit_ = false, k_unit_ = false, v_unit_ = false;
  // Elements from one query to the next (kNone: not in strides), from one feature of it to the
  // next, from one key to the next, and from the values of one key to those of the next.
  ExprId q_row_ = kNone, q_step_ = kNone, k_row_ = kNone, v_step_ = kNone;
  ExprId queries_ = kNone, keys_ = kNone, features_ = kNone, wide_ = kNone;
  ExprId value_row_ = kNone;  // elements of a row of what was gathered: whole vectors

 private:
  // The keys of a query are [first, end), each linear in the query, with the sign of its slope.
  struct Bound {
    ExprId key = kNone;
    bool rises = false;
  };
  void add_bounds(ExprId condition);
  std::vector<Bound> seen_first_, seen_end_;
};

// Lanes run along queries.
bool lower_attention_queries(Emitter& e, const Schedule& s, std::string* why);

}  // namespace tenon::kernelgen
#endif
