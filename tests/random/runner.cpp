#include "tests/random/runner.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/tools/tensors.h"

namespace tenon::random_tests {

using tools::Dense;

int64_t Tensor::count() const { return Dense{dtype, dims, nullptr}.count(); }

namespace {

// How far an element is beyond what is allowed: 0 when it agrees, infinite for a NaN or another integer.
double excess(const Dense& found, const Tensor& expected, const Dense& wanted, int64_t i) {
  const uint32_t size = dtype_bytes(expected.dtype);
  if (std::memcmp(found.data + i * size, wanted.data + i * size, size) == 0) return 0;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (!is_float(expected.dtype)) return kInfinite;
  const double a = tools::element(found, i), b = tools::element(wanted, i);
  const double allowed = expected.allowed == nullptr ? 0 : (*expected.allowed)[static_cast<size_t>(i)];
  const double beyond = std::fabs(a - b) - allowed;  // both zeros agree
  if (std::isnan(beyond)) return kInfinite;
  return beyond > 0 ? beyond : 0;
}

}  // namespace

std::string difference(const std::string& name, const Tensor& expected, const void* found) {
  const Dense a{expected.dtype, expected.dims, static_cast<const unsigned char*>(found)};
  const Dense b{expected.dtype, expected.dims, expected.bytes->data()};
  int64_t worst = -1, count = 0;
  double worst_excess = 0;
  for (int64_t i = 0, n = b.count(); i < n; ++i) {
    const double beyond = excess(a, expected, b, i);
    if (beyond == 0) continue;
    ++count;
    if (beyond > worst_excess) {
      worst_excess = beyond;
      worst = i;
    }
  }
  if (count == 0) return "";
  const double allowed = expected.allowed == nullptr ? 0 : (*expected.allowed)[static_cast<size_t>(worst)];
  return fmt::format("{} {}: {} instead of {} at {}, {:.3g} is allowed ({} of {} differ)", name, tools::type_text(b),
                     tools::element_text(a, worst), tools::element_text(b, worst), tools::index_text(b.dims, worst),
                     allowed, count, b.count());
}

}  // namespace tenon::random_tests
