// Element-wise ops, with NumPy's broadcasting.
#include <algorithm>
#include <array>
#include <limits>

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// ONNX op -> ours, for unary ops without attributes.
constexpr Names kUnary[] = {{"Abs", "abs"},           {"Neg", "neg"},
                            {"Sign", "sign"},         {"Floor", "floor"},
                            {"Ceil", "ceil"},         {"Round", "round_even"},
                            {"Sqrt", "sqrt"},         {"Exp", "exp"},
                            {"Log", "log"},           {"Sin", "sin"},
                            {"Cos", "cos"},           {"Tan", "tan"},
                            {"Asin", "asin"},         {"Acos", "acos"},
                            {"Atan", "atan"},         {"Sinh", "sinh"},
                            {"Cosh", "cosh"},         {"Asinh", "asinh"},
                            {"Acosh", "acosh"},       {"Atanh", "atanh"},
                            {"Tanh", "tanh"},         {"Sigmoid", "logistic"},
                            {"Erf", "erf"},           {"Reciprocal", "reciprocal"},
                            {"Relu", "relu"},         {"Softplus", "softplus"},
                            {"Softsign", "softsign"}, {"HardSwish", "hard_swish"},
                            {"Mish", "mish"},         {"Not", "not"},
                            {"BitwiseNot", "not"},    {"IsNaN", "is_nan"}};

constexpr Names kBinary[] = {{"Add", "add"},        {"Sub", "sub"},        {"Mul", "mul"},
                             {"Div", "div"},        {"And", "and"},        {"Or", "or"},
                             {"Xor", "xor"},        {"BitwiseAnd", "and"}, {"BitwiseOr", "or"},
                             {"BitwiseXor", "xor"}, {"Max", "max"},        {"Min", "min"},
                             {"Sum", "add"},        {"Mean", "add"}};

std::string_view ours(std::span<const Names> names, std::string_view op) {
  for (const auto& [onnx, name] : names) {
    if (onnx == op) return name;
  }
  return {};
}

// Negates known numbers.
bool try_known_opposite(NodeContext& n) {
  const bool negates = n.op() == "Neg" && n.dtype(0) == TENON_I64;
  const bool inverts = n.op() == "Not" && n.dtype(0) == TENON_PRED;
  const Extents* x = negates || inverts ? n.known(0) : nullptr;
  if (x == nullptr || n.rank(0) > 1) return false;
  Extents out;
  for (const Extent& e : *x) {
    const auto turned = negates         ? compute(n.graph(), Arithmetic::kSub, Extent::of(0), e)
                        : e.is_number() ? std::optional(Extent::of(int64_t{e.number == 0}))
                                        : opposite(n.graph(), e);
    if (!turned) return false;
    out.push_back(*turned);
  }
  return n.set_known(0, std::move(out), n.dims(0), n.dtype(0));
}

bool unary(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  if (try_known_opposite(n)) return n.ok();
  return n.set(0, n.build(ours(kUnary, n.op()), {n.value(0)}));
}

// ---- Shape arithmetic on known integers ----

std::optional<Arithmetic> arithmetic(std::string_view op) {
  constexpr std::pair<std::string_view, Arithmetic> kOps[] = {
      {"Add", Arithmetic::kAdd}, {"Sub", Arithmetic::kSub}, {"Mul", Arithmetic::kMul},
      {"Div", Arithmetic::kDiv}, {"Mod", Arithmetic::kMod}, {"Min", Arithmetic::kMin},
      {"Max", Arithmetic::kMax}};
  for (const auto& [name, found] : kOps) {
    if (name == op) return found;
  }
  return {};
}

// Whether known numbers combine element by element: one side is a single number, or the shapes are
// equal.
bool meet(NodeContext& n, const Extents& a, const Extents& b) {
  if (n.rank(0) > 1 || n.rank(1) > 1 || a.empty() || b.empty()) return false;
  return a.size() == 1 || b.size() == 1 || (a.size() == b.size() && n.dims(0) == n.dims(1));
}

