// Arithmetic on values, for decompositions that are formulas. A Term is a value with its builder.
// Numbers and rank-0 values are broadcast to the other operand's shape, so a formula reads as on
// paper.
#ifndef TENON_PLUGINS_OPS_COMPOSE_H_
#define TENON_PLUGINS_OPS_COMPOSE_H_

#include <algorithm>

#include "common.h"

namespace tenon::ops {

struct Term {
  Builder* b = nullptr;
  Value v;
  Term() = default;
  Term(Builder& builder, Value value) : b(&builder), v(value) {}
  operator Value() const { return v; }
  tenon_dtype_t dtype() const { return v.dtype(); }
  Dims dims() const { return v.dims(); }
  int64_t rank() const { return v.rank(); }
  Dim dim(int64_t i) const { return v.dim(static_cast<uint32_t>(i)); }
  // The number, broadcast to this term's type.
  Term same(double number) const {
    if (is_float(dtype()) || is_complex(dtype())) return {*b, b->full_like(v, number)};
    return {*b, b->splat(b->scalar_int(dtype(), static_cast<int64_t>(number)), dims())};
  }
};

inline Term apply(std::string_view op, Term x, Term y) {
  if (x.rank() == 0 && y.rank() != 0) x.v = x.b->splat(x.v, y.dims());
  if (y.rank() == 0 && x.rank() != 0) y.v = x.b->splat(y.v, x.dims());
  return {*x.b, x.b->build(op, {x.v, y.v})};
}
inline Term apply(std::string_view op, Term x) {
  return {*x.b, x.b->build(op, {x.v})};
}
inline Term operator+(Term x, Term y) {
  return apply("add", x, y);
}
inline Term operator-(Term x, Term y) {
  return apply("sub", x, y);
}
inline Term operator*(Term x, Term y) {
  return apply("mul", x, y);
}
inline Term operator/(Term x, Term y) {
  return apply("div", x, y);
}
inline Term operator&(Term x, Term y) {
  return apply("and", x, y);
}
inline Term operator|(Term x, Term y) {
  return apply("or", x, y);
}
inline Term operator^(Term x, Term y) {
  return apply("xor", x, y);
}
inline Term operator+(Term x, double y) {
  return y == 0 ? x : x + x.same(y);
}
inline Term operator-(Term x, double y) {
  return y == 0 ? x : x - x.same(y);
}
inline Term operator*(Term x, double y) {
  return y == 1 ? x : x * x.same(y);
}
inline Term operator/(Term x, double y) {
  return y == 1 ? x : x / x.same(y);
}
inline Term operator-(double x, Term y) {
  return y.same(x) - y;
}
inline Term operator/(double x, Term y) {
  return y.same(x) / y;
}
inline Term max(Term x, Term y) {
  return apply("max", x, y);
}
inline Term min(Term x, Term y) {
  return apply("min", x, y);
}
inline Term max(Term x, double y) {
  return max(x, x.same(y));
}
inline Term min(Term x, double y) {
  return min(x, x.same(y));
}
inline Term operator-(Term x) {
  return apply("neg", x);
}
inline Term operator!(Term x) {
  return apply("not", x);
}
inline Term floor(Term x) {
  return apply("floor", x);
}
inline Term ceil(Term x) {
  return apply("ceil", x);
}
inline Term abs(Term x) {
  return apply("abs", x);
}
inline Term sqrt(Term x) {
  return apply("sqrt", x);
}
inline Term exp(Term x) {
  return apply("exp", x);
}
inline Term log(Term x) {
  return apply("log", x);
}
inline Term pow(Term x, double y) {
  return apply("pow", x, x.same(y));
}

// Gives pred. `direction` is TENON_CMP_*.
inline Term compare(Term x, int64_t direction, Term y) {
  if (x.rank() == 0 && y.rank() != 0) x.v = x.b->splat(x.v, y.dims());
  if (y.rank() == 0 && x.rank() != 0) y.v = x.b->splat(y.v, x.dims());
  return {*x.b, x.b->build("compare", {x.v, y.v}, {{"direction", direction}})};
}
inline Term compare(Term x, int64_t direction, double y) {
  return compare(x, direction, x.same(y));
}
inline Term where(Term p, Term x, Term y) {
  if (x.rank() == 0 && y.rank() != 0) x.v = x.b->splat(x.v, y.dims());
  if (y.rank() == 0 && x.rank() != 0) y.v = x.b->splat(y.v, x.dims());
  return {*p.b, p.b->build("select", {p.v, x.v, y.v})};
}
inline Term where(Term p, Term x, double y) {
  return where(p, x, x.same(y));
}
inline Term where(Term p, double x, Term y) {
  return where(p, y.same(x), y);
}
inline Term as(Term x, tenon_dtype_t to) {
  return {*x.b, x.b->convert(x.v, to)};
}

// ---- Shapes ----

inline Term iota(Builder& b, const Dims& shape, int64_t dim, tenon_dtype_t type = TENON_I64) {
  return {b, b.build("iota", {}, {{"shape", shape}, {"dim", dim}, {"dtype", dtype(type)}})};
}
inline Term constant(Builder& b, tenon_dtype_t type, double value) {
  return {b,
          is_float(type) ? b.scalar(type, value) : b.scalar_int(type, static_cast<int64_t>(value))};
}
// An extent as a rank-0 number. A symbolic one is read from the shape of a value that has it.
inline Term extent(Builder& b, Dim d, tenon_dtype_t type = TENON_I64) {
  if (d.is_constant()) return constant(b, type, static_cast<double>(d.constant()));
  const Value counted = iota(b, {d}, 0);
  return {b, b.convert(b.build("dim_size", {counted}, {{"dim", 0}}), type)};
}
inline Term reshape(Term x, const Dims& shape) {
  if (x.dims() == shape) return x;
  return {*x.b, x.b->build("reshape", {x.v}, {{"shape", shape}})};
}
inline Term transpose(Term x, const Axes& perm) {
  if (is_identity(perm)) return x;
  return {*x.b, x.b->build("transpose", {x.v}, {{"perm", perm}})};
}
inline Term broadcast(Term x, const Dims& shape, const Axes& dims) {
  return {*x.b, x.b->broadcast(x.v, shape, dims)};
}
inline Term concat(Builder& b, const std::vector<Value>& parts, int64_t dim) {
  return {b, parts.size() == 1 ? parts[0] : b.build("concat", parts, {{"dim", dim}})};
}
// [start, limit) of one dim, every stride-th.
inline Term cut(Term x, int64_t dim, Dim start, Dim limit, int64_t stride = 1) {
  Dims starts(static_cast<size_t>(x.rank()), x.b->dim(0)), limits = x.dims();
  Axes strides(static_cast<size_t>(x.rank()), 1);
  starts[static_cast<size_t>(dim)] = start;
  limits[static_cast<size_t>(dim)] = limit;
  strides[static_cast<size_t>(dim)] = stride;
  return {*x.b,
          x.b->build("slice", {x.v}, {{"start", starts}, {"limit", limits}, {"stride", strides}})};
}
// x with a new dim of extent 1.
inline Term insert_dim(Term x, int64_t at) {
  Dims shape = x.dims();
  shape.insert(shape.begin() + at, x.b->dim(1));
  return reshape(x, shape);
}
inline Term take(Term x, Term indices, int64_t dim, std::string_view mode = "clip") {
  return {*x.b, x.b->build("take", {x.v, indices.v}, {{"dim", dim}, {"mode", mode}})};
}
inline Term reduced(std::string_view op, Term x, const Axes& axes) {
  return {*x.b, reduce(*x.b, op, x.v, axes)};
}
inline Term spread(Term reduced, Term like, const Axes& axes) {
  return {*like.b, spread(*like.b, reduced.v, like.v, axes)};
}
inline Dim product(Builder& b, const Dims& dims, size_t from, size_t to) {
  Dim out = b.dim(1);
  for (size_t i = from; i < to; ++i) out = out * dims[i];
  return out;
}
// x as one dim, in row-major order.
inline Term flat(Term x) {
  const Dims d = x.dims();
  return reshape(x, {product(*x.b, d, 0, d.size())});
}
// A rank-1 constant.
inline Term numbers(Builder& b, tenon_dtype_t type, const std::vector<double>& values) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<std::byte> bytes(values.size() * dtype_bytes(type));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* at = bytes.data() + i * dtype_bytes(type);
    if (is_float(type)) {
      store_double(type, at, values[i]);
    } else {
      store_int(type, at, static_cast<int64_t>(values[i]));
    }
  }
  return {b, b.constant(type, {&count, 1}, bytes.data(), bytes.size())};
}

}  // namespace tenon::ops

#endif
