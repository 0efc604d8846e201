#include "tests/interpreter/agreement.h"

#include <algorithm>
#include <cmath>

namespace tenon::interpreter {
namespace {

// Relative to results and to their operands, because sums may cancel.
struct Tolerance {
  double of_results, of_operands;
};
Tolerance tolerance(DType t) {
  switch (t) {
    case TENON_F16:
      return {4e-3, 2e-3};
    case TENON_BF16:
      return {3e-2, 1.6e-2};
    case TENON_F32:
      return {1e-4, 1e-5};
    default:
      return {1e-9, 1e-12};
  }
}

// A few changes do not show the worst one.
constexpr double kSpreads = 8;

std::string text(DType t, Reg x) {
  return kernelgen::is_float(t) ? std::to_string(x.f) : std::to_string(x.i);
}

}  // namespace

double magnitude_of(const Memory& memory) {
  double most = 0;
  if (!kernelgen::is_float(memory.type)) return 0;
  for (const Cell& c : memory.cells) {
    if (c.name != kNotStored && std::isfinite(c.value.f))
      most = std::max(most, std::fabs(c.value.f));
  }
  return most;
}

DType computed_type(const kernelgen::Kernel& kernel) {
  double most = 0;
  DType out = TENON_F64;
  for (kernelgen::ExprId e = 1; e < kernel.pool.size(); ++e) {
    const DType t = kernel.pool.type(e);
    if (!kernelgen::is_float(t) || tolerance(t).of_results <= most) continue;
    most = tolerance(t).of_results;
    out = t;
  }
  return out;
}

std::string disagreement(const Memory& found, const Memory& expected, double magnitude,
                         DType computed, std::span<const double> spread) {
  const bool floats = kernelgen::is_float(expected.type);
  const Tolerance t = tolerance(computed);
  const double allowed =
      floats ? t.of_results * magnitude_of(expected) + t.of_operands * magnitude : 0;
  for (size_t i = 0; i < expected.cells.size(); ++i) {
    const Cell &a = found.cells[i], &b = expected.cells[i];
    const std::string where = " element " + std::to_string(i);
    if ((a.name == kNotStored) != (b.name == kNotStored))
      return where + (a.name == kNotStored ? " is not stored" : " is stored, and should not be");
    if (b.name == kNotStored) continue;
    const bool same = floats ? a.value.f == b.value.f ||
                                   (std::isnan(a.value.f) && std::isnan(b.value.f)) ||
                                   std::fabs(a.value.f - b.value.f) <=
                                       allowed + (spread.empty() ? 0 : kSpreads * spread[i])
                             : a.value.i == b.value.i;
    if (!same)
      return where + " is " + text(expected.type, a.value) + " instead of " +
             text(expected.type, b.value);
  }
  return "";
}

}  // namespace tenon::interpreter