// True if the result was set because both sides are known and combine.
bool try_known(NodeContext& n) {
  const auto op = arithmetic(n.op());
  if (!op || n.input_count() != 2 || n.dtype(0) != TENON_I64 || n.dtype(1) != TENON_I64)
    return false;
  const Extents* a = n.known(0);
  const Extents* b = n.known(1);
  if (a == nullptr || b == nullptr || !meet(n, *a, *b)) return false;
  Extents out;
  for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    const auto element =
        compute(n.graph(), *op, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
    if (!element) return false;
    out.push_back(*element);
  }
  Dims dims;
  if (n.rank(0) + n.rank(1) > 0) dims.push_back(n.dim(static_cast<int64_t>(out.size())));
  n.set_known(0, std::move(out), std::move(dims));
  return true;
}

// The second operand of a division. Of integers none may be 0: a constant is checked here, others
// in each run.
Value divisor(NodeContext& n) {
  const Value y = n.value(1);
  if (!is_in(n.dtype(1), kInt) || !y.valid()) return y;
  if (const auto numbers = n.constants(1)) {
    if (std::find(numbers->begin(), numbers->end(), 0) == numbers->end()) return y;
    n.fail("T0713", "it divides integers by 0");
    return Value();
  }
  const Value holds = n.build("compare", {y, n.full_like(y, 0)}, {{"direction", TENON_CMP_NE}});
  return n.checked(y, holds, "integers are divided by 0");
}

bool pairwise(NodeContext& n, std::string_view op) {
  if (!n.arity(2, 2) || !n.same_types()) return false;
  if (try_known(n)) return n.ok();
  const bool divides = n.op() == "Div" || n.op() == "Mod";
  const auto v = n.broadcast({n.value(0), divides ? divisor(n) : n.value(1)});
  return v.size() == 2 ? n.set(0, n.build(op, v)) : n.ok();
}

// Before opset 7 only the second operand was broadcast, on request, with its dims placed from
// `axis` on.
bool binary_placed(NodeContext& n) {
  const bool broadcast = n.integer("broadcast", 0) != 0;
  const bool placed = n.has_attribute("axis");
  const int64_t given = n.integer("axis", 0);
  n.integers("consumed_inputs");
  if (!n.arity(2, 2) || !n.same_types()) return false;
  Value y = n.op() == "Div" ? divisor(n) : n.value(1);
  if (broadcast && placed && y.valid()) {
    const int64_t axis = n.axis(given, n.rank(0), 1);
    if (!n.ok()) return false;
    Dims shape = n.dims(1);
    if (axis + n.rank(1) > n.rank(0))
      return n.fail("T0713", "its second input does not fit from that axis on");
    shape.resize(n.rank(0) - axis, n.dim(1));
    y = n.reshape(y, shape);
  }
  const auto v = n.broadcast({n.value(0), y});
  return v.size() == 2 ? n.set(0, n.build(ours(kBinary, n.op()), v)) : n.ok();
}

// One element of a comparison or of logic, as 1 or 0.
std::optional<Extent> truth_of(NodeContext& n, const Extent& a, const Extent& b) {
  const std::string_view op = n.op();
  tenon_graph_t* const graph = n.graph();
  const auto unless = [&](const std::optional<Extent>& e) {
    return e ? opposite(graph, *e) : std::nullopt;
  };
  if (op == "And") return compute(graph, Arithmetic::kMul, a, b);
  if (op == "Or") return compute(graph, Arithmetic::kMax, a, b);
  if (op == "Xor") return unless(is_equal(graph, a, b));
  if (op == "Equal") return is_equal(graph, a, b);
  if (op == "Less") return is_less(graph, a, b);
  if (op == "Greater") return is_less(graph, b, a);
  if (op == "LessOrEqual") return unless(is_less(graph, b, a));
  if (op == "GreaterOrEqual") return unless(is_less(graph, a, b));
  return {};
}

