// Scalar formulas beyond math.cpp: cbrt, fmax, fmin, fma, threshold, swiglu, next_after; and glu.
#include "compose.h"

namespace tenon::ops::math_more {

using scalar::Expr;

// A power, made exact to the last bits by one step of Newton's rule. a / (y y) and not y y y: the
// cube of the root of a large or tiny number would leave the normal ones.
constexpr Expr cube_root() {
  const Expr x = arg(0), a = abs(x);
  const Expr y = pow(a, 1.0 / 3.0);
  const Expr better = y - (y - a / (y * y)) * (1.0 / 3.0);
  const Expr plain =
      scalar::select((a == 0) | (a == std::numeric_limits<double>::infinity()), a, better);
  return scalar::select(x < 0, -plain, scalar::select(a == 0, x, plain));
}

constexpr OpDraft cbrt() {
  OpDraft draft = op("cbrt", kCompositeElementwise);
  draft.summary("The cube root, also of negative numbers.")
      .operand("x", "the input", kFloat)
      .result("y", "same type as x")
      .example("cbrt(f32[3] [-8, 0, 27]) -> f32[3] [-2, 0, 3]")
      .infer<infer_same>()
      .scalar(cube_root())
      .decompose_scalar()
      .cost(TENON_COST_TRANSCENDENTAL)
      .accuracy(1, 1)
      .tolerance(4);
  return draft;
}
constexpr OpDraft two(std::string_view name, std::string_view summary, std::string_view negative,
                      std::string_view example) {
  OpDraft draft = op(name, kCompositeElementwise);
  draft.summary(summary)
      .operand("x", "the first operand", kFloat, 1)
      .operand("y", "the second operand, same type as x", kFloat, 1)
      .result("z", "same type as x")
      .constraint("C1", "x and y have equal shapes", negative)
      .example(example)
      .infer<infer_elementwise>()
      .decompose_scalar();
  return draft;
}
constexpr OpDraft fmax() {
  return two("fmax", "The larger one; NaN only where both are.", "fmax(f32[2], f32[3])",
             "fmax(f32[3] [1, nan, 2], f32[3] [nan, nan, 3]) -> f32[3] [1, nan, 3]")
      .scalar(scalar::select(is_nan(arg(0)), arg(1),
                             scalar::select(is_nan(arg(1)), arg(0), max(arg(0), arg(1)))))
      .accuracy(0.5, 0.5);
}
constexpr OpDraft fmin() {
  return two("fmin", "The smaller one; NaN only where both are.", "fmin(f32[2], f32[3])",
             "fmin(f32[3] [1, nan, 2], f32[3] [nan, nan, 3]) -> f32[3] [1, nan, 2]")
      .scalar(scalar::select(is_nan(arg(0)), arg(1),
                             scalar::select(is_nan(arg(1)), arg(0), min(arg(0), arg(1)))))
      .accuracy(0.5, 0.5);
}
constexpr OpDraft swiglu() {
  return two("swiglu", "silu(x) y: a gate of a transformer's inner layer.",
             "swiglu(f32[2], f32[3])",
             "swiglu(f32[2] [0, 1], f32[2] [5, 2]) -> f32[2] [0, 1.4621172]")
      .scalar(arg(0) * logistic(arg(0)) * arg(1))
      .cost(TENON_COST_TRANSCENDENTAL)
      .accuracy(4, 4, TENON_ULP_OF_OPERANDS)
      .tolerance(4);
}
constexpr OpDraft fma() {
  OpDraft draft = op("fma", kCompositeElementwise);
  draft.summary("x y + z.")
      .doc("An implementation may round once or twice.")
      .operand("x", "a factor", kNumber, 1)
      .operand("y", "a factor, same type as x", kNumber, 1)
      .operand("z", "what is added, same type as x", kNumber, 1)
      .result("r", "same type as x")
      .constraint("C1", "x, y and z have equal shapes", "fma(f32[2], f32[2], f32[3])")
      .example("fma(f32[2] [2, 3], f32[2] [4, 5], f32[2] [1, -1]) -> f32[2] [9, 14]")
      .infer<infer_elementwise>()
      .scalar(arg(0) * arg(1) + arg(2))
      .decompose_scalar()
      .tolerance(2);
  return draft;
}
constexpr OpDraft threshold() {
  OpDraft draft = op("threshold", kCompositeElementwise);
  draft.summary("x where it is above a threshold, else a given value; NaN stays.")
      .operand("x", "the input", kFloat)
      .result("y", "same type as x")
      .attr_f64("threshold", "what x has to exceed", 0)
      .attr_f64("value", "what is given instead", 0)
      .example("threshold(f32[3] [1, 2, 3]) {threshold = 2.0, value = 9.0} -> f32[3] [9, 9, 3]")
      .infer<infer_same>()
      .scalar(scalar::select(arg(0) <= attr(0), attr(1), arg(0)))
      .decompose_scalar()
      .accuracy(0.5, 0.5);
  return draft;
}

// ---- next_after ----

Status infer_next(const InferQuery& q) {
  return infer_elementwise(q);
}
Status reference_next(const Eval& e) {
  const Array x = e.input(0), y = e.input(1), z = e.output();
  each_index(x.dims(), [&](const Index& i) {
    const double a = load_double(x.dtype(), x.at(i)), c = load_double(y.dtype(), y.at(i));
    if (x.dtype() == TENON_F32) {
      store_as(z.at(i), std::nextafter(static_cast<float>(a), static_cast<float>(c)));
    } else {
      store_double(z.dtype(), z.at(i), std::nextafter(a, c));
    }
  });
  return {};
}
// Neighbours of one sign are neighbours as integers.
Status decompose_next(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)}, y = {b, node.operand(1)};
  const tenon_dtype_t type = x.dtype(), bits = type == TENON_F32 ? TENON_I32 : TENON_I64;
  const auto pattern = [&](Term v, tenon_dtype_t to) {
    return Term{b, b.build("bitcast", {v.v}, {{"dtype", dtype(to)}})};
  };
  const Term p = pattern(x, bits);
  const Term one = p.same(1);
  const Term away =
      compare(x, TENON_CMP_LT, y) ^ compare(x, TENON_CMP_LT, 0);  // grows in magnitude
  const Term step = pattern(where(away, p + one, p - one), type);
  // The smallest number, with the sign of y.
  const Term least = pattern(
      where(compare(y, TENON_CMP_LT, 0),
            one | Term{b, b.splat(b.scalar_int(bits, type == TENON_F32 ? INT32_MIN : INT64_MIN),
                                  x.dims())},
            one),
      type);
  Term z = where(compare(x, TENON_CMP_EQ, 0), least, step);
  z = where(compare(x, TENON_CMP_EQ, y), y, z);
  return b.finish(out, {where(apply("is_nan", x) | apply("is_nan", y), x + y, z)});
}
constexpr OpDraft next_after() {
  OpDraft draft = op("next_after", kComposite);
  draft.summary("The next number after x in the direction of y; y where they are equal.")
      .operand("x", "where it starts", 1u << TENON_F32 | 1u << TENON_F64, 1)
      .operand("y", "the direction, same type as x", 1u << TENON_F32 | 1u << TENON_F64, 1)
      .result("z", "same type as x")
      .constraint("C1", "x and y have equal shapes", "next_after(f32[2], f32[3])")
      .example("next_after(f32[2] [1, 1], f32[2] [2, 0]) -> f32[2] [1.0000001, 0.99999994]")
      .infer<infer_next>()
      .reference<reference_next>()
      .decompose<decompose_next>();
  return draft;
}

