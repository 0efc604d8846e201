// cholesky, triangular_solve, lu, qr: factors of matrices, and systems of triangular ones.
#include "flag.h"
#include "linalg.h"
#include "linalg_derivative.h"

namespace tenon::ops::linalg {

// As LAPACK: the diagonal of R is real, with the sign opposite to that of the column's first
// element.
Matrix reflect(Matrix& a) {
  Matrix q = identity(a.rows);
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < a.rows; ++i) below += square(a(i, k));
    const Number alpha = a(k, k);
    if (below == 0 && alpha.imag() == 0) continue;
    const double length = std::sqrt(below + square(alpha));
    const double beta = alpha.real() > 0 ? -length : length;
    const Number tau = (beta - alpha) / beta, scale = 1.0 / (alpha - beta);
    std::vector<Number> v(static_cast<size_t>(a.rows));
    v[static_cast<size_t>(k)] = 1;
    for (int64_t i = k + 1; i < a.rows; ++i) v[static_cast<size_t>(i)] = a(i, k) * scale;
    for (int64_t j = k; j < a.columns; ++j) {  // (I - conj(tau) v v*) a
      Number sum = 0;
      for (int64_t i = k; i < a.rows; ++i) sum += std::conj(v[static_cast<size_t>(i)]) * a(i, j);
      for (int64_t i = k; i < a.rows; ++i)
        a(i, j) -= std::conj(tau) * v[static_cast<size_t>(i)] * sum;
    }
    for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) = 0;
    a(k, k) = beta;
    for (int64_t i = 0; i < a.rows; ++i) {  // q (I - tau v v*)
      Number sum = 0;
      for (int64_t j = k; j < a.rows; ++j) sum += q(i, j) * v[static_cast<size_t>(j)];
      for (int64_t j = k; j < a.rows; ++j)
        q(i, j) -= tau * sum * std::conj(v[static_cast<size_t>(j)]);
    }
  }
  return q;
}