// Comparisons of known i64 numbers and logic on known predicates, like try_known. Exporters use
// them to distinguish -1 from real sizes, and a size of 1 from others.
bool try_known_truth(NodeContext& n) {
  const std::string_view op = n.op();
  const bool logic = op == "And" || op == "Or" || op == "Xor";
  const bool order = op == "Equal" || op.starts_with("Less") || op.starts_with("Greater");
  const tenon_dtype_t type = logic ? TENON_PRED : TENON_I64;
  if ((!logic && !order) || n.dtype(0) != type || n.dtype(1) != type) return false;
  const Extents *a = n.known(0), *b = n.known(1);
  if (a == nullptr || b == nullptr || !meet(n, *a, *b)) return false;
  Extents out;
  for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    const auto one = truth_of(n, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
    if (!one) return false;
    out.push_back(*one);
  }
  Dims dims;
  if (n.rank(0) + n.rank(1) > 0) dims.push_back(n.dim(static_cast<int64_t>(out.size())));
  return n.set_known(0, std::move(out), std::move(dims), TENON_PRED);
}

bool binary(NodeContext& n) {
  if (n.input_count() == 2 && try_known_truth(n)) return n.ok();
  return pairwise(n, ours(kBinary, n.op()));
}

bool variadic(NodeContext& n) {
  if (!n.arity(1, SIZE_MAX) || !n.same_types()) return false;
  for (size_t i = 0; i < n.input_count(); ++i) n.item(i);
  if (!n.ok()) return false;
  if (try_known(n)) return n.ok();
  std::vector<Value> values;
  for (size_t i = 0; i < n.input_count(); ++i) values.push_back(n.value(i));
  values = n.broadcast(std::move(values));
  if (values.empty()) return n.ok();
  Value out = values[0];
  for (size_t i = 1; i < values.size(); ++i) out = n.build(ours(kBinary, n.op()), {out, values[i]});
  if (n.op() == "Mean" && values.size() > 1) {
    out = n.build("div", {out, n.full_like(out, static_cast<double>(values.size()))});
  }
  return n.set(0, out);
}

bool try_known_where(NodeContext& n) {
  const Extents* parts[3];
  size_t size = 1;
  bool vector = false;
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = i == 0 || n.dtype(i) == TENON_I64 ? n.known(i) : nullptr;
    if (parts[i] == nullptr || parts[i]->empty() || n.rank(i) > 1) return false;
    if (parts[i]->size() != 1 && size != 1 && parts[i]->size() != size) return false;
    size = std::max(size, parts[i]->size());
    vector |= n.rank(i) == 1;
  }
  for (const Extent& e : *parts[0]) {
    if (!e.is_number()) return false;  // known only at run time, or from its sizes
  }
  const auto at = [&](size_t part, size_t i) {
    return (*parts[part])[parts[part]->size() == 1 ? 0 : i];
  };
  Extents out;
  for (size_t i = 0; i < size; ++i) out.push_back(at(0, i).is(0) ? at(2, i) : at(1, i));
  n.set_known(0, std::move(out), vector ? Dims{n.dim(static_cast<int64_t>(size))} : Dims());
  return true;
}

bool comparison(NodeContext& n) {
  constexpr std::pair<std::string_view, int64_t> kDirections[] = {
      {"Equal", 0}, {"Less", 2}, {"LessOrEqual", 3}, {"Greater", 4}, {"GreaterOrEqual", 5}};
  if (!n.arity(2, 2) || !n.same_types()) return false;
  if (try_known_truth(n)) return n.ok();
  const auto v = n.broadcast({n.value(0), n.value(1)});
  if (v.size() != 2) return n.ok();
  for (const auto& [name, direction] : kDirections) {
    if (name == n.op()) return n.set(0, n.build("compare", v, {{"direction", direction}}));
  }
  return false;
}

// The type that holds both operands of Pow.
tenon_dtype_t power_type(tenon_dtype_t base, tenon_dtype_t exponent) {
  if (base == exponent) return base;
  if (!is_float(base)) return is_float(exponent) ? TENON_F64 : TENON_I64;
  const bool wide = base == TENON_F64 || exponent == TENON_F64;
  return wide ? TENON_F64 : TENON_F32;
}

