// Reductions: sum, prod, max, min, and, or over some dims, which the result drops.
#include "complex_math.h"
#include "derivative.h"

namespace tenon::ops::reduce_op {

enum class Kind { kSum, kProd, kMax, kMin, kAnd, kOr };

Status infer(const InferQuery& q) {
  TENON_TRY(q.require_axes("C1", q.i64s("dims"), q.rank(0)));
  return q.result(q.dtype(0), without(q.dims(0), q.i64s("dims")));
}
Status infer_acc(const InferQuery& q) {
  TENON_TRY(require_acc(q, "C2"));
  return infer(q);
}

template <Kind kKind, class Number>
Number neutral(tenon_dtype_t dtype) {
  if (kKind == Kind::kProd) return 1;
  if (kKind == Kind::kMax) return lowest_of<Number>(dtype);
  if (kKind == Kind::kMin) return highest_of<Number>(dtype);
  if (kKind == Kind::kAnd) return static_cast<Number>(dtype == TENON_PRED ? 1 : -1);
  return 0;
}
template <Kind kKind, class Number>
Number step(Number a, Number b) {
  if constexpr (kKind == Kind::kSum) return a + b;
  if constexpr (kKind == Kind::kProd) return a * b;
  if constexpr (kKind == Kind::kMax) return max_of(a, b);
  if constexpr (kKind == Kind::kMin) return min_of(a, b);
  if constexpr (!std::is_same_v<Number, double>) {
    if constexpr (kKind == Kind::kAnd) return a & b;
    if constexpr (kKind == Kind::kOr) return a | b;
  }
  return a;
}

template <Kind kKind>
Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const Axes kept = others(x.rank(), e.i64s("dims"));
  // Signed sums wrap, so they are computed as unsigned numbers.
  return with_number(x.dtype(), [&]<class Found>(Found) -> Status {
    constexpr bool kWraps =
        std::is_same_v<Found, int64_t> && (kKind == Kind::kSum || kKind == Kind::kProd);
    using Number = std::conditional_t<kWraps, uint64_t, Found>;
    std::vector<Number> sums(static_cast<size_t>(y.count()), neutral<kKind, Number>(x.dtype()));
    const auto strides = strides_of(y.dims());
    const std::vector<Number> values = x.read<Number>();
    size_t k = 0;
    each_index(x.dims(), [&](const Index& i) {
      int64_t to = 0;
      for (size_t d = 0; d < kept.size(); ++d) to += i[static_cast<size_t>(kept[d])] * strides[d];
      Number& sum = sums[static_cast<size_t>(to)];
      sum = step<kKind, Number>(sum, values[k++]);
    });
    y.write(sums);
    return {};
  });
}

// Shape arithmetic: reductions of sizes, such as the number of elements of a shape.
template <Kind kKind>
Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  const auto x = known(q, 0);
  if (!x || q.i64s("dims").size() != x->dims.size()) return TENON_NOT_FOUND;
  Dim total = q.constant(kKind == Kind::kProd ? 1 : 0);
  for (size_t i = 0; i < x->values.size(); ++i) {
    const Dim d = x->values[i];
    if (kKind == Kind::kSum) total = total + d;
    if (kKind == Kind::kProd) total = total * d;
    if (kKind == Kind::kMax) total = i == 0 ? d : max(total, d);
    if (kKind == Kind::kMin) total = i == 0 ? d : min(total, d);
  }
  if (x->values.empty() && (kKind == Kind::kMax || kKind == Kind::kMin)) return TENON_NOT_FOUND;
  return answer_in(q.dtype(0), {&total, 1}, out);
}

// A reduction over no dims, or over dims of extent 1, combines nothing.
Value fold(Builder& b, const Node& node) {
  const Value x = node.operand(0);
  for (int64_t axis : node.i64s("dims")) {
    if (!x.dim(static_cast<uint32_t>(axis)).is(1)) return {};
  }
  return node.i64s("dims").empty() ? x : b.build("reshape", {x}, {{"shape", node.result().dims()}});
}

