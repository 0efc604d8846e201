// cumsum, cumprod, cummax, cummin: running reductions along a dim.
#include "complex_math.h"
#include "derivative.h"
#include "flag.h"

namespace tenon::ops::cumulative {

enum class Kind { kSum, kProd, kMax, kMin };

Status infer(const InferQuery& q) {
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), q.rank(0)));
  return q.result(q.dtype(0), q.dims(0));
}
Status infer_acc(const InferQuery& q) {
  TENON_TRY(require_acc(q, "C2"));
  return infer(q);
}

template <Kind kKind, class Number>
Number step(Number a, Number b) {
  if constexpr (kKind == Kind::kSum) return a + b;
  if constexpr (kKind == Kind::kProd) return a * b;
  if constexpr (kKind == Kind::kMax) return max_of(a, b);
  return min_of(a, b);
}

template <Kind kKind>
Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const auto dim = static_cast<size_t>(e.i64("dim"));
  const bool reverse = e.i64("reverse") != 0, exclusive = e.i64("exclusive") != 0;
  return with_number(x.dtype(), [&]<class Found>(Found) -> Status {
    constexpr bool kWraps =
        std::is_same_v<Found, int64_t> && (kKind == Kind::kSum || kKind == Kind::kProd);
    using Number = std::conditional_t<kWraps, uint64_t, Found>;
    const Number neutral = kKind == Kind::kSum    ? Number{0}
                           : kKind == Kind::kProd ? Number{1}
                           : kKind == Kind::kMax  ? lowest_of<Number>(x.dtype())
                                                  : highest_of<Number>(x.dtype());
    std::vector<Number> values = x.read<Number>();
    const auto strides = strides_of(x.dims());
    Axes lines(x.dims().begin(), x.dims().end());
    const int64_t length = lines[dim];
    if (length == 0) return {};
    lines[dim] = 1;
    each_index(lines, [&](const Index& i) {
      const int64_t base = offset_of(i, strides);
      Number running = neutral;
      for (int64_t k = 0; k < length; ++k) {
        Number& at =
            values[static_cast<size_t>(base + (reverse ? length - 1 - k : k) * strides[dim])];
        const Number next = step<kKind, Number>(running, at);
        at = exclusive ? running : next;
        running = next;
      }
    });
    y.write(values);
    return {};
  });
}

// Products of 2, 4, 8... neighbours: each number is multiplied with the product that ends that far
// before it. A dim of unknown extent has a polar form instead: products of lengths, sums of turns.
Complex running_product(Builder& b, Complex z, int64_t dim) {
  const Dims shape = z.re.dims();
  const int64_t n = z.re.dim(dim).constant();
  for (int64_t distance = 1; distance < n; distance *= 2) {
    Axes low(shape.size(), 0), high(shape.size(), 0);
    low[static_cast<size_t>(dim)] = distance;
    high[static_cast<size_t>(dim)] = -distance;
    const auto moved = [&](Term x, double border) -> Term {
      return {b, b.build("pad", {x, b.scalar(x.dtype(), border)}, {{"low", low}, {"high", high}})};
    };
    z = z * Complex{moved(z.re, 1), moved(z.im, 0)};
  }
  return z;
}
Complex polar_running_product(Builder& b, const Complex& z, int64_t dim) {
  const Term length = {b, b.build("cumprod", {magnitude(z)}, {{"dim", dim}})};
  return from_polar(length, {b, b.build("cumsum", {turns(z)}, {{"dim", dim}})});
}
Status decompose_product(Builder& b, const Node& node, tenon_value_t* out) {
  Complex z = parts_of(b, node.operand(0));
  const int64_t dim = node.i64("dim");
  const bool reverse = node.i64("reverse") != 0, exclusive = node.i64("exclusive") != 0;
  const auto turned = [&](Term x) -> Term {
    return reverse ? Term{b, b.build("reverse", {x}, {{"dims", {dim}}})} : x;
  };
  z = {turned(z.re), turned(z.im)};
  if (exclusive) {
    Axes low(static_cast<size_t>(z.re.rank()), 0), high = low;
    low[static_cast<size_t>(dim)] = 1;
    high[static_cast<size_t>(dim)] = -1;
    const auto moved = [&](Term x, double border) -> Term {
      return {b, b.build("pad", {x, b.scalar(x.dtype(), border)}, {{"low", low}, {"high", high}})};
    };
    z = {moved(z.re, 1), moved(z.im, 0)};
  }
  const Complex y =
      z.re.dim(dim).is_constant() ? running_product(b, z, dim) : polar_running_product(b, z, dim);
  return b.finish(out, {joined(b, {turned(y.re), turned(y.im)})});
}

// ---- Derivatives ----

