// solve, inv, det, slogdet: what follows from the factors of `lu`.
#include "compose.h"
#include "derivative.h"
#include "linalg.h"

namespace tenon::ops::linalg::solve_op {

struct Factors {
  Value lower, upper, order;  // the unit diagonal of `lower` and what is above it are not read
};
Value solved_by(Builder& b, const Factors& factors, Value right) {
  const int64_t rank = right.rank();
  Axes dims = range(0, rank - 1);
  const Value order = b.broadcast(factors.order, right.dims(), dims);
  const Value rows =
      b.build("take_along", {right, order}, {{"dim", rank - 2}, {"mode", "in_bounds"}});
  const Value half = b.build("triangular_solve", {factors.lower, rows}, {{"unit", 1}});
  return b.build("triangular_solve", {factors.upper, half}, {{"upper", 1}});
}
Value solved(Builder& b, Value a, Value right) {
  for (Dim d : right.dims()) {
    if (d.is(0)) return right;  // no element is solved for, and no row can be taken
  }
  const Node factors = b.build_node("lu", std::vector<Value>{a});
  return solved_by(b, {factors.result(0), factors.result(0), factors.result(1)}, right);
}
Status decompose_solve(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(out, {solved(b, node.operand(0), node.operand(1))});
}

Status infer_inv(const InferQuery& q) {
  TENON_TRY(require_square(q, "C1"));
  return q.result(q.dtype(0), q.dims(0));
}
Status decompose_inv(Builder& b, const Node& node, tenon_value_t* out) {
  const Value a = node.operand(0);
  const Dims dims = a.dims(), square = {dims[dims.size() - 2], dims.back()};
  const Term hit = compare(iota(b, square, 0), TENON_CMP_EQ, iota(b, square, 1));
  const Term one = as(hit, a.dtype());
  return b.finish(out, {solved(b, a, broadcast(one, dims, {a.rank() - 2, a.rank() - 1}))});
}

// The diagonal of U and the sign of the exchanges, in the type of a.
struct Pivots {
  Term diagonal, sign;
  Axes last;
};
Pivots pivots_of(Builder& b, Value a) {
  const Node factors = b.build_node("lu", std::vector<Value>{a});
  const int64_t rank = a.rank();
  const Value diagonal =
      b.build("diagonal", {factors.result(0)}, {{"dim1", rank - 2}, {"dim2", rank - 1}});
  return {{b, diagonal}, as({b, factors.result(2)}, a.dtype()), {rank - 2}};
}
Status infer_det(const InferQuery& q) {
  TENON_TRY(require_square(q, "C1"));
  return q.result(q.dtype(0), batch_of(q));
}
// The sign of the determinant, and the logarithm of its magnitude.
Term sign_of(const Pivots& p) {
  return reduced("reduce_prod", apply("sign", p.diagonal), p.last) * p.sign;
}
// The real part of a complex logarithm stays in range where the magnitude does not.
Term log_of(const Pivots& p) {
  const Term x = p.diagonal;
  const Term logs = is_complex(x.dtype()) ? apply("real", log(x)) : log(abs(x));
  return reduced("reduce_sum", logs, p.last);
}
// The larger part of a number, which is in range where the magnitude need not be.
Term larger_part(Term x) {
  if (!is_complex(x.dtype())) return abs(x);
  return max(abs(apply("real", x)), abs(apply("imag", x)));
}
// The product of the pivots, which is exact for small integers, unless it leaves the range, maybe
// only on the way.
Status decompose_det(Builder& b, const Node& node, tenon_value_t* out) {
  const Pivots p = pivots_of(b, node.operand(0));
  const Term product = reduced("reduce_prod", p.diagonal, p.last) * p.sign;
  const Term size = larger_part(product);
  const Term in_range = compare(size, TENON_CMP_GT, 0) &
                        compare(size, TENON_CMP_LT, std::numeric_limits<double>::infinity());
  const Term by_logs = sign_of(p) * as(exp(log_of(p)), product.dtype());
  return b.finish(out, {where(in_range, product, by_logs)});
}
Status infer_slogdet(const InferQuery& q) {
  TENON_TRY(require_square(q, "C1"));
  TENON_TRY(q.result(q.dtype(0), batch_of(q)));
  return q.result(real_type(q.dtype(0)), batch_of(q));
}
Status decompose_slogdet(Builder& b, const Node& node, tenon_value_t* out) {
  const Pivots p = pivots_of(b, node.operand(0));
  return b.finish(out, {sign_of(p), log_of(p)});
}

// ---- Derivatives: by solving with a again, and not through the factors ----

Value product(Builder& b, Value x, Value y) {
  return b.build("matmul", {x, y});
}
Value turned(Builder& b, Value x) {
  Axes perm = range(0, x.rank());
  std::swap(perm[perm.size() - 2], perm.back());
  return permute(b, x, perm);
}
// The entries of the diagonal, 0 elsewhere.
Term on_diagonal(Builder& b, Term x) {
  const Dims dims = x.dims(), square = {dims[dims.size() - 2], dims.back()};
  const Term hit = compare(iota(b, square, 0), TENON_CMP_EQ, iota(b, square, 1));
  return where(broadcast(hit, dims, {x.rank() - 2, x.rank() - 1}), x, 0);
}
Term trace(Builder& b, Term x) {
  return reduced("reduce_sum", on_diagonal(b, x), {x.rank() - 2, x.rank() - 1});
}
// a^-1 (t_b - t_a x)
std::vector<Value> jvp_solve(Builder& b, const Node& node, std::span<const Value> tangents) {
  Value right = tangents[1];
  if (tangents[0]) {
    const Value moved = product(b, tangents[0], node.result());
    right = right ? minus(b, right, moved) : b.build("neg", {moved});
  }
  return {b.build("solve", {node.operand(0), right})};
}
// Of b: a^-H g; of a: -(that) x^H
std::vector<Value> pull_solve(Builder& b, const Node& node, std::span<const uint8_t> wanted,
                              std::span<const Value> cotangents) {
  const auto adjoint = [&](Value v) { return conjugate(b, turned(b, v)); };
  const Value of_b = b.build("solve", {adjoint(node.operand(0)), cotangents[0]});
  if (wanted[0] == 0) return {Value(), of_b};
  return {b.build("neg", {product(b, of_b, adjoint(node.result()))}), of_b};
}
// -x t x
std::vector<Value> jvp_inv(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value x = node.result();
  return {b.build("neg", {product(b, product(b, x, tangents[0]), x)})};
}
// det(a) times the trace of a^-1 t. Where a pivot is exactly 0, so that a has no inverse, a tiny
// one in its place gives the cofactors up to rounding errors.
std::vector<Value> jvp_det(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value a = node.operand(0);
  const Node factors = b.build_node("lu", std::vector<Value>{a});
  const Term both = {b, factors.result(0)};
  const int64_t rank = both.rank();
  const bool is_wide = a.dtype() == TENON_F64 || a.dtype() == TENON_C128;
  const Term diagonal = reduced("reduce_sum", on_diagonal(b, both), {rank - 2});
  const Term most = reduced("reduce_max", abs(diagonal), {rank - 2});
  const Term least = max(most, is_wide ? 1e-150 : 1e-18) * (is_wide ? 2.2e-16 : 1.2e-7);
  const Term tiny = as({b, b.build("stop_gradient", {least})}, a.dtype());
  const Term pivots =
      where(compare(diagonal, TENON_CMP_EQ, 0), spread(tiny, diagonal, {rank - 2}), diagonal);
  const Term upper = both + on_diagonal(b, spread(pivots - diagonal, both, {rank - 2}));
  const Value x = solved_by(b, {both, upper, factors.result(1)}, tangents[0]);
  const Term det =
      reduced("reduce_prod", pivots, {rank - 2}) * as({b, factors.result(2)}, a.dtype());
  return {times(b, det, trace(b, {b, x}))};
}
// The trace of a^-1 t: its real part of the logarithm, its imaginary part turns the sign
std::vector<Value> jvp_slogdet(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Term t = trace(b, {b, b.build("solve", {node.operand(0), tangents[0]})});
  if (!is_complex(t.dtype())) return {Value(), t};
  const Term im = apply("imag", t);
  const Value turn = b.build("complex", {im.same(0).v, im.v});
  return {times(b, node.result(0), turn), apply("real", t)};
}

constexpr OpDraft solve() {
  OpDraft draft = matrix_op("solve", "x with a x = b.", kComposite);
  draft.doc("A singular matrix gives infinities or NaN.")
      .operand("b", "right sides [..., rows, any], same batch and element type as a", kTypes, 1, 2)
      .result("x", "same type as b")
      .constraint("C1", kSquareText, "solve(f32[2, 3], f32[2, 1])")
      .constraint("C2", "b has the batch dims of a, and as many rows as a has columns",
                  "solve(f32[2, 2], f32[3, 1])")
      .example("solve(f32[2, 2] [[0, 2], [4, 0]], f32[2, 1] [[4], [4]]) -> f32[2, 1] [[1], [2]]")
      .infer<infer_solve>()
      .decompose<decompose_solve>()
      .jvp<jvp_solve>()
      .pull<pull_solve>()
      .batched({0, 1});
  return draft;
}
constexpr OpDraft inv() {
  OpDraft draft = matrix_op("inv", "The inverse of square matrices.", kComposite);
  draft.doc("A singular matrix gives infinities or NaN.")
      .result("x", "same type as a")
      .constraint("C1", kSquareText, "inv(f32[2, 3])")
      .example("inv(f32[2, 2] [[0, 2], [4, 0]]) -> f32[2, 2] [[0, 0.25], [0.5, 0]]")
      .infer<infer_inv>()
      .decompose<decompose_inv>()
      .jvp<jvp_inv>()
      .batched({0});
  return draft;
}
constexpr OpDraft det() {
  OpDraft draft = matrix_op("det", "The determinant of square matrices.", kComposite);
  draft.result("y", "element type of a, its batch dims")
      .constraint("C1", kSquareText, "det(f32[2, 3])")
      .example("det(f32[2, 2] [[1, 2], [3, 4]]) -> f32[] -2")
      .infer<infer_det>()
      .decompose<decompose_det>()
      .jvp<jvp_det>()
      .batched({0});
  return draft;
}
constexpr OpDraft slogdet() {
  OpDraft draft = matrix_op(
      "slogdet", "The sign of the determinant, and the logarithm of its magnitude.", kComposite);
  draft.doc("Of a singular matrix 0 and -inf.")
      .result("sign", "element type of a: 1, -1, 0, or a complex number of magnitude 1")
      .result("log", "real")
      .constraint("C1", kSquareText, "slogdet(f32[2, 3])")
      .example("slogdet(f32[2, 2] [[0, 1], [1, 0]]) -> f32[] -1, f32[] 0")
      .infer<infer_slogdet>()
      .decompose<decompose_slogdet>()
      .jvp<jvp_slogdet>()
      .batched({0});
  return draft;
}

TENON_OPS(linalg_solve, solve, inv, det, slogdet)

}  // namespace tenon::ops::linalg::solve_op
