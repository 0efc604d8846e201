// cholesky, triangular_solve, lu, qr: factors of matrices, and systems of triangular ones.
#include "flag.h"
#include "linalg.h"

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
      .reference<reference_cholesky>();
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
      .reference<reference_solve>();
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
      .reference<reference_lu>();
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
      .reference<reference_qr>();
  return draft;
}

TENON_OPS(linalg_factor, cholesky, triangular_solve, lu, qr)

}  // namespace factor
}  // namespace tenon::ops::linalg
