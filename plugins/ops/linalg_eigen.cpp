// eigh, svd, eig: eigenvalues, eigenvectors and singular values.
#include <algorithm>

#include "flag.h"
#include "linalg.h"
#include "linalg_derivative.h"

namespace tenon::ops::linalg::eigen {

constexpr int kSweepsMax = 60;
constexpr double kSmall = 1e-15;  // relative: rotations below it change nothing

// The rotation of two columns or rows p and q that makes [[a, b], [conj b, d]] diagonal: p becomes
// c p - s conj(phase) q, q becomes s phase p + c q.
struct Rotation {
  double c = 1, s = 0;
  Number phase = 1;
};
Rotation rotation_of(double a, Number b, double d) {
  const double size = std::abs(b);
  const double theta = (d - a) / (2 * size);
  const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1);
  return {c, t * c, b / size};
}
void rotate_columns(Matrix& a, int64_t p, int64_t q, const Rotation& r) {
  for (int64_t i = 0; i < a.rows; ++i) {
    const Number x = a(i, p), y = a(i, q);
    a(i, p) = r.c * x - r.s * std::conj(r.phase) * y;
    a(i, q) = r.s * r.phase * x + r.c * y;
  }
}
void rotate_rows(Matrix& a, int64_t p, int64_t q, const Rotation& r) {
  for (int64_t j = 0; j < a.columns; ++j) {
    const Number x = a(p, j), y = a(q, j);
    a(p, j) = r.c * x - r.s * r.phase * y;
    a(q, j) = r.s * std::conj(r.phase) * x + r.c * y;
  }
}
std::vector<int64_t> order_of(const std::vector<double>& values, bool descending) {
  std::vector<int64_t> order = range(0, static_cast<int64_t>(values.size()));
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double x = values[static_cast<size_t>(i)], y = values[static_cast<size_t>(j)];
    if (x < y || y < x) return descending ? x > y : x < y;
    return i < j;
  });
  return order;
}
Matrix columns_in(const Matrix& a, const std::vector<int64_t>& order) {
  Matrix out(a.rows, static_cast<int64_t>(order.size()));
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < out.columns; ++j) out(i, j) = a(i, order[static_cast<size_t>(j)]);
  }
  return out;
}
template <class T>
std::vector<T> in_order(const std::vector<T>& values, const std::vector<int64_t>& order) {
  std::vector<T> out;
  for (int64_t i : order) out.push_back(values[static_cast<size_t>(i)]);
  return out;
}
bool is_finite(const Matrix& a) {
  return std::all_of(a.values.begin(), a.values.end(),
                     [](Number v) { return std::isfinite(v.real()) && std::isfinite(v.imag()); });
}
double size_of(const Matrix& a) {
  double sum = 0;
  for (Number v : a.values) sum += square(v);
  return std::sqrt(sum);
}
void fill_nan(Matrix& a) {
  for (Number& v : a.values) v = std::numeric_limits<double>::quiet_NaN();
}

// ---- eigh: Jacobi's rotations ----

struct Eigen {
  std::vector<double> values;
  Matrix vectors;
};
Eigen eigh_of(Matrix a) {
  const int64_t n = a.rows;
  Matrix v = identity(n);
  const double least = size_of(a) * kSmall / std::max<double>(1, static_cast<double>(n));
  bool changed = is_finite(a);
  if (!changed) fill_nan(a), fill_nan(v);
  for (int sweep = 0; sweep < kSweepsMax && changed; ++sweep) {
    changed = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (std::abs(a(p, q)) <= least) continue;
        changed = true;
        const Rotation r = rotation_of(a(p, p).real(), a(p, q), a(q, q).real());
        rotate_columns(a, p, q, r);
        rotate_rows(a, p, q, r);
        a(p, q) = a(q, p) = 0;
        rotate_columns(v, p, q, r);
      }
    }
  }
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(a(i, i).real());
  const auto order = order_of(values, false);
  return {in_order(values, order), columns_in(v, order)};
}
Status infer_eigh(const InferQuery& q) {
  TENON_TRY(require_square(q, "C1"));
  TENON_TRY(q.result(real_type(q.dtype(0)), with_dims(batch_of(q), {rows_of(q)})));
  return q.result(q.dtype(0), q.dims(0));
}
Status reference_eigh(const Eval& e) {
  const bool upper = e.i64("upper") != 0;
  return each_matrix(e, [&](const Index& at) -> Status {
    Matrix a = read_matrix(e.input(0), at);
    for (int64_t i = 0; i < a.rows; ++i) {
      a(i, i) = a(i, i).real();
      for (int64_t j = 0; j < i; ++j) {
        if (upper) a(i, j) = std::conj(a(j, i));
        a(j, i) = std::conj(a(i, j));
      }
    }
    const Eigen found = eigh_of(std::move(a));
    write_vector(e.output(0), at, found.values);
    write_matrix(e.output(1), at, found.vectors);
    return {};
  });
}