// The product of complex numbers along one dim of constant extent: halves are multiplied until one
// number is left.
Complex product_along(Builder& b, Complex z, int64_t dim) {
  for (int64_t n = z.re.dim(dim).constant(); n > 1; n = (n + 1) / 2) {
    const int64_t half = n / 2;
    const auto piece = [&](Term x, int64_t from, int64_t to) {
      return cut(x, dim, b.dim(from), b.dim(to));
    };
    const Complex low = {piece(z.re, 0, half), piece(z.im, 0, half)};
    const Complex high = {piece(z.re, half, 2 * half), piece(z.im, half, 2 * half)};
    const Complex product = low * high;
    if (n % 2 == 0) {
      z = product;
      continue;
    }
    z = {concat(b, {product.re, piece(z.re, n - 1, n)}, dim),
         concat(b, {product.im, piece(z.im, n - 1, n)}, dim)};
  }
  return z;
}
// Where an extent is not known, lengths are multiplied and turns added.
Complex polar_product(Builder& b, const Complex& z, const Axes& dims) {
  const Term length = {b, reduce(b, "reduce_prod", magnitude(z), dims)};
  return from_polar(length, {b, reduce(b, "reduce_sum", turns(z), dims)});
}
Status decompose_product(Builder& b, const Node& node, tenon_value_t* out) {
  Complex z = parts_of(b, node.operand(0));
  const Axes dims = node.i64s("dims");
  const Dims shape = node.result().dims();
  for (int64_t d : dims) {
    if (!z.re.dim(d).is_constant()) return b.finish(out, {joined(b, polar_product(b, z, dims))});
  }
  for (int64_t d : dims) {
    if (z.re.dim(d).constant() == 0)
      return b.finish(out, {b.full(node.result().dtype(), shape, 1)});
  }
  for (int64_t d : dims) z = product_along(b, z, d);
  return b.finish(out, {joined(b, {reshape(z.re, shape), reshape(z.im, shape)})});
}

Value transpose_sum(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  return spread(b, cotangents[0], node.operand(0), node.i64s("dims"));
}
// The elements that are the largest or smallest share the derivative.
std::vector<Value> jvp_extreme(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value x = node.operand(0);
  const Axes axes = node.i64s("dims");
  const Value chosen =
      b.build("compare", {x, spread(b, node.result(), x, axes)}, {{"direction", TENON_CMP_EQ}});
  const Value ones = b.build("select", {chosen, b.full_like(x, 1), b.full_like(x, 0)});
  const Value count = spread(b, reduce(b, "reduce_sum", ones, axes), x, axes);
  return {reduce(b, "reduce_sum", times(b, tangents[0], b.build("div", {ones, count})), axes)};
}

// The sum of each tangent times the product of all others: of those before it and those after it,
// so that zeros do no harm.
std::vector<Value> jvp_product(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Value x = node.operand(0);
  const Axes axes = node.i64s("dims");
  if (axes.empty()) return {tangents[0]};
  Axes perm = others(x.rank(), axes);
  const auto last = static_cast<int64_t>(perm.size());
  perm.insert(perm.end(), axes.begin(), axes.end());
  Dims shape = node.result().dims(), reduced;
  for (const int64_t axis : axes) reduced.push_back(x.dim(static_cast<uint32_t>(axis)));
  shape.push_back(count_of_elements(b, reduced));
  const auto flat = [&](Value v) { return reshape(b, permute(b, widen(b, v), perm), shape); };
  const auto product = [&](int64_t reverse) {
    return b.build("cumprod", {flat(x)}, {{"dim", last}, {"reverse", reverse}, {"exclusive", 1}});
  };
  const Value of_others = times(b, product(0), product(1));
  const Value sum = reduce(b, "reduce_sum", times(b, of_others, flat(tangents[0])), Axes{last});
  return {b.convert(sum, x.dtype())};
}

