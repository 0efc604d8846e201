#include "tenon/kernelgen/loops/attention.h"

#include <limits>
#include <utility>

namespace tenon::kernelgen {

AttentionForm::AttentionForm(Emitter& e, const Schedule& s)
    : e_(e), s_(s), p_(e.pool()), st_(e.prepared().kernel.stages[0]) {
  i_ = s_.rows[0];
  v_ = s_.columns[0];
  j_ = st_.reduce[0];
  d_ = st_.fill[0];
  w_ = s_.lanes;
  panel_ = int64_t{s_.nr} * w_;
  e_.width = s_.lanes;
  queries_ = p_.axes()[i_].extent;
  keys_ = p_.axes()[j_].extent;
  features_ = p_.axes()[d_].extent;
  wide_ = p_.axes()[v_].extent;
  value_row_ = p_.mul(p_.ceildiv(wide_, w_), p_.integer(w_));
}

bool AttentionForm::read_operands(std::string* why) {
  const uint32_t qd[] = {d_}, qi[] = {i_}, kd[] = {j_, d_}, vd[] = {j_, v_};
  std::vector<ExprId> q, row, k, v;
  ExprId rest = kNone;
  if (!p_.affine(p_.arg(st_.a, 2), qd, &q, &rest) || !p_.affine(p_.arg(st_.b, 2), kd, &k, &rest) ||
      !p_.affine(p_.arg(st_.value[0], 2), vd, &v, &rest)) {
    *why = "queries, keys or values do not lie in strides";
    return false;
  }
  if (p_.affine(p_.arg(st_.a, 2), qi, &row, &rest)) q_row_ = row[0];
  q_step_ = q[0];
  q_unit_ = p_.is_const(q[0], 1);
  k_row_ = k[0];
  k_unit_ = p_.is_const(k[1], 1);
  v_step_ = v[0];
  v_unit_ = p_.is_const(v[1], 1);
  find_seen(st_.step[0]);
  return true;
}

void AttentionForm::declare_tile(int64_t elements) {
  Node tile;
  tile.kind = NodeKind::kLocal;
  tile.type = TENON_F32;
  tile.bits = elements;
  e_.emit(e_.depth(), tile);
}

Val AttentionForm::inside(uint32_t axis, Val base, Val end) {
  // An axis of one point is not there: its place would be 0 in all lanes.
  if (p_.is_const(p_.axes()[axis].extent, 1)) axis = p_.add_axis(p_.integer(2));
  const uint32_t before = std::exchange(e_.vector_axis, axis);
  base.varies = true;
  e_.bind(axis, base);
  const Val lane = e_.vector(p_.axis(axis));
  e_.vector_axis = before;
  return e_.less(lane, e_.as_type(end, e_.type(lane.v)));
}

Val AttentionForm::along(uint32_t axis, Val base, Val end, ExprId x) {
  e_.vector_axis = axis;
  base.varies = true;
  e_.bind(axis, base);
  if (end.v != kNoValue) mask_below(e_, axis, end);
  const Val v = e_.splat(e_.vector(x), s_.lanes);
  e_.mask = kNoValue;
  e_.vector_axis = ~0u;
  return v;
}

Node AttentionForm::product(Val steps, uint32_t vectors) {
  Node n;
  n.kind = NodeKind::kMma;
  n.type = TENON_F32;
  n.lanes = s_.lanes;
  n.bits = vectors;
  n.args[2] = steps.v;
  n.stride = e_.integer(vectors * w_).v;
  return n;
}

void AttentionForm::pack_panels(uint32_t axis, Val begin, Val end, ExprId operand, bool unit,
                                ExprId row, ExprId to_region) {
  const Val panel = e_.integer(panel_);
  loop(begin, end, w_, [&](Val j) {
    const Val in = e_.sub(j, begin);
    const Val to = e_.add(
        e_.add(at(to_region), e_.mul(e_.mul(e_.div(in, panel), e_.scalar(features_)), panel)),
        e_.mod(in, panel));
    // Loads stay inside: what is loaded without a mask is there only in one branch.
    auto by_feature = [&](Val from, bool masked) {
      j.depth = e_.depth();
      loop(from, e_.scalar(features_), 1, [&](Val d) {
        e_.bind(d_, d);
        put(e_.add(to, e_.mul(d, panel)), along(axis, j, masked ? end : Val{}, operand));
      });
    };
    Node branch;
    branch.kind = NodeKind::kIf;
    branch.args[0] =
        e_.apply(TENON_S_CMP, TENON_I64, {e_.add(j, e_.integer(w_)), end}, TENON_CMP_LE).v;
    e_.open();
    if (unit) {
      // Squares are turned over in registers.
      const Val n = e_.scalar(features_);
      e_.loop(Bind::kSerial, e_.integer(0), n, w_, true, [&](Val d) {
        e_.bind(d_, d);
        e_.bind(axis, j);
        Node t;
        t.kind = NodeKind::kTranspose;
        t.ref = e_.argument(p_.at(operand).ref, false);
        t.type = TENON_F32;
        t.args[0] = e_.scalar(p_.arg(operand, 2)).v;
        t.stride = e_.scalar(row).v;
        t.args[1] = e_.add(to, e_.mul(d, panel)).v;
        t.args[2] = panel.v;
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

Val AttentionForm::larger(Val a, Val b) {
  const Val above = e_.apply(TENON_S_CMP, TENON_F32, {b, a}, TENON_CMP_GT);
  return e_.apply(TENON_S_SELECT, TENON_F32, {above, b, a});
}

Val AttentionForm::base_of(Val top) {
  const bool lanes = e_.lanes(top.v) > 1;
  const double low = -std::numeric_limits<double>::infinity();
  const Val none =
      e_.apply(TENON_S_CMP, TENON_F32, {top, lanes ? wide(low) : num(low)}, TENON_CMP_EQ);
  return e_.apply(TENON_S_SELECT, TENON_F32, {none, lanes ? wide(0) : num(0), top});
}

void AttentionForm::find_seen(ExprId score) {
  while (p_.at(score).kind == X::kOp && p_.at(score).op == TENON_S_SELECT) {
    const ExprId hidden = p_.arg(score, 2);
    if (!p_.is_const(hidden) || p_.number_value(hidden) != -std::numeric_limits<double>::infinity())
      return;
    add_bounds(p_.arg(score, 0));
    score = p_.arg(score, 1);
  }
}

void AttentionForm::add_bounds(ExprId condition) {
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

AttentionForm::Range AttentionForm::seen_by(Val i, int64_t count) {
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

void AttentionForm::finish(Val i0, Val rows, ExprId gathered, ExprId total) {
  e_.comment("stage 0 Final");
  loop(e_.integer(0), rows, 1, [&](Val r) {
    e_.bind(i_, e_.add(i0, r));
    const Val sum = get(e_.add(at(total), r), 1),
              mine = e_.add(at(gathered), e_.mul(r, e_.scalar(value_row_)));
    const auto store = [&](Val c, uint32_t lanes) {
      e_.bind(v_, c);
      e_.open_alias();
      Val x = f(TENON_S_DIV, get(e_.add(mine, c), lanes), sum);
      x.depth = e_.depth();
      e_.states = {x, sum};
      const ExprId result = st_.final[0];
      e_.store(st_.store[0], lanes > 1 ? e_.vector(result) : e_.scalar(result), lanes > 1);
      e_.states.clear();
      e_.close_alias();
    };
    // An axis of one point is not there: no vector is along it.
    if (p_.is_const(wide_, 1)) return store(e_.integer(0), 1);
    const auto vector = [&](Val c, bool masked) {
      c.varies = true;
      e_.vector_axis = v_;
      e_.bind(v_, c);
      if (masked) mask_below(e_, v_, e_.scalar(wide_));
      store(c, s_.lanes);
      e_.mask = kNoValue;
      e_.vector_axis = ~0u;
    };
    const Val n = e_.scalar(wide_);
    e_.loop(Bind::kVector, e_.integer(0), n, w_, true, [&](Val c) { vector(c, false); });
    e_.loop(Bind::kVector, e_.sub(n, e_.mod(n, e_.integer(w_))), n, w_, false,
            [&](Val c) { vector(c, true); });
  });
}

}  // namespace tenon::kernelgen