bool power(NodeContext& n) {
  if (n.version() < 7) n.integer("broadcast", 0);  // trailing dims only
  if (!n.arity(2, 2)) return false;
  // From opset 12 on the exponent may have another type; the result has the base's.
  const tenon_dtype_t type = power_type(n.dtype(0), n.dtype(1));
  const auto v = n.broadcast({n.convert(n.value(0), type), n.convert(n.value(1), type)});
  return v.size() == 2 ? n.set(0, n.convert(n.build("pow", v), n.dtype(0))) : n.ok();
}

bool modulo(NodeContext& n) {
  const int64_t fmod = n.integer("fmod", 0);
  if (fmod == 0 && n.version() < 28 && is_float(n.dtype(0)))
    return n.fail("T0708", "attribute 'fmod' must be 1 for floats");
  return pairwise(n, fmod != 0 ? "rem" : "floor_mod");
}

bool bit_shift(NodeContext& n) {
  const std::string_view direction = n.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return n.fail("T0708", "attribute 'direction' must be LEFT or RIGHT");
  return pairwise(n, direction == "LEFT"          ? "shl"
                     : is_in(n.dtype(0), kSigned) ? "shr_arith"
                                                  : "shr_logical");
}

bool where(NodeContext& n) {
  if (!n.arity(3, 3) || !n.same_types(1)) return false;
  if (try_known_where(n)) return n.ok();
  const auto v = n.broadcast({n.value(0), n.value(1), n.value(2)});
  return v.size() == 3 ? n.set(0, n.build("select", v)) : n.ok();
}

// ---- Activations with attributes ----

bool leaky_relu(NodeContext& n) {
  return n.arity(1, 1) &&
         n.set(0, n.build("leaky_relu", {n.value(0)}, {{"alpha", n.number("alpha", 0.01f)}}));
}
bool elu(NodeContext& n) {
  return n.arity(1, 1) &&
         n.set(0, n.build("elu", {n.value(0)}, {{"alpha", n.number("alpha", 1.0)}}));
}
bool celu(NodeContext& n) {
  return n.arity(1, 1) &&
         n.set(0, n.build("celu", {n.value(0)}, {{"alpha", n.number("alpha", 1.0)}}));
}
bool selu(NodeContext& n) {
  const double alpha = n.number("alpha", 1.67326319217681884765625);
  const double gamma = n.number("gamma", 1.05070102214813232421875);
  return n.arity(1, 1) &&
         n.set(0, n.build("selu", {n.value(0)}, {{"alpha", alpha}, {"gamma", gamma}}));
}
bool hard_sigmoid(NodeContext& n) {
  const double alpha = n.number("alpha", 0.2f), beta = n.number("beta", 0.5);
  return n.arity(1, 1) &&
         n.set(0, n.build("hard_sigmoid", {n.value(0)}, {{"alpha", alpha}, {"beta", beta}}));
}
bool thresholded_relu(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const Value x = n.value(0);
  const Value above =
      n.build("compare", {x, n.full_like(x, n.number("alpha", 1.0))}, {{"direction", 4}});
  return n.set(0, n.build("select", {above, x, n.full_like(x, 0)}));
}
bool prelu(NodeContext& n) {
  if (!n.arity(2, 2) || !n.same_types()) return false;
  Value slope = n.value(1);
  if (n.version() < 7 && n.rank(1) == 1 && n.rank(0) > 1) {
    // One slope per channel.
    Dims shape(n.rank(0) - 1, n.dim(1));
    shape[0] = n.dims(1)[0];
    slope = n.reshape(slope, shape);
  }
  return n.set(0, n.build("prelu", {n.value(0), n.broadcast_to(slope, n.dims(0))}));
}
bool gelu(NodeContext& n) {
  const std::string_view form = n.text("approximate", "none");
  if (form != "none" && form != "tanh")
    return n.fail("T0708", "attribute 'approximate' must be none or tanh");
  return n.arity(1, 1) && n.set(0, n.build(form == "tanh" ? "gelu_tanh" : "gelu", {n.value(0)}));
}
bool swish(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const double alpha = n.number("alpha", 1.0);
  const Value x = n.value(0);
  if (alpha == 1.0) return n.set(0, n.build("silu", {x}));
  return n.set(
      0, n.build("mul", {x, n.build("logistic", {n.build("mul", {x, n.full_like(x, alpha)})})}));
}