// ---- svd: rotations that make the columns orthogonal ----

struct Svd {
  Matrix u, v;  // v: columns, not yet conjugated and transposed
  std::vector<double> values;
};
// Of a with at least as many rows as columns; u has a's shape.
Svd svd_of_tall(Matrix a) {
  Matrix v = identity(a.columns);
  bool changed = is_finite(a);
  if (!changed) fill_nan(a), fill_nan(v);
  for (int sweep = 0; sweep < kSweepsMax && changed; ++sweep) {
    changed = false;
    for (int64_t p = 0; p < a.columns; ++p) {
      for (int64_t q = p + 1; q < a.columns; ++q) {
        double x = 0, y = 0;
        Number cross = 0;
        for (int64_t i = 0; i < a.rows; ++i) {
          x += square(a(i, p)), y += square(a(i, q));
          cross += std::conj(a(i, p)) * a(i, q);
        }
        if (std::abs(cross) <= kSmall * std::sqrt(x * y)) continue;
        changed = true;
        const Rotation r = rotation_of(x, cross, y);
        rotate_columns(a, p, q, r);
        rotate_columns(v, p, q, r);
      }
    }
  }
  std::vector<double> values;
  for (int64_t j = 0; j < a.columns; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < a.rows; ++i) sum += square(a(i, j));
    values.push_back(std::sqrt(sum));
  }
  const auto order = order_of(values, true);
  return {columns_in(a, order), columns_in(v, order), in_order(values, order)};
}
// Divides the columns of u by their lengths, and completes those without one, and those beyond the
// given ones, to an orthonormal base of `count` columns.
Matrix orthonormal(const Matrix& u, const std::vector<double>& lengths, int64_t count) {
  Matrix out(u.rows, count);
  const double least = lengths.empty() ? 0 : lengths[0] * kSmall * static_cast<double>(u.rows);
  int64_t next = 0;  // the unit vector that is tried next
  for (int64_t j = 0; j < count; ++j) {
    const bool given = j < u.columns && !(lengths[static_cast<size_t>(j)] <= least);
    while (given || next < u.rows) {
      for (int64_t i = 0; i < u.rows; ++i) {
        out(i, j) =
            given ? u(i, j) / lengths[static_cast<size_t>(j)] : Number(i == next ? 1.0 : 0.0);
      }
      if (given) break;
      ++next;
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t k = 0; k < j; ++k) {
          Number along = 0;
          for (int64_t i = 0; i < u.rows; ++i) along += std::conj(out(i, k)) * out(i, j);
          for (int64_t i = 0; i < u.rows; ++i) out(i, j) -= along * out(i, k);
        }
      }
      double length = 0;
      for (int64_t i = 0; i < u.rows; ++i) length += square(out(i, j));
      length = std::sqrt(length);
      // One of the unit vectors has twice this length outside of the base.
      if (length * std::sqrt(static_cast<double>(u.rows)) < 0.5) continue;
      for (int64_t i = 0; i < u.rows; ++i) out(i, j) /= length;
      break;
    }
  }
  return out;
}
Status infer_svd(const InferQuery& q) {
  const Dim m = rows_of(q), n = columns_of(q), k = min(m, n);
  const bool full = q.i64("full") != 0;
  TENON_TRY(q.result(q.dtype(0), with_dims(batch_of(q), {m, full ? m : k})));
  TENON_TRY(q.result(real_type(q.dtype(0)), with_dims(batch_of(q), {k})));
  return q.result(q.dtype(0), with_dims(batch_of(q), {full ? n : k, n}));
}
Status reference_svd(const Eval& e) {
  const bool full = e.i64("full") != 0;
  return each_matrix(e, [&](const Index& at) -> Status {
    const Matrix a = read_matrix(e.input(0), at);
    const bool wide = a.rows < a.columns;
    const Svd found = svd_of_tall(wide ? adjoint(a) : a);
    const int64_t large = std::max(a.rows, a.columns), k = std::min(a.rows, a.columns);
    const Matrix tall = orthonormal(found.u, found.values, full ? large : k);
    write_matrix(e.output(0), at, wide ? found.v : tall);
    write_vector(e.output(1), at, found.values);
    write_matrix(e.output(2), at, adjoint(wide ? tall : found.v));
    return {};
  });
}