namespace factor {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ---- cholesky ----

Status infer_cholesky(const InferQuery& q) {
  TENON_TRY(require_square(q, "C1"));
  return q.result(q.dtype(0), q.dims(0));
}
// NaN from the row on whose pivot is the first that is not positive.
Matrix cholesky_of(const Matrix& a) {
  Matrix l(a.rows, a.columns);
  for (int64_t j = 0; j < a.rows; ++j) {
    double pivot = a(j, j).real();
    for (int64_t k = 0; k < j; ++k) pivot -= square(l(j, k));
    if (!(pivot > 0)) {
      for (int64_t i = j; i < a.rows; ++i) {
        for (int64_t k = 0; k <= i; ++k) l(i, k) = kNan;
      }
      return l;
    }
    const double root = std::sqrt(pivot);
    l(j, j) = root;
    for (int64_t i = j + 1; i < a.rows; ++i) {
      Number sum = a(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= l(i, k) * std::conj(l(j, k));
      l(i, j) = sum / root;
    }
  }
  return l;
}
Status reference_cholesky(const Eval& e) {
  const bool upper = e.i64("upper") != 0;
  return each_matrix(e, [&](const Index& at) -> Status {
    const Matrix a = read_matrix(e.input(0), at);
    const Matrix l = cholesky_of(upper ? adjoint(a) : a);
    write_matrix(e.output(), at, upper ? adjoint(l) : l);
    return {};
  });
}

// ---- triangular_solve ----

Status reference_solve(const Eval& e) {
  const std::string_view form = e.text("form");
  const bool unit = e.i64("unit") != 0;
  return each_matrix(e, [&](const Index& at) -> Status {
    Matrix a = read_matrix(e.input(0), at), b = read_matrix(e.input(1), at);
    bool upper = e.i64("upper") != 0;
    if (form != "plain") {
      a = adjoint(a);
      upper = !upper;
      if (form == "transposed") {
        for (Number& v : a.values) v = std::conj(v);
      }
    }
    for (int64_t step = 0; step < a.rows; ++step) {
      const int64_t i = upper ? a.rows - 1 - step : step;
      const int64_t begin = upper ? i + 1 : 0, end = upper ? a.rows : i;
      for (int64_t c = 0; c < b.columns; ++c) {
        for (int64_t k = begin; k < end; ++k) b(i, c) -= a(i, k) * b(k, c);
        if (!unit) b(i, c) /= a(i, i);
      }
    }
    write_matrix(e.output(), at, b);
    return {};
  });
}

// ---- lu ----

Status infer_lu(const InferQuery& q) {
  TENON_TRY(q.result(q.dtype(0), q.dims(0)));
  TENON_TRY(q.result(TENON_I64, with_dims(batch_of(q), {rows_of(q)})));
  return q.result(TENON_I32, batch_of(q));
}
Status reference_lu(const Eval& e) {
  return each_matrix(e, [&](const Index& at) -> Status {
    Matrix a = read_matrix(e.input(0), at);
    std::vector<int64_t> order = range(0, a.rows);
    int32_t sign = 1;
    for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
      int64_t pivot = k;
      for (int64_t i = k + 1; i < a.rows; ++i) {
        if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
      }
      if (pivot != k) {
        sign = -sign;
        std::swap(order[static_cast<size_t>(k)], order[static_cast<size_t>(pivot)]);
        for (int64_t j = 0; j < a.columns; ++j) std::swap(a(k, j), a(pivot, j));
      }
      if (a(k, k) == 0.0) continue;
      for (int64_t i = k + 1; i < a.rows; ++i) {
        a(i, k) /= a(k, k);
        for (int64_t j = k + 1; j < a.columns; ++j) a(i, j) -= a(i, k) * a(k, j);
      }
    }
    write_matrix(e.output(0), at, a);
    write_vector(e.output(1), at, order);
    store_int(TENON_I32, e.output(2).at(at), sign);
    return {};
  });
}

// ---- qr ----

Status infer_qr(const InferQuery& q) {
  const Dim m = rows_of(q), n = columns_of(q), k = q.i64("complete") != 0 ? m : min(m, n);
  TENON_TRY(q.result(q.dtype(0), with_dims(batch_of(q), {m, k})));
  return q.result(q.dtype(0), with_dims(batch_of(q), {k, n}));
}
Status reference_qr(const Eval& e) {
  return each_matrix(e, [&](const Index& at) -> Status {
    Matrix r = read_matrix(e.input(0), at);
    const Matrix q = reflect(r);
    const int64_t k = e.i64("complete") != 0 ? r.rows : std::min(r.rows, r.columns);
    Matrix q_cut(r.rows, k), r_cut(k, r.columns);
    for (int64_t i = 0; i < r.rows; ++i) {
      for (int64_t j = 0; j < k; ++j) q_cut(i, j) = q(i, j);
    }
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < r.columns; ++j) r_cut(i, j) = r(i, j);
    }
    write_matrix(e.output(0), at, q_cut);
    write_matrix(e.output(1), at, r_cut);
    return {};
  });
}

// ---- Derivatives ----

// Of a = L L^H: L' = L phi(L^-1 a' L^-H), phi: the lower triangle with half of the diagonal.
std::vector<Value> jvp_cholesky(Builder& b, const Node& node, std::span<const Value> tangents) {
  const bool upper = node.i64("upper") != 0;
  const Value l = upper ? adjoint(b, node.result()) : node.result();
  const Value half = solved_triangle(b, l, symmetric(b, tangents[0], upper), false);
  const Value whole = solved_triangle(b, l, adjoint(b, half), false);
  const Value halves = times(b, whole, b.full_like(whole, 0.5));
  const Value phi = triangle(b, where(b, on_diagonal(b, whole), halves, whole), false);
  const Value out = product(b, l, phi);
  return {upper ? adjoint(b, out) : out};
}

