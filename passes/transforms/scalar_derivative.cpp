#include "scalar_derivative.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numbers>

#include "rules.h"

namespace tenon::passes {
namespace {

// The chain rule over the steps of one program.
class ForwardChain {
 public:
  ForwardChain(Builder& b, ScalarNodes& program, const Node& node, uint32_t operand)
      : b_(b),
        program_(program),
        node_(node),
        operand_(operand),
        is_complex_(is_complex_node(node)) {}

  Slope of(int result) {
    for (int i = 0; i <= result; ++i) slopes_.push_back(step(i));
    return slopes_[static_cast<size_t>(result)];
  }

 private:
  using Step = ScalarNodes::Step;

  Slope step(int at) {
    const Step s = program_.steps()[static_cast<size_t>(at)];
    if (s.opcode == TENON_S_ARG) return s.a == operand_ ? Slope::one() : Slope::zero();
    const Slope x = slope(s.x), y = slope(s.y), z = slope(s.z);
    if (x.is_zero() && y.is_zero() && z.is_zero()) return {};
    if (is_complex_ && !is_holomorphic(s.opcode)) return refuse(s, " of complex numbers");
    if (s.opcode == TENON_S_SELECT) return either(program_.value(s.x), y, z, at);
    if (s.opcode == TENON_S_CONVERT || s.opcode == TENON_S_CONVERT_RESULT) return convert(x, at);
    if (s.opcode >= TENON_S_ADD) return binary(s, at, x, y);
    return unary(s, at, x);
  }
  // Other instructions have no complex derivative: a comparison jumps, and abs is not holomorphic.
  static bool is_holomorphic(uint32_t opcode) {
    constexpr uint32_t kAll[] = {TENON_S_NEG,   TENON_S_SQRT, TENON_S_RSQRT, TENON_S_EXP,
                                 TENON_S_EXPM1, TENON_S_LOG,  TENON_S_LOG1P, TENON_S_SIN,
                                 TENON_S_COS,   TENON_S_TANH, TENON_S_ADD,   TENON_S_SUB,
                                 TENON_S_MUL,   TENON_S_DIV,  TENON_S_POW};
    return std::find(std::begin(kAll), std::end(kAll), opcode) != std::end(kAll);
  }
  Slope slope(int at) const { return at < 0 ? Slope() : slopes_[static_cast<size_t>(at)]; }

  // ---- Values ----
  Value number(int like, double value) {
    return b_.full(program_.value(like).dtype(), program_.dims(), value);
  }
  Value build(std::string_view op, std::initializer_list<Value> operands) {
    return b_.build(op, operands);
  }
  // The slope as a value of the type of step `like`.
  Value solid(const Slope& s, int like) {
    if (s.kind == Slope::Kind::kValue) return s.value;
    return number(like, s.is_zero() ? 0 : 1);
  }
  Slope scaled(const Slope& s, Value factor) {
    if (s.is_zero()) return {};
    return Slope::of(s.kind == Slope::Kind::kOne ? factor : build("mul", {factor, s.value}));
  }
  Slope negated(const Slope& s, int like) {
    if (s.is_zero()) return {};
    return Slope::of(s.kind == Slope::Kind::kOne ? number(like, -1) : build("neg", {s.value}));
  }
  Slope sum(const Slope& a, const Slope& b, int like) {
    if (a.is_zero()) return b;
    if (b.is_zero()) return a;
    return Slope::of(build("add", {solid(a, like), solid(b, like)}));
  }
  Slope either(Value predicate, const Slope& a, const Slope& b, int like) {
    if (a.is_zero() && b.is_zero()) return {};
    return Slope::of(build("select", {predicate, solid(a, like), solid(b, like)}));
  }
  Value compare(Value a, Value b, uint32_t direction) {
    return b_.build("compare", {a, b}, {{"direction", direction}});
  }

  // ---- Rules ----
  Slope convert(const Slope& x, int at) {
    const tenon_dtype_t to = program_.value(at).dtype();
    if (!is_float(to)) return {};
    return x.kind == Slope::Kind::kValue ? Slope::of(b_.convert(x.value, to)) : x;
  }