// ---- eig: QR iterations with shifts ----

// The eigenvalue of the last 2 by 2 block that is nearer to its last element.
Number shift_of(const Matrix& t, int64_t last) {
  const Number a = t(last - 1, last - 1), b = t(last - 1, last), c = t(last, last - 1),
               d = t(last, last);
  const Number half = (a + d) * 0.5, root = std::sqrt((a - d) * (a - d) * 0.25 + b * c);
  return std::abs(half + root - d) < std::abs(half - root - d) ? half + root : half - root;
}
// Makes t upper triangular by rotations of rows and columns, which z collects: a = z t z*. False if
// it does not converge.
bool to_schur(Matrix& t, Matrix& z) {
  const int64_t n = t.rows;
  const double scale = size_of(t);
  // First, zeros below the first subdiagonal.
  const auto rotate = [&](int64_t i, int64_t j, Number x, Number y, int64_t from) {
    const double length = std::hypot(std::abs(x), std::abs(y));
    if (length == 0) return;
    const Number c = x / length, s = y / length;
    for (int64_t k = from; k < n; ++k) {
      const Number p = t(i, k), q = t(j, k);
      t(i, k) = std::conj(c) * p + std::conj(s) * q;
      t(j, k) = -s * p + c * q;
    }
    for (int64_t k = 0; k < n; ++k) {
      Number p = t(k, i), q = t(k, j);
      t(k, i) = c * p + s * q, t(k, j) = -std::conj(s) * p + std::conj(c) * q;
      p = z(k, i), q = z(k, j);
      z(k, i) = c * p + s * q, z(k, j) = -std::conj(s) * p + std::conj(c) * q;
    }
  };
  for (int64_t k = 0; k + 2 < n; ++k) {
    for (int64_t i = n - 1; i > k + 1; --i) {
      if (t(i, k) == 0.0) continue;
      rotate(i - 1, i, t(i - 1, k), t(i, k), 0);
      t(i, k) = 0;
    }
  }
  int tries = 0;
  for (int64_t last = n - 1; last > 0;) {
    int64_t first = last;
    while (first > 0) {
      const double around = std::abs(t(first, first)) + std::abs(t(first - 1, first - 1));
      const double below = std::abs(t(first, first - 1));
      if (below <= kSmall * (around > 0 ? around : scale)) break;
      --first;
    }
    if (first > 0) t(first, first - 1) = 0;
    if (first == last) {
      --last;
      tries = 0;
      continue;
    }
    if (++tries > 30 * kSweepsMax) return false;
    // An exceptional shift ends cycles.
    const Number shift =
        tries % 12 == 0 ? t(last, last) + std::abs(t(last, last - 1)) : shift_of(t, last);
    Number x = t(first, first) - shift, y = t(first + 1, first);
    for (int64_t k = first; k < last; ++k) {
      rotate(k, k + 1, x, y, 0);
      if (k > first) t(k + 1, k - 1) = 0;
      if (k + 1 < last) x = t(k + 1, k), y = t(k + 2, k);
    }
  }
  return true;
}
// The eigenvectors of an upper triangular matrix, times z, of length 1.
Matrix vectors_of(const Matrix& t, const Matrix& z) {
  const int64_t n = t.rows;
  const double least = std::max(size_of(t) * kSmall, std::numeric_limits<double>::min());
  Matrix out(n, n);
  for (int64_t k = 0; k < n; ++k) {
    std::vector<Number> x(static_cast<size_t>(n));
    x[static_cast<size_t>(k)] = 1;
    for (int64_t i = k - 1; i >= 0; --i) {
      Number sum = 0;
      for (int64_t j = i + 1; j <= k; ++j) sum += t(i, j) * x[static_cast<size_t>(j)];
      Number gap = t(k, k) - t(i, i);
      if (std::abs(gap) < least) gap = least;
      x[static_cast<size_t>(i)] = sum / gap;
    }
    double length = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= k; ++j) out(i, k) += z(i, j) * x[static_cast<size_t>(j)];
      length += square(out(i, k));
    }
    for (int64_t i = 0; i < n; ++i) out(i, k) /= std::sqrt(length);
  }
  return out;
}
Status infer_eig(const InferQuery& q) {
  TENON_TRY(require_square(q, "C1"));
  const tenon_dtype_t type = is_complex(q.dtype(0)) ? q.dtype(0) : complex_of(q.dtype(0));
  TENON_TRY(q.result(type, with_dims(batch_of(q), {rows_of(q)})));
  return q.result(type, q.dims(0));
}
Status reference_eig(const Eval& e) {
  return each_matrix(e, [&](const Index& at) -> Status {
    Matrix t = read_matrix(e.input(0), at), z = identity(t.rows), vectors = z;
    if (is_finite(t) && to_schur(t, z)) {
      vectors = vectors_of(t, z);
    } else {
      fill_nan(t), fill_nan(vectors);
    }
    std::vector<Number> values;
    for (int64_t i = 0; i < t.rows; ++i) values.push_back(t(i, i));
    write_vector(e.output(0), at, values);
    write_matrix(e.output(1), at, vectors);
    return {};
  });
}