// The triangle of a that is read.
Value read_part(Builder& b, const Node& node, Value a) {
  const bool upper = node.i64("upper") != 0, unit = node.i64("unit") != 0;
  return triangle(b, a, upper, !unit ? 0 : upper ? 1 : -1);
}
// a as it is solved with.
Value formed(Builder& b, Value a, std::string_view form) {
  return form == "plain" ? a : form == "adjoint" ? adjoint(b, a) : flipped(b, a);
}
// x' = a^-1 (b' - a' x)
std::vector<Value> jvp_solve(Builder& b, const Node& node, std::span<const Value> tangents) {
  const std::string form(node.text("form"));
  Value right = tangents[1];
  if (tangents[0].valid()) {
    const Value t = read_part(b, node, tangents[0]);
    const Value moves = product(b, formed(b, t, form), node.result());
    right = right.valid() ? minus(b, right, moves) : b.build("neg", {moves});
  }
  return {solved_triangle(b, node.operand(0), right, node.i64("upper") != 0, node.i64("unit") != 0,
                          form)};
}
// Of b: a^-H g. Of a: -(a^-H g) x^H, in the form of a.
std::vector<Value> pull_solve(Builder& b, const Node& node, std::span<const uint8_t> wanted,
                              std::span<const Value> cotangents) {
  const std::string form(node.text("form"));
  const bool plain = form == "plain", turned = form == "transposed";
  const Value g = turned ? conjugate(b, cotangents[0]) : cotangents[0];
  const Value solved = solved_triangle(b, node.operand(0), g, node.i64("upper") != 0,
                                       node.i64("unit") != 0, plain ? "adjoint" : "plain");
  const Value right = turned ? conjugate(b, solved) : solved;
  if (wanted[0] == 0) return {Value(), right};
  const Value of_form = product(b, right, adjoint(b, node.result()));
  return {b.build("neg", {read_part(b, node, formed(b, of_form, form))}), right};
}

// Of P a = L U, with m = L^-1 P a' U^-1: L' is L times the part of m below the diagonal, U' the
// other part times U. Where a is not square, L and U are made square with the unit matrix.
std::vector<Value> jvp_lu(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value packed = node.result(0), t = tangents[0];
  const Dim m = t.dim(t.rank() - 2), n = t.dim(t.rank() - 1);
  const Value low = resized(b, packed, m, m), high = resized(b, packed, n, n);
  const Value l = where(b, on_diagonal(b, low), b.full_like(low, 1), below(b, low));
  const Value rows = b.build("dim_size", {packed}, {{"dim", int64_t{t.rank()} - 2}});
  const Value last = b.splat(rows, high.dims());
  const Value is_new =
      b.build("compare", {index_in(b, high, false), last}, {{"direction", TENON_CMP_GE}});
  const Value added = b.build("and", {is_new, on_diagonal(b, high)});
  const Value u = where(b, added, b.full_like(high, 1), triangle(b, high, true));
  const Value order = b.broadcast(node.result(1), t.dims(), range(0, int64_t{t.rank()} - 1));
  const Value in_order =
      b.build("take_along", {t, order}, {{"dim", int64_t{t.rank()} - 2}, {"mode", "in_bounds"}});
  const Value inner = divided_by(b, solved_triangle(b, l, in_order, false, true), u);
  return {plus(b, product(b, l, below(b, inner)), product(b, triangle(b, inner, true), u))};
}

// With s = q^H a' r^-1: q' = q (w - s) + a' r^-1, w anti-Hermitian and equal to s below the
// diagonal, and in the imaginary part of that, as the diagonal of r stays real; r' = q^H a' + q'^H
// a. Of a wide matrix q comes from its first columns.
std::vector<Value> jvp_qr(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value a = node.operand(0), t = tangents[0], q = node.result(0), r = node.result(1);
  const Dim m = a.dim(a.rank() - 2), n = a.dim(a.rank() - 1), k = q.dim(q.rank() - 1);
  if (node.i64("complete") != 0 && compare(TENON_REL_LE, m, n) != TENON_YES) {
    b.note(fail(TENON_UNIMPLEMENTED,
                "T0410: qr has no derivative: with complete, columns of q beyond those of a are "
                "not determined; leave complete out"));
    return {};
  }
  const auto first = [&](Value v, Dim rows) {
    Dims limit = v.dims();
    limit[limit.size() - 2] = rows;
    limit[limit.size() - 1] = k;
    if (limit == v.dims()) return v;
    return b.build("slice", {v}, {{"start", Dims(v.rank(), b.dim(0))}, {"limit", limit}});
  };
  const Value part = divided_by(b, first(t, m), first(r, k));
  const Value s = product(b, adjoint(b, q), part);
  const Value under = below(b, s);
  Value w = minus(b, under, adjoint(b, under));
  if (is_complex(s.dtype())) w = plus(b, w, only_diagonal(b, imaginary_of(b, s)));
  const Value dq = plus(b, product(b, q, minus(b, w, s)), part);
  const Value dr = plus(b, product(b, adjoint(b, q), t), product(b, adjoint(b, dq), a));
  return {dq, triangle(b, dr, true)};
}

// ---- Declarations ----

