#include "frontends/onnx/graph/extent.h"

#include <algorithm>

namespace tenon::onnx {
namespace {

int64_t wrap(uint64_t value) {
  return static_cast<int64_t>(value);
}

std::optional<int64_t> numbers(Arithmetic op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case Arithmetic::kAdd:
      return wrap(x + y);
    case Arithmetic::kSub:
      return wrap(x - y);
    case Arithmetic::kMul:
      return wrap(x * y);
    case Arithmetic::kDiv:
      if (b == 0) return {};
      return b == -1 ? wrap(0 - x) : a / b;
    case Arithmetic::kMod: {  // ONNX: the sign of the divisor
      if (b == 0) return {};
      if (b == -1) return 0;
      const int64_t rest = a % b;
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case Arithmetic::kMin:
      return std::min(a, b);
    case Arithmetic::kMax:
      return std::max(a, b);
  }
  return 0;
}

// A negative constant is not stored inline in a Dim, so this asks the graph.
std::optional<int64_t> constant_of(Dim d) {
  if (d.is_constant()) return d.constant();
  auto view = sized<tenon_dim_view_t>();
  const tenon_host_graph_t& api = graph_api();
  if (api.dim_view(api.self, d.graph(), d.raw(), &view) != TENON_OK ||
      view.op != TENON_DIM_CONSTANT)
    return {};
  return view.constant;
}

// Whether y is known to be positive; if that is undecided, asserts it for every run.
bool is_positive(tenon_graph_t* graph, Dim y) {
  const Dim zero(graph, 0);
  const uint32_t answer = compare(TENON_REL_LT, zero, y);
  const tenon_host_graph_t& api = graph_api();
  return answer == TENON_YES ||
         (answer == TENON_MAYBE &&
          api.symbol_assert(api.self, graph, TENON_REL_LT, zero.raw(), y.raw()) == TENON_OK);
}

bool surely_at_most(Dim a, Dim b) {
  return compare(TENON_REL_LE, a, b) == TENON_YES;
}

// Quotient rounded towards zero. If the sign of x is unknown, divides the positive and the negative
// part, one of which is 0, and subtracts.
Dim truncated(tenon_graph_t* graph, Dim x, Dim y) {
  const Dim zero(graph, 0);
  if (surely_at_most(zero, x)) return x / y;
  if (surely_at_most(x, zero)) return zero - (zero - x) / y;
  return max(x, zero) / y - max(zero - x, zero) / y;
}

}  // namespace

bool is_natural(tenon_graph_t* graph, const Extent& e) {
  return e.is_number() ? e.number >= 0 : surely_at_most(Dim(graph, 0), *e.symbolic);
}

Dim at_least_zero(tenon_graph_t* graph, Dim d) {
  const Dim zero(graph, 0);
  return surely_at_most(zero, d) ? d : max(zero, d);
}

std::optional<Extent> compute(tenon_graph_t* graph, Arithmetic op, const Extent& a,
                              const Extent& b) {
  if (a.is_number() && b.is_number()) {
    const auto number = numbers(op, a.number, b.number);
    return number ? std::optional(Extent::of(*number)) : std::nullopt;
  }
  const Dim x = a.signed_dim(graph), y = b.signed_dim(graph);
  Dim out = Dim::invalid();
  switch (op) {
    case Arithmetic::kAdd:
      out = x + y;
      break;
    case Arithmetic::kSub:
      out = x - y;
      break;
    case Arithmetic::kMul:
      out = x * y;
      break;
    case Arithmetic::kMin:
      out = min(x, y);
      break;
    case Arithmetic::kMax:
      out = max(x, y);
      break;
    case Arithmetic::kDiv:
    case Arithmetic::kMod:
      // A divisor that is a size is not 0: the model would be meaningless.
      if (!is_natural(graph, b) || !is_positive(graph, y)) return {};
      out = op == Arithmetic::kDiv ? truncated(graph, x, y) : x % y;
      break;
  }
  if (!out.valid()) return {};
  if (const auto number = constant_of(out)) return Extent::of(*number);
  return Extent::of(out);
}

namespace {

std::optional<Extent> truth(Dim d) {
  if (!d.valid()) return {};
  return Extent::of(d);
}

}  // namespace

std::optional<Extent> is_equal(tenon_graph_t* graph, const Extent& a, const Extent& b) {
  if (a.is_number() && b.is_number()) return Extent::of(int64_t{a.number == b.number});
  const Dim x = a.signed_dim(graph), y = b.signed_dim(graph), one(graph, 1);
  const uint32_t answer = compare(TENON_REL_EQ, x, y);
  if (answer != TENON_MAYBE) return Extent::of(int64_t{answer == TENON_YES});
  return truth(one - min(one, max(x - y, y - x)));
}

std::optional<Extent> is_less(tenon_graph_t* graph, const Extent& a, const Extent& b) {
  if (a.is_number() && b.is_number()) return Extent::of(int64_t{a.number < b.number});
  const Dim x = a.signed_dim(graph), y = b.signed_dim(graph), one(graph, 1);
  const uint32_t answer = compare(TENON_REL_LT, x, y);
  if (answer != TENON_MAYBE) return Extent::of(int64_t{answer == TENON_YES});
  return truth(min(one, max(Dim(graph, 0), y - x)));
}

std::optional<Extent> opposite(tenon_graph_t* graph, const Extent& truth_of) {
  return compute(graph, Arithmetic::kSub, Extent::of(int64_t{1}), truth_of);
}

}  // namespace tenon::onnx