// ---- Derivatives ----

// 1 / (v_j - v_i) in row i and column j, 0 on the diagonal, in the type of v and the shape of
// `shape`. Equal values give infinities, and a derivative that uses their vectors NaN: these are
// free.
Value inverse_gaps(Builder& b, Value v, Value shape) {
  const Value like = b.full(v.dtype(), shape.dims(), 1);
  const Value diagonal = on_diagonal(b, like), ones = b.full_like(like, 1);
  const Value gaps = minus(b, as_rows(b, v, like), as_columns(b, v, like));
  const Value inverse = b.build("div", {ones, where(b, diagonal, ones, gaps)});
  return where(b, diagonal, b.full_like(like, 0), inverse);
}
// A matrix of factors for each element of x. The factors may be infinite: parts are multiplied.
Value weighted(Builder& b, Value factors, Value x) {
  if (factors.dtype() == x.dtype()) return times(b, factors, x);
  return b.build("complex", {times(b, factors, b.build("real", {x})),
                             times(b, factors, b.build("imag", {x}))});
}
Value real_diagonal(Builder& b, Value x) {
  const Value diagonal = diagonal_of(b, x);
  return is_complex(x.dtype()) ? b.build("real", {diagonal}) : diagonal;
}
// With s = v^H a' v: w' is the diagonal of s, v' = v (s_ij / (w_j - w_i)).
std::vector<Value> jvp_eigh(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value w = node.result(0), v = node.result(1);
  const Value t = symmetric(b, tangents[0], node.i64("upper") != 0);
  const Value s = product(b, product(b, adjoint(b, v), t), v);
  return {real_diagonal(b, s), product(b, v, weighted(b, inverse_gaps(b, w, s), s))};
}

// The part of a' that leaves the columns of u: (a' v - u (u^H a' v)) / s.
Value leaving(Builder& b, Value moves, Value u, Value s) {
  const Value inside = product(b, u, product(b, adjoint(b, u), moves));
  return b.build("div", {minus(b, moves, inside), as_rows(b, s, moves)});
}
// With d = u^H a' v: s' is the real part of its diagonal; u' = u (f (d s + s d^H)), v' = v (f (s d
// + d^H s)), f the inverse gaps of s squared; and what leaves the columns of u or v, if these are
// not all. The imaginary part of the diagonal turns u, over s.
std::vector<Value> jvp_svd(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value t = tangents[0], u = node.result(0), real_s = node.result(1);
  const Value s = b.convert(real_s, t.dtype()), v = adjoint(b, node.result(2));
  const Dim m = t.dim(t.rank() - 2), n = t.dim(t.rank() - 1);
  const bool is_tall = compare(TENON_REL_LE, m, n) != TENON_YES;
  const bool is_wide = compare(TENON_REL_LE, n, m) != TENON_YES;
  if (node.i64("full") != 0 && (is_tall || is_wide)) {
    b.note(fail(TENON_UNIMPLEMENTED,
                "T0410: svd has no derivative: with full, columns of u and v beyond the smaller "
                "extent of a are not determined; leave full out"));
    return {};
  }
  const Value moves = product(b, t, v), d = product(b, adjoint(b, u), moves);
  const Value f = inverse_gaps(b, times(b, real_s, real_s), d);
  const Value right = times(b, d, as_rows(b, s, d)), left = times(b, d, as_columns(b, s, d));
  Value turn = weighted(b, f, plus(b, right, adjoint(b, right)));
  if (is_complex(d.dtype())) {
    const Value around = only_diagonal(b, imaginary_of(b, d));
    turn = plus(b, turn, b.build("div", {around, as_rows(b, s, d)}));
  }
  Value du = product(b, u, turn);
  Value dv = product(b, v, weighted(b, f, plus(b, left, adjoint(b, left))));
  if (is_tall) du = plus(b, du, leaving(b, moves, u, s));
  if (is_wide) dv = plus(b, dv, leaving(b, product(b, adjoint(b, t), u), v, s));
  return {du, real_diagonal(b, d), adjoint(b, dv)};
}