bool shrink(NodeContext& n) {
  const double lambda = n.number("lambd", 0.5), bias = n.number("bias", 0);
  if (!n.arity(1, 1)) return false;
  const Value x = n.value(0);
  if (!x.valid()) return n.ok();
  const Value below = n.build("compare", {x, n.full_like(x, -lambda)}, {{"direction", 2}});
  const Value above = n.build("compare", {x, n.full_like(x, lambda)}, {{"direction", 4}});
  const Value up = n.build("add", {x, n.full_like(x, bias)});
  const Value down = n.build("sub", {x, n.full_like(x, bias)});
  const Value rest = n.build("select", {above, down, n.full_like(x, 0)});
  return n.set(0, n.build("select", {below, up, rest}));
}

bool is_inf(NodeContext& n) {
  const bool negative = n.integer("detect_negative", 1) != 0,
             positive = n.integer("detect_positive", 1) != 0;
  if (!n.arity(1, 1)) return false;
  const Value x = n.value(0);
  if (negative && positive) return n.set(0, n.build("is_inf", {x}));
  const double bound = std::numeric_limits<double>::infinity();
  if (!negative && !positive) return n.set(0, n.build("compare", {x, x}, {{"direction", 2}}));
  return n.set(
      0, n.build("compare", {x, n.full_like(x, negative ? -bound : bound)}, {{"direction", 0}}));
}

// ---- Clip ----

// Constant bounds become attributes, which are doubles: they hold the values of all types but large
// 64-bit integers. Other bounds become max and min.
bool clip_bounds(NodeContext& n, std::optional<double> low, std::optional<double> high) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return n.set(0, n.build("clamp", {n.value(0)},
                          {{"min", low.value_or(-kInfinity)}, {"max", high.value_or(kInfinity)}}));
}

bool clip_attributes(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  std::optional<double> low, high;
  if (n.has_attribute("min")) low = n.number("min", 0);
  if (n.has_attribute("max")) high = n.number("max", 0);
  return clip_bounds(n, low, high);
}

bool clip(NodeContext& n) {
  if (!n.arity(1, 3) || !n.same_types()) return false;
  const auto low = n.constant(1), high = n.constant(2);
  const bool exact = is_float(n.dtype(0)) || dtype_bytes(n.dtype(0)) < 8;
  if (exact && (!n.has(1) || low) && (!n.has(2) || high)) return clip_bounds(n, low, high);
  Value out = n.value(0);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!n.has(i)) continue;
    const Value bound = n.broadcast_to(n.reshape(n.value(i), {}), n.dims(0));
    out = n.build(i == 1 ? "max" : "min", {out, bound});
  }
  return n.set(0, out);
}

// ---- Types ----

bool cast_to(NodeContext& n, tenon_dtype_t to) {
  if (to == TENON_DTYPE_NONE || to == TENON_F8E4M3FN || to == TENON_F8E5M2)
    return n.fail("T0710", "it converts to an element type that is not supported");
  const Extents* elements = n.known(0);
  // A condition on sizes stays known as a number.
  if (elements != nullptr && n.dtype(0) == TENON_PRED && (to == TENON_I64 || to == TENON_I32) &&
      n.rank(0) <= 1)
    return n.set_known(0, *elements, n.dims(0), to);
  if (elements != nullptr && n.dtype(0) == TENON_I64 && (to == TENON_I64 || to == TENON_I32) &&
      n.rank(0) <= 1) {
    // Shape arithmetic stays known through the casts that exporters insert.
    bool fits = true;
    for (const Extent& e : *elements)
      fits &= to == TENON_I64 || !e.is_number() || static_cast<int32_t>(e.number) == e.number;
    if (fits) return n.set_known(0, *elements, n.dims(0), to);
  }
  if (elements != nullptr && n.dtype(0) == TENON_I32 && to == TENON_I64 && n.rank(0) <= 1) {
    return n.set_known(0, *elements, n.dims(0), to);
  }
  return n.set(
      0, n.dtype(0) == to ? n.value(0) : n.build("convert", {n.value(0)}, {{"dtype", dtype(to)}}));
}

