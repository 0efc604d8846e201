// The size that estimates assume for a dim which only a run knows. The host's placement, the costs
// that devices state and the decisions of kernelgen ask this one function, so that they speak of
// the same program. It affects speed only. In a namespace of its own, for the core uses it too.
#ifndef TENON_CPP_LIKELY_SIZE_HPP_
#define TENON_CPP_LIKELY_SIZE_HPP_

#include <algorithm>
#include <cstdint>

namespace tenon::sizes {

// The hint; without one (0 or less) a middling number within the bounds. Not 1: what is decided for
// 1 is bad for every other size, and a program that were as small would take no time either way.
constexpr int64_t likely_size(int64_t hint, int64_t lo, int64_t hi) {
  constexpr int64_t kMiddling = 256;
  if (hint > 0) return hint;
  lo = std::max<int64_t>(lo, 0);
  return std::clamp(kMiddling, std::min(lo, hi), std::max(lo, hi));
}

}  // namespace tenon::sizes
#endif
