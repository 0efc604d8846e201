#include "extent.h"

#include <algorithm>

namespace tenon::onnx {
namespace {

int64_t wrap(uint64_t value) {
  return static_cast<int64_t>(value);
}

int64_t numbers(Arithmetic op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case Arithmetic::kAdd:
      return wrap(x + y);
    case Arithmetic::kSub:
      return wrap(x - y);
    case Arithmetic::kMul:
      return wrap(x * y);
    case Arithmetic::kDiv:
      return b == 0 ? -1 : b == -1 ? wrap(0 - x) : a / b;
    case Arithmetic::kMod: {  // ONNX: the sign of the divisor
      if (b == 0) return a;
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

// Known to be, or from now on by an assertion that is checked at every run.
bool is_positive(tenon_graph_t* graph, Dim y) {
  const Dim zero(graph, 0);
  const uint32_t answer = compare(TENON_REL_LT, zero, y);
  const tenon_host_graph_t& api = graph_api();
  return answer == TENON_YES ||
         (answer == TENON_MAYBE &&
          api.symbol_assert(api.self, graph, TENON_REL_LT, zero.raw(), y.raw()) == TENON_OK);
}

}  // namespace

std::optional<Extent> compute(tenon_graph_t* graph, Arithmetic op, const Extent& a,
                              const Extent& b) {
  if (a.is_number() && b.is_number()) return Extent::of(numbers(op, a.number, b.number));
  // A negative number is no dim: subtract its magnitude instead of adding it, and the other way
  // round.
  if (b.is_number() && b.number < 0 && b.number != INT64_MIN) {
    if (op == Arithmetic::kAdd) return compute(graph, Arithmetic::kSub, a, Extent::of(-b.number));
    if (op == Arithmetic::kSub) return compute(graph, Arithmetic::kAdd, a, Extent::of(-b.number));
  }
  if (a.is_number() && a.number < 0 && op == Arithmetic::kAdd) return compute(graph, op, b, a);
  const Dim x = a.dim(graph), y = b.dim(graph);
  if (!x.valid() || !y.valid()) return {};
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
      // Floor and truncation agree for a dividend that cannot be negative. A size that is divided by is not 0: the model
      // would have no meaning then.
      if (compare(TENON_REL_LE, Dim(graph, 0), x) != TENON_YES) return {};
      if (compare(TENON_REL_LE, Dim(graph, 0), y) != TENON_YES || !is_positive(graph, y)) return {};
      out = op == Arithmetic::kDiv ? x / y : x % y;
      break;
  }
  if (!out.valid()) return {};
  return Extent::of(out);
}

}  // namespace tenon::onnx