// ---- glu ----

Status infer_glu(const InferQuery& q) {
  const int64_t dim = q.i64("dim");
  TENON_TRY(require_dim(q, "C1", dim, q.rank(0)));
  Dims dims = q.dims(0);
  Dim& halved = dims[static_cast<size_t>(dim)];
  TENON_TRY(q.require("C2", TENON_REL_DIVISIBLE, halved, q.constant(2), "the extent of dim and 2"));
  halved = halved / q.constant(2);
  return q.result(q.dtype(0), dims);
}
Status decompose_glu(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)};
  const int64_t dim = node.i64("dim");
  const Dim half = node.result().dim(static_cast<uint32_t>(dim)), whole = x.dim(dim);
  return b.finish(out, {cut(x, dim, b.dim(0), half) * apply("logistic", cut(x, dim, half, whole))});
}
constexpr OpDraft glu() {
  OpDraft draft = op("glu", kComposite);
  draft.summary("The first half of a dim times logistic of the second half.")
      .operand("x", "the input", kFloat, 0, 1)
      .result("y", "element type of x, dim halved")
      .attr_i64("dim", "the dim that is halved", 0)
      .constraint("C1", "dim is a dim of x", "glu(f32[2]) {dim = 1}")
      .constraint("C2", "the extent of dim is even", "glu(f32[3])")
      .example("glu(f32[2] [4, 0]) -> f32[1] [2]")
      .infer<infer_glu>()
      .decompose<decompose_glu>()
      .cost(TENON_COST_TRANSCENDENTAL)
      .tolerance(4);
  return draft;
}

TENON_OPS(math_more, cbrt, fmax, fmin, swiglu, fma, threshold, next_after, glu)

}  // namespace tenon::ops::math_more