// Each element goes to all results that it is part of: a running sum the other way round.
Value transpose_sum(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  return b.build("cumsum", {cotangents[0]},
                 {{"dim", node.i64("dim")},
                  {"reverse", int64_t{1} - node.i64("reverse")},
                  {"exclusive", node.i64("exclusive")},
                  {"acc", dtype(node.dtype("acc"))}});
}
// Products p and their tangents t over 1, 2, 4... elements up to each one: of two neighbours
// (t1 p2 + p1 t2, p1 p2). Nothing is divided, because of zeros.
std::vector<Value> jvp_product(Builder& b, const Node& node, std::span<const Value> tangents) {
  const int64_t dim = node.i64("dim");
  const bool reverse = node.i64("reverse") != 0;
  Value p = widen(b, node.operand(0)), t = widen(b, tangents[0]);
  if (reverse) p = backwards(b, p, dim), t = backwards(b, t, dim);
  if (node.i64("exclusive") != 0) p = moved(b, p, dim, 1, 1), t = moved(b, t, dim, 1, 0);
  for (const int64_t distance : doublings(p.dim(static_cast<uint32_t>(dim)))) {
    const Value before = moved(b, p, dim, distance, 1);
    t = plus(b, times(b, moved(b, t, dim, distance, 0), p), times(b, before, t));
    p = times(b, before, p);
  }
  return {b.convert(reverse ? backwards(b, t, dim) : t, tangents[0].dtype())};
}
// The tangent of the last element so far that is the largest or smallest, or NaN.
std::vector<Value> jvp_extreme(Builder& b, const Node& node, std::span<const Value> tangents) {
  const int64_t dim = node.i64("dim");
  const bool reverse = node.i64("reverse") != 0;
  const auto turned = [&](Value v) { return reverse ? backwards(b, v, dim) : v; };
  const Value x = turned(node.operand(0)), t = turned(tangents[0]);
  const Value found = equal(b, x, b.build(node.op(), {x}, {{"dim", dim}}));
  const Value nan = b.build("compare", {x, x}, {{"direction", TENON_CMP_NE}});
  const Value index = b.build("iota", {}, {{"shape", x.dims()}, {"dim", dim}});
  const Value held = kept(b, b.build("or", {found, nan}), index);
  const Value last = b.build("cummax", {held}, {{"dim", dim}});
  const Value out = b.build("take_along", {t, last}, {{"dim", dim}, {"mode", "in_bounds"}});
  return {turned(node.i64("exclusive") != 0 ? moved(b, out, dim, 1, 0) : out)};
}

template <Kind kKind>
constexpr uint32_t kTypes =
    kKind == Kind::kSum || kKind == Kind::kProd ? kNumber | kComplex : kNumber;

template <Kind kKind>
constexpr OpDraft base(std::string_view name, std::string_view summary, std::string_view example,
                       std::string_view negative) {
  OpDraft draft = op(name, kPrimitive);
  draft.summary(summary)
      .operand("x", "the input", kTypes<kKind>, 0, 1)
      .result("y", "same type as x")
      .attr_i64("dim", "the dim along which it runs", 0)
      .role(TENON_ROLE_AXIS)
      .batched({0})
      .attr(flag("reverse", "1: from the end", 0))
      .attr(flag("exclusive", "1: without the element itself", 0))
      .constraint("C1", "dim is a dim of x", negative)
      .example(example)
      .template reference<reference<kKind>>()
      .cost(TENON_COST_REDUCTION);
  if (kKind == Kind::kSum || kKind == Kind::kProd) {
    draft.attr_dtype("acc", kAccText).infer<infer_acc>();
  } else {
    draft.infer<infer>().template jvp<jvp_extreme>();
  }
  return draft;
}

constexpr OpDraft cumsum() {
  return base<Kind::kSum>("cumsum", "The running sum.",
                          "cumsum(f32[3] [1, 2, 3]) {dim = 0} -> f32[3] [1, 3, 6]",
                          "cumsum(f32[3]) {dim = 1}")
      .linear({0})
      .transposed<transpose_sum>()
      .constraint("C2", kAccRule, "cumsum(f32[3]) {dim = 0, acc = i32}")
      .decompose_complex<by_parts>()
      .example(
          "cumsum(f32[3] [1, 2, 3]) {dim = 0, reverse = 1, exclusive = 1} -> f32[3] [5, 3, 0]");
}
constexpr OpDraft cumprod() {
  return base<Kind::kProd>("cumprod", "The running product.",
                           "cumprod(i32[3] [2, 3, 4]) {dim = 0} -> i32[3] [2, 6, 24]",
                           "cumprod(f32[3]) {dim = 1}")
      .jvp<jvp_product>()
      .constraint("C2", kAccRule, "cumprod(i32[3]) {dim = 0, acc = f32}")
      .decompose_complex<decompose_product>();
}
constexpr OpDraft cummax() {
  return base<Kind::kMax>("cummax", "The largest so far; NaN stays.",
                          "cummax(f32[3] [1, 3, 2]) {dim = 0} -> f32[3] [1, 3, 3]",
                          "cummax(f32[3]) {dim = 1}");
}
constexpr OpDraft cummin() {
  return base<Kind::kMin>("cummin", "The smallest so far; NaN stays.",
                          "cummin(f32[3] [2, 3, 1]) {dim = 0} -> f32[3] [2, 2, 1]",
                          "cummin(f32[3]) {dim = 1}");
}

TENON_OPS(cumulative, cumsum, cumprod, cummax, cummin)

}  // namespace tenon::ops::cumulative
