// solve, inv, det, slogdet: what follows from the factors of `lu`.
#include "compose.h"
#include "linalg.h"

namespace tenon::ops::linalg::solve_op {

Value solved(Builder& b, Value a, Value right) {
  for (Dim d : right.dims()) {
    if (d.is(0)) return right;  // no element is solved for, and no row can be taken
  }
  const Node factors = b.build_node("lu", std::vector<Value>{a});
  const int64_t rank = right.rank();
  Axes dims = range(0, rank - 1);
  const Value order = b.broadcast(factors.result(1), right.dims(), dims);
  const Value rows =
      b.build("take_along", {right, order}, {{"dim", rank - 2}, {"mode", "in_bounds"}});
  const Value half = b.build("triangular_solve", {factors.result(0), rows}, {{"unit", 1}});
  return b.build("triangular_solve", {factors.result(0), half}, {{"upper", 1}});
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
      .decompose<decompose_solve>();
  return draft;
}
constexpr OpDraft inv() {
  OpDraft draft = matrix_op("inv", "The inverse of square matrices.", kComposite);
  draft.doc("A singular matrix gives infinities or NaN.")
      .result("x", "same type as a")
      .constraint("C1", kSquareText, "inv(f32[2, 3])")
      .example("inv(f32[2, 2] [[0, 2], [4, 0]]) -> f32[2, 2] [[0, 0.25], [0.5, 0]]")
      .infer<infer_inv>()
      .decompose<decompose_inv>();
  return draft;
}
constexpr OpDraft det() {
  OpDraft draft = matrix_op("det", "The determinant of square matrices.", kComposite);
  draft.result("y", "element type of a, its batch dims")
      .constraint("C1", kSquareText, "det(f32[2, 3])")
      .example("det(f32[2, 2] [[1, 2], [3, 4]]) -> f32[] -2")
      .infer<infer_det>()
      .decompose<decompose_det>();
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
      .decompose<decompose_slogdet>();
  return draft;
}

TENON_OPS(linalg_solve, solve, inv, det, slogdet)

}  // namespace tenon::ops::linalg::solve_op