  Slope unary(const Step& s, int at, const Slope& dx) {
    if (s.opcode == TENON_S_NEG) return negated(dx, s.x);
    const Value factor = factor_of(s, at);
    return factor.valid() ? scaled(dx, factor) : Slope();
  }
  // The derivative of a unary instruction; invalid where it is zero.
  Value factor_of(const Step& s, int at) {
    const Value x = program_.value(s.x), r = program_.value(at);
    const auto of = [&](double n) { return number(s.x, n); };
    switch (s.opcode) {
      case TENON_S_ABS:
        return build("sign", {x});
      case TENON_S_SQRT:
        return build("div", {of(0.5), r});
      case TENON_S_RSQRT:
        return build("mul", {of(-0.5), build("div", {r, x})});
      case TENON_S_EXP:
        return r;
      case TENON_S_EXPM1:
        return build("exp", {x});
      case TENON_S_LOG:
        return build("div", {of(1), x});
      case TENON_S_LOG1P:
        return build("div", {of(1), build("add", {of(1), x})});
      case TENON_S_SIN:
        return build("cos", {x});
      case TENON_S_COS:
        return build("neg", {build("sin", {x})});
      case TENON_S_TANH:  // 1 - r * r would lose digits where r is close to 1
        return build("mul", {build("sub", {of(1), r}), build("add", {of(1), r})});
      case TENON_S_LOGISTIC:
        return build("mul", {r, build("logistic", {build("neg", {x})})});
      case TENON_S_ERF:
      case TENON_S_ERFC:
        return bell(x, s.opcode == TENON_S_ERF ? 2 : -2);
      case TENON_S_ERF_INV:
        return build("mul",
                     {of(0.5 / std::numbers::inv_sqrtpi), build("exp", {build("mul", {r, r})})});
      case TENON_S_LGAMMA:
        return build("digamma", {x});
      case TENON_S_DIGAMMA:
        return b_.build("polygamma", {x}, {{"order", 1}});
      case TENON_S_BITCAST_RESULT:
        refuse(s, "");
        return {};
      default:  // steps: sign, floor, is_nan and others
        return {};
    }
  }
  // height / sqrt(pi) * exp(-x * x)
  Value bell(Value x, double height) {
    const Value scale = b_.full(x.dtype(), program_.dims(), height * std::numbers::inv_sqrtpi);
    return build("mul", {scale, build("exp", {build("neg", {build("mul", {x, x})})})});
  }

  Slope binary(const Step& s, int at, const Slope& dx, const Slope& dy) {
    const auto x = [&] { return program_.value(s.x); };
    const auto y = [&] { return program_.value(s.y); };
    switch (s.opcode) {
      case TENON_S_ADD:
        return sum(dx, dy, at);
      case TENON_S_SUB:
        return sum(dx, negated(dy, s.y), at);
      case TENON_S_MUL:
        return sum(dx.is_zero() ? Slope() : scaled(dx, y()),
                   dy.is_zero() ? Slope() : scaled(dy, x()), at);
      case TENON_S_DIV:
        return divided(s, at, dx, dy);
      case TENON_S_REM:
        return remainder(s, at, dx, dy);
      case TENON_S_POW:
        return power(s, at, dx, dy);
      case TENON_S_ATAN2:
        return angle(s, at, dx, dy);
      case TENON_S_MAX:
        return larger(compare(x(), y(), TENON_CMP_GT), s, at, dx, dy);
      case TENON_S_MIN:
        return larger(compare(x(), y(), TENON_CMP_LT), s, at, dx, dy);
      default:  // comparisons
        return {};
    }
  }
  Slope divided(const Step& s, int at, const Slope& dx, const Slope& dy) {
    const Value y = program_.value(s.y);
    Slope left, right;
    if (!dx.is_zero()) left = Slope::of(build("div", {solid(dx, s.x), y}));
    if (!dy.is_zero()) right = scaled(dy, build("neg", {build("div", {program_.value(at), y})}));
    return sum(left, right, at);
  }
  // r = x - n * y, and n is a whole number; x / y could round to the next one.
  Slope remainder(const Step& s, int at, const Slope& dx, const Slope& dy) {
    Slope right;
    if (!dy.is_zero()) {
      const Value multiple = build("sub", {program_.value(at), program_.value(s.x)});
      right = scaled(dy, build("round_even", {build("div", {multiple, program_.value(s.y)})}));
    }
    return sum(dx, right, at);
  }
  // With respect to the base y * x^(y - 1), with respect to the exponent x^y * log(x). Where x is
  // 0, the first is 0 if y is 0, and the second is 0 if x^y is finite. There the base 1 takes the
  // place of 0, so that no infinity gets into further derivatives. For complex numbers the real
  // part of the exponent decides.
  Slope power(const Step& s, int at, const Slope& dx, const Slope& dy) {
    const Value x = program_.value(s.x), y = program_.value(s.y);
    const Value zero = number(at, 0), one = number(at, 1);
    const auto real = [&](Value v) { return is_complex_ ? build("real", {v}) : v; };
    const auto base = [&](uint32_t direction) {
      const bool ordered = direction != TENON_CMP_EQ;
      const Value in_reach =
          ordered ? compare(real(y), real(zero), direction) : compare(y, zero, direction);
      const Value exempt = build("and", {compare(x, zero, TENON_CMP_EQ), in_reach});
      return build("select", {exempt, one, x});
    };
    Slope left, right;
    if (!dx.is_zero()) {
      const Value lower = build("pow", {base(TENON_CMP_EQ), build("sub", {y, one})});
      left = scaled(dx, build("mul", {y, lower}));
    }
    if (!dy.is_zero())
      right = scaled(dy, build("mul", {program_.value(at), build("log", {base(TENON_CMP_GE)})}));
    return sum(left, right, at);
  }
  // Operand 0 is the ordinate. Two divisions, because the square of the distance could overflow.
  Slope angle(const Step& s, int at, const Slope& dx, const Slope& dy) {
    const Value x = program_.value(s.x), y = program_.value(s.y);
    const Value distance = build("hypot", {x, y});
    const auto part = [&](Value v) {
      return build("div", {build("div", {v, distance}), distance});
    };
    Slope left, right;
    if (!dx.is_zero()) left = scaled(dx, part(y));
    if (!dy.is_zero()) right = scaled(dy, build("neg", {part(x)}));
    return sum(left, right, at);
  }
  // Equal operands share the derivative.
  Slope larger(Value first, const Step& s, int at, const Slope& dx, const Slope& dy) {
    const Value tie = compare(program_.value(s.x), program_.value(s.y), TENON_CMP_EQ);
    const Slope taken = either(first, dx, dy, at);
    const Slope both = sum(dx, dy, at);
    return either(tie, scaled(both, number(at, 0.5)), taken, at);
  }