template <Kind kKind>
constexpr OpDraft base(std::string_view name, std::string_view summary, tenon_dtypes_t dtypes,
                       std::string_view example, std::string_view negative) {
  OpDraft draft = op(name, kPrimitive);
  draft.summary(summary)
      .operand("x", "the input", dtypes)
      .result("y", "element type of x, without dims")
      .attr_i64s("dims", "the dims that go away")
      .role(TENON_ROLE_AXES)
      .batched({0})
      .constraint("C1", "dims are distinct dims of x", negative)
      .example(example)
      .template reference<reference<kKind>>()
      .template fold<fold>()
      .cost(TENON_COST_REDUCTION);
  if constexpr (kKind == Kind::kSum || kKind == Kind::kProd) {
    draft.attr_dtype("acc", kAccText).infer<infer_acc>();
  } else {
    draft.infer<infer>();
  }
  if constexpr (kKind == Kind::kSum) draft.linear({0}).template transposed<transpose_sum>();
  if constexpr (kKind == Kind::kProd) draft.template jvp<jvp_product>();
  if constexpr (kKind == Kind::kMax || kKind == Kind::kMin) draft.template jvp<jvp_extreme>();
  if constexpr (kKind != Kind::kAnd && kKind != Kind::kOr)
    draft.template value_of<value_of<kKind>>();
  return draft;
}

constexpr OpDraft reduce_sum() {
  return base<Kind::kSum>("reduce_sum", "The sum over some dims; 0 over none.", kNumber | kComplex,
                          "reduce_sum(f32[2, 2] [[1, 2], [3, 4]]) {dims = [1]} -> f32[2] [3, 7]",
                          "reduce_sum(f32[2, 3]) {dims = [2]}")
      .constraint("C2", kAccRule, "reduce_sum(f32[2]) {dims = [0], acc = i32}")
      .example("reduce_sum(u8[2] [200, 100]) {dims = [0]} -> u8[] 44")
      .decompose_complex<by_parts>();
}
constexpr OpDraft reduce_prod() {
  return base<Kind::kProd>("reduce_prod", "The product over some dims; 1 over none.",
                           kNumber | kComplex,
                           "reduce_prod(f32[2, 2] [[1, 2], [3, 4]]) {dims = [0, 1]} -> f32[] 24",
                           "reduce_prod(f32[2, 3]) {dims = [0, 0]}")
      .constraint("C2", kAccRule, "reduce_prod(i32[2]) {dims = [0], acc = f32}")
      .decompose_complex<decompose_product>();
}
constexpr OpDraft reduce_max() {
  return base<Kind::kMax>(
      "reduce_max", "The largest element over some dims; NaN wins; -inf or the lowest over none.",
      kNumber | kPred, "reduce_max(f32[2, 2] [[1, 2], [nan, 4]]) {dims = [1]} -> f32[2] [2, nan]",
      "reduce_max(f32[2, 3]) {dims = [-1]}");
}
constexpr OpDraft reduce_min() {
  return base<Kind::kMin>(
      "reduce_min", "The smallest element over some dims; NaN wins; inf or the highest over none.",
      kNumber | kPred, "reduce_min(i32[2, 2] [[1, 2], [-3, 4]]) {dims = [0]} -> i32[2] [-3, 2]",
      "reduce_min(f32[2, 3]) {dims = [2]}");
}
constexpr OpDraft reduce_and() {
  return base<Kind::kAnd>(
      "reduce_and", "All of them: logical for pred, bitwise for integers; all ones over none.",
      kPred | kInt, "reduce_and(pred[2, 2] [[1, 1], [0, 1]]) {dims = [1]} -> pred[2] [1, 0]",
      "reduce_and(pred[2]) {dims = [1]}");
}
constexpr OpDraft reduce_or() {
  return base<Kind::kOr>("reduce_or",
                         "Any of them: logical for pred, bitwise for integers; 0 over none.",
                         kPred | kInt, "reduce_or(i8[2] [1, 4]) {dims = [0]} -> i8[] 5",
                         "reduce_or(pred[2]) {dims = [1]}");
}

TENON_OPS(reduce, reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_and, reduce_or)

}  // namespace tenon::ops::reduce_op