// Attributes that say something about types alone which no cast here gives.
void read_narrow_modes(NodeContext& n) {
  n.integer("saturate", 1);  // of 8-bit floats
  n.text("round_mode", "");  // of powers of two
}

bool cast(NodeContext& n) {
  read_narrow_modes(n);
  if (!n.arity(1, 1)) return false;
  if (!n.has_attribute("to")) return n.fail("T0708", "attribute 'to' is missing");
  const int64_t to = n.integer("to", 0);
  return n.ok() && cast_to(n, to > 0 && to < 1000 ? dtype_of_onnx(static_cast<int32_t>(to))
                                                  : tenon_dtype_t{TENON_DTYPE_NONE});
}
bool cast_like(NodeContext& n) {
  read_narrow_modes(n);
  return n.arity(2, 2) && cast_to(n, n.dtype(1));
}

bool identity(NodeContext& n) {
  return n.arity(1, 1) && n.set(0, n.item(0));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Abs", 6, unary},
    {"Neg", 6, unary},
    {"Sign", 9, unary},
    {"Floor", 6, unary},
    {"Ceil", 6, unary},
    {"Round", 11, unary},
    {"Sqrt", 6, unary},
    {"Exp", 6, unary},
    {"Log", 6, unary},
    {"Sin", 7, unary},
    {"Cos", 7, unary},
    {"Tan", 7, unary},
    {"Asin", 7, unary},
    {"Acos", 7, unary},
    {"Atan", 7, unary},
    {"Sinh", 9, unary},
    {"Cosh", 9, unary},
    {"Asinh", 9, unary},
    {"Acosh", 9, unary},
    {"Atanh", 9, unary},
    {"Tanh", 6, unary},
    {"Sigmoid", 6, unary},
    {"Erf", 9, unary},
    {"Reciprocal", 6, unary},
    {"Relu", 6, unary},
    {"Softplus", 1, unary},
    {"Softsign", 1, unary},
    {"HardSwish", 14, unary},
    {"Mish", 18, unary},
    {"Not", 1, unary},
    {"BitwiseNot", 18, unary},
    {"IsNaN", 9, unary},
    {"Add", 6, binary_placed},
    {"Sub", 6, binary_placed},
    {"Mul", 6, binary_placed},
    {"Div", 6, binary_placed},
    {"And", 1, binary_placed},
    {"Or", 1, binary_placed},
    {"Xor", 1, binary_placed},
    {"Add", 7, binary},
    {"Sub", 7, binary},
    {"Mul", 7, binary},
    {"Div", 7, binary},
    {"And", 7, binary},
    {"Or", 7, binary},
    {"Xor", 7, binary},
    {"BitwiseAnd", 18, binary},
    {"BitwiseOr", 18, binary},
    {"BitwiseXor", 18, binary},
    {"Max", 6, variadic},
    {"Min", 6, variadic},
    {"Sum", 6, variadic},
    {"Mean", 6, variadic},
    {"Equal", 7, comparison},
    {"Less", 7, comparison},
    {"LessOrEqual", 12, comparison},
    {"Greater", 7, comparison},
    {"GreaterOrEqual", 12, comparison},
    {"Pow", 1, power},
    {"Mod", 10, modulo},
    {"BitShift", 11, bit_shift},
    {"Where", 9, where},
    {"LeakyRelu", 6, leaky_relu},
    {"Elu", 6, elu},
    {"Celu", 12, celu},
    {"Selu", 6, selu},
    {"HardSigmoid", 6, hard_sigmoid},
    {"ThresholdedRelu", 10, thresholded_relu},
    {"PRelu", 6, prelu},
    {"Gelu", 20, gelu},
    {"Swish", 24, swish},
    {"IsInf", 10, is_inf},
    {"Shrink", 9, shrink},
    {"Clip", 6, clip_attributes},
    {"Clip", 11, clip},
    {"Cast", 6, cast},
    {"CastLike", 15, cast_like},
    {"Identity", 1, identity},
});

}  // namespace

std::span<const OpImporter> elementwise_importers() {
  return kTable;
}

}  // namespace tenon::onnx