  Slope refuse(const Step& s, std::string_view of) {
    b_.note(passes::refuse(node_, "T0410",
                           cat("the instruction ", instructions::name(s.opcode), of,
                               " has none: give the op a rule")));
    return {};
  }

  Builder& b_;
  ScalarNodes& program_;
  const Node node_;
  const uint32_t operand_;
  const bool is_complex_;
  std::vector<Slope> slopes_;
};

const tenon_partial_t* override_of(const tenon_op_def_t& op, uint32_t operand) {
  if (op.rules == nullptr) return nullptr;
  for (uint32_t i = 0; i < op.rules->partial_count; ++i) {
    const tenon_partial_t* partial = tenon_op_partial(op.rules, i);
    if (partial->operand == operand) return partial;
  }
  return nullptr;
}

}  // namespace

Slope scalar_derivative(Builder& b, const Node& node, const tenon_op_def_t& op, uint32_t result,
                        uint32_t operand) {
  const tenon_partial_t* partial = result == 0 ? override_of(op, operand) : nullptr;
  if (partial != nullptr) {
    ScalarNodes program(b, node, op, {partial->scalar, partial->scalar_words});
    const int last = program.results()[0];
    const ScalarNodes::Step& step = program.steps()[static_cast<size_t>(last)];
    if (step.opcode == TENON_S_CONST_F && std::bit_cast<double>(step.immediate) == 0) return {};
    if (step.opcode == TENON_S_CONST_F && std::bit_cast<double>(step.immediate) == 1)
      return Slope::one();
    return Slope::of(program.value(last));
  }
  ScalarNodes program(b, node, op, {op.scalar, op.scalar_words});
  // Steps use the node's own result instead of computing it again, unless it was rounded to a
  // narrower type.
  for (size_t i = 0; i < program.results().size(); ++i) {
    const Value r = node.result(static_cast<uint32_t>(i));
    const bool is_wide = r.dtype() == TENON_F32 || r.dtype() == TENON_F64;
    if (is_wide || is_complex(r.dtype())) program.set(program.results()[i], r);
  }
  return ForwardChain(b, program, node, operand).of(program.results()[result]);
}

Value times(Builder& b, Value factor, const Slope& slope) {
  if (slope.is_zero()) return {};
  return slope.kind == Slope::Kind::kOne ? factor : b.build("mul", {factor, slope.value});
}

Slope conjugate(Builder& b, const Slope& slope) {
  return slope.kind == Slope::Kind::kValue ? Slope::of(b.build("conj", {slope.value})) : slope;
}

}  // namespace tenon::passes