// With p = v^-1 a' v: w' is its diagonal, v' = v (p_ij / (w_j - w_i)), without what would stretch
// v.
std::vector<Value> jvp_eig(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value w = node.result(0), v = node.result(1), t = b.convert(tangents[0], v.dtype());
  const Value p = b.build("solve", {v, product(b, t, v)});
  const Value moves = product(b, v, times(b, inverse_gaps(b, w, p), p));
  const Value stretch = real_of(b, diagonal_of(b, product(b, adjoint(b, v), moves)));
  return {diagonal_of(b, p), minus(b, moves, times(b, v, as_rows(b, stretch, v)))};
}

// ---- Declarations ----

constexpr OpDraft eigh() {
  OpDraft draft =
      matrix_op("eigh", "Eigenvalues and eigenvectors of symmetric or Hermitian a.", kPrimitive);
  draft
      .doc(
          "Only one triangle of a is read. a v = v diag(w). Each eigenvector may have any factor "
          "of "
          "magnitude 1. Matrices that are not finite give NaN.")
      .traits(TENON_TRAIT_AMBIGUOUS)
      .result("w", "real [..., n], increasing")
      .result("v", "type of a: the eigenvectors are its columns, of length 1")
      .attr(flag("upper", "1: the upper triangle is read, 0: the lower one", 0))
      .constraint("C1", kSquareText, "eigh(f32[2, 3])")
      .example("eigh(f32[2, 2] [[1, 0], [0, 2]]) -> f32[2] [1, 2], f32[2, 2] [[1, 0], [0, 1]]")
      .infer<infer_eigh>()
      .reference<reference_eigh>()
      .jvp<jvp_eigh>()
      .batched({0});
  return draft;
}
constexpr OpDraft svd() {
  OpDraft draft = matrix_op(
      "svd", "a = u diag(s) vh, with orthonormal columns of u and rows of vh.", kPrimitive);
  draft
      .doc(
          "A column of u and its row of vh may have any factor of magnitude 1. Matrices that are "
          "not "
          "finite give NaN.")
      .traits(TENON_TRAIT_AMBIGUOUS)
      .result("u", "[..., rows, k], k the smaller extent of a, or square if full")
      .result("s", "real [..., k], decreasing, at least 0")
      .result("vh", "[..., k, columns], or square if full")
      .attr(flag("full", "1: u and vh are square", 0))
      .example("svd(f32[1, 2] [[0, 5]]) -> f32[1, 1] [[1]], f32[1] [5], f32[1, 2] [[0, 1]]")
      .infer<infer_svd>()
      .reference<reference_svd>()
      .jvp<jvp_svd>()
      .batched({0});
  return draft;
}
constexpr OpDraft eig() {
  OpDraft draft = matrix_op("eig", "Eigenvalues and eigenvectors of any square a.", kPrimitive);
  draft
      .doc(
          "a v = v diag(w). The order of the eigenvalues is not defined, and each "
          "eigenvector may have any factor of magnitude 1. Matrices that are not "
          "finite give NaN.")
      .traits(TENON_TRAIT_AMBIGUOUS)
      .result("w", "complex [..., n]")
      .result("v", "complex: the eigenvectors are its columns, of length 1")
      .constraint("C1", kSquareText, "eig(f32[2, 3])")
      .example("eig(f32[1, 1] [[3]]) -> c64[1] [(3, 0)], c64[1, 1] [[(1, 0)]]")
      .infer<infer_eig>()
      .reference<reference_eig>()
      .jvp<jvp_eig>()
      .batched({0});
  return draft;
}

TENON_OPS(linalg_eigen, eigh, svd, eig)

}  // namespace tenon::ops::linalg::eigen