constexpr OpDraft cholesky() {
  OpDraft draft = matrix_op(
      "cholesky", "The triangular factor L of a = L L*, with a positive diagonal.", kPrimitive);
  draft
      .doc(
          "Only one triangle of a is read: the lower one, or with upper the other one, which gives "
          "U of a = U* U. The other triangle of the result is 0. Where a matrix is not positive "
          "definite, the result is NaN from the first row on whose pivot is "
          "not positive.")
      .result("l", "same type as a")
      .attr(flag("upper", "1: the upper factor, from the upper triangle", 0))
      .constraint("C1", kSquareText, "cholesky(f32[2, 3])")
      .example("cholesky(f32[2, 2] [[4, 9], [2, 10]]) -> f32[2, 2] [[2, 0], [1, 3]]")
      .infer<infer_cholesky>()
      .reference<reference_cholesky>()
      .jvp<jvp_cholesky>()
      .batched({0});
  return draft;
}
constexpr OpDraft triangular_solve() {
  OpDraft draft =
      matrix_op("triangular_solve", "x with a x = b, for triangular matrices a.", kPrimitive);
  draft.doc("The other triangle of a is not read. A 0 on the diagonal gives infinities or NaN.")
      .traits(TENON_TRAIT_AMBIGUOUS)
      .operand("b", "right sides [..., rows, any], same batch and element type as a", kTypes, 1, 2)
      .result("x", "same type as b")
      .attr(flag("upper", "1: a is upper triangular", 0))
      .attr(flag("unit", "1: the diagonal of a counts as ones and is not read", 0))
      .attr_string("form", "what is solved with: a, its transpose, or its conjugate transpose",
                   "plain", "plain|transposed|adjoint")
      .constraint("C1", kSquareText, "triangular_solve(f32[2, 3], f32[2, 1])")
      .constraint("C2", "b has the batch dims of a, and as many rows as a has columns",
                  "triangular_solve(f32[2, 2], f32[3, 1])")
      .example(
          "triangular_solve(f32[2, 2] [[2, 0], [1, 4]], f32[2, 1] [[2], [9]]) -> f32[2, 1] "
          "[[1], [2]]")
      .infer<infer_solve>()
      .reference<reference_solve>()
      .jvp<jvp_solve>()
      .pull<pull_solve>()
      .batched({0, 1});
  return draft;
}
constexpr OpDraft lu() {
  OpDraft draft =
      matrix_op("lu", "Triangular factors of a with its rows in another order.", kPrimitive);
  draft
      .doc(
          "Row i of L U is row order[i] of a. L has ones on its diagonal, which are not stored. In "
          "each column the largest number in magnitude becomes the pivot, any of them if several "
          "are.")
      .traits(TENON_TRAIT_AMBIGUOUS)
      .result("lu", "type of a: U, and below its diagonal L")
      .result("order", "i64 [..., rows]")
      .result("sign", "i32 [...]: 1 for an even number of exchanges, -1 for an odd one")
      .example(
          "lu(f32[2, 2] [[1, 2], [4, 4]]) -> f32[2, 2] [[4, 4], [0.25, 1]], i64[2] [1, 0], "
          "i32[] -1")
      .infer<infer_lu>()
      .reference<reference_lu>()
      .jvp<jvp_lu>()
      .batched({0});
  return draft;
}
constexpr OpDraft qr() {
  OpDraft draft =
      matrix_op("qr", "a = q r, q with orthonormal columns and r upper triangular.", kPrimitive);
  draft
      .doc(
          "The diagonal of r is real, with the signs that Householder's reflections give it. Where "
          "columns of a depend on those before them, columns of q are free.")
      .traits(TENON_TRAIT_AMBIGUOUS)
      .result("q", "[..., rows, k], k the smaller extent of a, or its rows if complete")
      .result("r", "[..., k, columns]")
      .attr(flag("complete", "1: q is square", 0))
      .example("qr(f32[2, 1] [[3], [4]]) -> f32[2, 1] [[-0.6], [-0.8]], f32[1, 1] [[-5]]")
      .infer<infer_qr>()
      .reference<reference_qr>()
      .jvp<jvp_qr>()
      .batched({0});
  return draft;
}

TENON_OPS(linalg_factor, cholesky, triangular_solve, lu, qr)

}  // namespace factor
}  // namespace tenon::ops::linalg
