#include "tests/random/runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sdk/tools/support/tensors.h"

namespace tenon::random_tests {

using tools::Dense;

int64_t Tensor::count() const {
  return Dense{dtype, dims, nullptr}.count();
}

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// |a - b|: infinite for a NaN, for different integers, and for complex numbers whose difference is
// not finite in some part.
double distance(const Dense& a, const Dense& b, int64_t i) {
  const uint32_t size = dtype_bytes(b.dtype);
  if (std::memcmp(a.data + i * size, b.data + i * size, size) == 0) return 0;
  if (b.dtype == TENON_C64 || b.dtype == TENON_C128) {
    const tenon_dtype_t part = b.dtype == TENON_C64 ? TENON_F32 : TENON_F64;
    return std::max(distance({part, {}, a.data + i * size}, {part, {}, b.data + i * size}, 0),
                    distance({part, {}, a.data + i * size}, {part, {}, b.data + i * size}, 1));
  }
  if (!is_float(b.dtype)) return kInfinite;
  const double apart = std::fabs(tools::element(a, i) - tools::element(b, i));  // both zeros agree
  return std::isnan(apart) ? kInfinite : apart;
}

// By how much an element exceeds the allowed error; 0 if it agrees.
double excess(const Dense& found, const Tensor& expected, const Dense& wanted, int64_t i) {
  const double allowed =
      expected.allowed == nullptr ? 0 : (*expected.allowed)[static_cast<size_t>(i)];
  return std::max(distance(found, wanted, i) - allowed, 0.0);
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
  const double allowed =
      expected.allowed == nullptr ? 0 : (*expected.allowed)[static_cast<size_t>(worst)];
  return fmt::format("{} {}: {} instead of {} at {}, {:.3g} is allowed ({} of {} differ)", name,
                     tools::type_text(b), tools::element_text(a, worst),
                     tools::element_text(b, worst), tools::index_text(b.dims, worst), allowed,
                     count, b.count());
}

}  // namespace tenon::random_tests
