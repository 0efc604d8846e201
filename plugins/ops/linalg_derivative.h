// Shared by the derivatives of linear algebra: products and triangles of matrices, the last two
// dims.
#ifndef TENON_PLUGINS_OPS_LINALG_DERIVATIVE_H_
#define TENON_PLUGINS_OPS_LINALG_DERIVATIVE_H_

#include "derivative.h"

namespace tenon::ops::linalg {

inline Value product(Builder& b, Value x, Value y) {
  const auto batch = range(0, x.rank() - 2);
  return b.build("dot_general", {x, y},
                 {{"a_batch", batch},
                  {"b_batch", batch},
                  {"a_contract", {int64_t{x.rank()} - 1}},
                  {"b_contract", {int64_t{x.rank()} - 2}}});
}
inline Value flipped(Builder& b, Value x) {
  Axes perm = range(0, x.rank());
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return permute(b, x, perm);
}
inline Value adjoint(Builder& b, Value x) {
  return conjugate(b, flipped(b, x));
}
// x with 0 above, or with `upper` below, a diagonal.
inline Value triangle(Builder& b, Value x, bool upper, int64_t diagonal = 0) {
  return b.build("tril_triu", {x}, {{"upper", int64_t{upper}}, {"diagonal", diagonal}});
}
inline Value below(Builder& b, Value x) {
  return triangle(b, x, false, -1);
}
inline Value solved_triangle(Builder& b, Value a, Value right, bool upper, bool unit = false,
                             std::string_view form = "plain") {
  return b.build("triangular_solve", {a, right},
                 {{"upper", int64_t{upper}}, {"unit", int64_t{unit}}, {"form", form}});
}
// x u^-1, u upper triangular.
inline Value divided_by(Builder& b, Value x, Value u) {
  return flipped(b, solved_triangle(b, u, flipped(b, x), true, false, "transposed"));
}
// The index of the row or the column, with the dims of x.
inline Value index_in(Builder& b, Value x, bool column) {
  const int64_t dim = int64_t{x.rank()} - (column ? 1 : 2);
  return b.build("iota", {}, {{"shape", x.dims()}, {"dim", dim}});
}
inline Value on_diagonal(Builder& b, Value x) {
  return equal(b, index_in(b, x, false), index_in(b, x, true));
}
inline Value where(Builder& b, Value condition, Value x, Value y) {
  return b.build("select", {condition, x, y});
}
// A complex number without its imaginary part, or without its real part; real ones are all real.
inline Value real_of(Builder& b, Value x) {
  return is_complex(x.dtype()) ? b.convert(b.build("real", {x}), x.dtype()) : x;
}
inline Value imaginary_of(Builder& b, Value x) {
  return minus(b, x, real_of(b, x));
}
inline Value only_diagonal(Builder& b, Value x) {
  return where(b, on_diagonal(b, x), x, b.full_like(x, 0));
}
// The symmetric or Hermitian matrix of which one triangle is read, and of the diagonal the real
// part.
inline Value symmetric(Builder& b, Value x, bool upper) {
  const Value other = adjoint(b, triangle(b, x, upper, upper ? 1 : -1));
  if (!is_complex(x.dtype())) return plus(b, triangle(b, x, upper), other);
  const Value own = triangle(b, x, upper, upper ? 1 : -1);
  return plus(b, plus(b, own, only_diagonal(b, real_of(b, x))), other);
}
inline Value diagonal_of(Builder& b, Value x) {
  return b.build("diagonal", {x},
                 {{"dim1", int64_t{x.rank()} - 2}, {"dim2", int64_t{x.rank()} - 1}});
}
// Vectors as the rows of matrices like x, all equal; or as columns.
inline Value as_rows(Builder& b, Value v, Value x) {
  return b.broadcast(v, x.dims(), others(x.rank(), Axes{int64_t{x.rank()} - 2}));
}
inline Value as_columns(Builder& b, Value v, Value x) {
  return b.broadcast(v, x.dims(), range(0, int64_t{x.rank()} - 1));
}
// The first rows and columns, or zeros after them: [..., rows, columns].
inline Value resized(Builder& b, Value x, Dim rows, Dim columns) {
  Dims limit = x.dims(), start(x.rank(), b.dim(0));
  const size_t rank = limit.size();
  const auto fits = [](Dim small, Dim large) {
    return compare(TENON_REL_LE, small, large) == TENON_YES;
  };
  if (fits(rows, limit[rank - 2])) limit[rank - 2] = rows;
  if (fits(columns, limit[rank - 1])) limit[rank - 1] = columns;
  if (limit != x.dims()) x = b.build("slice", {x}, {{"start", start}, {"limit", limit}});
  limit[rank - 2] = rows;
  limit[rank - 1] = columns;
  return placed(b, x, start, limit);
}

}  // namespace tenon::ops::linalg

#endif
