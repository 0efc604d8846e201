// Matrices of the references of linear algebra: complex numbers in double precision, whatever the
// element type. Plain loops; the last two dims are the matrix, all dims before them a batch.
#ifndef TENON_PLUGINS_OPS_LINALG_H_
#define TENON_PLUGINS_OPS_LINALG_H_

#include <complex>

#include "common.h"

namespace tenon::ops::linalg {

inline constexpr tenon_dtypes_t kTypes = dtype_bit(TENON_F32) | dtype_bit(TENON_F64) | kComplex;

using Number = std::complex<double>;

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<Number> values;

  Matrix() = default;
  Matrix(int64_t m, int64_t n)
      : rows(m), columns(n), values(static_cast<size_t>(m) * static_cast<size_t>(n)) {}
  Number& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  const Number& operator()(int64_t i, int64_t j) const {
    return values[static_cast<size_t>(i * columns + j)];
  }
};

inline Matrix identity(int64_t n) {
  Matrix out(n, n);
  for (int64_t i = 0; i < n; ++i) out(i, i) = 1;
  return out;
}
// The conjugate transpose.
inline Matrix adjoint(const Matrix& a) {
  Matrix out(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) out(j, i) = std::conj(a(i, j));
  }
  return out;
}
inline double square(Number z) {
  return std::norm(z);
}

// ---- Arrays ----

inline Number load_number(tenon_dtype_t dtype, const std::byte* at) {
  if (!is_complex(dtype)) return load_double(dtype, at);
  const tenon_dtype_t part = part_of(dtype);
  return {load_double(part, at), load_double(part, at + dtype_bytes(part))};
}
inline void store_number(tenon_dtype_t dtype, std::byte* at, Number v) {
  if (!is_complex(dtype)) return store_double(dtype, at, v.real());
  const tenon_dtype_t part = part_of(dtype);
  store_double(part, at, v.real());
  store_double(part, at + dtype_bytes(part), v.imag());
}
inline Matrix read_matrix(const Array& x, Index at) {
  const size_t rank = x.rank();
  Matrix out(x.dim(rank - 2), x.dim(rank - 1));
  at.resize(rank);
  for (at[rank - 2] = 0; at[rank - 2] < out.rows; ++at[rank - 2]) {
    for (at[rank - 1] = 0; at[rank - 1] < out.columns; ++at[rank - 1])
      out(at[rank - 2], at[rank - 1]) = load_number(x.dtype(), x.at(at));
  }
  return out;
}
inline void write_matrix(const Array& y, Index at, const Matrix& a) {
  const size_t rank = y.rank();
  at.resize(rank);
  for (at[rank - 2] = 0; at[rank - 2] < a.rows; ++at[rank - 2]) {
    for (at[rank - 1] = 0; at[rank - 1] < a.columns; ++at[rank - 1])
      store_number(y.dtype(), y.at(at), a(at[rank - 2], at[rank - 1]));
  }
}
template <class T>
void write_vector(const Array& y, Index at, const std::vector<T>& values) {
  at.push_back(0);
  for (const T& v : values) {
    if constexpr (std::is_integral_v<T>) {
      store_int(y.dtype(), y.at(at), v);
    } else {
      store_number(y.dtype(), y.at(at), v);
    }
    ++at.back();
  }
}
// Calls body(index) for every matrix of the batch of operand 0, until one fails.
template <class Body>
Status each_matrix(const Eval& e, Body&& body) {
  Status status;
  each_index(e.input(0).dims().first(e.input(0).rank() - 2), [&](const Index& at) {
    if (!status.ok()) return;
    status = e.cancelled() ? Status(TENON_CANCELLED) : body(at);
  });
  return status;
}

// ---- Inference ----

inline Dims batch_of(const InferQuery& q, uint32_t operand = 0) {
  Dims dims = q.dims(operand);
  dims.resize(dims.size() - 2);
  return dims;
}
inline Dims with_dims(Dims batch, std::initializer_list<Dim> more) {
  batch.insert(batch.end(), more.begin(), more.end());
  return batch;
}
inline Dim rows_of(const InferQuery& q, uint32_t operand = 0) {
  return q.dim(operand, q.rank(operand) - 2);
}
inline Dim columns_of(const InferQuery& q, uint32_t operand = 0) {
  return q.dim(operand, q.rank(operand) - 1);
}
inline Status require_square(const InferQuery& q, std::string_view label) {
  return q.require_equal(label, rows_of(q), columns_of(q), "the rows and columns of a");
}
inline tenon_dtype_t real_type(tenon_dtype_t dtype) {
  return is_complex(dtype) ? part_of(dtype) : dtype;
}
constexpr std::string_view kSquareText = "the matrices are square";

// The result of systems a x = b.
inline Status infer_solve(const InferQuery& q) {
  TENON_TRY(require_square(q, "C1"));
  if (q.rank(0) != q.rank(1))
    return q.fail("C2", cat("a has rank ", q.rank(0), ", b has rank ", q.rank(1)));
  for (uint32_t i = 0; i + 2 < q.rank(0); ++i)
    TENON_TRY(q.require_equal("C2", q.dim(0, i), q.dim(1, i), cat("dim ", i, " of a and b")));
  TENON_TRY(q.require_equal("C2", columns_of(q), rows_of(q, 1), "the columns of a and rows of b"));
  return q.result(q.dtype(0), q.dims(1));
}

// What all declarations share.
constexpr OpDraft matrix_op(std::string_view name, std::string_view summary, uint64_t traits) {
  OpDraft draft = op(name, traits);
  draft.summary(summary)
      .operand("a", "matrices [..., rows, columns]", kTypes, 1, 2)
      .cost(TENON_COST_CONTRACTION)
      .traits(TENON_TRAIT_NO_RECOMPUTE)
      .tolerance(100);
  return draft;
}

// ---- Algorithms that several ops use ----

// Householder's reflections: a becomes R; the result is the whole Q.
Matrix reflect(Matrix& a);

}  // namespace tenon::ops::linalg

#endif
